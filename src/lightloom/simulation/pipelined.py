"""A step of pipeline stages becomes tasks: micro-batches in 1F1B order, sends, exchanges between replicas.

    stage 0   F0 ─ F1 ───── B0 ─ B1 ─ [exchange gradients] ─ update
                ╲    ╲     ╱    ╱
    stage 1      F0 ─ B0 ─ F1 ─ B1 ─ [exchange gradients] ─ update

Interleaved stages hold several chunks of the model, and a pass is that of one micro-batch through one chunk.

One rank stands for all of its stage. Exchanges within a pass (tensor parallelism) are part of it; sends have links of
their own in both directions; a stage gathers its parameters before its first pass and exchanges gradients after its
last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lightloom.core.arrays import Floats
from lightloom.parallelism.pipeline import one_forward_one_backward
from lightloom.simulation.engine import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """Seconds of each chunk, of shape [..., chunks], and of each stage, of shape [..., stages].

    Chunk c belongs to stage c mod stages; without interleaving they are the same.
    """

    forward: Floats
    """One micro-batch through a chunk, as the next three."""
    backward: Floats
    forward_exchange: Floats
    """Collectives of tensor and expert parallelism in a forward pass."""
    backward_exchange: Floats
    send: Floats
    """From the chunk before this one, or its gradient back; 0 for the first."""
    gather: Floats
    """Before the first pass of a stage: sharded parameters; of each stage, as the next two."""
    exchange: Floats
    """After the last pass: gradients, all-reduced or reduce-scattered."""
    update: Floats


def lower_pipelined(times: StageTimes, micro_batches: int) -> list[Task]:
    """Return the tasks of one step, each array of ``times`` of shape [chunks] or [stages]."""
    builder = _Builder(times, micro_batches)
    for stage in range(len(times.gather)):
        builder.stage(stage)
    return builder.linked()


class _Builder:
    def __init__(self, times: StageTimes, micro_batches: int) -> None:
        self._times = times
        self._micro_batches = micro_batches
        self._stages = len(times.gather)
        self._chunks = len(times.forward)
        self._tasks: list[Task] = []
        self._ends: dict[tuple[str, int, int], int] = {}
        """The task that ends a pass, by direction, chunk and micro-batch."""
        self._awaits: dict[int, tuple[str, int, int]] = {}
        """The pass of another stage that a task waits for; it may not be listed yet."""

    def stage(self, stage: int) -> None:
        times, last = self._times, None
        if times.gather[stage]:
            last = self._task(f"gather {stage}", f"replicas {stage}", "transmission", times.gather[stage], None)
        order = one_forward_one_backward(stage, self._stages, self._micro_batches, self._chunks // self._stages)
        for direction, chunk, micro in order:
            last = self._pass(direction, chunk, micro, last)
        if times.exchange[stage]:
            last = self._task(f"exchange {stage}", f"replicas {stage}", "transmission", times.exchange[stage], last)
        self._task(f"update {stage}", f"stage {stage}", "update", times.update[stage], last)

    def linked(self) -> list[Task]:
        """Return the tasks, those that wait for another stage included."""
        return [
            replace(task, after=(*task.after, self._ends[self._awaits[index]])) if index in self._awaits else task
            for index, task in enumerate(self._tasks)
        ]

    def _pass(self, direction: str, chunk: int, micro: int, last: int | None) -> int:
        forward, stage = direction == "forward", chunk % self._stages
        source = chunk - 1 if forward else chunk + 1
        arrived: tuple[int, ...] = ()
        if 0 <= source < self._chunks:
            duration = self._times.send[max(chunk, source)]
            name = f"send {direction} {micro} from {source} to {chunk}"
            link = f"link {source % self._stages} to {stage}"
            arrived = (self._task(name, link, "transmission", duration, None),)
            self._awaits[arrived[0]] = (direction, source, micro)
        compute = self._times.forward if forward else self._times.backward
        shared = self._times.forward_exchange if forward else self._times.backward_exchange
        name = f"{direction} {micro} on {chunk}"
        end = self._task(name, f"stage {stage}", direction, compute[chunk], last, *arrived)
        if shared[chunk]:
            end = self._task(f"exchange in {name}", f"shards {stage}", "transmission", shared[chunk], end)
        self._ends[direction, chunk, micro] = end
        return end

    def _task(self, name: str, resource: str, category: str, duration: float, last: int | None, *after: int) -> int:
        before = () if last is None else (last,)
        self._tasks.append(
            Task(name=name, resource=resource, category=category, duration=float(duration), after=(*before, *after))
        )
        return len(self._tasks) - 1
