"""Kernels that ONNX files hold in parts are read as one operator each, as they are in a traced module."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import InputError
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.models.onnx import read_onnx
from lightloom.models.onnx_shapes import Constants, is_view

onnx = pytest.importorskip("onnx")
torch: Any = pytest.importorskip("torch")

SAMPLES, TOKENS, HEADS, WIDTH = 3, 6, 4, 32
Function = Callable[[Any], Any]


class Network(torch.nn.Module):  # type: ignore[misc]
    """A function between two linear layers, with weights for it."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.function = function
        self.before, self.after = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, 5, bias=False)
        self.query, self.key, self.value = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.scale, self.bias = (torch.nn.Parameter(torch.ones(WIDTH)) for _ in range(2))
        self.experts = torch.nn.Parameter(torch.ones(7, WIDTH, WIDTH))

    def forward(self, x: Any) -> Any:
        return self.after(self.function(self, self.before(x)))


def heads(x: Any, count: int = HEADS) -> Any:
    return x.view(*x.shape[:2], count, -1).transpose(1, 2)


def joined(x: Any) -> Any:
    return x.transpose(1, 2).reshape(SAMPLES, TOKENS, WIDTH)


def attention(net: Any, x: Any, **options: Any) -> Any:
    q, k, v = heads(net.query(x)), heads(net.key(x)), heads(net.value(x))
    return joined(torch.nn.functional.scaled_dot_product_attention(q, k, v, **options))


def whole(net: Any, x: Any) -> Any:
    return attention(net, x)


def causal(net: Any, x: Any) -> Any:
    return attention(net, x, is_causal=True)


def masked(net: Any, x: Any) -> Any:
    """As a library that makes its masks of positions."""
    at = torch.arange(TOKENS)
    return attention(net, x, attn_mask=(at[None] <= at[:, None])[None, None].expand(SAMPLES, 1, -1, -1))


def by_hand(net: Any, x: Any) -> Any:
    """Scores that are divided, masked with a large number, and made weights."""
    q, k, v = heads(net.query(x)), heads(net.key(x)), heads(net.value(x))
    scores = q @ k.transpose(2, 3) / 8**0.5
    scores = scores + torch.full((TOKENS, TOKENS), -3e38).triu(1)
    return joined(scores.softmax(-1) @ v)


def windowed(net: Any, x: Any) -> Any:
    """A mask that is not causal."""
    at = torch.arange(TOKENS)
    return attention(net, x, attn_mask=(at[None] - at[:, None]).abs() < 2)


def rms_norm(net: Any, x: Any) -> Any:
    return net.scale * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def layer_norm(net: Any, x: Any) -> Any:
    around = x - x.mean(-1, keepdim=True)
    return around / torch.sqrt(around.pow(2).mean(-1, keepdim=True) + 1e-6) * net.scale + net.bias


def norm_that_is_read(net: Any, x: Any) -> Any:
    """The mean of squares is a result of its own."""
    mean = x.pow(2).mean(-1, keepdim=True)
    return x * torch.rsqrt(mean + 1e-6) * net.scale + mean


def gelu(_net: Any, x: Any) -> Any:
    return torch.nn.functional.gelu(x)


def tanh_gelu(_net: Any, x: Any) -> Any:
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3))))


def silu(net: Any, x: Any) -> Any:
    return torch.nn.functional.silu(x) * net.query(x)


def nothing_dropped(_net: Any, x: Any) -> Any:
    return torch.nn.functional.dropout(x, 0.0, training=True)


def first_token(_net: Any, x: Any) -> Any:
    return x[:, 0]


def norm_of_the_first_token(net: Any, x: Any) -> Any:
    return rms_norm(net, x[:, 0])


def experts(net: Any, x: Any) -> Any:
    rows = x.reshape(-1, WIDTH)
    chosen = rows.argmax(-1) % 7
    return torch.bmm(net.experts[chosen], rows.unsqueeze(-1)).squeeze(-1)


KINDS: dict[Callable[[Any, Any], Any], list[str]] = {
    whole: ["linear", "linear", "linear", "attention", "copy"],
    causal: ["linear", "linear", "linear", "attention", "copy"],
    masked: ["linear", "linear", "linear", "attention", "copy"],
    by_hand: ["linear", "linear", "linear", "attention", "copy"],
    rms_norm: ["norm"],
    norm_of_the_first_token: ["norm"],
    layer_norm: ["norm"],
    gelu: ["activation"],
    tanh_gelu: ["activation"],
    silu: ["activation", "linear", "elementwise"],
    nothing_dropped: [],
    first_token: [],
}


def exported(folder: Path, network: Any) -> Path:
    path = folder / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.train(), (torch.ones(SAMPLES, TOKENS, WIDTH),), path, dynamo=False, input_names=["x"],
            do_constant_folding=False, training=torch.onnx.TrainingMode.PRESERVE, opset_version=17,
        )  # fmt: skip
    return path


def operators(graph: ComputeGraph) -> list[Operator]:
    """All operators but the input and the layers around the function."""
    return list(graph.operators[2:-1])


