"""The fastest settings of a circuit switch along a step: circuits that stand, or that follow the phases of the step.

Every way to part the phases into segments is tried, each segment with the division of the planes that suits its phases
best; the step is then simulated with all turns of the switch, and the fastest one wins. What is tried does not depend
on the reconfiguration time, so that a slower switch never gains more.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from math import ceil, comb
from typing import Any

import numpy as np

from lightloom.core.arrays import Effort, Floats, Mask
from lightloom.core.errors import UnsupportedError
from lightloom.core.timeline import Interval, Timeline
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.parallelism.circuits.circuits import GroupCircuits, Timing
from lightloom.planning.parallelism.circuits.group import Regrant, regrants
from lightloom.planning.parallelism.placement.placement import HybridPlan
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing.group_prices import Axis, PlanePrices, Planes, divisions
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.step import stage_sends
from lightloom.planning.pricing.strategy_step import (
    ExchangeUse,
    StrategyStep,
    exact_stage_times,
    largest_uses,
    simulate,
)
from lightloom.planning.reconfiguration.phases import (
    PHASES,
    REPLICAS,
    WITHIN,
    Numbers,
    Phase,
    PhasedTimes,
    Settings,
    after_the_passes,
    best_division,
    gains,
    nothing,
    plane_numbers,
    segmentations,
    step_bytes,
    turning,
)
from lightloom.planning.simulation.engine import run
from lightloom.planning.simulation.link_turns import SwitchTurns
from lightloom.planning.simulation.pipelined import PipelinedStep, StageTimes, lower_pipelined
from lightloom.planning.simulation.placed_step import PlacedStep
from lightloom.planning.simulation.switch_verify import verify_switching

_OF_THE_LAST_PASS = ("backward", "backward_exchange", "backward_ring", "backward_gather")
MOST_STANDING: Effort = 100
"""Number of divisions of the planes up to which all are simulated for circuits that stand."""
_ROUNDING = 1e-9
_STANDING: tuple[Phase, ...] = ("passes", "last", "gradients")
"""Phases that alternate where stages interleave, so that they share a division there."""


@dataclass(frozen=True)
class SwitchedStep:
    """A step of stages with the divisions of the switch's planes that stand in its phases."""

    settings: Settings
    stages: PipelinedStep
    times: PhasedTimes
    """Seconds of its parts for every way to share out the planes."""

    @property
    def step_time(self) -> float:
        """Duration of the step, in seconds, turns of the switch that something waits for included."""
        return self.stages.step_time

    @cached_property
    def turning(self) -> tuple[Phase, ...]:
        """Phases, in the order of the step, before which some axis gets more planes than it had in the phase before, so
        that the switch turns; the phase before the first is the last one, as steps follow each other."""
        return turning(self.settings)

    @property
    def exposed(self) -> float:
        """Seconds of a step that the rank of the first stage waits for turns of the switch; turns, or parts of them,
        that pass beside its work do not count."""
        return float(self.stages.spent["switch_turn_s"][0])


@dataclass(frozen=True)
class InStep:
    """Gain of setting circuits anew within a step."""

    standing: SwitchedStep | None
    """The fastest step whose circuits stand; None where there are more groups than planes."""
    best: SwitchedStep
    """The fastest of all."""
    reconfiguration_time: float
    """Seconds of a turn."""

    @property
    def gain(self) -> float | None:
        """Seconds by which the fastest step is shorter than the fastest whose circuits stand, 0 where they are the
        same; None where circuits cannot stand."""
        return None if self.standing is None else self.standing.step_time - self.best.step_time

    @property
    def hidden(self) -> float:
        """Seconds of one step's turns that nothing waits for, at the ranks of the first stage: the reconfiguration time
        for each phase before which the switch turns, less what is waited for; 0 where only rounding is left."""
        turns = len(self.best.turning) * self.reconfiguration_time
        hidden = turns - self.best.exposed
        return hidden if hidden > _ROUNDING * turns else 0.0


