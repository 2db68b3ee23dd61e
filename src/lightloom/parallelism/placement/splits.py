"""Along which dimensions an operator may be split, and what its parts then need from its producers.

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
    """Its name in ``Operator.dimensions``."""
    inputs: tuple[InputNeed, ...]
    """Per input; the last one stands for all that follow."""
    copied: bool
    """Every part holds all parameters (and their gradients must be added up); otherwise its share."""
    partial: bool = False
    """Parts hold summands of the whole output rather than slices of it."""


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
    """How an output lies over the parts of the operator that made it."""

    axis: str
    """Axis that is cut; empty when there is one part."""
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


class Exchange(NamedTuple):
    """Fractions of a tensor that go from producer parts to consumer parts, one row per pair with any."""

    source: Ints
    destination: Ints
    fraction: Floats
    content: Ints
    """Rows with one source and equal content carry the same elements."""


def axis_of(dimension: str) -> str:
    """The axis of the tensor that a dimension cuts: heads lie side by side along the channels."""
    return {"head": "channel", "in_channel": "channel"}.get(dimension, dimension)


def axis_size(operator: Operator, axis: str) -> int:
    """Elements of the output along an axis; 1 where it has no such axis."""
    sizes = operator.dimensions
    if axis == "channel" and "channel" not in sizes:
        return sizes.get("head", 1) * sizes.get("head_dim", 1)
    return sizes.get(axis, 1)


def bounds(size: int, parts: int, unit: int = 1) -> Ints:
    """Edges [parts + 1] of slices as equal as whole units allow."""
    edges: Ints = np.arange(parts + 1, dtype=np.int64) * (size // unit) // parts * unit
    return edges


def split_size(operator: Operator, split: Split) -> int:
    """Most parts that the split allows; 0 where the operator cannot be split so."""
    if split.dimension == "in_channel" and operator.dimensions.get("groups", 1) > 1:
        return 0
    return operator.dimensions.get(split.dimension, 0)


def layout(operator: Operator, split: Split | None, parts: int) -> Layout:
    """What a split makes of the output."""
    if split is None or parts == 1:
        return Layout("", 1, 1, 1, False)
    if split.partial:
        return Layout("", parts, 1, 1, True)
    axis = axis_of(split.dimension)
    unit = operator.dimensions.get("head_dim", 1) if split.dimension == "head" else 1
    return Layout(axis, parts, operator.dimensions[split.dimension] * unit, unit, False)


def need(operator: Operator, split: Split | None, parts: int, position: int) -> Need:
    """What a split makes the parts read of the input at a position."""
    if split is None or parts == 1:
        return Need("whole", "", parts, 1, 1, 1)
    reads = split.inputs[min(position, len(split.inputs) - 1)]
    if reads == "group":
        reads = "own" if operator.dimensions.get("groups", 1) % parts == 0 else "whole"
    unit = operator.dimensions.get("head_dim", 1) if split.dimension == "head" else 1
    kernel = operator.dimensions.get(f"kernel_{split.dimension}", 1) if reads == "halo" else 1
    return Need(reads, axis_of(split.dimension), parts, operator.dimensions[split.dimension] * unit, unit, kernel)


def region(wanted: Need, size: int) -> tuple[Ints, Ints]:
    """First element [parts] along an input axis of ``size`` elements that each part reads, and the one after the last.

    Sizes leave the stride and padding of a convolution open to a few values: the region covers all of them.
    """
    edges = bounds(wanted.size, wanted.parts, wanted.unit)
    low, high = edges[:-1], edges[1:]
    first, last = low * size // wanted.size, -(-high * size // wanted.size)
    if wanted.reads == "halo":
        strides = [(s, p) for s in _strides(wanted, size) if -s < (p := _padding(wanted, size, s)) <= wanted.kernel]
        if strides:
            first = np.minimum.reduce([low * s - (max(p, 0) + s) // 2 for s, p in strides])
            last = np.maximum.reduce([(high - 1) * s + wanted.kernel - max(p, 0) // 2 for s, p in strides])
        else:  # transposed or dilated
            first, last = first - wanted.kernel, last + wanted.kernel
    return np.clip(first, 0, size), np.clip(last, 0, size)


def _strides(wanted: Need, size: int) -> range:
    around = round(size / wanted.size)
    return range(max(1, around - 1), around + 2)


def _padding(wanted: Need, size: int, stride: int) -> int:
    """Padding of both ends together; what the last step leaves over can hide up to ``stride`` − 1 more."""
    return (wanted.size - 1) * stride + wanted.kernel - size


def exchange(made: Layout, wanted: Need, size: int) -> Exchange:
    """What each producer part sends to each consumer part.

    Args:
        made: how the tensor lies.
        wanted: what is read of it.
        size: its elements along ``wanted.axis``; 1 where it has no such axis, so that all of it is read.
    """
    if wanted.reads == "whole" or size == 1:
        size, low, high = 1, np.zeros(wanted.parts, np.int64), np.ones(wanted.parts, np.int64)
    else:
        low, high = region(wanted, size)
    content = (_AXES.get(wanted.axis, 0) if size > 1 else 0) << 60 | low << 30 | high
    if made.axis == wanted.axis and size > 1:
        source, destination, elements = _overlaps(bounds(made.size, made.parts, made.unit), low, high)
        return Exchange(source, destination, elements / size, content[destination])
    destination, source = np.divmod(np.arange(wanted.parts * made.parts), made.parts)
    held = np.ones(made.parts) if made.partial else np.diff(bounds(made.size, made.parts, made.unit)) / made.size
    return Exchange(source, destination, held[source] * ((high - low) / size)[destination], content[destination])


_AXES = {axis: index + 1 for index, axis in enumerate(("sample", "channel", "sequence", *_SPACE))}


def _overlaps(edges: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
    first = np.searchsorted(edges[1:], low, "right")
    count = np.maximum(np.searchsorted(edges[:-1], high, "left") - first, 0)
    destination = np.repeat(np.arange(len(low)), count)
    source = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + first[destination]
    elements = np.minimum(edges[1:][source], high[destination]) - np.maximum(edges[:-1][source], low[destination])
    return source, destination, elements


def exchanged_fraction(made: Layout, wanted: Need, sent: Exchange) -> float:
    """Tensors' worth of data that leaves its device when equal places of producer and consumer share one."""
    # Parts of the finer side lie in contiguous blocks beside a part of the coarser side.
    if made.parts <= wanted.parts:
        stride = sent.destination * made.parts // wanted.parts != sent.source
    else:
        stride = sent.source * wanted.parts // made.parts != sent.destination
    return float(sent.fraction[stride].sum())
