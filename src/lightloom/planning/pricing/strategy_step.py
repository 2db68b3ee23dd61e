"""Seconds, joules and bytes of a strategy's step: data parallelism alone exchange by exchange, everything else by its
stages; and the proof that circuits of all axes stand at once."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf
from typing import NamedTuple

import numpy as np

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost.price import Cost
from lightloom.collectives.joint import GroupPart, Part, ShiftPart
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.verify.verifier import verify_joint
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.errors import UnsupportedError
from lightloom.core.timeline import Timeline
from lightloom.planning.parallelism.operators import bytes_of_logit
from lightloom.planning.parallelism.plan import RECOMPUTATIONS, SCORE_TENSORS, in_flight, repetitions
from lightloom.planning.parallelism.strategy_space import NONE, ZERO_1, ZERO_2, Strategies, Strategy, state_sharers
from lightloom.planning.pricing.collective_prices import CheapestPrices, given_bytes
from lightloom.planning.pricing.group_prices import (
    Axis,
    DividedChannels,
    Division,
    Divisions,
    GroupPrices,
    ScaledChannels,
    divides,
    live_axes,
)
from lightloom.planning.pricing.job import Job, by_stage, sent_ratio
from lightloom.planning.pricing.schedule_prices import SchedulePrices
from lightloom.planning.pricing.step import (
    GATHER,
    AxisTimes,
    combinations,
    shares,
    stage_exchanges,
    stage_sends,
    stage_times,
    tensor_exchange,
)
from lightloom.planning.simulation.engine import (
    Price,
    Priced,
    StepResult,
    run,
    sending_energy,
    simulate_step,
    step_duration,
)
from lightloom.planning.simulation.pipelined import PipelinedStep, StageTimes, lower_pipelined
from lightloom.planning.simulation.placed_step import PlacedStep

# Bytes that a rank of a stage holds at the worst moment of a step, for columns of strategies at once.


def memory_parts(job: Job, rows: Strategies) -> tuple[Floats, Floats, Floats]:
    """Return three arrays of bytes that a rank of each stage holds: throughout the step (parameters, gradients, the
    optimizer's state and what exchanges keep), [rows, stages]; activations kept for each micro-batch in flight, [rows,
    chunks]; and what the micro-batch whose pass runs needs besides, at most, [rows, stages].

    All rows must have the same stages and chunks. :func:`stage_memory` adds the parts up.
    """
    edges = job.model.chunks(rows)
    combination, row = combinations(rows)
    kept, passing = (nbytes[row] for nbytes in _activations(job, combination, edges))
    state = _state(job, rows, edges)
    return state, kept, passing.reshape(len(rows), -1, state.shape[1]).max(axis=1)


def stage_memory(job: Job, rows: Strategies) -> Floats:
    """Return the bytes that a rank of the fullest stage holds at the worst moment of a step: [rows]; all rows must have
    the same stages and chunks.

    They are those of parameters, gradients, optimizer state and what exchanges of gradients keep, of activations kept
    for all micro-batches in flight, and of what the running pass needs besides. A pipeline's first stages hold the
    activations of as many micro-batches as there are stages to come, and of more where stages are interleaved.
    """
    state, kept, passing = memory_parts(job, rows)
    fullest: Floats = (state + _flying(rows, kept) + passing).max(axis=1)
    return fullest


def _state(job: Job, rows: Strategies, edges: Ints) -> Floats:
    """Return the bytes of parameters, gradients, optimizer state and what exchanges of gradients keep, of a rank of
    each stage: [rows, stages]. Included with ZeRO-3 and hybrid sharding are the whole parameters of the largest units
    that are gathered at one time (one, and as many more as the setting ``prefetch`` says) and the gradients of one,
    unless the strategy is data parallelism alone or the accelerator takes parameters in as they are broadcast. With
    ZeRO-2 by micro-batch gradients count as a rank's share and those of the largest unit. Parameters that no operator
    uses lie on the first stage.

    ``edges`` are the first operators of the chunks and, last, the number of operators.
    """
    settings, stages = job.settings, rows.stages
    combination, row = combinations(rows)
    begins = np.searchsorted(job.model.starts, edges[:-1])
    blocks = job.model.held_blocks(combination)
    held = by_stage(np.add.reduceat(blocks, begins, axis=2), stages)[:, row]
    largest_units = np.maximum.reduceat(blocks.sum(axis=0), begins, axis=1)
    largest: Floats = largest_units.reshape(len(largest_units), -1, stages).max(axis=1)[row]
    held[0, :, 0] += job.graph.unused_parameters
    shared = shares(rows, held, state_sharers(rows.sharding, rows.replicas, rows.tp, job.fabric.node_ranks))
    total: Floats = held.sum(axis=0)
    parameter, gradient = settings.sharded_parameter_bytes, settings.sharded_gradient_bytes
    master = settings.stored_parameter_bytes + settings.optimizer_state_bytes
    alike = shared * (master + settings.stored_parameter_bytes)
    once = settings.zero_2_exchange == "step"
    states = [
        (NONE, total * (master + settings.gradient_bytes)),
        (ZERO_1, shared * master + total * (parameter + settings.gradient_bytes)),
        (ZERO_2, alike + total * parameter + (total if once else largest) * gradient),
    ]
    # Units that are gathered for the moment, and the gradients of one that are reduced.
    at_once = (settings.prefetch + 1) * parameter + gradient
    gathered = np.where(~rows.plain[:, None] & (not job.accelerator.takes_in_broadcasts), largest * at_once, 0.0)
    choices = [(rows.sharding == sharding)[:, None] for sharding, _ in states]
    kept = total * job.kept_bytes(rows.exchange)[:, None]
    return kept + np.select(choices, [nbytes for _, nbytes in states], alike + gathered)


def _flying(rows: Strategies, kept: Floats) -> Floats:
    """Return the most bytes that a rank of each stage holds for all micro-batches in flight at once in a 1F1B pipeline,
    interleaved where a stage has several chunks: [rows, stages]. ``kept`` are the bytes that each chunk keeps of one
    micro-batch: [rows, chunks]."""
    stages, virtual = rows.stages, int(rows.virtual_stages[0])
    of_stage, found = kept.reshape(len(rows), virtual, stages), np.zeros((len(rows), stages))
    for micro_batches in np.unique(rows.micro_batches):
        which = np.flatnonzero(rows.micro_batches == micro_batches)
        for stage, counts in enumerate(in_flight(stages, int(micro_batches), virtual)):
            found[which, stage] = (of_stage[which, :, stage] @ counts.T).max(axis=1)
    return found


def _activations(job: Job, rows: Strategies, edges: Ints) -> tuple[Floats, Floats]:
    """Return two arrays [rows, chunks]: the bytes of activations that a rank keeps of each chunk for each micro-batch
    in flight, and the bytes that the micro-batch whose pass runs needs besides, the most over the chunk's blocks. Of
    what is recomputed nothing is kept; with "full" recomputation the outputs that enter each block are. A block needs
    besides what is made again in its backward pass, or what the loss holds, whichever is more; and where layers are
    split by neurons, what a rank lacks of one layer's whole input, twice (its gradient too), unless the accelerator
    computes on broadcasts as they arrive.

    ``edges`` are the first operators of the chunks and, last, the number of operators.
    """
    model = job.model
    columns, starts = model.sorts, model.starts
    in_slices = (columns["sliced"] == 1) | ((columns["sequenced"] == 1) & rows.sequence_parallel[:, None])
    divisor = np.where(in_slices, rows.tp[:, None], 1)
    saved, regenerated = (nbytes(rows.samples, rows.cp) / divisor for nbytes in (columns.kept, columns.regenerated))
    ends, first = np.append(starts, len(job.graph.operators)), np.searchsorted(starts, edges[:-1])
    # What is recomputed is dropped, except outputs of attention's inside that other operators read.
    dropped = repetitions(columns["in_block"], columns["inside_core"], rows.recomputation)
    scores = columns["scores"] * (rows.samples / columns.batch / rows.tp / rows.cp)[:, None]
    score_bytes = scores * (SCORE_TENSORS * columns.element_bytes)
    again = (rows.recomputation != RECOMPUTATIONS.index("none"))[:, None]
    kept = np.add.reduceat(model.sums(saved * (1 - dropped) + np.where(again, 0.0, score_bytes), ends), first, axis=1)
    # The block whose backward pass runs has everything again.
    passing_bytes = saved * dropped + regenerated + np.where(again, score_bytes, 0.0)
    # The loss is gone by then.
    logits = columns["kernel_losses"] * columns.outputs(rows.samples, rows.cp) / columns.element_bytes / divisor
    loss_bytes = logits * bytes_of_logit(columns.element_bytes)
    worst = np.maximum(model.sums(passing_bytes, ends), model.sums(loss_bytes, ends))
    if model.split.of_neurons and not job.accelerator.takes_in_broadcasts:
        # A layer at a time has its input whole, and as many summands of its gradient.
        whole = 2 * columns["gathered"] * columns.inputs(rows.samples, rows.cp) * (1 - 1 / rows.tp[:, None])
        worst = worst + np.maximum.reduceat(whole[:, model.sort], starts, axis=1)
    passing = np.maximum.reduceat(worst, first, axis=1)
    entering = np.add.reduceat(model.entering(rows, starts), first, axis=1)
    full: Mask = (rows.recomputation == RECOMPUTATIONS.index("full"))[:, None]
    return kept + np.where(full, entering, 0.0), passing


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
    """Seconds that networks transmit, change circuits or wait for a codec, hidden or not; but for data parallelism
    alone, seconds of all exchanges and sends, summed over all stages."""
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
        """Intervals of the step: those of the simulation for data parallelism alone, otherwise of tasks that are made
        of the stages and run when this is first asked for."""
        if self.result is not None:
            return self.result.timeline
        assert self.stages is not None
        return run(lower_pipelined(self.stages))


def simulate(job: Job, strategy: Strategy) -> StrategyStep:
    """Return one simulated step of a strategy: of data parallelism alone bucket by bucket or unit by unit, of
    everything else stage by stage, its axes on the division of the channels that takes the least time. The step has its
    seconds, their breakdown (by what a rank waits for), the seconds of communication, the largest collectives, and
    details: ``result`` and ``prices`` for data parallelism alone, else ``stages``, ``spent`` and, where axes hold
    channels of their own, ``division``.

    Raises:
        UnsupportedError: the fabric has too few channels for the axes, or no algorithm serves an exchange.
    """
    if strategy.plain:
        return _data_parallel(job, strategy)
    job = on_divided_channels(job, strategy)
    uses: list[ExchangeUse] = []
    stages = _pipelined(job, strategy, uses)
    return StrategyStep(
        step_time=stages.step_time,
        breakdown=stages.breakdown(),
        communication_time=stages.transmission,
        exchanges=largest_uses(uses),
        stages=stages,
        spent=stages.spent,
        division=None if job.shares is None else job.shares.division,
    )


def on_divided_channels(job: Job, strategy: Strategy) -> Job:
    """Return the job at the prices of the division of channels among the strategy's axes, whose circuits stand at once,
    that gives the least step time. The job itself is returned for data parallelism alone, for a single axis whose
    exchange method has phases of its own, and where channels are not divided or are divided already.

    Raises:
        UnsupportedError: there are fewer channels than the axes need, or no algorithm serves several axes on any
            division; of a single axis that shows only when it is priced.
    """
    axes, fabric = () if strategy.plain else live_axes(strategy), job.fabric
    if not axes or job.shares is not None or not isinstance(job.pricing, GroupPrices) or not divides(fabric):
        return job
    if len(axes) == 1 and job.phased(np.array(strategy.exchange)):
        # Its collectives follow each other, with circuits of their own on all channels.
        return job
    needed = sum(axis.unit(fabric) for axis in axes)
    if needed > fabric.shared_channels:
        names, what = " and ".join(axis.name for axis in axes), "planes" if fabric.switch_planes else "wavelengths"
        raise UnsupportedError(
            f"circuits of {names} groups that stand at once need {needed} {what} of every link; the fabric has "
            f"{fabric.shared_channels}"
        )
    return _DivisionSearch(job, job.pricing, Divisions(fabric, axes), partial(stage_seconds, strategy=strategy)).best()


_CLOSE = 0.99
"""Divisions are not priced by schedules that would be faster by less than this."""


@dataclass(frozen=True)
class _DivisionSearch:
    """The search for the division of a fabric's channels among axes with the least step time.

    Divisions are taken in the order of the step at :class:`ScaledChannels`, from equal parts on, from each to those
    that differ by one part; each is priced by schedules of its own, until no other could be faster.
    """

    job: Job
    pricing: GroupPrices
    space: Divisions
    step_time: Callable[[Job], float]
    _scaled: dict[tuple[int, ...], float] = field(default_factory=dict)
    """Seconds at scaled prices, by channels."""

    def best(self) -> Job:
        """Return the job on the division of the least step time found.

        A single axis has all channels without a search. Of several, the search goes at scaled prices from equal parts
        to the best of those that differ by one part moved, until none is better; the divisions estimated on the way are
        then priced by schedules, in the order of their estimates, until an estimate is above 0.99 of the best step
        found.

        Raises:
            UnsupportedError: no algorithm serves several axes on any division tried; the last reason is given.
        """
        parts = self.space.equal()
        if len(parts) == 1:
            return self._divided(DividedChannels, self._channels(parts))
        while (nearest := min([parts, *self.space.neighbours(parts)], key=self._estimate)) != parts:
            parts = nearest
        best: tuple[float, Job] | None = None
        failure: UnsupportedError | None = None
        for channels, estimate in sorted(self._scaled.items(), key=lambda entry: entry[1]):
            if best is not None and estimate > _CLOSE * best[0]:
                break
            job = self._divided(DividedChannels, channels)
            try:
                seconds = self.step_time(job)
            except UnsupportedError as error:
                failure = error
                continue
            best = (seconds, job) if best is None or seconds < best[0] else best
        if best is None:
            raise failure or UnsupportedError("no algorithm serves the axes on any division of the channels")
        return best[1]

    def _channels(self, parts: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of channels of each axis, [axis], for ``parts``, how many of the equal parts of all
        channels (at most 8) each axis has: [axis], rounded down to a multiple of the axis' unit (a plane of a switch;
        on a WDM ring a wavelength for each group that interleaves, twice as many where they do not reach around it; 1
        or 2 for the pipeline), one unit at least. There must be enough channels for all axes."""
        channels = self.space.channels(parts)
        assert channels is not None  # there are as many as the axes need at least
        return channels

    def _estimate(self, parts: tuple[int, ...]) -> float:
        """Return the seconds of the step at the scaled prices of a division that gives each axis so many of the equal
        parts of the channels, ``parts`` [axis], cached by its channels; infinite, and not cached, where no algorithm
        serves the axes."""
        channels = self._channels(parts)
        if channels not in self._scaled:
            try:
                self._scaled[channels] = self.step_time(self._divided(ScaledChannels, channels))
            except UnsupportedError:
                return inf
        return self._scaled[channels]

    def _divided(self, channels_of: type[DividedChannels], channels: tuple[int, ...]) -> Job:
        """Return the job at prices of the division in which the axes have these numbers of channels, [axis].
        ``channels_of`` is the type that prices them: DividedChannels exactly, ScaledChannels by an estimate."""
        division = Division(self.space.fabric, self.space.axes, channels)
        return replace(self.job, shares=channels_of(self.pricing, division))


