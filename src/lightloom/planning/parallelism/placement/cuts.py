"""Cuts of a graph's operators, with the bytes that parts exchange and hold, and their seconds, as a balanced graph.

Operators that differ in nothing but their names (the same layer of every block) are one *sort*: what a cut of one gives
is computed once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from lightloom.collectives.schedule.columns import grouped
from lightloom.core.arrays import Column, Floats, Int32s, Ints, Mask
from lightloom.core.caches import cached_method
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.planning.parallelism.operators import logits_of, loss_bytes
from lightloom.planning.parallelism.placement.placement import BalancedGraph, crossing_edges
from lightloom.planning.parallelism.plan import in_blocks, numbered_block

# Recomputation in placed plans: each device repeats its own passes of a block before their backward passes.
#
# kept       outputs that leave a block, and what a device received from others
# dropped    everything else of a block, until the block's backward pass
#
# What other devices sent is kept where it arrived, so that nothing is sent again and every device repeats passes on
# its own.


def kept_graph(graph: ComputeGraph) -> ComputeGraph:
    """Return the graph as fully recomputed: operators of blocks (numbered modules such as ``layers.3``, outside of
    checkpointed regions) keep for the backward pass their output where it leaves their block, else nothing; the others
    keep what they did."""
    leaving, operators = _leaving(graph), list(graph.operators)
    for place in np.flatnonzero(in_blocks(graph)).tolist():
        saved = operators[place].activation_bytes if leaving[place] else 0
        operators[place] = replace(operators[place], saved_bytes=saved, saved_shared_bytes=0, saved_index_bytes=0)
    return replace(graph, operators=tuple(operators))


def repeated_memory(graph: ComputeGraph, balanced: BalancedGraph, device: Int32s, k: int) -> Floats:
    """Return the bytes [k] that recomputation makes each of ``k`` devices hold besides what :func:`kept_graph` counts.

    While the backward pass of a block (a numbered module such as ``layers.3``) runs, a device holds again what the
    operators of the block keep that it computes, each part of an operator an equal share; the block counts of which the
    device holds most. To that come the outputs, of all blocks together, that it received from devices which drop their
    own copies.

    Args:
        graph: one group's batch, as traced, not the kept graph.
        balanced: the same operators in parts.
        device: device of each sub-operator: [sub-operators].
        k: number of devices.
    """
    position = {operator.name: index for index, operator in enumerate(graph.operators)}
    operator = np.array([position[name] for name in balanced.operators], np.int64)[balanced.operator]
    repeated, leaving = in_blocks(graph), _leaving(graph)
    parts = np.diff(balanced.first)[balanced.operator]
    saved = np.array([each.kept_bytes for each in graph.operators], np.float64)[operator] / parts
    block = np.unique([numbered_block(each.block) for each in graph.operators], return_inverse=True)[1][operator]
    held = np.zeros((int(block.max(initial=0)) + 1, k))
    chosen = repeated[operator]
    np.add.at(held, (block[chosen], device[chosen]), saved[chosen])
    largest: Floats = held.max(axis=0)
    return largest + _received(balanced, device, (repeated & ~leaving)[operator], k)


def _received(balanced: BalancedGraph, device: Int32s, dropped: Mask, k: int) -> Floats:
    """Return the bytes, by receiving device [k], of the outputs of ``dropped`` sub-operators (a mask [sub-operators])
    that come from other devices; elements that several readers on a device share count once."""
    edge, target = crossing_edges(balanced, device, k)
    kept = dropped[balanced.parent[edge]]
    return np.bincount(target[kept], balanced.nbytes[edge[kept]], k).astype(np.float64)


def _leaving(graph: ComputeGraph) -> Mask:
    """Return a mask of the operators whose output is read by at least one operator of another numbered block:
    [operators]; all operators outside of numbered blocks count as one more block."""
    block = {operator.name: numbered_block(operator.block) for operator in graph.operators}
    readers = graph.consumers()
    return np.array([any(block[reader] != block[name] for reader in readers[name]) for name in block], np.bool_)


# The dimensions along which an operator may be split, and what its parts then need from its producers.
#
# dimension          inputs          parameters   output
# sample, sequence   own slice       copied       own slice       copies exchange gradients with their neighbours
# height, width      slice and halo  copied       own slice
# channel, head      whole, or own   split        own slice       whole where every output reads every input
# in_channel         own slice       split        partial sums    whoever reads the output adds them
#
# The table is data; :func:`exchange` turns one row of it into what each part of a producer sends to each part of a
# consumer. Slices are counted in whole elements along one axis of the tensor between the two. Source: SiP-ML (Khani
# et al., SIGCOMM 2021), section 3.2 (i), which names height, width, channel and sample and leaves the table open.

InputNeed = Literal["own", "halo", "whole", "group"]
"""``own``: the slice of the same place; ``halo``: that and what the kernel reaches beyond; ``group``: own where the
parts divide the groups of a convolution, whole elsewhere."""


class Split(NamedTuple):
    """One way to split a kind of operator."""

    dimension: str
    """Name of the dimension in ``Operator.dimensions``."""
    inputs: tuple[InputNeed, ...]
    """Share of each input that the parts read; the last entry stands for all that follow."""
    copied: bool
    """True when every part holds all parameters, whose gradients must then be summed; otherwise it holds its share."""
    partial: bool = False
    """True when parts hold summands of the whole output rather than slices of it."""


def _same(*dimensions: str, copied: bool = True) -> tuple[Split, ...]:
    """Return a split along each dimension whose parts read their own slice of every input; with ``copied``, every part
    holds all parameters, else its share."""
    return tuple(Split(dimension, ("own",), copied) for dimension in dimensions)


_SPACE = ("height", "width", "depth", "length")
_HALO = tuple(Split(dimension, ("halo",), True) for dimension in _SPACE)
_SUMMED = Split("in_channel", ("own",), False, True)
_WIDE = (Split("channel", ("whole",), False), _SUMMED)
_ANY = ("sample", "channel", "head", "sequence", *_SPACE)

SPLITS: Mapping[str, tuple[Split, ...]] = MappingProxyType(
    {
        "input": (),
        "conv": (*_same("sample"), *_HALO, Split("channel", ("group",), False), _SUMMED),
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
    """Region of one input that the parts of a consumer read."""

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
    """Return the axis of the tensor that a dimension cuts: ``channel`` for heads and input channels, else the dimension
    itself."""
    return {"head": "channel", "in_channel": "channel"}.get(dimension, dimension)


def axis_size(operator: Operator, axis: str) -> int:
    """Return the elements of an operator's output along an axis, a channel axis without a stated size being heads times
    their size; 1 where the output has no such axis."""
    sizes = operator.dimensions
    if axis == "channel" and "channel" not in sizes:
        return sizes.get("head", 1) * sizes.get("head_dim", 1)
    return sizes.get(axis, 1)


def bounds(size: int, parts: int, unit: int = 1) -> Ints:
    """Return the edges, from 0, of ``parts`` slices of ``size`` elements, as equal as whole units of ``unit`` elements
    allow: [parts + 1]; edge i lies after i · units // parts units. Elements beyond the last whole unit are in no
    slice."""
    return np.arange(parts + 1, dtype=np.int64) * (size // unit) // parts * unit


def split_size(operator: Operator, split: Split) -> int:
    """Return the most parts that a split allows, which is the operator's size along its dimension; 0 where the operator
    has no such dimension, or for input channels of a grouped convolution."""
    if split.dimension == "in_channel" and operator.dimensions.get("groups", 1) > 1:
        return 0
    return operator.dimensions.get(split.dimension, 0)


def layout(operator: Operator, split: Split | None, parts: int) -> Layout:
    """Return how an operator's output lies over its parts under a split into ``parts``; as a whole in one part without
    a split, and as a summand in every part for a partial split. The layout says the axis that is cut ("" for one part
    and for summands), the parts, the elements along the axis, how many of them stay together, and whether parts are
    summands."""
    if split is None or parts == 1:
        return Layout("", 1, 1, 1, False)
    if split.partial:
        return Layout("", parts, 1, 1, True)
    axis = axis_of(split.dimension)
    unit = operator.dimensions.get("head_dim", 1) if split.dimension == "head" else 1
    return Layout(axis, parts, operator.dimensions[split.dimension] * unit, unit, False)


def need(operator: Operator, split: Split | None, parts: int, position: int) -> Need:
    """Return what each of the ``parts`` of a split reads of the operator's input number ``position`` (from 0 on); all
    of it without a split or with one part. The need says whether they read "own" slices (those of the same place),
    "halo" (their slice and what the kernel reaches beyond) or "whole", the axis, the parts, the elements of the
    dimension that is split, how many of them stay together, and the kernel's size along it (1 without a halo)."""
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

    Sizes leave the stride and padding of a convolution open to a few values: the region covers all of them, cut off at
    the ends of the input.

    Args:
        consumed: what the parts read, "own" slices or "halo", with the size of the reader's output along the axis.
        size: elements of the input along the axis.
    """
    edges = bounds(consumed.size, consumed.parts, consumed.unit)
    low, high = edges[:-1], edges[1:]
    first, last = low * size // consumed.size, -(-high * size // consumed.size)
    if consumed.reads == "halo":
        # Strides that give an output of this size with a padding from 0 to the kernel's size, of both ends together;
        # what the last step leaves over can hide up to one less than the stride.
        least = max(1, (size - consumed.kernel) // consumed.size + 1)
        fitting = range(least, size // max(consumed.size - 1, 1) + 1)
        strides = [(s, (consumed.size - 1) * s + consumed.kernel - size) for s in fitting]
        if strides:
            first = np.minimum.reduce([low * s - (max(p, 0) + s) // 2 for s, p in strides])
            last = np.maximum.reduce([(high - 1) * s + consumed.kernel - max(p, 0) // 2 for s, p in strides])
        else:  # transposed or dilated
            first, last = first - consumed.kernel, last + consumed.kernel
    return np.clip(first, 0, size), np.clip(last, 0, size)


def exchange(produced: Layout, consumed: Need, size: int) -> Transfers:
    """Return the fractions of a whole tensor that each producer part sends to each consumer part, one row (source part,
    destination part, fraction, content) for each pair that has any in common, those that may share a device included. A
    part that holds summands of the output, not a slice of it, sends all that is read. Rows of one source and equal
    content carry the same elements.

    Args:
        produced: layout of the tensor over the producer's parts.
        consumed: the region that the consumer's parts read.
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
    held = np.diff(bounds(produced.size, produced.parts, produced.unit)) / produced.size
    held = np.ones(produced.parts) if produced.partial else held
    return Transfers(source, destination, held[source] * ((high - low) / size)[destination], content[destination])


