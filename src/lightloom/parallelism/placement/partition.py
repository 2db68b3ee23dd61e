"""Operators become sub-operators of about one quantum: the balanced graph that placement works on.

    [ conv1 ]──►[ conv2 ]        [c1.0][c1.1][c1.2][c1.3]
                            ──►     │ ╲  │ ╲  │ ╲  │          an edge carries bytes forward,
                                 [c2.0][c2.1][c2.2][c2.3]     its gradient the same bytes back

Inputs of the model are not placed: every device reads its share from its own host. Source: SiP-ML (Khani et al.,
SIGCOMM 2021), section 3.2 (i).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError
from lightloom.parallelism.placement.balanced import BalancedGraph
from lightloom.parallelism.placement.cuts import Cut, Cuts, PartitionRules, PartSeconds
from lightloom.parallelism.placement.splits import Split, split_size
from lightloom.workloads.graph import TENSOR_KINDS, ComputeGraph


def partition(
    graph: ComputeGraph, durations: Floats, k: int, quantum: float, rules: PartitionRules | None = None
) -> BalancedGraph:
    """Split every operator into min(k, ⌊t / quantum⌋) parts, at least one, or as many as its dimensions allow.

    Of the splits with the most parts the one that exchanges least is taken, its producers being split already: bytes
    of inputs that come from elsewhere, partial sums sent on, gradients of copied parameters, all in both directions.
    A part takes its share of the operator's duration.

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
        part_seconds: seconds of parts by their own shapes; without it, a part takes its share of its operator's
            duration, as in SiP-ML.
    """

    def __init__(
        self,
        graph: ComputeGraph,
        durations: Floats,
        rules: PartitionRules | None = None,
        part_seconds: PartSeconds | None = None,
    ) -> None:
        self.graph, self.rules = graph, rules or PartitionRules()
        seconds = np.asarray(durations, dtype=np.float64)
        if seconds.shape != (len(graph.operators), 2) or not np.all(seconds >= 0):
            raise ConfigError(
                f"durations of shape {seconds.shape}: expected seconds of at least 0 "
                f"of shape ({len(graph.operators)}, 2) for {graph.name!r}"
            )
        self._cuts = Cuts(graph, seconds, self.rules, part_seconds)
        self._forward: list[float] = self._cuts.durations[:, 0].tolist()
        self._balanced: dict[tuple[Cut, ...], BalancedGraph] = {}
        self._chosen: dict[object, Cut] = {}
        """By all that decides: the sort of an operator, the wish, the limit, sorts and cuts of its producers."""

    def __call__(self, k: int, quantum: float, most_exchanging: int | None = None) -> BalancedGraph:
        """Return the balanced graph; equal parts give the same object.

        Args:
            k: devices of a group.
            quantum: seconds; as :func:`partition`.
            most_exchanging: takes the place of that of the rules.
        """
        if k < 1 or not quantum >= 0:
            raise ConfigError(f"k = {k} and quantum = {quantum}: expected at least 1 device and at least 0 s")
        cuts = self._choose_all(k, quantum, self.rules.most_exchanging if most_exchanging is None else most_exchanging)
        if cuts not in self._balanced:
            self._balanced[cuts] = self._cuts.balanced(cuts)
        return self._balanced[cuts]

    def _choose_all(self, k: int, quantum: float, most_exchanging: int | None) -> tuple[Cut, ...]:
        """The cut of every operator, producers first."""
        sort, chosen = self._cuts.sort, list[Cut]()
        for number, (seconds, producers) in enumerate(zip(self._forward, self._cuts.producers, strict=True)):
            wish = self._rounded(max(1, k if quantum * k <= seconds else int(seconds / quantum)))
            read = tuple((sort[source], chosen[source]) if source >= 0 else None for source in producers)
            key = sort[number], wish, most_exchanging, read
            if key not in self._chosen:
                self._chosen[key] = self._choose(number, wish, most_exchanging, chosen)
            chosen.append(self._chosen[key])
        return tuple(chosen)

    def _choose(self, number: int, wish: int, most_exchanging: int | None, chosen: Sequence[Cut]) -> Cut:
        """Of the splits with the most parts, at most as many as wished for, the one that exchanges least."""
        operator, splits = self._cuts.operators[number], self.rules.splits
        if self.rules.follow and operator.kind not in TENSOR_KINDS:
            most = max((chosen[source].parts for source in self._cuts.producers[number] if source >= 0), default=1)
            for split in splits[operator.kind]:
                cut = Cut(split, most)
                if split_size(operator, split) >= most and self._cuts.exchanged_bytes(number, cut, chosen) == 0:
                    return cut
        best, least = Cut(None, 1), (-1, 0.0)
        for split in splits[operator.kind]:
            parts = min(wish, split_size(operator, split))
            if most_exchanging is not None and reads_everything(split):
                parts = min(parts, most_exchanging)
            parts = self._rounded(parts)
            if -parts > least[0]:
                continue
            cost = (-parts, self._cuts.exchanged_bytes(number, Cut(split, parts), chosen))
            if cost < least:
                best, least = Cut(split, parts), cost
        return best

    def _rounded(self, parts: int) -> int:
        return 1 << (parts.bit_length() - 1) if self.rules.power_of_two and parts > 1 else parts


def reads_everything(split: Split) -> bool:
    """Whether each part of an operator may read all of its input, or partial sums are added up."""
    return split.partial or "whole" in split.inputs or "group" in split.inputs
