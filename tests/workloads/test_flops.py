"""FLOPs of matrix products, convolutions and attention against PyTorch's own counter, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from lightloom.models.graph import TENSOR_KINDS
from lightloom.models.torch.frame import tensors_in
from lightloom.models.torch.trace import trace
from lightloom.models.zoo import ZOO, resolve

from .models import Tricky, Vision, small_mixture

NAMES = ("alexnet", "hdc")
LARGER = (
    "googlenet-2014",
    "optinc-llama",
    "resnet50",
    "transformer-big",
    "gpt2-355m",
    "vgg16",
    "googlenet",
    "inception-v3",
    "resnet50-2015",
    "densenet121",
)
"""Of the same operators as those above."""


def from_zoo(name: str) -> Callable[[], nn.Module]:
    return partial(resolve(ZOO[name].path), **ZOO[name].arguments)


FACTORIES: dict[str, Callable[[], nn.Module]] = {name: from_zoo(name) for name in NAMES} | {
    "mixture": small_mixture,
    "tricky": Tricky,
    "vision": Vision,
}
BATCH = 3


def counted(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[int, int]:
    """What PyTorch counts forward and backward."""
    with torch.device("meta"), FlopCounterMode(display=False) as forward:
        outputs = [output.sum() for output in tensors_in(module(*inputs))]
    with torch.device("meta"), FlopCounterMode(display=False) as backward:
        torch.stack(outputs).sum().backward()  # type: ignore[no-untyped-call]
    return forward.get_total_flops(), backward.get_total_flops()


def ours(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[int, int]:
    """What the tracer counts on the operators that PyTorch's counter knows."""
    graph = trace(module, inputs, batch=BATCH, name="test")
    known = [operator for operator in graph.operators if operator.kind in TENSOR_KINDS]
    return sum(op.forward_flops for op in known), sum(op.backward_flops for op in known)


def built(factory: Callable[[], nn.Module]) -> tuple[nn.Module, tuple[Tensor, ...]]:
    with torch.device("meta"):
        module: Any = factory()
        return module, module.example_inputs(BATCH)


@pytest.mark.parametrize(
    "factory",
    [
        *(pytest.param(factory, id=name) for name, factory in FACTORIES.items()),
        *(pytest.param(from_zoo(name), id=name, marks=pytest.mark.slow) for name in LARGER),
    ],
)
def test_agrees_with_the_flop_counter(factory: Callable[[], nn.Module]) -> None:
    assert ours(*built(factory)) == counted(*built(factory))


def test_grouped_convolutions_are_counted_once_per_weight() -> None:
    """PyTorch's counter forgets the groups in the gradient of a weight, so only there may it differ, and only
    upwards."""
    grouped_alexnet = from_zoo("alexnet-2012")
    mine, theirs = ours(*built(grouped_alexnet)), counted(*built(grouped_alexnet))
    assert mine[0] == theirs[0]
    grouped = sum(
        operator.forward_flops
        for operator in trace(*built(grouped_alexnet), batch=BATCH, name="test").operators
        if operator.dimensions.get("groups") == 2
    )
    assert theirs[1] - mine[1] == grouped  # twice the work, for the three convolutions in two groups
