"""Kernels in parts, in small ONNX models made by hand: what becomes one operator, and what stays in parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.models.graph import ComputeGraph
from lightloom.models.onnx_shapes import attribute, merged, shaped_model

from .onnx_models import INT64, Weight, graph_of, model_of, node, written

Nodes = Sequence[Any]
SCALAR = np.array(0.5, np.float32)
VECTOR = np.array([0.5], np.float32)


def nodes_of(folder: Path, model: Any) -> list[Any]:
    """The nodes of a model once its kernels are merged."""
    path = written(folder, model)
    return list(merged(shaped_model(path, batch=13, sequence_length=None, definitions={})).nodes)


def types_of(folder: Path, model: Any) -> list[str]:
    return [each.op_type for each in nodes_of(folder, model)]


# What computes nothing


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (node("Dropout", ["x", "zero"], ["y"]), "Identity"),
        (node("Dropout", ["x", "half"], ["y"]), "Dropout"),
        (node("Dropout", ["x"], ["y"]), "Dropout"),
        (node("Dropout", ["x", "half", "no"], ["y"]), "Identity"),
        (node("Dropout", ["zero", "half"], ["y"]), "Dropout"),
        (node("Cast", ["x"], ["y"], to=1), "Identity"),
        (node("Cast", ["x"], ["y"], to=11), "Cast"),
        (node("Gather", ["x", "second"], ["y"], axis=1), "Squeeze"),
        (node("Gather", ["x", "seconds"], ["y"], axis=1), "Squeeze"),
        (node("Gather", ["x", "two"], ["y"], axis=1), "Gather"),
        (node("Reshape", ["x", "flat"], ["y"]), "Reshape"),
        (node("Relu", ["x"], ["y"]), "Relu"),
    ],
)
def test_what_computes_nothing_is_a_view(tmp_path: Path, made: Any, expected: str) -> None:
    constants: dict[str, Weight] = {
        "zero": np.array(0, np.float32), "half": SCALAR, "no": np.array(False), "second": np.array(1),
        "seconds": np.array([1]), "two": np.array([1, 0]), "flat": np.array([2, 15]),
    }  # fmt: skip
    weights = {name: constants[name] for name in made.input if name != "x"}
    (found,) = nodes_of(tmp_path, model_of([made], {"x": [2, 3, 5]}, weights))
    assert found.op_type == expected and list(found.output) == ["y"]
    assert list(found.input) == (["x"] if expected in ("Identity", "Squeeze") else list(made.input))


def test_a_view_makes_one_result_and_still_reads_its_input(tmp_path: Path) -> None:
    """So that the product is no part of what else reads it."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Dropout", ["a", "zero"], ["z", "mask"]),
        node("Add", ["a", "b"], ["y"]),
    ]
    weights: dict[str, Weight] = {"w": [5, 7], "b": [7], "zero": np.array(0, np.float32)}
    found = nodes_of(tmp_path, model_of(nodes, {"x": [2, 5]}, weights, outputs=["y", "z"]))
    assert [each.op_type for each in found] == ["MatMul", "Identity", "Add"] and list(found[1].output) == ["z"]


@pytest.mark.parametrize(("ratio", "expected"), [(0.0, "Identity"), (0.5, "Dropout"), (1.0, "Dropout")])
def test_the_ratio_of_an_older_dropout_is_an_attribute(tmp_path: Path, ratio: float, expected: str) -> None:
    model = model_of([node("Dropout", ["x"], ["y"], ratio=ratio)], {"x": [2, 3]}, opset=11)
    assert types_of(tmp_path, model) == [expected]


def test_a_row_of_a_table_is_looked_up(tmp_path: Path) -> None:
    """Even at one constant index, where the table is a weight."""
    nodes = [node("Gather", ["w", "x"], ["y"])]
    assert types_of(tmp_path, model_of(nodes, {"x": [1]}, {"w": [5, 3]}, types={"x": INT64})) == ["Gather"]


@pytest.mark.parametrize(
    ("perm", "shape", "kind"),
    [
        ([0, 2, 1, 3], [2, 5, 21], "Contiguous"),
        ([0, 2, 1, 3], [2, 5, 3, 7], "Reshape"),
        ([0, 1, 2, 3], [2, 105], "Reshape"),
        ([0, 1, 3, 2], [6, 7, 5], "Reshape"),
        ([0, 1, 3, 2], [2, 3, 35], "Contiguous"),
        (None, [7, 5, 3, 2], "Reshape"),
        (None, [7, 5, 6], "Contiguous"),
    ],
)
def test_a_reshape_that_strides_cannot_express_is_a_copy(
    tmp_path: Path, perm: list[int] | None, shape: list[int], kind: str
) -> None:
    turn = node("Transpose", ["x"], ["a"], **({} if perm is None else {"perm": perm}))
    model = model_of([turn, node("Reshape", ["a", "s"], ["y"])], {"x": [2, 3, 5, 7]}, {"s": np.array(shape)})
    assert types_of(tmp_path, model) == ["Transpose", kind]


# Activations


def gelu(last: str = "y") -> list[Any]:
    return [
        node("Div", ["x", "root"], ["a"]),
        node("Erf", ["a"], ["b"]),
        node("Add", ["b", "one"], ["c"]),
        node("Mul", ["x", "c"], ["d"]),
        node("Mul", ["d", "half"], [last]),
    ]


