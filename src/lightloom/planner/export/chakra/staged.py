"""The operations of a step of stages: passes unit by unit, with what their groups exchange, and sends between stages.

    forward pass of a stage       [ unit 0 ][ exchange ] ... [ unit u ][ exchange ] ─► send
    sharded parameters            gather unit 0, then unit u + 1 while unit u computes

A pass's seconds and collectives are dealt out evenly to its units, as the simulation takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.parallelism.pipeline import one_forward_one_backward
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.export.chakra.operations import CollectiveUse, Operation, StageOperations
from lightloom.planner.export.chakra.payloads import Payload, payloads
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.stage_sends import GATHER, Sends, stage_sends
from lightloom.planner.pricing.stage_times import StageExchanges
from lightloom.planner.pricing.strategy_step import exchange_seconds
from lightloom.planner.pricing.tied_exchange import TiedSum, tied_sums
from lightloom.simulation.pipelined import PipelinedStep

_Field = Callable[[StageExchanges], Floats]
"""Which of the seconds, here counts, of the exchanges of a stage: [1, chunks] or [1, stages]."""


class _MicroBatch(NamedTuple):
    """What passes of one size of micro-batch exchange."""

    payloads: list[Payload]
    sends: Sends


class StagedOperations:
    """Builds the lists of the stages of one step."""

    def __init__(self, job: Job, strategy: Strategy, step: PipelinedStep) -> None:
        """Take a step apart.

        Args:
            job: at the prices of the strategy's axes (``strategy_step.on_divided_channels``).
            strategy: other than data parallelism alone.
            step: as it was simulated.

        Raises:
            UnsupportedError: the step has context groups, or circuits that are set anew within it.
        """
        if strategy.cp > 1:
            raise UnsupportedError(
                "its context groups send rings beside attention, which are not written: expected --cp 1"
            )
        if step.turns is not None:
            raise UnsupportedError(
                "its circuits are set anew within the step, which no trace holds: expected no --reconfigure-in-step"
            )
        self._job, self._strategy, self._step = job, strategy, step
        rows = Strategies.of(strategy)
        edges = job.model.chunks(rows)
        self._units: Ints = job.model.units(edges)
        self._by_unit = (step.times.early_exchange > 0)[None]
        self._whole = self._micro_batch(strategy)
        self._last = self._whole
        if strategy.last_samples != strategy.samples:
            batch = strategy.dp * strategy.last_samples
            self._last = self._micro_batch(strategy._replace(micro_batch=0, micro_batches=1, global_batch=batch))
        self.tied = tied_sums(job.model.tied, edges, rows, job.fabric, job.settings, job.tied_pair)

    @property
    def payloads(self) -> Iterator[Payload]:
        """The different collectives of groups on one axis."""
        yield from self._whole.payloads
        yield from self._last.payloads if self._last is not self._whole else ()

    def of_stage(self, stage: int) -> list[Operation]:
        """Return what every rank of a stage does."""
        builder, stages, chunks = StageOperations(), self._strategy.pp, len(self._units)
        settings, last = self._job.settings, self._whole
        gathered = self._collectives(builder, "parameters", last, lambda count: count.replicas.gather, stage)
        builder.wait_for(*gathered)
        for direction, chunk, micro in one_forward_one_backward(
            stage, stages, self._step.micro_batches, chunks // stages
        ):
            self._pass(builder, direction, chunk, micro)
        done = builder.computed
        if not settings.overlap_gradients:
            self._collectives(builder, "gradients", last, lambda count: count.replicas.exchange, stage, *done)
        self._collectives(builder, "token gradients", last, lambda count: count.token_gradients, stage, *done)
        for table in self.tied:
            if stage in table.stages:
                builder.collective("add up tied table", tied_use(table), *done, stages=tuple(table.stages))
        builder.compute("optimizer update", float(self._step.times.update[stage]), *builder.exchanged)
        return builder.operations

    def _micro_batch(self, strategy: Strategy) -> _MicroBatch:
        sends = stage_sends(self._job, Strategies.of(strategy), exchange_seconds(self._job, strategy.algorithm))
        return _MicroBatch(payloads(self._job, strategy, self._by_unit), sends)

    def _pass(self, builder: StageOperations, direction: str, chunk: int, micro: int) -> None:
        """Add a pass with what it waits for, what goes on beside it, and its send."""
        forward, closing = direction == "forward", micro == self._step.micro_batches - 1
        batch, times = self._last if closing else self._whole, self._step.of_micro_batch(micro)
        closing = closing and not forward
        name = f"{direction} of micro-batch {micro}, chunk {chunk}"
        builder.wait_for(*self._arrival(builder, batch, forward, chunk, micro))
        seconds = float((times.forward if forward else times.backward)[chunk])
        seconds += float(self._step.slowed[chunk]) if closing else 0.0
        units = int(self._units[chunk])
        order = range(units) if forward else range(units)[::-1]
        ended: list[tuple[int, tuple[int, ...]]] = []
        gathered = self._gather(builder, batch, forward, chunk, order[0], builder.computed)
        scattered: tuple[int, ...] = ()
        for place, unit in enumerate(order):
            begins = builder.computed
            uses = self._within(batch, forward, chunk, place, units)
            builder.wait_for(*gathered)
            if scattered:
                self._collectives(builder, f"gradients, {name}", batch, _scatter(unit + 1), chunk, *scattered)
            following = order[place + 1] if place + 1 < units else None
            if following is not None:
                gathered = self._gather(builder, batch, forward, chunk, following, begins)
            for number in range(max(len(uses), 1)):
                ends = builder.compute(name, seconds / units / max(len(uses), 1))
                if uses:
                    ends = builder.collective(f"{uses[number].kind}, {name}", uses[number], ends)
                    builder.wait_for(ends)
            scattered = () if forward else builder.computed
            ended.append((unit, scattered))
        if scattered:
            self._collectives(builder, f"gradients, {name}", batch, _scatter(order[-1]), chunk, *scattered)
        self._departure(builder, batch, forward, chunk, micro, ends)
        if closing and self._job.settings.overlap_gradients:
            # Numbered after the send, which is small and which another stage waits for.
            for unit, after in ended:
                self._gradients(builder, batch, chunk, unit, after)
            whole: _Field = lambda count: count.replicas.exchange  # noqa: E731 - a field, by name
            self._collectives(builder, "gradients", batch, whole, chunk, *builder.computed)

    def _within(self, batch: _MicroBatch, forward: bool, chunk: int, place: int, units: int) -> list[CollectiveUse]:
        """Return the collectives of tensor and expert groups in the unit of a pass that comes at ``place``."""
        uses: list[CollectiveUse] = []
        for payload in batch.payloads:
            count = payload.counts.forward if forward else payload.counts.backward
            number = round(float(count[0, chunk]))
            uses += [payload.use] * ((place + 1) * number // units - place * number // units)
        return uses

    def _gather(
        self, builder: StageOperations, batch: _MicroBatch, forward: bool, chunk: int, unit: int, after: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Add the gathers of a unit's parameters in a pass; returns those that the unit waits for."""

        def field(count: StageExchanges) -> Floats:
            exchanges = count.replicas.first if unit == 0 else count.replicas.other
            return exchanges.gather if forward else exchanges.regather

        return self._collectives(builder, f"parameters of unit {unit}, chunk {chunk}", batch, field, chunk, *after)

    def _gradients(
        self, builder: StageOperations, batch: _MicroBatch, chunk: int, unit: int, after: tuple[int, ...]
    ) -> None:
        """Add the exchange of a unit's gradients beside the last pass, where they go unit by unit."""

        def field(count: StageExchanges) -> Floats:
            parts = count.replicas.unit_exchange
            assert parts is not None
            return parts.first if unit == 0 else parts.other

        if self._by_unit[0, chunk]:
            name = f"gradients of unit {unit}, chunk {chunk}"
            self._collectives(builder, name, batch, field, chunk, *after)

    def _collectives(
        self, builder: StageOperations, name: str, batch: _MicroBatch, field: _Field, column: int, *after: int
    ) -> tuple[int, ...]:
        """Add as many collectives as a field counts for a chunk or a stage; returns the last."""
        places: tuple[int, ...] = ()
        for payload in batch.payloads:
            for _ in range(round(float(field(payload.counts)[0, column]))):
                places = (builder.collective(f"{payload.use.kind} {name}", payload.use, *after),)
        return places

    def _arrival(
        self, builder: StageOperations, batch: _MicroBatch, forward: bool, chunk: int, micro: int
    ) -> tuple[int, ...]:
        """Add the receive of what a pass reads; returns what it waits for."""
        source = chunk - 1 if forward else chunk + 1
        if not self._between(chunk, source):
            return ()
        crossing, name = max(chunk, source), f"{'activations' if forward else 'gradients'} of micro-batch {micro}"
        received = builder.receive(
            f"receive {name}, chunk {source} to {chunk}",
            source % self._strategy.pp,
            float(batch.sends.nbytes[0, crossing]),
            self._tag(forward, source, micro),
        )
        gathered = float(batch.sends.gathered[0, crossing])
        if not gathered:
            return (received,)
        return (builder.collective(f"all-gather {name}", sends_use(gathered, self._strategy.tp), received),)

    def _departure(
        self, builder: StageOperations, batch: _MicroBatch, forward: bool, chunk: int, micro: int, after: int
    ) -> None:
        """Add the send of what a pass makes."""
        target = chunk + 1 if forward else chunk - 1
        if self._between(chunk, target):
            builder.send(
                f"send {'activations' if forward else 'gradients'} of micro-batch {micro}, chunk {chunk} to {target}",
                target % self._strategy.pp,
                float(batch.sends.nbytes[0, max(chunk, target)]),
                self._tag(forward, chunk, micro),
                after,
            )

    def _between(self, chunk: int, other: int) -> bool:
        """Whether two chunks exist on two stages."""
        return 0 <= other < len(self._units) and (chunk - other) % self._strategy.pp != 0

    def _tag(self, forward: bool, source: int, micro: int) -> int:
        return ((0 if forward else 1) * len(self._units) + source) * self._step.micro_batches + micro

    @property
    def gathered_sends(self) -> Iterator[CollectiveUse]:
        """Gathers in tensor groups of what stages send in slices."""
        for batch in (self._whole, self._last):
            for nbytes in batch.sends.gathered[0].tolist():
                if nbytes:
                    yield sends_use(nbytes, self._strategy.tp)


def _scatter(unit: int) -> _Field:
    """The reduce-scatter of a unit's gradients."""

    def field(count: StageExchanges) -> Floats:
        return (count.replicas.first if unit == 0 else count.replicas.other).scatter

    return field


def sends_use(nbytes: float, tp: int) -> CollectiveUse:
    """The gather, in a tensor group, of what a stage received in slices."""
    return CollectiveUse("tensor", GATHER, nbytes, tp, 1)


def tied_use(table: TiedSum) -> CollectiveUse:
    """The all-reduce of a tied table's gradients among the stages that hold it."""
    holders = len(table.stages)
    return CollectiveUse("pipeline", "all-reduce", float(table.nbytes[0]) * holders / (2 * (holders - 1)), holders, 0)