@pytest.mark.parametrize("function", KINDS, ids=lambda function: function.__name__)
def test_parts_of_a_kernel_are_one_operator(tmp_path: Path, function: Callable[[Any, Any], Any]) -> None:
    from lightloom.models.torch.trace import trace

    network = Network(function)
    graph = read_onnx(exported(tmp_path, network)).graph
    own = trace(network, (torch.ones(SAMPLES, TOKENS, WIDTH),), batch=SAMPLES, name="network")
    assert [operator.kind for operator in operators(graph)] == KINDS[function]
    assert graph.parameters == own.parameters
    for one, other in zip(operators(graph), operators(own), strict=True) if function not in PARTS else ():
        assert (one.kind, one.activation_bytes, one.parameters) == (
            other.kind,
            other.activation_bytes,
            other.parameters,
        )
        assert one.forward_bytes == other.forward_bytes or function is masked, one.name  # a causal kernel reads no mask
        if one.kind in ("linear", "attention"):
            assert one.forward_flops * one.visible_scores == other.forward_flops * other.visible_scores
            assert one.backward_flops == other.backward_flops
        if one.kind == "attention":
            assert one.dimensions == other.dimensions


PARTS = (by_hand, rms_norm, norm_of_the_first_token, layer_norm, tanh_gelu)
"""What the tracer leaves in parts, as no module names it."""


def test_a_norm_reads_what_it_is_of(tmp_path: Path) -> None:
    (found,) = operators(read_onnx(exported(tmp_path, Network(norm_of_the_first_token))).graph)
    assert found.forward_bytes == 4 * (2 * SAMPLES * WIDTH + WIDTH)


@pytest.mark.parametrize("function", [whole, causal, masked, by_hand], ids=lambda function: function.__name__)
def test_masks_are_told(tmp_path: Path, function: Callable[[Any, Any], Any]) -> None:
    graph = read_onnx(exported(tmp_path, Network(function))).graph
    (found,) = (operator for operator in graph.operators if operator.kind == "attention")
    assert found.causal is (function is not whole)
    assert found.dimensions == {"sample": SAMPLES, "head": 4, "sequence": 6, "key_sequence": 6, "head_dim": 8}


@pytest.mark.parametrize("function", [windowed, norm_that_is_read], ids=lambda function: function.__name__)
def test_what_is_no_such_kernel_stays_in_parts(tmp_path: Path, function: Callable[[Any, Any], Any]) -> None:
    kinds = [operator.kind for operator in read_onnx(exported(tmp_path, Network(function))).graph.operators]
    assert not {"attention", "norm"} & set(kinds)


def test_masks_and_tables_of_positions_are_no_parameters(tmp_path: Path) -> None:
    network = Network(windowed)
    used = [network.before, network.after, network.query, network.key, network.value]
    graph = read_onnx(exported(tmp_path, network)).graph
    assert graph.parameters == sum(p.numel() for layer in used for p in layer.parameters())


def test_rows_of_experts_are_one_product(tmp_path: Path) -> None:
    graph = read_onnx(exported(tmp_path, Network(experts))).graph
    (product,) = (operator for operator in graph.operators if operator.kind == "experts")
    assert product.forward_flops == 2 * SAMPLES * TOKENS * WIDTH * WIDTH and product.backward_flops == (
        2 * product.forward_flops
    )
    assert product.parameters == 7 * WIDTH * WIDTH
    assert product.dimensions["expert"] == 7 and product.dimensions["in_channel"] == WIDTH
    assert not [operator for operator in graph.operators if operator.kind == "embedding"]


def computed_experts(net: Any, x: Any) -> Any:
    rows = x.reshape(-1, WIDTH)
    return torch.bmm((net.experts * x.mean())[rows.argmax(-1) % 7], rows.unsqueeze(-1)).squeeze(-1)


def test_rows_of_matrices_that_are_no_weights_are_products_each(tmp_path: Path) -> None:
    kinds = [operator.kind for operator in read_onnx(exported(tmp_path, Network(computed_experts))).graph.operators]
    assert "experts" not in kinds


