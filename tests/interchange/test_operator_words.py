"""One table of operators for all readers: against PyTorch's own counter, the same module traced and recorded, and all
operators that ONNX defines."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import flop_registry

from lightloom.models.graph import TENSOR_KINDS, ComputeGraph, Operator
from lightloom.models.onnx import word_of
from lightloom.models.operator_words import (
    KIND_OF_WORD,
    Product,
    attention_sizes,
    convolution_sizes,
    experts_dimensions,
    flattened_sizes,
    has_rule,
    kind_of,
    plain_word,
    product,
)
from lightloom.models.torch.trace import trace
from lightloom.models.traces.calls import Call, is_causal
from lightloom.models.traces.execution_trace import read_execution_trace
from lightloom.models.traces.kineto import read_kineto_workload

from .test_kineto_workload import call, tensors, written

BATCH = 5


# Against PyTorch's own counter

_HEADS: list[tuple[int, ...]] = [(2, 3, 7, 8), (2, 3, 11, 8), (2, 3, 11, 6)]
_TOKENS: list[tuple[int, ...]] = [(2, 7, 3, 8), (2, 11, 3, 8), (2, 11, 3, 6)]
_GRADIENT = {id(_HEADS): (2, 3, 7, 6), id(_TOKENS): (2, 7, 3, 6)}
_CONVOLUTION: list[object] = [[2, 1], [1, 2], [1, 1], False, [0, 0], 1]


def operands(name: str) -> tuple[list[tuple[int, ...]], list[object]]:
    """Shapes of the tensors of an operator of PyTorch's counter, and its other arguments."""
    if "attention" in name:
        heads = _TOKENS if name.startswith(("_flash", "_efficient")) else _HEADS
        return ([_GRADIENT[id(heads)]] if "backward" in name else []) + heads, []
    if "conv" in name:
        shapes: list[tuple[int, ...]] = [(2, 3, 9, 8), (4, 3, 3, 2)]
        return ([(2, 4, 5, 11), *shapes] if "backward" in name else shapes), _CONVOLUTION
    stacked = (6,) if "bmm" in name else ()
    bias = [(*stacked, 7, 9)] if name in ("addmm", "baddbmm") else []
    return [*bias, (*stacked, 7, 5), (*stacked, 5, 9)], []


@pytest.mark.parametrize("packet", [each for each in flop_registry if "flex" not in str(each)], ids=str)
def test_products_are_those_of_pytorchs_own_counter(packet: Any) -> None:
    """Of every operator that it knows; it also counts the scores that the backward pass of attention recomputes."""
    name = str(packet).removeprefix("aten.")
    shapes, values = operands(name)
    ours = product(name, shapes, (2, 4, 5, 11) if "conv" in name else None, values)
    assert ours is not None
    flops: Any = flop_registry[packet]
    made = [torch.empty(shape, device="meta") for shape in shapes]
    if "conv" in name and "backward" not in name:
        out = torch.empty((2, 4, 5, 11), device="meta")
        theirs = (
            flops(*made, None, *values[:3], False, out_val=out)
            if "_slow" not in name and "cudnn" not in name
            else flops(*made, None, None, None, None, False, out_val=out)
        )
    elif "conv" in name:
        outs = tuple(torch.empty(shape, device="meta") for shape in shapes[1:])
        theirs = flops(*made, None, *values[:5], 1, [True, True, False], out_val=outs)
    elif "attention" in name and name.startswith(("_flash", "_efficient")):
        pytest.skip("needs offsets of sequences")
    elif name == "_scaled_mm":
        theirs = flops(*made, torch.empty(()), torch.empty(()), out_val=None)
    else:
        theirs = flops(*made, out_val=None) if "backward" not in name else flops(*made)
    attention = "attention" in name and "backward" in name
    recomputed = 2 * math.prod(shapes[1][:-1]) * shapes[2][-2] * shapes[1][-1] if attention else 0
    assert ours.flops == theirs - recomputed


