"""From a traced call to an operator's word and named dimensions.

Legend: B sample, C channel, K in_channel (summed over), T sequence, H head, D head_dim.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from lightloom.workloads.operator_words import KIND_OF_WORD, plain_word

_LABELS = {
    "scaled_dot_product_attention": "attention",
    "getitem": "index",
    "setitem": "assign",
    "local_response_norm": "lrn",
}
_SPATIAL = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}


def label(function: object) -> str:
    """A readable word for a torch function or ATen call: ``relu_`` and ``__iadd__`` become ``relu`` and ``add``."""
    name = plain_word(str(getattr(function, "__name__", None) or function))
    return _LABELS.get(name, name)


def is_dropout(word: str) -> bool:
    """Whether a call of that label is dropout of any form."""
    return KIND_OF_WORD.get(word) == "dropout"


def is_channel_statistic(word: str, output: Tensor) -> bool:
    """Whether an ATen call in a function of that label returns statistics of a batch normalisation: [channel]."""
    return KIND_OF_WORD.get(word) == "batch_norm" and output.dim() == 1


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
