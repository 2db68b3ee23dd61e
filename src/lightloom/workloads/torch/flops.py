"""FLOPs of one ATen call, from the table of operators: a product's, and those of any other arithmetic.

A product's backward pass does the same again for each of its operands that needs a gradient. Other arithmetic: one FLOP
for each element of its largest tensor, forward, and once more backward where a gradient flows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lightloom.workloads import operator_words


class Product(NamedTuple):
    """A multiply-accumulate call: FLOPs forward, its two operands, and the length of the sums."""

    flops: int
    operands: tuple[Tensor, ...]
    summed: int


_ELEMENTWISE = (torch.Tag.pointwise, torch.Tag.reduction)
_BAGS = ("_embedding_bag", "_embedding_bag_forward_only")


def has_rule(function: Any) -> bool:
    """Whether one FLOP for each element is what a call does, or the table says what it does."""
    return operator_words.has_rule(function._schema.name) or any(tag in function.tags for tag in _ELEMENTWISE)


def looked_up(name: str, args: Sequence[Any]) -> int:
    """Return the elements of the rows that a bag of embeddings looks up and adds, 0 for other calls."""
    return int(args[1].numel() * args[0].shape[1]) if name in _BAGS else 0


def product(name: str, args: Sequence[Any], operands: Sequence[Tensor], output: Tensor) -> Product | None:
    """Return the cost of a call if it is a matrix product or convolution.

    Args:
        name: of the ATen call.
        args: its positional arguments.
        operands: the tensors among its arguments, in their order.
        output: the first tensor that it returns.
    """
    values = [argument for argument in args if not isinstance(argument, Tensor)]
    cost = operator_words.product(name, [tuple(tensor.shape) for tensor in operands], tuple(output.shape), values)
    return cost and Product(cost.flops, tuple(operands[place] for place in cost.operands), cost.summed)


def elements(tensors: Sequence[Tensor]) -> int:
    """Return the FLOPs of any other arithmetic: the elements of the largest tensor."""
    return max((tensor.numel() for tensor in tensors), default=0)