def follow_the_step(job: Job, strategy: Strategy, prices: PlanePrices) -> InStep | None:
    """Return the simulated step (``best``) with the fastest of all searched settings of the switch along a strategy's
    step, beside the fastest of those whose circuits stand for the whole step (``standing``), and the seconds of a
    reconfiguration; None for data parallelism alone, and where only one kind of groups exchanges.

    A setting gives each axis a number of planes in each phase of the step. Searched are every way to part the phases
    into segments between turns, each segment with the division of the planes that is estimated fastest for it, and the
    divisions that stand, where they are at most 100. All of these are simulated, and the shortest step wins.
    ``standing`` is None where the planes are too few for all axes at once.

    Args:
        job: where the strategy runs.
        strategy: the strategy whose step is simulated.
        prices: prices of exchanges by the planes that each axis has, with the planes of the switch and its
            reconfiguration time.

    Raises:
        UnsupportedError: the switch has fewer planes than one for each axis that exchanges in some one phase, two for a
            pipeline.
    """
    times = PhasedTimes(job, strategy, prices)
    if strategy.plain or len(times.axes) < 2:
        return None
    candidates = list(_Search(times).candidates()) if max(times.least.values()) <= prices.planes else []
    if not candidates:
        raise UnsupportedError(
            f"{prices.planes} switch planes for {len(times.axes)} kinds of groups ({', '.join(times.axes)}): "
            "expected at least one for each kind that exchanges in the same phase, two for a pipeline"
        )
    standing = [
        step for step in candidates if len({tuple(sorted(each.items())) for each in step.settings.values()}) == 1
    ]
    first, best = (min(steps, key=lambda step: step.step_time, default=None) for steps in (standing, candidates))
    assert best is not None
    return InStep(first, best, prices.reconfiguration_time)


