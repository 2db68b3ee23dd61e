"""The tasks of a step of pipeline stages, for the event engine: what a compiled step plays, with its timeline."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from lightloom.core.arrays import Floats
from lightloom.parallelism.pipeline import one_forward_one_backward
from lightloom.simulation.engine import Task
from lightloom.simulation.pipelined import PipelinedStep
from lightloom.simulation.switch_turns import SwitchTurns

_BESIDE = "beside the last pass"


def lower_pipelined(step: PipelinedStep) -> list[Task]:
    """Return the tasks of one step."""
    builder = _Builder(step)
    for stage in range(len(step.times.gather)):
        builder.stage(stage)
    builder.close()
    return builder.linked()


class _Edges(NamedTuple):
    """Tasks of a pass that others wait for."""

    before: tuple[int, ...]
    """Those that it waits for itself."""
    unit: int | None
    """The one after which gradients of its first unit to compute exist, if they leave early."""
    exchanged: int | None
    """The one after which its groups exchange nothing any more."""


class _Builder:
    def __init__(self, step: PipelinedStep) -> None:
        self._step = step
        self._times = step.times
        self._slowed = step.slowed
        self._micro_batches = step.micro_batches
        self._stages = len(step.times.gather)
        self._chunks = len(step.times.forward)
        self._turns = step.turns or SwitchTurns.none(self._stages)
        self._tasks: list[Task] = []
        self._ends: dict[tuple[str, int, int], tuple[int, int]] = {}
        """The task that ends a pass and the pass's place in the order of its stage, by direction, chunk and
        micro-batch."""
        self._awaits: dict[int, tuple[str, int, int]] = {}
        """The pass of another stage that a task waits for; it may not be listed yet."""
        self._sends: dict[tuple[str, int, int], int] = {}
        """The task that sends the outputs of a pass of another stage."""
        self._stands: dict[int, tuple[int, ...]] = {}
        """The turn of each stage after which its circuits stand for the passes."""
        self._last: list[tuple[int, ...]] = []
        """The last tasks of each stage before the sums over tied tables and its update."""

    def stage(self, stage: int) -> None:
        times, turns = self._times, self._turns
        last = self._turn(stage, "before the step", turns.start)
        if times.gather[stage]:
            last = self._task(f"gather {stage}", f"replicas {stage}", "transmission", times.gather[stage], last)
            self._say(part="gather", column=stage)
        stands = self._turn(stage, "for the passes", turns.passes, last)
        self._stands[stage] = () if stands is None else (stands,)
        order = one_forward_one_backward(stage, self._stages, self._micro_batches, self._chunks // self._stages)
        exchanged: tuple[int, ...] = ()
        for place, (direction, chunk, micro) in enumerate(order):
            edges = self._pass(direction, chunk, micro, last, first=place == 0)
            last = len(self._tasks) - 1
            self._ends[direction, chunk, micro] = last, place
            if direction == "backward" and micro == self._micro_batches - 1:
                exchanged = self._gradients(chunk, edges, last) or exchanged
        sent = self._sends.get(("backward", stage, self._micro_batches - 1))
        gone = () if sent is None or not turns.waits_for_send[stage] else (sent,)
        ends = (*exchanged, *gone, *(() if last is None else (last,)))
        turn = self._turn(stage, "for what follows", turns.exchange, None, *ends)
        ends = ends if turn is None else (turn,)
        if times.exchange[stage]:
            name, seconds = f"exchange {stage}", times.exchange[stage]
            ends = (self._task(name, f"replicas {stage}", "transmission", seconds, None, *ends),)
            self._say(part="exchange", column=stage)
        self._last.append(ends)

    def _turn(self, stage: int, why: str, seconds: Floats, last: int | None = None, *after: int) -> int | None:
        """Set planes of a stage's ranks anew; returns the task, or ``last`` where nothing turns."""
        if not seconds[stage]:
            return last
        # Others may still turn when those for the first gradients do.
        planes = f"planes {stage}, first gradients" if why == _BESIDE else f"planes {stage}"
        return self._task(f"turn {why}", planes, "reconfiguration", seconds[stage], last, *after)

    def close(self) -> None:
        """Add the sums over tied tables, and the update of each stage."""
        for stage, ends in enumerate(self._last):
            turn = self._turn(stage, "for tied tables", self._turns.tied, None, *ends)
            if self._times.tied[stage] and turn is not None:
                self._last[stage] = (turn,)
        tied = [end for seconds, ends in zip(self._times.tied, self._last, strict=True) if seconds for end in ends]
        for stage, ends in enumerate(self._last):
            seconds = self._times.tied[stage]
            if seconds:
                ends = (self._task(f"add up tied {stage}", f"replicas {stage}", "transmission", seconds, None, *tied),)
                self._say(part="tied", column=stage)
            self._task(f"update {stage}", f"stage {stage}", "update", self._times.update[stage], None, *ends)
            self._turn(stage, "for the next step", self._turns.update, None, *ends)

    def _gradients(self, chunk: int, edges: _Edges, end: int) -> tuple[int, ...]:
        """Exchange the gradients of a chunk beside its last backward pass, and after its task ``end``."""
        times, stage, turns = self._times, chunk % self._stages, self._turns
        resource = f"gradients {stage}"
        exchanged: tuple[int, ...] = ()
        turn = self._turn(stage, _BESIDE, turns.last, None, *edges.before)
        beside = () if turn is None else (turn,)
        if times.early_exchange[chunk]:
            name, seconds = f"exchange all but the first unit of {chunk}", times.early_exchange[chunk]
            exchanged = (self._task(name, resource, "transmission", seconds, edges.unit, *beside),)
            self._say(part="early_exchange", column=chunk)
        if times.late_exchange[chunk]:
            name, seconds = f"exchange the first unit of {chunk}", times.late_exchange[chunk]
            sent = self._sends.get(("backward", chunk, self._micro_batches - 1))
            alone = self._chunks == self._stages
            gone = (sent,) if alone and sent is not None and turns.waits_for_send[stage] else ()
            turn = self._turn(stage, "for gradients", turns.gradients, edges.exchanged, *gone)
            after = (*beside, *gone) if turn is None or not turns.gradients[stage] else (*beside, turn)
            exchanged = (self._task(name, resource, "transmission", seconds, end, *exchanged, *after),)
            self._say(part="late_exchange", column=chunk)
        return exchanged

    def linked(self) -> list[Task]:
        """Return the tasks, those that wait for another stage included; a link sends in the order of its source."""
        tasks = list(self._tasks)
        for index, source in self._awaits.items():
            end, place = self._ends[source]
            tasks[index] = replace(tasks[index], after=(*tasks[index].after, end), priority=place)
        return tasks

    def _pass(self, direction: str, chunk: int, micro: int, last: int | None, *, first: bool) -> _Edges:
        """Add a pass; the ``first`` of a stage waits for the switch before it exchanges anything."""
        forward, stage, times = direction == "forward", chunk % self._stages, self._step.of_micro_batch(micro)
        arrived = self._arrival(forward, chunk, micro)
        before = (*arrived, *(() if last is None else (last,)))
        compute = times.forward if forward else times.backward
        gathered = times.forward_gather if forward else times.backward_gather
        shared = times.forward_exchange if forward else times.backward_exchange
        ring = times.forward_ring if forward else times.backward_ring
        name, stands = f"{direction} {micro} on {chunk}", self._stands[stage] if first else ()
        head = self._turns.lead[stage] if stands else 0.0
        if stands and not head:
            arrived, stands = (*arrived, *stands), ()
        if gathered[chunk]:
            gather = self._task(
                f"gather for {name}", f"replicas {stage}", "transmission", gathered[chunk], last, *arrived
            )
            last, arrived = gather, ()
        closing = not forward and micro == self._micro_batches - 1
        early = closing and self._times.early_exchange[chunk] > 0
        lead = float(self._times.lead[chunk])
        parts = ((1 - lead, 0.0), (lead, self._slowed[chunk])) if early else ((1.0, 0.0),)
        tail = self._turns.tail[stage] if closing and self._turns.gradients[stage] else 0.0
        unit = exchanged = None
        if head:
            last, arrived = self._task(name, f"stage {stage}", direction, head, last, *arrived), stands
        for number, (part, slowed) in enumerate(parts, start=1):
            unit = last
            seconds = part * compute[chunk] + slowed - head - (tail if number == len(parts) else 0.0)
            last, head = self._task(name, f"stage {stage}", direction, seconds, last, *arrived), 0.0
            self._say(part=direction, column=chunk, micro_batch=micro)
            for kind, resource, waits in (("ring", "context", ring), ("exchange", "shards", shared)):
                if waits[chunk]:
                    wait = part * waits[chunk]
                    last = self._task(f"{kind} in {name}", f"{resource} {stage}", "transmission", wait, last)
                    self._say(part=f"{direction}_{kind}", column=chunk, micro_batch=micro, share=part)
            arrived, exchanged = (), last
        if tail:
            self._task(name, f"stage {stage}", direction, tail, last)
        return _Edges(before, unit, exchanged)

    def _arrival(self, forward: bool, chunk: int, micro: int) -> tuple[int, ...]:
        """Add the send that a pass waits for; none where it reads the model's inputs or follows the loss."""
        source, stage = chunk - 1 if forward else chunk + 1, chunk % self._stages
        if not 0 <= source < self._chunks:
            return ()
        direction = "forward" if forward else "backward"
        name, link = f"send {direction} {micro} from {source} to {chunk}", f"link {source % self._stages} to {stage}"
        seconds = self._step.of_micro_batch(micro).send[max(chunk, source)]
        send = self._task(name, link, "transmission", seconds, None, *self._stands[stage])
        self._say(part="send", column=max(chunk, source), micro_batch=micro)
        self._awaits[send] = (direction, source, micro)
        self._sends[direction, source, micro] = send
        return (send,)

    def _task(self, name: str, resource: str, category: str, duration: float, last: int | None, *after: int) -> int:
        before = () if last is None else (last,)
        self._tasks.append(
            Task(name=name, resource=resource, category=category, duration=float(duration), after=(*before, *after))
        )
        return len(self._tasks) - 1

    def _say(self, **details: float | str) -> None:
        """Add details to the last task."""
        self._tasks[-1] = replace(self._tasks[-1], details=details)
