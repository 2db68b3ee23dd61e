"""A strategy simulated: data parallelism alone by the exchange, everything else stage by stage."""

from __future__ import annotations

from functools import partial

import numpy as np

from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats, Ints
from lightloom.parallelism.load import make_plan
from lightloom.parallelism.recomputation import recomputed
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.pricing.stage_times import Job
from lightloom.simulation.engine import run
from lightloom.simulation.pipelined import StageTimes, lower_pipelined
from lightloom.simulation.step import simulate_step
from lightloom.simulation.timeline import Timeline


def simulate(job: Job, strategy: Strategy) -> Timeline:
    """One step: data parallelism alone bucket by bucket or unit by unit, everything else stage by stage."""
    if strategy.plain:
        graph = recomputed(job.graph) if strategy.recomputation == "full" else job.graph
        settings = job.settings.model_copy(update={"batch_per_rank": strategy.samples})
        plan = make_plan(strategy.sharding, graph, strategy.dp, settings)
        price = job.pricing.price(strategy.algorithm, strategy.dp, strategy.ratio)
        return simulate_step(plan, job.accelerator, job.fabric, price).timeline
    return run(lower_pipelined(exact_stage_times(job, strategy), strategy.micro_batches))


def exact_stage_times(job: Job, strategy: Strategy) -> StageTimes:
    """Seconds of each stage, every exchange at the price of its own size; arrays [stages]."""
    rows = Strategies.of(strategy)
    times = job.stage_times(rows, partial(_priced, job, strategy.algorithm))
    return StageTimes(**{name: getattr(times, name)[0] for name in StageTimes.__dataclass_fields__})


def _priced(
    job: Job, name: str, kind: Kind, _: Ints, ranks: Ints, stride: Ints, ratio: Floats, nbytes: Floats
) -> Floats:
    if ranks[0] == 1:
        return np.zeros_like(nbytes)
    price = job.pricing.price(name, int(ranks[0]), float(ratio[0]), int(stride[0]))
    sizes, where = np.unique(nbytes, return_inverse=True)
    seconds = [price(kind, float(size)).cost.repeated_time if size else 0.0 for size in sizes]
    return np.array(seconds)[where].reshape(nbytes.shape)