class _Search:
    """Search of the settings of one strategy's step, with what has been computed for earlier ones."""

    def __init__(self, times: PhasedTimes) -> None:
        self._times = times
        self._planes = times.prices.planes
        self._late: dict[tuple[object, ...], Floats] = {}
        """Gradients after the last pass."""
        self._seconds: dict[tuple[bool, Axis, int], dict[Phase, float]] = {}
        self._best: dict[tuple[bool, frozenset[Phase], int | None], Planes | None] = {}

    def candidates(self) -> Iterator[SwitchedStep]:
        """Yield the simulated step of every way to part the phases into segments between turns, each segment with the
        division of the planes that is estimated fastest for it, then that of every division that stands for the whole
        step, unless these are more than :data:`MOST_STANDING` (100) or the planes too few for all axes at once: first
        all with gradients beside the last pass, then, where gradients are exchanged, all with gradients after it.

        Left out are ways that would let the passes wait for a turn before the last pass, that part phases which
        alternate in interleaved stages, or that have a segment whose axes need more planes than there are (one each,
        two for a pipeline).
        """
        for beside in (True, False):
            active = {phase: axes for phase, axes in self._times.active(beside=beside).items() if axes}
            if not beside and "gradients" not in active:
                continue
            for segments in segmentations([phase for phase in PHASES if phase in active]):
                if self._times.strategy.virtual_stages > 1 and not _together(segments):
                    continue
                settings = self._settings(segments, active, beside)
                if settings is not None and _passes_go_on(settings, active["passes"]):
                    yield SwitchedStep(settings, self.stages(settings, beside=beside), self._times)
            yield from self._standing([phase for phase in PHASES if phase in active], beside)

    def _standing(self, phases: Sequence[Phase], beside: bool) -> Iterator[SwitchedStep]:
        """Yield the step of every division of the planes, each standing in all of ``phases``, that gives every axis its
        least and leaves no plane over; none where divisions are more than :data:`MOST_STANDING` (100) or the planes too
        few. ``beside`` says whether gradients leave beside the last pass."""
        least = self._times.least
        free = self._planes - sum(least.values()) + len(least)
        if free < len(least) or comb(free - 1, len(least) - 1) > MOST_STANDING:
            return
        for counts in divisions(free, len(least)):
            division = {axis: least[axis] - 1 + count for axis, count in zip(least, counts, strict=True)}
            settings = dict.fromkeys(phases, division)
            yield SwitchedStep(settings, self.stages(settings, beside=beside), self._times)

    def _settings(
        self, segments: Sequence[Sequence[Phase]], active: dict[Phase, tuple[Axis, ...]], beside: bool
    ) -> Settings | None:
        """Return the division of the planes (number by axis) in each phase of ``segments``, phases in the order of a
        step: for the phases of one segment the same, the one of least estimated seconds; None where a segment needs
        more planes than there are. The last pass keeps the planes that the pipeline has in the other passes.

        Args:
            segments: phases that share a division, a list each.
            active: the axes that exchange, by phase.
            beside: whether gradients leave beside the last pass.
        """
        settings: dict[Phase, Planes] = {}
        pinned: dict[Axis, int] = {}
        # Stages are in the last pass while others still send to them: the pipeline's planes stay.
        for segment in sorted(segments, key=lambda phases: "passes" not in phases):
            kept = pinned if "last" in segment else {}
            key = beside, frozenset(segment), kept.get("pipeline")
            if key not in self._best:
                seconds, chosen = partial(self._phase_seconds, beside), {phase: active[phase] for phase in segment}
                self._best[key] = best_division(self._planes, chosen, seconds, self._times.least, kept)
            division = self._best[key]
            if division is None:
                return None
            if "passes" in segment and "pipeline" in division:
                pinned = {"pipeline": division["pipeline"]}
            settings |= dict.fromkeys(segment, division)
        return {phase: settings[phase] for phase in PHASES if phase in settings}

    def _phase_seconds(self, beside: bool, phase: Phase, axis: Axis, planes: int) -> float:
        """Return about how many seconds ``phase`` takes with ``planes`` planes for ``axis`` and all planes of the
        switch for every other axis; ``beside`` says whether gradients leave beside the last pass."""
        key = beside, axis, planes
        if key not in self._seconds:
            division = dict.fromkeys(self._times.axes, self._planes) | {axis: planes}
            times, last = self._times.times(division)
            if not beside:
                times = after_the_passes(times, self._gradients(division, np.zeros(len(times.forward), np.bool_)))
            self._seconds[key] = _phase_seconds(times, last, self._times.strategy.micro_batches)
        return self._seconds[key][phase]

    def _gradients(self, division: Planes, by_unit: Mask) -> Floats:
        """Return the seconds of gradients exchanged after the last pass with a division of the planes: [chunks]; of the
        first unit only for chunks of the mask ``by_unit`` [chunks], whose other gradients go before."""
        # No other axis makes a difference.
        key = tuple(division.get(axis) for axis in REPLICAS), by_unit.tobytes()
        if key not in self._late:
            self._late[key] = self._times.gradients(division, by_unit)
        return self._late[key]

    def _times_at(self, settings: Settings, phase: Phase) -> tuple[StageTimes, StageTimes]:
        """Return the times of a micro-batch and of the last one with the division of a phase; axes without planes
        there, and all axes in a phase without settings, count with all planes."""
        return self._times.times(self._completed(settings.get(phase, {})))

    def _completed(self, division: Planes) -> Planes:
        """Return a division of the planes (number by axis) with one entry for each axis of the strategy that exchanges,
        where axes that ``division`` lacks have all planes of the switch."""
        return {axis: division.get(axis, self._planes) for axis in self._times.axes}

    def stages(self, settings: Settings, *, beside: bool) -> PipelinedStep:
        """Return the step with these settings of the switch, each exchange in the seconds of its phase's division, and
        the turns between: passes, sends and what they exchange as in ``passes``, the backward pass of the last
        micro-batch as in ``last`` where that stands, the rest in the phase that bears its name; in phases without
        settings every axis has all planes; ``beside`` says whether gradients leave beside the last pass."""
        (passes, smaller), (closing, smaller_closing) = (self._times_at(settings, name) for name in ("passes", "last"))
        if "last" not in settings:
            closing, smaller_closing = passes, smaller
        by_unit: Mask = (closing.early_exchange > 0) & beside
        late = closing.late_exchange
        if "gradients" in settings:
            late = self._gradients(self._completed(settings["gradients"]), by_unit)
        times = replace(
            passes,
            gather=self._times_at(settings, "gather")[0].gather,
            early_exchange=closing.early_exchange * beside,
            lead=closing.lead * beside,
            late_exchange=late,
            exchange=self._times_at(settings, "closing")[0].exchange,
            tied=self._times_at(settings, "tied")[0].tied,
        )
        last = replace(smaller, **{name: getattr(smaller_closing, name) for name in _OF_THE_LAST_PASS})
        turns, count = self._turns(settings, times, last), self._times.strategy.micro_batches
        share = self._times.job.fabric.arithmetic_share
        return PipelinedStep(times=times, micro_batches=count, last=last, arithmetic_share=share, turns=turns)

    def _turns(self, settings: Settings, times: StageTimes, last: StageTimes) -> SwitchTurns:
        """Return the switch's turns in a step, [stages] each field: in ``start`` (phase "gather"), ``passes``,
        ``last``, ``gradients``, ``exchange`` (phase "closing") and ``tied`` the reconfiguration time before phases
        whose divisions give some axis more planes, 0 before all others; in ``lead`` and ``tail`` the computing of the
        first and the last pass beside which a turn can hide; ``waits_for_send`` is 1 where another phase takes planes
        from the pipeline, else 0.

        The turn before the first phase begins beside the optimizer's update: what this covers is ``update``, and only
        the rest stands before the phase.

        Args:
            settings: the division of the planes in each phase.
            times: times of the micro-batches before the last.
            last: times of the last micro-batch.
        """
        seconds, update, (lead, tail) = self._times.prices.reconfiguration_time, times.update, self._times.margins
        pipeline: Planes = {axis: count for axis, count in settings["passes"].items() if axis == "pipeline"}
        taken = any(gains(division, pipeline) for division in settings.values())
        values = {"waits_for_send": np.full(len(update), float(taken))}
        for phase in turning(settings):
            length = np.full(len(update), seconds)
            if phase == next(iter(settings)):
                values["update"] = np.minimum(length, update)
                length = np.maximum(length - update, 0.0)
            values[{"gather": "start", "closing": "exchange"}.get(phase, phase)] = length
        least = np.where(times.early_exchange > 0, times.lead, 1.0)[: len(update)] * last.backward[: len(update)]
        values["lead"] = np.minimum(lead, np.minimum(times.forward, last.forward)[: len(update)])
        values["tail"] = np.minimum(tail, least)
        return replace(SwitchTurns.none(len(update)), **values)


