"""Adds one ATen call to the frame of the torch function that makes it: FLOPs, rows looked up, missing rules."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from lightloom.workloads.operator_words import is_move
from lightloom.workloads.torch.flops import elements, has_rule, looked_up, product
from lightloom.workloads.torch.frame import Frame, Origins, key_of

_WITHOUT_GRADIENT = ("_scaled_mm", "_scaled_grouped_mm")


class Call(NamedTuple):
    """One ATen call that computes something, after it has returned."""

    function: Any
    """The overload, such as ``torch.ops.aten.mm.default``."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    operands: list[Tensor]
    """All tensors among its arguments, nested ones included, in their order."""
    outputs: list[Tensor]
    """All tensors that it returned; operands too where it works in place."""


def account(frame: Frame, origins: Origins, call: Call) -> None:
    """Add the FLOPs of a call, unless it only computes a constant."""
    if all(origins.of(frame, tensor).constant for tensor in call.operands):
        return
    name = call.function._schema.name.split("::")[-1]
    frame.calls.append(name)
    cost = product(name, call.args, call.operands, call.outputs[0]) if call.outputs else None
    if cost is not None:
        frame.products.append((name, cost, call.args))
        frame.product_backward += cost.flops * sum(_needs_gradient(name, origins, t) for t in cost.operands)
    elif not is_move(name):
        rows = looked_up(name, call.args)
        size = rows or elements([*call.operands, *call.outputs])
        frame.looked_up += rows
        frame.forward += size
        frame.backward += size * any(tensor.requires_grad for tensor in call.operands)
        if not has_rule(call.function) and any(_is_matrix(frame, origins, tensor) for tensor in call.operands):
            frame.unknown.append(call.function._schema.name)


def _needs_gradient(name: str, origins: Origins, operand: Tensor) -> bool:
    """Whether a product's operand gets a gradient.

    Scaled products have no gradient of their own: they lie in functions that give it, where no tensor asks for one, so
    that everything which follows from a parameter or a sample counts.
    """
    if not name.startswith(_WITHOUT_GRADIENT) or operand.requires_grad:
        return operand.requires_grad
    origin = origins.get(key_of(operand))
    return origin is None or not origin.constant


def _is_matrix(frame: Frame, origins: Origins, tensor: Tensor) -> bool:
    """Whether an operand is a parameter, or a view of one, with at least two axes."""
    return origins.of(frame, tensor).parameter is not None and sum(size > 1 for size in tensor.shape) > 1
