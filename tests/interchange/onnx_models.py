"""Small ONNX models for tests, made node by node; importing it skips a test where ``onnx`` is not installed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.models.graph import ComputeGraph
from lightloom.models.onnx import read_onnx

onnx: Any = pytest.importorskip("onnx")
pytest.importorskip("onnx.reference")
node = onnx.helper.make_node
FLOAT, INT64, BOOL = 1, 7, 9
Weight = Sequence[int] | np.ndarray[Any, Any]
"""The shape of a weight of float32, or its values."""


def model_of(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[int | str | None]],
    weights: Mapping[str, Weight] | None = None,
    *,
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
    types: Mapping[str, int] | None = None,
) -> Any:
    """A model of these nodes; an axis without a size is named or None, inputs are of float32 unless ``types`` says."""
    helper, stored = onnx.helper, []
    for name, weight in (weights or {}).items():
        if isinstance(weight, np.ndarray):
            stored.append(onnx.numpy_helper.from_array(weight, name))
        else:
            stored.append(helper.make_tensor(name, FLOAT, weight, bytes(4 * math.prod(weight)), raw=True))
    given = [
        helper.make_tensor_value_info(name, (types or {}).get(name, FLOAT), shape) for name, shape in inputs.items()
    ]
    made = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "graph", given, made, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def written(folder: Path, model: Any) -> Path:
    """The path of a model that is written to a folder."""
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def graph_of(folder: Path, model: Any, **options: Any) -> ComputeGraph:
    """The graph that is read of a model."""
    return read_onnx(written(folder, model), **options).graph
