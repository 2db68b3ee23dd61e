"""A strategy simulated: data parallelism alone by the exchange, everything else stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from lightloom.collectives.cost.price import Cost
from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats, Ints
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.pricing.cheapest import CheapestPrices
from lightloom.planner.pricing.divided_prices import DividedChannels, divided
from lightloom.planner.pricing.division import Division
from lightloom.planner.pricing.group_prices import Pricing
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.schedule_prices import SchedulePrices
from lightloom.planner.pricing.stage_exchanges import AxisTimes, ExchangeTime, tensor_exchange
from lightloom.planner.pricing.stage_sends import GATHER, stage_sends
from lightloom.planner.pricing.stage_times import stage_exchanges, stage_times
from lightloom.simulation.duration import step_duration
from lightloom.simulation.engine import run
from lightloom.simulation.lower import Price, Priced
from lightloom.simulation.pipelined import PipelinedStep, StageTimes
from lightloom.simulation.pipelined_tasks import lower_pipelined
from lightloom.simulation.step import StepResult, simulate_step
from lightloom.simulation.timeline import Timeline


class ExchangeUse(NamedTuple):
    """Collectives of a step that one algorithm carries in groups of the same ranks."""

    kind: Kind
    ranks: int
    stride: int
    """Distance between neighbours of a group, in ranks."""
    nbytes: float
    """Size of the largest."""
    algorithm: str


@dataclass(frozen=True)
class StrategyStep:
    """A simulated step of a strategy: exchange by exchange, or stage by stage."""

    step_time: float
    """Duration of the step, in seconds."""
    breakdown: Mapping[str, float]
    """Seconds of the step by what a rank waits for, the mean over all stages, as ``Timeline.breakdown`` names them."""
    communication_time: float
    """Seconds that networks transmit, change circuits or wait for a codec, hidden or not."""
    exchanges: tuple[ExchangeUse, ...]
    """Collectives of the step, the largest first."""
    result: StepResult | None = None
    """The step exchange by exchange, of data parallelism alone."""
    prices: Price | None = field(default=None)
    """Prices of those exchanges."""
    stages: PipelinedStep | None = None
    """The step stage by stage, of every other strategy."""
    division: Division | None = None
    """Channels that the axes hold, where circuits of several stand at once."""
    spent: Mapping[str, Floats] | None = None
    """Seconds of the rank of each stage by what it spends them on (``simulation.pipelined.SPENT``): [stages] each."""

    @cached_property
    def timeline(self) -> Timeline:
        """Intervals of the step."""
        if self.result is not None:
            return self.result.timeline
        assert self.stages is not None
        return run(lower_pipelined(self.stages))


def simulate(job: Job, strategy: Strategy) -> StrategyStep:
    """One step: data parallelism alone bucket by bucket or unit by unit, everything else stage by stage."""
    if strategy.plain:
        return _data_parallel(job, strategy)
    job = on_divided_channels(job, strategy)
    uses: list[ExchangeUse] = []
    stages = _pipelined(job, strategy, uses)
    played = stages.play()
    return StrategyStep(
        step_time=played.step_time,
        breakdown=played.breakdown(),
        communication_time=stages.transmission,
        exchanges=largest_uses(uses),
        stages=stages,
        spent=played.spent,
        division=job.shares.division if isinstance(job.shares, DividedChannels) else None,
    )


def on_divided_channels(job: Job, strategy: Strategy) -> Job:
    """The job as the strategy is priced there: its axes divide the channels of circuits that stand at once."""
    return job if strategy.plain else divided(job, strategy, lambda priced: stage_seconds(priced, strategy))


def stage_seconds(job: Job, strategy: Strategy) -> float:
    """The step time of a strategy other than data parallelism alone, at the prices of the job."""
    return _pipelined(job, strategy).seconds


def _pipelined(job: Job, strategy: Strategy, uses: list[ExchangeUse] | None = None) -> PipelinedStep:
    """The stages of a strategy other than data parallelism alone; ``uses`` takes the collectives."""
    last = None
    if strategy.last_samples != strategy.samples:
        smaller = strategy._replace(micro_batch=0, micro_batches=1, global_batch=strategy.dp * strategy.last_samples)
        last = exact_stage_times(job, smaller)
    times = exact_stage_times(job, strategy, uses)
    share = job.fabric.arithmetic_share
    return PipelinedStep(times=times, micro_batches=strategy.micro_batches, last=last, arithmetic_share=share)


def strategy_seconds(job: Job, strategy: Strategy) -> float:
    """Return the step time as :func:`simulate` finds it, and nothing else; circuits are taken to be in place."""
    if strategy.plain:
        return data_parallel_seconds(job, strategy)
    return stage_seconds(on_divided_channels(job, strategy), strategy)


def exact_stage_times(job: Job, strategy: Strategy, uses: list[ExchangeUse] | None = None) -> StageTimes:
    """Seconds of each stage, every exchange at the price of its own size; arrays [stages].

    Args:
        job: where the strategy runs.
        strategy: other than data parallelism alone.
        uses: takes the collectives that are priced.
    """
    rows = Strategies.of(strategy)
    sends = stage_sends(job, rows, exchange_seconds(job, strategy.algorithm))
    sharing = not isinstance(job.shares, DividedChannels)
    times = stage_times(job, rows, exchange_seconds(job, strategy.algorithm), sends, sharing=sharing)
    if uses is not None:
        recorded = exchange_seconds(job, strategy.algorithm, uses)
        tensor_exchange(GATHER, rows, sends.gathered, recorded)
        stage_exchanges(job, rows, recorded, sharing=sharing, by_unit=times.lead > 0)
    return times.row(0)


def step_seconds(job: Job, rows: Strategies, exchange_time: ExchangeTime) -> Floats:
    """Return the step times of strategies as :func:`simulate` finds them one by one: [rows].

    Args:
        job: where the strategies run.
        rows: other than data parallelism alone, of as many stages and chunks each, their micro-batches all alike.
        exchange_time: seconds of exchanges, exactly.
    """
    times, share = stage_times(job, rows, exchange_time), job.fabric.arithmetic_share
    steps = (
        PipelinedStep(times=times.row(row), micro_batches=count, arithmetic_share=share)
        for row, count in enumerate(rows.micro_batches.tolist())
    )
    return np.array([step.seconds for step in steps])


def data_parallel_seconds(job: Job, strategy: Strategy) -> float:
    """Return the step time of data parallelism alone as :func:`simulate` finds it where circuits are in place."""
    plan, rows = job.data_parallel_plan(strategy), Strategies.of(strategy)
    price = _free if strategy.dp == 1 else job.pricing.price(strategy.algorithm, strategy.dp, strategy.exchange)
    forward, backward = job.operators.passes(rows.samples, rows.tp, rows.recomputation)
    update = job.accelerator.update_time(plan.updated_parameters * float(job.settings.optimizer_traffic_bytes))
    computing = np.concatenate([forward[0], backward[0, ::-1], [update]])
    sizes = [(each.kind, each.nbytes) for each in plan.exchanges]
    seconds = {size: price(*size).cost.repeated_time for size in set(sizes)}
    exchanging = np.array([seconds[size] for size in sizes])
    share = job.fabric.arithmetic_share
    return step_duration(plan, computing, exchanging, overlap=job.overlap, arithmetic_share=share)


def _data_parallel(job: Job, strategy: Strategy) -> StrategyStep:
    """The step with schedules for each size, or with those of one size throughout, whose circuits stay: the faster."""
    plan = job.data_parallel_plan(strategy)
    price = _free if strategy.dp == 1 else job.pricing.price(strategy.algorithm, strategy.dp, strategy.exchange)
    options = [price]
    first = None
    if isinstance(price, CheapestPrices) and plan.exchanges:
        first = price.choice(plan.exchanges[0].kind, plan.exchanges[0].nbytes)
    named = isinstance(first, SchedulePrices) and first.algorithm.name == strategy.algorithm
    if isinstance(first, SchedulePrices) and named and first.algorithm.by_size:
        sizes = sorted({first.built_for(each.kind, each.nbytes) for each in plan.exchanges})
        options = [first, *(first.at(size) for size in sizes if len(sizes) > 1)]
    computing = job.computing(strategy)
    step = partial(simulate_step, plan, job.accelerator, job.fabric, overlap=job.overlap, computing=computing)
    steps = [(step(each), each) for each in options]
    result, price = min(steps, key=lambda step: (step[0].step_time, step[0].communication_time))
    names = [
        job.pricing.algorithm(each.kind, each.nbytes, strategy.algorithm, strategy.dp, strategy.exchange)
        for each in plan.exchanges
        if strategy.dp > 1
    ]
    uses = [
        ExchangeUse(each.kind, strategy.dp, 1, each.nbytes, name)
        for each, name in zip(plan.exchanges, names, strict=False)
    ]
    return StrategyStep(
        step_time=result.step_time,
        breakdown=result.breakdown,
        communication_time=result.communication_time,
        exchanges=largest_uses(uses),
        result=result,
        prices=price,
    )


def _free(kind: Kind, nbytes: float) -> Priced:  # noqa: ARG001 - nothing is exchanged
    cost = Cost(
        steps=0, time=0.0, transmission=0.0, conversion=0.0, reconfiguration=0.0, setup=0.0, static=True, energy=0.0
    )
    return Priced(cost=cost)


def exchange_seconds(job: Job, name: str, uses: list[ExchangeUse] | None = None) -> ExchangeTime:
    """Return the seconds of exchanges by verified schedules; each exchange is added to ``uses``."""
    return exchange_costs(job, name, lambda cost, _: cost.repeated_time, uses)


def exchange_costs(
    job: Job, name: str, amount: Callable[[Cost, int], float | None], uses: list[ExchangeUse] | None = None
) -> ExchangeTime:
    """Return the costs of exchanges by verified schedules, in the place of their seconds, of every axis on its planes.

    Args:
        job: where they take place.
        name: the algorithm.
        amount: what a collective costs among so many ranks; None, where that is unknown, becomes not-a-number.
        uses: takes the exchanges.
    """

    if (shares := job.shares) is not None:
        return AxisTimes(lambda axis: _costs(partial(shares.pricing, axis), name, amount, uses))
    return _costs(lambda: job.pricing, name, amount, uses)


def _costs(
    pricing_of: Callable[[], Pricing],
    name: str,
    amount: Callable[[Cost, int], float | None],
    uses: list[ExchangeUse] | None,
) -> ExchangeTime:
    """Return the costs of exchanges at the prices that are asked for where several ranks exchange; as
    :func:`exchange_costs`."""

    def amounts(kind: Kind, _: Ints, ranks: Ints, stride: Ints, exchange: Ints, nbytes: Floats) -> Floats:
        if ranks[0] == 1:
            return np.zeros_like(nbytes)
        group = name, int(ranks[0]), int(exchange[0]), int(stride[0])
        pricing = pricing_of()
        price = pricing.price(*group)
        sizes, where = np.unique(nbytes, return_inverse=True)
        of_size = [amount(price(kind, float(size)).cost, group[1]) if size else 0.0 for size in sizes]
        if uses is not None:
            uses.extend(
                ExchangeUse(kind, group[1], group[3], size, pricing.algorithm(kind, size, *group))
                for size in sizes.tolist()
                if size
            )
        return np.array(of_size, np.float64)[where].reshape(nbytes.shape)

    return amounts


def largest_uses(uses: Iterable[ExchangeUse]) -> tuple[ExchangeUse, ...]:
    """One of each kind, group and algorithm, of its largest size; the largest first."""
    largest: dict[tuple[str, int, int, str], ExchangeUse] = {}
    for use in uses:
        key = use.kind, use.ranks, use.stride, use.algorithm
        if key not in largest or use.nbytes > largest[key].nbytes:
            largest[key] = use
    return tuple(sorted(largest.values(), key=lambda use: (-use.nbytes, use)))