def test_constants_are_small_numbers() -> None:
    helper = onnx.helper
    words = helper.make_tensor("words", onnx.TensorProto.STRING, [2], [b"a", b"b"])
    few, many, step = (
        helper.make_tensor(name, 7, [], [value]) for name, value in (("few", 3), ("many", 99), ("step", 1))
    )
    nodes = [helper.make_node("Range", ["few", each, "step"], [each[0]]) for each in ("many", "few")]
    graph = helper.make_graph(nodes, "constants", [], [], [words, few, many, step])
    constants = Constants(onnx, helper.make_model(graph), {"m": (99,), "f": (3,)})
    names = ("words", "few", "many", "step", "f", "m", "none")
    assert [name for name in names if constants.value(name, 20) is not None] == ["few", "many", "step", "f"]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_views_are_those_of_pytorch(before: list[int], random: Any) -> None:
    order = random.sample(range(len(before)), len(before))
    count = math.prod(before)
    after = [random.choice([size for size in range(1, count + 1) if count % size == 0])]
    after = [*after, count // after[0]]
    try:
        torch.empty(before).permute(order).view(after)
    except RuntimeError:
        assert not is_view(before, order, after)
    else:
        assert is_view(before, order, after)


def test_a_tied_table_counts_once(tmp_path: Path) -> None:
    node, helper = onnx.helper.make_node, onnx.helper
    nodes = [
        node("Gather", ["w", "x"], ["a"]),
        node("Transpose", ["w"], ["t"], perm=[1, 0]),
        node("MatMul", ["a", "t"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tied",
        [helper.make_tensor_value_info("x", 7, [2, 3])],
        [helper.make_tensor_value_info("y", 1, None)],
        [helper.make_tensor("w", 1, [8, 6], bytes(4 * 48), raw=True)],
    )
    path = tmp_path / "tied.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    assert read_onnx(path).graph.parameters == 48


def test_nodes_out_of_order_are_refused(tmp_path: Path) -> None:
    """Among them those that read what they make."""
    node, helper = onnx.helper.make_node, onnx.helper
    graph = helper.make_graph(
        [node("Add", ["x", "y"], ["y"])],
        "loop",
        [helper.make_tensor_value_info("x", 1, [2, 3])],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    path = tmp_path / "loop.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    with pytest.raises(InputError, match="reads 'y', which no node before it makes"):
        read_onnx(path)


def changed(model: Any, random: Random) -> Any:
    """A model with a few operators, operands, attributes and sizes exchanged for others."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for _ in range(random.randint(1, 4)):
        node, other = random.choice(model.graph.node), random.choice(model.graph.node)
        names = [*node.input, *other.input, *other.output, "", "x"]
        way = random.randrange(8)
        if way == 0:
            node.op_type = other.op_type
        elif way == 1 and node.input:
            node.input[random.randrange(len(node.input))] = random.choice(names)
        elif way == 2 and node.input:
            node.input.pop()
        elif way == 3:
            node.input.append(random.choice(names))
        elif way == 4 and node.attribute:
            attribute = random.choice(node.attribute)
            attribute.i, attribute.f = random.choice([-1, 0, 1, 2, 7, 1 << 40]), random.choice([0.0, -1.0, 1e30])
        elif way == 5 and node.attribute:
            node.attribute.pop()
        elif way == 6 and model.graph.initializer:
            weight = random.choice(model.graph.initializer)
            weight.dims[:] = [random.choice([0, 1, 2, 5, 32, 1 << 20]) for _ in range(random.randint(0, 4))]
        elif way == 7:
            node.output[0] = random.choice([*node.output, *other.output, ""])
    return model


def read_changed(folder: Path, count: int) -> int:
    """Read changed models; returns how many were read, the others are refused in one line."""
    done, path = 0, folder / "changed.onnx"
    for function in (*KINDS, windowed, norm_that_is_read, experts):
        model, random = onnx.load(exported(folder, Network(function))), Random(function.__name__)
        for weight in model.graph.initializer:
            if len(weight.raw_data) > 64:
                weight.ClearField("raw_data")
                weight.data_location = onnx.TensorProto.EXTERNAL
        for number in range(count):
            mutant = changed(model, random)
            path.write_bytes(mutant.SerializeToString())
            try:
                read_onnx(path)
                done += 1
            except InputError as error:
                assert "\n" not in str(error), str(error)
            except Exception as error:
                raise AssertionError(f"{function.__name__}, mutant {number}: {error!r}") from error
    return done


@pytest.mark.long
def test_changed_models_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    assert read_changed(tmp_path, 40) > 50


@pytest.mark.slow
def test_many_changed_models_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    read_changed(tmp_path, 2_000)


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = exported(tmp_path, Network(gelu))
    path.write_bytes(path.read_bytes().replace(b"/Erf", b"/\xe5rf"))
    with pytest.raises(InputError, match=r"no ONNX model: it holds names that are no UTF-8"):
        read_onnx(path)


def test_a_long_chain_of_shapes_is_read_in_time(tmp_path: Path) -> None:
    """Each expansion follows from the shape of the one before."""
    node = onnx.helper.make_node
    nodes, last = [node("Constant", [], ["no"], value_int=0), node("Constant", [], ["one"], value_ints=[1, 1])], "x"
    for i in range(500):
        nodes += [
            node("Shape", [last], [f"s{i}"]),
            node("Equal", [f"s{i}", "no"], [f"e{i}"]),
            node("Where", [f"e{i}", "one", f"s{i}"], [f"w{i}"]),
            node("Expand", [last, f"w{i}"], [f"x{i}"]),
        ]
        last = f"x{i}"
    nodes.append(node("MatMul", [last, "w"], ["y"]))
    helper = onnx.helper
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", 1, ["batch", 8])],
        [helper.make_tensor_value_info("y", 1, None)],
        [helper.make_tensor("w", 1, [8, 6], bytes(4 * 48), raw=True)],
    )
    path = tmp_path / "chain.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    assert read_onnx(path).graph.with_batch(4).operator("matmul").forward_flops == 2 * 4 * 8 * 6
