"""Kernels that ONNX files hold in parts are read as one operator each, as they are in a traced module."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import InputError
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.models.onnx import read_onnx
from lightloom.models.onnx_shapes import Constants, is_view, merged, shaped_model
from tests.interchange.test_onnx import graph_of, written

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
        self.up, self.down = (torch.nn.Parameter(torch.ones(7, WIDTH, 24)) for _ in range(2))

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


def filled(net: Any, x: Any) -> Any:
    """Scores of scaled queries, of which those of later tokens are filled up; keys of two heads for all four."""
    q, v = heads(net.query(x)) * 8**-0.5, heads(net.value(x))
    k = heads(net.key(x)[..., : WIDTH // 2], 2)
    k = k[:, :, None].expand(-1, -1, 2, -1, -1).reshape(SAMPLES, HEADS, TOKENS, 8)
    later = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    return joined((q @ k.transpose(2, 3)).masked_fill(later, float("-inf")).softmax(-1) @ v)


def over_queries(net: Any, x: Any) -> Any:
    """Weights that add up to one over the queries."""
    q, k, v = heads(net.query(x)), heads(net.key(x)), heads(net.value(x))
    return joined((q @ k.transpose(2, 3)).softmax(2) @ v)


def weights_that_are_read(net: Any, x: Any) -> Any:
    q, k, v = heads(net.query(x)), heads(net.key(x)), heads(net.value(x))
    weights = (q @ k.transpose(2, 3)).softmax(-1)
    return joined(weights @ v) + weights.mean()


def one_head(net: Any, x: Any) -> Any:
    """Products of three axes."""
    return (net.query(x) @ net.key(x).transpose(1, 2)).softmax(-1) @ net.value(x)


def computed_mask(net: Any, x: Any) -> Any:
    """What is added to the scores follows from the samples."""
    q, k, v = heads(net.query(x)), heads(net.key(x)), heads(net.value(x))
    return joined((q @ k.transpose(2, 3) + x.mean(-1)[:, None, None]).softmax(-1) @ v)


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
    filled: ["linear", "linear", "linear", "attention", "copy"],
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


PARTS = (by_hand, filled, rms_norm, norm_of_the_first_token, layer_norm, tanh_gelu)
"""What the tracer leaves in parts, as no module names it."""


def test_a_norm_reads_what_it_is_of(tmp_path: Path) -> None:
    (found,) = operators(read_onnx(exported(tmp_path, Network(norm_of_the_first_token))).graph)
    assert found.forward_bytes == 4 * (2 * SAMPLES * WIDTH + WIDTH)


@pytest.mark.parametrize("function", [whole, causal, masked, by_hand, filled], ids=lambda function: function.__name__)
def test_masks_are_told(tmp_path: Path, function: Callable[[Any, Any], Any]) -> None:
    graph = read_onnx(exported(tmp_path, Network(function))).graph
    (found,) = (operator for operator in graph.operators if operator.kind == "attention")
    assert found.causal is (function is not whole)
    shared = {"key_head": 2} if function is filled else {}
    assert found.dimensions == {
        "sample": SAMPLES,
        "head": 4,
        "sequence": 6,
        "key_sequence": 6,
        "head_dim": 8,
        **shared,
    }


def crossed(net: Any, x: Any) -> Any:
    """Four queries look at six keys."""
    q, k, v = heads(net.query(x[:, :4])), heads(net.key(x)), heads(net.value(x))
    made = (q @ k.transpose(2, 3)).softmax(-1) @ v
    return made.transpose(1, 2).reshape(SAMPLES, 4, WIDTH)


def test_queries_and_keys_have_lengths_of_their_own(tmp_path: Path) -> None:
    graph = read_onnx(exported(tmp_path, Network(crossed))).graph
    (found,) = (operator for operator in graph.operators if operator.kind == "attention")
    assert found.dimensions == {"sample": SAMPLES, "head": 4, "sequence": 4, "key_sequence": 6, "head_dim": 8}
    assert not found.causal and found.forward_flops == 2 * 2 * SAMPLES * 4 * 4 * 6 * 8
    assert found.backward_flops == 2 * found.forward_flops


@pytest.mark.parametrize(
    "function",
    [windowed, norm_that_is_read, over_queries, weights_that_are_read, one_head, computed_mask],
    ids=lambda function: function.__name__,
)
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


def two_layers_of_experts(net: Any, x: Any) -> Any:
    """Rows before the first stack of matrices, and behind the second."""
    rows = x.reshape(-1, WIDTH)
    chosen = rows.argmax(-1) % 7
    inside = torch.bmm(rows.unsqueeze(1), net.up[chosen]).exp()
    return torch.bmm(net.down[chosen], inside.transpose(1, 2)).squeeze(-1)


def test_rows_stay_in_the_order_of_experts_between_their_layers(tmp_path: Path) -> None:
    graph = read_onnx(exported(tmp_path, Network(two_layers_of_experts))).graph
    first, second = (operator for operator in graph.operators if operator.kind == "experts")
    for product, width in ((first, WIDTH), (second, 24)):
        assert product.forward_flops == 2 * SAMPLES * TOKENS * WIDTH * 24
        assert product.parameters == 7 * WIDTH * 24
        assert (product.dimensions["in_channel"], product.dimensions["channel"]) == (width, WIDTH + 24 - width)
    kinds = [operator.kind for operator in graph.operators]
    assert "copy" not in kinds[kinds.index("experts") : graph.operators.index(second)]
    assert kinds[graph.operators.index(second) + 1] == "copy"


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


def merged_words(
    folder: Path,
    nodes: list[Any],
    inputs: dict[str, list[Any]],
    constants: dict[str, Any] | None = None,
    outputs: tuple[str, ...] = (),
) -> list[str]:
    """Kinds of the nodes of a small model that are left once parts of kernels are merged; causal attention is
    marked."""
    model = graph_of(nodes, inputs, {})
    for name, value in (constants or {}).items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    for name in outputs:
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, 1, None))
    shaped = shaped_model(written(folder, model), batch=2, sequence_length=None, definitions={})
    return [
        node.op_type + "!" * any(each.name == "is_causal" and each.i for each in node.attribute)
        for node in merged(shaped).nodes
    ]


WEIGHT = np.zeros((8, 6), np.float32)


@pytest.mark.parametrize(
    ("bias", "weight", "joined"),
    [
        (np.zeros(6, np.float32), WEIGHT, True),
        (np.zeros((1, 1, 6), np.float32), WEIGHT, True),
        (np.zeros((4, 6), np.float32), WEIGHT, False),
        (np.zeros((1, 4, 1), np.float32), WEIGHT, False),
        (np.zeros(1, np.float32), WEIGHT, False),
        (np.zeros(6, np.float32), np.zeros((2, 8, 6), np.float32), False),
        (np.zeros(6, np.int32), np.zeros((8, 6), np.int32), False),
    ],
)
def test_a_bias_of_the_channels_is_part_of_the_product(tmp_path: Path, bias: Any, weight: Any, joined: bool) -> None:
    node = onnx.helper.make_node
    first = [] if bias.dtype == np.float32 else [node("Cast", ["x"], ["i"], to=6)]
    nodes = [*first, node("MatMul", ["i" if first else "x", "w"], ["a"]), node("Add", ["a", "b"], ["y"])]
    found = merged_words(tmp_path, nodes, {"x": [2, 4, 8]}, {"w": weight, "b": bias})
    assert found[len(first) :] == (["Gemm"] if joined else ["MatMul", "Add"])


def test_a_product_that_something_else_reads_or_of_no_weight_keeps_its_bias_apart(tmp_path: Path) -> None:
    node = onnx.helper.make_node
    product, added = node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "b"], ["y"])
    sizes: dict[str, list[Any]] = {"x": [2, 4, 8]}
    bias, constants = {"b": np.zeros(6, np.float32)}, {"b": np.zeros(6, np.float32), "w": WEIGHT}
    assert merged_words(tmp_path, [product, added], sizes, constants, ("a",)) == ["MatMul", "Add"]
    more = node("Relu", ["a"], ["z"])
    assert merged_words(tmp_path, [product, more, added], sizes, constants, ("z",)) == ["MatMul", "Relu", "Add"]
    assert merged_words(tmp_path, [product, added], {**sizes, "w": [8, 6]}, bias) == ["MatMul", "Add"]
    twice = node("Sub", ["a", "b"], ["y"])
    assert merged_words(tmp_path, [product, twice], sizes, constants) == ["MatMul", "Sub"]


@pytest.mark.parametrize(
    ("node", "left"),
    [
        (("Dropout", ["x", "none", "true"], {}), "Identity"),
        (("Dropout", ["x", "half", "true"], {}), "Dropout"),
        (("Cast", ["x"], {"to": 1}), "Identity"),
        (("Cast", ["x"], {"to": 11}), "Cast"),
        (("Gather", ["x", "first"], {"axis": 1}), "Squeeze"),
        (("Gather", ["x", "two"], {"axis": 1}), "Gather"),
        (("Gather", ["x", "chosen"], {"axis": 1}), "Gather"),
    ],
)
def test_what_computes_nothing_is_a_view(
    tmp_path: Path, node: tuple[str, list[str], dict[str, Any]], left: str
) -> None:
    constants = {
        "none": np.float32(0),
        "half": np.float32(0.5),
        "true": np.True_,
        "first": np.int64(0),
        "two": np.array([0, 1]),
    }
    kind, read, attributes = node
    nodes = [
        onnx.helper.make_node("Cast", ["c"], ["chosen"], to=7),
        onnx.helper.make_node(kind, read, ["y"], **attributes),
    ]
    assert merged_words(tmp_path, nodes, {"x": [2, 3, 4], "c": []}, constants) == ["Cast", left]


@pytest.mark.parametrize(
    ("perm", "shape", "left"),
    [([0, 2, 1], [2, 12], "Contiguous"), ([0, 2, 1], [2, 4, 3], "Reshape"), ([1, 0, 2], [12, 2], "Contiguous"),
     (None, [24], "Contiguous"), ([0, 1, 2], [24], "Reshape")],
)  # fmt: skip
def test_reshapes_that_no_strides_express_are_copies(
    tmp_path: Path, perm: list[int] | None, shape: list[int], left: str
) -> None:
    node = onnx.helper.make_node
    options = {} if perm is None else {"perm": perm}
    nodes = [node("Transpose", ["x"], ["t"], **options), node("Reshape", ["t", "shape"], ["y"])]
    found = merged_words(tmp_path, nodes, {"x": [2, 3, 4]}, {"shape": np.array(shape)})
    assert found == ["Transpose", left]


@pytest.mark.parametrize(
    ("length", "left"), [(1, ["Sigmoid"]), (2, ["Swish"]), (12, ["Swish"]), (13, ["Swish", "Neg"])]
)
def test_an_activation_has_two_to_twelve_parts(tmp_path: Path, length: int, left: list[str]) -> None:
    node = onnx.helper.make_node
    chain = [node("Sigmoid", ["x"], ["a0"])] + [node("Neg", [f"a{n}"], [f"a{n + 1}"]) for n in range(length - 1)]
    chain[-1].output[0] = "y"
    assert merged_words(tmp_path, chain, {"x": [2, 3]}) == left


@pytest.mark.parametrize(
    ("second", "outputs", "left"),
    [
        (("Mul", ["x", "s"]), (), ["Swish"]),
        (("Mul", ["s", "c"]), (), ["Swish"]),
        (("Mul", ["x", "s"]), ("s",), ["Sigmoid", "Mul"]),
        (("Mul", ["z", "s"]), (), ["Sigmoid", "Mul"]),
        (("Mul", ["s", "row"]), (), ["Sigmoid", "Mul"]),
        (("Softmax", ["s"]), (), ["Sigmoid", "Softmax"]),
    ],
)
def test_an_activation_is_a_function_of_one_tensor_and_scalars_whose_insides_nothing_reads(
    tmp_path: Path, second: tuple[str, list[str]], outputs: tuple[str, ...], left: list[str]
) -> None:
    nodes = [onnx.helper.make_node("Sigmoid", ["x"], ["s"]), onnx.helper.make_node(*second, ["y"])]
    constants = {"c": np.float32(2), "row": np.zeros(3, np.float32)}
    assert merged_words(tmp_path, nodes, {"x": [2, 3], "z": [2, 3]}, constants, outputs) == left


def test_each_sort_of_activation_has_its_name(tmp_path: Path) -> None:
    for seed, kind in (("Erf", "Gelu"), ("Tanh", "Gelu"), ("Sigmoid", "Swish"), ("Exp", "")):
        nodes = [onnx.helper.make_node(seed, ["x"], ["s"]), onnx.helper.make_node("Mul", ["x", "s"], ["y"])]
        assert merged_words(tmp_path, nodes, {"x": [2, 3]}) == ([kind] if kind else [seed, "Mul"])


UPPER = np.triu(np.ones((6, 6), np.float32), 1)


@pytest.mark.parametrize(
    ("inside", "left"),
    [
        ([], ["Attention"]),
        ([("Mul", ["half"])], ["Attention"]),
        ([("Add", ["low"])], ["Attention!"]),
        ([("Add", ["nearly"])], []),
        ([("Add", ["window"])], []),
        ([("Add", ["row"])], []),
        ([("Mul", ["low"])], []),
        ([("Mul", ["half"]), ("Add", ["low"])], ["Attention!"]),
        ([("Add", ["low"]), ("Add", ["window"])], []),
        ([("Where left", [])], ["Attention!"]),
        ([("Where right", [])], ["Attention!"]),
        ([("Where wrong", [])], []),
        ([("Relu", [])], []),
    ],
)
def test_attention_is_read_where_its_masks_are_causal(
    tmp_path: Path, inside: list[tuple[str, list[str]]], left: list[str]
) -> None:
    node, name = onnx.helper.make_node, "s"
    nodes = [node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]), node("MatMul", ["q", "t"], ["s"])]
    for number, (kind, more) in enumerate(inside):
        read = {
            "Where left": ["seen", name, "least"],
            "Where right": ["hidden", "least", name],
            "Where wrong": ["hidden", name, "least"],
        }.get(kind, [name, *more])
        nodes.append(node(kind.split()[0], read, [f"m{number}"]))
        name = f"m{number}"
    nodes += [node("Softmax", [name], ["p"], axis=-1), node("MatMul", ["p", "v"], ["y"])]
    constants = {
        "half": np.float32(0.5),
        "low": -1e4 * UPPER,
        "nearly": np.float32(-9999) * UPPER,
        "window": -1e9 * (UPPER + UPPER.T),
        "row": np.zeros((1, 6), np.float32),
        "seen": UPPER == 0,
        "hidden": UPPER == 1,
        "least": np.float32(-1e9),
    }
    constants = {
        key: value.astype(np.float32) if value.dtype == np.float64 else value for key, value in constants.items()
    }
    found = merged_words(tmp_path, nodes, {each: [2, 4, 6, 8] for each in "qkv"}, constants)
    assert [word for word in found if word != "Transpose"] == (left or [each.op_type for each in nodes[1:]])


@pytest.mark.parametrize(
    ("axes", "axis", "perm", "joined"),
    [
        (4, 3, [0, 1, 3, 2], True),
        (4, -1, [0, 1, 3, 2], True),
        (4, 2, [0, 1, 3, 2], False),
        (4, -2, [0, 1, 3, 2], False),
        (3, -1, [0, 2, 1], False),
    ],
)
def test_attention_has_four_axes_and_weights_over_the_last(
    tmp_path: Path, axes: int, axis: int, perm: list[int], joined: bool
) -> None:
    node = onnx.helper.make_node
    nodes = [
        node("Transpose", ["k"], ["t"], perm=perm),
        node("MatMul", ["q", "t"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=axis),
        node("MatMul", ["p", "v"], ["y"]),
    ]
    for change in ((), ("y", "p"), ("y", "s")):
        found = merged_words(tmp_path, nodes, {each: [2, 4, 6, 8][-axes:] for each in "qkv"}, {}, change[1:])
        assert ("Attention" in found) is (joined and not change)
    swapped = [*nodes[:3], node("MatMul", ["v", "p"], ["y"])]
    same = {each: [2, 4, 6, 6][-axes:] for each in "qkv"}
    assert "Attention" not in merged_words(tmp_path, swapped, same)


def test_scalings_of_queries_and_keys_are_part_of_attention_unless_something_else_reads_them(tmp_path: Path) -> None:
    node = onnx.helper.make_node
    nodes = [
        node("Div", ["q", "c"], ["scaled"]),
        node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
        node("Mul", ["t", "c"], ["u"]),
        node("MatMul", ["scaled", "u"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("Dropout", ["p"], ["d"]),
        node("MatMul", ["d", "v"], ["y"]),
    ]
    sizes = {each: [2, 4, 6, 8] for each in "qkv"}
    constants = {"c": np.float32(2), "row": np.ones(8, np.float32)}
    assert merged_words(tmp_path, nodes, sizes, constants) == ["Transpose", "Attention"]
    read = [*nodes, node("Neg", ["scaled"], ["z"])]
    assert merged_words(tmp_path, read, sizes, constants, ("z",)) == ["Div", "Transpose", "Attention", "Neg"]
    by_row = [node("Mul", ["q", "row"], ["scaled"]), *nodes[1:]]
    assert merged_words(tmp_path, by_row, sizes, constants) == ["Mul", "Transpose", "Attention"]
