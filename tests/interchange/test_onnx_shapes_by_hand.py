"""Shapes of small ONNX models: constants that are computed, sizes that are given, and what each refusal says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import ConfigError, InputError, WorkloadError
from lightloom.models.onnx import read_onnx
from lightloom.models.onnx_shapes import (
    LARGEST,
    Constants,
    ShapedModel,
    Value,
    attribute,
    is_view,
    makes_constants,
    shaped_model,
)

from .onnx_models import BOOL, FLOAT, INT64, graph_of, model_of, node, onnx, written


def shaped(folder: Path, model: Any, **options: Any) -> ShapedModel:
    """The model with its shapes, for 13 samples where their number is open."""
    given = {"batch": 13, "sequence_length": None, "definitions": {}, **options}
    return shaped_model(written(folder, model), **given)


def refusal(folder: Path, model: Any, **options: Any) -> str:
    """What the refusal of a model says behind the path of its file."""
    with pytest.raises(InputError) as refused:
        shaped(folder, model, **options)
    return str(refused.value).removeprefix(f"{folder / 'model.onnx'}: ")


# Constants


def constants(nodes: Sequence[Any], shapes: dict[str, tuple[int, ...]], **weights: Any) -> Constants:
    return Constants(onnx, model_of(nodes, {"x": [2, 3, 5, 7]}, weights), {"x": (2, 3, 5, 7), **shapes})


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, [2, 3, 5, 7]),
        ({"start": 1}, [3, 5, 7]),
        ({"end": 2}, [2, 3]),
        ({"start": 1, "end": -1}, [3, 5]),
        ({"start": -1}, [7]),
    ],
)
def test_shapes_are_constants_of_what_varies(attributes: dict[str, int], expected: list[int]) -> None:
    found = constants([node("Shape", ["x"], ["s"], **attributes)], {}).value("s")
    assert found is not None and found.tolist() == expected and found.dtype == np.int64


def test_a_size_is_the_product_of_a_shape() -> None:
    found = constants([node("Size", ["x"], ["s"])], {}).value("s")
    assert found is not None and found.shape == () and int(found) == 210


def test_constants_follow_from_constants() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "at"], ["g"], axis=0),
        node("Mul", ["g", "three"], ["m"]),
        node("Relu", ["m"], ["r"]),
        node("Add", ["x", "m"], ["a"]),
        node("Add", ["r", "m"], ["b"]),
    ]
    shapes: dict[str, tuple[int, ...]] = {"s": (4,), "g": (), "m": (), "r": (), "a": (2, 3, 5, 7), "b": ()}
    found = constants(nodes, shapes, at=np.array(2), three=np.array(3))
    value = found.value("m")
    assert value is not None and int(value) == 15
    # Of a kind that is not evaluated, that reads what varies, that reads what is not known, or unknown.
    assert [found.value(name) for name in ("r", "a", "b", "x", "nothing")] == [None] * 5


def test_constants_of_unknown_shape_or_failing_nodes_are_none() -> None:
    nodes = [node("Add", ["one", "two"], ["a"]), node("Shape", ["z"], ["s"]), node("Mul", ["one", "one"], ["u"])]
    found = constants(nodes, {"a": (2,)}, one=np.array([1, 2]), two=np.array([1, 2, 3]))
    assert [found.value(name) for name in ("a", "s", "u")] == [None] * 3


@pytest.mark.parametrize(("elements", "known"), [(6, True), (7, True), (8, False)])
def test_constants_have_at_most_the_elements_that_are_asked_for(elements: int, known: bool) -> None:
    nodes = [node("Neg", ["w"], ["n"]), node("ReduceSum", ["w"], ["t"], keepdims=0)]
    found = constants(nodes, {"n": (elements,), "t": ()}, w=np.arange(elements))
    for name in ("w", "n", "t"):
        assert (found.value(name, 7) is not None) is known
        assert found.value(name) is not None


def test_constants_are_small_by_default() -> None:
    found = constants([], {}, w=np.zeros(LARGEST), v=np.zeros(LARGEST + 1))
    assert LARGEST == 1024 and found.value("w") is not None and found.value("v") is None


def test_what_is_larger_than_its_shape_says_is_none() -> None:
    found = constants([node("Add", ["w", "v"], ["n"])], {"n": (1,)}, w=np.zeros((4, 1)), v=np.zeros((1, 3)))
    assert found.value("n", 11) is None and found.value("n", 12) is not None


def test_data_outside_the_file_are_no_constants() -> None:
    model = model_of([], {"x": [2]}, {"w": np.arange(3)})
    model.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    assert Constants(onnx, model, {}).value("w") is None


def test_data_beside_the_file_are_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though they lie where the file says, or are missing."""
    monkeypatch.chdir(tmp_path)
    model = model_of([node("Reshape", ["x", "w"], ["y"])], {"x": [2, 3]}, {"w": np.array([3, 2])})
    weight = model.graph.initializer[0]
    (tmp_path / "weights.bin").write_bytes(weight.raw_data)
    onnx.external_data_helper.set_external_data(weight, "weights.bin")
    weight.ClearField("raw_data")
    assert onnx.numpy_helper.to_array(weight, str(tmp_path)).tolist() == [3, 2]
    assert Constants(onnx, model, {}).value("w") is None
    product = model_of([node("MatMul", ["x", "w"], ["y"])], {"x": ["n", 3]}, {"w": [3, 5]})
    onnx.external_data_helper.set_external_data(product.graph.initializer[0], "none.bin")
    product.graph.initializer[0].ClearField("raw_data")
    assert shaped(tmp_path, product).values["y"].shape == (13, 5)


