"""Intervals of plans: how far their predicted times may be off, and which plans that does not tell apart.

A derivative for each parameter, by pricing the plan again with the parameter a little smaller; the computing of a
placed plan moves as the sum of its operators does. Parameters of links are those of the fabric's collective library:
exchanges that other schedules carry stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from lightloom.clusters.base import Cluster
from lightloom.core.arrays import Floats
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.pricing.belief import Belief, belief_of, half_widths, told_apart
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.library import LibraryPricing
from lightloom.planner.pricing.placed_space import PlacedChoice, PlacedRows
from lightloom.planner.pricing.strategy_step import strategy_seconds

_STEP = -1e-3
"""Change of a parameter's logarithm for numerical derivatives: downwards, as fractions may be 1."""


class Predicted(Protocol):
    """What an interval needs to know of a plan."""

    @property
    def job(self) -> Job:
        """Where and at which prices it was simulated."""

    @property
    def cluster(self) -> Cluster:
        """Cluster it runs on; parameters of one cluster move all its plans alike."""

    @property
    def choice(self) -> Strategy | PlacedChoice:
        """Strategy, or placement, whose step time the interval is of."""

    @property
    def verified(self) -> bool:
        """False where a collective library carries exchanges."""

    @property
    def step_time(self) -> float:
        """Seconds of a step."""

    @property
    def sample_time(self) -> float:
        """Seconds of a step for each of its samples."""

    @property
    def breakdown(self) -> Mapping[str, float]:
        """Seconds of the step by what it waits for."""


class Interval(NamedTuple):
    """The 90 % interval of a step's seconds."""

    low: float
    high: float
    apart: bool
    """Whether the interval of the difference tells the plan apart from the first of the ranking."""

    @property
    def half_width(self) -> float:
        """Half of the interval, relative to the predicted time."""
        return float((self.high - self.low) / (2 * np.sqrt(self.high * self.low)))


@dataclass(frozen=True)
class _Priced:
    """A plan and how its time changes with the parameters."""

    plan: Predicted
    belief: Belief
    slopes: Floats
    """Of the logarithm of its step time with that of each parameter: [parameters]."""

    @property
    def half_width(self) -> float:
        return half_widths(self.slopes[None], self.belief.covariance, self.belief.scatter).item()

    def apart(self, other: _Priced) -> bool:
        """Whether the times a sample of two plans differ by more than is uncertain of their difference."""
        times = np.log([self.plan.sample_time, other.plan.sample_time])
        if self.plan.cluster == other.plan.cluster:
            slopes = np.stack([self.slopes, other.slopes])
            return bool(told_apart(slopes, times, self.belief.covariance, self.belief.scatter)[1])
        return bool(abs(times[1] - times[0]) > np.hypot(self.half_width, other.half_width))


def plan_intervals(winner: Predicted, plans: Iterable[Predicted]) -> dict[int, Interval]:
    """Return the intervals of plans by their ``id``, without those whose accelerator states no spreads."""
    first = _priced(winner)
    intervals: dict[int, Interval] = {}
    for plan in plans:
        priced = first if plan is winner else _priced(plan)
        if priced is not None and plan.step_time > 0:
            factor = float(np.exp(priced.half_width))
            apart = first is None or (plan is not winner and priced.apart(first))
            intervals[id(plan)] = Interval(plan.step_time / factor, plan.step_time * factor, apart)
    return intervals


def _priced(plan: Predicted) -> _Priced | None:
    job, belief = plan.job, belief_of(plan.job.accelerator, plan.job.fabric)
    if belief is None:
        return None
    by_library = not plan.verified
    base = _log_seconds(plan, _moved(job, "", by_library=by_library))
    moved = [_log_seconds(plan, _moved(job, name, by_library=by_library)) for name in belief.names]
    return _Priced(plan, belief, (np.array(moved) - base) / _STEP)


def _moved(job: Job, parameter: str, *, by_library: bool) -> Job:
    """The job with a parameter a little smaller; links are priced anew only where the library carries exchanges."""
    accelerator, fabric, smaller = job.accelerator, job.fabric, np.exp(_STEP)
    kernels, library = accelerator.kernels, fabric.library
    if kernels is not None and parameter in kernels.priors():
        value = getattr(kernels, parameter) * smaller
        accelerator = accelerator.model_copy(update={"kernels": kernels.model_copy(update={parameter: value})})
    elif by_library and parameter:
        assert library is not None
        value = library.transport.priors()[parameter].value * smaller
        fabric = fabric.model_copy(update={"transport": library.transport.with_parameters({parameter: value})})
    return job.repriced(accelerator, fabric, LibraryPricing(fabric) if by_library else job.pricing)


def _log_seconds(plan: Predicted, job: Job) -> float:
    """Logarithm of the seconds of a plan at a job's prices, up to a constant."""
    if isinstance(plan.choice, Strategy):
        return float(np.log(strategy_seconds(job, plan.choice)))
    rows = PlacedRows.of([plan.choice])
    one = np.ones(1, np.int64)
    computing = sum(float(seconds.sum()) for seconds in job.operators.passes(rows.samples, one, rows.recomputation))
    return plan.breakdown["compute_s"] / plan.step_time * float(np.log(computing))