SCALARS: dict[str, Weight] = {"root": SCALAR, "one": SCALAR, "half": VECTOR}


def test_a_gelu_in_parts_is_one_activation(tmp_path: Path) -> None:
    (found,) = nodes_of(tmp_path, model_of(gelu(), {"x": [2, 3]}, SCALARS))
    assert (found.op_type, list(found.input), list(found.output)) == ("Gelu", ["x"], ["y"])
    graph = graph_of(tmp_path, model_of(gelu(), {"x": [2, 3]}, SCALARS))
    assert [(each.kind, each.forward_flops, each.forward_bytes) for each in graph.operators[1:]] == [
        ("activation", 6, 4 * 12)
    ]


@pytest.mark.parametrize(("seed", "kind"), [("Sigmoid", "Swish"), ("Tanh", "Gelu"), ("Erf", "Gelu")])
def test_the_telling_node_decides_the_activation(tmp_path: Path, seed: str, kind: str) -> None:
    nodes = [node(seed, ["x"], ["a"]), node("Mul", ["x", "a"], ["y"])]
    assert types_of(tmp_path, model_of(nodes, {"x": [2, 3]})) == [kind]
    assert types_of(tmp_path, model_of([node(seed, ["x"], ["y"])], {"x": [2, 3]})) == [seed]
    plain = [node("Exp", ["x"], ["a"]), node("Mul", ["x", "a"], ["y"])]
    assert types_of(tmp_path, model_of(plain, {"x": [2, 3]})) == ["Exp", "Mul"]


def test_an_activation_reads_one_tensor(tmp_path: Path) -> None:
    """What another tensor gates is no part of it, nor what a vector of weights scales."""
    gated = [node("Sigmoid", ["x"], ["a"]), node("Mul", ["a", "z"], ["y"])]
    assert types_of(tmp_path, model_of(gated, {"x": [2, 3], "z": [2, 3]})) == ["Sigmoid", "Mul"]
    scaled = [node("Sigmoid", ["x"], ["a"]), node("Mul", ["a", "w"], ["y"])]
    assert types_of(tmp_path, model_of(scaled, {"x": [2, 3]}, {"w": [3]})) == ["Sigmoid", "Mul"]
    once = [node("Sigmoid", ["x"], ["a"]), node("Mul", ["a", "w"], ["y"])]
    assert types_of(tmp_path, model_of(once, {"x": [2, 3]}, {"w": [1]})) == ["Swish"]


@pytest.mark.parametrize("inside", ["a", "b", "c", "d"])
def test_an_activation_whose_inside_is_read_stays_in_parts(tmp_path: Path, inside: str) -> None:
    """By the model itself, or by another node: then only what follows or precedes is merged."""
    returned = types_of(tmp_path, model_of(gelu(), {"x": [2, 3]}, SCALARS, outputs=["y", inside]))
    read = types_of(
        tmp_path, model_of([*gelu(), node("Relu", [inside], ["r"])], {"x": [2, 3]}, SCALARS, outputs=["y", "r"])
    )
    expected = {
        "a": ["Div", "Gelu", "Mul", "Mul"],
        "b": ["Gelu", "Add", "Mul", "Mul"],
        "c": ["Gelu", "Mul", "Mul"],
        "d": ["Gelu", "Mul"],
    }[inside]
    assert returned == expected
    assert read == [*expected, "Relu"]


@pytest.mark.parametrize("length", [11, 12])
def test_an_activation_has_at_most_twelve_parts(tmp_path: Path, length: int) -> None:
    """The telling node and ``length`` more that follow."""
    names = ["x", *(f"a{i}" for i in range(length)), "y"]
    nodes = [node("Tanh" if i == 0 else "Neg", [names[i]], [names[i + 1]]) for i in range(length + 1)]
    found = types_of(tmp_path, model_of(nodes, {"x": [2, 3]}))
    # Of thirteen, the last twelve or the first twelve that hold the telling node.
    assert found == (["Gelu"] if length == 11 else found)
    assert len(found) == (1 if length == 11 else 2)


def test_the_largest_region_is_the_activation(tmp_path: Path) -> None:
    """Of 12 nodes: the five before the telling node, whose result is another argument, and two of three rounds."""
    before = [
        node("Neg", ["x"], ["p"]),
        node("Exp", ["x"], ["q"]),
        node("Add", ["p", "q"], ["r"]),
        node("Abs", ["x"], ["s"]),
        node("Mul", ["r", "s"], ["t0"]),
        node("Tanh", ["t0"], ["t1"]),
    ]
    rounds = []
    for i in (1, 2, 3):
        rounds += [node("Neg", [f"t{i}"], [f"n{i}"]), node("Exp", [f"t{i}"], [f"e{i}"])]
        rounds.append(node("Add", [f"n{i}", f"e{i}"], ["y" if i == 3 else f"t{i + 1}"]))
    found = nodes_of(tmp_path, model_of([*before, *rounds], {"x": [2, 3]}))
    assert [each.op_type for each in found] == ["Gelu", "Neg", "Exp", "Add"]
    assert list(found[0].input) == ["x"] and list(found[0].output) == ["t3"]


