"""A step of pipeline stages becomes tasks: micro-batches in 1F1B order, sends, exchanges between replicas.

    stage 0   F0 ─ F1 ───── B0 ─ B1 ─ [exchange gradients] ─ update
                ╲    ╲     ╱    ╱
    stage 1      F0 ─ B0 ─ F1 ─ B1 ─ [exchange gradients] ─ update

Interleaved stages hold several chunks of the model, and a pass is that of one micro-batch through one chunk.

One rank stands for all of its stage. Exchanges within a pass (tensor parallelism) are part of it; sends have links of
their own in both directions; a stage gathers its parameters before its first pass and exchanges gradients after its
last. What of the gathers within a pass is not hidden by computing stands before the pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Self

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.parallelism.pipeline import one_forward_one_backward
from lightloom.simulation.engine import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """Seconds of each chunk, of shape [..., chunks], and of each stage, of shape [..., stages].

    Chunk c belongs to stage c mod stages; without interleaving they are the same.
    """

    forward: Floats
    """One micro-batch through a chunk, as the next five."""
    backward: Floats
    forward_exchange: Floats
    """Collectives of tensor and expert parallelism in a forward pass."""
    backward_exchange: Floats
    forward_gather: Floats
    """Gathers of sharded parameters in a forward pass that computing does not hide."""
    backward_gather: Floats
    """The same in a backward pass, with the gradients' reduce-scatter."""
    send: Floats
    """From the chunk before this one, or its gradient back; 0 for the first."""
    gather: Floats
    """Before the first pass of a stage: sharded parameters; of each stage, as the next two."""
    exchange: Floats
    """After the last pass: gradients, all-reduced or reduce-scattered."""
    update: Floats

    @property
    def passes(self) -> Floats:
        """Seconds of whole passes, forward and backward: [2, ..., chunks]."""
        return np.stack(
            [
                self.forward + self.forward_gather + self.forward_exchange,
                self.backward + self.backward_gather + self.backward_exchange,
            ]
        )

    def row(self, index: int) -> Self:
        """Return one row of columns of strategies."""
        return type(self)(**{each.name: getattr(self, each.name)[index] for each in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinedStep:
    """A step of stages whose micro-batches are alike, but for the last one, which may be smaller."""

    times: StageTimes
    """Arrays of shape [chunks] or [stages]."""
    micro_batches: int
    last: StageTimes | None = None
    """Times of the last micro-batch, where it is smaller: only its passes and sends count."""

    def of_micro_batch(self, micro: int) -> StageTimes:
        """Return the times of one micro-batch."""
        return self.last if self.last is not None and micro == self.micro_batches - 1 else self.times

    def play(self) -> PlayedStep:
        """Return when the step ends and what the rank of each stage spends it on.

        Compiled; equal to running the tasks of :func:`lower_pipelined`.
        """
        from lightloom.simulation._pipeline_kernels import play

        times, last = self.times, self.last or self.times
        ends, sending, waiting = play(
            np.ascontiguousarray(np.stack([times.passes, last.passes], axis=1)),
            np.stack([times.send, last.send]),
            times.gather,
            times.exchange,
            times.update,
            self.micro_batches,
        )
        step_time = float(ends.max())
        spent = {
            "compute_s": self.pass_seconds("forward") + self.pass_seconds("backward"),
            "tensor_and_expert_exchange_s": self.pass_seconds("forward_exchange")
            + self.pass_seconds("backward_exchange"),
            "parameter_gather_s": self.pass_seconds("forward_gather")
            + self.pass_seconds("backward_gather")
            + times.gather,
            "pipeline_send_s": sending,
            "bubble_s": waiting + (step_time - ends),
            "gradient_exchange_s": times.exchange,
            "update_s": times.update,
        }
        return PlayedStep(step_time, spent)

    def pass_seconds(self, name: str) -> Floats:
        """Return the seconds that the passes of a stage spend on a field of the times, over the step: [stages]."""
        last = self.last or self.times
        chunks = (self.micro_batches - 1) * getattr(self.times, name) + getattr(last, name)
        stage: Floats = chunks.reshape(-1, len(self.times.gather)).sum(axis=0)
        return stage

    @property
    def transmission(self) -> float:
        """Seconds of all tasks that transmit, hidden or not, as ``Timeline.busy_time`` counts them."""
        passes = ("forward_exchange", "backward_exchange", "forward_gather", "backward_gather", "send", "send")
        within = sum(float(self.pass_seconds(name).sum()) for name in passes)
        return within + float((self.times.gather + self.times.exchange).sum())


class PlayedStep(NamedTuple):
    """The outcome of a step of stages."""

    step_time: float
    """Seconds until the last stage has updated its parameters."""
    spent: Mapping[str, Floats]
    """Seconds of the rank of each stage by the keys of :data:`SPENT`, each [stages]; they add up to the step."""

    def breakdown(self, stage: int = 0) -> dict[str, float]:
        """Return the seconds of one stage's rank by the parts of ``Timeline.breakdown``."""
        parts = dict.fromkeys(("compute_s", "exposed_communication_s", "exposed_reconfiguration_s", "idle_s"), 0.0)
        for name, seconds in self.spent.items():
            parts[SPENT[name]] += float(seconds[stage])
        return parts


SPENT: Mapping[str, str] = {
    "compute_s": "compute_s",
    "update_s": "compute_s",
    "tensor_and_expert_exchange_s": "exposed_communication_s",
    "parameter_gather_s": "exposed_communication_s",
    "pipeline_send_s": "exposed_communication_s",
    "gradient_exchange_s": "exposed_communication_s",
    "bubble_s": "idle_s",
}
"""What a rank spends a step on, and the part of ``Timeline.breakdown`` that it counts to."""


def lower_pipelined(times: StageTimes, micro_batches: int, last: StageTimes | None = None) -> list[Task]:
    """Return the tasks of one step, each array of ``times`` of shape [chunks] or [stages].

    Passes and sends of the last micro-batch take the seconds of ``last``, where they differ.
    """
    builder = _Builder(PipelinedStep(times=times, micro_batches=micro_batches, last=last))
    for stage in range(len(times.gather)):
        builder.stage(stage)
    return builder.linked()


class _Builder:
    def __init__(self, step: PipelinedStep) -> None:
        self._step = step
        self._times = step.times
        self._micro_batches = step.micro_batches
        self._stages = len(step.times.gather)
        self._chunks = len(step.times.forward)
        self._tasks: list[Task] = []
        self._ends: dict[tuple[str, int, int], tuple[int, int]] = {}
        """The task that ends a pass and the pass's place in the order of its stage, by direction, chunk and
        micro-batch."""
        self._awaits: dict[int, tuple[str, int, int]] = {}
        """The pass of another stage that a task waits for; it may not be listed yet."""

    def stage(self, stage: int) -> None:
        times, last = self._times, None
        if times.gather[stage]:
            last = self._task(f"gather {stage}", f"replicas {stage}", "transmission", times.gather[stage], None)
        order = one_forward_one_backward(stage, self._stages, self._micro_batches, self._chunks // self._stages)
        for place, (direction, chunk, micro) in enumerate(order):
            last = self._pass(direction, chunk, micro, last)
            self._ends[direction, chunk, micro] = last, place
        if times.exchange[stage]:
            last = self._task(f"exchange {stage}", f"replicas {stage}", "transmission", times.exchange[stage], last)
        self._task(f"update {stage}", f"stage {stage}", "update", times.update[stage], last)

    def linked(self) -> list[Task]:
        """Return the tasks, those that wait for another stage included; a link sends in the order of its source."""
        tasks = list(self._tasks)
        for index, source in self._awaits.items():
            end, place = self._ends[source]
            tasks[index] = replace(tasks[index], after=(*tasks[index].after, end), priority=place)
        return tasks

    def _pass(self, direction: str, chunk: int, micro: int, last: int | None) -> int:
        forward, stage, times = direction == "forward", chunk % self._stages, self._step.of_micro_batch(micro)
        source = chunk - 1 if forward else chunk + 1
        arrived: tuple[int, ...] = ()
        if 0 <= source < self._chunks:
            duration = times.send[max(chunk, source)]
            name = f"send {direction} {micro} from {source} to {chunk}"
            link = f"link {source % self._stages} to {stage}"
            arrived = (self._task(name, link, "transmission", duration, None),)
            self._awaits[arrived[0]] = (direction, source, micro)
        compute = times.forward if forward else times.backward
        gathered = times.forward_gather if forward else times.backward_gather
        shared = times.forward_exchange if forward else times.backward_exchange
        name = f"{direction} {micro} on {chunk}"
        if gathered[chunk]:
            gather = self._task(
                f"gather for {name}", f"replicas {stage}", "transmission", gathered[chunk], last, *arrived
            )
            last, arrived = gather, ()
        end = self._task(name, f"stage {stage}", direction, compute[chunk], last, *arrived)
        if shared[chunk]:
            end = self._task(f"exchange in {name}", f"shards {stage}", "transmission", shared[chunk], end)
        return end

    def _task(self, name: str, resource: str, category: str, duration: float, last: int | None, *after: int) -> int:
        before = () if last is None else (last,)
        self._tasks.append(
            Task(name=name, resource=resource, category=category, duration=float(duration), after=(*before, *after))
        )
        return len(self._tasks) - 1
