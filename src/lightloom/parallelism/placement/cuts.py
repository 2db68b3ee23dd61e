"""What cuts of a graph's operators exchange, hold and take, operator by operator and as columns of a balanced graph.

Operators that differ in nothing but their names (the same layer of every block) are one *sort*: what a cut of one gives
is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Floats, Ints
from lightloom.parallelism.loss import logits_of, loss_bytes
from lightloom.parallelism.placement.balanced import BalancedGraph
from lightloom.parallelism.placement.splits import (
    SPLITS,
    Layout,
    Need,
    Split,
    Transfers,
    axis_size,
    bounds,
    exchange,
    exchanged_fraction,
    layout,
    need,
)
from lightloom.workloads.graph import ComputeGraph, Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRules:
    """How operators are split, and what a parameter costs."""

    power_of_two: bool = True
    """Round the number of parts down to a power of two, as the authors' simulator does."""
    follow: bool = False
    """Operators that wait for memory keep the parts of the operator that they read, where nothing need then be
    exchanged, however short they are. The paper counts every operator against the quantum."""
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
    splits: Mapping[str, tuple[Split, ...]] = field(default_factory=lambda: SPLITS)
    """Dimensions by kind, in the order that decides ties."""


PartSeconds = Callable[[int, Split, int], Floats]
"""Seconds [parts, 2] of the parts of an operator of the graph, by its place, cut along a dimension into so many."""


class Cut(NamedTuple):
    """How one operator is cut."""

    split: Split | None
    """Along which dimension; None for an operator in one part."""
    parts: int


