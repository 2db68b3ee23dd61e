"""Steps of strategies whose circuits follow the phases of the step, for the search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.circuits.in_step import InStep, follow_the_step
from lightloom.planner.circuits.timeline import switched_timeline
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.planes import PlanePrices
from lightloom.planner.pricing.stage_exchanges import Axis
from lightloom.planner.pricing.strategy_step import (
    ExchangeUse,
    StrategyStep,
    exact_stage_times,
    largest_uses,
    simulate,
)
from lightloom.simulation.timeline import Timeline


@dataclass(frozen=True)
class SwitchedStrategyStep(StrategyStep):
    """A step stage by stage whose groups share out the planes of a switch."""

    in_step: InStep | None = None
    """What setting circuits anew within the step gains."""
    job: Job | None = None
    """The job on the most planes that every axis has in any phase."""

    @cached_property
    def timeline(self) -> Timeline:
        """Intervals of the step with the planes that they use, verified."""
        assert self.in_step is not None
        return switched_timeline(self.in_step.best)


def simulate_in_step(job: Job, strategy: Strategy, prices: PlanePrices) -> StrategyStep:
    """One step of a strategy with the fastest settings of the switch; on all planes where one kind of groups has them.

    Raises:
        UnsupportedError: groups that exchange in one phase are more than the planes.
    """
    in_step = follow_the_step(job, strategy, prices)
    if in_step is None:
        return simulate(job, strategy)
    best, planes = in_step.best, dict[Axis, int]()
    for division in best.settings.values():
        planes |= {axis: max(count, planes.get(axis, 0)) for axis, count in division.items()}
    uses: list[ExchangeUse] = []
    shared = replace(job, shares=prices.shared(strategy, planes))
    exact_stage_times(shared, strategy, uses)
    return SwitchedStrategyStep(
        step_time=best.step_time,
        breakdown=best.played.breakdown(),
        communication_time=best.stages.transmission,
        exchanges=largest_uses(uses),
        stages=best.stages,
        spent=best.played.spent,
        in_step=in_step,
        job=shared,
    )
