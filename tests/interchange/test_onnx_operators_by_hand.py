"""Operators of small ONNX models, whose FLOPs, bytes and sizes are counted by hand; no two axes have the same size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import WorkloadError
from lightloom.models.graph import Operator
from lightloom.models.onnx import kind_of, product_of, read_onnx
from lightloom.models.onnx_shapes import Value
from lightloom.models.operator_words import Product

from .onnx_models import INT64, graph_of, model_of, node, written

Shape = tuple[int, ...]


def made(kind: str, shapes: Sequence[Shape | None], output: Shape, **attributes: Any) -> Product | None:
    """What a node of this kind multiplies that reads tensors of these shapes."""
    found = node(kind, [f"x{i}" for i in range(len(shapes))], ["y"], **attributes)
    return product_of(found, [None if s is None else Value(shape=s) for s in shapes], Value(shape=output))


@pytest.mark.parametrize(
    ("kind", "shapes", "output", "attributes", "flops", "summed"),
    [
        ("MatMul", [(2, 3, 5), (5, 7)], (2, 3, 7), {}, 2 * 2 * 3 * 7 * 5, 5),
        ("MatMulInteger", [(3, 5), (5, 7)], (3, 7), {}, 2 * 3 * 7 * 5, 5),
        ("QLinearMatMul", [(3, 5), (), (), (5, 7)], (3, 7), {}, 2 * 3 * 7 * 5, 5),
        ("Gemm", [(3, 5), (5, 7), (7,)], (3, 7), {}, 2 * 3 * 7 * 5, 5),
        ("Gemm", [(5, 3), (7, 5)], (3, 7), {"transA": 1, "transB": 1}, 2 * 3 * 7 * 5, 5),
        ("Gemm", [(5, 3), (5, 7)], (3, 7), {"transA": 1}, 2 * 3 * 7 * 5, 5),
        ("Conv", [(2, 3, 13, 17), (5, 3, 2, 4)], (2, 5, 12, 14), {}, 2 * (2 * 5 * 12 * 14) * (3 * 2 * 4), 24),
        ("Conv", [(2, 6, 13), (10, 3, 4)], (2, 10, 10), {"group": 2}, 2 * (2 * 10 * 10) * (3 * 4), 12),
        ("QLinearConv", [(2, 3, 13), (), (), (5, 3, 4)], (2, 5, 10), {}, 2 * (2 * 5 * 10) * 12, 12),
        ("ConvTranspose", [(2, 3, 13), (3, 5, 4)], (2, 5, 16), {}, 2 * (2 * 3 * 13) * (5 * 4), 20),
        ("LSTM", [(7, 11, 3), (1, 20, 3), (1, 20, 5)], (7, 1, 11, 5), {}, 2 * 7 * 11 * 20 * (3 + 5), 3),
        ("LSTM", [(7, 11, 3), (2, 20, 3), (2, 20, 5)], (7, 2, 11, 5), {}, 2 * 7 * 11 * 40 * (3 + 5), 3),
        ("GRU", [(7, 11, 3), (2, 15, 3), (2, 15, 5)], (7, 2, 11, 5), {}, 2 * 7 * 11 * 30 * (3 + 5), 3),
        ("RNN", [(7, 11, 3), (1, 5, 3), (1, 5, 5), (1, 10)], (7, 1, 11, 5), {}, 2 * 7 * 11 * 5 * (3 + 5), 3),
        ("Einsum", [(2, 3), (3, 5), (2,)], (5,), {"equation": "ij,jk,i->k"}, 2 * 2 * 3 * 5, 6),
        (
            "Attention", [(2, 5, 21), (2, 11, 21), (2, 11, 39)], (2, 5, 39), {"q_num_heads": 3, "kv_num_heads": 3},
            2 * (2 * 3 * 5) * 11 * (7 + 13), 7,
        ),
        (
            "Attention", [(2, 5, 42), (2, 11, 21), (2, 11, 39)], (2, 5, 78), {"q_num_heads": 6, "kv_num_heads": 3},
            2 * (2 * 6 * 5) * 11 * (7 + 13), 7,
        ),
        ("Attention", [(2, 5, 7), (2, 11, 7), (2, 11, 13)], (2, 5, 13), {}, 2 * (2 * 5) * 11 * (7 + 13), 7),
        (
            "Attention", [(2, 3, 5, 7), (2, 3, 11, 7), (2, 3, 11, 13)], (2, 3, 5, 13), {"q_num_heads": 9},
            2 * (2 * 3 * 5) * 11 * (7 + 13), 7,
        ),
    ],
)  # fmt: skip
def test_products_count_each_factor_once(
    kind: str, shapes: list[Shape], output: Shape, attributes: dict[str, Any], flops: int, summed: int
) -> None:
    found = made(kind, shapes, output, **attributes)
    assert found is not None and (found.flops, found.summed) == (flops, summed)


@pytest.mark.parametrize(
    "kind", ["Relu", "Add", "Softmax", "LayerNormalization", "Gather", "MaxPool", "Tile", "Nothing"]
)
def test_what_multiplies_no_matrices_has_no_product(kind: str) -> None:
    assert made(kind, [(2, 3), (3, 5)], (2, 3)) is None


@pytest.mark.parametrize(
    ("kind", "shapes", "attributes", "complaint"),
    [
        ("MatMul", [(2, 3, 4), (5, 4, 6)], {}, "node 'y': MatMul: operands [(2, 3, 4), (5, 4, 6)]"),
        ("MatMul", [(2, 3), (3, 4)], {"name": "n", "again": 1}, None),
        ("MatMul", [(2, 3)], {"name": "n"}, "node 'n' (MatMul): operand 1 has no axes"),
        ("MatMul", [None, (2, 3)], {}, "node 'y' (MatMul): operand 0 has no axes"),
        ("MatMul", [(2, 3), ()], {}, "node 'y' (MatMul): operand 1 has no axes"),
        ("QLinearMatMul", [(2, 3), (3, 4), (3, 4)], {}, "node 'y' (QLinearMatMul): operand 3 has no axes"),
        ("LSTM", [(7, 2, 3), (1, 16, 3)], {}, "node 'y' (LSTM): operand 2 has no axes"),
        ("LSTM", [(7, 3), (1, 8, 3), (1, 8, 2)], {"name": "l"}, "node 'l': LSTM: operands [(7, 3), (8, 3), (8, 2)]"),
        ("Attention", [(2, 3, 4), (2, 3, 4)], {}, "node 'y' (Attention): operand 2 has no axes"),
        ("Einsum", [(2, 3), (3, 4)], {"equation": "ij,j->i"}, "node 'y': Einsum 'ij,j->i': expected one label an axis"),
        ("Einsum", [(2, 3), None, (3, 4)], {"equation": "ij,jk->ik"}, None),
    ],
)  # fmt: skip
def test_operands_that_do_not_fit_are_named(
    kind: str, shapes: list[Shape | None], attributes: dict[str, Any], complaint: str | None
) -> None:
    if complaint is None:
        assert made(kind, shapes, (2, 4), **attributes) is not None
        return
    with pytest.raises(WorkloadError) as refused:
        made(kind, shapes, (2, 4), **attributes)
    assert str(refused.value) == complaint


SOME, NONE = Product(60, (0, 1), 3, (2, 5)), Product(0, (0, 1), 3, (0, 5))


@pytest.mark.parametrize(
    ("kind", "product", "summands", "weighted", "expected"),
    [
        ("Gather", None, 1, True, "embedding"),
        ("Gather", None, 1, False, "copy"),
        ("GatherElements", None, 1, True, "copy"),
        ("MatMul", SOME, 1, True, "linear"),
        ("MatMul", SOME, 2, False, "matmul"),
        ("MatMul", NONE, 1, True, "elementwise"),
        ("MatMul", None, 1, True, "elementwise"),
        ("Gemm", SOME, 1, True, "linear"),
        ("Gemm", SOME, 1, False, "matmul"),
        ("Einsum", SOME, 1, True, "matmul"),
        ("Conv", SOME, 1, True, "conv"),
        ("ConvTranspose", SOME, 1, False, "conv"),
        ("GroupedMatMul", SOME, 1, True, "experts"),
        ("LSTM", SOME, 1, True, "recurrent"),
        ("Attention", SOME, 3, False, "attention"),
        ("Add", None, 2, False, "add"),
        ("Add", None, 1, True, "elementwise"),
        ("Sum", None, 3, False, "add"),
        ("Mul", None, 2, False, "elementwise"),
        ("Cast", None, 1, False, "copy"),
        ("Concat", None, 2, False, "concat"),
        ("LayerNormalization", None, 1, True, "norm"),
        ("BatchNormalization", None, 1, True, "batch_norm"),
        ("GlobalAveragePool", None, 1, False, "pool"),
        ("LeakyRelu", None, 1, False, "activation"),
        ("Hardmax", None, 1, False, "softmax"),
        ("TopK", None, 1, False, "topk"),
        ("Dropout", None, 1, False, "dropout"),
        ("ReduceMean", None, 1, False, "reduce"),
        ("SoftmaxCrossEntropyLoss", None, 2, False, "loss"),
        ("LRN", None, 1, False, "lrn"),
    ],
)
def test_kinds_follow_from_the_word_the_product_and_the_weights(
    kind: str, product: Product | None, summands: int, weighted: bool, expected: str
) -> None:
    assert kind_of(node(kind, ["x"], ["y"]), product, summands, weighted) == expected


def counts(operator: Operator) -> tuple[int, int, int, int]:
    """Elements of its parameters, of its result, of what it reads and writes, and of what no batch changes."""
    return tuple(
        size // 4
        for size in (
            operator.parameter_bytes, operator.activation_bytes, operator.forward_bytes, operator.shared_bytes,
        )
    )  # type: ignore[return-value] # fmt: skip


def test_two_products_and_a_bias_of_a_dynamic_batch(tmp_path: Path) -> None:
    """The first product needs no gradient of the samples, the second does; views make no operators."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"], name="/body/first/MatMul"),
        node("Add", ["b", "a"], ["c"], name="/body/first/Add"),
        node("Relu", ["c"], ["d"], name="act"),
        node("Transpose", ["d"], ["e"], perm=[0, 2, 1], name="turn"),
        node("MatMul", ["e", "v"], ["f"], name="last"),
        node("Relu", ["f"], ["y"], name="act"),
    ]
    model = model_of(nodes, {"x": ["n", 3, 5]}, {"w": [5, 7], "b": [7], "v": [3, 11]})
    reading = read_onnx(written(tmp_path, model))
    graph = reading.graph
    assert (graph.name, graph.batch, graph.element_bytes, graph.uncounted) == ("model", 13, 4, ())
    assert [operator.name for operator in graph.operators] == ["input.x", "body.first.MatMul", "act", "last", "act#2"]
    given, first, act, last, again = graph.operators
    assert (given.kind, given.inputs, given.dimensions) == ("input", (), {"sample": 13, "sequence": 3, "channel": 5})
    assert (first.kind, first.inputs, first.block) == ("linear", ("input.x",), "body.first")
    assert first.dimensions["channel"] == 7 and first.dimensions["in_channel"] == 5 and first.dimensions["sample"] == 13
    assert first.forward_flops == first.backward_flops == 2 * 13 * 3 * 5 * 7
    assert counts(first) == (5 * 7 + 7, 13 * 3 * 7, 13 * 3 * 5 + 5 * 7 + 7 + 13 * 3 * 7, 5 * 7 + 7)
    assert (act.kind, act.inputs, act.forward_flops, act.backward_flops, act.block) == (
        "activation", ("body.first.MatMul",), 13 * 3 * 7, 13 * 3 * 7, "",
    )  # fmt: skip
    assert counts(act) == (0, 13 * 3 * 7, 2 * 13 * 3 * 7, 0)
    assert (last.kind, last.inputs, last.forward_flops) == ("linear", ("act",), 2 * 13 * 7 * 3 * 11)
    assert last.backward_flops == 2 * last.forward_flops
    assert counts(last) == (3 * 11, 13 * 7 * 11, 13 * 3 * 7 + 3 * 11 + 13 * 7 * 11, 3 * 11)
    assert again.inputs == ("last",)
    assert reading.unrecorded == (
        "5 nodes: 4 operators, 1 views of their results, 0 constants",
        "which constants train: all floating ones that operators multiply, add or look up are taken as parameters",
        "loss, backward pass and optimizer: gradients as the operators need them",
    )