# By hand

_STRIDES: list[object] = [[2, 1], [1, 2], [1, 1]]
_IMAGE, _KERNEL, _MADE = (2, 3, 9, 8), (4, 3, 3, 2), (2, 4, 5, 11)
_RECURRENT = [(7, 2, 3), (16, 3), (16, 4)]


@pytest.mark.parametrize(
    ("word", "shapes", "values", "flops", "factors", "summed", "shape"),
    [
        ("mm", [(2, 3), (3, 5)], [], 60, (0, 1), 3, (2, 5)),
        ("matmul", [(4, 1, 2, 3), (7, 3, 5)], [], 2 * 4 * 7 * 2 * 5 * 3, (0, 1), 3, (4, 7, 2, 5)),
        ("matmul", [(6, 2, 3), (6, 3, 5)], [], 2 * 6 * 2 * 5 * 3, (0, 1), 3, (6, 2, 5)),
        ("matmul", [(6, 2, 3), (3, 5)], [], 2 * 6 * 2 * 5 * 3, (0, 1), 3, (6, 2, 5)),
        ("dot", [(3,), (3,)], [], 6, (0, 1), 3, ()),
        ("mv", [(2, 3), (3,)], [], 12, (0, 1), 3, (2,)),
        ("addmm", [(5,), (2, 3), (3, 5)], [], 60, (1, 2), 3, (2, 5)),
        ("addbmm", [(2, 5), (4, 2, 3), (4, 3, 5)], [], 240, (1, 2), 3, (2, 5)),
        ("linear", [(7, 2, 3), (5, 3)], [], 420, (0, 1), 3, (7, 2, 5)),
        ("linear", [(2, 3), (3,)], [], 12, (0, 1), 3, (2,)),
        ("grouped_mm", [(6, 4), (3, 4, 5)], [], 240, (0, 1), 4, (6, 5)),
        ("grouped_mm", [(3, 6, 4), (4, 5)], [], 240, (0, 1), 4, (6, 5)),
        ("einsum", [(2, 3), (3, 5)], ["ij, jk"], 60, (0, 1), 3, (2, 5)),
        ("einsum", [(2, 3), (2, 5)], ["bi,bj->jbi"], 60, (0, 1), 1, (5, 2, 3)),
        ("einsum", [(2, 3), (2, 5), (2,)], ["bi,bj,b->"], 60, (0, 1, 2), 30, ()),
        ("conv2d", [_IMAGE, _KERNEL], _STRIDES, 2 * math.prod(_MADE) * 18, (0, 1), 18, _MADE),
        ("conv2d", [_IMAGE, _KERNEL], [[True], *_STRIDES], 2 * math.prod(_MADE) * 18, (0, 1), 18, _MADE),
        ("conv2d", [_IMAGE[1:], _KERNEL], _STRIDES, math.prod(_MADE) * 18, (0, 1), 18, _MADE[1:]),
        ("conv2d", [_IMAGE, _KERNEL], [[1], [0], [2]], 2 * (2 * 4 * 5 * 6) * 18, (0, 1), 18, (2, 4, 5, 6)),
        ("conv_transpose2d", [_IMAGE, (3, 4, 3, 2)], _STRIDES, 2 * math.prod(_IMAGE) * 24, (0, 1), 24, None),
        ("convolution", [_IMAGE, (3, 4, 3, 2)], [*_STRIDES, True], 2 * math.prod(_IMAGE) * 24, (0, 1), 24, None),
        ("convolution", [_IMAGE, _KERNEL], _STRIDES, 2 * math.prod(_MADE) * 18, (0, 1), 18, _MADE),
        ("convolution", [_IMAGE, _KERNEL], [*_STRIDES, False], 2 * math.prod(_MADE) * 18, (0, 1), 18, _MADE),
        ("lstm", [*_RECURRENT, (16,)], [], 2 * 14 * (48 + 64), (0, 1), 3, ()),
        ("mkldnn_rnn_layer", [*_RECURRENT, (2, 4), (2, 4)], [], 2 * 14 * (48 + 64), (0, 1), 3, ()),
        ("cudnn_rnn_backward", _RECURRENT, [], 4 * 14 * (48 + 64), (0, 1), 3, ()),
        ("flash_attn_forward", _TOKENS, [], 2 * (2 * 7 * 3) * 11 * (8 + 6), (0, 2), 8, (2, 7, 3, 6)),
        ("scaled_dot_product_attention", _HEADS, [], 2 * (2 * 3 * 7) * 11 * (8 + 6), (0, 2), 8, (2, 3, 7, 6)),
    ],
)
def test_products_by_hand(
    word: str,
    shapes: list[tuple[int, ...]],
    values: list[object],
    flops: int,
    factors: tuple[int, ...],
    summed: int,
    shape: tuple[int, ...] | None,
) -> None:
    assert product(word, shapes, None, values) == Product(flops, factors, summed, shape)
    stated = product(word, shapes, (9, 9), values)
    assert stated is not None and (stated.shape == (9, 9) or stated.shape == shape)


