"""The largest collective of every axis of a step as a joint schedule: proof that all circuits stand at once."""

from __future__ import annotations

from lightloom.collectives.joint.parts import GroupPart, Part, ShiftPart
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.collectives.verify.joint import verify_joint
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.pricing.group_prices import GroupPrices
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
            schedule = _schedule(job, strategy, number, step)
            parts += [] if schedule is None else [GroupPart(axis.name, share, schedule)]
    return parts


def verify_standing(job: Job, strategy: Strategy, step: StrategyStep) -> None:
    """Prove that the circuits of all axes of a step stand at once.

    Raises:
        VerificationError: two of them hold one channel of a link.
    """
    verify_joint(joint_parts(job, strategy, step), job.fabric)


def _schedule(job: Job, strategy: Strategy, number: int, step: StrategyStep) -> Schedule | None:
    """The schedule of the largest collective of an axis, None where it has none; keys and values of a context group go
    around a ring."""
    assert step.division is not None and job.shares is not None
    axis, part = step.division.axes[number], step.division.part(number)
    assert part is not None
    if axis.name == "context":
        return build(find("ring-striped"), Collective("all-gather", axis.ranks, 0.0), part)
    group = axis.ranks, axis.stride, axis.name == "expert"
    use = next((use for use in step.exchanges if (use.ranks, use.stride, use.kind == "all-to-all") == group), None)
    if use is None:
        return None
    prices = job.shares.pricing(axis.name)
    assert isinstance(prices, GroupPrices)
    exchange = strategy.exchange if axis.name in ("data", "expert-data") else 0
    return prices.price(strategy.algorithm, axis.ranks, exchange, axis.stride).schedule(use.kind, use.nbytes)