def test_inputs_are_operators_of_their_own_in_order(tmp_path: Path) -> None:
    model = model_of([node("Add", ["x", "z"], ["y"])], {"z": [7, 3, 5], "x": [7, 1, 5]})
    z, x, total = graph_of(tmp_path, model).operators
    assert [(each.name, each.kind, each.activation_bytes) for each in (z, x)] == [
        ("input.z", "input", 4 * 7 * 3 * 5),
        ("input.x", "input", 4 * 7 * 5),
    ]
    assert z.dimensions["sample"] == x.dimensions["sample"] == 7
    assert (total.name, total.kind, total.inputs) == ("add", "add", ("input.x", "input.z"))
    # Nothing trains, so that nothing needs a gradient.
    assert (total.forward_flops, total.backward_flops) == (105, 0)
    assert counts(total) == (0, 105, 105 + 35 + 105, 0)


def test_the_same_tensor_read_twice_is_one_input(tmp_path: Path) -> None:
    (_, total) = graph_of(tmp_path, model_of([node("Add", ["x", "x"], ["y"])], {"x": [7, 3]})).operators
    assert (total.kind, total.inputs, total.forward_bytes) == ("elementwise", ("input.x",), 4 * 2 * 21)


def test_an_embedding_reads_the_rows_that_it_looks_up(tmp_path: Path) -> None:
    nodes = [node("Gather", ["table", "x"], ["a"], name="look"), node("MatMul", ["a", "w"], ["y"])]
    model = model_of(nodes, {"x": ["n", 3]}, {"table": [17, 5], "w": [5, 7]}, types={"x": INT64})
    _, look, product = graph_of(tmp_path, model).operators
    assert (look.kind, look.forward_flops, look.backward_flops) == ("embedding", 0, 0)
    assert counts(look) == (17 * 5, 13 * 3 * 5, 2 * 13 * 3 * 5, 0)
    # A gradient goes on to the table.
    assert product.backward_flops == 2 * product.forward_flops == 4 * 13 * 3 * 5 * 7