def stage_seconds(job: Job, strategy: Strategy) -> float:
    """Return the step time in seconds of a strategy other than data parallelism alone, at the prices of the job as it
    is: channels are not divided here."""
    return _pipelined(job, strategy).step_time


def _pipelined(job: Job, strategy: Strategy, uses: list[ExchangeUse] | None = None) -> PipelinedStep:
    """Return the step, stage by stage, of a strategy other than data parallelism alone, with the times of a smaller
    last micro-batch where there is one. ``uses``, where given, is extended in place by the collectives, without those
    of a smaller last micro-batch."""
    last = exact_stage_times(job, strategy.last_micro_batch) if strategy.last_samples != strategy.samples else None
    times = exact_stage_times(job, strategy, uses)
    share = job.fabric.arithmetic_share
    return PipelinedStep(times=times, micro_batches=strategy.micro_batches, last=last, arithmetic_share=share)


def strategy_seconds(job: Job, strategy: Strategy) -> float:
    """Return the step time of a strategy in seconds as :func:`simulate` finds it, without the other fields of a
    :class:`StrategyStep`, and with the same errors. Circuits are taken to be in place; of data parallelism alone
    schedules of one size for all exchanges are not tried (:func:`data_parallel_seconds`)."""
    if strategy.plain:
        return data_parallel_seconds(job, strategy)
    return stage_seconds(on_divided_channels(job, strategy), strategy)


