"""The largest collective of every axis of a step as a joint schedule: proof that all circuits stand at once."""

from __future__ import annotations

from lightloom.collectives.joint.parts import GroupPart, Part, ShiftPart
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.pricing.division import Division
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.stage_sends import stage_sends
from lightloom.planner.pricing.strategy_step import StrategyStep, exchange_seconds


def joint_parts(job: Job, strategy: Strategy, step: StrategyStep) -> list[Part]:
    """The largest collective of every axis, and what every rank sends to the next stage, each way.

    Args:
        job: on divided channels.
        strategy: what was simulated.
        step: its step.

    Raises:
        ValueError: no axes divide the channels.
    """
    division = step.division
    if division is None:
        raise ValueError("no axes divide the channels: expected the step of a strategy on circuits")
    parts: list[Part] = []
    for number, (axis, share) in enumerate(division.shares()):
        if axis.name == "pipeline":
            rows = Strategies.of(strategy)
            nbytes = float(stage_sends(job, rows, exchange_seconds(job, strategy.algorithm)).nbytes.max())
            parts.append(ShiftPart(axis.name, axis.stride, share.first, share.channels, nbytes))
        else:
            parts.append(GroupPart(axis.name, share, _schedule(division, number, step)))
    return parts


def _schedule(division: Division, number: int, step: StrategyStep) -> Schedule:
    """The schedule of the largest collective of an axis; keys and values of a context group go around a ring."""
    axis, part = division.axes[number], division.part(number)
    assert part is not None
    if axis.name == "context":
        return build(find("ring-striped"), Collective("all-gather", axis.ranks, 0.0), part)
    uses = [
        use
        for use in step.exchanges
        if (use.ranks, use.stride, use.kind == "all-to-all") == (axis.ranks, axis.stride, axis.name == "expert")
    ]
    return build(find(uses[0].algorithm), Collective(uses[0].kind, axis.ranks, uses[0].nbytes), part)