class _Parts(NamedTuple):
    """Columns [parts] of the parts of one operator."""

    share: Floats
    """Of the elements along the dimension that is cut."""
    parameters: Ints
    """Elements that are the part's own."""
    memory: Floats
    """Bytes."""
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
        """Seconds [operators, 2]."""
        number = {operator.name: index for index, operator in enumerate(self.operators)}
        self.producers = [tuple(number.get(name, -1) for name in operator.inputs) for operator in self.operators]
        """By operator: the operators that it reads, in the order of its inputs; −1 for an input of the model."""
        logits = logits_of(self.operators) if rules.loss else None
        self.loss_bytes = [loss_bytes(graph) if operator is logits else 0.0 for operator in self.operators]
        """By operator: bytes that the loss of its outputs holds."""
        known: dict[object, int] = {}
        self.sort = [
            known.setdefault((_content(operator), loss), len(known))
            for operator, loss in zip(self.operators, self.loss_bytes, strict=True)
        ]
        """By operator: the number of its sort."""
        self._of_sorts: dict[tuple[int, Cut, int, Cut, int], tuple[Transfers, float]] = {}
        self._exchanges: dict[tuple[Layout, Need, int], tuple[Transfers, float]] = {}
        self._parts: dict[tuple[int, Cut], _Parts] = {}

    def exchange(
        self, source: int, produced: Cut, reader: int, consumed: Cut, position: int
    ) -> tuple[Transfers, float]:
        """What parts of a producer send to parts of a reader, whose input at ``position`` it is, and the share of the
        output that leaves its device."""
        key = self.sort[source], produced, self.sort[reader], consumed, position
        if key not in self._of_sorts:
            wanted = need(self.operators[reader], *consumed, position)
            producer = self.operators[source]
            shapes = layout(producer, *produced), wanted, axis_size(producer, wanted.axis)
            if shapes not in self._exchanges:
                sent = exchange(*shapes)
                self._exchanges[shapes] = (sent, exchanged_fraction(shapes[0], wanted, sent))
            self._of_sorts[key] = self._exchanges[shapes]
        return self._of_sorts[key]

    def exchanged_bytes(self, number: int, cut: Cut, cuts: Sequence[Cut]) -> float:
        """Bytes that a cut of an operator makes its parts exchange, in both directions; the producers' are given."""
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

    def balanced(self, cuts: Sequence[Cut]) -> BalancedGraph:
        """The graph of all parts."""
        parts = np.array([cut.parts for cut in cuts], dtype=np.int64)
        first = np.concatenate(([0], np.cumsum(parts)))
        edges = [
            (self.exchange(source, cuts[source], reader, cut, position)[0], source, reader)
            for reader, cut in enumerate(cuts)
            for position, source in enumerate(self.producers[reader])
            if source >= 0
        ]
        parent_start, parent, nbytes, content = self._edges(edges, first)
        columns = [self._parts_of(number, cut) for number, cut in enumerate(cuts)]
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
            parameters=np.concatenate([column.parameters for column in columns] or [np.empty(0, np.int64)]),
            memory=_joined([column.memory for column in columns]),
            synchronised=_joined([column.synchronised for column in columns]),
            parent_start=parent_start,
            parent=parent,
            nbytes=nbytes,
            content=content,
            gradient_bytes=self.rules.gradient_bytes,
        )

    def _parts_of(self, number: int, cut: Cut) -> _Parts:
        key = self.sort[number], cut
        if key not in self._parts:
            self._parts[key] = _parts(self.operators[number], cut, self.rules, self.loss_bytes[number])
        return self._parts[key]

    def _seconds(self, number: int, cut: Cut) -> Floats:
        """Durations of the parts of an operator: [parts, 2]."""
        if cut.split is not None and cut.parts > 1 and self._part_seconds is not None:
            return self._part_seconds(self._placed[number], cut.split, cut.parts)
        shares: Floats = self._parts_of(number, cut).share[:, None] * self.durations[number]
        return shares

    def _edges(
        self, blocks: list[tuple[Transfers, int, int]], first: Ints
    ) -> tuple[Ints, NDArray[np.int32], Floats, Ints]:
        """Edge columns sorted by consumer; an operator that reads one tensor twice has it sent once.

        Args:
            blocks: what an operator sends to another one, and the numbers of both.
            first: [operators + 1] first part of each.
        """
        length = [len(sent.source) for sent, _, _ in blocks]
        producer, reader = (np.array([block[side] for block in blocks], np.int64) for side in (1, 2))
        full = np.array([self.operators[source].activation_bytes for _, source, _ in blocks], np.float64)
        source = _numbers([sent.source for sent, _, _ in blocks]) + np.repeat(first[producer], length)
        destination = _numbers([sent.destination for sent, _, _ in blocks]) + np.repeat(first[reader], length)
        nbytes = _joined([sent.fraction for sent, _, _ in blocks]) * np.repeat(full, length)
        content = _numbers([sent.content for sent, _, _ in blocks])
        order = np.lexsort((source, destination))
        source, destination, nbytes, content = source[order], destination[order], nbytes[order], content[order]
        repeated = np.zeros(len(source), np.bool_)
        repeated[1:] = (np.diff(source) == 0) & (np.diff(destination) == 0) & (np.diff(content) == 0)
        fresh = ~repeated
        start = np.searchsorted(destination[fresh], np.arange(int(first[-1]) + 1))
        return start.astype(np.int64), source[fresh].astype(np.int32), nbytes[fresh], content[fresh]


def _content(operator: Operator) -> object:
    """Everything of an operator that decides what its cuts give."""
    return (
        operator.kind,
        tuple(sorted(operator.dimensions.items())),
        operator.activation_bytes,
        operator.parameters,
        operator.kept_bytes,
        operator.recomputed_bytes,
    )


def _parts(operator: Operator, cut: Cut, rules: PartitionRules, loss: float) -> _Parts:
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
    return _Parts(share, own, state + output + loss * share, gradients)


def _joined(columns: list[Floats]) -> Floats:
    return np.concatenate(columns) if columns else np.empty(0)


def _numbers(columns: list[Ints]) -> Ints:
    return np.concatenate(columns) if columns else np.empty(0, np.int64)
