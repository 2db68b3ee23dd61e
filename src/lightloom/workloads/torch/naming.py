"""From a traced call to an operator's kind and named dimensions.

Legend: B sample, C channel, K in_channel (summed over), T sequence, H head, D head_dim.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from lightloom.workloads.graph import TENSOR_KINDS
from lightloom.workloads.torch.flops import MOVES

_FUNCTIONS = {
    "conv": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "linear": "linear bilinear",
    "matmul": "matmul mm bmm addmm baddbmm einsum mv addmv dot tensordot inner chain_matmul",
    "attention": "attention",
    "recurrent": "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell",
    "batch_norm": "batch_norm native_batch_norm",
    "norm": "layer_norm native_layer_norm group_norm instance_norm rms_norm normalize",
    "lrn": "lrn",
    "pool": "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d "
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
    "adaptive_max_pool3d",
    "activation": "relu relu6 gelu silu mish elu selu celu leaky_relu prelu rrelu tanh sigmoid hardswish "
    "hardtanh hardsigmoid softplus softsign logsigmoid glu threshold tanhshrink",
    "topk": "topk",
    "softmax": "softmax log_softmax softmin gumbel_softmax",
    "dropout": "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout feature_dropout",
    "embedding": "embedding embedding_bag",
    "concat": "cat concat concatenate stack hstack vstack dstack",
    "loss": "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy "
    "binary_cross_entropy_with_logits ctc_loss cosine_embedding_loss triplet_margin_loss margin_ranking_loss",
    "reduce": "sum mean amax amin max min prod var std var_mean norm vector_norm logsumexp argmax argmin any all",
}
_KIND = {name: kind for kind, names in _FUNCTIONS.items() for name in names.split()}
_LABELS = {
    "scaled_dot_product_attention": "attention",
    "getitem": "index",
    "setitem": "assign",
    "local_response_norm": "lrn",
}
_SPATIAL = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}


def label(function: object) -> str:
    """A readable word for a torch function or ATen call: ``relu_`` and ``__iadd__`` become ``relu`` and ``add``."""
    name = str(getattr(function, "__name__", None) or function).split(".")[0]
    if name.startswith("__") and name.endswith("__"):
        name = name.strip("_")
        name = name[1:] if name[1:] in ("add", "sub", "mul", "truediv", "matmul") else name
    name = name.strip("_")
    return _LABELS.get(name, name)


def kind_of(word: str, products: Sequence[str], calls: Sequence[str], summands: int, stacked: bool = False) -> str:
    """Return the kind of one call.

    Args:
        word: the call's :func:`label`.
        products: names of the matrix products and convolutions that it made.
        calls: names of all ATen calls that it made.
        summands: how many results of earlier operators it read.
        stacked: whether it read a parameter that stacks matrices.
    """
    if (word == "bmm" and stacked) or any("grouped_mm" in name for name in products):
        return "experts"
    if any(name.startswith("_scaled_mm") for name in products):
        return "linear"
    kind = _KIND.get(word)
    if kind is None and products:
        kind = "conv" if "convolution" in products else "matmul"
    if kind in TENSOR_KINDS and not products:
        kind = None  # a product so degenerate that PyTorch multiplies element by element
    if kind is not None and (kind in TENSOR_KINDS or not products):
        return kind
    if products:
        return "matmul"
    if word == "add" and summands >= 2:
        return "add"
    return "copy" if all(call in MOVES for call in calls) else "elementwise"


def is_dropout(word: str) -> bool:
    """Whether a call of that label is dropout of any form."""
    return _KIND.get(word) == "dropout"


def is_channel_statistic(word: str, output: Tensor) -> bool:
    """Whether an ATen call in a function of that label returns statistics of a batch normalisation: [channel]."""
    return _KIND.get(word) == "batch_norm" and output.dim() == 1


def output_dimensions(
    shape: Sequence[int], batch: int | None, axes: Sequence[str] | None
) -> tuple[dict[str, int], tuple[str, ...] | None]:
    """Name the axes of an output.

    Args:
        shape: its sizes.
        batch: the batch if the output depends on the samples.
        axes: names that the operator's input had, kept if they fit.

    Returns:
        Named sizes, and the names in axis order (none when no order is meant, as in flattened tokens).
    """
    names: tuple[str, ...]
    if batch is None:
        names = tuple(f"axis_{i}" for i in range(len(shape)))
        return _named(names, shape), None
    if axes is not None and len(axes) == len(shape) and shape[axes.index("sample")] == batch:
        return _named(axes, shape), tuple(axes)
    rank = len(shape)
    if rank == 3 and shape[0] != batch and shape[1] == batch:  # (T, B, C), as recurrent code likes it
        names = ("sequence", "sample", "channel")
        return _named(names, shape), names
    if batch in shape:
        at = list(shape).index(batch)
        named = {1: ("sample",), 2: ("sample", "channel"), 3: ("sample", "sequence", "channel")}
        neutral = tuple("sample" if axis == at else f"axis_{axis}" for axis in range(rank))
        names = named[rank] if at == 0 and rank in named else neutral
        return _named(names, shape), names
    return _flattened(shape, batch), None


def _flattened(shape: Sequence[int], batch: int) -> dict[str, int]:
    """Samples merged with another axis, (B·T, C), or gone, as in a mean loss."""
    sizes = {"sample": batch}
    if len(shape) >= 1 and shape[0] and shape[0] % batch == 0:
        sizes |= _named(("sequence", "channel") if len(shape) == 2 else ("sequence",), (shape[0] // batch, *shape[1:]))
        shape = shape[2:] if len(shape) == 2 else shape[1:]
    return sizes | _named([f"axis_{i}" for i in range(1, len(shape) + 1)], shape)


def _named(names: Sequence[str], shape: Sequence[int]) -> dict[str, int]:
    """Return the sizes by name; an axis of size zero is left out, since nothing can be split along it."""
    return {name: int(size) for name, size in zip(names, shape, strict=False) if size > 0}


def input_axes(tensor: Tensor) -> tuple[str, ...] | None:
    """Return the axes of an input: images are floats of rank 4 and up, tokens are integers (B, T)."""
    if tensor.is_floating_point():
        return image_axes(tensor.dim()) if tensor.dim() >= 4 else None
    return ("sample", "sequence") if tensor.dim() == 2 else None


def image_axes(rank: int) -> tuple[str, ...] | None:
    """(B, C, ...) as convolution and pooling lay it out; none for an unbatched or exotic rank."""
    spatial = _SPATIAL.get(rank - 2)
    return ("sample", "channel", *spatial) if spatial else None


def linear_dimensions(
    shape: Sequence[int], batch: int | None, summed: int
) -> tuple[dict[str, int], tuple[str, ...] | None]:
    """Name the axes of a linear layer's output, of which the last is the channels; weights number C·K."""
    sizes, axes = output_dimensions(shape, batch, None)
    if "channel" not in sizes:
        sizes.pop(f"axis_{len(shape) - 1}", None)
        sizes["channel"] = int(shape[-1])
        axes = None if axes is None or len(axes) < 2 else (*axes[:-1], "channel")
    return {**sizes, "in_channel": summed}, axes