def exact_stage_times(job: Job, strategy: Strategy, uses: list[ExchangeUse] | None = None) -> StageTimes:
    """Return the seconds of each chunk and stage of one strategy, every exchange at the price of its own size, circuits
    in place; arrays [chunks] or [stages].

    Args:
        job: where the strategy runs.
        strategy: other than data parallelism alone.
        uses: list that is extended in place by the collectives that the step takes, gradients unit by unit or whole as
            it exchanges them; None to record none.
    """
    rows = Strategies.of(strategy)
    sends = stage_sends(job, rows, exchange_seconds(job, strategy.algorithm))
    sharing = job.shares is None
    times = stage_times(job, rows, exchange_seconds(job, strategy.algorithm), sends, sharing=sharing)
    if uses is not None:
        recorded = exchange_seconds(job, strategy.algorithm, uses)
        tensor_exchange(GATHER, rows, sends.gathered, recorded)
        stage_exchanges(job, rows, recorded, sharing=sharing, by_unit=times.lead > 0)
    return times.row(0)


def step_seconds(job: Job, rows: Strategies, axis_times: AxisTimes) -> Floats:
    """Return the step times of strategies as :func:`simulate` finds them one by one where channels are not divided
    among axes: [rows].

    Args:
        job: where the strategies run.
        rows: other than data parallelism alone, of as many stages and chunks each, their micro-batches all alike.
        axis_times: returns, for an axis, the function that gives the exact seconds of collectives in its groups.
    """
    times, share = stage_times(job, rows, axis_times), job.fabric.arithmetic_share
    steps = (
        PipelinedStep(times=times.row(row), micro_batches=count, arithmetic_share=share)
        for row, count in enumerate(rows.micro_batches.tolist())
    )
    return np.array([step.step_time for step in steps])


