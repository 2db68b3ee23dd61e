"""Joules of a plan's step: what its collectives and sends cost, and what its ranks draw meanwhile."""

from __future__ import annotations

import numpy as np

from lightloom.collectives.cost.price import Cost
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.pricing.stage_exchanges import tensor_exchange
from lightloom.planner.pricing.stage_sends import GATHER
from lightloom.planner.pricing.stage_times import Job, sent_ratio
from lightloom.planner.pricing.strategy_step import StrategyStep, exchange_costs, exchange_seconds
from lightloom.simulation.energy import StepEnergy, sending_energy, step_energy
from lightloom.simulation.placed_step import PlacedStep


def placed_energy(job: Job, step: PlacedStep, ratio: float = 1.0) -> StepEnergy:
    """Joules of a step over all ranks; on circuits, relayed bytes count once a lightpath.

    Args:
        job: where the plan runs.
        step: simulated.
        ratio: bytes of a gradient as float32 for each byte sent to the next group.
    """
    plan, fabric = step.plan, job.fabric
    if fabric.exclusive:
        nbytes, source = np.array([step.sent_bytes * plan.groups]), np.zeros(1, np.int64)
        sent = sending_energy(fabric, nbytes, source, source)
    else:
        traffic = plan.traffic
        smaller = float(sent_ratio(job, np.array([ratio]))[0])
        pairs = (traffic.model_parallel + traffic.data_parallel / smaller).tocoo()
        sent = sending_energy(fabric, pairs.data, pairs.row.astype(np.int64), pairs.col.astype(np.int64))
    return step_energy(job.accelerator, fabric, sent, step.step_time)


def strategy_energy(job: Job, strategy: Strategy, step: StrategyStep) -> StepEnergy:
    """Joules of a simulated step over all ranks."""
    if step.result is not None:
        return step.result.energy
    transmission = _staged(job, strategy)
    known = None if transmission is None or np.isnan(transmission) else transmission
    return step_energy(job.accelerator, job.fabric, known, step.step_time)


def _staged(job: Job, strategy: Strategy) -> float | None:
    """As the stages' seconds are counted, with joules of each rank in the place of seconds."""
    rows, joules = Strategies.of(strategy), exchange_costs(job, strategy.algorithm, _joules_of_rank)
    exchanges = job.stage_exchanges(rows, joules, sharing=False)
    replicas, units = exchanges.replicas, job.units(job.chunks(rows))
    # Parameters of a unit are gathered for the forward and for the backward pass.
    first, other = (2 * unit.gather + unit.scatter for unit in (replicas.first, replicas.other))
    in_units = float((first + (units - 1) * other).sum())
    # A smaller last micro-batch counts by its samples, as bytes do.
    whole = strategy.global_batch / strategy.dp / strategy.samples
    passes = float((exchanges.forward + exchanges.backward).sum()) * whole + in_units * strategy.micro_batches
    once = float((replicas.gather + replicas.exchange + exchanges.token_gradients).sum())
    sent = job.sends(rows, exchange_seconds(job, strategy.algorithm))
    gathered = float(tensor_exchange(GATHER, rows, sent.gathered, joules).sum())
    ranks = strategy.dp * strategy.tp
    sends = _sends(job, whole * float(sent.nbytes.sum()), ranks)
    return None if sends is None else sends + ranks * (passes + once + 2 * whole * gathered)


def _joules_of_rank(cost: Cost, ranks: int) -> float | None:
    """Joules of one of the ranks; None without a source."""
    return None if cost.energy is None else cost.energy / ranks


def _sends(job: Job, nbytes: float, ranks: int) -> float | None:
    """Joules of the sends between stages of so many ranks, each of which sends so many bytes forward and back."""
    source = np.arange(job.fabric.ranks)
    away = (source + ranks) % job.fabric.ranks
    both_ways = 2 * nbytes * ranks
    if not both_ways:
        return 0.0
    return sending_energy(job.fabric, np.full(len(source), both_ways / len(source)), source, away)
