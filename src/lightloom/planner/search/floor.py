"""The least first bound of all strategies on a cluster, found by bounding few of them.

No strategy is faster than where its exchanges take no time. That floor is the same on all clusters whose nodes have as
many ranks, so it is found once for all of them; on each only the strategies of the least floors are bounded, until no
other floor lies below a bound that was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.effort import Effort
from lightloom.parallelism.strategy_space import Strategies
from lightloom.planner.bounds.strategies import admitted, bounds, memory
from lightloom.planner.pricing.job import Job
from lightloom.planner.search.rows import ClusterRows

_AT_ONCE: Effort = 64
"""Strategies that are bounded together at first; then twice as many."""


@dataclass(frozen=True)
class Floor:
    """Strategies that fit the memory, least floors first."""

    strategies: Strategies
    per_sample: Floats
    """Seconds of a step for each sample where exchanges take no time: [strategies]."""

    @classmethod
    def of(cls, free: ClusterRows, batches: tuple[int, ...]) -> Floor:
        """Return the floors of these global batches; ``free`` is a cluster whose exchanges take no time."""
        space = free.strategies(batches)
        space = space.rows(memory(free.job, space) <= free.capacity)
        floor, known = np.zeros(len(space)), np.flatnonzero(admitted(free.job, space))
        rows = space.rows(known)
        floor[known] = bounds(free.job, rows, proved=True) / rows.global_batch
        # What this fabric does not serve another one may.
        floor[~np.isfinite(floor)] = 0.0
        order = np.argsort(floor, kind="stable")
        return cls(space.rows(order), floor[order])

    def least(self, job: Job) -> float:
        """Return the least first bound of a job on a fabric with such nodes, in seconds a sample; infinite where its
        fabric serves none of the strategies."""
        least, begin, count = inf, 0, _AT_ONCE
        while begin < len(self.per_sample) and self.per_sample[begin] < least:
            rows = self.strategies.rows(np.arange(begin, min(begin + count, len(self.per_sample))))
            rows = rows.rows(admitted(job, rows))
            if len(rows):
                least = min(least, float((bounds(job, rows, proved=True) / rows.global_batch).min()))
            begin, count = begin + count, 2 * count
        return least
