"""Counters of a trace beside a plan's timeline: bytes on links, memory, and wavelengths that are lit.

    load          bytes of every transmission over its seconds; its integral is what the timeline's transmissions send
    memory        of a rank of the fullest stage; its peak is the plan's memory
    wavelengths   different channels that carry light in some step of the collectives that transmit, over all axes

What sharded parameters and rings of context groups take beside computing has no interval of its own in a timeline of
stages, so that the load leaves their bytes out.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.errors import UnsupportedError
from lightloom.core.timeline import SHARES, Counter, Interval, Timeline
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing.group_prices import DividedChannels, GroupPrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.step import stage_sends
from lightloom.planning.pricing.strategy_step import StrategyStep, exchange_seconds, memory_parts
from lightloom.planning.reconfiguration.phases import collective_bytes, step_bytes
from lightloom.planning.search.plans import Plan
from lightloom.planning.simulation.pipelined import PipelinedStep

_AXES = {"shards": ("tensor", "expert"), "replicas": ("data", "expert-data"), "gradients": ("data", "expert-data")}
"""Axes that transmit on a resource of a stage; links between stages are those of the pipeline."""


def counted(plan: Plan) -> tuple[Timeline, list[Counter]]:
    """Return a plan's timeline with the bytes of its transmissions as the detail ``bytes``, and those of its counters
    that have any moment: "load (bytes/s)" of all transmissions together, "memory of the fullest rank (bytes)", and
    "wavelengths lit" or "planes lit" (:func:`_wavelengths`). Bytes are those of one collective (``Collective.nbytes``)
    or of one rank's send, not of all groups or ranks; an interval that stands for exchanges of several axes has their
    sum."""
    timeline, step = plan.timeline, plan.step
    if isinstance(step, StrategyStep) and step.stages is not None and isinstance(plan.choice, Strategy):
        job = plan.job
        if step.division is not None and isinstance(job.pricing, GroupPrices):
            job = replace(job, shares=DividedChannels(job.pricing, step.division))
        nbytes = _part_bytes(job, plan.choice, step.stages)
        timeline = Timeline(tuple(_with_bytes(interval, nbytes) for interval in timeline.intervals))
    counters = (timeline.load(), _memory_counter(plan, timeline), *_wavelengths(plan, timeline))
    return timeline, [counter for counter in counters if counter.moments]


def _part_bytes(job: Job, strategy: Strategy, step: PipelinedStep) -> dict[str, list[float]]:
    """Return the bytes of what a timeline of stages transmits, by part of the step (field of ``StageTimes``), summed
    over axes: a list by chunk or stage. Bytes of collectives are those that ``Collective.nbytes`` counts, those of
    sends include the gather of slices."""
    sends = stage_sends(job, Strategies.of(strategy), exchange_seconds(job, strategy.algorithm))
    sent = sends.nbytes[0] + sends.gathered[0]
    nbytes = step_bytes(job, strategy, step.times.early_exchange, sent, collective_bytes)
    return {part: np.sum([*by_axis.values()], axis=0).tolist() for part, by_axis in nbytes.items() if by_axis}


def _with_bytes(interval: Interval, nbytes: dict[str, list[float]]) -> Interval:
    """Return the interval with the bytes that its part of the step sends as the detail ``bytes``: those of its chunk or
    stage, times the interval's detail ``share`` of the part (1 without it); as it is where the part is not in
    ``nbytes``, which has lists by chunk or stage."""
    part = interval.details.get("part")
    if part not in nbytes:
        return interval
    size = nbytes[part][interval.details["column"]] * interval.details.get("share", 1.0)
    return replace(interval, details={**interval.details, "bytes": size})


def _memory_counter(plan: Plan, timeline: Timeline) -> Counter:
    """Return the counter "memory of the fullest rank (bytes)": what a rank of the fullest stage holds over time, with
    the plan's memory as its peak: activations come at the start of forward passes (of operators for data parallelism
    alone) and go at the end of backward ones, on top of what is held throughout; constant for placed plans."""
    name, end = "memory of the fullest rank (bytes)", timeline.step_time
    if not isinstance(plan.choice, Strategy) or not isinstance(plan.step, StrategyStep):
        return Counter(name, (0.0, end), (plan.memory, plan.memory))
    state, kept, passing = memory_parts(plan.job, Strategies.of(plan.choice))
    if plan.step.result is not None:
        changes = list(_operators_memory(plan.step, timeline, float(kept[0, 0])))
        return _filled(name, changes, plan.memory, end)
    stages, held = plan.choice.pp, state[0] + passing[0]
    found = [list(_passes_memory(timeline, stage, kept[0].tolist())) for stage in range(stages)]
    peaks = [held[stage] + _peak(changes) for stage, changes in enumerate(found)]
    return _filled(name, found[int(np.argmax(peaks))], plan.memory, end)


def _peak(changes: list[tuple[float, float]]) -> float:
    """Return the largest sum of changes (moment, bytes) up to any moment; 0 without changes."""
    return max(Counter.of_changes("", changes).values, default=0.0)


def _filled(name: str, changes: list[tuple[float, float]], memory: float, end: float) -> Counter:
    """Return a counter of the changes (moment, bytes) on top of what is held throughout, so that the largest sum is
    ``memory`` bytes; it runs from 0 to ``end`` seconds."""
    return Counter.of_changes(name, [(0.0, 0.0), *changes, (end, 0.0)], base=memory - _peak(changes))


def _operators_memory(step: StrategyStep, timeline: Timeline, kept: float) -> Iterator[tuple[float, float]]:
    """Yield (moment in seconds, change in bytes) when operators of data parallelism alone keep and drop what their
    backward passes read: at the start of an operator's forward and the end of its backward interval. ``kept`` is the
    bytes of all of them together, to which the operators' own are scaled."""
    assert step.result is not None
    saved = {operator.name: operator.kept_bytes for operator in step.result.plan.graph.operators}
    share = kept / max(sum(saved.values()), 1)
    for interval in timeline.intervals:
        nbytes = share * saved.get(interval.details.get("operator", ""), 0)
        if nbytes and interval.category == "forward":
            yield interval.start, nbytes
        elif nbytes and interval.category == "backward":
            yield interval.end, -nbytes