def test_words_are_plain() -> None:
    names = ("aten::relu_", "__iadd__", "__matmul__", "__imatmul__", "mm.out", "aten::_int_mm", "__index__")
    assert [plain_word(name) for name in names] == ["relu", "add", "matmul", "matmul", "mm", "int_mm", "index"]


def test_backward_passes_of_convolutions_count_the_gradients_that_are_wanted() -> None:
    forward = 2 * math.prod(_MADE) * 18
    for values, wanted in (
        ([], 2),
        ([*_STRIDES, False, [True, False, True]], 1),
        ([*_STRIDES, False, [False, True, False]], 1),
        ([*_STRIDES, False, [True, True, True]], 2),
        ([*_STRIDES, False, [False, False, True]], 0),
    ):
        made = product("convolution_backward", [_MADE, _IMAGE, _KERNEL], None, values)
        assert made is not None and (made.flops, made.operands, made.shape) == (wanted * forward, (), _IMAGE)
    transposed = product("convolution_backward", [_MADE, _IMAGE, (3, 4, 3, 2)], None, [*_STRIDES, True])
    assert transposed is not None and transposed.flops == 4 * math.prod(_IMAGE) * 24


@pytest.mark.parametrize(
    ("word", "shapes", "values"),
    [
        ("einsum", [(2, 3)], ["...i"]),
        ("einsum", [(2, 3)], ["ij,jk"]),
        ("einsum", [(2, 3)], ["ijk"]),
        ("conv2d", [_IMAGE, _KERNEL], [[1], [1]]),
        ("lstm", [(7, 2), (16, 3)], []),
        ("lstm", [(7, 2, 3), (16,)], []),
        ("flash_attention_forward", [(14, 3, 8)] * 3, []),
    ],
)
def test_products_that_do_not_follow_from_shapes_are_none(
    word: str, shapes: list[tuple[int, ...]], values: list[object]
) -> None:
    assert product(word, shapes, None, values) is None


