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
from lightloom.models.onnx import read_onnx
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
    graph = read_onnx(written(tmp_path, model)).graph.with_batch(4)
    assert graph.parameters == 8 * 6 + 6 + 3 * 6
    # The bias is part of the product.
    assert [each.forward_flops for each in graph.operators] == [0, 2 * 4 * 8 * 6, 4 * 6, 2 * 4 * 6 * 3]
    # The first product needs no gradient of the samples.
    assert [each.backward_flops for each in graph.operators] == [0, 2 * 4 * 8 * 6, 4 * 6, 4 * 4 * 6 * 3]
    assert graph.operator("gemm").inputs == ("relu",) and graph.operator("first").kind == "linear"


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


def test_dynamic_dimensions_take_the_sizes_that_are_given(tmp_path: Path) -> None:
    made = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    path = written(tmp_path, graph_of([made], {"x": ["batch", "seq", 8]}, {"w": [8, 6]}))
    for given in ({"definitions": {"seq": "5"}}, {"sequence_length": 5}):
        assert read_onnx(path, **given).graph.with_batch(2).operator("matmul").forward_flops == 2 * 2 * 5 * 8 * 6
    with pytest.raises(InputError, match="has no dynamic dimension 'width'"):
        read_onnx(path, definitions={"seq": "5", "width": "3"})


@pytest.mark.parametrize("content", [b"", b"\xff\xff", b"hello"])
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match="no ONNX model"):
        read_onnx(path)
