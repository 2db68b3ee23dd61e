"""ONNX models: those of the zoo come back with their parameters and products, and the rest is refused in one line."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import InputError
from lightloom.models.files.model_file import FileRequest
from lightloom.models.files.read import read_model_file
from lightloom.models.graph import TENSOR_KINDS, ComputeGraph
from lightloom.models.onnx import _factors, product_of, read_onnx, weight_place, word_of
from lightloom.models.onnx_shapes import Value
from lightloom.models.zoo import load_workload

onnx = pytest.importorskip("onnx")
FLOAT = 1


def products(graph: ComputeGraph, backward: bool = False) -> int:
    """FLOPs of matrix products and convolutions."""
    counted = [each for each in graph.operators if each.kind in TENSOR_KINDS]
    return sum(each.backward_flops if backward else each.forward_flops for each in counted)


def exported(folder: Path, name: str, dynamic: bool) -> Path:
    """A model of the zoo as ``torch.onnx`` writes it, for two samples or a batch of any size."""
    torch = pytest.importorskip("torch")
    from lightloom.models.zoo import ZOO, resolve

    entry = ZOO[name]
    module = resolve(entry.path)(**entry.arguments).train()
    path = folder / "model.onnx"
    axes = {"x": {0: "batch"}} if dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, module.example_inputs(2), path, dynamo=False, input_names=["x"], dynamic_axes=axes,
            do_constant_folding=False, training=torch.onnx.TrainingMode.PRESERVE, opset_version=17,
        )  # fmt: skip
    return path


@pytest.mark.parametrize(
    ("name", "dynamic"),
    [
        ("hdc", True),
        ("googlenet-plain", False),
        *(pytest.param(name, True, marks=pytest.mark.slow) for name in ("resnet50", "vgg16", "densenet121", "alexnet")),
    ],
)
def test_models_of_the_zoo_agree_in_parameters_and_products(tmp_path: Path, name: str, dynamic: bool) -> None:
    reading = read_model_file(exported(tmp_path, name, dynamic), FileRequest(batch=6))
    traced = load_workload(name, batch=6)
    assert reading.graph.parameters == traced.parameters
    assert products(reading.graph) == products(traced)
    assert products(reading.graph, backward=True) == products(traced, backward=True)
    assert reading.graph.batch == 6


def graph_of(nodes: list[Any], inputs: dict[str, list[Any]], weights: dict[str, list[int]], domain: str = "") -> Any:
    """A model of these nodes; weights are named and sized, and hold nothing."""
    helper = onnx.helper
    stored = [
        helper.make_tensor(name, FLOAT, shape, bytes(4 * max(1, math.prod(shape))), raw=True)
        for name, shape in weights.items()
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        stored,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid(name, 17) for name in ("", *([domain] if domain else []))]
    )


def written(folder: Path, model: Any) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_a_small_graph_is_counted_by_hand(tmp_path: Path) -> None:
    node = onnx.helper.make_node
    model = graph_of(
        [
            node("MatMul", ["x", "w"], ["a"], name="first"),
            node("Add", ["a", "b"], ["c"]),
            node("Relu", ["c"], ["d"]),
            node("Reshape", ["d", "shape"], ["e"]),
            node("Gemm", ["e", "v"], ["y"], transB=1),
        ],
        {"x": ["batch", 8]},
        {"w": [8, 6], "b": [6], "v": [3, 6]},
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([-1, 6]), "shape"))
    reading = read_onnx(written(tmp_path, model))
    assert reading.unrecorded[0] == "4 nodes: 3 operators, 1 views of their results, 0 constants"
    graph = reading.graph.with_batch(4)
    assert graph.parameters == 8 * 6 + 6 + 3 * 6
    # The bias is part of the product.
    assert [each.forward_flops for each in graph.operators] == [0, 2 * 4 * 8 * 6, 4 * 6, 2 * 4 * 6 * 3]
    # The first product needs no gradient of the samples.
    assert [each.backward_flops for each in graph.operators] == [0, 2 * 4 * 8 * 6, 4 * 6, 4 * 4 * 6 * 3]
    assert graph.operator("gemm").inputs == ("relu",) and graph.operator("first").kind == "linear"


def test_only_one_bias_of_the_channels_of_a_matrix_is_part_of_its_product(tmp_path: Path) -> None:
    """What is added else, and what is added to a stack of products, is a sum of its own."""
    node = onnx.helper.make_node
    weights = {"w": [8, 8], "stack": [3, 8, 8], "b": [8], "rows": [3, 8]}

    def kinds(*names: str) -> list[str]:
        product, weight, added = names
        model = graph_of(
            [node("MatMul", ["x", weight], ["a"]), node("Add", ["a", added], ["y"])],
            {"x": [3, 4, 8] if weight == "stack" else [3, 8]},
            {name: shape for name, shape in weights.items() if name in names},
        )
        graph = read_onnx(written(tmp_path, model)).graph
        assert [each.kind for each in graph.operators][:2] == ["input", product]
        return [each.kind for each in graph.operators][2:]

    assert kinds("linear", "w", "b") == []
    assert (kinds("linear", "w", "x"), kinds("linear", "w", "rows")) == (["add"], ["elementwise"])
    assert kinds("linear", "stack", "b") == ["elementwise"]


def test_what_a_merged_kernel_reads_is_not_merged_away(tmp_path: Path) -> None:
    """A product that an activation reads, beside the bias that is added to it."""
    node = onnx.helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Sigmoid", ["a"], ["s"]),
        node("Mul", ["a", "s"], ["c"]),
        node("Add", ["a", "b"], ["d"]),
        node("Add", ["c", "d"], ["y"]),
    ]
    graph = read_onnx(written(tmp_path, graph_of(nodes, {"x": [3, 8]}, {"w": [8, 8], "b": [8]}))).graph
    assert [each.kind for each in graph.operators] == ["input", "linear", "activation", "elementwise", "add"]
    assert [len(each.inputs) for each in graph.operators] == [0, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("node", "shape", "domain", "complaint"),
    [
        (("Relu", ["x"]), ["batch", "length"], "", "'length' is dynamic: expected its size, by --define length=SIZE"),
        (("Relu", ["x"]), ["batch", None], "", "'?' is dynamic: expected its size, by --define x.1=SIZE"),
        (("Nonesuch", ["x"]), [2, 3], "", "operator 'Nonesuch': expected one that ONNX defines"),
        (("Fused", ["x"]), [2, 3], "com.example", "operator 'Fused' of domain 'com.example'"),
        (("NonZero", ["x"]), [2, 3], "", "(NonZero): the shape of 'y' depends on values"),
    ],
)  # fmt: skip
def test_what_has_no_fixed_shapes_is_refused_in_one_line(
    tmp_path: Path, node: tuple[str, list[str]], shape: list[Any], domain: str, complaint: str
) -> None:
    made = onnx.helper.make_node(node[0], node[1], ["y"], domain=domain)
    with pytest.raises(InputError) as refusal:
        read_onnx(written(tmp_path, graph_of([made], {"x": shape}, {}, domain)))
    assert complaint in str(refusal.value) and "\n" not in str(refusal.value)


def test_running_statistics_and_constants_are_told_and_are_no_parameters(tmp_path: Path) -> None:
    node = onnx.helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["a"], name="/net/first/Conv", pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["a", "scale", "bias", "mean", "var"], ["b"]),
        node("Shape", ["b"], ["sizes"]),
        node("Reshape", ["b", "sizes"], ["c"]),
        node("Clip", ["c", "least"], ["d"]),
        node("Add", ["d", "table"], ["y"]),
    ]
    weights = {"w": [4, 3, 3, 3], "scale": [4], "bias": [4], "mean": [4], "var": [4], "least": [], "table": [4, 1, 1]}
    reading = read_onnx(written(tmp_path, graph_of(nodes, {"x": [2, 3, 5, 5]}, weights)))
    assert reading.unrecorded[:2] == (
        "6 nodes: 4 operators, 1 views of their results, 1 constants",
        "8 elements of running statistics are no parameters",
    )
    graph = reading.graph
    assert graph.parameters == 4 * 27 + 8 + 4
    conv = graph.operators[1]
    assert (conv.name, conv.block) == ("net.first.Conv", "net.first")
    assert conv.dimensions["in_channel"] == 3 and conv.dimensions["kernel_height"] == 3
    assert conv.forward_flops == conv.backward_flops == 2 * (2 * 4 * 25) * 27
    assert conv.shared_bytes == 4 * 4 * 27 and conv.forward_bytes == 4 * (2 * 75 + 4 * 27 + 2 * 100)
    assert [each.parameters for each in graph.operators] == [0, 108, 8, 0, 4]
    assert [each.backward_flops > 0 for each in graph.operators] == [False, True, True, True, True]


def test_a_node_counts_that_leaves_out_one_of_its_results(tmp_path: Path) -> None:
    node = onnx.helper.make_node("LSTM", ["x", "w", "r"], ["", "y"], hidden_size=4)
    model = graph_of([node], {"x": [5, 2, 3]}, {"w": [1, 16, 3], "r": [1, 16, 4]})
    found = read_onnx(written(tmp_path, model)).graph.operators[-1]
    assert (found.kind, found.forward_flops) == ("recurrent", 2 * (5 * 2) * 16 * (3 + 4))


def test_dynamic_dimensions_take_the_sizes_that_are_given(tmp_path: Path) -> None:
    made = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    path = written(tmp_path, graph_of([made], {"x": ["batch", "seq", 8]}, {"w": [8, 6]}))
    for given in ({"definitions": {"seq": "5"}}, {"sequence_length": 5}):
        assert read_onnx(path, **given).graph.with_batch(2).operator("matmul").forward_flops == 2 * 2 * 5 * 8 * 6
    with pytest.raises(InputError, match="has no dynamic dimension 'width'"):
        read_onnx(path, definitions={"seq": "5", "width": "3"})


def test_backward_passes_multiply_once_for_each_factor_that_needs_a_gradient() -> None:
    node = onnx.helper.make_node
    names = ["a", "b", "c", "d"]
    two = dict.fromkeys(("Gemm", "Conv", "ConvTranspose", "LSTM", "GRU", "RNN"), 2)
    for kind, places in {"MatMul": 4, "Einsum": 4, **two}.items():
        made = node(kind, names, ["y"])
        assert [_factors(made, names[:count]) for count in range(5)] == [min(count, places) for count in range(5)]
        assert _factors(made, ["d"]) == (places == 4)
    attention = node("Attention", names, ["y"])
    assert [_factors(attention, [name]) for name in names] == [2, 2, 2, 0]
    assert _factors(attention, []) == 0 and _factors(attention, names) == 2


def test_weights_of_quantized_products_stand_behind_the_scales() -> None:
    node = onnx.helper.make_node
    places = {kind: weight_place(node(kind, ["x"], ["y"])) for kind in ("Conv", "QLinearConv", "QLinearMatMul")}
    assert places == {"Conv": 1, "QLinearConv": 3, "QLinearMatMul": 3}


def test_operators_have_the_words_of_the_table_or_their_own() -> None:
    node = onnx.helper.make_node
    words = {"Gemm": "mm", "LeakyRelu": "leaky_relu", "LRN": "lrn", "GlobalMaxPool": "max_pool2d", "Softmax": "softmax"}
    assert {kind: word_of(node(kind, ["x"], ["y"])) for kind in words} == words


@pytest.mark.parametrize(
    ("kind", "shapes", "output", "attributes", "flops"),
    [
        ("MatMul", [(2, 3), (3, 5)], (2, 5), {}, 60),
        ("Gemm", [(3, 2), (3, 5)], (2, 5), {"transA": 1}, 60),
        ("Gemm", [(2, 3), (5, 3)], (2, 5), {"transB": 1}, 60),
        ("Einsum", [(2, 3), (3, 5)], (2, 5), {"equation": "ij,jk->ik"}, 60),
        ("QLinearMatMul", [(2, 3), (), (), (3, 5)], (2, 5), {}, 60),
        ("Attention", [(2, 4, 6, 8)] * 3, (2, 4, 6, 8), {}, 2 * 2 * 2 * 4 * 6 * 6 * 8),
        ("Attention", [(2, 6, 32)] * 3, (2, 6, 32), {"q_num_heads": 4, "kv_num_heads": 4}, 2 * 2 * 2 * 4 * 6 * 6 * 8),
        ("LSTM", [(5, 2, 3), (2, 16, 3), (2, 16, 4)], (5, 2, 2, 4), {}, 2 * (5 * 2) * (2 * 16) * (3 + 4)),
        ("Relu", [(2, 3)], (2, 3), {}, None),
    ],
)
def test_products_of_nodes_are_those_of_their_operands(
    kind: str, shapes: list[tuple[int, ...]], output: tuple[int, ...], attributes: dict[str, Any], flops: int | None
) -> None:
    made = onnx.helper.make_node(kind, [f"x{i}" for i in range(len(shapes))], ["y"], **attributes)
    found = product_of(made, [Value(shape=shape) for shape in shapes], Value(shape=output))
    assert (None if found is None else found.flops) == flops


def test_products_whose_operands_lack_axes_are_refused() -> None:
    node = onnx.helper.make_node
    for operands, place in (([Value(shape=(2, 3)), Value(shape=())], 1), ([Value(shape=(2, 3))], 1), ([None, None], 0)):
        with pytest.raises(InputError, match=f"node 'y' \\(MatMul\\): operand {place} has no axes"):
            product_of(node("MatMul", ["a", "b"], ["y"]), operands, Value(shape=(2, 5)))
    with pytest.raises(InputError, match="node 'n': Einsum 'ijk': expected one label an axis"):
        product_of(node("Einsum", ["a"], ["y"], name="n", equation="ijk"), [Value(shape=(2, 3))], Value(shape=()))


def test_values_count_their_elements_and_know_floating_types() -> None:
    assert Value(shape=()).elements == 1 and Value(shape=(2, 0)).elements == 0 and Value(shape=(2, 3)).elements == 6
    floating = {number for number in range(1, 24) if Value(shape=(), data_type=number).floating}
    assert floating == {1, 10, 11, 16, 17, 18, 19, 20} and Value(shape=()) == Value(shape=(), data_type=FLOAT)


@pytest.mark.parametrize(
    ("inputs", "given", "complaint"),
    [
        (
            {"x": ["batch", "seq"]},
            {"definitions": {"seq": "0"}},
            "--define seq=0: expected a whole number of at least 1",
        ),
        ({"x": ["batch", "seq"]}, {"definitions": {"seq": "x"}}, "--define seq=x: expected a whole number"),
        ({"x": ["batch", "seq"]}, {}, "by --define seq=SIZE or --sequence-length"),
        (
            {"x": ["batch", "wide"]},
            {"sequence_length": 4},
            "'wide' is dynamic: expected its size, by --define wide=SIZE",
        ),
        ({"x": ["n", 3], "z": ["m", 3]}, {}, "input 'z', axis 0: dimension 'm' is dynamic"),
        ({"x": ["n", 3]}, {"definitions": {"x.1": "3"}}, "has no dynamic dimension 'x.1'"),
    ],
)
def test_sizes_that_nobody_gives_are_asked_for(
    tmp_path: Path, inputs: dict[str, list[Any]], given: dict[str, Any], complaint: str
) -> None:
    made = onnx.helper.make_node("Sum", list(inputs), ["y"])
    with pytest.raises(InputError) as refused:
        read_onnx(written(tmp_path, graph_of([made], inputs, {})), **given)
    assert complaint in str(refused.value)


def test_sizes_are_those_of_definitions_then_of_samples_then_of_tokens(tmp_path: Path) -> None:
    made = onnx.helper.make_node("Sum", ["x", "z", "u"], ["y"])
    inputs: dict[str, list[Any]] = {"x": ["n", "tokens", None], "z": ["n", 5, 3], "u": [None, 1, "wide"]}
    path = written(tmp_path, graph_of([made], inputs, {}))
    found = read_onnx(path, sequence_length=5, definitions={"x.2": "3", "wide": "1"}).graph
    assert found.batch == 13 and found.operator("sum").activation_bytes == 4 * 13 * 5 * 3
    defined = read_onnx(path, definitions={"x.2": "3", "wide": "1", "n": "7", "u.0": "7", "tokens": "5"}).graph
    assert defined.batch == 7 and [each.kind for each in defined.operators].count("input") == 3


def test_control_flow_and_names_that_occur_twice_are_refused(tmp_path: Path) -> None:
    node = onnx.helper.make_node
    for nodes, complaint in (
        ([node("Relu", ["x"], ["a"]), node("Relu", ["x"], ["a"])], "(Relu) makes 'a', which exists"),
        ([node("Relu", ["x"], ["x"])], "(Relu) makes 'x', which exists: expected a name of its own"),
        ([node("Loop", ["x"], ["y"], name="l")], "node 'l': Loop: control flow has no fixed cost"),
        ([node("Relu", ["x"], [], name="n")], "node 'n' (Relu) makes nothing: expected nodes in the order"),
        ([node("Relu", ["x", "x"], ["y"])], "node 'y': "),
    ):
        with pytest.raises(InputError) as refused:
            read_onnx(written(tmp_path, graph_of(nodes, {"x": [2, 3]}, {})))
        assert complaint in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"\xff\xff", b"hello"])
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match="no ONNX model"):
        read_onnx(path)