def test_sizes_of_experts_attention_convolutions_and_flat_results_have_names() -> None:
    experts = {"expert": 3, "sequence": 4, "channel": 5, "in_channel": 4}
    assert experts_dimensions((3, 8, 5), 2, 3, 4) == experts_dimensions((24, 5), 2, 3, 4) == {"sample": 2, **experts}
    assert experts_dimensions((24, 5), None, 3, 4) == experts | {"sequence": 8}
    assert experts_dimensions((3, 1, 5), 2, 3, 4)["sequence"] == 1
    assert flattened_sizes((8, 5), 4) == {"sample": 4, "sequence": 2, "channel": 5}
    assert flattened_sizes((8, 5, 6), 4) == {"sample": 4, "sequence": 2, "axis_1": 5, "axis_2": 6}
    assert (flattened_sizes((8,), 4), flattened_sizes((), 4)) == ({"sample": 4, "sequence": 2}, {"sample": 4})
    assert flattened_sizes((7, 5), 4) == {"sample": 4, "axis_1": 7, "axis_2": 5}
    assert flattened_sizes((0, 5), 4) == {"sample": 4, "axis_2": 5}
    sizes = {"sequence": 16, "key_sequence": 12, "head_dim": 8}
    assert attention_sizes((5, 4, 16, 8), (5, 4, 12, 8), 5) == {"sample": 5, "head": 4, **sizes}
    assert attention_sizes((5, 4, 16, 8), (5, 2, 12, 8), None) == {"head": 20, "key_head": 2, **sizes}
    assert attention_sizes((16, 8), (12, 8), None) == {"head": 1, **sizes}
    kernel = {"kernel_height": 3, "kernel_width": 2}
    assert convolution_sizes((2, 6, 9, 8), (4, 3, 3, 2), (2, 4, 5, 11)) == {"in_channel": 6, **kernel, "groups": 2}
    assert convolution_sizes((6, 9, 8), (4, 3, 3, 2), (4, 5, 11)) == {"in_channel": 6, **kernel, "groups": 2}
    assert convolution_sizes((2, 6, 9, 8), (6, 2, 3, 2), (2, 4, 9, 9)) == {"in_channel": 6, **kernel, "groups": 2}
    assert convolution_sizes((2, 4, 9, 8), (4, 2, 3, 2), (2, 4, 9, 9)) == {"in_channel": 4, **kernel, "groups": 2}
    assert convolution_sizes((2, 4, 9), (8, 4, 3), (2, 8, 9)) == {"in_channel": 4, "kernel_length": 3, "groups": 1}
    deep = {"kernel_depth": 1, "kernel_height": 2, "kernel_width": 3}
    assert convolution_sizes((1, 4, 9, 9, 9), (8, 4, 1, 2, 3), (1, 8, 9, 8, 7)) == {
        "in_channel": 4,
        **deep,
        "groups": 1,
    }


@pytest.mark.parametrize(
    ("word", "products", "calls", "summands", "kind"),
    [
        ("bmm", ["bmm"], ["bmm"], 1, "matmul"),
        ("mine", ["grouped_mm"], ["grouped_mm"], 1, "experts"),
        ("mine", ["_scaled_mm"], ["_scaled_mm"], 1, "linear"),
        ("linear", ["mm"], ["mm"], 1, "linear"),
        ("mine", ["convolution"], ["convolution"], 1, "conv"),
        ("mul", ["convolution"], ["convolution"], 1, "conv"),
        ("relu", ["convolution"], ["convolution"], 1, "matmul"),
        ("mine", ["mm"], ["mm"], 1, "matmul"),
        ("relu", [], ["relu"], 1, "activation"),
        ("add", [], ["add"], 2, "add"),
        ("add", [], ["add"], 1, "elementwise"),
        ("mm", [], ["mul"], 2, "elementwise"),
        ("mine", [], ["cat"], 1, "copy"),
        ("mine", [], [], 1, "copy"),
        ("mine", [], ["cat", "mul"], 1, "elementwise"),
    ],
)
def test_kinds_are_those_of_products_then_of_words_then_of_calls(
    word: str, products: list[str], calls: list[str], summands: int, kind: str
) -> None:
    assert kind_of(word, products, calls, summands) == kind
    assert kind_of(word, products, calls, summands, stacked=True) == ("experts" if word == "bmm" else kind)


# The same function traced, and recorded as it runs


class Apply(nn.Module):
    def __init__(self, function: Callable[..., Tensor], *weights: tuple[int, ...], dtype: torch.dtype) -> None:
        super().__init__()
        self.function = function
        self.weights = nn.ParameterList([torch.ones(shape, dtype=dtype) / 8 for shape in weights])

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *self.weights)