def test_a_convolution_names_its_kernel_and_groups(tmp_path: Path) -> None:
    nodes = [node("Conv", ["x", "w", "b"], ["a"], group=2), node("ConvTranspose", ["a", "v"], ["y"])]
    weights = {"w": [10, 3, 2, 4], "b": [10], "v": [10, 7, 3, 2]}
    _, conv, back = graph_of(tmp_path, model_of(nodes, {"x": ["n", 6, 9, 12]}, weights)).operators
    kernel = {"kernel_height": 2, "kernel_width": 4}
    assert conv.dimensions == {
        "sample": 13, "channel": 10, "height": 8, "width": 9, "in_channel": 6, "groups": 2, **kernel,
    }  # fmt: skip
    assert conv.forward_flops == conv.backward_flops == 2 * 13 * 10 * 8 * 9 * (3 * 2 * 4)
    assert counts(conv) == (250, 13 * 720, 13 * 6 * 9 * 12 + 250 + 13 * 720, 250)
    assert (back.dimensions["in_channel"], back.dimensions["channel"], back.dimensions["groups"]) == (10, 7, 1)
    assert back.forward_flops == 2 * 13 * (10 * 8 * 9) * (7 * 3 * 2)
    assert back.backward_flops == 2 * back.forward_flops


@pytest.mark.parametrize(("direction", "count"), [("forward", 1), ("bidirectional", 2)])
def test_a_recurrent_layer_has_the_weights_of_its_directions(tmp_path: Path, direction: str, count: int) -> None:
    recurrent = node("GRU", ["x", "w", "r", "b"], ["y", "last"], hidden_size=5, direction=direction)
    weights = {"w": [count, 15, 3], "r": [count, 15, 5], "b": [count, 30]}
    graph = graph_of(tmp_path, model_of([recurrent], {"x": [7, 11, 3]}, weights, outputs=["y", "last"]))
    found = graph.operators[-1]
    assert (found.name, found.kind, graph.batch) == ("gru", "recurrent", 7)
    assert found.forward_flops == found.backward_flops == 2 * 7 * 11 * count * 15 * (3 + 5)
    assert "in_channel" not in found.dimensions
    assert counts(found) == (count * 150, 7 * count * 11 * 5, 7 * 11 * 3 + count * 150 + 7 * count * 55, count * 150)