def _passes_go_on(settings: Settings, axes: Sequence[Axis]) -> bool:
    """Return whether none of the ``axes`` of the passes has more planes in the last pass than in the passes before it,
    so that they need not wait for a turn."""
    before, after = settings["passes"], settings.get("last", settings["passes"])
    return not any(after[axis] > before[axis] for axis in axes)


def _together(segments: Sequence[Sequence[Phase]]) -> bool:
    """Return whether the phases that alternate in interleaved stages (``_STANDING``: passes, last pass and gradients)
    are in at most one of the segments."""
    return sum(any(phase in _STANDING for phase in segment) for segment in segments) <= 1


def _phase_seconds(times: StageTimes, last: StageTimes, micro_batches: int) -> dict[Phase, float]:
    """Return about how many seconds each of the six phases takes, by phase: the passes as those of a full pipeline of
    the slowest stage, the last pass through all chunks in turn and with what it does not hide of the gradients beside
    it, both with all sends between stages; the others as on their slowest stage or chunk. The keys are ``gather``,
    ``passes``, ``last``, ``gradients``, ``closing`` and ``tied``.

    ``times`` are those of the ``micro_batches`` - 1 micro-batches before the last, ``last`` those of the last one.
    """
    stages = len(times.gather)
    forward, backward = times.passes
    work = (forward + backward).reshape(-1, stages).sum(axis=0).max()
    sending = float(times.send.sum())
    beside = np.maximum(times.early_exchange - times.lead * last.computed_backward, 0.0).max()
    return {
        "gather": float(times.gather.max()),
        "passes": float((micro_batches - 1) * work + forward.sum()) + sending,
        "last": float(last.passes[1].sum() + beside) + sending,
        "gradients": float(times.late_exchange.max()),
        "closing": float(times.exchange.max()),
        "tied": float(times.tied.max()),
    }


# Placed plans whose circuits are granted anew within a step, from what waits: SiP-ML's rescheduling (section 3.3).

HOLDS = (10, 4)
"""Lengths of a hold in reconfiguration times that are tried: a duty cycle of 91 % (SiP-ML, section 3.1), and of 80 %
(the hold of simulators that were built after it)."""
MOST_GRANTS = 1000
"""Holds of a step at most; longer steps have longer holds."""

Simulated = Callable[[GroupCircuits, Regrant], PlacedStep]
"""The step of a plan over circuits that are granted anew."""


