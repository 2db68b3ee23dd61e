"""What a graph says that autograd keeps, against PyTorch's own hooks; checkpointed regions against its FLOP counter."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from lightloom.models.graph import TENSOR_KINDS, ComputeGraph
from lightloom.models.torch.trace import trace
from lightloom.models.zoo import ZOO, resolve

from .kept import bytes_kept
from .models import Vision, small_mixture

BATCH = 4
ZOO_NAMES = ("alexnet", "resnet50", "hdc", "optinc-llama")


def zoo(name: str) -> tuple[Any, Any]:
    module: Any = partial(resolve(ZOO[name].path), **ZOO[name].arguments)()
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return module, module.example_inputs(BATCH)


def small(model: Any) -> tuple[Any, Any]:
    module: Any = model()
    return module, module.example_inputs(BATCH)


ATTENDING = ("optinc-llama", "vision", "mixture")
BUILDERS = {name: partial(zoo, name) for name in ZOO_NAMES} | {
    "vision": partial(small, Vision),
    "mixture": partial(small, small_mixture),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in ("resnet50", "optinc-llama") else ()) for name in BUILDERS],
)
def test_as_much_is_kept_as_autograd_keeps(name: str) -> None:
    build = BUILDERS[name]
    with torch.device("meta"):
        module, inputs = build()
    graph = trace(module, inputs, batch=BATCH, name=name)
    # A norm by root mean squares is one kernel here and three on a processor, which lays attention's output out anew.
    assert graph.saved_bytes == pytest.approx(bytes_kept(module, inputs), rel=0.12 if name in ATTENDING else 1e-3)


def block(width: int = 16) -> nn.Sequential:
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Blocks(nn.Module):
    """Two residual blocks, checkpointed or not."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([block(), block()])
        self.mode = mode

    def forward(self, x: Tensor) -> Tensor:
        for part in self.blocks:
            if self.mode == "none":
                x = x + part(x)
            else:
                x = x + checkpoint(part, x, use_reentrant=self.mode == "reentrant")
        return x


def graph_of(mode: str) -> ComputeGraph:
    return trace(Blocks(mode), torch.zeros(BATCH, 5, 16, requires_grad=True), batch=BATCH, name=mode)


@pytest.mark.parametrize("mode", ["none", "reentrant", "free"])
def test_checkpointed_regions_repeat_their_forward_pass(mode: str) -> None:
    graph = graph_of(mode)
    module = Blocks(mode)
    with FlopCounterMode(display=False) as forward:
        out = module(torch.zeros(BATCH, 5, 16, requires_grad=True))
    with FlopCounterMode(display=False) as backward:
        out.sum().backward()
    products = [operator for operator in graph.operators if operator.kind in TENSOR_KINDS]
    assert sum(operator.forward_flops for operator in products) == forward.get_total_flops()
    assert sum(operator.backward_flops for operator in products) == backward.get_total_flops()
    assert {operator.checkpoint for operator in products} == (
        {""} if mode == "none" else {"checkpoint", "checkpoint#2"}
    )


def test_checkpointed_regions_keep_what_enters_them_and_one_is_made_anew() -> None:
    """x and the sums enter; one block in work keeps norm (and its statistics), up, gelu: 1 + 4 + 4 widths."""
    whole, free = graph_of("none"), graph_of("free")
    width = BATCH * 5 * 16 * 4
    throughout = sum(operator.kept_bytes for operator in free.operators)
    assert throughout == 2 * width
    statistics = 2 * BATCH * 5 * 4
    assert free.saved_bytes == throughout + 9 * width + statistics
    assert whole.saved_bytes == throughout + 2 * (9 * width + statistics)


@pytest.mark.parametrize("mode", ["none", "free"])
def test_what_is_kept_grows_with_the_batch(mode: str) -> None:
    graph = graph_of(mode)
    assert graph.with_batch(3 * BATCH).saved_bytes == 3 * graph.saved_bytes
    assert graph.with_element_bytes(2).saved_bytes == graph.saved_bytes // 2


class Normalised(nn.Module):
    """A normalisation whose output is kept as a vector."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x).flatten().square()
        return y


@pytest.mark.parametrize("norm", [nn.BatchNorm1d, partial(nn.InstanceNorm1d, affine=True), partial(nn.GroupNorm, 2)])
def test_of_normalisations_only_statistics_over_samples_stay(norm: Any) -> None:
    graphs = [trace(Normalised(norm(8)), torch.zeros(batch, 8, 5), batch=batch, name="n") for batch in (BATCH, 12)]
    assert graphs[0].with_batch(12).saved_bytes == graphs[1].saved_bytes


def test_statistics_of_channels_in_a_checkpointed_region_stay_too() -> None:
    class Region(Normalised):
        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = checkpoint(super().forward, x, use_reentrant=False)
            return y.sum()

    graphs = [
        trace(Region(nn.BatchNorm1d(8)), torch.zeros(batch, 8, 5), batch=batch, name="n") for batch in (BATCH, 12)
    ]
    assert any(operator.recomputed_shared_bytes for operator in graphs[0].operators)
    assert graphs[0].with_batch(12).saved_bytes == graphs[1].saved_bytes


def test_masks_of_dropout_are_bytes_at_any_precision() -> None:
    class Dropped(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.dropout(x, 0.5)

    graph = trace(Dropped(), torch.zeros(BATCH, 32, requires_grad=True), batch=BATCH, name="d")
    assert graph.saved_bytes == graph.with_element_bytes(2).saved_bytes == BATCH * 32


def test_attention_keeps_no_scores() -> None:
    class Attend(nn.Module):
        def forward(self, q: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, q, q, is_causal=True)

    graph = trace(Attend(), torch.zeros(BATCH, 2, 64, 8, requires_grad=True), batch=BATCH, name="a")
    rows = BATCH * 2 * 64
    assert graph.saved_bytes == 2 * rows * 8 * 4 + rows * 4  # one tensor serves as q, k and v
    assert graph.operator("attention").saved_index_bytes == rows * 4


def test_graphs_of_traces_keep_their_outputs() -> None:
    graph = graph_of("none")
    unknown = ComputeGraph.from_json(
        {
            "schema": "lightloom.graph/1",
            "name": "old",
            "batch": 1,
            "operators": [{"name": "a", "kind": "linear", "activation_bytes": 8}],
        }
    )
    assert unknown.saved_bytes == 8
    assert ComputeGraph.from_json(graph.to_json()) == graph