@pytest.mark.parametrize("flat", [False, True])
def test_attention_counts_its_heads_and_whether_it_is_causal(tmp_path: Path, flat: bool) -> None:
    shapes: dict[str, list[Any]] = {"q": ["n", 6, 5, 7], "k": ["n", 3, 11, 7], "v": ["n", 3, 11, 13]}
    if flat:
        shapes = {"q": ["n", 5, 42], "k": ["n", 11, 21], "v": ["n", 11, 39]}
    heads = {"q_num_heads": 6, "kv_num_heads": 3} if flat else {}
    for causal in (0, 1):
        made = node("Attention", ["q", "k", "v"], ["y"], is_causal=causal, **heads)
        found = graph_of(tmp_path, model_of([made], shapes, opset=23)).operators[-1]
        assert (found.kind, found.causal, found.visible_scores) == ("attention", bool(causal), 1 - causal / 2)
        assert found.forward_flops == 2 * (13 * 6 * 5) * 11 * (7 + 13) and found.backward_flops == 0
        assert found.inputs == ("input.q", "input.k", "input.v")
        assert counts(found)[1:] == (13 * 5 * 78, 13 * (5 * 42 + 11 * 21 + 11 * 39 + 5 * 78), 0)
        assert "in_channel" not in found.dimensions
        if not flat:
            assert found.dimensions == {
                "sample": 13, "head": 6, "key_head": 3, "sequence": 5, "key_sequence": 11, "head_dim": 7,
            }  # fmt: skip
        else:
            assert "head" not in found.dimensions and found.dimensions["sample"] == 13