@dataclass(frozen=True, kw_only=True)
class RegrantedStep(PlacedStep):
    """A placed step whose circuits are granted anew before every hold."""

    standing_time: float
    """Seconds of the same step over circuits that are granted once for all of its traffic."""

    @property
    def timing(self) -> Timing:
        """Seconds of a hold and of a reconfiguration."""
        assert self.circuits.timing is not None
        return self.circuits.timing

    @property
    def grants(self) -> int:
        """Number of holds that the step goes on for (its time over a hold with a reconfiguration, rounded up), which is
        the most grants that it can have: where nothing waits, circuits stay."""
        return ceil(self.step_time / self.timing.period)

    @property
    def gain(self) -> float:
        """Seconds that the step gets shorter than over circuits granted once."""
        return self.standing_time - self.step_time


def faster_regranted(step: PlacedStep, plan: HybridPlan, fabric: Fabric, simulated: Simulated) -> PlacedStep:
    """Return the fastest of a step over circuits granted once and those with circuits granted anew before every hold,
    these as a ``RegrantedStep``; the step itself where none of them is faster.

    Holds of 10 and of 4 reconfiguration times are tried, and longer ones where a step would have more than
    :data:`MOST_GRANTS` (1,000) grants; none where the fabric assigns no circuits, needs no time to set them up or has
    no traffic, and none that is as long as the step.

    Args:
        step: the step over circuits granted once.
        plan: the placed plan of that step.
        fabric: the fabric, whose set-up time is that of a reconfiguration.
        simulated: simulates the step over the circuits of a group, with the function that grants every further hold.
    """
    best, setting = step, fabric.setup_time
    for length in HOLDS if fabric.assigns_circuits and plan.traffic.total.sum() > 0 else ():
        timing = Timing(max(length * setting, step.step_time / MOST_GRANTS), setting)
        if 0 < setting < timing.period < step.step_time:
            best = min(best, simulated(*regrants(plan, fabric, timing)), key=lambda each: each.step_time)
    if best is step:
        return step
    values = {each.name: getattr(best, each.name) for each in fields(PlacedStep)}
    return RegrantedStep(**values, standing_time=step.step_time)


# The timeline of a step whose circuits follow it: every interval with the planes and bytes that it uses, verified.

_TURNS: Mapping[str, Phase] = {
    "turn before the step": "gather",
    "turn for the passes": "passes",
    "turn beside the last pass": "last",
    "turn for gradients": "gradients",
    "turn for what follows": "closing",
    "turn for tied tables": "tied",
}
_PARTS: Mapping[str, tuple[Phase, tuple[Axis, ...]]] = {
    "forward_exchange": ("passes", WITHIN),
    "backward_exchange": ("passes", WITHIN),
    "forward_ring": ("passes", ("context",)),
    "backward_ring": ("passes", ("context",)),
    "forward_gather": ("passes", REPLICAS),
    "backward_gather": ("passes", REPLICAS),
    "send": ("passes", ("pipeline",)),
    "early_exchange": ("last", REPLICAS),
    "late_exchange": ("gradients", REPLICAS),
    "gather": ("gather", REPLICAS),
    "exchange": ("closing", ("tensor", *REPLICAS)),
    "tied": ("tied", ("pipeline",)),
}
"""Phase and axes of what transmits, by the part of the step that an interval names."""
_OF_MICRO_BATCHES = {"forward_exchange": 1, "backward_exchange": 1, "send": 2}
"""Parts of every micro-batch, and how often each has them: sends go forward and back."""


def switched_timeline(step: SwitchedStep) -> Timeline:
    """Return the intervals of a step, with ``phase``, ``stages`` and ``planes`` (plane numbers by axis) in the details
    of transmissions and turns, and ``nbytes`` by axis in those of transmissions, once it is proved that the circuits
    can be so.

    Raises:
        VerificationError: a transmission lies on planes that its axis does not hold, that are in use or that turn, or
            takes less time than its bytes need, or not all bytes of the step are sent.
    """
    notes = _Notes(step)
    intervals = run(lower_pipelined(step.stages)).intervals
    whole: defaultdict[str, float] = defaultdict(float)
    for each in intervals:
        whole[each.name] += each.duration
    shares = ((each, each.duration / (whole[each.name] or 1.0)) for each in intervals)
    timeline = Timeline.of(replace(each, details=notes.details(each, share)) for each, share in shares)
    verify_switching(timeline, notes.owners, notes.seconds, notes.bandwidth, notes.demands)
    return timeline


