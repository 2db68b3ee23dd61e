"""Kinds and FLOPs of the calls in an execution trace, from their names and shapes.

Two FLOPs for a multiply-accumulate; the backward pass of attention is twice its forward, recomputation not counted;
anything else one FLOP for each element of its largest tensor, and nothing where data only moves.
"""

from __future__ import annotations

import math

from lightloom.interchange.traces.calls import Call
from lightloom.workloads.graph import TENSOR_KINDS

_WORDS = {
    "conv": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution _convolution",
    "linear": "linear",
    "matmul": "matmul mm bmm addmm baddbmm einsum mv dot addmv tensordot",
    "attention": "scaled_dot_product_attention",
    "recurrent": "lstm gru rnn_tanh rnn_relu",
    "batch_norm": "batch_norm",
    "norm": "layer_norm group_norm instance_norm rms_norm native_layer_norm",
    "pool": "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d adaptive_max_pool2d",
    "activation": "relu relu_ gelu silu silu_ elu leaky_relu tanh sigmoid hardtanh hardtanh_ softplus mish",
    "softmax": "softmax log_softmax",
    "topk": "topk",
    "dropout": "dropout dropout_ native_dropout",
    "embedding": "embedding",
    "concat": "cat concat stack",
    "loss": "cross_entropy_loss nll_loss mse_loss l1_loss binary_cross_entropy binary_cross_entropy_with_logits",
    "reduce": "sum mean amax amin max min prod var std norm logsumexp argmax argmin",
    "copy": "clone copy copy_ contiguous reshape flatten to _to_copy index index_select gather scatter repeat pad "
    "constant_pad_nd roll flip masked_fill masked_fill_ repeat_interleave one_hot fill_ zero_",
}
_KIND = {word: kind for kind, words in _WORDS.items() for word in words.split()}


def kind_of(call: Call, producers: int) -> str:
    """Return the kind of an operator that reads the results of ``producers`` earlier ones."""
    word = call.word.removeprefix("__i").strip("_")
    kind = _KIND.get(call.word) or _KIND.get(word)
    products = product_flops(call)
    if kind in TENSOR_KINDS and not products:
        kind = None
    if kind is None and products:
        return "matmul"
    return kind or ("add" if word == "add" and producers >= 2 else "elementwise")


def kind_of_name(name: str) -> str:
    """Return the kind of an operator of which only the name is known."""
    word = name.rpartition("::")[2]
    return _KIND.get(word) or _KIND.get(word.strip("_")) or "elementwise"


def other_flops(call: Call, kind: str) -> int:
    """Return the FLOPs of an operator that multiplies no matrices."""
    if kind in ("copy", "concat", "embedding", "dropout" if not call.calls else ""):
        return 0
    return max((tensor.elements for tensor in (*call.reads, *call.returns)), default=0)


def product_flops(call: Call) -> int:
    """Return the FLOPs of the matrix products and convolutions of a call, from the calls inside it where they exist."""
    return sum(product_flops(inner) for inner in call.calls) or _own_flops(call)


def summed_length(call: Call) -> int:
    """Return the length of the sums in the last product of a call; 0 without one."""
    for inner in reversed(call.calls):
        if length := summed_length(inner):
            return length
    if not _own_flops(call):
        return 0
    shapes = [tensor.shape for tensor in call.reads]
    return shapes[1][-1] if call.word in ("addmm", "baddbmm", "addmv") else shapes[0][-1]


def _own_flops(call: Call) -> int:
    word, shapes = call.word, [tensor.shape for tensor in call.reads]
    try:
        if word.endswith("convolution_backward"):
            # gradient of the output, input, weight; the mask says which gradients are wanted
            mask = next((value for value in reversed(call.values) if isinstance(value, list)), [True, True, True])
            transposed = any(value is True for value in call.values)
            outer = shapes[1] if transposed else shapes[0]
            return 2 * math.prod(outer) * math.prod(shapes[2][1:]) * sum(bool(needed) for needed in mask[:2])
        if word.endswith("convolution") or word in ("conv1d", "conv2d", "conv3d"):
            # Those of libraries (cudnn_convolution) have other flags, and a name of their own when transposed.
            flags = call.values if word in ("convolution", "_convolution") else ()
            transposed = next((value for value in flags if isinstance(value, bool)), False)
            outer = shapes[0] if transposed else call.returns[0].shape
            return 2 * math.prod(outer) * math.prod(shapes[1][1:])
        if word.startswith("_scaled_dot_product") and word.endswith("_backward"):
            return 2 * _attention(shapes[1], shapes[2], shapes[3])
        if word.startswith("_scaled_dot_product"):
            return _attention(*shapes[:3])
        if word in ("mm", "bmm"):
            return 2 * math.prod(shapes[0]) * shapes[1][-1]
        if word in ("addmm", "baddbmm"):
            return 2 * math.prod(shapes[1]) * shapes[2][-1]
        if word in ("mv", "dot", "addmv"):
            return 2 * math.prod(shapes[0 if word != "addmv" else 1])
        if word in ("linear", "matmul", "mkldnn_linear"):
            return 2 * math.prod(call.returns[0].shape) * shapes[0][-1]
    except IndexError:
        return 0
    return 0


def _attention(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> int:
    return 2 * math.prod(q[:-1]) * k[-2] * (q[-1] + v[-1])
