"""The fastest strategy of a space: bound all, then simulate in the order of the bounds until none can win any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lightloom.core.errors import UnsupportedError
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.bounds import admitted, bounds, fits, memory
from lightloom.planner.stage_times import Job
from lightloom.planner.strategy_step import simulate
from lightloom.simulation.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A strategy that was simulated."""

    strategy: Strategy
    bound: float
    """Seconds of a step that the bound allows."""
    timeline: Timeline

    @property
    def step_time(self) -> float:
        """Seconds."""
        return self.timeline.step_time

    @property
    def sample_time(self) -> float:
        """Seconds of a step for each of its samples: what strategies of different batches are ranked by."""
        return self.step_time / self.strategy.global_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedSearch:
    """What a search found."""

    ranking: tuple[Simulated, ...]
    """Those that were simulated, fastest first."""
    rows: int
    refused: int
    """Rows whose collectives their groups cannot have."""
    too_large: int
    """Rows that do not fit the memory."""
    bounded: int
    """Rows whose step time was bounded."""

    @property
    def winner(self) -> Simulated:
        """The fastest strategy."""
        return self.ranking[0]


def bounded_search(
    job: Job, strategies: Strategies, *, prune: bool = True, advance: Callable[[], None] = lambda: None
) -> BoundedSearch:
    """Find the strategy with the shortest step for each sample; ``advance`` is called before each simulation.

    Without ``prune`` every row that fits is simulated.

    Raises:
        UnsupportedError: there is no row, none can be had, or none fits the memory (says how much would be
            enough for one).
    """
    if not len(strategies):
        raise UnsupportedError("no strategy: no global batch divides evenly among replicas and micro-batches")
    allowed = admitted(job, strategies)
    if not allowed.any():
        raise UnsupportedError(f"none of the {len(strategies)} strategies has an algorithm that serves its groups")
    possible = strategies.rows(allowed)
    fitting = fits(job, possible)
    if not fitting.any():
        least = memory(job, possible).min()
        raise UnsupportedError(
            f"accelerator {job.accelerator.name!r}: memory is {job.accelerator.memory:.4g} bytes, "
            f"but the smallest strategy needs {least:.4g}"
        )
    rows = possible.rows(fitting)
    found = bounds(job, rows)
    per_sample = found / rows.global_batch
    simulated: list[Simulated] = []
    best = np.inf
    for row in np.argsort(per_sample, kind="stable").tolist():
        if prune and per_sample[row] >= best:
            break
        advance()
        strategy = rows[row]
        each = Simulated(strategy=strategy, bound=float(found[row]), timeline=simulate(job, strategy))
        simulated.append(each)
        best = min(best, each.sample_time)
    return BoundedSearch(
        ranking=tuple(sorted(simulated, key=lambda each: each.sample_time)),
        rows=len(strategies),
        refused=len(strategies) - len(possible),
        too_large=len(possible) - len(rows),
        bounded=len(rows),
    )
