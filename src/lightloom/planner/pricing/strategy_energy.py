"""Joules of a strategy's step: what its collectives cost, what its stages send, and what its ranks draw meanwhile."""

from __future__ import annotations

import numpy as np

from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats, Ints
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.pricing.stage_exchanges import ExchangeTime
from lightloom.planner.pricing.stage_times import Job
from lightloom.planner.pricing.strategy_step import StrategyStep
from lightloom.simulation.energy import StepEnergy, sending_energy, step_energy


def strategy_energy(job: Job, strategy: Strategy, step: StrategyStep) -> StepEnergy:
    """Joules of a simulated step over all ranks."""
    if step.result is not None:
        return step.result.energy
    transmission = _staged(job, strategy)
    known = None if transmission is None or np.isnan(transmission) else transmission
    return step_energy(job.accelerator, job.fabric, known, step.step_time)


def _staged(job: Job, strategy: Strategy) -> float | None:
    """As the stages' seconds are counted, with joules of each rank in the place of seconds."""
    times = job.stage_times(Strategies.of(strategy), _joules_of_each_rank(job, strategy), sharing=False)
    passes = float((times.forward_exchange + times.backward_exchange).sum()) * strategy.micro_batches
    ranks = strategy.dp * strategy.tp
    sends = _sends(job, strategy, times.send[0], ranks)
    return None if sends is None else sends + ranks * (passes + float((times.gather + times.exchange).sum()))


def _joules_of_each_rank(job: Job, strategy: Strategy) -> ExchangeTime:
    """Joules of one rank in the place of the seconds of an exchange."""

    def joules(kind: Kind, _: Ints, ranks: Ints, stride: Ints, ratio: Floats, nbytes: Floats) -> Floats:
        group = int(ranks[0]), float(ratio[0]), int(stride[0])
        sizes, where = np.unique(nbytes, return_inverse=True)
        of_size = np.array([_joules(job, strategy, kind, *group, nbytes=float(size)) / group[0] for size in sizes])
        return of_size[where].reshape(nbytes.shape)

    return joules


def _joules(job: Job, strategy: Strategy, kind: Kind, ranks: int, ratio: float, stride: int, *, nbytes: float) -> float:
    """Of one collective; not a number without a source."""
    if ranks == 1 or not nbytes:
        return 0.0
    energy = job.pricing.price(strategy.algorithm, ranks, ratio, stride)(kind, nbytes).cost.energy
    return float("nan") if energy is None else energy


def _sends(job: Job, strategy: Strategy, seconds: Floats, ranks: int) -> float | None:
    """Joules of the sends between stages, of so many ranks in each."""
    (rate,), (latency,) = job.send_rate(Strategies.of(strategy))
    nbytes = (seconds[1:] - latency) * rate
    source = np.arange(job.fabric.ranks)
    away = (source + ranks) % job.fabric.ranks
    both_ways = 2 * strategy.micro_batches * float(nbytes.sum()) * ranks
    if not both_ways:
        return 0.0
    return sending_energy(job.fabric, np.full(len(source), both_ways / len(source)), source, away)
