"""The dimensions along which an operator may be split, and what its parts then need from its producers.

    dimension          inputs          parameters   output
    sample, sequence   own slice       copied       own slice       copies exchange gradients with their neighbours
    height, width      slice and halo  copied       own slice
    channel, head      whole, or own   split        own slice       whole where every output reads every input
    in_channel         own slice       split        partial sums    whoever reads the output adds them

The table is data; :func:`exchange` turns one row of it into what each part of a producer sends to each part of a
consumer. Slices are counted in whole elements along one axis of the tensor between the two. Source: SiP-ML (Khani et
al., SIGCOMM 2021), section 3.2 (i), which names height, width, channel and sample and leaves the table open.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.workloads.graph import Operator

InputNeed = Literal["own", "halo", "whole", "group"]
"""``own``: the slice of the same place; ``halo``: that and what the kernel reaches beyond; ``group``: own where the
parts divide the groups of a convolution, whole elsewhere."""


class Split(NamedTuple):
    """One way to split a kind of operator."""

    dimension: str
    """Name of the dimension in ``Operator.dimensions``."""
    inputs: tuple[InputNeed, ...]
    """What the parts read of each input; the last one stands for all that follow."""
    copied: bool
    """Whether every part holds all parameters, whose gradients must then be summed; otherwise it holds its share."""
    partial: bool = False
    """Whether parts hold summands of the whole output rather than slices of it."""


def _same(*dimensions: str, copied: bool = True) -> tuple[Split, ...]:
    return tuple(Split(dimension, ("own",), copied) for dimension in dimensions)


_SPACE = ("height", "width", "depth", "length")
_HALO = tuple(Split(dimension, ("halo",), True) for dimension in _SPACE)
_WIDE = (Split("channel", ("whole",), False), Split("in_channel", ("own",), False, True))
_ANY = ("sample", "channel", "head", "sequence", *_SPACE)

SPLITS: Mapping[str, tuple[Split, ...]] = MappingProxyType(
    {
        "input": (),
        "conv": (
            *_same("sample"),
            *_HALO,
            Split("channel", ("group",), False),
            Split("in_channel", ("own",), False, True),
        ),
        "linear": (*_same("sample", "sequence"), *_WIDE),
        "experts": (*_same("sample"), *_WIDE),
        "matmul": _same("sample", "head"),
        "attention": (
            *_same("sample"),
            Split("head", ("own",), False),
            # A query position reads every key and value; a packed projection holds all three.
            Split("sequence", ("whole",), False),
        ),
        "recurrent": _same("sample"),
        "batch_norm": (*_same("channel", copied=False), *_same("sample", *_SPACE)),
        "norm": _same("sample", "sequence"),
        "lrn": _same("sample", *_SPACE),
        "pool": _same("sample", "channel"),
        "activation": _same(*_ANY),
        "softmax": _same("sample", "head", "sequence"),
        "topk": _same("sample", "sequence"),
        "dropout": _same(*_ANY),
        "embedding": (*_same("sample", "sequence"), Split("channel", ("whole",), False)),
        "add": _same(*_ANY),
        "concat": _same("sample", *_SPACE),
        "elementwise": _same(*_ANY),
        "reduce": _same("sample"),
        "copy": _same("sample", "channel", "sequence"),
        "loss": (),
    }
)
"""For every kind, its splits in the order that decides ties.

Batch norm split over samples or space keeps statistics of its own part, as data parallelism does. Pooling is not split
in space, nor anything along unnamed axes: a graph does not say how far they reach. A packed projection's columns are
taken to be ordered by head (as Megatron does), so that a slice of it holds query, key and value of its heads.
"""


class Layout(NamedTuple):
    """Layout of an output over the parts of the operator that computes it."""

    axis: str
    """Axis that is cut; empty for a single part."""
    parts: int
    size: int
    """Elements along the axis."""
    unit: int
    """Elements that stay together (a head)."""
    partial: bool


class Need(NamedTuple):
    """What the parts of a consumer read of one input."""

    reads: Literal["own", "halo", "whole"]
    axis: str
    parts: int
    size: int
    """Elements along the axis of the consumer's output."""
    unit: int
    kernel: int
    """Elements of the axis that one output reads; 1 without a halo."""


class Transfers(NamedTuple):
    """Fractions of a tensor sent from producer parts to consumer parts, one row for each pair that exchanges any."""

    source: Ints
    destination: Ints
    fraction: Floats
    content: Ints
    """Rows with one source and equal content carry the same elements."""


def axis_of(dimension: str) -> str:
    """Return the axis of the tensor that a dimension cuts: heads lie side by side along the channels."""
    return {"head": "channel", "in_channel": "channel"}.get(dimension, dimension)


def axis_size(operator: Operator, axis: str) -> int:
    """Return the elements of the output along an axis; 1 where it has no such axis."""
    sizes = operator.dimensions
    if axis == "channel" and "channel" not in sizes:
        return sizes.get("head", 1) * sizes.get("head_dim", 1)
    return sizes.get(axis, 1)


