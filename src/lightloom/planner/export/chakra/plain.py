"""The operations of data parallelism alone: those of the tasks that were simulated, one by one."""

from __future__ import annotations

from collections.abc import Sequence

from lightloom.planner.export.chakra.operations import CollectiveUse, Operation, StageOperations
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.strategy_step import StrategyStep
from lightloom.simulation.engine import Task
from lightloom.simulation.lower import lower


def plain_operations(job: Job, step: StrategyStep, computing: Sequence[Task]) -> list[Operation]:
    """Return what every rank does.

    Args:
        job: where the step was simulated.
        step: of data parallelism alone.
        computing: what a rank computes (``Job.computing``).
    """
    assert step.result is not None and step.prices is not None
    plan, share = step.result.plan, job.fabric.arithmetic_share
    tasks, _ = lower(plan, computing, step.prices, overlap=job.overlap, arithmetic_share=share)
    exchanges = iter(plan.exchanges)
    builder, places = StageOperations(), list[int]()
    for task in tasks:
        after = tuple(places[earlier] for earlier in task.after)
        if task.resource == "compute":
            place = builder.compute(task.name, task.duration, *after, flops=task.details.get("flops"))
        elif task.category == "transmission":
            exchange = next(exchanges)
            use = CollectiveUse("data", exchange.kind, exchange.nbytes, plan.ranks, 1)
            place = builder.collective(task.name, use, *after)
        else:
            place = builder.host(task.name, task.duration, *after)
        places.append(place)
    return builder.operations
