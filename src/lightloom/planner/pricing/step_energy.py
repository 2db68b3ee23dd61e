"""Joules of sending in a plan's step: what its collectives and sends cost over all ranks."""

from __future__ import annotations

import numpy as np

from lightloom.collectives.cost.price import Cost
from lightloom.parallelism.recomputation import repetitions
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.gradients.priced import sent_ratio
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.stage_exchanges import tensor_exchange
from lightloom.planner.pricing.stage_sends import GATHER, stage_sends
from lightloom.planner.pricing.stage_times import stage_exchanges
from lightloom.planner.pricing.strategy_step import StrategyStep, exchange_costs, exchange_seconds
from lightloom.simulation.energy import sending_energy
from lightloom.simulation.placed_step import PlacedStep


def placed_joules(job: Job, step: PlacedStep, ratio: float = 1.0) -> float | None:
    """Joules of sending in a step over all ranks; on circuits, relayed bytes count once a lightpath.

    Args:
        job: where the plan runs.
        step: simulated.
        ratio: bytes of a gradient as float32 for each byte sent to the next group.
    """
    plan, fabric = step.plan, job.fabric
    if fabric.exclusive:
        nbytes, source = np.array([step.sent_bytes * plan.groups]), np.zeros(1, np.int64)
        return sending_energy(fabric, nbytes, source, source)
    if fabric.energy_per_bit is None:
        return None
    traffic = plan.traffic
    smaller = float(sent_ratio(job.settings, np.array([ratio]))[0])
    total = traffic.model_parallel + traffic.data_parallel / smaller
    if step.micro_batches > 1:
        total = total + (step.micro_batches - 1) * plan.activation_traffic
    pairs = total.tocoo()
    return sending_energy(fabric, pairs.data, pairs.row.astype(np.int64), pairs.col.astype(np.int64))


def strategy_joules(job: Job, strategy: Strategy, step: StrategyStep) -> float | None:
    """Joules of sending in a simulated step over all ranks; None where the fabric states no energy of a bit."""
    if step.result is not None:
        return step.result.sent_joules
    transmission = _staged(job, strategy)
    return None if np.isnan(transmission) else transmission


def _staged(job: Job, strategy: Strategy) -> float:
    """As the stages' seconds are counted, with joules of each rank in the place of seconds; not-a-number where those of
    any part are not known."""
    rows, joules = Strategies.of(strategy), exchange_costs(job, strategy.algorithm, _joules_of_rank)
    # The same bytes unit by unit or all at once.
    at_once = np.zeros((1, strategy.pp * strategy.virtual_stages), np.bool_)
    exchanges = stage_exchanges(job, rows, joules, sharing=False, by_unit=at_once)
    replicas, units = exchanges.replicas, job.model.units(job.model.chunks(rows))
    first, other = (unit.gather + unit.regather + unit.scatter for unit in (replicas.first, replicas.other))
    in_units = float((first + (units - 1) * other).sum())
    # A smaller last micro-batch counts by its samples, as bytes do.
    whole = strategy.global_batch / strategy.dp / strategy.samples
    passes = float((exchanges.forward + exchanges.backward).sum()) * whole + in_units * strategy.micro_batches
    once = sum(float(each.sum()) for each in (replicas.gather, replicas.exchange, exchanges.token_gradients))
    sent = stage_sends(job, rows, exchange_seconds(job, strategy.algorithm))
    gathered = float(tensor_exchange(GATHER, rows, sent.gathered, joules).sum())
    ranks = strategy.replicas * strategy.tp
    sends = _sends(job, 2 * whole * float(sent.nbytes.sum()), ranks, ranks)
    for each in exchanges.tied:
        for sender, receiver in zip(each.stages, np.roll(each.stages, -1).tolist(), strict=True):
            sends += _sends(job, float(each.nbytes[0]), ranks, (receiver - sender) * ranks)
    sends += _sends(job, whole * _ring_bytes(job, rows), ranks, strategy.tp)
    return sends + ranks * (passes + once + 2 * whole * gathered)


def _ring_bytes(job: Job, rows: Strategies) -> float:
    """Bytes that a rank of every stage together sends around its context group in a micro-batch, of one row."""
    columns, sent = job.model.columns, np.float64(rows.cp[0] - 1)
    nbytes = columns.key_value_bytes(rows.samples, rows.tp, rows.cp)
    repeated = repetitions(columns["in_block"], columns["core"], rows.recomputation)
    passes = sent * (1 + repeated) + 2 * sent + 1
    return float((nbytes * passes).sum()) if sent else 0.0


def _joules_of_rank(cost: Cost, ranks: int) -> float | None:
    """Joules of one of the ranks; None without a source."""
    return None if cost.energy is None else cost.energy / ranks


def _sends(job: Job, nbytes: float, ranks: int, stride: int) -> float:
    """Joules of what so many ranks send to those ``stride`` further on, so many bytes each; not-a-number where the
    fabric states no energy of a bit."""
    if not nbytes:
        return 0.0
    source = np.arange(job.fabric.ranks)
    away = (source + stride) % job.fabric.ranks
    joules = sending_energy(job.fabric, np.full(len(source), nbytes * ranks / len(source)), source, away)
    return float("nan") if joules is None else joules