def grouped(x: Tensor, w: Tensor) -> Tensor:
    """Twenty rows of each of four experts."""
    return torch._grouped_mm(x.flatten(0, 1), w, offs=torch.tensor([20, 40, 60, 80], dtype=torch.int32))


def recurrent(x: Tensor, inner: Tensor, outer: Tensor) -> Tensor:
    state = x.new_zeros(1, BATCH, 32)
    return torch.lstm(x, (state, state), [inner, outer], False, 1, 0.0, False, False, True)[0]


def attended(x: Tensor, causal: bool) -> Tensor:
    heads = x.view(BATCH, 16, 4, 8).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads, is_causal=causal)


ATTENTION = [
    overload._schema
    for word, kind in KIND_OF_WORD.items()
    for overload in [getattr(getattr(torch.ops.aten, prefix + word, None), "default", None) for prefix in ("", "_")]
    if kind == "attention" and overload is not None
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("schema", ATTENTION, ids=lambda schema: schema.name)
def test_every_call_of_attention_says_whether_it_is_causal(schema: Any, causal: bool, other: bool) -> None:
    """Whatever its other truth values say, by PyTorch's own list of its arguments."""
    plain: dict[str, object] = {"bool": other, "float": 0.5, "int": 2, "SymInt": 2}
    values = [
        causal
        if a.name == "is_causal"
        else int(causal)
        if a.name == "custom_mask_type"
        else plain.get(str(a.real_type))
        for a in schema.arguments
    ]
    assert is_causal(Call(1, schema.name, str(schema), -1, [], [], values)) == causal


IMAGES, TOKENS = (BATCH, 32, 12, 12), (BATCH, 16, 32)
FUNCTIONS: dict[str, tuple[Callable[..., Tensor], tuple[int, ...], list[tuple[int, ...]]]] = {
    "linear": (F.linear, TOKENS, [(48, 32), (48,)]),
    "addmm": (lambda x, b, w: torch.addmm(b, x.flatten(0, 1), w), TOKENS, [(48,), (32, 48)]),
    "addmm_activation": (lambda x, b, w: torch._addmm_activation(b, x.flatten(0, 1), w), TOKENS, [(48,), (32, 48)]),
    "baddbmm": (lambda x, b, w: torch.baddbmm(b, x, w), TOKENS, [(BATCH, 16, 48), (BATCH, 32, 48)]),
    "addbmm": (lambda x, b, w: torch.addbmm(b, x, w), TOKENS, [(16, 48), (BATCH, 32, 48)]),
    "bmm": (lambda x, w: torch.bmm(x, w), TOKENS, [(BATCH, 32, 24)]),
    "matmul": (lambda x: x @ x.mT, TOKENS, []),
    "einsum": (lambda x, w: torch.einsum("btk,kn->btn", x, w), TOKENS, [(32, 24)]),
    "mv": (lambda x, w: torch.mv(x.flatten(0, 1), w), TOKENS, [(32,)]),
    "tensordot": (lambda x, w: torch.tensordot(x, w, dims=1), TOKENS, [(32, 24)]),
    "inner": (lambda x, w: torch.inner(x, w), TOKENS, [(24, 32)]),
    "grouped_mm": (grouped, TOKENS, [(4, 32, 24)]),
    "attention": (lambda x: attended(x, False), TOKENS, []),
    "causal attention": (lambda x: attended(x, True), TOKENS, []),
    "conv1d": (lambda x, w: F.conv1d(x, w, stride=2), TOKENS, [(24, 16, 3)]),
    "conv2d": (lambda x, w: F.conv2d(x, w, padding=1, groups=2), IMAGES, [(24, 16, 3, 3)]),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2), IMAGES, [(32, 24, 3, 3)]),
    "lstm": (recurrent, TOKENS, [(128, 32), (128, 32)]),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), IMAGES, [(32,), (32,)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (32,), w, b), TOKENS, [(32,), (32,)]),
    "group_norm": (lambda x, w, b: F.group_norm(x, 4, w, b), IMAGES, [(32,), (32,)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (32,), w), TOKENS, [(32,)]),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), IMAGES, []),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 1), IMAGES, []),
    "softmax": (lambda x: torch.softmax(x, -1), TOKENS, []),
    "log_softmax": (lambda x: F.log_softmax(x, -1), TOKENS, []),
    "celu": (F.celu, TOKENS, []),
    "selu": (F.selu, TOKENS, []),
    "glu": (F.glu, TOKENS, []),
    "hardswish": (F.hardswish, TOKENS, []),
    "logsigmoid": (F.logsigmoid, TOKENS, []),
    "prelu": (F.prelu, TOKENS, [(1,)]),
    "vector_norm": (lambda x: torch.linalg.vector_norm(x, dim=-1), TOKENS, []),
    "var_mean": (lambda x: torch.var_mean(x, -1)[0], TOKENS, []),
    "smooth_l1_loss": (lambda x, w: F.smooth_l1_loss(x, w), TOKENS, [TOKENS]),
    "huber_loss": (lambda x, w: F.huber_loss(x, w), TOKENS, [TOKENS]),
    "cat": (lambda x: torch.cat([x, x], -1), TOKENS, []),
    "hstack": (lambda x: torch.hstack([x, x]), TOKENS, []),
    "roll": (lambda x: torch.roll(x, 1, -1), TOKENS, []),
    "pad": (lambda x: F.pad(x, (1, 1)), TOKENS, []),
    "topk": (lambda x: torch.topk(x, 2)[0], TOKENS, []),
}
WITHOUT_GRADIENT = "addmm_activation"


