"""One training step, simulated: the plan's tasks run by the engine, then time, energy and memory read off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lightloom.accelerators.base import Accelerator
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.plan import MemoryUse, ParallelPlan
from lightloom.simulation.engine import Task, run
from lightloom.simulation.lower import Price, compute_tasks, lower
from lightloom.simulation.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """Times, joules of sending and memory of one step of a plan, in the steady state."""

    plan: ParallelPlan
    timeline: Timeline
    step_time: float
    """Duration of the step, in seconds."""
    breakdown: dict[str, float]
    """Seconds of the step by what it waits for; adds up to ``step_time``."""
    busy_time: dict[str, float]
    """Seconds by category, whether hidden or not."""
    sent_joules: float | None
    """Joules that sending takes over all ranks; None where the fabric states no energy of a bit."""
    memory: MemoryUse
    """Bytes that a rank holds."""
    fits: bool | None
    """Whether that fits the accelerator's memory; None when its size is unknown."""

    @property
    def samples_per_second(self) -> float:
        """Throughput of all ranks together; infinite for a step that takes no time."""
        samples = self.plan.ranks * self.plan.settings.batch_per_rank
        return samples / self.step_time if self.step_time else float("inf")

    @property
    def compute_time(self) -> float:
        """Seconds that a rank computes."""
        return self.breakdown["compute_s"]

    @property
    def communication_time(self) -> float:
        """Seconds that the network transmits, changes circuits or waits for a codec, hidden or not."""
        return self.busy_time["transmission"] + self.busy_time["reconfiguration"] + self.busy_time["codec"]

    def to_json(self) -> dict[str, Any]:
        """Return the figures of the step in plain types and SI units, without its timeline."""
        return {
            "strategy": self.plan.strategy,
            "step_time_s": self.step_time,
            "samples_per_second": self.samples_per_second if self.step_time else None,
            "breakdown": dict(self.breakdown),
            "busy_time_s": dict(self.busy_time),
            "communication_time_s": self.communication_time,
            "transmission_j": self.sent_joules,
            "memory_bytes": asdict(self.memory) | {"total": self.memory.total},
            "fits": self.fits,
        }


def simulate_step(
    plan: ParallelPlan,
    accelerator: Accelerator,
    fabric: Fabric,
    price: Price,
    *,
    overlap: bool = True,
    computing: Sequence[Task] | None = None,
) -> StepResult:
    """Simulate one step of a plan on a fabric, with collectives at the given prices.

    Args:
        computing: :func:`~lightloom.simulation.lower.compute_tasks` of the plan on the accelerator, where they are at
            hand.

    Raises:
        UnsupportedError: the plan is for another number of ranks than the fabric has, or for a precision that
            the accelerator lacks.
    """
    if plan.ranks != fabric.ranks:
        raise UnsupportedError(f"the plan is for {plan.ranks} ranks, but the fabric has {fabric.ranks}")
    computing = compute_tasks(plan, accelerator) if computing is None else computing
    tasks, priced = lower(plan, computing, price, overlap=overlap, arithmetic_share=fabric.arithmetic_share)
    timeline = run(tasks)
    sent = [collective.cost.energy for collective in priced]
    sourced = [joules for joules in sent if joules is not None]
    return StepResult(
        plan=plan,
        timeline=timeline,
        step_time=timeline.step_time,
        breakdown=timeline.breakdown(),
        busy_time=timeline.busy_time(),
        sent_joules=sum(sourced) if len(sourced) == len(sent) else None,
        memory=plan.memory,
        fits=plan.memory.fits(accelerator.memory),
    )