def test_a_constant_is_the_first_result_of_its_node() -> None:
    found = constants([node("Shape", ["x", "w"], ["s", "more"])], {"w": (3,)}, w=np.arange(3))
    assert found.value("more") is None
    value = found.value("s")
    assert value is not None and value.tolist() == [2, 3, 5, 7]


def test_a_constant_needs_all_that_its_node_reads() -> None:
    """Even where the node could do without."""
    found = constants([node("ReduceSum", ["w", "axes"], ["s"])], {"s": ()}, w=np.arange(3))
    assert found.value("s") is None


def test_a_node_that_makes_nothing_makes_no_constant() -> None:
    assert constants([node("Neg", ["w"], [])], {}, w=np.arange(3)).value("") is None


# Small questions


def test_attributes_have_values_or_a_default() -> None:
    made = node("Conv", ["x"], ["y"], group=2, auto_pad="VALID", pads=[1, 2])
    assert [attribute(made, name, 5) for name in ("group", "auto_pad", "pads", "strides")] == [2, b"VALID", [1, 2], 5]


@pytest.mark.parametrize(
    ("kind", "inputs", "constant"),
    [
        ("Add", ["a", "b"], True),
        ("Add", ["a", "x"], False),
        ("Add", ["x", "a"], False),
        ("Clip", ["a", "", "b"], True),
        ("Clip", ["x", "", "b"], False),
        ("Shape", ["x"], True),
        ("Size", ["x"], True),
        ("Constant", [], True),
        ("ConstantOfShape", ["x"], True),
        ("RandomNormalLike", ["x"], False),
    ],
)
def test_constants_are_made_of_constants_or_of_shapes(kind: str, inputs: list[str], constant: bool) -> None:
    assert makes_constants(node(kind, inputs, ["y"]), {"a", "b"}) is constant


@pytest.mark.parametrize(
    ("before", "order", "after", "view"),
    [
        ([2, 3, 5], [0, 1, 2], [30], True),
        ([2, 3, 5], [2, 0, 1], [5, 6], True),
        ([2, 3, 5], [2, 0, 1], [30], False),
        ([2, 3, 5], [2, 0, 1], [10, 3], False),
        ([2, 3, 5], [2, 0, 1], [5, 2, 3], True),
        ([2, 3, 5], [1, 0, 2], [3, 10], False),
        ([2, 3, 5], [1, 0, 2], [3, 2, 5], True),
        ([2, 1, 5], [1, 0, 2], [10], True),
        ([2, 1, 5], [2, 1, 0], [10], False),
        ([1, 1, 5], [2, 1, 0], [5], True),
        ([], [], [], True),
        ([7], [0], [7, 1], True),
        ([4, 6], [1, 0], [6, 2, 2], True),
        ([4, 6], [1, 0], [3, 2, 4], True),
        ([4, 6], [1, 0], [3, 8], False),
    ],
)
def test_what_strides_express_is_a_view(before: list[int], order: list[int], after: list[int], view: bool) -> None:
    assert is_view(before, order, after) is view


