"""What the tracer makes of the things that user models do."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from lightloom.core.errors import WorkloadError
from lightloom.models.graph import ComputeGraph
from lightloom.models.torch.trace import trace

from .models import Tricky, Vision

BATCH = 13


class Apply(nn.Module):
    """A module whose forward is the given function of the module and its inputs."""

    def __init__(self, function: Any, **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


def graph_of(function: Any, *shapes: tuple[int, ...], **parts: Any) -> ComputeGraph:
    return trace(Apply(function, **parts), tuple(torch.empty(s) for s in shapes), batch=BATCH, name="test")


def kinds(graph: ComputeGraph) -> list[str]:
    return [op.kind for op in graph.operators if op.kind != "input"]


@pytest.mark.parametrize("model", [Tricky, Vision])
@pytest.mark.parametrize("batch", [1, 2, 3, 32])
def test_user_models_rescale_exactly(model: type[Tricky] | type[Vision], batch: int) -> None:
    """Traced at a prime and rescaled, or traced at the batch itself: the same costs, operator by operator."""
    at_prime = trace(model(), model().example_inputs(BATCH), batch=BATCH, name="m").with_batch(batch)
    fresh = trace(model(), model().example_inputs(batch), batch=batch, name="m")
    assert [op.name for op in fresh.operators] == [op.name for op in at_prime.operators]
    for ours, theirs in zip(at_prime.operators, fresh.operators, strict=True):
        assert (ours.forward_flops, ours.backward_flops) == (theirs.forward_flops, theirs.backward_flops), ours
        assert (ours.activation_bytes, ours.forward_bytes) == (
            theirs.activation_bytes,
            theirs.forward_bytes,
        ), ours


class Pair(NamedTuple):
    left: Tensor
    right: Tensor


def test_inputs_and_results_may_be_named_tuples() -> None:
    def forward(self: Any, pair: Pair) -> Pair:
        return Pair(self.linear(pair.left), pair.left + pair.right)

    def graph(inputs: Pair) -> ComputeGraph:
        return trace(Apply(forward, linear=nn.Linear(4, 5)), (inputs,), batch=BATCH, name="pair")

    found = graph(Pair(torch.empty(BATCH, 4), torch.empty(BATCH, 4)))
    (linear,) = (operator for operator in found.operators if operator.kind == "linear")
    assert linear.forward_flops == 2 * BATCH * 4 * 5
    assert found.parameters == 25


def test_every_parameter_is_counted_once() -> None:
    model = Tricky()
    graph = trace(model, model.example_inputs(BATCH), batch=BATCH, name="m")
    assert graph.parameters == sum(p.numel() for p in model.parameters())
    head, table = graph.operator("head"), graph.operator("table")
    assert (head.parameters, table.parameters) == (0, 160)
    assert head.shared_bytes == 640  # tied, but read all the same


def test_views_are_seen_through_and_in_place_calls_chain() -> None:
    graph = graph_of(
        lambda m, x: m.a(x).view(BATCH, 2, 4).transpose(1, 2).relu_().flatten(1) + 1.0,
        (BATCH, 3),
        a=nn.Linear(3, 8),
    )
    assert [(op.name, op.inputs) for op in graph.operators][1:] == [
        ("a", ("input.inputs",)),
        ("relu", ("a",)),
        ("flatten", ("relu",)),  # a transposed tensor has to be copied
        ("add", ("flatten",)),
    ]


def test_what_is_computed_before_the_model_begins_is_named_by_its_function() -> None:
    model = nn.Linear(3, 8)
    model.register_forward_pre_hook(lambda _, inputs: (inputs[0] * 2.0,))
    graph = trace(model, (torch.empty(BATCH, 3),), batch=BATCH, name="test")
    assert [(op.name, op.inputs) for op in graph.operators][1:] == [("mul", ("input.input",)), ("linear", ("mul",))]


def test_assignment_to_a_slice_depends_on_both() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        y: Tensor = m.a(x)
        y[:, 0] = m.b(x)[:, 1]
        return y * 2

    graph = graph_of(forward, (BATCH, 4), a=nn.Linear(4, 4), b=nn.Linear(4, 4))
    assert set(graph.operator("assign").inputs) == {"a", "b"}
    assert graph.operator("mul").inputs == ("assign",)


def test_constants_are_no_operators() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        mask = torch.tril(torch.ones(4, 4)) * 2
        return x + mask

    graph = graph_of(forward, (BATCH, 4, 4))
    assert kinds(graph) == ["elementwise"]
    assert graph.operators[-1].shared_bytes == 64


def test_the_first_layer_needs_no_gradient_of_its_input() -> None:
    graph = graph_of(lambda m, x: m.b(m.a(x)), (BATCH, 3, 8, 8), a=nn.Conv2d(3, 4, 3), b=nn.Conv2d(4, 5, 3))
    a, b = graph.operator("a"), graph.operator("b")
    assert (a.backward_flops, b.backward_flops) == (a.forward_flops, 2 * b.forward_flops)


def test_frozen_parameters_cost_no_gradient() -> None:
    frozen = nn.Linear(4, 4).requires_grad_(False)
    graph = graph_of(lambda m, x: m.b(m.a(x)), (BATCH, 4), a=frozen, b=nn.Linear(4, 4))
    assert graph.operator("a").backward_flops == 0
    assert graph.operator("b").backward_flops == graph.operator("b").forward_flops
    assert graph.parameters == 40


def test_unused_parameters_are_reported() -> None:
    assert graph_of(lambda m, x: m.a(x), (BATCH, 4), a=nn.Linear(4, 4), b=nn.Linear(4, 9)).unused_parameters == 45


def test_a_module_used_twice_has_two_operators_and_one_set_of_parameters() -> None:
    graph = graph_of(lambda m, x: m.a(m.a(x)), (BATCH, 4), a=nn.Linear(4, 4))
    assert [(op.name, op.parameters) for op in graph.operators[1:]] == [("a", 20), ("a#2", 0)]


def test_blocks_are_enclosing_modules() -> None:
    graph = trace(Tricky(), Tricky().example_inputs(BATCH), batch=BATCH, name="m")
    for operator in graph.operators:
        assert operator.block == "" or operator.name.startswith(operator.block + ".")
    assert graph.operator("layer.linear1").block == "layer"


SIZES = st.integers(1, 5)


@settings(deadline=None, max_examples=40)
@given(SIZES, SIZES, SIZES, st.integers(1, 3), st.integers(1, 2), st.integers(0, 1), st.booleans())
def test_convolution_flops_follow_from_its_dimensions(
    inner: int, outer: int, kernel: int, stride: int, groups: int, padding: int, transposed: bool
) -> None:
    """FLOPs = 2 · samples · positions · weights; weights = channel · in_channel / groups · kernel."""
    kind = nn.ConvTranspose2d if transposed else nn.Conv2d
    conv = kind(
        inner * groups,
        outer * groups,
        kernel,
        stride,
        padding if kernel > 2 else 0,
        groups=groups,
        bias=False,
    )
    op = graph_of(lambda m, x: m.a(x), (BATCH, inner * groups, 9, 8), a=conv).operator("a")
    size = op.dimensions
    weights = size["channel"] * size["in_channel"] // groups * size["kernel_height"] * size["kernel_width"]
    positions = 9 * 8 if transposed else size["height"] * size["width"]
    assert weights == op.parameters
    assert op.forward_flops == 2 * BATCH * positions * weights
    assert op.activation_bytes == 4 * BATCH * size["channel"] * size["height"] * size["width"]


@settings(deadline=None, max_examples=25)
@given(SIZES, SIZES, SIZES, SIZES, st.booleans())
def test_attention_flops_follow_from_its_dimensions(head: int, query: int, key: int, width: int, causal: bool) -> None:
    def forward(m: Any, q: Tensor, k: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q.requires_grad_(), k, k, is_causal=causal)

    graph = graph_of(forward, (BATCH, head, query, width), (BATCH, head, key, width))
    op = graph.operator("attention")
    assert op.dimensions == {"sample": BATCH, "head": head, "sequence": query, "key_sequence": key, "head_dim": width}
    assert op.forward_flops == 4 * BATCH * head * query * key * width
    assert op.activation_bytes == 4 * BATCH * head * query * width


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda m, x: x + x * 2, "add"),
        (lambda m, x: x + 1, "elementwise"),
        (lambda m, x: torch.cat([x, x], 1), "concat"),
        (lambda m, x: x.mean(), "reduce"),
        (lambda m, x: F.gelu(x), "activation"),
        (lambda m, x: F.softmax(x, -1), "softmax"),
        (lambda m, x: F.layer_norm(x, (4,)), "norm"),
        (lambda m, x: F.rms_norm(x, (4,)), "norm"),
        (lambda m, x: F.dropout(x), "dropout"),
        (lambda m, x: F.pad(x, (1, 1)), "copy"),
        (lambda m, x: x @ x.transpose(1, 2), "matmul"),
        (lambda m, x: torch.einsum("btc,bsc->bts", x, x), "matmul"),
        (lambda m, x: F.mse_loss(x, x * 2), "loss"),
        (lambda m, x: F.avg_pool1d(x, 2), "pool"),
        (lambda m, x: m.a(x)[0], "recurrent"),
    ],
)
def test_kinds(function: Any, kind: str) -> None:
    assert kinds(graph_of(function, (BATCH, 6, 4), a=nn.LSTM(4, 4, batch_first=True)))[-1] == kind


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda m, x: x if x.sum() > 0 else -x, "only shapes"),
        (lambda m, x: x[x > 0].sum().item(), "only shapes"),
        (lambda m, x: x @ x, "Expected size"),
        (lambda m, x: m.absent(x), "absent"),
    ],
)
def test_a_failing_forward_is_one_clear_line(function: Any, words: str) -> None:
    with pytest.raises(WorkloadError, match="test: the forward pass fails on meta tensors") as caught:
        graph_of(function, (BATCH, 4, 3))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_that_cannot_be_prepared_is_one_clear_line() -> None:
    with pytest.raises(WorkloadError, match="test: cannot be moved to the meta device"):
        trace(nn.LazyLinear(3), torch.empty(2, 4), batch=2, name="test")


@pytest.mark.parametrize(
    "shape", [(BATCH, 4), (BATCH, 3, 4), (3, BATCH, 4), (BATCH, 3, 5, 4), (BATCH * 3, 4), (BATCH, 2, 3, 5, 4)]
)
def test_linear_weights_follow_from_its_dimensions(shape: tuple[int, ...]) -> None:
    op = graph_of(lambda m, x: m.a(x), shape, a=nn.Linear(4, 7, bias=False)).operator("a")
    assert op.dimensions["channel"] * op.dimensions["in_channel"] == op.parameters
    assert math.prod(size for name, size in op.dimensions.items() if name != "in_channel") * 4 == op.activation_bytes


def test_one_dimensional_convolution_has_a_length() -> None:
    layers = nn.Sequential(nn.Conv1d(4, 8, 3), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2))
    graph = trace(layers, torch.empty(BATCH, 4, 9), batch=BATCH, name="test")
    assert graph.operator("0").dimensions["kernel_length"] == 3
    assert graph.operator("3").dimensions == {"sample": BATCH, "channel": 8, "length": 3}


def test_a_model_may_catch_its_own_errors() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        try:
            x = m.a(x)
        except RuntimeError:
            x = m.b(x)
        return x

    graph = graph_of(forward, (BATCH, 4), a=nn.Linear(7, 7), b=nn.Linear(4, 4))
    assert [op.name for op in graph.operators] == ["input.inputs", "b"]


def test_tracing_leaves_no_hook_behind() -> None:
    model = Tricky()
    trace(model, model.example_inputs(2), batch=2, name="m")
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_tied_parameters_stay_tied_on_the_way_to_meta() -> None:
    model = Tricky()
    assert not model.head.weight.is_meta
    trace(model, model.example_inputs(2), batch=2, name="m")
    assert model.head.weight is model.table.weight
    assert model.head.weight.is_meta


class ManualRMSNorm(nn.Module):
    """The root-mean-square norm as libraries write it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float32)
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_normalisation_is_one_operator_however_it_is_written(dtype: torch.dtype) -> None:
    def graph(norm: type[nn.Module]) -> ComputeGraph:
        model = nn.Sequential(nn.Linear(16, 16), norm(16), nn.Linear(16, 16)).to(dtype)
        return trace(model, torch.empty(BATCH, 8, 16, dtype=dtype), batch=BATCH, name="m")

    own, manual = graph(nn.RMSNorm), graph(ManualRMSNorm)
    counts = [
        [replace(operator, forward_flops=0, backward_flops=0) for operator in entry.operators]
        for entry in (own, manual)
    ]
    assert counts[0] == counts[1]


def test_a_normalisation_that_fails_leaves_the_next_function_alone() -> None:
    class FailingNorm(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError(x.pow(2))

    def forward(m: Any, x: Tensor) -> Tensor:
        try:
            y: Tensor = m.a(x + 1)
        except ValueError:
            y = F.relu(x)
        return y

    assert kinds(graph_of(forward, (BATCH, 4), a=FailingNorm())) == ["elementwise", "activation"]