class _Notes:
    """Planes, ranks and bytes of the intervals of a step, by which the step's circuits are proved."""

    def __init__(self, step: SwitchedStep) -> None:
        times, strategy = step.times, step.times.strategy
        self._step, self._strategy = step, strategy
        self._stages = strategy.pp
        self._phases = list(step.settings)
        self._numbers: Numbers = plane_numbers(step.settings, times.prices.planes)
        self.seconds = times.prices.reconfiguration_time
        self.bandwidth = times.job.fabric.channel_bandwidth
        # Sends take the way that the pipeline's planes make the faster one.
        planes = dict.fromkeys(times.axes, times.prices.planes) | dict(step.settings.get("passes", {}))
        shared = replace(times.job, shares=times.prices.shared(strategy, planes))
        early = step.stages.times.early_exchange
        self._bytes = self._last = step_bytes(shared, strategy, early, _sends(shared, strategy))
        if strategy.last_samples != strategy.samples:
            smaller = strategy.last_micro_batch
            self._last = step_bytes(shared, smaller, early, _sends(shared, smaller))
        self._known = strategy.exchange == 0

    @property
    def owners(self) -> dict[tuple[int, int], str]:
        """Axis that holds each plane when the step begins, by (stage, plane): as the last phase of a step leaves them,
        the same at all stages."""
        holders = self._numbers[self._phases[-1]]
        return {(stage, plane): axis for stage in range(self._stages) for plane, axis in holders.items()}

    @property
    def demands(self) -> dict[str, float]:
        """Bytes of a step by axis, summed over stages, one rank each, all micro-batches included; axes without bytes,
        or whose bytes are not known, are left out."""
        demands: defaultdict[str, float] = defaultdict(float)
        for part, by_axis in self._bytes.items():
            for axis, nbytes in by_axis.items():
                total = float(nbytes.sum())
                if part in _OF_MICRO_BATCHES:
                    last = float(self._last[part][axis].sum())
                    total = _OF_MICRO_BATCHES[part] * ((self._strategy.micro_batches - 1) * total + last)
                demands[axis] += total if self._counted(axis) else 0.0
        return {axis: nbytes for axis, nbytes in demands.items() if nbytes}

    def details(self, interval: Interval, share: float) -> dict[str, Any]:
        """Return the details of an interval, empty but for turns and transmissions: ``phase``, ``stages`` (a list of
        numbers) and ``planes`` (lists of plane numbers by axis), and of a transmission ``nbytes`` by axis, bytes of one
        rank of each stage, without axes that send none or whose bytes are not known.

        ``share`` is the part, 0 to 1, that the interval has of the duration of all intervals of its name, and so of
        their bytes.
        """
        if interval.category == "reconfiguration":
            return self._turned(interval)
        if interval.category != "transmission":
            return {}
        phase, stages, nbytes, axes = self._used(interval)
        nbytes = {axis: float(share * count) for axis, count in nbytes.items() if count and self._counted(axis)}
        planes = {axis: numbers for axis in axes if (numbers := self._planes(phase, axis, interval))}
        return {"phase": phase, "stages": stages, "planes": planes, "nbytes": nbytes}

    def _counted(self, axis: Axis) -> bool:
        """Return whether the bytes of an axis are known: those of the replicas' axes (gradients and parameters) only
        where the strategy has no exchange method, all others always."""
        return self._known or axis not in REPLICAS

    def _planes(self, phase: Phase, axis: Axis, interval: Interval) -> list[int]:
        """Return the numbers of the planes that an axis uses in a phase, the lowest that it holds, as many as the
        phase's division gives it; of a pipeline's planes, sends forward have the first half and sends backward the
        second, both rounded down."""
        numbers = [plane for plane, holder in self._numbers[phase].items() if holder == axis]
        numbers = numbers[: self._step.settings[phase].get(axis, 0)]
        if interval.name.startswith("send") and self._step.times.least[axis] > 1:
            half = len(numbers) // 2
            return numbers[:half] if interval.name.startswith("send forward") else numbers[half : 2 * half]
        return numbers

    def _turned(self, interval: Interval) -> dict[str, Any]:
        """Return the details of a turn: its ``phase`` (the one that begins after it), ``stages`` (a list of one stage),
        and ``planes``, lists of the numbers of planes that change their axis, by the axis that gets them."""
        name = interval.name
        phase = self._phases[0] if name == "turn for the next step" else _TURNS[name]
        before = self._numbers[self._phases[self._phases.index(phase) - 1]]
        planes: defaultdict[str, list[int]] = defaultdict(list)
        for plane, axis in self._numbers[phase].items():
            if before[plane] != axis:
                planes[axis].append(plane)
        return {"phase": phase, "stages": [int(interval.resource.split(",")[0].split()[-1])], "planes": dict(planes)}

    def _used(self, interval: Interval) -> tuple[Phase, list[int], Mapping[Axis, float], tuple[Axis, ...]]:
        """Return four things: a transmission's phase, its stages, from 0 (the sender first; one stage for exchanges
        within it), the bytes that a rank sends in it by axis (of one micro-batch, or of the step), and the axes that
        may exchange in it."""
        words, details = interval.name.split(), interval.details
        if not details:  # "gather for backward 0 on 1", of sharded parameters
            details = {"part": f"{words[2]}_gather", "column": int(words[5]), "micro_batch": int(words[3])}
        part, column, backward = details["part"], details["column"], "backward" in words
        last = details.get("micro_batch") == self._strategy.micro_batches - 1
        phase, axes = _PARTS[part]
        if phase == "passes" and backward and last:
            phase = "last"
        if phase == "last" and phase not in self._step.settings:
            phase = "passes"
        stages = [(column - 1) % self._stages, column % self._stages] if part == "send" else [column % self._stages]
        nbytes = (self._last if last else self._bytes).get(part, {})
        sent = {axis: float(columns[column]) for axis, columns in nbytes.items()}
        return phase, stages[::-1] if backward else stages, sent, axes