def test_a_long_chain_of_squares_is_read_in_time(tmp_path: Path) -> None:
    """Each reads the one before twice."""
    nodes = [node("Mul", [f"x{i}", f"x{i}"], [f"x{i + 1}"]) for i in range(60)]
    found = types_of(tmp_path, model_of([*nodes, node("Tanh", ["x60"], ["y"])], {"x0": [2, 3]}))
    assert found == ["Mul"] * 49 + ["Gelu"]


def test_an_activation_of_a_constant_is_none(tmp_path: Path) -> None:
    nodes = [node("Sigmoid", ["w"], ["a"]), node("Mul", ["x", "a"], ["y"])]
    assert types_of(tmp_path, model_of(nodes, {"x": [2, 3]}, {"w": [3]})) == ["Sigmoid", "Mul"]


# Norms


def rms(last: str = "y", weight: str = "") -> list[Any]:
    end = "e" if weight else last
    return [
        node("Pow", ["x", "two"], ["a"]),
        node("ReduceMean", ["a"], ["b"], axes=[-1]),
        node("Add", ["b", "eps"], ["c"]),
        node("Sqrt", ["c"], ["d"]),
        node("Div", ["x", "d"], [end]),
        *([node("Mul", ["e", weight], [last], name="scaled")] if weight else []),
    ]


NUMBERS: dict[str, Weight] = {"two": np.array(2, np.float32), "eps": SCALAR}


def test_a_norm_in_parts_reads_its_tensor_and_weights(tmp_path: Path) -> None:
    model = model_of(rms(weight="w"), {"x": [2, 3, 7]}, {**NUMBERS, "w": [7]})
    (found,) = nodes_of(tmp_path, model)
    assert (found.op_type, found.name, list(found.input), list(found.output)) == (
        "RMSNormalization", "scaled", ["x", "w"], ["y"],
    )  # fmt: skip
    (operator,) = graph_of(tmp_path, model).operators[1:]
    assert (operator.kind, operator.parameters, operator.forward_flops) == ("norm", 7, 42)
    assert operator.forward_bytes == 4 * (2 * 42 + 7)
    assert types_of(tmp_path, model_of(rms(), {"x": [2, 3, 7]}, NUMBERS)) == ["RMSNormalization"]


@pytest.mark.parametrize(
    ("weight", "kinds"),
    [
        ([7], ["RMSNormalization"]),
        ([1, 7], ["RMSNormalization"]),
        ([1, 1, 7], ["RMSNormalization"]),
        ([3, 7], ["RMSNormalization", "Mul"]),
        ([3, 1], ["RMSNormalization", "Mul"]),
        ([1], ["RMSNormalization", "Mul"]),
    ],
)
def test_a_weight_of_a_norm_has_a_number_for_each_channel(tmp_path: Path, weight: list[int], kinds: list[str]) -> None:
    model = model_of(rms(weight="w"), {"x": [2, 3, 7]}, {**NUMBERS, "w": weight})
    assert types_of(tmp_path, model) == kinds


def test_whole_numbers_weigh_no_norm(tmp_path: Path) -> None:
    weights = {**NUMBERS, "w": np.arange(7)}
    nodes = [*rms("f"), node("Cast", ["f"], ["g"], to=INT64), node("Mul", ["g", "w"], ["y"])]
    assert types_of(tmp_path, model_of(nodes, {"x": [2, 3, 7]}, weights)) == ["RMSNormalization", "Mul"]


@pytest.mark.parametrize(("exponent", "merges"), [(2, True), (3, False), (1, False)])
def test_only_squares_make_a_norm(tmp_path: Path, exponent: int, merges: bool) -> None:
    numbers = {**NUMBERS, "two": np.array(exponent, np.float32)}
    assert (types_of(tmp_path, model_of(rms(), {"x": [2, 3, 7]}, numbers)) == ["RMSNormalization"]) is merges


def test_a_norm_with_a_bias_or_a_mean_is_a_layer_norm(tmp_path: Path) -> None:
    biased = [*rms("f", "w"), node("Add", ["f", "bias"], ["y"])]
    (found,) = nodes_of(tmp_path, model_of(biased, {"x": [2, 3, 7]}, {**NUMBERS, "w": [7], "bias": [7]}))
    assert (found.op_type, list(found.input)) == ("LayerNormalization", ["x", "w", "bias"])
    centred = [node("ReduceMean", ["z"], ["m"], axes=[-1]), node("Sub", ["z", "m"], ["x"]), *rms()]
    (found,) = nodes_of(tmp_path, model_of(centred, {"z": [2, 3, 7]}, NUMBERS))
    assert (found.op_type, list(found.input)) == ("LayerNormalization", ["z"])


def test_a_reciprocal_of_a_root_scales(tmp_path: Path) -> None:
    for kind, inputs in (("Div", ["one", "d"]), ("Reciprocal", ["d"])):
        nodes = [*rms()[:4], node(kind, inputs, ["r"]), node("Mul", ["x", "r"], ["y"])]
        weights = {**NUMBERS, **({"one": VECTOR} if kind == "Div" else {})}
        assert types_of(tmp_path, model_of(nodes, {"x": [2, 3, 7]}, weights)) == ["RMSNormalization"]
    nodes = [*rms()[:4], node("Div", ["x", "d"], ["r"]), node("Mul", ["x", "r"], ["y"])]
    assert types_of(tmp_path, model_of(nodes, {"x": [2, 3, 7]}, NUMBERS))[-1] == "Mul"