def recorded(path: Path, module: nn.Module, x: Tensor, *, profile: bool) -> ComputeGraph:
    """The graph that the trace of one step says, an execution trace or a profile."""
    gradient = torch.ones_like(module(x))

    def step() -> None:
        out = module(x)
        if out.requires_grad:
            out.backward(gradient)

    if profile:
        with torch.profiler.profile(record_shapes=True) as watched:
            step()
        watched.export_chrome_trace(str(path))
        return read_kineto_workload(path, batch=BATCH).graph
    observer: Any = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(path))
    observer.start()
    step()
    observer.stop()
    observer.unregister_callback()
    return read_execution_trace(path, batch=BATCH).graph


def main_operators(graph: ComputeGraph) -> list[Operator]:
    """The operators but for inputs and what prepares operands."""
    kept = [operator for operator in graph.operators if operator.kind not in ("input", "copy")]
    return kept or [operator for operator in graph.operators if operator.kind != "input"][:1]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "grouped_mm" or hasattr(torch, "_grouped_mm")])
def test_a_function_has_one_kind_and_one_cost_traced_and_recorded(name: str, tmp_path: Path) -> None:
    function, shape, weights = FUNCTIONS[name]
    dtype = torch.bfloat16 if name == "grouped_mm" else torch.float32
    module = Apply(function, *weights, dtype=dtype)
    x = torch.rand(shape, dtype=dtype).requires_grad_()
    own = main_operators(trace(Apply(function, *weights, dtype=dtype), (x.detach(),), batch=BATCH, name="m"))
    if name == WITHOUT_GRADIENT:
        module.requires_grad_(False)
        x = x.detach()
    for kept in (False, True):
        read = main_operators(recorded(tmp_path / f"{kept}.json", module, x, profile=kept))
        assert {op.kind for op in read} == {op.kind for op in own}, kept
        assert sum(op.forward_flops for op in read if op.kind in TENSOR_KINDS) == sum(
            op.forward_flops for op in own if op.kind in TENSOR_KINDS
        )
        assert any(op.causal for op in read) == any(op.causal for op in own)
        if len(read) == len(own) == 1:
            named = ("expert", "in_channel", "head", "kernel_height")
            assert [read[0].dimensions.get(each) for each in named] == [own[0].dimensions.get(each) for each in named]


