"""The fastest settings of a circuit switch along a step: circuits that stand, or that follow the phases of the step.

Every way to part the phases into segments is tried, each segment with the division of the planes that suits its phases
best; the step is then simulated with all turns of the switch, and the fastest one wins. What is tried does not depend
on the reconfiguration time, so that a slower switch never gains more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import comb

import numpy as np

from lightloom.core.arrays import Floats, Mask
from lightloom.core.effort import Effort
from lightloom.core.errors import UnsupportedError
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.circuits.phases import PHASES, REPLICAS, Phase, PhasedTimes, after_the_passes
from lightloom.planner.circuits.settings import Settings, best_division, gains, segmentations
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.planes import PlanePrices, Planes, divisions
from lightloom.planner.pricing.stage_exchanges import Axis
from lightloom.simulation.pipelined import PipelinedStep, PlayedStep, StageTimes
from lightloom.simulation.switch_turns import SwitchTurns

_OF_THE_LAST_PASS = ("backward", "backward_exchange", "backward_ring", "backward_gather")
MOST_STANDING: Effort = 100
"""Planess of the planes that are all simulated for circuits that stand."""
_ROUNDING = 1e-9
_STANDING: tuple[Phase, ...] = ("passes", "last", "gradients")
"""Phases that alternate where stages interleave, so that they share a division there."""


@dataclass(frozen=True)
class SwitchedStep:
    """A step of stages with the divisions of the switch's planes that stand in its phases."""

    settings: Settings
    stages: PipelinedStep
    times: PhasedTimes
    """What it is simulated from."""

    @cached_property
    def played(self) -> PlayedStep:
        """When every pass, exchange and turn of the switch begins and ends."""
        return self.stages.play()

    @property
    def step_time(self) -> float:
        """Duration of the step, in seconds."""
        return self.played.step_time

    @cached_property
    def turning(self) -> tuple[Phase, ...]:
        """Phases before which planes are set anew."""
        phases = list(self.settings)
        pairs = zip([phases[-1], *phases], phases, strict=False)
        return tuple(b for a, b in pairs if gains(self.settings[a], self.settings[b]))

    @property
    def exposed(self) -> float:
        """Seconds that the rank of the first stage waits for the switch."""
        return float(self.played.spent["switch_turn_s"][0])


@dataclass(frozen=True)
class InStep:
    """What setting circuits anew within a step gains."""

    standing: SwitchedStep | None
    """The fastest step whose circuits stand; None where there are more groups than planes."""
    best: SwitchedStep
    """The fastest of all."""
    reconfiguration_time: float
    """Seconds of a turn."""

    @property
    def gain(self) -> float | None:
        """Seconds that the step gets shorter; None where circuits cannot stand."""
        return None if self.standing is None else self.standing.step_time - self.best.step_time

    @property
    def hidden(self) -> float:
        """Seconds of the turns of the first stage's ranks that nothing waits for."""
        turns = len(self.best.turning) * self.reconfiguration_time
        hidden = turns - self.best.exposed
        return hidden if hidden > _ROUNDING * turns else 0.0


