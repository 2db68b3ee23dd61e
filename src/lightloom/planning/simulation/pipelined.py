"""A step of pipeline stages becomes tasks: micro-batches in 1F1B order, sends, exchanges between replicas.

    stage 0   F0 ─ F1 ───── B0 ─ B1 ─ [exchange gradients] ─ update
                ╲    ╲     ╱    ╱
    stage 1      F0 ─ B0 ─ F1 ─ B1 ─ [exchange gradients] ─ update

Interleaved stages hold several chunks of the model, and a pass is that of one micro-batch through one chunk.

    last pass       [ unit 2 ][ unit 1 ][ unit 0 ]          gradients of a unit are exchanged while the units before
    of a chunk               [ exchange of 2 and 1 ][ of 0 ]    it compute; or all of them after the pass

One rank stands for all of its stage. Exchanges within a pass (tensor parallelism) are part of it; sends have links of
their own in both directions; a stage gathers its parameters before its first pass and exchanges gradients during the
last pass of each chunk or after its last. Stages that hold copies of a tied table then add up its gradients, once all
of them are there. What of the gathers within a pass is not hidden by computing stands before the pass, with what the
hidden part takes from computing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Self

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.planning.parallelism.plan import one_forward_one_backward
from lightloom.planning.simulation.engine import Task, slowing
from lightloom.planning.simulation.kernels import play
from lightloom.planning.simulation.link_turns import SwitchTurns


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """Seconds of each chunk, of shape [..., chunks], and of each stage, of shape [..., stages].

    Chunk c belongs to stage c mod stages; without interleaving they are the same.
    """

    forward: Floats
    """One micro-batch through a chunk, as the next seven."""
    backward: Floats
    forward_exchange: Floats
    """Collectives of tensor and expert parallelism in a forward pass."""
    backward_exchange: Floats
    forward_ring: Floats
    """Keys and values that attention of a context group waits for."""
    backward_ring: Floats
    """Keys, values and their gradients that a backward pass waits for."""
    forward_gather: Floats
    """Gathers of sharded parameters in a forward pass that computing does not hide."""
    backward_gather: Floats
    """Gathers in a backward pass that computing does not hide, with the gradients' reduce-scatter."""
    send: Floats
    """From the chunk before this one, or its gradient back; 0 for the first."""
    early_exchange: Floats
    """Gradients of all units of a chunk but the first, exchanged while its last backward pass runs; of each chunk."""
    late_exchange: Floats
    """Those of the first unit, after that pass."""
    lead: Floats
    """Share of the pass that is left when the first of these gradients exist."""
    gather: Floats
    """Before the first pass of a stage: sharded parameters; of each stage, as the next three."""
    exchange: Floats
    """After the last pass: what is left of the gradients' exchange."""
    tied: Floats
    """After that, and once all stages with such seconds are as far: gradients of tied tables are added up."""
    update: Floats

    @property
    def passes(self) -> Floats:
        """Seconds of whole passes, with the exchanges, rings and gathers that they wait for, but without what the
        gradients' exchange beside the last one adds, forward first and backward second: [2, ..., chunks]."""
        computed_forward = self.forward + self.forward_ring + self.forward_exchange
        return np.stack([self.forward_gather + computed_forward, self.backward_gather + self.computed_backward])

    @property
    def computed_backward(self) -> Floats:
        """Seconds of backward passes, computing, rings and exchanges, but not what they wait for of sharded parameters
        (``backward_gather``): [..., chunks]."""
        return self.backward + self.backward_ring + self.backward_exchange

    def row(self, index: int) -> Self:
        """Return the times of the row ``index``, from 0, where arrays have a leading axis of strategies: arrays
        [chunks] and [stages] without that axis."""
        return type(self)(**{each.name: getattr(self, each.name)[index] for each in fields(self)})