def experts_dimensions(shape: Sequence[int], batch: int | None, experts: int, summed: int) -> dict[str, int]:
    """Name the axes (experts, visits, channels), or (visits of all experts, channels); the sequence is what one sample
    sends to each expert."""
    visits, channels = int(shape[-2]), int(shape[-1])
    if len(shape) == 2:
        visits //= experts
    sizes = {"expert": experts, "sequence": max(visits // (batch or 1), 1), "channel": channels, "in_channel": summed}
    return ({} if batch is None else {"sample": batch}) | sizes


def convolution_dimensions(w: Tensor, transposed: bool, groups: int) -> dict[str, int]:
    """Return what a convolution adds to the axes of its output; weights number C·K/groups·Πkernel."""
    kernel = {f"kernel_{name}": int(size) for name, size in zip(_SPATIAL[w.dim() - 2], w.shape[2:], strict=True)}
    in_channel = w.shape[0] if transposed else w.shape[1] * groups
    return {"in_channel": int(in_channel), **kernel, "groups": int(groups)}


class AttentionCall(NamedTuple):
    """Arguments of ``scaled_dot_product_attention``."""

    query: Tensor
    key: Tensor
    mask: Tensor | None
    causal: bool


def attention_call(arguments: Sequence[Any], named: Mapping[str, Any]) -> AttentionCall:
    """Return the arguments of ``scaled_dot_product_attention``, given by place or by name."""
    order = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = {**dict(zip(order, arguments, strict=False)), **named}
    return AttentionCall(given["query"], given["key"], given.get("attn_mask"), bool(given.get("is_causal", False)))


def attention_dimensions(q: Tensor, k: Tensor, batch: int | None) -> dict[str, int]:
    """q (B, H, T, D), k (B, key H, key T, D); leading axes other than B count as heads."""
    samples = batch or 1
    heads = max(1, math.prod(q.shape[:-2]) // samples)
    sizes = {"head": heads, "sequence": q.shape[-2], "key_sequence": k.shape[-2], "head_dim": q.shape[-1]}
    if q.dim() > 2 and k.dim() > 2 and k.shape[-3] < q.shape[-3]:
        sizes["key_head"] = k.shape[-3]
    return ({} if batch is None else {"sample": batch}) | {name: int(size) for name, size in sizes.items()}