def test_attention_whose_queries_are_projected_has_two_gradients(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "w"], ["q"]), node("Attention", ["q", "x", "x"], ["y"])]
    found = graph_of(tmp_path, model_of(nodes, {"x": [2, 3, 5, 7]}, {"w": [7, 7]}, opset=23)).operators[-1]
    assert found.backward_flops == 2 * found.forward_flops == 2 * 2 * (2 * 3 * 5) * 5 * (7 + 7)
    assert found.dimensions == {"sample": 2, "head": 3, "sequence": 5, "key_sequence": 5, "head_dim": 7}
    assert not found.causal


@pytest.mark.parametrize(
    ("kind", "shapes", "values", "parameters"),
    [
        ("Mul", [[7]], {}, 7),
        ("Mul", [[1]], {}, 0),
        ("Mul", [[2]], {}, 2),
        ("Div", [[7]], {}, 0),
        ("Pow", [[7]], {}, 0),
        ("Sub", [[7]], {}, 7),
        ("Add", [[3, 7]], {}, 21),
        ("PRelu", [[7]], {}, 7),
        ("Max", [[7]], {}, 7),
        ("Concat", [[2, 3, 7]], {"axis": 1}, 42),
    ],
)
def test_floating_constants_of_several_elements_train(
    tmp_path: Path, kind: str, shapes: list[list[int]], values: dict[str, Any], parameters: int
) -> None:
    last = 2 if shapes == [[2]] else 7
    weights = {f"w{i}": shape for i, shape in enumerate(shapes)}
    graph = graph_of(tmp_path, model_of([node(kind, ["x", *weights], ["y"], **values)], {"x": [2, 3, last]}, weights))
    found = graph.operators[-1]
    assert graph.parameters == found.parameters == parameters and found.parameter_bytes == 4 * parameters
    moved = 0 if kind == "Concat" else 6 * last
    assert (found.forward_flops, found.backward_flops) == (moved, moved if parameters else 0)