def follow_the_step(job: Job, strategy: Strategy, prices: PlanePrices) -> InStep | None:
    """Search the settings of a strategy's step; None where no two groups share the planes.

    Raises:
        UnsupportedError: groups that exchange in one phase are more than the planes.
    """
    times = PhasedTimes(job, strategy, prices)
    if strategy.plain or len(times.axes) < 2:
        return None
    enough = max(times.least.values()) <= prices.planes
    candidates = list(_Search(times).candidates()) if enough else []
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
    def __init__(self, times: PhasedTimes) -> None:
        self._times = times
        self._planes = times.prices.planes
        self._late: dict[tuple[object, ...], Floats] = {}
        """Gradients after the last pass."""
        self._seconds: dict[tuple[bool, Axis, int], dict[Phase, float]] = {}
        self._best: dict[tuple[bool, frozenset[Phase], int | None], Planes | None] = {}

    def candidates(self) -> Iterator[SwitchedStep]:
        """Yield the step of every segmentation, gradients beside the last pass or after it."""
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
        """Yield the step of every division that stands for the whole step, so that none is missed; few enough."""
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
        """Return the best divisions of segments; None where one has too many axes."""
        settings: dict[Phase, Planes] = {}
        pinned: dict[Axis, int] = {}
        # Stages are in the last pass while others still send to them: the pipeline's planes stay.
        for segment in sorted(segments, key=lambda phases: "passes" not in phases):
            kept = pinned if "last" in segment else {}
            key = beside, frozenset(segment), kept.get("pipeline")
            if key not in self._best:
                chosen = {phase: active[phase] for phase in segment}
                seconds = partial(self._phase_seconds, beside)
                self._best[key] = best_division(self._planes, chosen, seconds, self._times.least, kept)
            division = self._best[key]
            if division is None:
                return None
            if "passes" in segment and "pipeline" in division:
                pinned = {"pipeline": division["pipeline"]}
            settings |= dict.fromkeys(segment, division)
        return {phase: settings[phase] for phase in PHASES if phase in settings}

    def _phase_seconds(self, beside: bool, phase: Phase, axis: Axis, planes: int) -> float:
        """Return the seconds of a phase whose other axes have all planes."""
        key = beside, axis, planes
        if key not in self._seconds:
            division = dict.fromkeys(self._times.axes, self._planes) | {axis: planes}
            times, last = self._times.times(division)
            if not beside:
                late = self._gradients(division, np.zeros(len(times.forward), np.bool_))
                times = after_the_passes(times, late)
            self._seconds[key] = _phase_seconds(times, last, self._times.strategy.micro_batches)
        return self._seconds[key][phase]

    def _gradients(self, division: Planes, by_unit: Mask) -> Floats:
        # No other axis makes a difference.
        key = tuple(division.get(axis) for axis in REPLICAS), by_unit.tobytes()
        if key not in self._late:
            self._late[key] = self._times.gradients(division, by_unit)
        return self._late[key]

    def _times_at(self, settings: Settings, phase: Phase) -> tuple[StageTimes, StageTimes]:
        """Return the times with the division of a phase; axes without planes there have all, which nothing reads."""
        return self._times.times(self._completed(settings.get(phase, {})))

    def _completed(self, division: Planes) -> Planes:
        return {axis: division.get(axis, self._planes) for axis in self._times.axes}

    def stages(self, settings: Settings, *, beside: bool) -> PipelinedStep:
        """Return the step with these settings, each exchange at the price of its phase."""
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
        return PipelinedStep(
            times=times,
            micro_batches=self._times.strategy.micro_batches,
            last=last,
            arithmetic_share=self._times.job.fabric.arithmetic_share,
            turns=self._turns(settings, times, last),
        )

    def _turns(self, settings: Settings, times: StageTimes, last: StageTimes) -> SwitchTurns:
        """Return the turns between phases whose divisions differ."""
        seconds, update, (lead, tail) = self._times.prices.reconfiguration_time, times.update, self._times.margins
        turns = SwitchTurns.none(len(update))
        phases, values = list(settings), {}
        pipeline: Planes = {axis: count for axis, count in settings["passes"].items() if axis == "pipeline"}
        taken = any(gains(division, pipeline) for division in settings.values())
        values["waits_for_send"] = np.full(len(update), float(taken))
        for before, phase in zip([phases[-1], *phases], phases, strict=False):
            if not gains(settings[before], settings[phase]):
                continue
            length = np.full(len(update), seconds)
            if phase == phases[0]:
                values["update"] = np.minimum(length, update)
                length = np.maximum(length - update, 0.0)
            name = {"gather": "start", "closing": "exchange"}.get(phase, phase)
            values[name] = length
        least = np.where(times.early_exchange > 0, times.lead, 1.0)[: len(update)] * last.backward[: len(update)]
        values["lead"] = np.minimum(lead, np.minimum(times.forward, last.forward)[: len(update)])
        values["tail"] = np.minimum(tail, least)
        return replace(turns, **values)


def _passes_go_on(settings: Settings, axes: Sequence[Axis]) -> bool:
    """Whether the axes of the passes need not wait for a turn before the last pass, during which they go on."""
    before, after = settings["passes"], settings.get("last", settings["passes"])
    return not any(after[axis] > before[axis] for axis in axes)


def _together(segments: Sequence[Sequence[Phase]]) -> bool:
    """Whether phases that alternate are in one segment."""
    return sum(any(phase in _STANDING for phase in segment) for segment in segments) <= 1


def _phase_seconds(times: StageTimes, last: StageTimes, micro_batches: int) -> dict[Phase, float]:
    """Return about how long each phase takes; the passes as those of a full pipeline of the slowest stage."""
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
