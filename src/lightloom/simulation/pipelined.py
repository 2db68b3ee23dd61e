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
from typing import NamedTuple, Self

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.simulation.contention import slowing
from lightloom.simulation.switch_turns import SwitchTurns


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
    """The same in a backward pass, with their gradients."""
    forward_gather: Floats
    """Gathers of sharded parameters in a forward pass that computing does not hide."""
    backward_gather: Floats
    """The same in a backward pass, with the gradients' reduce-scatter."""
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
        """Seconds of whole passes, forward and backward: [2, ..., chunks]."""
        computed_forward = self.forward + self.forward_ring + self.forward_exchange
        return np.stack([self.forward_gather + computed_forward, self.backward_gather + self.computed_backward])

    @property
    def computed_backward(self) -> Floats:
        """Seconds of backward passes without what they wait for of sharded parameters: [..., chunks]."""
        return self.backward + self.backward_ring + self.backward_exchange

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
    arithmetic_share: float = 0.0
    """Share of the arithmetic that the gradients' exchange takes from the backward passes beside it."""
    turns: SwitchTurns | None = None
    """Turns of a circuit switch; none where circuits stand for the whole step."""

    def of_micro_batch(self, micro: int) -> StageTimes:
        """Return the times of one micro-batch."""
        return self.last if self.last is not None and micro == self.micro_batches - 1 else self.times

    @property
    def slowed(self) -> Floats:
        """Seconds by which the exchange of gradients beside it prolongs the last backward pass of a chunk: [chunks]."""
        beside = self.times.lead * (self.last or self.times).computed_backward
        return slowing(beside, self.times.early_exchange, self.arithmetic_share)

    @property
    def seconds(self) -> float:
        """Seconds until the last stage has updated its parameters, as :meth:`play` finds them, and nothing else."""
        return float(self._ends()[0].max())

    def play(self) -> PlayedStep:
        """Return when the step ends and what the rank of each stage spends it on.

        Compiled; equal to running the tasks of ``pipelined_tasks.lower_pipelined``.
        """
        times, slowed = self.times, self.slowed
        ends, sending, waiting, exchanging, turning = self._ends()
        step_time = float(ends.max())
        spent = {
            "compute_s": self.pass_seconds("forward")
            + self.pass_seconds("backward")
            + slowed.reshape(-1, len(ends)).sum(axis=0),
            "tensor_and_expert_exchange_s": self.pass_seconds("forward_exchange")
            + self.pass_seconds("backward_exchange"),
            "context_exchange_s": self.pass_seconds("forward_ring") + self.pass_seconds("backward_ring"),
            "parameter_gather_s": self.pass_seconds("forward_gather")
            + self.pass_seconds("backward_gather")
            + times.gather,
            "pipeline_send_s": sending,
            "bubble_s": waiting + (step_time - ends),
            "gradient_exchange_s": exchanging + times.exchange + times.tied,
            "switch_turn_s": turning,
            "update_s": times.update,
        }
        return PlayedStep(step_time, spent)

    def _ends(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """When each stage ends, and what it sends, waits, exchanges and turns until then, in seconds: [stages] each."""
        from lightloom.simulation._pipeline_kernels import play

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
        """Return the seconds that the passes of a stage spend on a field of the times, over the step: [stages]."""
        last = self.last or self.times
        chunks = (self.micro_batches - 1) * getattr(self.times, name) + getattr(last, name)
        stage: Floats = chunks.reshape(-1, len(self.times.gather)).sum(axis=0)
        return stage

    @property
    def transmission(self) -> float:
        """Seconds of all tasks that transmit, hidden or not, as ``Timeline.busy_time`` counts them."""
        kinds = ("exchange", "ring", "gather")
        passes = [f"{direction}_{kind}" for direction in ("forward", "backward") for kind in kinds] + ["send", "send"]
        within = sum(float(self.pass_seconds(name).sum()) for name in passes)
        times = self.times
        once = (times.gather, times.early_exchange, times.late_exchange, times.exchange, times.tied)
        return within + sum(float(seconds.sum()) for seconds in once)


class PlayedStep(NamedTuple):
    """The outcome of a step of stages."""

    step_time: float
    """Seconds until the last stage has updated its parameters."""
    spent: Mapping[str, Floats]
    """Seconds of the rank of each stage by the keys of :data:`SPENT`, each [stages]; they add up to the step."""

    def breakdown(self) -> dict[str, float]:
        """Return the seconds of a rank, the mean over all stages, by the parts of ``Timeline.breakdown``."""
        parts = dict.fromkeys(("compute_s", "exposed_communication_s", "exposed_reconfiguration_s", "idle_s"), 0.0)
        for name, seconds in self.spent.items():
            parts[SPENT[name]] += float(seconds.mean())
        return parts


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
"""What a rank spends a step on, and the part of ``Timeline.breakdown`` that it counts to."""