def _sends(job: Job, strategy: Strategy) -> Floats:
    """Return the bytes that are sent to each chunk from the one before, whole or in slices that a tensor group gathers,
    whichever is faster where gathers take no time: [chunks]."""
    sends: Floats = stage_sends(job, Strategies.of(strategy), lambda _: nothing).nbytes[0]
    return sends


# Steps of strategies whose circuits follow the phases of the step, for the search.


@dataclass(frozen=True)
class SwitchedStrategyStep(StrategyStep):
    """A step stage by stage whose groups share out the planes of a switch."""

    in_step: InStep | None = None
    """Gain of setting circuits anew within the step."""
    job: Job | None = None
    """The job on the most planes that every axis has in any phase."""

    @cached_property
    def timeline(self) -> Timeline:
        """Intervals of the step in which circuits are set anew, with planes and bytes in the details of transmissions
        and turns. VerificationError where the circuits cannot be so. ``in_step`` must be set."""
        assert self.in_step is not None
        return switched_timeline(self.in_step.best)


def simulate_in_step(job: Job, strategy: Strategy, prices: PlanePrices) -> StrategyStep:
    """Return the simulated step of a strategy with the fastest settings of the switch, whose ``in_step`` says what they
    gain and whose timeline is verified when it is asked for; where no two kinds of groups share the planes, and for
    data parallelism alone, the plain step of :func:`simulate`.

    Args:
        job: where the strategy runs.
        strategy: the strategy.
        prices: prices of exchanges by the planes that each axis has.

    Raises:
        UnsupportedError: kinds of groups that exchange in one phase need more planes than there are (one each, two for
            a pipeline), or no algorithm serves an exchange.
    """
    in_step = follow_the_step(job, strategy, prices)
    if in_step is None:
        return simulate(job, strategy)
    best, planes = in_step.best, dict[Axis, int]()
    for division in best.settings.values():
        planes |= {axis: max(count, planes.get(axis, 0)) for axis, count in division.items()}
    uses: list[ExchangeUse] = []
    shared = replace(job, shares=prices.shared(strategy, planes))
    exact_stage_times(shared, strategy, uses)
    return SwitchedStrategyStep(
        step_time=best.step_time,
        breakdown=best.stages.breakdown(),
        communication_time=best.stages.transmission,
        exchanges=largest_uses(uses),
        stages=best.stages,
        spent=best.stages.spent,
        in_step=in_step,
        job=shared,
    )
