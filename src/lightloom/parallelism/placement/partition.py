"""Operators become sub-operators of about one quantum: the balanced graph that placement works on.

    [ conv1 ]──►[ conv2 ]        [c1.0][c1.1][c1.2][c1.3]
                            ──►     │ ╲  │ ╲  │ ╲  │          an edge carries bytes forward,
                                 [c2.0][c2.1][c2.2][c2.3]     its gradient the same bytes back

Inputs of the model are not placed: every device reads its share from its own host. Source: SiP-ML (Khani et al.,
SIGCOMM 2021), section 3.2 (i).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import ConfigError
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
    split_size,
)
from lightloom.workloads.graph import TENSOR_KINDS, ComputeGraph, Operator


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
    gradient_bytes: int = 4
    """Bytes of one gradient element when copies of a parameter add theirs up."""
    splits: Mapping[str, tuple[Split, ...]] = field(default_factory=lambda: SPLITS)
    """Dimensions by kind, in the order that decides ties."""


class _Choice(NamedTuple):
    split: Split | None
    parts: int


def partition(
    graph: ComputeGraph, durations: Floats, k: int, quantum: float, rules: PartitionRules | None = None
) -> BalancedGraph:
    """Split every operator into min(k, ⌊t / quantum⌋) parts, at least one, or as many as its dimensions allow.

    Of the splits with the most parts the one that exchanges least is taken, its producers being split already: bytes
    of inputs that come from elsewhere, partial sums sent on, gradients of copied parameters, all in both directions.

    Args:
        graph: one group's batch.
        durations: seconds [operators, 2] of the forward and the backward pass; t is the forward one.
        k: devices of a group.
        quantum: seconds below which splitting further does not make an operator faster; 0 for parts as many as devices.
        rules: tables and options.

    Raises:
        ConfigError: a number is out of range, or durations do not fit the graph.
    """
    return Partitions(graph, durations, rules)(k, quantum)


class Partitions:
    """:func:`partition` of one graph for many (k, quantum), which often ask for the same parts.

    Args:
        graph, durations, rules: as there.
    """

    def __init__(self, graph: ComputeGraph, durations: Floats, rules: PartitionRules | None = None) -> None:
        self.graph, self.rules = graph, rules or PartitionRules()
        self.durations = np.asarray(durations, dtype=np.float64)
        if self.durations.shape != (len(graph.operators), 2) or not np.all(self.durations >= 0):
            raise ConfigError(
                f"durations of shape {self.durations.shape}: expected seconds of at least 0 "
                f"of shape ({len(graph.operators)}, 2) for {graph.name!r}"
            )
        self._balanced: dict[tuple[int, ...], BalancedGraph] = {}
        self._exchanges: dict[tuple[Layout, Need, int], tuple[Transfers, float]] = {}

    def __call__(self, k: int, quantum: float) -> BalancedGraph:
        """Return the balanced graph; equal numbers of parts give the same object."""
        if k < 1 or not quantum >= 0:
            raise ConfigError(f"k = {k} and quantum = {quantum}: expected at least 1 device and at least 0 s")
        wishes = tuple(
            1 if operator.kind == "input" else self._wish(float(seconds), k, quantum)
            for operator, seconds in zip(self.graph.operators, self.durations[:, 0], strict=True)
        )
        if wishes not in self._balanced:
            self._balanced[wishes] = self._split(wishes)
        return self._balanced[wishes]

    def _wish(self, seconds: float, k: int, quantum: float) -> int:
        parts = max(1, k if quantum * k <= seconds else int(seconds / quantum))
        return _rounded(parts, self.rules)

    def _split(self, wishes: tuple[int, ...]) -> BalancedGraph:
        chosen: dict[str, _Choice] = {}
        operators = [operator for operator in self.graph.operators if operator.kind != "input"]
        by_name = {operator.name: operator for operator in operators}
        wish = {operator.name: n for operator, n in zip(self.graph.operators, wishes, strict=True)}
        for operator in operators:
            chosen[operator.name] = self._choose(operator, wish[operator.name], chosen, by_name)
        return self._columns(operators, chosen, by_name)

    def _choose(
        self, operator: Operator, wish: int, chosen: Mapping[str, _Choice], by_name: Mapping[str, Operator]
    ) -> _Choice:
        if self.rules.follow and operator.kind not in TENSOR_KINDS:
            most = max((chosen[source].parts for source in operator.inputs if source in chosen), default=1)
            for split in self.rules.splits[operator.kind]:
                if split_size(operator, split) >= most and self._cost(operator, split, most, chosen, by_name) == 0:
                    return _Choice(split, most)
        best, least = _Choice(None, 1), (-1, 0.0)
        for split in self.rules.splits[operator.kind]:
            parts = min(wish, split_size(operator, split))
            limit = self.rules.most_exchanging
            if limit is not None and ("whole" in split.inputs or "group" in split.inputs or split.partial):
                parts = min(parts, limit)
            parts = _rounded(parts, self.rules)
            if parts < 2 or -parts > least[0]:
                continue
            cost = (-parts, self._cost(operator, split, parts, chosen, by_name))
            if cost < least:
                best, least = _Choice(split, parts), cost
        return best

    def _cost(
        self,
        operator: Operator,
        split: Split,
        parts: int,
        chosen: Mapping[str, _Choice],
        by_name: Mapping[str, Operator],
    ) -> float:
        choice = _Choice(split, parts)
        cost = 0.0
        for position, source in enumerate(operator.inputs):
            if source in chosen:
                _, fraction = self._exchange(operator, position, choice, by_name[source], chosen[source])
                cost += 2 * by_name[source].activation_bytes * fraction
        if split.partial:
            cost += 2.0 * (parts - 1) * operator.activation_bytes
        if split.copied:
            cost += 2.0 * (parts - 1) * operator.parameters * self.rules.gradient_bytes
        return cost

    def _exchange(
        self, operator: Operator, position: int, choice: _Choice, source: Operator, produced: _Choice
    ) -> tuple[Transfers, float]:
        consumed = need(operator, *choice, position)
        key = (layout(source, *produced), consumed, axis_size(source, consumed.axis))
        if key not in self._exchanges:
            sent = exchange(*key)
            self._exchanges[key] = (sent, exchanged_fraction(key[0], key[1], sent))
        return self._exchanges[key]

    def _columns(
        self, operators: list[Operator], chosen: Mapping[str, _Choice], by_name: Mapping[str, Operator]
    ) -> BalancedGraph:
        parts = np.array([chosen[operator.name].parts for operator in operators], dtype=np.int64)
        first = np.concatenate(([0], np.cumsum(parts)))
        place = {operator.name: index for index, operator in enumerate(operators)}
        shares = [_shares(operator, chosen[operator.name]) for operator in operators]
        seconds = dict(zip((o.name for o in self.graph.operators), self.durations, strict=True))
        edges = [
            (sent, first[place[source]], first[place[operator.name]], by_name[source].activation_bytes)
            for operator in operators
            for position, source in enumerate(operator.inputs)
            if source in chosen
            for sent, _ in [self._exchange(operator, position, chosen[operator.name], by_name[source], chosen[source])]
        ]
        parent_start, parent, nbytes, content = _edges(edges, int(first[-1]))
        states = [self._state(o, chosen[o.name], s) for o, s in zip(operators, shares, strict=True)]
        return BalancedGraph(
            name=self.graph.name,
            operators=tuple(place),
            dimensions=tuple(s.dimension if (s := chosen[name].split) is not None else "" for name in place),
            first=first,
            operator=np.repeat(np.arange(len(operators), dtype=np.int32), parts),
            part=np.concatenate([np.arange(n, dtype=np.int32) for n in parts] or [np.empty(0, np.int32)]),
            forward=_joined([seconds[o.name][0] * s for o, s in zip(operators, shares, strict=True)]),
            backward=_joined([seconds[o.name][1] * s for o, s in zip(operators, shares, strict=True)]),
            parameters=np.concatenate(
                [np.diff(bounds(o.parameters, chosen[o.name].parts)) for o in operators] or [np.empty(0, np.int64)]
            ),
            memory=_joined([memory for memory, _ in states]),
            synchronised=_joined([gradients for _, gradients in states]),
            parent_start=parent_start,
            parent=parent,
            nbytes=nbytes,
            content=content,
            gradient_bytes=self.rules.gradient_bytes,
        )

    def _state(self, operator: Operator, choice: _Choice, share: Floats) -> tuple[Floats, Floats]:
        split, parts = choice
        copied = split is not None and split.copied
        held = np.full(parts, operator.parameters) if copied else np.diff(bounds(operator.parameters, parts))
        whole_output = split is not None and split.partial
        kept = operator.kept_bytes + operator.recomputed_bytes
        output = kept * (np.ones(parts) if whole_output else share)
        gradients = np.full(parts, float(operator.parameters * self.rules.gradient_bytes if copied else 0))
        gradients[0] = 0.0
        state = held * float(self.rules.state_bytes)
        if self.rules.shared_state_bytes is not None:
            of_copy, of_owned = self.rules.shared_state_bytes
            state = np.minimum(state, held * of_copy + np.diff(bounds(operator.parameters, parts)) * of_owned)
        return state + output, gradients


def _rounded(parts: int, rules: PartitionRules) -> int:
    return 1 << (parts.bit_length() - 1) if rules.power_of_two and parts > 1 else parts


def _shares(operator: Operator, choice: _Choice) -> Floats:
    if choice.split is None:
        return np.ones(1)
    size = operator.dimensions[choice.split.dimension]
    shares: Floats = np.diff(bounds(size, choice.parts)) / size
    return shares


def _joined(columns: list[Floats]) -> Floats:
    return np.concatenate(columns) if columns else np.empty(0)


def _edges(blocks: list[tuple[Transfers, int, int, int]], size: int) -> tuple[Ints, NDArray[np.int32], Floats, Ints]:
    """Edge columns sorted by consumer; an operator that reads one tensor twice has it sent once."""
    source = np.concatenate([np.empty(0, np.int64), *(sent.source + a for sent, a, _, _ in blocks)])
    destination = np.concatenate([np.empty(0, np.int64), *(sent.destination + b for sent, _, b, _ in blocks)])
    nbytes = np.concatenate([np.empty(0), *(sent.fraction * full for sent, _, _, full in blocks)])
    content = np.concatenate([np.empty(0, np.int64), *(sent.content for sent, *_ in blocks)])
    order = np.lexsort((source, destination))
    source, destination, nbytes, content = source[order], destination[order], nbytes[order], content[order]
    repeated = np.zeros(len(source), np.bool_)
    repeated[1:] = (np.diff(source) == 0) & (np.diff(destination) == 0) & (np.diff(content) == 0)
    fresh = ~repeated
    start = np.searchsorted(destination[fresh], np.arange(size + 1))
    return start.astype(np.int64), source[fresh].astype(np.int32), nbytes[fresh], content[fresh]
