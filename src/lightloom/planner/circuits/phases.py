"""The phases of a step in which different groups exchange, and their seconds on the planes that each group has.

gather      parameters before the first pass          data
passes      all but the last backward pass            tensor, expert, context, pipeline (data: shards)
last        the last backward pass                    the same, and gradients beside it
gradients   those that the last pass does not hide    data
closing     gradients of a tensor group's tokens      tensor
tied        gradients of tied tables                  pipeline
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from lightloom.core.arrays import Floats, Mask
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.circuits.margins import margins, ties_stages
from lightloom.planner.pricing.division import live_axes
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.planes import PlanePrices, Planes
from lightloom.planner.pricing.stage_exchanges import Axis
from lightloom.planner.pricing.stage_times import stage_exchanges
from lightloom.planner.pricing.strategy_step import exact_stage_times, exchange_seconds
from lightloom.simulation.pipelined import StageTimes

Phase = Literal["gather", "passes", "last", "gradients", "closing", "tied"]
PHASES: tuple[Phase, ...] = get_args(Phase)
"""In their order in a step."""
REPLICAS: tuple[Axis, ...] = ("data", "expert-data")
"""Axes of gradients and parameters."""


class PhasedTimes:
    """Seconds of one strategy's step for every way to share out the planes of a switch."""

    def __init__(self, job: Job, strategy: Strategy, prices: PlanePrices) -> None:
        self.job, self.strategy, self.prices = job, strategy, prices
        self.axes: tuple[Axis, ...] = tuple(axis.name for axis in live_axes(strategy))
        """Along which the strategy exchanges anything."""
        self._times: dict[tuple[tuple[Axis, int], ...], tuple[StageTimes, StageTimes]] = {}

    def times(self, division: Planes) -> tuple[StageTimes, StageTimes]:
        """Return the times of a micro-batch and of the last one, which may be smaller."""
        key = tuple(division.items())
        if key not in self._times:
            job, strategy = self._shared(division), self.strategy
            times = last = exact_stage_times(job, strategy)
            if strategy.last_samples != strategy.samples:
                batch = strategy.dp * strategy.last_samples
                last = exact_stage_times(job, strategy._replace(micro_batch=0, micro_batches=1, global_batch=batch))
            self._times[key] = times, last
        return self._times[key]

    def gradients(self, division: Planes, by_unit: Mask) -> Floats:
        """Return the seconds of the exchange of gradients after the last pass: [chunks], of the first unit only where
        the others go before (``by_unit``, [chunks])."""
        job, rows = self._shared(division), Strategies.of(self.strategy)
        exchange_time = exchange_seconds(job, self.strategy.algorithm)
        replicas = stage_exchanges(job, rows, exchange_time, by_unit=by_unit[None]).replicas
        assert replicas.unit_exchange is not None
        late: Floats = np.where(by_unit, replicas.unit_exchange.first[0], replicas.exchange[0])
        return late

    def _shared(self, division: Planes) -> Job:
        return replace(self.job, shares=self.prices.shared(self.strategy, division))

    @cached_property
    def least(self) -> Planes:
        """Planes that each axis needs at least: a pipeline one each way."""
        return {axis.name: axis.unit(self.prices.fabric) for axis in live_axes(self.strategy)}

    @cached_property
    def fastest(self) -> StageTimes:
        """The times if every axis had all planes."""
        return self.times(dict.fromkeys(self.axes, self.prices.planes))[0]

    def active(self, *, beside: bool) -> dict[Phase, tuple[Axis, ...]]:
        """Return the axes that exchange in each phase; ``beside``: gradients leave beside the last backward pass."""
        times, replicas = self.fastest, tuple(axis for axis in self.axes if axis in REPLICAS)
        sharded = bool((times.forward_gather + times.backward_gather).any())
        within = tuple(axis for axis in self.axes if axis not in REPLICAS)
        passes = within + (replicas if sharded else ())
        exchanged = bool((times.early_exchange + times.late_exchange).any())
        after = bool(times.exchange.any())
        closing: tuple[Axis, ...] = ("tensor",) if self.strategy.sequence_parallel and after else ()
        if after and not self.job.settings.overlap_gradients:
            closing += replicas
        active: dict[Phase, tuple[Axis, ...]] = {
            "gather": replicas if times.gather.any() else (),
            "passes": passes,
            "last": tuple(dict.fromkeys((*passes, *(replicas if beside and exchanged else ())))),
            "gradients": replicas if exchanged else (),
            "closing": closing,
            "tied": ("pipeline",) if ties_stages(self.job, Strategies.of(self.strategy)) else (),
        }
        return active

    @cached_property
    def margins(self) -> tuple[Floats, Floats]:
        """Seconds of computing of each stage before the first exchange of its first pass and after the last of its last
        one: [stages]; none where shards are gathered and gradients scattered within passes."""
        times = self.fastest
        if (times.forward_gather + times.backward_gather).any():
            return np.zeros_like(times.gather), np.zeros_like(times.gather)
        return margins(self.job, Strategies.of(self.strategy))


def after_the_passes(times: StageTimes, late: Floats) -> StageTimes:
    """Return times whose gradients are all exchanged after the last pass, in ``late`` seconds: [chunks]."""
    none = np.zeros_like(late)
    return replace(times, early_exchange=none, lead=none, late_exchange=late)
