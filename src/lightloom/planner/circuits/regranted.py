"""Placed plans whose circuits are granted anew within a step, from what waits: SiP-ML's rescheduling (section 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import ceil

from lightloom.fabrics.base import Fabric
from lightloom.parallelism.circuits.circuits import Timing
from lightloom.parallelism.circuits.pipes import GroupCircuits
from lightloom.parallelism.circuits.regrant import Regrant, regrants
from lightloom.parallelism.hybrid import HybridPlan
from lightloom.simulation.placed_step import PlacedStep

HOLDS = (10, 4)
"""Lengths of a hold in reconfiguration times that are tried: a duty cycle of 91 % (SiP-ML, section 3.1), and of 80 %
(the hold of simulators that were built after it)."""
MOST_GRANTS = 1000
"""Holds of a step at most; longer steps have longer holds."""

Simulated = Callable[[GroupCircuits, Regrant], PlacedStep]
"""The step of a plan over circuits that are granted anew."""


@dataclass(frozen=True, kw_only=True)
class RegrantedStep(PlacedStep):
    """A placed step whose circuits are granted anew before every hold."""

    standing_time: float
    """Seconds of the same step over circuits that are granted once for all of its traffic."""

    @property
    def timing(self) -> Timing:
        """Lengths of a hold and of a reconfiguration."""
        assert self.circuits.timing is not None
        return self.circuits.timing

    @property
    def grants(self) -> int:
        """Holds of a step at most: where nothing waits, circuits stay."""
        return ceil(self.step_time / self.timing.period)

    @property
    def gain(self) -> float:
        """Seconds that the step gets shorter."""
        return self.standing_time - self.step_time


def faster_regranted(step: PlacedStep, plan: HybridPlan, fabric: Fabric, simulated: Simulated) -> PlacedStep:
    """Return the fastest of a step over circuits granted once and those with circuits granted anew; without a hold that
    is shorter than the step, that step."""
    best = step
    for length in HOLDS:
        timing = Timing(max(length * fabric.setup_time, step.step_time / MOST_GRANTS), fabric.setup_time)
        if (
            not fabric.assigns_circuits
            or not 0 < fabric.setup_time < timing.period < step.step_time
            or not plan.traffic.total.sum() > 0
        ):
            continue
        again = simulated(*regrants(plan, fabric, timing))
        best = again if again.step_time < best.step_time else best
    if best is step:
        return step
    values = {each.name: getattr(best, each.name) for each in fields(PlacedStep)}
    return RegrantedStep(**values, standing_time=step.step_time)