@pytest.mark.parametrize("kind", ["Clip", "Max"])
def test_a_norm_may_bound_its_mean(tmp_path: Path, kind: str) -> None:
    nodes = rms()
    nodes[2] = node(kind, ["b", "eps"], ["c"])
    assert types_of(tmp_path, model_of(nodes, {"x": [2, 3, 7]}, NUMBERS)) == ["RMSNormalization"]


def test_a_norm_whose_mean_is_returned_stays_in_parts(tmp_path: Path) -> None:
    found = types_of(tmp_path, model_of(rms(), {"x": [2, 3, 7]}, NUMBERS, outputs=["y", "b"]))
    assert found == ["Pow", "ReduceMean", "Add", "Sqrt", "Div"]


def test_a_norm_that_is_returned_takes_nothing_else_along(tmp_path: Path) -> None:
    nodes = [node("Identity", ["z"], ["seen"]), *rms()]
    model = model_of(nodes, {"x": [2, 3, 7], "z": [2]}, NUMBERS, outputs=["y", "seen"])
    assert types_of(tmp_path, model) == ["Identity", "RMSNormalization"]


# Attention

Q, K, V = [2, 3, 5, 7], [2, 3, 11, 7], [2, 3, 11, 13]
INPUTS = {"q": Q, "k": K, "v": V}


def attention(
    between: Nodes = (), scores: str = "s", *, behind: Nodes = (), weights: str = "p", query: str = "q",
    keys: str = "kt", **attributes: Any,
) -> list[Any]:  # fmt: skip
    """Attention of q, k and v: nodes between the scores (``s``) and the softmax, and behind it (``p``)."""
    return [
        *([node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2])] if keys == "kt" else []),
        node("MatMul", [query, keys], ["s"], name="scores"),
        *between,
        node("Softmax", [scores], ["p"], **({"axis": -1} | attributes)),
        *behind,
        node("MatMul", [weights, "v"], ["y"], name="sum"),
    ]


def read(folder: Path, nodes: Nodes, weights: Mapping[str, Weight] | None = None, **inputs: list[int]) -> list[Any]:
    return nodes_of(folder, model_of(nodes, {**INPUTS, **inputs}, weights))


def is_one(nodes: Sequence[Any]) -> bool:
    """Whether all is one attention, besides views."""
    return [each.op_type for each in nodes if each.op_type not in ("Transpose", "Identity")] == ["Attention"]


def test_attention_in_parts_reads_queries_keys_and_values(tmp_path: Path) -> None:
    found = read(tmp_path, attention())[-1]
    assert (found.op_type, found.name, list(found.input), list(found.output)) == (
        "Attention", "sum", ["q", "k", "v"], ["y"],
    )  # fmt: skip
    assert [(each.name, each.i) for each in found.attribute] == [("is_causal", 0)]
    operator = graph_of(tmp_path, model_of(attention(), INPUTS)).operators[-1]
    assert operator.kind == "attention" and operator.forward_flops == 2 * (2 * 3 * 5) * 11 * (7 + 13)
    assert operator.forward_bytes == 4 * (2 * 3) * (5 * 7 + 11 * 7 + 11 * 13 + 5 * 13) and not operator.causal
    assert operator.dimensions == {"sample": 2, "head": 3, "sequence": 5, "key_sequence": 11, "head_dim": 7}


@pytest.mark.parametrize(("axis", "merges"), [(-1, True), (3, True), (2, False), (-2, False), (1, False), (0, False)])
def test_attention_is_over_the_last_axis(tmp_path: Path, axis: int, merges: bool) -> None:
    assert is_one(read(tmp_path, attention(axis=axis))) is merges


@pytest.mark.parametrize("inside", ["s", "p"])
def test_attention_whose_scores_or_weights_are_returned_stays_in_parts(tmp_path: Path, inside: str) -> None:
    kinds = types_of(tmp_path, model_of(attention(), INPUTS, outputs=["y", inside]))
    assert kinds == ["Transpose", "MatMul", "Softmax", "MatMul"]


def test_only_a_softmax_makes_weights_of_attention(tmp_path: Path) -> None:
    nodes = attention()
    nodes[2] = node("Relu", ["s"], ["p"])
    assert [each.op_type for each in read(tmp_path, nodes)] == ["Transpose", "MatMul", "Relu", "MatMul"]


def test_a_softmax_without_an_axis_is_over_the_last(tmp_path: Path) -> None:
    nodes = attention()
    del nodes[2].attribute[:]
    assert is_one(read(tmp_path, nodes))


