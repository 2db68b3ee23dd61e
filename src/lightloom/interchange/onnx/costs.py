"""Kinds and FLOPs of ONNX operators; two FLOPs a multiply-accumulate, else one an element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from lightloom.core.errors import WorkloadError
from lightloom.interchange.onnx.shapes import Value

Node: TypeAlias = Any
"""A ``NodeProto``; ONNX is optional, so that its types are not imported."""
Attribute: TypeAlias = Any
"""The value of an attribute of a node: a number, a text, or a list of these."""

VIEWS = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Transpose", "Expand", "Split", "Slice")
"""What makes no new data: reshaped, sliced or repeated by strides."""
_WORDS = {
    "conv": "Conv ConvTranspose ConvInteger QLinearConv DeformConv",
    "linear": "Gemm",
    "matmul": "MatMul MatMulInteger QLinearMatMul Einsum",
    "attention": "Attention",
    "recurrent": "LSTM GRU RNN",
    "batch_norm": "BatchNormalization",
    "norm": "LayerNormalization InstanceNormalization GroupNormalization RMSNormalization LpNormalization "
    "MeanVarianceNormalization",
    "lrn": "LRN",
    "pool": "MaxPool AveragePool GlobalAveragePool GlobalMaxPool LpPool GlobalLpPool",
    "activation": "Relu LeakyRelu PRelu Elu Selu Celu Gelu Mish Sigmoid HardSigmoid HardSwish Softplus Softsign Tanh "
    "ThresholdedRelu Clip Swish Shrink",
    "softmax": "Softmax LogSoftmax Hardmax",
    "dropout": "Dropout",
    "concat": "Concat",
    "topk": "TopK",
    "loss": "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    "reduce": "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
    "ReduceSumSquare ArgMax ArgMin",
    "copy": "Cast CastLike Gather GatherElements GatherND ScatterElements ScatterND Scatter Pad Tile Resize Upsample "
    "DepthToSpace SpaceToDepth ReverseSequence OneHot Compress EyeLike Where",
}
_KINDS = {word: kind for kind, words in _WORDS.items() for word in words.split()}
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_MOVES = ("copy", "concat", "dropout", "embedding")


def kind_of(node: Node, summands: int, weighted: bool) -> str:
    """Return the kind of a node that reads ``summands`` results of others, and parameters where it is ``weighted``."""
    kind = _KINDS.get(node.op_type)
    if node.op_type in ("MatMul", "MatMulInteger", "QLinearMatMul") and weighted:
        return "linear"
    if node.op_type == "Gemm" and not weighted:
        return "matmul"
    if node.op_type == "Gather" and weighted:
        return "embedding"
    return kind or ("add" if node.op_type in ("Add", "Sum") and summands >= 2 else "elementwise")


def product_flops(node: Node, inputs: Sequence[Value | None], output: Value) -> int:
    """Return the FLOPs of a product or convolution; 0 of other nodes.

    Raises:
        WorkloadError: an operand is missing, or an equation that cannot be read.
    """
    word = node.op_type
    if word in ("Conv", "ConvInteger", "DeformConv"):
        return 2 * output.elements * math.prod(_operand(node, inputs, 1).shape[1:])
    if word == "QLinearConv":
        return 2 * output.elements * math.prod(_operand(node, inputs, 3).shape[1:])
    if word == "ConvTranspose":
        return 2 * _operand(node, inputs, 0).elements * math.prod(_operand(node, inputs, 1).shape[1:])
    if word == "Gemm":
        shape = _operand(node, inputs, 0).shape
        summed = shape[0] if _attribute(node, "transA", 0) else shape[1]
        return 2 * output.elements * summed
    if word in ("MatMul", "MatMulInteger", "QLinearMatMul"):
        return 2 * output.elements * _operand(node, inputs, 0).shape[-1]
    if word == "Einsum":
        return _einsum(node, inputs)
    if word in _GATES:
        return _recurrent(node, inputs)
    return _attention(node, inputs) if word == "Attention" else 0


def other_flops(kind: str, inputs: Sequence[Value | None], output: Value) -> int:
    """Return the FLOPs of a node that multiplies no matrices."""
    if kind in _MOVES:
        return 0
    return max(output.elements, *(each.elements for each in inputs if each is not None), 0)


def summed_length(node: Node, inputs: Sequence[Value | None]) -> int:
    """Return the length of the sums of a matrix product."""
    shape = _operand(node, inputs, 0).shape
    return shape[0] if node.op_type == "Gemm" and _attribute(node, "transA", 0) else shape[-1]


def weight_place(node: Node) -> int:
    """Return which input holds the weight of a convolution."""
    return 3 if node.op_type == "QLinearConv" else 1


def _recurrent(node: Node, inputs: Sequence[Value | None]) -> int:
    """All steps and directions: inputs (T, B, I), weights (directions, gates · H, I) and (directions, gates · H, H)."""
    sequence = _operand(node, inputs, 0)
    weights = _operand(node, inputs, 1).elements + _operand(node, inputs, 2).elements
    return 2 * math.prod(sequence.shape[:2]) * weights


def _attention(node: Node, inputs: Sequence[Value | None]) -> int:
    """Queries and keys (B, H, T, D), or (B, T, H · D) with the number of heads as an attribute."""
    q, k, v = (_operand(node, inputs, place).shape for place in range(3))
    if len(q) == 4:
        return 2 * math.prod(q[:3]) * k[2] * (q[3] + v[3])
    queries, keys = int(_attribute(node, "q_num_heads", 1)), int(_attribute(node, "kv_num_heads", 1))
    return 2 * q[0] * q[1] * k[1] * (q[2] + v[2] // keys * queries)


def _einsum(node: Node, inputs: Sequence[Value | None]) -> int:
    equation = _attribute(node, "equation", b"").decode().replace(" ", "")
    terms = equation.partition("->")[0].split(",")
    shapes = [each.shape for each in inputs if each is not None]
    if "..." in equation or len(terms) != len(shapes) or any(map(_differ, terms, shapes)):
        raise WorkloadError(f"node {node.name or node.output[0]!r}: Einsum {equation!r}: expected one label an axis")
    sizes = {
        label: size for term, shape in zip(terms, shapes, strict=True) for label, size in zip(term, shape, strict=True)
    }
    return 2 * math.prod(sizes.values())


def _differ(term: str, shape: tuple[int, ...]) -> bool:
    return len(term) != len(shape)


def _operand(node: Node, inputs: Sequence[Value | None], place: int) -> Value:
    value = inputs[place] if place < len(inputs) else None
    if value is None or not value.shape:
        raise WorkloadError(f"node {node.name or node.output[0]!r} ({node.op_type}): operand {place} has no axes")
    return value


def _attribute(node: Node, name: str, default: Attribute) -> Attribute:
    import onnx

    return next((onnx.helper.get_attribute_value(each) for each in node.attribute if each.name == name), default)
