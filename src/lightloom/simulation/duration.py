"""The duration of a step of data parallelism alone, without its tasks: as the timeline of ``simulation.lower`` ends.

    compute   ───────────────────[wait]──────────────────[wait]── update
    network        [exchange 0]    ↑    [exchange 1] ...

Computing runs from wait to wait, and slower beside exchanges, so that only these are gone through one by one.
Collectives keep no circuits and have no codec here.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.parallelism.plan import ParallelPlan
from lightloom.simulation.contention import SlowedComputing


def step_duration(
    plan: ParallelPlan, computing: Floats, exchanging: Floats, *, overlap: bool, arithmetic_share: float = 0.0
) -> float:
    """Return the seconds of a step.

    Args:
        plan: positions and exchanges.
        computing: seconds of all positions: forward passes, backward passes, the update: [positions].
        exchanging: seconds of each exchange of the plan: [exchanges].
        overlap: whether exchanges run while computing.
        arithmetic_share: part of the arithmetic that exchanges take meanwhile.
    """
    if not overlap:
        return float(computing.sum() + exchanging.sum())
    clock = _Clock(np.concatenate(([0.0], np.cumsum(computing))), arithmetic_share)
    network, issued = 0.0, -1
    for exchange, seconds in zip(plan.exchanges, exchanging.tolist(), strict=True):
        # Exchanges are issued in their order, none before its data exists.
        issued = max(issued, exchange.starts_after)
        begin = max(network, clock.done(issued) if exchange.starts_after >= 0 else 0.0)
        network = begin + seconds
        clock.exchange(begin, network, exchange.needed_by)
    return max(clock.done(len(computing) - 1), network)


class _Clock:
    """When positions are computed, each after the exchanges that it waits for."""

    def __init__(self, before: Floats, arithmetic_share: float) -> None:
        self._before: list[float] = before.tolist()
        """Seconds of computing before each position."""
        self._computing = SlowedComputing(arithmetic_share)
        self._awaited: list[tuple[int, float]] = []
        """A heap of positions, and of the ends of exchanges that they wait for."""
        self._position, self._now = 0, 0.0
        """The first position that is not computed yet, and the end of those before it."""

    def exchange(self, begin: float, end: float, needed_by: int) -> None:
        """Add an exchange, after all that have been added before."""
        self._computing.exchange(begin, end)
        heappush(self._awaited, (needed_by, end))

    def done(self, position: int) -> float:
        """Return when a position is computed; exchanges are added in the order in which they are issued."""
        while self._awaited and self._awaited[0][0] <= position:
            needed_by, ended = heappop(self._awaited)
            self._compute(needed_by)
            self._now = max(self._now, ended)
        self._compute(position + 1)
        return self._now

    def _compute(self, position: int) -> None:
        """Compute all positions before this one."""
        if position > self._position:
            seconds = self._before[position] - self._before[self._position]
            self._position, self._now = position, self._computing.end(self._now, seconds)