@pytest.mark.parametrize(
    ("between", "merges"),
    [
        ([node("Mul", ["s", "half"], ["t"])], True),
        ([node("Div", ["s", "half"], ["t"])], True),
        ([node("Mul", ["half", "s"], ["t"])], True),
        ([node("Add", ["s", "half"], ["t"])], True),
        ([node("Cast", ["s"], ["u"], to=11), node("Cast", ["u"], ["t"], to=1)], True),
        ([node("Sub", ["s", "half"], ["t"])], False),
        ([node("Exp", ["s"], ["t"])], False),
        ([node("Mul", ["s", "m"], ["t"])], False),
        ([node("Add", ["s", "s"], ["t"])], False),
    ],
)
def test_what_scales_the_scores_is_part_of_attention(tmp_path: Path, between: Nodes, merges: bool) -> None:
    names = {name for each in between for name in each.input}
    inputs = {"m": [2, 3, 5, 11]} if "m" in names else {}
    weights = {"half": SCALAR} if "half" in names else {}
    assert is_one(read(tmp_path, attention(between, "t"), weights, **inputs)) is merges


@pytest.mark.parametrize(
    ("behind", "merges"),
    [
        ([node("Dropout", ["p", "half"], ["w"])], True),
        ([node("Dropout", ["p", "half"], ["w", "mask"])], True),
        ([node("Cast", ["p"], ["u"], to=11), node("Cast", ["u"], ["w"], to=1)], True),
        ([node("Mul", ["p", "half"], ["w"])], False),
        ([node("IsNaN", ["p"], ["n"]), node("Where", ["n", "half", "p"], ["w"])], True),
        ([node("IsInf", ["p"], ["n"]), node("Where", ["n", "half", "p"], ["w"])], False),
    ],
)
def test_what_drops_weights_is_part_of_attention(tmp_path: Path, behind: Nodes, merges: bool) -> None:
    weights = {"half": SCALAR} if any("half" in each.input for each in behind) else {}
    assert is_one(read(tmp_path, attention(behind=behind, weights="w"), weights)) is merges


def test_weights_must_stand_first_in_the_product_with_values(tmp_path: Path) -> None:
    nodes = attention()
    nodes[-1] = node("MatMul", ["v", "p"], ["y"])
    assert not is_one(read(tmp_path, nodes, v=[2, 3, 11, 5]))
    nodes[-1] = node("Relu", ["p"], ["y"])
    assert "Attention" not in [each.op_type for each in read(tmp_path, nodes)]


TRIANGLE = np.where(np.tri(5, dtype=bool), 0, -1e9).astype(np.float32)


@pytest.mark.parametrize(
    ("mask", "causal"),
    [
        (TRIANGLE, True),
        (TRIANGLE[None, None], True),
        (np.where(np.tri(5, dtype=bool), 3, -10_000).astype(np.float32), True),
        (np.where(np.tri(5, dtype=bool), -9_999, -10_001).astype(np.float32), True),
        (np.where(np.tri(5, dtype=bool), 0, -9_999).astype(np.float32), False),
        (TRIANGLE.T, False),
        (np.where(np.tri(5, k=1, dtype=bool), 0, -1e9).astype(np.float32), False),
        (np.where(np.tri(5, k=-1, dtype=bool), 0, -1e9).astype(np.float32), False),
        (np.zeros((5, 5), np.float32), False),
        (TRIANGLE[:1], False),
        (np.zeros((5, 1), np.float32), False),
        (TRIANGLE[-1], False),
        (np.stack([TRIANGLE, TRIANGLE, TRIANGLE.T]), False),
    ],
)
def test_masks_that_are_added_are_causal_or_leave_attention_in_parts(
    tmp_path: Path, mask: np.ndarray[Any, Any], causal: bool
) -> None:
    for names in (["s", "mask"], ["mask", "s"]):
        nodes = attention([node("Add", names, ["t"])], "t")
        found = read(tmp_path, nodes, {"mask": mask}, k=[2, 3, 5, 7], v=[2, 3, 5, 13])
        assert is_one(found) is causal
        assert not causal or [(each.name, each.i) for each in found[-1].attribute] == [("is_causal", 1)]


@pytest.mark.parametrize(
    ("mask", "names", "causal"),
    [
        (np.tri(5, dtype=bool), ["mask", "s", "low"], True),
        (~np.tri(5, dtype=bool), ["mask", "low", "s"], True),
        (np.tri(5, dtype=bool), ["mask", "low", "s"], False),
        (~np.tri(5, dtype=bool), ["mask", "s", "low"], False),
    ],
)
def test_masks_that_choose_are_causal_by_which_side_they_leave(
    tmp_path: Path, mask: np.ndarray[Any, Any], names: list[str], causal: bool
) -> None:
    nodes = attention([node("Where", names, ["t"])], "t")
    weights = {"mask": mask, "low": np.array(-1e9, np.float32)}
    found = read(tmp_path, nodes, weights, k=[2, 3, 5, 7], v=[2, 3, 5, 13])
    assert is_one(found) is causal and (not causal or attribute(found[-1], "is_causal", 0) == 1)


@pytest.mark.parametrize(("tokens", "causal"), [(4096, True), (4097, False)])
def test_masks_of_four_thousand_tokens_are_evaluated(tmp_path: Path, tokens: int, causal: bool) -> None:
    nodes = attention([node("Where", ["mask", "s", "low"], ["t"])], "t")
    weights = {"mask": np.tri(tokens, dtype=bool), "low": np.array(-1e9, np.float32)}
    sizes = [1, 1, tokens, 2]
    assert is_one(read(tmp_path, nodes, weights, q=sizes, k=sizes, v=sizes)) is causal