# Whole models


def test_a_model_knows_its_tensors(tmp_path: Path) -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("MatMul", ["x", "w"], ["a"]),
        node("TopK", ["a", "k"], ["most", "places"]),
        node("Cast", ["most"], ["y"], to=BOOL),
    ]
    model = model_of(nodes, {"x": ["n", 3, 5], "z": [17]}, {"w": [5, 7], "k": np.array([2])}, outputs=["y", "s"])
    found = shaped(tmp_path, model)
    assert [each.op_type for each in found.nodes] == ["Shape", "MatMul", "TopK", "Cast"]
    assert (found.inputs, found.initializers, found.outputs) == (("x", "z"), frozenset({"w", "k"}), ("y", "s"))
    assert found.batch == 13 and found.values["most"].shape == found.values["y"].shape == (13, 3, 2)
    types = {name: (value.shape, value.data_type) for name, value in found.values.items()}
    assert types["w"] == ((5, 7), FLOAT) and types["k"] == ((1,), INT64) and types["y"][1] == BOOL
    assert types["x"] == ((13, 3, 5), FLOAT) and types["z"] == ((17,), FLOAT) and types["s"] == ((3,), INT64)
    value = found.constants.value("s")
    assert value is not None and value.tolist() == [13, 3, 5]


@pytest.mark.parametrize(
    ("inputs", "batch"),
    [
        ({"x": [2, 3]}, 2),
        ({"x": [1, 3]}, 1),
        ({"x": [0, 3]}, 13),
        ({"x": []}, 1),
        ({"x": [5, 3], "z": [7, 3]}, 5),
        ({"x": ["n"], "z": ["n", 3]}, 13),
    ],
)
def test_samples_are_the_first_axis_of_the_first_input(
    tmp_path: Path, inputs: dict[str, list[Any]], batch: int
) -> None:
    nodes = [node("Relu", ["x"], ["y"])]
    assert shaped(tmp_path, model_of(nodes, inputs)).batch == batch


def test_a_model_without_inputs_is_of_one_sample(tmp_path: Path) -> None:
    found = shaped(tmp_path, model_of([node("Relu", ["w"], ["y"])], {}, {"w": [3]}))
    assert (found.batch, found.inputs) == (1, ())


def test_inputs_that_an_initializer_gives_are_constants(tmp_path: Path) -> None:
    found = shaped(tmp_path, model_of([node("MatMul", ["x", "w"], ["y"])], {"w": [5, 7], "x": ["n", 5]}, {"w": [5, 7]}))
    assert (found.inputs, found.batch) == (("x",), 13)


def test_sparse_weights_are_constants_of_their_whole_shape(tmp_path: Path) -> None:
    helper = onnx.helper
    model = model_of([node("Mul", ["x", "w"], ["y"])], {"x": [2, 5]})
    values = helper.make_tensor("w", FLOAT, [2], [1.0, 2.0])
    places = helper.make_tensor("at", INT64, [2], [1, 7])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [2, 5]))
    found = shaped(tmp_path, model)
    assert (found.initializers, found.values["w"]) == (frozenset({"w"}), Value(shape=(2, 5), data_type=FLOAT))
    assert graph_of(tmp_path, model).parameters == 10
    again = model_of([node("Mul", ["x", "v"], ["w"])], {"x": [2, 5]}, {"v": [5]})
    again.graph.sparse_initializer.append(model.graph.sparse_initializer[0])
    assert "(Mul) makes 'w', which exists" in refusal(tmp_path, again)