def test_whole_numbers_do_not_train(tmp_path: Path) -> None:
    weights = {"w": np.arange(7, dtype=np.int64)}
    model = model_of([node("Mul", ["x", "w"], ["y"])], {"x": [2, 7]}, weights, types={"x": INT64})
    (_, found) = graph_of(tmp_path, model).operators
    assert (found.parameters, found.backward_flops, found.shared_bytes) == (0, 0, 4 * 7)


def test_weights_that_are_shared_or_viewed_count_where_they_are_first_read(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Transpose", ["w"], ["turned"], perm=[1, 0]),
        node("Transpose", ["turned"], ["again"], perm=[1, 0]),
        node("MatMul", ["a", "turned"], ["b"]),
        node("MatMul", ["b", "again"], ["c"]),
        node("MatMul", ["c", "v"], ["y"]),
    ]
    reading = read_onnx(written(tmp_path, model_of(nodes, {"x": [2, 5]}, {"w": [5, 7], "v": [7, 3]})))
    assert [each.parameters for each in reading.graph.operators] == [0, 35, 0, 0, 21]
    assert [each.kind for each in reading.graph.operators[1:]] == ["linear"] * 4
    assert [each.backward_flops // (each.forward_flops or 1) for each in reading.graph.operators] == [0, 1, 2, 2, 2]
    assert reading.unrecorded[0] == "6 nodes: 4 operators, 0 views of their results, 2 constants"


def test_a_constant_that_is_computed_trains_and_a_table_does_not(tmp_path: Path) -> None:
    nodes = [
        node("Mul", ["w", "v"], ["wv"]),
        node("Cos", ["w"], ["table"]),
        node("Mul", ["table", "v"], ["tables"]),
        node("Reshape", ["tables", "shape"], ["seen"]),
        node("Mul", ["x", "wv"], ["a"]),
        node("Add", ["a", "seen"], ["y"]),
    ]
    weights: dict[str, Any] = {"w": [3, 7], "v": [3, 7], "shape": np.array([1, 3, 7])}
    reading = read_onnx(written(tmp_path, model_of(nodes, {"x": [2, 3, 7]}, weights)))
    product, total = reading.graph.operators[1:]
    assert (product.parameters, product.backward_flops, product.kind) == (21, 42, "elementwise")
    assert (total.parameters, total.backward_flops, total.kind, total.inputs) == (0, 42, "elementwise", ("mul",))
    assert total.shared_bytes == 4 * 21
    assert reading.unrecorded[0] == "6 nodes: 2 operators, 0 views of their results, 4 constants"


def test_a_batch_norm_trains_its_scale_and_bias_alone(tmp_path: Path) -> None:
    norm = node("BatchNormalization", ["x", "s", "b", "mean", "var"], ["y"])
    weights = {name: [1100] for name in ("s", "b", "mean", "var")}
    reading = read_onnx(written(tmp_path, model_of([norm], {"x": [2, 1100, 3]}, weights)))
    found = reading.graph.operators[-1]
    assert (found.kind, found.parameters, found.forward_flops, found.backward_flops) == (
        "batch_norm", 2200, 6600, 6600,
    )  # fmt: skip
    assert found.shared_bytes == 4 * 4400 and found.forward_bytes == 4 * (4400 + 2 * 6600)
    assert reading.unrecorded[1] == "2,200 elements of running statistics are no parameters"
    assert len(reading.unrecorded) == 4


def test_what_is_drawn_in_the_shape_of_a_weight_is_a_constant(tmp_path: Path) -> None:
    nodes = [
        node("RandomNormalLike", ["w"], ["noise"]),
        node("Abs", ["noise"], ["kept"]),
        node("Mul", ["x", "kept"], ["y"]),
    ]
    graph = graph_of(tmp_path, model_of(nodes, {"x": [2, 3, 7]}, {"w": [3, 7]}))
    assert [each.name for each in graph.operators] == ["input.x", "mul"]
    assert graph.operators[-1].shared_bytes == 4 * 21


def test_a_mean_over_the_batch_has_no_samples(tmp_path: Path) -> None:
    nodes = [node("ReduceMean", ["x"], ["a"], axes=[0], keepdims=0), node("Mul", ["a", "w"], ["y"])]
    _, mean, product = graph_of(tmp_path, model_of(nodes, {"x": ["n", 7]}, {"w": [7]})).operators
    assert (mean.kind, mean.activation_bytes, mean.forward_bytes) == ("reduce", 4 * 7, 4 * (13 * 7 + 7))
    assert mean.shared_bytes == 4 * 7 and product.shared_bytes == 4 * 2 * 7
    assert "sample" in mean.dimensions


def test_a_loss_of_one_element_is_shared_and_one_for_each_sample_is_not(tmp_path: Path) -> None:
    for reduction, elements, shared in (("mean", 1, 1), ("none", 13, 0)):
        loss = node("SoftmaxCrossEntropyLoss", ["x", "t"], ["y"], reduction=reduction)
        model = model_of([loss], {"x": ["n", 7], "t": ["n"]}, types={"t": INT64})
        found = graph_of(tmp_path, model).operators[-1]
        assert (found.kind, found.activation_bytes, found.shared_bytes) == ("loss", 4 * elements, 4 * shared)


def test_an_operator_without_a_rule_is_told(tmp_path: Path) -> None:
    nodes = [node("Det", ["x"], ["a"], name="/m/first"), node("Det", ["z"], ["b"]), node("Add", ["a", "b"], ["y"])]
    graph = graph_of(tmp_path, model_of(nodes, {"x": [2, 3, 3], "z": [2, 5, 5]}))
    assert graph.uncounted == (
        "m.first: Det has no rule: counted as one FLOP an element",
        "det: Det has no rule: counted as one FLOP an element",
    )
    assert [each.forward_flops for each in graph.operators] == [0, 0, 2 * 9, 2 * 25, 2]


def test_views_pass_samples_and_gradients_on(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["a"], name="p"),
        node("Split", ["a", "sizes"], ["b", "c"], axis=1),
        node("Squeeze", ["b", "one"], ["d"]),
        node("MatMul", ["d", "u"], ["e"], name="q"),
        node("Unsqueeze", ["x", "one"], ["f"]),
        node("MatMul", ["f", "u2"], ["y"], name="r"),
        node("Relu", ["c"], ["z"]),
    ]
    weights: dict[str, Any] = {"w": [5, 7], "u": [7, 3], "u2": [5, 3]}
    weights |= {"sizes": np.array([1, 2]), "one": np.array([1])}
    reading = read_onnx(written(tmp_path, model_of(nodes, {"x": [2, 3, 5]}, weights, outputs=["e", "y", "z"])))
    _, p, q, r, relu = reading.graph.operators
    assert (q.inputs, r.inputs, relu.inputs) == (("p",), ("input.x",), ("p",))
    assert [each.backward_flops / each.forward_flops for each in (p, q, r, relu)] == [1, 2, 1, 1]
    assert q.dimensions["sample"] == r.dimensions["sample"] == relu.dimensions["sample"] == 2
    assert reading.unrecorded[0] == "7 nodes: 4 operators, 3 views of their results, 0 constants"