def test_scores_that_a_vector_multiplies_are_no_mask(tmp_path: Path) -> None:
    nodes = attention([node("Mul", ["s", "mask"], ["t"])], "t")
    mask = np.tri(5, dtype=np.float32)
    assert not is_one(read(tmp_path, nodes, {"mask": mask}, k=[2, 3, 5, 7], v=[2, 3, 5, 13]))


def test_two_masks_must_both_be_causal(tmp_path: Path) -> None:
    small = {"k": [2, 3, 5, 7], "v": [2, 3, 5, 13]}
    nodes = attention([node("Add", ["s", "one"], ["u"]), node("Add", ["u", "two"], ["t"])], "t")
    for one, two, causal in ((TRIANGLE, TRIANGLE, True), (TRIANGLE, TRIANGLE.T, False), (TRIANGLE.T, TRIANGLE, False)):
        assert is_one(read(tmp_path, nodes, {"one": one, "two": two}, **small)) is causal


def test_queries_and_keys_may_be_scaled_first(tmp_path: Path) -> None:
    scaling = [node("Mul", ["q", "half"], ["qs"]), node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2])]
    scaling.append(node("Div", ["kt", "half"], ["ks"]))
    found = read(tmp_path, [*scaling, *attention(query="qs", keys="ks")], {"half": SCALAR})
    assert is_one(found) and list(found[-1].input) == ["q", "k", "v"]
    # One that something else reads, or that is a vector of weights, stays.
    other = read(tmp_path, [*scaling, *attention(query="qs", keys="ks"), node("Relu", ["qs"], ["r"])], {"half": SCALAR})
    assert [each.op_type for each in other] == ["Mul", "Transpose", "Attention", "Relu"]
    assert list(other[-2].input) == ["qs", "k", "v"]
    weighed = read(
        tmp_path, [*scaling, *attention(query="qs", keys="ks")], {"half": [7]}, k=[2, 3, 7, 7], v=[2, 3, 7, 13]
    )
    assert [each.op_type for each in weighed] == ["Mul", "Transpose", "Div", "MatMul", "Softmax", "MatMul"]


def test_keys_of_another_order_are_seen_as_they_are_read(tmp_path: Path) -> None:
    """(sample, token, head, channel), transposed to (sample, head, channel, token) at once."""
    nodes = [node("Transpose", ["k"], ["kt"], perm=[0, 2, 3, 1]), *attention()[1:]]
    found = read(tmp_path, nodes, k=[2, 11, 3, 7])
    assert [each.op_type for each in found] == ["Identity", "Transpose", "Attention"]
    assert list(found[-1].input) == ["q", "k as (2, 3, 11, 7)", "v"] and list(found[0].input) == ["k"]
    graph = graph_of(tmp_path, model_of(nodes, {**INPUTS, "k": [2, 11, 3, 7]}))
    assert graph.operators[-1].forward_flops == 2 * (2 * 3 * 5) * 11 * (7 + 13)
    assert graph.operators[-1].inputs == ("input.q", "input.k", "input.v")


def test_keys_that_no_transposition_made_are_none(tmp_path: Path) -> None:
    assert not is_one(read(tmp_path, attention(keys="k"), k=[2, 3, 7, 11]))


def test_heads_that_queries_share_are_not_repeated(tmp_path: Path) -> None:
    def repeated(name: str) -> list[Any]:
        return [
            node("Unsqueeze", [name, "two"], [f"{name}1"]),
            node("Expand", [f"{name}1", f"{name}sizes"], [f"{name}2"]),
            node("Reshape", [f"{name}2", f"{name}shape"], [f"{name}3"]),
        ]

    weights: dict[str, Weight] = {
        "two": np.array([2]), "ksizes": np.array([2, 3, 2, 11, 7]), "kshape": np.array([2, 6, 11, 7]),
        "vsizes": np.array([2, 3, 2, 11, 13]), "vshape": np.array([2, 6, 11, 13]),
    }  # fmt: skip
    nodes = [*repeated("k"), *repeated("v"), node("Transpose", ["k3"], ["kt"], perm=[0, 1, 3, 2])]
    nodes += [*attention(keys="kt")[1:-1], node("MatMul", ["p", "v3"], ["y"])]
    found = read(tmp_path, nodes, weights, q=[2, 6, 5, 7])[-1]
    assert (found.op_type, list(found.input)) == ("Attention", ["q", "k", "v"])
    operator = graph_of(tmp_path, model_of(nodes, {**INPUTS, "q": [2, 6, 5, 7]}, weights)).operators[-1]
    assert operator.dimensions == {
        "sample": 2, "head": 6, "key_head": 3, "sequence": 5, "key_sequence": 11, "head_dim": 7,
    }  # fmt: skip


def test_products_of_three_axes_are_no_attention(tmp_path: Path) -> None:
    for name, shape in (("v", [3, 11, 13]), ("q", [3, 5, 7])):
        kinds = types_of(tmp_path, model_of(attention(), {**INPUTS, name: shape}))
        assert kinds == ["Transpose", "MatMul", "Softmax", "MatMul"]
    nodes = [node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), *attention()[1:]]
    found = read(tmp_path, nodes, q=[2, 5, 7], k=[2, 11, 7], v=[2, 11, 13])
    assert [each.op_type for each in found] == ["Transpose", "MatMul", "Softmax", "MatMul"]