def test_functions_of_a_model_are_inlined(tmp_path: Path) -> None:
    helper = onnx.helper
    twice = helper.make_function(
        "mine", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    model = model_of([node("Twice", ["x"], ["y"], domain="mine")], {"x": [2, 3]})
    model.opset_import.append(helper.make_opsetid("mine", 1))
    assert "operator 'Twice' of domain 'mine'" in refusal(tmp_path, model)
    model.functions.append(twice)
    assert [each.op_type for each in shaped(tmp_path, model).nodes] == ["Add"]


def test_stated_shapes_are_found_anew(tmp_path: Path) -> None:
    """Those of another batch, as an exporter has written them."""
    model = model_of([node("Relu", ["x"], ["a"]), node("Relu", ["a"], ["y"])], {"x": ["n", 3]})
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("a", FLOAT, [5, 3]))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("y", FLOAT, [5, 3]))
    found = shaped(tmp_path, model)
    assert found.values["a"].shape == found.values["y"].shape == (13, 3)


def test_shapes_that_depend_on_computed_constants_are_completed(tmp_path: Path) -> None:
    nodes = [
        node("Shape", ["x"], ["s"], start=1),
        node("Where", ["choose", "s", "other"], ["w"]),
        node("Expand", ["row", "w"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("Add", ["x", "b"], ["y"]),
    ]
    weights = {"choose": np.array([True, True]), "other": np.array([9, 9]), "row": np.ones((1, 5), np.float32)}
    found = shaped(tmp_path, model_of(nodes, {"x": ["n", 3, 5]}, weights))
    assert [found.values[name].shape for name in ("w", "a", "b", "y")] == [(2,), (3, 5), (3, 5), (13, 3, 5)]
    assert found.values["a"].data_type == FLOAT


def test_nodes_of_which_one_result_is_known_are_completed_too(tmp_path: Path) -> None:
    """The scale is a number whatever is quantized."""
    nodes = [
        node("Where", ["choose", "sizes", "other"], ["w"]),
        node("Expand", ["row", "w"], ["a"]),
        node("DynamicQuantizeLinear", ["a"], ["q", "scale", "zero"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["b"]),
        node("Add", ["x", "b"], ["y"]),
    ]
    weights = {"choose": np.array([True, False]), "sizes": np.array([3, 9]), "other": np.array([9, 5])}
    weights["row"] = np.ones((1, 5), np.float32)
    found = shaped(tmp_path, model_of(nodes, {"x": ["n", 3, 5]}, weights))
    assert [found.values[name].shape for name in ("a", "q", "scale", "b", "y")] == [
        (3, 5),
        (3, 5),
        (),
        (3, 5),
        (13, 3, 5),
    ]


def test_completed_shapes_are_read_on(tmp_path: Path) -> None:
    nodes = [
        node("Where", ["choose", "sizes", "other"], ["w"]),
        node("Expand", ["row", "w"], ["a"]),
        node("Shape", ["a"], ["s"]),
        node("Where", ["choose", "other", "s"], ["v"]),
        node("Expand", ["column", "v"], ["b"]),
        node("Add", ["x", "b"], ["y"]),
    ]
    weights = {"choose": np.array([True, False]), "sizes": np.array([3, 9]), "other": np.array([7, 5])}
    weights |= {"row": np.ones((1, 5), np.float32), "column": np.ones((1, 1), np.float32)}
    found = shaped(tmp_path, model_of(nodes, {"x": ["n", 7, 5]}, weights))
    assert [found.values[name].shape for name in ("a", "b", "y")] == [(3, 5), (7, 5), (13, 7, 5)]


def test_a_tensor_may_be_empty(tmp_path: Path) -> None:
    weights = {"from": np.array([1]), "to": np.array([1]), "axis": np.array([1])}
    model = model_of([node("Slice", ["x", "from", "to", "axis"], ["y"])], {"x": ["n", 3, 5]}, weights)
    assert shaped(tmp_path, model).values["y"] == Value(shape=(13, 0, 5))


def test_results_that_nothing_reads_need_no_shape(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["y"]), node("NonZero", ["x"], ["places"])]
    found = shaped(tmp_path, model_of(nodes, {"x": [2, 3]}))
    assert [each.op_type for each in found.nodes] == ["Relu"] and "places" not in found.values
    unique = [
        node("Relu", ["x"], ["y"]),
        node("Unique", ["x"], ["values", "first"], name="u"),
        node("Abs", ["first"], ["z"]),
    ]
    assert refusal(tmp_path, model_of(unique, {"x": [2, 3]})) == (
        "node 'u' (Unique): the shape of 'first' depends on values, or cannot be inferred: expected a graph with fixed "
        "shapes"
    )


def test_a_node_stays_of_which_one_result_has_a_shape(tmp_path: Path) -> None:
    nodes = [node("TopK", ["x", "k"], ["y", "places"]), node("Dropout", ["y"], ["z", "mask"])]
    found = shaped(tmp_path, model_of(nodes, {"x": [2, 5]}, {"k": np.array([3])}, outputs=["z"]))
    assert [each.op_type for each in found.nodes] == ["TopK", "Dropout"]
    empty = [node("LSTM", ["x", "w", "r"], ["", "y"], hidden_size=5)]
    found = shaped(tmp_path, model_of(empty, {"x": [7, 11, 3]}, {"w": [1, 20, 3], "r": [1, 20, 5]}))
    assert [each.op_type for each in found.nodes] == ["LSTM"] and found.values["y"].shape == (1, 11, 5)


def test_shapes_that_contradict_each_other_are_refused_in_one_line(tmp_path: Path) -> None:
    model = model_of([node("MatMul", ["x", "w"], ["y"], name="m")], {"x": [2, 3]}, {"w": [5, 7]})
    text = refusal(tmp_path, model)
    assert text.startswith("node 'm' (MatMul): the shape of 'y' depends on values") and "\n" not in text


# Sizes


@pytest.mark.parametrize(
    ("inputs", "options", "shapes"),
    [
        ({"x": ["n", 3]}, {}, [(13, 3)]),
        ({"x": [None, 3]}, {}, [(13, 3)]),
        ({"x": [0, 3]}, {}, [(13, 3)]),
        ({"x": [2, 3]}, {}, [(2, 3)]),
        ({"x": ["n", "seq"]}, {"sequence_length": 5}, [(13, 5)]),
        ({"x": ["n", "Sequence"]}, {"sequence_length": 5}, [(13, 5)]),
        ({"x": ["n", "NUM_TOKENS"]}, {"sequence_length": 5}, [(13, 5)]),
        ({"x": ["n", "past_length"]}, {"sequence_length": 5}, [(13, 5)]),
        ({"x": ["seq", 3]}, {"sequence_length": 5}, [(13, 3)]),
        ({"x": ["n", 3], "z": ["seq", 3]}, {"sequence_length": 5}, [(13, 3), (5, 3)]),
        ({"x": ["n", 3], "z": ["n", 3]}, {}, [(13, 3), (13, 3)]),
        ({"x": ["n", 3], "z": [None, 3]}, {}, [(13, 3), (13, 3)]),
        ({"x": [3, "n"], "z": ["n", 3]}, {"definitions": {"n": "7"}}, [(3, 7), (7, 3)]),
        ({"x": ["n", 3]}, {"definitions": {"n": "1"}}, [(1, 3)]),
        ({"x": ["n", 3]}, {"definitions": {"x.0": "7"}}, [(7, 3)]),
        ({"x": ["n", 3]}, {"definitions": {"n": "5"}}, [(5, 3)]),
        ({"x": ["n", None]}, {"definitions": {"x.1": "5"}}, [(13, 5)]),
        ({"x": ["n", "seq"]}, {"sequence_length": 5, "definitions": {"seq": "7"}}, [(13, 7)]),
    ],
)
def test_dynamic_axes_take_their_sizes(
    tmp_path: Path, inputs: dict[str, list[Any]], options: dict[str, Any], shapes: list[tuple[int, ...]]
) -> None:
    found = shaped(tmp_path, model_of([node("Relu", ["x"], ["y"])], inputs), **options)
    assert [found.values[name].shape for name in inputs] == shapes


@pytest.mark.parametrize(
    ("inputs", "options", "complaint"),
    [
        (
            {"x": ["n", "wide"]}, {},
            "input 'x', axis 1: dimension 'wide' is dynamic: expected its size, by --define wide=SIZE",
        ),
        (
            {"x": ["n", "seq"]}, {},
            "input 'x', axis 1: dimension 'seq' is dynamic: expected its size, by --define seq=SIZE or "
            "--sequence-length",
        ),
        ({"x": [2, None]}, {}, "input 'x', axis 1: dimension '?' is dynamic: expected its size, by --define x.1=SIZE"),
        ({"x": [2, 0]}, {}, "input 'x', axis 1: dimension '?' is dynamic: expected its size, by --define x.1=SIZE"),
        (
            {"x": [2, 3], "z": ["m", 3]}, {},
            "input 'z', axis 0: dimension 'm' is dynamic: expected its size, by --define m=SIZE",
        ),
        (
            {"x": ["n", 3], "z": [5, "n"]}, {},
            "input 'z', axis 1: dimension 'n' is dynamic: expected its size, by --define n=SIZE",
        ),
        (
            {"x": ["n", "wide"]}, {"sequence_length": 5},
            "input 'x', axis 1: dimension 'wide' is dynamic: expected its size, by --define wide=SIZE",
        ),
        (
            {"x": ["n", 3]}, {"definitions": {"n": "0"}}, "--define n=0: expected a whole number of at least 1",
        ),
        ({"x": ["n", 3]}, {"definitions": {"n": "-1"}}, "--define n=-1: expected a whole number of at least 1"),
        ({"x": ["n", 3]}, {"definitions": {"x.0": "1.5"}}, "--define x.0=1.5: expected a whole number of at least 1"),
    ],
)  # fmt: skip
def test_axes_without_a_size_are_named(
    tmp_path: Path, inputs: dict[str, list[Any]], options: dict[str, Any], complaint: str
) -> None:
    assert refusal(tmp_path, model_of([node("Relu", ["x"], ["y"])], inputs), **options) == complaint


def test_definitions_of_what_no_input_has_are_refused(tmp_path: Path) -> None:
    model = model_of([node("Relu", ["x"], ["y"])], {"x": ["n", 3]})
    path = tmp_path / "model.onnx"
    for key in ("m", "x.1", "x.2", "z.0"):
        with pytest.raises(ConfigError) as refused:
            shaped(tmp_path, model, definitions={"n": "5", key: "7"})
        assert str(refused.value) == f"--define {key}: {path} has no dynamic dimension {key!r}"


def test_inputs_that_are_no_tensors_or_state_no_shape_are_refused(tmp_path: Path) -> None:
    model = model_of([node("Relu", ["x"], ["y"])], {"x": [2, 3]})
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert refusal(tmp_path, model) == "input 'x' states no shape: expected one"
    kind = onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(FLOAT, [2]))
    model.graph.input[0].type.CopyFrom(kind)
    assert refusal(tmp_path, model) == "input 'x' is no tensor: expected one"


# Nodes


@pytest.mark.parametrize(
    ("nodes", "complaint"),
    [
        (
            [node("Add", ["x", "a"], ["y"], name="n")],
            "node 'n' (Add) reads 'a', which no node before it makes: expected nodes in the order of their work",
        ),
        (
            [node("Add", ["x", "y"], ["y"])],
            "node 'y' (Add) reads 'y', which no node before it makes: expected nodes in the order of their work",
        ),
        (
            [node("TopK", ["x", "a"], ["y", "z"])],
            "node 'y z' (TopK) reads 'a', which no node before it makes: expected nodes in the order of their work",
        ),
        ([node("Relu", ["x"], [])], "node 'Relu' (Relu) makes nothing: expected nodes in the order of their work"),
        ([node("Relu", ["x"], [""])], "node 'Relu' (Relu) makes nothing: expected nodes in the order of their work"),
        ([node("Relu", ["x"], ["x"])], "node 'x' (Relu) makes 'x', which exists: expected a name of its own"),
        ([node("Relu", ["x"], ["w"])], "node 'w' (Relu) makes 'w', which exists: expected a name of its own"),
        (
            [node("Relu", ["x"], ["y"]), node("Relu", ["x"], ["y"], name="n")],
            "node 'n' (Relu) makes 'y', which exists: expected a name of its own",
        ),
        (
            [node("Relu", ["x"], ["y"], domain="mine")],
            "node 'y': operator 'Relu' of domain 'mine': expected operators of ONNX itself",
        ),
        ([node("If", ["x"], ["y"])], "node 'y': If: control flow has no fixed cost: expected a graph without it"),
        ([node("Scan", ["x"], ["y"])], "node 'y': Scan: control flow has no fixed cost: expected a graph without it"),
        ([node("Magic", ["x"], ["y"])], "node 'y': operator 'Magic': expected one that ONNX defines"),
    ],
)
def test_nodes_that_cannot_run_are_named(tmp_path: Path, nodes: list[Any], complaint: str) -> None:
    assert refusal(tmp_path, model_of(nodes, {"x": [2, 3]}, {"w": [3]})) == complaint


def test_operators_of_a_newer_version_are_refused_by_their_node(tmp_path: Path) -> None:
    text = refusal(tmp_path, model_of([node("Gelu", ["x"], ["y"], name="g")], {"x": [2, 3]}, opset=17))
    assert text.startswith("node 'g': ") and "\n" not in text
    assert shaped(tmp_path, model_of([node("Gelu", ["x"], ["y"], name="g")], {"x": [2, 3]}, opset=20)).nodes


def test_attributes_state_their_type(tmp_path: Path) -> None:
    model = model_of([node("LeakyRelu", ["x"], ["y"], alpha=0.5)], {"x": [2, 3]})
    assert shaped(tmp_path, model).batch == 2
    model.graph.node[0].attribute[0].ClearField("type")
    assert refusal(tmp_path, model).startswith("node 'y': ")


def test_inputs_that_are_left_out_are_none(tmp_path: Path) -> None:
    found = shaped(
        tmp_path, model_of([node("Clip", ["x", "", "w"], ["y"])], {"x": [2, 3]}, {"w": np.array(1, np.float32)})
    )
    assert found.values["y"].shape == (2, 3)


# Files


def test_files_that_are_missing_or_empty_say_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        read_onnx(tmp_path / "none.onnx")
    assert str(refused.value) == f"cannot read {str(tmp_path / 'none.onnx')!r}: No such file or directory"
    assert refusal(tmp_path, model_of([], {"x": [2]})) == "no ONNX model, or one without operators"


def _rename(change: Callable[[Any], None]) -> Any:
    model = model_of([node("LeakyRelu", ["x"], ["y"], name="n", alpha=0.5)], {"x": ["batch", 3]}, {"w": [3]})
    change(model)
    return model


def _set(owner: Callable[[Any], Any], name: str) -> Callable[[Any], None]:
    return lambda model: setattr(owner(model), name, "QZQZ")


def _sparse(model: Any) -> None:
    values, places = (onnx.helper.make_tensor(name, kind, [1], [1]) for name, kind in (("QZQZ", FLOAT), ("at", INT64)))
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, places, [3]))