@dataclass(frozen=True, kw_only=True)
class PipelinedStep:
    """A step of stages whose micro-batches are alike, but for the last one, which may be smaller."""

    times: StageTimes
    """Arrays of shape [chunks] or [stages]."""
    micro_batches: int
    last: StageTimes | None = None
    """Times of the last micro-batch, where it is smaller: only its passes and sends count."""
    arithmetic_share: float = 0.0
    """Share of the arithmetic that the gradients' exchange takes from the backward passes beside it."""
    turns: SwitchTurns | None = None
    """Turns of a circuit switch; none where circuits stand for the whole step."""

    def of_micro_batch(self, micro: int) -> StageTimes:
        """Return the times of one micro-batch, by its number from 0 on: the times of the last one where that is
        smaller, else those of all."""
        return self.last if self.last is not None and micro == self.micro_batches - 1 else self.times

    @property
    def slowed(self) -> Floats:
        """Seconds by which the exchange of gradients beside it prolongs the last backward pass of each chunk: [chunks];
        what of the exchange is left when the pass ends is not counted."""
        beside = self.times.lead * (self.last or self.times).computed_backward
        return slowing(beside, self.times.early_exchange, self.arithmetic_share)

    @property
    def step_time(self) -> float:
        """Seconds from the start of the step until every stage has updated its parameters."""
        return float(self._played[0].max())

    @cached_property
    def spent(self) -> Mapping[str, Floats]:
        """Seconds of the rank of each stage by use, each [stages]: ``compute_s``, ``tensor_and_expert_exchange_s``,
        ``context_exchange_s``, ``parameter_gather_s``, ``pipeline_send_s``, ``bubble_s``, ``gradient_exchange_s``,
        ``switch_turn_s`` and ``update_s``. Computing is with what exchanges of gradients beside it take from it. Of
        each stage they add up to the step: sends, gradient exchanges and turns of the switch count as far as passes do
        not hide them, and the bubble is what a stage waits for others, until the end of the step."""
        times, slowed = self.times, self.slowed
        ends, sending, waiting, exchanging, turning = self._played

        def both(kind: str) -> Floats:
            """Return the seconds [stages] of the passes both ways in a pair of fields, whose names end in ``kind``."""
            return self.pass_seconds(f"forward{kind}") + self.pass_seconds(f"backward{kind}")

        return {
            "compute_s": both("") + slowed.reshape(-1, len(ends)).sum(axis=0),
            "tensor_and_expert_exchange_s": both("_exchange"),
            "context_exchange_s": both("_ring"),
            "parameter_gather_s": both("_gather") + times.gather,
            "pipeline_send_s": sending,
            "bubble_s": waiting + (self.step_time - ends),
            "gradient_exchange_s": exchanging + times.exchange + times.tied,
            "switch_turn_s": turning,
            "update_s": times.update,
        }

    def breakdown(self) -> dict[str, float]:
        """Return the seconds of a rank, the mean over all stages, as ``compute_s``, ``exposed_communication_s``,
        ``exposed_reconfiguration_s`` and ``idle_s``, the parts of ``Timeline.breakdown``; they add up to the step.
        Updates count as computing, and waiting for other stages as idle."""
        parts = dict.fromkeys(("compute_s", "exposed_communication_s", "exposed_reconfiguration_s", "idle_s"), 0.0)
        for name, seconds in self.spent.items():
            parts[SPENT[name]] += float(seconds.mean())
        return parts

    @cached_property
    def _played(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Five arrays [stages], in seconds: when each stage has updated its parameters, and how long until then it
        waits for sends, waits for other stages, exchanges gradients of chunks (early and late) after its passes, and
        waits for turns of a switch; compiled, equal to running the tasks of :func:`lower_pipelined`."""
        times, last, slowed = self.times, self.last or self.times, self.slowed
        turns = self.turns or SwitchTurns.none(len(times.gather))
        played: tuple[Floats, Floats, Floats, Floats, Floats] = play(
            np.ascontiguousarray(np.stack([times.passes, last.passes + [[0.0], [1.0]] * slowed], axis=1)),
            np.stack([times.send, last.send]),
            np.stack([times.lead * last.computed_backward + slowed, times.early_exchange, times.late_exchange]),
            times.gather,
            np.stack([times.exchange, times.tied, times.update]),
            turns.columns,
            self.micro_batches,
        )
        return played

    def pass_seconds(self, name: str) -> Floats:
        """Return the seconds that all passes of each stage spend on a field of :class:`StageTimes` that has chunks,
        given by name, such as ``forward_exchange``: [stages], over all micro-batches of the step and all chunks of the
        stage."""
        chunks = (self.micro_batches - 1) * getattr(self.times, name) + getattr(self.last or self.times, name)
        stage: Floats = chunks.reshape(-1, len(self.times.gather)).sum(axis=0)
        return stage

    @property
    def transmission(self) -> float:
        """Seconds of all tasks that transmit, hidden or not, summed over all stages, as ``Timeline.busy_time`` counts
        them; sends count forward and back, turns of a switch not at all."""
        kinds = ("exchange", "ring", "gather")
        passes = [f"{direction}_{kind}" for direction in ("forward", "backward") for kind in kinds] + ["send", "send"]
        within = sum(float(self.pass_seconds(name).sum()) for name in passes)
        times = self.times
        once = (times.gather, times.early_exchange, times.late_exchange, times.exchange, times.tied)
        return within + sum(float(seconds.sum()) for seconds in once)


SPENT: Mapping[str, str] = {
    "compute_s": "compute_s",
    "update_s": "compute_s",
    "tensor_and_expert_exchange_s": "exposed_communication_s",
    "context_exchange_s": "exposed_communication_s",
    "parameter_gather_s": "exposed_communication_s",
    "pipeline_send_s": "exposed_communication_s",
    "gradient_exchange_s": "exposed_communication_s",
    "switch_turn_s": "exposed_reconfiguration_s",
    "bubble_s": "idle_s",
}
"""Uses of a rank's time in a step, and the part of ``Timeline.breakdown`` that each counts to."""


# The tasks of a step of pipeline stages, for the event engine: what a compiled step plays, with its timeline.

_BESIDE = "beside the last pass"


def lower_pipelined(step: PipelinedStep) -> list[Task]:
    """Return the tasks of one step on all stages, for the event engine: stage after stage, then sums over tied tables
    and updates."""
    builder = _StageTasks(step)
    for stage in range(len(step.times.gather)):
        builder.stage(stage)
    builder.close()
    return builder.linked()


class _StageTasks:
    """Tasks of all stages, with links to tasks of other stages that may not be listed yet."""

    def __init__(self, step: PipelinedStep) -> None:
        self._step, self._times, self._slowed = step, step.times, step.slowed
        self._stages, self._chunks = len(step.times.gather), len(step.times.forward)
        self._turns = step.turns or SwitchTurns.none(self._stages)
        self._tasks: list[Task] = []
        self._ends: dict[tuple[str, int, int], tuple[int, int]] = {}
        """The task that ends a pass and the pass's place in the order of its stage, by direction, chunk and
        micro-batch."""
        self._awaits: dict[int, tuple[str, int, int]] = {}
        """The pass of another stage that a task waits for; it may not be listed yet."""
        self._sends: dict[tuple[str, int, int], int] = {}
        """The task that sends the outputs of a pass of another stage."""
        self._stands: dict[int, int | None] = {}
        """The turn of each stage after which its circuits stand for the passes."""
        self._last: list[tuple[int | None, ...]] = []
        """The last tasks of each stage before the sums over tied tables and its update."""

    def stage(self, stage: int) -> None:
        """Add the tasks of a stage: the gather of its parameters, its passes with their sends and exchanges, the
        exchanges of gradients and the turns of the switch between, without sums over tied tables and the update."""
        turns, last_micro_batch = self._turns, self._step.micro_batches - 1
        last = self._turn(stage, "before the step", turns.start)
        gather = self._once("gather", f"gather {stage}", stage, last)
        last = last if gather is None else gather
        stands = self._turn(stage, "for the passes", turns.passes, last)
        self._stands[stage] = last if stands is None else stands
        exchanged: int | None = None
        order = one_forward_one_backward(stage, self._stages, self._step.micro_batches, self._chunks // self._stages)
        for place, (direction, chunk, micro) in enumerate(order):
            before, unit, computed = self._pass(direction, chunk, micro, last, first=place == 0)
            last = len(self._tasks) - 1
            self._ends[direction, chunk, micro] = last, place
            if direction == "backward" and micro == last_micro_batch:
                gradients = self._gradients(chunk, before, unit, computed, last)
                exchanged = exchanged if gradients is None else gradients
        ends: tuple[int | None, ...] = (exchanged, self._gone(stage, stage), last)
        turn = self._turn(stage, "for what follows", turns.exchange, *ends)
        ends = ends if turn is None else (turn,)
        end = self._once("exchange", f"exchange {stage}", stage, *ends)
        self._last.append(ends if end is None else (end,))

    def _gone(self, stage: int, chunk: int) -> int | None:
        """Return the place in the list of the task that sends the last gradients of a chunk of ``stage`` on, where
        planes of the pipeline are given to other axes after it; None where they are not, or the chunk sends none."""
        sent = self._sends.get(("backward", chunk, self._step.micro_batches - 1))
        return sent if self._turns.waits_for_send[stage] else None

    def _turn(self, stage: int, why: str, seconds: Floats, *after: int | None) -> int | None:
        """Add a turn of the switch planes of a stage's ranks (circuits set anew), after the tasks of ``after`` that are
        not None, and return its place in the list; None where the turn takes no time.

        ``why`` ends its name; ``seconds`` [stages] is the turn's duration at each stage.
        """
        if not seconds[stage]:
            return None
        # Others may still turn when those for the first gradients do.
        planes = f"planes {stage}, first gradients" if why == _BESIDE else f"planes {stage}"
        return self._task(f"turn {why}", planes, "reconfiguration", seconds[stage], *after)

    def _once(self, part: str, name: str, column: int, *after: int | None) -> int | None:
        """Add an exchange that happens once a step, between replicas or over a tied table, and return its place in the
        list; None where it takes no time.

        Args:
            part: field of :class:`StageTimes` that has its seconds.
            name: name of the task.
            column: chunk or stage, as the field counts.
            after: tasks that it waits for; those that are None are left out.
        """
        seconds, stage = getattr(self._times, part)[column], column % self._stages
        if not seconds:
            return None
        resource = f"{'gradients' if part in ('early_exchange', 'late_exchange') else 'replicas'} {stage}"
        return self._task(name, resource, "transmission", seconds, *after, part=part, column=column)

    def close(self) -> None:
        """Add the sums over tied tables, the update of each stage, and the turns of the switch before the sums and
        beside the updates; all stages must have been added."""
        tied = self._times.tied
        for stage, ends in enumerate(self._last):
            turn = self._turn(stage, "for tied tables", self._turns.tied, *ends)
            if tied[stage] and turn is not None:
                self._last[stage] = (turn,)
        before = [end for seconds, ends in zip(tied, self._last, strict=True) if seconds for end in ends]
        for stage, ends in enumerate(self._last):
            if tied[stage]:
                ends = (self._once("tied", f"add up tied {stage}", stage, *before),)
            self._task(f"update {stage}", f"stage {stage}", "update", self._times.update[stage], *ends)
            self._turn(stage, "for the next step", self._turns.update, *ends)

    def _gradients(
        self, chunk: int, before: tuple[int | None, ...], unit: int | None, computed: int | None, end: int
    ) -> int | None:
        """Add the exchanges of a chunk's gradients beside its last backward pass, and after it, with the turns of the
        switch before them; return the place of the last exchange, None where neither takes any time.

        Args:
            chunk: chunk of the model.
            before: tasks that the pass waited for.
            unit: task after which the first of the gradients exist, if they leave early.
            computed: task after which the pass exchanges nothing within its groups any more.
            end: last task of the pass.
        """
        stage, turns = chunk % self._stages, self._turns
        beside = self._turn(stage, _BESIDE, turns.last, *before)
        early = self._once("early_exchange", f"exchange all but the first unit of {chunk}", chunk, unit, beside)
        if not self._times.late_exchange[chunk]:
            return early
        gone = self._gone(stage, chunk) if self._chunks == self._stages else None
        turn = self._turn(stage, "for gradients", turns.gradients, computed, gone)
        after = (beside, gone if turn is None else turn)
        return self._once("late_exchange", f"exchange the first unit of {chunk}", chunk, end, early, *after)

    def linked(self) -> list[Task]:
        """Return all tasks, with those that wait for a pass of another stage linked to it; the sends of a link have
        priorities in the order of the passes at their source."""
        tasks = list(self._tasks)
        for index, source in self._awaits.items():
            end, place = self._ends[source]
            tasks[index] = tasks[index]._replace(after=(*tasks[index].after, end), priority=place)
        return tasks

    def _pass(
        self, direction: str, chunk: int, micro: int, last: int | None, *, first: bool
    ) -> tuple[tuple[int | None, ...], int | None, int | None]:
        """Add a pass of one micro-batch through a chunk, with the send that brings its input and the exchanges within
        it.

        Returns places in the list: a tuple of the tasks that it waits for (None for one that is not there), the task
        after which the first of its gradients exist (if they leave early; else the one before its computing), and the
        one after which its groups exchange nothing any more.

        Args:
            direction: ``forward`` or ``backward``.
            chunk: chunk of the model.
            micro: micro-batch, from 0 on.
            last: the task before it on the stage, None for none.
            first: True for the first pass of a stage, which waits for the switch before it exchanges anything.
        """
        forward, stage, times = direction == "forward", chunk % self._stages, self._step.of_micro_batch(micro)
        arrived = self._arrival(forward, chunk, micro)
        before = arrived, last
        compute, gathered, ring, shared = (
            getattr(times, f"{direction}{kind}")[chunk] for kind in ("", "_gather", "_ring", "_exchange")
        )
        name, stands = f"{direction} {micro} on {chunk}", self._stands[stage] if first else None
        head = 0.0 if stands is None else self._turns.lead[stage]
        waits: tuple[int | None, ...] = (arrived,) if head else (arrived, stands)
        if gathered:
            last = self._task(f"gather for {name}", f"replicas {stage}", "transmission", gathered, last, *waits)
            waits = ()
        closing = not forward and micro == self._step.micro_batches - 1
        early = closing and self._times.early_exchange[chunk] > 0
        lead = float(self._times.lead[chunk])
        parts = ((1 - lead, 0.0), (lead, self._slowed[chunk])) if early else ((1.0, 0.0),)
        tail = self._turns.tail[stage] if closing and self._turns.gradients[stage] else 0.0
        unit = exchanged = None
        if head:
            last, waits = self._task(name, f"stage {stage}", direction, head, last, *waits), (stands,)
        details = {"column": chunk, "micro_batch": micro}
        for number, (part, slowed) in enumerate(parts, start=1):
            unit = last
            seconds = part * compute + slowed - head - (tail if number == len(parts) else 0.0)
            last = self._task(name, f"stage {stage}", direction, seconds, last, *waits, part=direction, **details)
            for kind, resource, waited in (("ring", f"context {stage}", ring), ("exchange", f"shards {stage}", shared)):
                if waited:
                    said: dict[str, float | str] = {"part": f"{direction}_{kind}", **details, "share": part}
                    last = self._task(f"{kind} in {name}", resource, "transmission", part * waited, last, **said)
            head, waits, exchanged = 0.0, (), last
        if tail:
            self._task(name, f"stage {stage}", direction, tail, last)
        return before, unit, exchanged

    def _arrival(self, forward: bool, chunk: int, micro: int) -> int | None:
        """Add the send that brings the input of micro-batch ``micro``'s pass through ``chunk``, from the chunk before
        it (``forward``) or behind it, which the pass waits for, and return its place in the list; None where the pass
        reads the model's inputs or follows the loss."""
        source, stage = chunk - 1 if forward else chunk + 1, chunk % self._stages
        if not 0 <= source < self._chunks:
            return None
        direction, column = "forward" if forward else "backward", max(chunk, source)
        name, link = f"send {direction} {micro} from {source} to {chunk}", f"link {source % self._stages} to {stage}"
        seconds, details = self._step.of_micro_batch(micro).send[column], {"column": column, "micro_batch": micro}
        send = self._task(name, link, "transmission", seconds, self._stands[stage], part="send", **details)
        self._awaits[send] = direction, source, micro
        self._sends[direction, source, micro] = send
        return send

    def _task(
        self, name: str, resource: str, category: str, seconds: float, *after: int | None, **details: float | str
    ) -> int:
        """Add a task of ``seconds`` on a resource, after those of ``after`` that are not None, and return its place in
        the list; ``details`` are shown by a trace."""
        waits = tuple(task for task in after if task is not None)
        self._tasks.append(Task(name, resource, category, float(seconds), waits, details=details))
        return len(self._tasks) - 1