def test_a_view_of_a_constant_is_of_its_first_input(tmp_path: Path) -> None:
    """Sizes that are a table, or that several views share, make no view a table, and no two weights one."""
    nodes = [
        node("Range", ["zero", "three", "one"], ["axes"]),
        node("Transpose", ["w"], ["turned"], perm=[1, 0]),
        node("Reshape", ["turned", "sizes"], ["a"]),
        node("Reshape", ["v", "sizes"], ["b"]),
        node("Mul", ["x", "w"], ["whole"]),
        node("Mul", ["whole", "a"], ["c"]),
        node("Mul", ["c", "b"], ["d"]),
        node("Mul", ["d", "w2"], ["e"]),
        node("Reshape", ["u", "axes"], ["f"]),
        node("Mul", ["e", "f"], ["y"]),
    ]
    weights: dict[str, Any] = {"w": [3, 2], "v": [2, 3], "w2": [2], "u": [2], "sizes": np.array([3, 2])}
    weights |= {name: np.array(value) for name, value in (("zero", 1), ("three", 3), ("one", 1))}
    graph = graph_of(tmp_path, model_of(nodes, {"x": [5, 3, 2]}, weights))
    assert [each.parameters for each in graph.operators] == [0, 6, 0, 6, 2, 2]


def test_quantized_convolutions_name_the_sizes_of_their_weight(tmp_path: Path) -> None:
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    weights: dict[str, Any] = {name: np.array(1, np.float32) for name in ("xs", "ws", "ys")}
    weights |= {name: np.array(1, np.uint8) for name in ("xz", "wz", "yz")} | {"w": np.ones((10, 3, 2, 4), np.uint8)}
    model = model_of([node("QLinearConv", names, ["y"], group=2)], {"x": ["n", 6, 9, 12]}, weights, types={"x": 2})
    found = graph_of(tmp_path, model).operators[-1]
    assert (found.kind, found.forward_flops, found.parameters) == ("conv", 2 * 13 * 10 * 8 * 9 * 24, 0)
    assert found.dimensions == {
        "sample": 13, "channel": 10, "height": 8, "width": 9, "in_channel": 6, "groups": 2, "kernel_height": 2,
        "kernel_width": 4,
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "rows"), [("LSTM", 20), ("GRU", 15), ("RNN", 5)])
def test_recurrent_layers_behind_a_layer_have_two_gradients(tmp_path: Path, kind: str, rows: int) -> None:
    """Of the input and of its weight; as many where the bias needs one too, which is added."""
    nodes = [node("MatMul", ["x", "u"], ["a"]), node(kind, ["a", "w", "r", "b"], ["y"], hidden_size=5)]
    weights = {"u": [2, 3], "w": [1, rows, 3], "r": [1, rows, 5], "b": [1, 2 * rows]}
    found = graph_of(tmp_path, model_of(nodes, {"x": [7, 11, 2]}, weights)).operators[-1]
    assert found.backward_flops == 2 * found.forward_flops == 4 * 7 * 11 * rows * (3 + 5)