# Experts

EXPERTS: dict[str, Weight] = {"w": [3, 5, 7]}


def experts(*, first: bool = False, turned: bool = False) -> list[Any]:
    """Each of 11 rows of 5 meets the matrix (5, 7) of its expert, or (7, 5) transposed; rows stand first or last."""
    turn = [node("Transpose", ["m"], ["t"], perm=[0, 2, 1])] if turned else []
    name = "t" if turned else "m"
    return [
        node("Gather", ["w", "e"], ["m"]),
        *turn,
        node("MatMul", ["x", name] if first else [name, "x"], ["y"], name="product"),
    ]


def read_experts(folder: Path, nodes: Nodes, x: list[int], w: Weight = (3, 5, 7)) -> ComputeGraph:
    return graph_of(folder, model_of(nodes, {"x": x, "e": [11]}, {"w": w}, types={"e": INT64}))


@pytest.mark.parametrize(
    ("first", "turned", "shape", "summed", "wide"),
    [
        (True, False, [11, 1, 5], 5, 7),
        (True, True, [11, 1, 7], 7, 5),
        (False, False, [11, 7, 1], 7, 5),
        (False, True, [11, 5, 1], 5, 7),
    ],
)
def test_rows_meet_the_matrix_of_their_expert(
    tmp_path: Path, first: bool, turned: bool, shape: list[int], summed: int, wide: int
) -> None:
    graph = read_experts(tmp_path, experts(first=first, turned=turned), shape)
    product, copy = graph.operators[2:]
    assert (product.kind, product.name, product.inputs, copy.kind) == ("experts", "product", ("input.x",), "copy")
    assert product.forward_flops == product.backward_flops == 2 * 11 * 5 * 7
    assert product.parameters == 105 and copy.inputs == ("product",)
    assert product.forward_bytes == 4 * (11 * summed + 105 + 11 * wide) and product.shared_bytes == 4 * 105
    assert product.dimensions == {
        "sample": 11, "expert": 3, "sequence": 1, "channel": wide, "in_channel": summed,
    }  # fmt: skip
    assert copy.activation_bytes == 4 * 11 * wide


def rounds_of(first: str, last: str, count: int) -> list[Any]:
    """Sums of two functions of the same tensor, one after the other."""
    names = [first, *(f"{last}{i}" for i in range(1, count)), last]
    return [
        each
        for before, after in pairwise(names)
        for each in (
            node("Neg", [before], [f"{after}n"]),
            node("Exp", [before], [f"{after}e"]),
            node("Add", [f"{after}n", f"{after}e"], [after]),
        )
    ]


@pytest.mark.parametrize(
    ("between", "kinds", "copied"),
    [
        ([node("Exp", ["a"], ["b"])], ["elementwise"], False),
        ([node("Sigmoid", ["a"], ["s"]), node("Mul", ["a", "s"], ["b"])], ["activation"], False),
        ([node("Transpose", ["a"], ["t"], perm=[1, 0, 2]), node("Transpose", ["t"], ["b"], perm=[1, 0, 2])], [], False),
        ([node("Mul", ["a", "z"], ["b"])], ["elementwise"], False),
        (rounds_of("a", "b", 1), ["elementwise", "elementwise", "add"], False),
        ([node("Softmax", ["a"], ["b"])], ["softmax"], True),
        ([node("MatMul", ["a", "u"], ["b"])], ["linear"], True),
        ([node("Gather", ["rows", "e"], ["r"]), node("Mul", ["a", "r"], ["c"]), node("Softmax", ["c"], ["b"])],
         ["embedding", "elementwise", "softmax"], True),
        ([*rounds_of("a", "c", 30), node("Softmax", ["c"], ["b"])],
         ["elementwise", "elementwise", "add"] * 30 + ["softmax"], True),
    ],
)  # fmt: skip
def test_rows_go_back_to_the_order_of_tokens_unless_they_go_on_to_experts(
    tmp_path: Path, between: Nodes, kinds: list[str], copied: bool
) -> None:
    nodes = [node("Gather", ["w", "e"], ["m"]), node("MatMul", ["x", "m"], ["a"]), *between]
    nodes += [node("Gather", ["v", "e"], ["n"]), node("MatMul", ["b", "n"], ["y"])]
    read_names = {name for each in nodes for name in each.input}
    weights: dict[str, Weight] = {"w": [3, 5, 7], "v": [3, 7, 2], "u": [7, 7], "rows": [3, 1, 7]}
    inputs = {"x": [11, 1, 5], "e": [11], **({"z": [11, 1, 7]} if "z" in read_names else {})}
    model = model_of(nodes, inputs, {k: w for k, w in weights.items() if k in read_names}, types={"e": INT64})
    found = [each.kind for each in graph_of(tmp_path, model).operators if each.kind != "input"]
    assert found == ["experts", *(["copy"] if copied else []), *kinds, "experts", "copy"]


def test_several_tokens_of_an_expert_are_products_of_their_own(tmp_path: Path) -> None:
    kinds = [each.kind for each in read_experts(tmp_path, experts(first=True), [11, 2, 5]).operators]
    assert kinds == ["input", "input", "embedding", "matmul"]