def data_parallel_seconds(job: Job, strategy: Strategy) -> float:
    """Return the step time in seconds of a strategy that is data parallelism alone, as :func:`simulate` finds it where
    circuits are in place. Each exchange has the schedule of its own size; those of one size for all, which
    :func:`simulate` tries too where an algorithm builds by size, are not tried, so that the result may be longer."""
    plan, rows = job.data_parallel_plan(strategy), Strategies.of(strategy)
    price = _free if strategy.dp == 1 else job.pricing.price(strategy.algorithm, strategy.dp, strategy.exchange)
    forward, backward = job.operators.passes(rows.samples, rows.tp, rows.recomputation)
    update = job.accelerator.update_time(plan.updated_parameters * float(job.settings.optimizer_traffic_bytes))
    computing = np.concatenate([forward[0], backward[0, ::-1], [update]])
    sizes = [(each.kind, each.nbytes) for each in plan.exchanges]
    seconds = {size: price(*size).cost.repeated_time for size in set(sizes)}
    exchanging = np.array([seconds[size] for size in sizes])
    return step_duration(plan, computing, exchanging, overlap=job.overlap, arithmetic_share=job.fabric.arithmetic_share)


def _data_parallel(job: Job, strategy: Strategy) -> StrategyStep:
    """Return the simulated step of a strategy that is data parallelism alone.

    Where one named algorithm builds its schedules by size, it is the fastest of the step in which each exchange has the
    schedule for its size, and of the steps in which all have that for one of these sizes, so that circuits stay; of
    equal ones that with the least communication. ``exchanges`` name the algorithm that the schedule of each exchange's
    own size has.
    """
    plan = job.data_parallel_plan(strategy)
    price = _free if strategy.dp == 1 else job.pricing.price(strategy.algorithm, strategy.dp, strategy.exchange)
    own, options = price, [price]
    if isinstance(price, CheapestPrices) and plan.exchanges:
        first = price.choice(plan.exchanges[0].kind, plan.exchanges[0].nbytes)
        by_size = first.algorithm.by_size and first.algorithm.name == strategy.algorithm
        if by_size and isinstance(first, SchedulePrices):
            sizes = sorted({first.built_for(each.kind, each.nbytes) for each in plan.exchanges})
            options = [first, *(first.at(size) for size in sizes if len(sizes) > 1)]
    computing = job.computing(strategy)
    step = partial(simulate_step, plan, job.accelerator, job.fabric, overlap=job.overlap, computing=computing)
    steps = [(step(each), each) for each in options]
    result, price = min(steps, key=lambda step: (step[0].step_time, step[0].communication_time))
    uses = [
        ExchangeUse(each.kind, strategy.dp, 1, each.nbytes, own(each.kind, each.nbytes).algorithm)
        for each in plan.exchanges
        if strategy.dp > 1
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
    """Return the price of an exchange in a group of one rank, whatever its kind and bytes: no steps, seconds or
    joules."""
    cost = Cost(
        steps=0, time=0.0, transmission=0.0, conversion=0.0, reconfiguration=0.0, setup=0.0, static=True, energy=0.0
    )
    return Priced(cost=cost)


def exchange_seconds(job: Job, name: str, uses: list[ExchangeUse] | None = None) -> AxisTimes:
    """Return a function that takes an axis and returns the function that gives the seconds of exchanges on it
    (:func:`exchange_costs`) in groups like that of the first row, by the algorithm ``name`` ("auto" for the cheapest),
    circuits in place; each collective that it prices is appended to ``uses``, where given."""
    return exchange_costs(job, name, lambda cost, _: cost.repeated_time, uses)


def exchange_costs(
    job: Job, name: str, amount: Callable[[Cost, int], float | None], uses: list[ExchangeUse] | None = None
) -> AxisTimes:
    """Return a function that takes an axis and returns the function by which columns of exchanges on it are counted, of
    kind, algorithm (ignored), ranks, stride, exchange and bytes: an amount of each collective, in the shape of its
    bytes, all in groups like that of the first row. It is 0 for collectives of no bytes and in groups of one rank; on
    divided channels, each axis is priced on its own share.

    Args:
        job: where they take place.
        name: the algorithm, or "auto" for the cheapest.
        amount: returns the amount from a collective's cost and its number of ranks; None, where that is unknown,
            becomes not-a-number.
        uses: list to which each collective that is priced is appended; None to record none.
    """

    def amounts(axis: Axis, kind: Kind, _: Ints, ranks: Ints, stride: Ints, exchange: Ints, nbytes: Floats) -> Floats:
        """Return what ``amount`` counts of the cost of each collective, in the shape of ``nbytes``, all in groups like
        that of the first row; 0 for those of no bytes."""
        if ranks[0] == 1:
            return np.zeros_like(nbytes)
        pricing = job.pricing if job.shares is None else job.shares.pricing(axis)
        count, apart = int(ranks[0]), int(stride[0])
        price = pricing.price(name, count, int(exchange[0]), apart)
        sizes, where = np.unique(nbytes, return_inverse=True)
        priced = [price(kind, size) if size else None for size in sizes.tolist()]
        if uses is not None:
            known = zip(sizes.tolist(), priced, strict=True)
            uses.extend(ExchangeUse(kind, count, apart, size, one.algorithm) for size, one in known if one)
        of_size = [0.0 if one is None else amount(one.cost, count) for one in priced]
        return np.array(of_size, np.float64)[where].reshape(nbytes.shape)

    return lambda axis: partial(amounts, axis)


def largest_uses(uses: Iterable[ExchangeUse]) -> tuple[ExchangeUse, ...]:
    """Return one use, that of the largest size, for each combination of kind, ranks, stride and algorithm; sorted by
    bytes, the largest first."""
    ascending = sorted(uses, key=lambda use: use.nbytes)
    largest = {(use.kind, use.ranks, use.stride, use.algorithm): use for use in ascending}
    return tuple(sorted(largest.values(), key=lambda use: (-use.nbytes, use)))


# Joules of sending in a plan's step: what its collectives and sends cost over all ranks.


def placed_joules(job: Job, step: PlacedStep, ratio: float = 1.0) -> float | None:
    """Return the joules of sending in a placed plan's step over all ranks, all micro-batches included; None where the
    fabric states no energy of a bit. On circuits, relayed bytes count once for each lightpath that they pass.

    Args:
        job: where the plan runs.
        step: simulated.
        ratio: bytes of a gradient as float32 for each byte sent to the next group, 1 without a codec; not used on
            circuits, where the step states the bytes that are sent.
    """
    plan, fabric = step.plan, job.fabric
    if fabric.exclusive:
        nbytes, source = np.array([step.sent_bytes * plan.groups]), np.zeros(1, np.int64)
        return sending_energy(fabric, nbytes, source, source)
    if fabric.energy_per_bit is None:
        return None
    traffic = plan.traffic
    total = traffic.model_parallel + traffic.data_parallel / float(sent_ratio(job.settings, np.array(ratio)))
    if step.micro_batches > 1:
        total = total + (step.micro_batches - 1) * plan.activation_traffic
    pairs = total.tocoo()
    return sending_energy(fabric, pairs.data, pairs.row.astype(np.int64), pairs.col.astype(np.int64))


def strategy_joules(job: Job, strategy: Strategy, step: StrategyStep) -> float | None:
    """Return the joules of sending in a simulated step of a strategy over all ranks; None where those of any part are
    not known, as where the fabric states no energy of a bit."""
    if step.result is not None:
        return step.result.sent_joules
    joules = exchange_costs(job, strategy.algorithm, lambda cost, ranks: cost.energy and cost.energy / ranks)
    total = _over_all_ranks(job, strategy, joules, partial(_sends, job))
    return None if np.isnan(total) else total


def _over_all_ranks(
    job: Job, strategy: Strategy, amount: AxisTimes, sends: Callable[[float, int, int], float]
) -> float:
    """Return the sum over all ranks of an amount, such as joules or bytes, of everything that a step of stages
    exchanges: collectives of all axes, sends between stages forward and backward, blocks of keys and values and sums of
    tied tables, over all micro-batches (a smaller last one by its samples).

    Args:
        job: where the strategy runs.
        strategy: other than data parallelism alone.
        amount: returns, for an axis, the function that gives the amount of collectives for each of their ranks.
        sends: returns the amount of a send in which so many ranks (second argument) each send so many bytes (first) to
            the rank at a stride (third; negative from the last stage back to the first).
    """
    rows = Strategies.of(strategy)
    # The same bytes unit by unit or all at once.
    at_once = np.zeros((1, strategy.pp * strategy.virtual_stages), np.bool_)
    exchanges = stage_exchanges(job, rows, amount, sharing=False, by_unit=at_once)
    replicas, units = exchanges.replicas, job.model.units(job.model.chunks(rows))
    first, other = (unit.gather + unit.regather + unit.scatter for unit in (replicas.first, replicas.other))
    in_units = float((first + (units - 1) * other).sum())
    # A smaller last micro-batch counts by its samples, as bytes do.
    whole = strategy.global_batch / strategy.dp / strategy.samples
    passes = float((exchanges.forward + exchanges.backward).sum()) * whole + in_units * strategy.micro_batches
    once = sum(float(each.sum()) for each in (replicas.gather, replicas.exchange, exchanges.token_gradients))
    sent = stage_sends(job, rows, exchange_seconds(job, strategy.algorithm))
    gathered = float(tensor_exchange(GATHER, rows, sent.gathered, amount).sum())
    ranks = strategy.replicas * strategy.tp
    total = sends(2 * whole * float(sent.nbytes.sum()), ranks, ranks)
    for each in exchanges.tied:
        for sender, receiver in zip(each.stages, np.roll(each.stages, -1).tolist(), strict=True):
            total += sends(float(each.nbytes[0]), ranks, (receiver - sender) * ranks)
    total += sends(whole * _ring_bytes(job, rows), ranks, strategy.tp)
    return total + ranks * (passes + once + 2 * whole * gathered)


def sent_and_set(job: Job, strategy: Strategy, step: StrategyStep) -> tuple[float, float]:
    """Return the bytes that a rank gives to the network in a simulated step, and how many times its circuits are set in
    it; means over all ranks.

    Bytes (coded ones as they are sent) are as few as carry a collective whatever the algorithm: each once where they
    are added up on their way, else those of a ring. Circuits count as set as often as a collective's seconds of
    reconfiguration hold the fabric's set-up time (the longest of its parts'); those that stand from step to step count
    as never set, and so do those of sends between stages.
    """
    setting = max(part.setup_time for part in (job.fabric, *job.fabric.parts))

    def sent(kind: Kind, _: Ints, ranks: Ints, stride: Ints, exchange: Ints, nbytes: Floats) -> Floats:
        """Return the bytes that a rank of a group sends in each collective: in the shape of ``nbytes``."""
        if ranks[0] == 1:
            return np.zeros_like(nbytes)
        price = job.pricing.price(strategy.algorithm, int(ranks[0]), int(exchange[0]), int(stride[0]))
        sizes, where = np.unique(nbytes, return_inverse=True)
        given = [given_bytes(price, kind, size, int(ranks[0])) if size else 0.0 for size in sizes.tolist()]
        return np.array(given)[where].reshape(nbytes.shape)

    def set_anew(cost: Cost, _: int) -> float:
        """Return how often a collective sets circuits, those that stand left out."""
        return 0.0 if cost.static or not setting else cost.reconfiguration / setting

    ranks, changes = job.fabric.ranks, exchange_costs(job, strategy.algorithm, set_anew)
    if step.result is None:
        nbytes = _over_all_ranks(job, strategy, lambda _: sent, lambda size, senders, _: size * senders)
        return nbytes / ranks, _over_all_ranks(job, strategy, changes, lambda *_: 0.0) / ranks
    one, nbytes, times = np.ones(1, np.int64), 0.0, 0.0
    for each in step.result.plan.exchanges:
        group, method, size = one * strategy.dp, one * strategy.exchange, np.array([float(each.nbytes)])
        nbytes += float(sent(each.kind, one, group, one, method, size)[0])
        times += float(changes("data")(each.kind, one, group, one, method, size)[0])
    return nbytes, times


def _ring_bytes(job: Job, rows: Strategies) -> float:
    """Return the bytes of keys, values and their gradients that one rank of each stage sends around its context group
    in a micro-batch, those of a repeated forward pass included, summed over stages; 0 where cp is 1. ``rows`` is a
    single row."""
    columns, sent = job.model.columns, np.float64(rows.cp[0] - 1)
    nbytes = columns.key_value_bytes(rows.samples, rows.tp, rows.cp)
    passes = sent * (1 + repetitions(columns["in_block"], columns["core"], rows.recomputation)) + 2 * sent + 1
    return float((nbytes * passes).sum()) if sent else 0.0


def _sends(job: Job, nbytes: float, ranks: int, stride: int) -> float:
    """Return the joules of a send in which ``ranks`` ranks each send ``nbytes`` bytes to the rank ``stride`` further
    on, round the end of the fabric, taken as the mean over all its ranks as senders; 0 for no bytes; not-a-number where
    the fabric states no energy of a bit."""
    if not nbytes:
        return 0.0
    source = np.arange(job.fabric.ranks)
    away = (source + stride) % job.fabric.ranks
    joules = sending_energy(job.fabric, np.full(len(source), nbytes * ranks / len(source)), source, away)
    return float("nan") if joules is None else joules


# The largest collective of every axis of a step as a joint schedule: proof that all circuits stand at once.


def joint_parts(job: Job, strategy: Strategy, step: StrategyStep) -> list[Part]:
    """Return, in the order of the division's axes, the largest collective of every axis that has one (of context groups
    the all-gather of no bytes by a striped ring, in place of keys and values), each as a ``GroupPart`` with its share
    of the channels and its verified schedule, and of the pipeline, as a ``ShiftPart``, what every rank sends to the
    next stage (the largest over chunks).

    Args:
        job: on divided channels.
        strategy: the strategy that was simulated.
        step: its simulated step.

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
    """Prove that the circuits of all axes of a simulated step of the strategy, by the largest collective of each axis
    that has one (of context groups an all-gather of no bytes by a striped ring) and the sends of the pipeline, stand at
    once; nothing is returned.

    Raises:
        VerificationError: two of them hold one channel of a link.
        ValueError: no axes divide the channels.
    """
    verify_joint(joint_parts(job, strategy, step), job.fabric.embedding())


def _schedule(job: Job, strategy: Strategy, number: int, step: StrategyStep) -> Schedule | None:
    """Return the verified schedule of the largest collective of the axis at index ``number``, from 0, of the step's
    division; None where the step has no collective of that axis. For context groups it is the striped ring's all-gather
    of no bytes, whose way keys and values take."""
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
