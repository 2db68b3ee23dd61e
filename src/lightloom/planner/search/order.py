"""Which plan stands before which: the order of a ranking, and the front of time and energy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class Choice(Protocol):
    """How a plan divides the model."""

    @property
    def recomputation(self) -> str: ...


class Simulated(Protocol):
    """What the order of a plan depends on; see :class:`~lightloom.planner.search.plans.Plan`."""

    @property
    def fits(self) -> bool | None: ...
    @property
    def runnable(self) -> bool: ...
    @property
    def sample_time(self) -> float: ...
    @property
    def energy_per_sample(self) -> float: ...
    @property
    def communication_time(self) -> float | None: ...
    @property
    def choice(self) -> Choice: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def strategy(self) -> str: ...
    @property
    def gradient_exchange(self) -> object | None: ...
    @property
    def label(self) -> str: ...


P = TypeVar("P", bound=Simulated)


def order(plan: Simulated) -> tuple[bool, bool, float, float, bool, str, str, bool, str]:
    """Sort key of a ranking: plans that fit, of these first those that a framework can run, then less time a sample;
    plans that computation hides equally are told apart by how long their networks are busy, then those that recompute
    nothing come first, then by name."""
    return (
        plan.fits is False,
        not plan.runnable,
        plan.sample_time,
        plan.communication_time or 0.0,
        plan.choice.recomputation != "none",
        plan.algorithm,
        plan.strategy,
        plan.gradient_exchange is not None,
        plan.label,
    )


def pareto_front(plans: Iterable[P]) -> tuple[P, ...]:
    """The plans that none is at least as good as in seconds and joules a sample; of equal ones the first."""
    front: list[P] = []
    for plan in sorted(plans, key=lambda plan: (plan.sample_time, plan.energy_per_sample)):
        if not front or plan.energy_per_sample < front[-1].energy_per_sample:
            front.append(plan)
    return tuple(front)