_AXES = {axis: index + 1 for index, axis in enumerate(("sample", "channel", "sequence", *_SPACE))}


def _overlaps(edges: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
    """Return three columns, each [pairs], of the slices and regions that have elements in common: number of the slice,
    number of the region, and number of common elements, in order of the regions.

    Args:
        edges: where slices begin, and the end of the last one: [slices + 1].
        low: first element of each region: [regions].
        high: the one after its last element: [regions].
    """
    first = np.searchsorted(edges[1:], low, "right")
    destination, place = grouped(np.maximum(np.searchsorted(edges[:-1], high, "left") - first, 0))
    source = first[destination] + place
    elements = np.minimum(edges[1:][source], high[destination]) - np.maximum(edges[:-1][source], low[destination])
    return source, destination, elements


def exchanged_fraction(produced: Layout, consumed: Need, sent: Transfers) -> float:
    """Return the bytes that leave their device when equal parts of producer and consumer share one (of different
    numbers of parts, each part of the fewer with a run of the others), as a multiple of the tensor's bytes; it may
    exceed 1, as what several readers receive counts for each.

    ``sent`` is the :func:`exchange` of both.
    """
    # Parts of the finer side lie in contiguous blocks beside a part of the coarser side.
    if produced.parts <= consumed.parts:
        stride = sent.destination * produced.parts // consumed.parts != sent.source
    else:
        stride = sent.source * consumed.parts // produced.parts != sent.destination
    return float(sent.fraction[stride].sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRules:
    """How operators are split, and what a parameter costs."""

    most_exchanging: int | None = None
    """Most parts of an operator whose parts each read all of its input: more than fit within reach of one another
    cannot compute at once (``Reach.clique``). None for no limit but k."""
    state_bytes: int = 16
    """Bytes held for one parameter: itself, its gradient and the optimizer's state (Adam in float32)."""
    shared_state_bytes: tuple[float, float] | None = None
    """Where copies share out the optimizer's state: bytes held for each copy of a parameter, and those for each
    parameter that is owned; ``state_bytes`` where that is less. None where every copy has all of it."""
    loss: bool = False
    """Count what the cross entropy of a model that was traced without its loss holds at its worst moment."""
    gradient_bytes: int = 4
    """Bytes of one gradient element when copies of a parameter add theirs up."""


PartSeconds = Callable[[int, Split, int], Floats]
"""Seconds [parts, 2] of the parts of an operator of the graph, by its place, cut along a dimension into so many."""


class Cut(NamedTuple):
    """How one operator is cut."""

    split: Split | None
    """Along which dimension; None for an operator in one part."""
    parts: int


class _CutOperator(NamedTuple):
    """Columns [parts] of the parts of one operator."""

    share: Floats
    """Share of the part in the elements along the dimension that is cut."""
    parameters: Ints
    """Elements that are the part's own."""
    memory: Floats
    """Bytes that the part holds on its device."""
    synchronised: Floats
    """Bytes of gradients exchanged with the part before it."""


class Cuts:
    """Cuts of the operators of one graph, which are counted without the model's inputs.

    Args:
        graph: one group's batch.
        durations: seconds [operators of the graph, 2] of the forward and the backward pass.
        rules: what a parameter costs.
        part_seconds: of the parts of an operator; without it, a part takes its share of the operator's duration.
    """

    def __init__(
        self, graph: ComputeGraph, durations: Floats, rules: PartitionRules, part_seconds: PartSeconds | None = None
    ) -> None:
        placed = [index for index, operator in enumerate(graph.operators) if operator.kind != "input"]
        self._placed, self._part_seconds = placed, part_seconds
        self.name, self.rules = graph.name, rules
        self.operators: tuple[Operator, ...] = tuple(graph.operators[index] for index in placed)
        self.durations: Floats = durations[placed]
        """Seconds of each operator forward and backward: [operators, 2]."""
        number = {operator.name: index for index, operator in enumerate(self.operators)}
        self.producers = [tuple(number.get(name, -1) for name in operator.inputs) for operator in self.operators]
        """By operator: the operators that it reads, in the order of its inputs; −1 for an input of the model."""
        logits = logits_of(self.operators) if rules.loss else None
        self.loss_bytes = [loss_bytes(graph) if operator is logits else 0.0 for operator in self.operators]
        """By operator: bytes that the loss of its outputs holds."""
        known: dict[object, int] = {}
        keys = zip(map(_sort_key, self.operators), self.loss_bytes, strict=True)
        self.sort = [known.setdefault(key, len(known)) for key in keys]
        """By operator: the number of its sort."""
        self._of_sorts: dict[tuple[int, Cut, int, Cut, int], tuple[Transfers, float]] = {}

    def exchange(
        self, source: int, produced: Cut, reader: int, consumed: Cut, position: int
    ) -> tuple[Transfers, float]:
        """Return what the parts of a producer send to those of a reader, and the multiple of the output's bytes that
        leaves its device (:func:`exchanged_fraction`); cached for all operators of equal sorts.

        Args:
            source: number of the producer, counted without the model's inputs.
            produced: cut of the producer.
            reader: number of the reader.
            consumed: cut of the reader.
            position: number of the reader's input that the producer makes, from 0 on.
        """
        key = self.sort[source], produced, self.sort[reader], consumed, position
        if key not in self._of_sorts:
            wanted = need(self.operators[reader], *consumed, position)
            producer = self.operators[source]
            self._of_sorts[key] = self._exchange(layout(producer, *produced), wanted, axis_size(producer, wanted.axis))
        return self._of_sorts[key]

    @cached_method()
    def _exchange(self, produced: Layout, consumed: Need, size: int) -> tuple[Transfers, float]:
        """Return the :func:`exchange` of a layout and a need, and its :func:`exchanged_fraction`, cached; ``size`` is
        the elements of the tensor along the axis that is read."""
        sent = exchange(produced, consumed, size)
        return sent, exchanged_fraction(produced, consumed, sent)

    def exchanged_bytes(self, number: int, cut: Cut, cuts: Sequence[Cut]) -> float:
        """Return the bytes that a cut of operator ``number`` makes its parts exchange, the sum of inputs that come from
        other devices (equal parts of producer and reader sharing one; inputs of the model are not counted) and as many
        bytes of their gradients, 2 (parts - 1) times the output where parts hold partial sums, and 2 (parts - 1) times
        the gradients of parameters that every part holds.

        ``cuts`` are those of all operators before it; operators are numbered without the model's inputs.
        """
        operator, nbytes = self.operators[number], 0.0
        for position, source in enumerate(self.producers[number]):
            if source >= 0:
                _, fraction = self.exchange(source, cuts[source], number, cut, position)
                nbytes += 2 * self.operators[source].activation_bytes * fraction
        if cut.split is not None and cut.split.partial:
            nbytes += 2.0 * (cut.parts - 1) * operator.activation_bytes
        if cut.split is not None and cut.split.copied:
            nbytes += 2.0 * (cut.parts - 1) * operator.parameters * self.rules.gradient_bytes
        return nbytes

    @cached_method()
    def balanced(self, cuts: tuple[Cut, ...]) -> BalancedGraph:
        """Return the balanced graph of all parts, given the cut of every operator but the model's inputs, in order;
        equal cuts give the same cached object. Operators stay in their order, their parts side by side, each with its
        seconds, own parameters, bytes held, gradients exchanged with the part before, and the edges from parts that it
        reads with their bytes; ``dimensions`` has "" for operators in one part."""
        parts = np.array([cut.parts for cut in cuts], dtype=np.int64)
        first = np.concatenate(([0], np.cumsum(parts)))
        edges = [
            (self.exchange(source, cuts[source], reader, cut, position)[0], source, reader)
            for reader, cut in enumerate(cuts)
            for position, source in enumerate(self.producers[reader])
            if source >= 0
        ]
        parent_start, parent, nbytes, content = self._edges(edges, first)
        columns = [self._parts_of(sort, cut) for sort, cut in zip(self.sort, cuts, strict=True)]
        seconds = np.concatenate([self._seconds(number, cut) for number, cut in enumerate(cuts)] or [np.empty((0, 2))])
        return BalancedGraph(
            name=self.name,
            operators=tuple(operator.name for operator in self.operators),
            dimensions=tuple("" if cut.split is None else cut.split.dimension for cut in cuts),
            first=first,
            operator=np.repeat(np.arange(len(parts), dtype=np.int32), parts),
            part=(np.arange(first[-1]) - np.repeat(first[:-1], parts)).astype(np.int32),
            forward=np.ascontiguousarray(seconds[:, 0]),
            backward=np.ascontiguousarray(seconds[:, 1]),
            parameters=_joined([column.parameters for column in columns], np.int64),
            memory=_joined([column.memory for column in columns]),
            synchronised=_joined([column.synchronised for column in columns]),
            parent_start=parent_start,
            parent=parent,
            nbytes=nbytes,
            content=content,
            gradient_bytes=self.rules.gradient_bytes,
        )

    @cached_method()
    def _parts_of(self, sort: int, cut: Cut) -> _CutOperator:
        """Return the columns of the parts of any one operator of a sort (operators that differ in nothing but names,
        inputs and FLOPs, by number) under a cut: share of the elements, own parameters, bytes held, and bytes of
        gradients exchanged with the part before (0 for the first part and without copies); cached by sort and cut."""
        first = self.sort.index(sort)
        return _cut_operator(self.operators[first], cut, self.rules, self.loss_bytes[first])

    @cached_method()
    def _seconds(self, number: int, cut: Cut) -> Floats:
        """Return the seconds of the parts of operator ``number`` in the forward and in the backward pass, [parts, 2],
        cached: by the parts' own shapes where ``part_seconds`` was given and the operator is cut, else each part's
        share of the operator's seconds."""
        if cut.split is not None and cut.parts > 1 and self._part_seconds is not None:
            return self._part_seconds(self._placed[number], cut.split, cut.parts)
        shares: Floats = self._parts_of(self.sort[number], cut).share[:, None] * self.durations[number]
        return shares

    def _edges(self, blocks: list[tuple[Transfers, int, int]], first: Ints) -> tuple[Ints, Int32s, Floats, Ints]:
        """Return the edge columns of a balanced graph, sorted by reader and then by producer: ``parent_start``
        [parts + 1], and ``parent``, ``nbytes`` and ``content``, each [edges]. An operator that reads the same elements
        of one part twice has them sent once.

        Args:
            blocks: what one operator's parts send to another one's, and the numbers of the producer and the reader.
            first: first part of each operator, and the number of parts: [operators + 1].
        """
        length = [len(sent.source) for sent, _, _ in blocks]
        producer, reader = (np.array([block[side] for block in blocks], np.int64) for side in (1, 2))
        full = np.array([self.operators[source].activation_bytes for _, source, _ in blocks], np.float64)
        source = _joined([sent.source for sent, _, _ in blocks], np.int64) + np.repeat(first[producer], length)
        destination = _joined([sent.destination for sent, _, _ in blocks], np.int64) + np.repeat(first[reader], length)
        nbytes = _joined([sent.fraction for sent, _, _ in blocks]) * np.repeat(full, length)
        content = _joined([sent.content for sent, _, _ in blocks], np.int64)
        order = np.lexsort((source, destination))
        source, destination, nbytes, content = source[order], destination[order], nbytes[order], content[order]
        fresh = np.logical_or.reduce([np.diff(each, prepend=-1) != 0 for each in (source, destination, content)])
        start = np.searchsorted(destination[fresh], np.arange(int(first[-1]) + 1))
        return start.astype(np.int64), source[fresh].astype(np.int32), nbytes[fresh], content[fresh]


def _sort_key(operator: Operator) -> object:
    """Return a hashable key of everything of an operator that decides what its cuts give, which leaves out its name,
    inputs and FLOPs: operators of equal keys are one sort."""
    nbytes = operator.activation_bytes, operator.kept_bytes, operator.recomputed_bytes
    return operator.kind, tuple(sorted(operator.dimensions.items())), operator.parameters, nbytes


def _cut_operator(operator: Operator, cut: Cut, rules: PartitionRules, loss: float) -> _CutOperator:
    """Return the columns [parts] of an operator's parts under a cut: share of the elements along the dimension, own
    parameters (an equal part of the operator's, also where each holds a copy of all), bytes held (parameters with
    gradients and optimizer state, and the output with what is recomputed), and bytes of gradients exchanged with the
    part before, those of all parameters where parts hold copies, 0 for the first part and elsewhere. Where the rules
    share state among copies, a part holds the smaller of whole and shared state. A part of a partial split holds the
    whole output, any other its share; ``loss`` is the bytes that the loss of the outputs holds, shared out likewise to
    all."""
    split, parts = cut
    own: Ints = np.diff(bounds(operator.parameters, parts))
    share: Floats = np.ones(1)
    if split is not None:
        size = operator.dimensions[split.dimension]
        share = np.diff(bounds(size, parts)) / size
    copied = split is not None and split.copied
    held = np.full(parts, operator.parameters) if copied else own
    summands = split is not None and split.partial
    output = (operator.kept_bytes + operator.recomputed_bytes) * (np.ones(parts) if summands else share)
    gradients = np.full(parts, float(operator.parameters * rules.gradient_bytes if copied else 0))
    gradients[0] = 0.0
    state = held * float(rules.state_bytes)
    if rules.shared_state_bytes is not None:
        of_copy, of_owned = rules.shared_state_bytes
        state = np.minimum(state, held * of_copy + own * of_owned)
    return _CutOperator(share, own, state + output + loss * share, gradients)


def _joined(columns: Sequence[Column], dtype: type = np.float64) -> Column:
    """Return the columns concatenated in their order; without any, an empty one of ``dtype``."""
    return np.concatenate(columns) if columns else np.empty(0, dtype)
