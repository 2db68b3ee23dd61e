"""The timeline of a step whose circuits follow it: every interval with the planes and bytes that it uses, verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lightloom.core.arrays import Floats
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.circuits.in_step import SwitchedStep
from lightloom.planner.circuits.phases import REPLICAS, Phase
from lightloom.planner.circuits.plane_numbers import Numbers, plane_numbers
from lightloom.planner.circuits.step_bytes import PassBytes, once_bytes, pass_bytes
from lightloom.planner.pricing.stage_exchanges import Axis
from lightloom.simulation.engine import run
from lightloom.simulation.pipelined_tasks import lower_pipelined
from lightloom.simulation.switch_verify import verify_switching
from lightloom.simulation.timeline import Interval, Timeline

_WITHIN: tuple[Axis, ...] = ("tensor", "expert")
_TURNS: Mapping[str, Phase] = {
    "turn before the step": "gather",
    "turn for the passes": "passes",
    "turn beside the last pass": "last",
    "turn for gradients": "gradients",
    "turn for what follows": "closing",
    "turn for tied tables": "tied",
}


def switched_timeline(step: SwitchedStep) -> Timeline:
    """Return the intervals of a step with the planes that they use, once it is proved that the circuits can be so.

    Raises:
        VerificationError: a transmission has no circuits, or the switch turns beneath one.
    """
    notes = _Notes(step)
    timeline = run(lower_pipelined(step.stages))
    parts: dict[str, float] = {}
    for interval in timeline.intervals:
        parts[interval.name] = parts.get(interval.name, 0.0) + interval.duration
    noted = [
        replace(interval, details=notes.details(interval, interval.duration / (parts[interval.name] or 1.0)))
        for interval in timeline.intervals
    ]
    timeline = Timeline.of(noted)
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
        self._pass = pass_bytes(shared, strategy)
        self._last = self._pass
        if strategy.last_samples != strategy.samples:
            self._last = pass_bytes(shared, _smaller(strategy))
        self._once = once_bytes(times.job, strategy, step.stages.times.early_exchange)
        self._known = strategy.exchange == 0

    @property
    def owners(self) -> dict[tuple[int, int], str]:
        """The axis of every plane of each stage when the step begins."""
        holders = self._numbers[self._phases[-1]]
        return {(stage, plane): axis for stage in range(self._stages) for plane, axis in holders.items()}

    @property
    def demands(self) -> dict[str, float]:
        """Bytes of a step by axis."""
        demands: dict[str, float] = {}
        count, once, parts = self._strategy.micro_batches, self._once, (self._pass, self._last)
        for times, part in zip((count - 1, 1), parts, strict=True):
            for direction in (part.forward, part.backward):
                _add(demands, direction, times)
            if self._stages > 1:
                demands["pipeline"] = demands.get("pipeline", 0.0) + 2 * times * float(part.send.sum())
        replicas = (once.gather, once.early, once.late) if self._known else ()
        for part_once in (*replicas, once.exchange):
            _add(demands, part_once, 1)
        if once.tied.any():
            demands["pipeline"] = demands.get("pipeline", 0.0) + float(once.tied.sum())
        if not self._known:
            demands = {axis: nbytes for axis, nbytes in demands.items() if axis not in REPLICAS}
        return {axis: nbytes for axis, nbytes in demands.items() if nbytes}

    def details(self, interval: Interval, share: float) -> dict[str, Any]:
        """Return what an interval uses that is a share of all of its name."""
        if interval.category == "reconfiguration":
            return self._turned(interval)
        if interval.category != "transmission":
            return {}
        phase, stages, nbytes, axes = self._used(interval)
        nbytes = {axis: float(share * count) for axis, count in nbytes.items() if count and self._counted(axis)}
        planes = {axis: self._planes(phase, axis, interval) for axis in axes}
        return {
            "phase": phase,
            "stages": stages,
            "planes": {axis: numbers for axis, numbers in planes.items() if numbers},
            "nbytes": nbytes,
        }

    def _counted(self, axis: Axis) -> bool:
        return self._known or axis not in REPLICAS

    def _planes(self, phase: Phase, axis: Axis, interval: Interval) -> list[int]:
        numbers = [plane for plane, holder in self._numbers[phase].items() if holder == axis]
        numbers = numbers[: self._step.settings[phase].get(axis, 0)]
        if interval.name.startswith("send") and self._step.times.least[axis] > 1:
            half = len(numbers) // 2
            return numbers[:half] if interval.name.startswith("send forward") else numbers[half : 2 * half]
        return numbers

    def _turned(self, interval: Interval) -> dict[str, Any]:
        """Return the planes that a turn gives to other axes."""
        name = interval.name
        phase = self._phases[0] if name == "turn for the next step" else _TURNS[name]
        before = self._numbers[self._phases[self._phases.index(phase) - 1]]
        planes: dict[str, list[int]] = {}
        for plane, axis in self._numbers[phase].items():
            if before[plane] != axis:
                planes.setdefault(axis, []).append(plane)
        stage = int(interval.resource.split(",")[0].split()[-1])
        return {"phase": phase, "stages": [stage], "planes": planes}

    def _used(self, interval: Interval) -> tuple[Phase, list[int], Mapping[Axis, float], tuple[Axis, ...]]:
        """Return phase, stages, bytes by axis and the axes that may exchange of a transmission."""
        name, words, once = interval.name, interval.name.split(), self._once
        if name.startswith("send"):
            return self._sent(words)
        if " in " in name or name.startswith("gather for"):
            return self._within(words)
        place = int(words[-1])
        if name.startswith("gather"):
            return "gather", [place], _at(once.gather, place), REPLICAS
        if name.startswith("add up tied"):
            return "tied", [place], {"pipeline": float(once.tied[place])}, ("pipeline",)
        if name.startswith("exchange all but"):
            phase: Phase = "last" if "last" in self._step.settings else "passes"
            return phase, [place % self._stages], _at(once.early, place), REPLICAS
        if name.startswith("exchange the first"):
            return "gradients", [place % self._stages], _at(once.late, place), REPLICAS
        return "closing", [place], _at(once.exchange, place), ("tensor", *REPLICAS)

    def _sent(self, words: list[str]) -> tuple[Phase, list[int], Mapping[Axis, float], tuple[Axis, ...]]:
        """As :meth:`_used`, of "send forward 0 from 1 to 2"."""
        micro, source, target = int(words[2]), int(words[4]), int(words[6])
        nbytes = self._of_micro_batch(micro).send[max(source, target)]
        stages = [source % self._stages, target % self._stages]
        return self._phase_of_pass(words[1], micro), stages, {"pipeline": float(nbytes)}, ("pipeline",)

    def _within(self, words: list[str]) -> tuple[Phase, list[int], Mapping[Axis, float], tuple[Axis, ...]]:
        """As :meth:`_used`, of "exchange in backward 0 on 1", "ring in ..." and "gather for ..."."""
        what, direction, micro, chunk = words[0], words[2], int(words[3]), int(words[5])
        phase, stages = self._phase_of_pass(direction, micro), [chunk % self._stages]
        if what != "exchange":
            return phase, stages, {}, ("context",) if what == "ring" else REPLICAS
        part = self._of_micro_batch(micro)
        return phase, stages, _at(part.forward if direction == "forward" else part.backward, chunk), _WITHIN

    def _phase_of_pass(self, direction: str, micro: int) -> Phase:
        closing = direction == "backward" and micro == self._strategy.micro_batches - 1
        return "last" if closing and "last" in self._step.settings else "passes"

    def _of_micro_batch(self, micro: int) -> PassBytes:
        return self._last if micro == self._strategy.micro_batches - 1 else self._pass


def _smaller(strategy: Strategy) -> Strategy:
    """The last micro-batch alone."""
    return strategy._replace(micro_batch=0, micro_batches=1, global_batch=strategy.dp * strategy.last_samples)


def _at(nbytes: Mapping[Axis, Floats], place: int) -> dict[Axis, float]:
    return {axis: float(column[place]) for axis, column in nbytes.items()}


def _add(demands: dict[str, float], nbytes: Mapping[Axis, Floats], times: int) -> None:
    for axis, column in nbytes.items():
        demands[axis] = demands.get(axis, 0.0) + times * float(column.sum())
