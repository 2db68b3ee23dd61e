"""Operators that real models use beyond plain layers: grouped and scaled products, bags of rows, unknown calls."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lightloom.models.graph import ComputeGraph
from lightloom.models.torch.trace import trace
from lightloom.models.torch.values import Values

BATCH = 3
TOKENS, EXPERTS, INNER, OUTER = 8, 4, 16, 32

grouped_products = pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="needs a torch with grouped products")


class Experts(nn.Module):
    """Tokens (B, T, 16), sorted by expert, times one of four matrices each, as ``transformers`` 5 computes mixtures."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(EXPERTS, OUTER, INNER, dtype=dtype))

    def forward(self, tokens: Tensor) -> Tensor:
        ends = torch.arange(1, EXPERTS + 1, dtype=torch.int32) * (tokens.shape[0] * TOKENS // EXPERTS)
        return torch._grouped_mm(tokens.flatten(0, 1), self.weight.transpose(1, 2), offs=ends)


def traced(module: nn.Module, *inputs: Tensor) -> ComputeGraph:
    return trace(module, inputs, batch=BATCH, name="test")


@grouped_products
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_grouped_product_is_experts(dtype: torch.dtype) -> None:
    graph = traced(Experts(dtype), torch.zeros(BATCH, TOKENS, INNER, dtype=dtype, requires_grad=True))
    operator = graph.operators[-1]
    assert operator.kind == "experts"
    assert operator.forward_flops == 2 * BATCH * TOKENS * INNER * OUTER
    assert operator.backward_flops == 2 * operator.forward_flops
    assert operator.parameters == EXPERTS * INNER * OUTER
    sizes = {"sample": BATCH, "expert": EXPERTS, "sequence": TOKENS // EXPERTS, "channel": OUTER, "in_channel": INNER}
    assert operator.dimensions == sizes
    assert graph.uncounted == ()


@grouped_products
@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ((24, 16), (4, 16, 32), (24, 32)),
        ((4, 6, 16), (4, 16, 32), (4, 6, 32)),
        ((4, 6, 16), (16, 24), (6, 24)),
        ((6, 24), (24, 32), (4, 6, 32)),
    ],
)
def test_grouped_products_multiply_each_group_once(a: Any, b: Any, result: tuple[int, ...]) -> None:
    """Rows, batches, columns and sums by group: FLOPs are those of the groups one by one."""
    from lightloom.models.operator_words import product
    from lightloom.models.torch.recorder import AtenCalls

    left, right = torch.empty(a, device="meta"), torch.empty(b, device="meta")
    cost = product("_grouped_mm", [a, b])
    rows, columns, depth = {2: (24, 32, 16), 3: (6, 24, 16)}[3 if len(a) == 3 and len(b) == 2 else 2]
    expected = 2 * 6 * 32 * 24 if len(a) == len(b) == 2 else 2 * rows * columns * depth
    assert cost is not None
    assert cost.flops == expected

    class Silent:
        values = Values()

        def call(self, *_: Any) -> None: ...

    offsets = None if len(a) == len(b) == 3 else torch.empty(4, dtype=torch.int32, device="meta")
    with AtenCalls(Silent()):  # type: ignore[arg-type]
        assert torch._grouped_mm(left, right, offs=offsets).shape == result


class Float8Linear(torch.autograd.Function):
    """A product of scaled float8 numbers as ``torchao`` trains with: the function gives the gradient itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        one = torch.ones(())
        narrow = torch.float8_e4m3fn
        return torch._scaled_mm(x.to(narrow), weight.to(narrow).t(), one, one, out_dtype=torch.bfloat16)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise AssertionError("never run")


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(OUTER, INNER, dtype=torch.bfloat16))

    def forward(self, x: Tensor) -> Any:
        return Float8Linear.apply(x, self.weight)  # type: ignore[no-untyped-call]


def test_a_scaled_product_is_a_linear_layer() -> None:
    graph = traced(Scaled(), torch.zeros(BATCH, INNER, dtype=torch.bfloat16))
    operator = next(op for op in graph.operators if op.kind == "linear")
    assert operator.forward_flops == 2 * BATCH * INNER * OUTER
    assert operator.backward_flops == 2 * operator.forward_flops
    assert (operator.dimensions["channel"], operator.dimensions["in_channel"]) == (OUTER, INNER)
    assert graph.uncounted == ()


def test_a_bag_of_embeddings_adds_the_rows_it_looks_up() -> None:
    """The issue's example: a table of a million rows of 64, of which 128 samples look up 50 each."""
    table = nn.EmbeddingBag(1_000_000, 64, mode="sum", device="meta")
    graph = trace(table, (torch.zeros(128, 50, dtype=torch.long),), batch=128, name="bag")
    operator = graph.operators[-1]
    gathered = 128 * 50 * 64
    assert operator.kind == "embedding"
    assert operator.forward_flops == operator.backward_flops == gathered
    assert operator.parameters == 64_000_000
    indices, output = 128 * 50, 128 * 64
    assert gathered + output < operator.forward_bytes // 4 < gathered + indices + 4 * output
    assert graph.with_batch(64).operators[-1].forward_flops == gathered // 2


@torch.library.custom_op("lightloom_test::mixed", mutates_args=())
def mixed(x: Tensor, weight: Tensor) -> Tensor:
    return x @ weight


@mixed.register_fake
def _(x: Tensor, weight: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[1])


class Opaque(nn.Module):
    """A layer whose kernel nobody knows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(INNER, OUTER))

    def forward(self, x: Tensor) -> Any:
        return mixed(x, self.weight)


def test_an_operator_without_a_rule_that_reads_a_matrix_is_named() -> None:
    graph = traced(Opaque(), torch.zeros(BATCH, INNER))
    (line,) = graph.uncounted
    assert "mixed: lightloom_test::mixed has no rule and reads a parameter matrix" in line
    assert ComputeGraph.from_json(graph.to_json()) == graph
    assert graph.with_batch(6).uncounted == graph.uncounted


def test_arithmetic_on_parameter_matrices_is_known() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(INNER, OUTER))

        def forward(self, x: Tensor) -> Any:
            return x @ torch.softmax(self.weight * 2 - self.weight.mean(0), 0).clamp(0)

    assert traced(Scale(), torch.zeros(BATCH, INNER)).uncounted == ()


def test_plans_name_operators_without_a_rule() -> None:
    import lightloom as ll

    graph = traced(Opaque(), torch.zeros(BATCH, INNER))
    ranking = ll.plan(graph, "terarack-64", strategy="ddp", algorithm="ring-two-way", batch=1)
    document = ranking.to_json()
    assert document["uncounted"] == list(graph.uncounted)
    assert ranking.search.graph.uncounted == graph.uncounted
