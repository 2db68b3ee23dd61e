"""Kinds and FLOPs of ONNX operators, from the table of operators, into whose words they are translated."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from lightloom.core.errors import WorkloadError
from lightloom.interchange.onnx.shapes import Value
from lightloom.workloads import operator_words
from lightloom.workloads.operator_words import Product, Shape

Node: TypeAlias = Any
"""A ``NodeProto``; ONNX is optional, so that its types are not imported."""
Attribute: TypeAlias = Any
"""The value of an attribute of a node: a number, a text, or a list of these."""

_WORDS = {
    "Conv": "convolution",
    "ConvInteger": "convolution",
    "QLinearConv": "convolution",
    "DeformConv": "convolution",
    "ConvTranspose": "conv_transpose2d",
    "Gemm": "mm",
    "GroupedMatMul": "grouped_mm",
    "MatMul": "matmul",
    "MatMulInteger": "matmul",
    "QLinearMatMul": "matmul",
    "RNN": "rnn_tanh",
    "BatchNormalization": "batch_norm",
    "LayerNormalization": "layer_norm",
    "InstanceNormalization": "instance_norm",
    "GroupNormalization": "group_norm",
    "RMSNormalization": "rms_norm",
    "LpNormalization": "normalize",
    "MeanVarianceNormalization": "instance_norm",
    "MaxPool": "max_pool2d",
    "AveragePool": "avg_pool2d",
    "GlobalAveragePool": "adaptive_avg_pool2d",
    "GlobalMaxPool": "adaptive_max_pool2d",
    "LpPool": "lp_pool2d",
    "GlobalLpPool": "lp_pool2d",
    "PRelu": "prelu",
    "HardSwish": "hardswish",
    "HardSigmoid": "hardsigmoid",
    "Clip": "hardtanh",
    "ThresholdedRelu": "threshold",
    "Shrink": "softshrink",
    "Swish": "silu",
    "SwiGLU": "glu",
    "Hardmax": "softmax",
    "TopK": "topk",
    "NegativeLogLikelihoodLoss": "nll_loss",
    "SoftmaxCrossEntropyLoss": "cross_entropy",
    "ReduceL1": "norm",
    "ReduceL2": "norm",
    "ReduceLogSum": "logsumexp",
    "ReduceLogSumExp": "logsumexp",
    "ReduceMax": "amax",
    "ReduceMean": "mean",
    "ReduceMin": "amin",
    "ReduceProd": "prod",
    "ReduceSum": "sum",
    "ReduceSumSquare": "norm",
    "ArgMax": "argmax",
    "ArgMin": "argmin",
    "Cast": "to_copy",
    "CastLike": "to_copy",
    "BitCast": "view",
    "Contiguous": "contiguous",
    "GatherElements": "gather",
    "GatherND": "index",
    "ScatterElements": "scatter",
    "ScatterND": "index_put",
    "TensorScatter": "index_put",
    "Tile": "repeat",
    "Compress": "index_select",
    "CenterCropPad": "pad",
    "DepthToSpace": "pixel_shuffle",
    "SpaceToDepth": "pixel_unshuffle",
    "ReverseSequence": "flip",
    "Trilu": "tril",
    "EyeLike": "zeros",
    "Constant": "zeros",
    "ConstantOfShape": "full",
    "RandomNormal": "normal",
    "RandomNormalLike": "randn_like",
    "RandomUniform": "uniform",
    "RandomUniformLike": "rand_like",
    "Resize": "interpolate",
    "Upsample": "interpolate",
    "Sum": "add",
    "Mean": "add",
    "Max": "maximum",
    "Min": "minimum",
    "Col2Im": "col2im",
    "Equal": "eq",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "Less": "lt",
    "LessOrEqual": "le",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "Not": "logical_not",
    "BitShift": "bitwise_left_shift",
    "Mod": "remainder",
    "IsInf": "isinf",
    "IsNaN": "isnan",
    "CumSum": "cumsum",
    "CumProd": "cumprod",
    "DequantizeLinear": "mul",
    "QuantizeLinear": "div",
    "DynamicQuantizeLinear": "div",
    "RotaryEmbedding": "mul",
}
"""Words of the table of operators for those of ONNX that have another name."""


def word_of(node: Node) -> str:
    """Return the word of the table of operators for a node: ``LeakyRelu`` is leaky_relu."""
    name: str = node.op_type
    return _WORDS.get(name) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def kind_of(node: Node, product: Product | None, summands: int, weighted: bool) -> str:
    """Return the kind of a node that reads ``summands`` results of others, and parameters where it is ``weighted``."""
    word = word_of(node)
    if weighted and node.op_type == "Gather":
        return "embedding"
    made = [word] if product is not None and product.flops else []
    kind = operator_words.kind_of(word, made, [word], summands)
    return "linear" if weighted and made and word in ("mm", "matmul") else kind


def product_of(node: Node, inputs: Sequence[Value | None], output: Value) -> Product | None:
    """Return what a node multiplies; None for one that multiplies no matrices.

    Raises:
        WorkloadError: an operand is missing, or an equation that cannot be read.
    """
    name, word = node.op_type, word_of(node)
    values: list[object] = []
    if name == "Gemm":
        shapes = [_flipped(node, inputs, 0, "transA"), _flipped(node, inputs, 1, "transB")]
    elif name in (
        "MatMul",
        "MatMulInteger",
        "GroupedMatMul",
        "Conv",
        "ConvInteger",
        "DeformConv",
        "ConvTranspose",
        "QLinearConv",
    ):
        shapes = [_operand(node, inputs, place).shape for place in (0, weight_place(node))]
    elif name == "QLinearMatMul":
        shapes = [_operand(node, inputs, place).shape for place in (0, 3)]
    elif name == "Einsum":
        shapes = [each.shape for each in inputs if each is not None]
        values = [_attribute(node, "equation", b"").decode()]
    elif name in ("LSTM", "GRU", "RNN"):
        # Weights (directions, gates · H, I) and (directions, gates · H, H), as one matrix each.
        matrices = [_operand(node, inputs, place).shape for place in (1, 2)]
        shapes = [_operand(node, inputs, 0).shape, *((w[0] * w[1], w[2]) for w in matrices)]
    elif name == "Attention":
        shapes = _heads(node, [_operand(node, inputs, place).shape for place in range(3)])
    else:
        return None
    made = operator_words.product(word, shapes, output.shape, values)
    if made is None:
        told = f"Einsum {values[0]!r}: expected one label an axis" if values else f"{name}: operands {shapes}"
        raise WorkloadError(f"node {node.name or node.output[0]!r}: {told}")
    return made


def causal(node: Node) -> bool:
    """Return whether a node is attention in which a token sees only those before it."""
    return node.op_type == "Attention" and bool(_attribute(node, "is_causal", 0))


def other_flops(kind: str, inputs: Sequence[Value | None], output: Value) -> int:
    """Return the FLOPs of a node that multiplies no matrices."""
    if kind in ("copy", "concat", "dropout", "embedding"):
        return 0
    return max(output.elements, *(each.elements for each in inputs if each is not None), 0)


def weight_place(node: Node) -> int:
    """Return which input holds the weight of a convolution."""
    return 3 if node.op_type == "QLinearConv" else 1


def _heads(node: Node, shapes: Sequence[Shape]) -> list[Shape]:
    """Return queries, keys and values as (B, H, T, D), from (B, T, H · D) by the attributes that number the heads."""
    heads = [_attribute(node, name, 1) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    return [
        shape if len(shape) == 4 else (shape[0], count, shape[1], shape[2] // count)
        for shape, count in zip(shapes, heads, strict=True)
    ]


def _flipped(node: Node, inputs: Sequence[Value | None], place: int, attribute: str) -> Shape:
    shape = _operand(node, inputs, place).shape
    return shape[::-1] if _attribute(node, attribute, 0) else shape


def _operand(node: Node, inputs: Sequence[Value | None], place: int) -> Value:
    value = inputs[place] if place < len(inputs) else None
    if value is None or not value.shape:
        raise WorkloadError(f"node {node.name or node.output[0]!r} ({node.op_type}): operand {place} has no axes")
    return value


def _attribute(node: Node, name: str, default: Attribute) -> Attribute:
    import onnx

    return next((onnx.helper.get_attribute_value(each) for each in node.attribute if each.name == name), default)