def _passes_memory(timeline: Timeline, stage: int, kept: list[float]) -> Iterator[tuple[float, float]]:
    """Yield (moment in seconds, change in bytes) when the passes of a stage keep and drop activations of their
    micro-batch: at the start of a forward and the end of a backward pass. ``kept`` is the bytes of one micro-batch by
    chunk."""
    spans: dict[tuple[str, int, int], tuple[float, float]] = {}
    for interval in timeline.on(f"stage {stage}"):
        if "micro_batch" in interval.details:
            key = interval.category, interval.details["column"], interval.details["micro_batch"]
            start, _ = spans.get(key, (interval.start, 0.0))
            spans[key] = start, interval.end
    for (direction, chunk, _), (start, end) in spans.items():
        yield (start, kept[chunk]) if direction == "forward" else (end, -kept[chunk])


def _wavelengths(plan: Plan, timeline: Timeline) -> Iterator[Counter]:
    """Yield the counter, named "wavelengths lit" or on switch planes "planes lit", of channels that are lit over time;
    none on fabrics without circuits, for placed plans, where an exchange has no schedule, and for stages without a
    division of the channels."""
    fabric = plan.cluster.fabric
    if not fabric.exclusive or not isinstance(plan.step, StrategyStep):
        return
    name = "planes lit" if fabric.switch_planes else "wavelengths lit"
    if plan.step.result is not None:
        try:
            changes = list(_lit_by_collectives(plan, timeline))
        except UnsupportedError:  # an exchange of several collectives has no schedule
            return
        yield Counter.of_changes(name, changes)
    elif plan.step.division is not None:
        yield Counter.of_changes(name, _lit_by_axes(timeline, plan.step.division.by_axis()))


def _lit_by_collectives(plan: Plan, timeline: Timeline) -> Iterator[tuple[float, float]]:
    """Yield (moment in seconds, change) of the number of lit channels in a step of data parallelism alone, as the
    schedule of each collective lights them while it transmits.

    Raises:
        UnsupportedError: an exchange has no schedule.
    """
    lit: dict[tuple[str, float], int] = {}
    prices = plan.prices
    assert prices is not None
    for interval in timeline.intervals:
        if interval.category == "transmission":
            key = interval.details["collective"], interval.details["bytes"]
            if key not in lit:
                lit[key] = channels_lit(prices.schedule(*key), plan.cluster.fabric)
            yield interval.start, lit[key]
            yield interval.end, -lit[key]


def channels_lit(schedule: Schedule, fabric: Fabric) -> int:
    """Return the largest number of different channels that carry light in one step of a schedule, all folded copies
    included; in all steps together for a schedule without common steps (queued)."""
    if schedule.folding is not None and schedule.folding.channel.shape[1]:
        schedule = (
            schedule.standing(fabric.fibre_channels) if schedule.queued else schedule.unfolded(fabric.fibre_channels)
        )
    step = np.zeros_like(schedule.step) if schedule.queued else schedule.step
    first = schedule.fibre.astype(np.int64) * fabric.fibre_channels + schedule.first_wavelength
    lightpaths = np.unique(np.stack([step, first, schedule.wavelength_count.astype(np.int64)], axis=1), axis=0)
    lit: dict[int, set[int]] = {}
    for number, channel, width in lightpaths.tolist():
        lit.setdefault(number, set()).update(range(channel, channel + width))
    return max(map(len, lit.values()), default=0)


def _lit_by_axes(timeline: Timeline, channels: dict[str, int]) -> Iterator[tuple[float, float]]:
    """Yield (moment in seconds, change) when the channels of an axis begin and cease to carry light of any stage, axis
    by axis; ``channels`` is the number of channels by axis, and an axis lights all of its channels at once."""
    spans: dict[str, list[Interval]] = {}
    for interval in timeline.intervals:
        if SHARES[interval.category] == "communication":
            resource = interval.resource.split()[0]
            for axis in _AXES.get(resource, ("context",) if resource == "context" else ("pipeline",)):
                spans.setdefault(axis, []).append(interval)
    for axis, intervals in spans.items():
        lit, until = channels.get(axis, 0), -math.inf
        for interval in intervals:  # in order of their start: one span where they overlap or touch
            if interval.start > until:
                if until > -math.inf:
                    yield until, -lit
                yield interval.start, lit
            until = max(until, interval.end)
        yield until, -lit