def test_matrices_at_constant_places_or_of_two_axes_are_no_experts(tmp_path: Path) -> None:
    constant: dict[str, Weight] = {"w": [3, 5, 7], "e": np.arange(11) % 3}
    kinds = types_of(tmp_path, model_of(experts(first=True), {"x": [11, 1, 5]}, constant))
    assert kinds == ["Gather", "MatMul"]
    flat = [node("Gather", ["w", "e"], ["m"]), node("MatMul", ["x", "m"], ["y"])]
    model = model_of(flat, {"x": [2, 11], "e": [11]}, {"w": [3, 7]}, types={"e": INT64})
    assert types_of(tmp_path, model) == ["Gather", "MatMul"]
    given = model_of(experts(first=True), {"x": [11, 1, 5], "w": [3, 5, 7], "e": [11]}, types={"e": INT64})
    assert types_of(tmp_path, given) == ["Gather", "MatMul"]


# Products with a bias


@pytest.mark.parametrize(
    ("weights", "x", "bias", "expected"),
    [
        ([5, 7], [2, 3, 5], [7], ["Gemm"]),
        ([5, 7], [2, 3, 5], [1, 7], ["Gemm"]),
        ([5, 7], [2, 3, 5], [1, 1, 7], ["Gemm"]),
        ([5, 7], [2, 3, 5], [3, 7], ["MatMul", "Add"]),
        ([5, 7], [2, 3, 5], [1], ["MatMul", "Add"]),
        ([5, 7], [2, 3, 5], [3, 1], ["MatMul", "Add"]),
        ([2, 5, 7], [2, 3, 5], [7], ["MatMul", "Add"]),
        ([5, 1], [2, 3, 5], [1], ["Gemm"]),
    ],
)
def test_a_bias_of_the_channels_is_part_of_a_product_with_a_matrix(
    tmp_path: Path, weights: list[int], x: list[int], bias: list[int], expected: list[str]
) -> None:
    for names in (["a", "b"], ["b", "a"]):
        nodes = [node("MatMul", ["x", "w"], ["a"], name="product"), node("Add", names, ["y"], name="sum")]
        found = nodes_of(tmp_path, model_of(nodes, {"x": x}, {"w": weights, "b": bias}))
        assert [each.op_type for each in found] == expected
        if expected == ["Gemm"]:
            assert (found[0].name, list(found[0].input), list(found[0].output)) == ("product", ["x", "w", "b"], ["y"])


def test_weights_may_be_computed_of_weights(tmp_path: Path) -> None:
    nodes = [
        node("Transpose", ["w"], ["turned"], perm=[1, 0]),
        node("MatMul", ["x", "turned"], ["a"]),
        node("Add", ["a", "b"], ["y"]),
    ]
    assert types_of(tmp_path, model_of(nodes, {"x": [2, 5]}, {"w": [7, 5], "b": [7]})) == ["Transpose", "Gemm"]


def test_what_is_no_bias_of_a_product_stays(tmp_path: Path) -> None:
    product = node("MatMul", ["x", "w"], ["a"])
    shapes: dict[str, Weight] = {"w": [5, 7], "b": [7]}
    for nodes, inputs, outputs in (
        ([product, node("Sub", ["a", "b"], ["y"])], {"x": [2, 5]}, ["y"]),
        ([product, node("Add", ["a", "b"], ["y"])], {"x": [2, 5]}, ["y", "a"]),
        ([product, node("Add", ["a", "b"], ["y"]), node("Relu", ["a"], ["z"])], {"x": [2, 5]}, ["y", "z"]),
        (
            [node("Relu", ["x"], ["a"]), node("Add", ["a", "b"], ["y"]), node("Relu", ["w"], ["u"])],
            {"x": [2, 7]},
            ["y"],
        ),
    ):
        found = types_of(tmp_path, model_of(nodes, inputs, shapes, outputs=outputs))
        assert found == [each.op_type for each in nodes]
    given = model_of([product, node("Add", ["a", "b"], ["y"])], {"x": [2, 5], "w": [5, 7]}, {"b": [7]})
    assert types_of(tmp_path, given) == ["MatMul", "Add"]
    tensor = model_of([product, node("Add", ["a", "z"], ["y"])], {"x": [2, 5], "z": [7]}, {"w": [5, 7]})
    assert types_of(tmp_path, tensor) == ["MatMul", "Add"]
    before = model_of(
        [node("MatMul", ["w", "x"], ["a"]), node("Add", ["a", "b"], ["y"])], {"x": [7, 3]}, {"w": [5, 7], "b": [3]}
    )
    assert types_of(tmp_path, before) == ["MatMul", "Add"]


def test_a_merged_node_stands_where_its_last_part_stood(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Relu", ["x"], ["r"], name="between"),
        node("Add", ["a", "b"], ["y"]),
        node("Relu", ["r"], ["z"], name="after"),
    ]
    model = model_of(nodes, {"x": [2, 5]}, {"w": [5, 7], "b": [7]}, outputs=["y", "z"])
    assert types_of(tmp_path, model) == ["Relu", "Gemm", "Relu"]