@pytest.mark.parametrize("word", ["_scaled_mm", "_scaled_mm_v2", "_grouped_mm", "_scaled_grouped_mm", "_int_mm"])
def test_products_of_accelerators_are_products_in_profiles(word: str, tmp_path: Path) -> None:
    """Kernels that no processor runs: a matrix of 6 x 4 meets one of 4 x 5 for each of three experts."""
    stacked = [3] if "grouped" in word else []
    events = [call("ProfilerStep#4", 0, 100), call(f"aten::{word}", 10, 10, **tensors([6, 4], [*stacked, 4, 5]))]
    graph = read_kineto_workload(written(tmp_path, events)).graph
    assert [op.forward_flops for op in graph.operators] == [2 * 6 * 4 * 5]
    assert [op.kind for op in graph.operators] == ["experts" if stacked else "matmul" if "int" in word else "linear"]


def test_what_no_table_knows_is_told(tmp_path: Path) -> None:
    """An unknown kernel that reads a matrix of weights, whose shape no arithmetic of elements takes."""
    gradient = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    events = [
        call("aten::mm", 5, 2, **tensors([6, 4], [4, 4], sequence=3)),
        call("mine::fused", 10, 10, **tensors([6, 4], [5, 4], sequence=4)),
        call("mine::scaled", 30, 10, **tensors([6, 4], [6, 1], sequence=5)),
        call(gradient, 61, 9, tid=2),
        call("torch::autograd::AccumulateGrad", 62, 7, tid=2, **tensors([5, 4])),
    ]
    graph = read_kineto_workload(written(tmp_path, events)).graph
    assert graph.uncounted == (
        "fused: mine::fused has no rule and reads a parameter matrix: counted as one FLOP an element",
    )


# ONNX

_WITHOUT_A_RULE = """
    AffineGrid BlackmanWindow CausalConvWithState ConcatFromSequence DFT Det GridSample HammingWindow HannWindow If
    ImageDecoder LinearAttention Loop MaxRoiPool MaxUnpool MelWeightMatrix Multinomial NonMaxSuppression NonZero
    Optional OptionalGetElement OptionalHasElement Range RegexFullMatch RoiAlign STFT Scan SequenceAt SequenceConstruct
    SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap Shape Size SplitToSequence StringConcat
    StringNormalizer StringSplit TfIdfVectorizer Unique
"""
WITHOUT_A_RULE = set(_WITHOUT_A_RULE.split())
"""Sequences, texts, control flow, sizes that depend on values, and what would need a rule of its own: refused by their
shapes, constants, or told as a guess."""


def test_every_operator_that_onnx_defines_is_in_the_table() -> None:
    onnx = pytest.importorskip("onnx")
    defined = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    assert len(defined) > 150
    lacking = {name for name in defined if not has_rule(word_of(SimpleNamespace(op_type=name)))}
    assert lacking - WITHOUT_A_RULE == set()


@pytest.mark.parametrize("keys", [4, 2])
@pytest.mark.parametrize("word", ["_efficient_attention_forward", "scaled_dot_product_attention"])
def test_heads_are_told_from_tokens(tmp_path: Path, word: str, keys: int) -> None:
    """Of calls that take (sample, T, head, D) and of those that take (sample, head, T, D)."""
    shapes = [[BATCH, 16, heads, 8] if "efficient" in word else [BATCH, heads, 16, 8] for heads in (4, keys, keys)]
    events = [call(f"aten::{word}", 10, 10, **tensors(*shapes, sequence=1))]
    graph = read_kineto_workload(written(tmp_path, events), batch=BATCH).graph
    grouped = {"key_head": keys} if keys < 4 else {}
    expected = {"sample": BATCH, "head": 4, "sequence": 16, "key_sequence": 16, "head_dim": 8, **grouped}
    assert dict(graph.operators[0].dimensions) == expected