def _stated(model: Any) -> None:
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("v", FLOAT, ["QZQZ"]))


@pytest.mark.parametrize(
    "change",
    [
        _set(lambda m: m.graph.node[0], "name"),
        _set(lambda m: m.graph.node[0], "op_type"),
        _set(lambda m: m.graph.node[0], "domain"),
        lambda m: m.graph.node[0].input.append("QZQZ"),
        lambda m: m.graph.node[0].output.append("QZQZ"),
        _set(lambda m: m.graph.node[0].attribute[0], "name"),
        _set(lambda m: m.graph.input[0], "name"),
        _set(lambda m: m.graph.output[0], "name"),
        _set(lambda m: m.graph.input[0].type.tensor_type.shape.dim[0], "dim_param"),
        _set(lambda m: m.graph.initializer[0], "name"),
        _set(lambda m: m.opset_import[0], "domain"),
        _sparse,
        _stated,
    ],
)
def test_texts_that_are_no_utf_8_are_refused_wherever_they_stand(tmp_path: Path, change: Callable[[Any], None]) -> None:
    path = written(tmp_path, _rename(change))
    path.write_bytes(path.read_bytes().replace(b"QZQZ", b"Q\xffZQ"))
    with pytest.raises(InputError) as refused:
        read_onnx(path)
    assert str(refused.value) == f"{path}: no ONNX model: it holds names that are no UTF-8"


def test_files_of_other_content_are_no_models(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\xff\xff\xff")
    with pytest.raises(ConfigError, match=r"model\.onnx: no ONNX model: "):
        read_onnx(path)
    assert issubclass(WorkloadError, InputError)