def bounds(size: int, parts: int, unit: int = 1) -> Ints:
    """Return the edges [parts + 1] of slices as equal as whole units allow."""
    edges: Ints = np.arange(parts + 1, dtype=np.int64) * (size // unit) // parts * unit
    return edges


def split_size(operator: Operator, split: Split) -> int:
    """Return the most parts that a split allows; 0 where it does not apply to the operator."""
    if split.dimension == "in_channel" and operator.dimensions.get("groups", 1) > 1:
        return 0
    return operator.dimensions.get(split.dimension, 0)


def layout(operator: Operator, split: Split | None, parts: int) -> Layout:
    """Return the layout of the output under a split."""
    if split is None or parts == 1:
        return Layout("", 1, 1, 1, False)
    if split.partial:
        return Layout("", parts, 1, 1, True)
    axis = axis_of(split.dimension)
    unit = operator.dimensions.get("head_dim", 1) if split.dimension == "head" else 1
    return Layout(axis, parts, operator.dimensions[split.dimension] * unit, unit, False)


def need(operator: Operator, split: Split | None, parts: int, position: int) -> Need:
    """Return what the parts of a split read of the input at a position."""
    if split is None or parts == 1:
        return Need("whole", "", parts, 1, 1, 1)
    reads = split.inputs[min(position, len(split.inputs) - 1)]
    if reads == "group":
        reads = "own" if operator.dimensions.get("groups", 1) % parts == 0 else "whole"
    unit = operator.dimensions.get("head_dim", 1) if split.dimension == "head" else 1
    kernel = operator.dimensions.get(f"kernel_{split.dimension}", 1) if reads == "halo" else 1
    return Need(reads, axis_of(split.dimension), parts, operator.dimensions[split.dimension] * unit, unit, kernel)


def region(consumed: Need, size: int) -> tuple[Ints, Ints]:
    """Return the first element along an input axis that each part reads, and the one after the last, each [parts].

    Sizes leave the stride and padding of a convolution open to a few values: the region covers all of them.
    """
    edges = bounds(consumed.size, consumed.parts, consumed.unit)
    low, high = edges[:-1], edges[1:]
    first, last = low * size // consumed.size, -(-high * size // consumed.size)
    if consumed.reads == "halo":
        strides = [(s, _padding(consumed, size, s)) for s in _strides(consumed, size)]
        if strides:
            first = np.minimum.reduce([low * s - (max(p, 0) + s) // 2 for s, p in strides])
            last = np.maximum.reduce([(high - 1) * s + consumed.kernel - max(p, 0) // 2 for s, p in strides])
        else:  # transposed or dilated
            first, last = first - consumed.kernel, last + consumed.kernel
    return np.clip(first, 0, size), np.clip(last, 0, size)


def _strides(consumed: Need, size: int) -> range:
    """Strides that give an output of this size with a padding from 0 to the kernel's size, both ends together."""
    least = (size - consumed.kernel) // consumed.size + 1
    return range(max(1, least), size // max(consumed.size - 1, 1) + 1)


def _padding(consumed: Need, size: int, stride: int) -> int:
    """Padding of both ends together; what the last step leaves over can hide up to ``stride`` − 1 more."""
    return (consumed.size - 1) * stride + consumed.kernel - size


def exchange(produced: Layout, consumed: Need, size: int) -> Transfers:
    """Return what each producer part sends to each consumer part.

    Args:
        produced: layout of the tensor.
        consumed: the region that is read.
        size: elements along ``consumed.axis``; 1 where the tensor has no such axis, so that all of it is read.
    """
    if consumed.reads == "whole" or size == 1:
        size, low, high = 1, np.zeros(consumed.parts, np.int64), np.ones(consumed.parts, np.int64)
    else:
        low, high = region(consumed, size)
    content = (_AXES.get(consumed.axis, 0) if size > 1 else 0) << 60 | low << 30 | high
    if produced.axis == consumed.axis and size > 1:
        source, destination, elements = _overlaps(bounds(produced.size, produced.parts, produced.unit), low, high)
        return Transfers(source, destination, elements / size, content[destination])
    destination, source = np.divmod(np.arange(consumed.parts * produced.parts), produced.parts)
    held = (
        np.ones(produced.parts)
        if produced.partial
        else np.diff(bounds(produced.size, produced.parts, produced.unit)) / produced.size
    )
    return Transfers(source, destination, held[source] * ((high - low) / size)[destination], content[destination])


_AXES = {axis: index + 1 for index, axis in enumerate(("sample", "channel", "sequence", *_SPACE))}


def _overlaps(edges: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
    first = np.searchsorted(edges[1:], low, "right")
    count = np.maximum(np.searchsorted(edges[:-1], high, "left") - first, 0)
    destination = np.repeat(np.arange(len(low)), count)
    source = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + first[destination]
    elements = np.minimum(edges[1:][source], high[destination]) - np.maximum(edges[:-1][source], low[destination])
    return source, destination, elements


def exchanged_fraction(produced: Layout, consumed: Need, sent: Transfers) -> float:
    """Return the share of a tensor that leaves its device when equal parts of producer and consumer share one."""
    # Parts of the finer side lie in contiguous blocks beside a part of the coarser side.
    if produced.parts <= consumed.parts:
        stride = sent.destination * produced.parts // consumed.parts != sent.source
    else:
        stride = sent.source * consumed.parts // produced.parts != sent.destination
    return float(sent.fraction[stride].sum())