def test_a_result_that_the_samples_only_lengthen_is_shared(tmp_path: Path) -> None:
    """No number of samples divides it, so that all but what is read of the samples is shared."""
    joined = node("Concat", ["x", "w"], ["y"], axis=0)
    found = graph_of(tmp_path, model_of([joined], {"x": ["n", 1]}, {"w": [30, 1]})).operators[-1]
    assert counts(found) == (30, 43, 13 + 30 + 43, 30 + 43)


@pytest.mark.parametrize("place", range(4))
def test_attention_has_gradients_of_queries_keys_and_values(tmp_path: Path, place: int) -> None:
    """Not of what is added to its scores."""
    names = ["q", "k", "v", "m"]
    nodes = [node("Mul", ["x", "w"], ["a"])]
    nodes.append(node("Attention", [*names[:place], "a", *names[place + 1 :]], ["y"]))
    inputs: dict[str, list[Any]] = {name: [2, 3, 5, 5] for name in ("x", *names)}
    found = graph_of(tmp_path, model_of(nodes, inputs, {"w": [5]}, opset=23)).operators[-1]
    assert found.backward_flops == (0 if place == 3 else 2 * found.forward_flops)


def test_convolutions_have_no_gradient_of_their_bias_alone(tmp_path: Path) -> None:
    """Whose FLOPs are those of a sum."""
    for kind in ("Conv", "ConvTranspose"):
        nodes = [node("Mul", ["b", "v"], ["c"]), node(kind, ["x", "z", "c"], ["y"])]
        weights = {"b": [3], "v": [3]}
        inputs: dict[str, list[Any]] = {"x": [2, 3, 7], "z": [3, 3, 2]}
        assert graph_of(tmp_path, model_of(nodes, inputs, weights)).operators[-1].backward_flops == 0
