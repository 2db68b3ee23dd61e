"""Operations of the ranks of a stage in a step, before ranks and nodes have numbers.

compute      seconds on the accelerator
host         seconds beside it: circuits are set up, gradients are coded
collective   of the rank's group on one axis of parallelism
send         to the rank in the same place of another stage, and its receive there
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from lightloom.collectives.collective import Kind
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.errors import UnsupportedError
from lightloom.planning.parallelism.plan import one_forward_one_backward
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy, node_replicas
from lightloom.planning.pricing.group_prices import Axis
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.step import (
    GATHER,
    ExchangeTime,
    Sends,
    StageExchanges,
    TiedSum,
    stage_exchanges,
    stage_sends,
    tied_sums,
)
from lightloom.planning.pricing.strategy_step import StrategyStep, exchange_seconds
from lightloom.planning.simulation.engine import Task, lower
from lightloom.planning.simulation.pipelined import PipelinedStep

Verb = Literal["compute", "host", "collective", "send", "receive"]


class CollectiveUse(NamedTuple):
    """One collective in groups of ranks."""

    axis: Axis
    kind: Kind
    nbytes: float
    """Bytes of the collective (``Collective.nbytes``)."""
    ranks: int
    stride: int
    """Distance between neighbours of a group, in ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that every rank of a stage does."""

    verb: Verb
    name: str
    data: tuple[int, ...] = ()
    """Places in the stage's list whose results it needs; all of them come before it."""
    control: tuple[int, ...] = ()
    """Places after which it comes, to keep an order."""
    seconds: float = 0.0
    """Duration of a ``compute`` or ``host`` operation."""
    flops: int | None = None
    """Floating-point operations, where they are known."""
    use: CollectiveUse | None = None
    """Collective of a ``collective`` operation."""
    stages: tuple[int, ...] = ()
    """Stages whose ranks a collective joins, where these are several."""
    peer: int = 0
    """Stage of the other end of a ``send`` or ``receive``."""
    nbytes: float = 0.0
    """Bytes of a ``send`` or ``receive``."""
    tag: int = 0
    """Number that a ``send`` and its ``receive`` share, and no other message."""


class StageOperations:
    """Builds the list of a stage: computing, and collectives, each one after the other."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.computed: tuple[int, ...] = ()
        """Place of the last operation that computes; empty before the first."""
        self.exchanged: tuple[int, ...] = ()
        """Place of the last collective; empty before the first."""
        self._awaited: tuple[int, ...] = ()

    def compute(self, name: str, seconds: float, *after: int, flops: int | None = None) -> int:
        """Add a computing operation of ``seconds`` after the computing before it, the operations that :meth:`wait_for`
        named and the places ``after``; return its place in the list. ``flops`` are its floating-point operations, None
        where they are not known."""
        data = tuple(dict.fromkeys((*self.computed, *self._awaited, *after)))
        self._awaited = ()
        place = self.add(Operation(verb="compute", name=name, data=data, seconds=seconds, flops=flops))
        self.computed = (place,)
        return place

    def wait_for(self, *places: int) -> None:
        """Make the next computing operation, and no later one, wait for the operations at these places of the list,
        too."""
        self._awaited = (*self._awaited, *places)

    def host(self, name: str, seconds: float, *after: int) -> int:
        """Add an operation of ``seconds`` in the network or on the host, which needs the results of ``after`` and comes
        behind the last collective or host operation; the next collective comes behind it. Return its place in the
        list."""
        place = self.add(Operation(verb="host", name=name, data=after, control=self.exchanged, seconds=seconds))
        self.exchanged = (place,)
        return place

    def collective(self, name: str, use: CollectiveUse, *after: int, stages: tuple[int, ...] = ()) -> int:
        """Add a collective that needs the results of ``after`` behind the last collective or host operation, as all
        ranks of a group issue theirs in the same order; return its place in the list. ``stages`` are those whose ranks
        it joins, where these are several."""
        data = tuple(dict.fromkeys(after))
        control = tuple(place for place in self.exchanged if place not in data)
        place = self.add(Operation(verb="collective", name=name, data=data, control=control, use=use, stages=stages))
        self.exchanged = (place,)
        return place

    def add(self, operation: Operation) -> int:
        """Add an operation as it is, with the dependencies that it states; return its place in the list."""
        self.operations.append(operation)
        return len(self.operations) - 1


# The operations of data parallelism alone: those of the tasks that were simulated, one by one.


def plain_operations(job: Job, step: StrategyStep, computing: Sequence[Task]) -> list[Operation]:
    """Return what every rank does in a step of data parallelism alone, an operation for each task of the simulated
    step, in their order: transmissions become collectives, set-ups and codecs host operations.

    Args:
        job: where the step was simulated.
        step: simulated step of data parallelism alone.
        computing: what a rank computes (``Job.computing``).
    """
    assert step.result is not None and step.prices is not None
    plan, share = step.result.plan, job.fabric.arithmetic_share
    tasks, _ = lower(plan, computing, step.prices, overlap=job.overlap, arithmetic_share=share)
    exchanges = iter(plan.exchanges)
    builder, places = StageOperations(), list[int]()
    for task in tasks:
        after = tuple(places[earlier] for earlier in task.after)
        if task.resource == "compute":
            place = builder.compute(task.name, task.duration, *after, flops=task.details.get("flops"))
        elif task.category == "transmission":
            exchange = next(exchanges)
            use = CollectiveUse("data", exchange.kind, exchange.nbytes, plan.ranks, 1)
            place = builder.collective(task.name, use, *after)
        else:
            place = builder.host(task.name, task.duration, *after)
        places.append(place)
    return builder.operations


# Which collectives the seconds of a staged step are made of.
#
# Every field of ``StageExchanges`` is a sum of seconds of collectives. Priced at one second for one collective and at
# none for all others, the field says how many of them there are, of every chunk or stage.

_Group = tuple[Axis, Kind, int]
"""Axis, kind and ranks of collectives."""
_Priced = tuple[Axis, Kind, int, float]
"""Axis, kind, ranks and bytes of a collective, as exchanges are priced."""


class Payload(NamedTuple):
    """One collective, and how many of it each chunk or stage has."""

    use: CollectiveUse
    shared: float
    """Groups that divide the channels, by whose number the bytes are priced."""
    counts: dict[str, list[int]]
    """Numbers by the part of the step that they belong to (:func:`_counts`): [chunks] or [stages]."""


def payloads(job: Job, strategy: Strategy, by_unit: Mask) -> list[Payload]:
    """Return the different collectives (axis, kind, bytes, ranks, stride) of a step of pipeline stages, each with how
    many of it every chunk or stage has in one pass, or once a step: lists by part of the step (a key such as
    ``forward``, :func:`_counts`). Collectives of one rank or of no bytes are left out. Where groups share channels,
    ``use`` has the bytes of one group, and ``shared`` is the number by which they are multiplied to be priced.

    Args:
        job: where the strategy runs, at the prices of its axes.
        strategy: other than data parallelism alone.
        by_unit: True where a chunk exchanges gradients unit by unit (a unit is a block of the model): [1, chunks].
    """
    rows, sharing = Strategies.of(strategy), job.shares is None
    priced: dict[_Priced, None] = {}

    def record(group: _Group, nbytes: Floats) -> Floats:
        """Note the different sizes above 0 of a collective of several ranks, and return no seconds for each."""
        if group[2] > 1:
            priced.update(dict.fromkeys((*group, size) for size in np.unique(nbytes).tolist() if size > 0))
        return np.zeros_like(nbytes)

    def exchanges(price: Callable[[_Group, Floats], Floats]) -> StageExchanges:
        """Return the exchanges of the step with each collective at the seconds that ``price`` gives its bytes."""
        return stage_exchanges(job, rows, partial(_priced_by, price), sharing=sharing, by_unit=by_unit)

    exchanges(record)
    found = []
    for each in priced:
        axis, kind, ranks, nbytes = each
        stride = _stride(job, strategy, axis, kind)
        shared = float(job.fabric.channel_sharing(np.array([stride]))[0]) if sharing and axis != "tensor" else 1.0
        use = CollectiveUse(axis, kind, nbytes / shared, ranks, stride)
        found.append(Payload(use, shared, _counts(exchanges(partial(_count, each)))))
    return found


def _priced_by(price: Callable[[_Group, Floats], Floats], axis: Axis) -> ExchangeTime:
    """Return a function of exchange times on one axis that calls ``price`` with (axis, kind, ranks) and the bytes of
    the collectives, all of whose groups have equally many ranks."""
    return lambda kind, _, ranks, __, ___, nbytes: price((axis, kind, int(ranks[0])), nbytes)


def _count(priced: _Priced, group: _Group, nbytes: Floats) -> Floats:
    """Return, in the shape of ``nbytes``, 1 for each collective that equals ``priced`` in axis, kind, ranks (``group``)
    and bytes, 0 for all others."""
    return np.where(nbytes == priced[3], float(group == priced[:3]), 0.0)


def _counts(exchanges: StageExchanges) -> dict[str, list[int]]:
    """Return how many collectives of one sort each chunk or stage has, lists by the part of the step, from exchanges
    that take a second for each of them and none for others.

    Parts are ``forward``, ``backward``, ``token gradients``, ``parameters`` and ``gradients``; then for the ``first``
    unit (block of the model) of a chunk and for each ``other`` one its gathers and scatters (``gather``, ``regather``
    and ``scatter of first``, of ``other``), and ``gradients of first`` and ``gradients of other`` where they are
    exchanged unit by unit. Lists are by chunk, those of ``token gradients`` and ``parameters``, and of ``gradients``
    that overlap no passes, by stage.
    """
    replicas = exchanges.replicas
    columns = {
        "forward": exchanges.forward,
        "backward": exchanges.backward,
        "token gradients": exchanges.token_gradients,
        "parameters": replicas.gather,
        "gradients": replicas.exchange,
    }
    for unit in ("first", "other"):
        columns |= {f"{name} of {unit}": column for name, column in getattr(replicas, unit)._asdict().items()}
        if replicas.unit_exchange is not None:
            columns[f"gradients of {unit}"] = getattr(replicas.unit_exchange, unit)
    return {name: np.rint(column[0]).astype(int).tolist() for name, column in columns.items()}


def _stride(job: Job, strategy: Strategy, axis: Axis, kind: Kind) -> int:
    """Return the distance between neighbours of an axis's group, in ranks: 1 on the tensor axis, tp · ep on that of
    expert gradients, tp on all others, and for the all-reduce of hybrid sharding tp times the replicas in a node."""
    tp = strategy.tp
    if axis == "data" and strategy.sharding == "hybrid" and kind == "all-reduce":
        return tp * int(node_replicas(np.array(strategy.replicas), np.array(tp), job.fabric.node_ranks))
    return {"tensor": 1, "expert-data": tp * strategy.ep}.get(axis, tp)


# The operations of a step of stages: passes unit by unit, with what their groups exchange, and sends between stages.
#
# forward pass of a stage       [ unit 0 ][ exchange ] ... [ unit u ][ exchange ] ─► send
# sharded parameters            gather unit 0, then unit u + 1 while unit u computes
#
# A pass's seconds and collectives are dealt out evenly to its units, as the simulation takes them.


class _Pass(NamedTuple):
    """One pass of a micro-batch through a chunk, and the list to which its operations are added."""

    builder: StageOperations
    payloads: list[Payload]
    sends: Sends
    forward: bool
    chunk: int
    micro: int

    @property
    def tensors(self) -> str:
        """Name of what the pass receives from and sends to other stages, such as ``activations of micro-batch 3``
        (numbered from 0); ``gradients of ...`` for a backward pass."""
        return f"{'activations' if self.forward else 'gradients'} of micro-batch {self.micro}"

    def collectives(self, name: str, part: str, *after: int) -> tuple[int, ...]:
        """Add the collectives that the pass's chunk has for a part of the step (a key of ``Payload.counts``), each
        after the operations at the places ``after``; return the place of the last, empty where there is none. Each is
        named by its kind and then ``name``."""
        return _add_collectives(self.builder, name, self.payloads, part, self.chunk, *after)


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
            self._last = self._micro_batch(strategy.last_micro_batch)
        self.tied = tied_sums(job.model.tied, edges, rows, job.fabric, job.settings, job.tied_pair)

    @property
    def payloads(self) -> Iterator[Payload]:
        """The different collectives of tensor, expert, data and expert-data groups in a step of full micro-batches,
        then those of the last micro-batch where it is smaller."""
        yield from self._whole[0]
        yield from self._last[0] if self._last is not self._whole else ()

    def of_stage(self, stage: int) -> list[Operation]:
        """Return the operations of every rank of a stage in the step, in the order in which they are added: each comes
        after all that it waits for. They are the gather of the stage's parameters (where sharding gathers them once a
        step), its passes in 1F1B order, the exchanges once a step (of gradients, unless they overlap the last backward
        pass, and of token gradients), sums over tied tables and the update."""
        builder, stages, chunks = StageOperations(), self._strategy.pp, len(self._units)
        builder.wait_for(*_add_collectives(builder, "parameters", self._whole[0], "parameters", stage))
        for direction, chunk, micro in one_forward_one_backward(
            stage, stages, self._step.micro_batches, chunks // stages
        ):
            self._pass(builder, direction, chunk, micro)
        done = builder.computed
        for part in ("token gradients",) if self._job.settings.overlap_gradients else ("gradients", "token gradients"):
            _add_collectives(builder, part, self._whole[0], part, stage, *done)
        for table in self.tied:
            if stage in table.stages:
                builder.collective("add up tied table", tied_use(table), *done, stages=tuple(table.stages))
        builder.compute("optimizer update", float(self._step.times.update[stage]), *builder.exchanged)
        return builder.operations

    def _micro_batch(self, strategy: Strategy) -> tuple[list[Payload], Sends]:
        """Return the collectives of a step of ``strategy`` with their numbers by part of the step (:func:`payloads`),
        and what its stages send each other for one micro-batch: seconds, bytes of a rank's link, and bytes that a
        tensor group gathers from slices afterwards."""
        sends = stage_sends(self._job, Strategies.of(strategy), exchange_seconds(self._job, strategy.algorithm))
        return payloads(self._job, strategy, self._by_unit), sends

    def _pass(self, builder: StageOperations, direction: str, chunk: int, micro: int) -> None:
        """Add to ``builder`` a pass of one micro-batch through a chunk: the receive that it waits for, its computing
        unit by unit (a unit is a block of the model) with the collectives in and beside it, its send, and after the
        backward pass of the last micro-batch, where gradients overlap, their exchange. A pass's seconds (with those by
        which the exchange of gradients beside it prolongs the last backward pass) are divided equally among its units,
        and a unit's among its collectives; the backward pass takes the units in reverse.

        Args:
            builder: of the stage.
            direction: "forward" or "backward".
            chunk: number over all stages, from 0; chunk c is of stage c modulo pp.
            micro: number of the micro-batch, from 0; the last may be smaller.
        """
        forward, closing = direction == "forward", micro == self._step.micro_batches - 1
        now = _Pass(builder, *(self._last if closing else self._whole), forward, chunk, micro)
        times, closing = self._step.of_micro_batch(micro), closing and not forward
        name = f"{direction} of micro-batch {micro}, chunk {chunk}"
        builder.wait_for(*self._arrival(now))
        seconds = float((times.forward if forward else times.backward)[chunk])
        seconds += float(self._step.slowed[chunk]) if closing else 0.0
        units = int(self._units[chunk])
        order = range(units) if forward else range(units)[::-1]
        ended: list[tuple[int, tuple[int, ...]]] = []
        gathered = self._gather(now, order[0], builder.computed)
        scattered: tuple[int, ...] = ()
        for place, unit in enumerate(order):
            begins = builder.computed
            uses = self._within(now, place, units)
            builder.wait_for(*gathered)
            if scattered:
                now.collectives(f"gradients, {name}", f"scatter of {_which(unit + 1)}", *scattered)
            if place + 1 < units:
                gathered = self._gather(now, order[place + 1], begins)
            for number in range(max(len(uses), 1)):
                ends = builder.compute(name, seconds / units / max(len(uses), 1))
                if uses:
                    ends = builder.collective(f"{uses[number].kind}, {name}", uses[number], ends)
                    builder.wait_for(ends)
            scattered = () if forward else builder.computed
            ended.append((unit, scattered))
        if scattered:
            now.collectives(f"gradients, {name}", f"scatter of {_which(order[-1])}", *scattered)
        self._message(now, "send", chunk + 1 if forward else chunk - 1, ends)
        if closing and self._job.settings.overlap_gradients:
            # Numbered after the send, which is small and which another stage waits for.
            for unit, after in ended if self._by_unit[0, chunk] else ():
                now.collectives(f"gradients of unit {unit}, chunk {chunk}", f"gradients of {_which(unit)}", *after)
            now.collectives("gradients", "gradients", *builder.computed)

    def _within(self, now: _Pass, place: int, units: int) -> list[CollectiveUse]:
        """Return the collectives of tensor and expert groups in the unit of a pass that comes at ``place`` in the order
        of the pass, from 0 on: those of the pass through the chunk, dealt out to its ``units`` units as evenly as whole
        numbers can be."""
        uses: list[CollectiveUse] = []
        for payload in now.payloads:
            number = payload.counts["forward" if now.forward else "backward"][now.chunk]
            uses += [payload.use] * ((place + 1) * number // units - place * number // units)
        return uses

    def _gather(self, now: _Pass, unit: int, after: tuple[int, ...]) -> tuple[int, ...]:
        """Add the gathers of a unit's sharded parameters in a pass (``unit``: number within the chunk, from 0; gathered
        again for a backward pass), after the operations at ``after``; return the place of the one that the unit waits
        for, empty without any."""
        part = f"{'gather' if now.forward else 'regather'} of {_which(unit)}"
        return now.collectives(f"parameters of unit {unit}, chunk {now.chunk}", part, *after)

    def _arrival(self, now: _Pass) -> tuple[int, ...]:
        """Add the receive of what a pass reads from another stage, and the gather of its slices in the tensor group
        where it comes in slices; return the place that the pass waits for, empty where its chunk receives nothing."""
        source = now.chunk - 1 if now.forward else now.chunk + 1
        received = self._message(now, "receive", source)
        gathered = float(now.sends.gathered[0, max(now.chunk, source)]) if received else 0.0
        if not gathered:
            return received
        return (now.builder.collective(f"all-gather {now.tensors}", sends_use(gathered, self._strategy.tp), *received),)

    def _message(self, now: _Pass, verb: Verb, other: int, *after: int) -> tuple[int, ...]:
        """Add the send of a pass to the chunk ``other``, or its receive from there (``verb`` "send" or "receive"),
        after the operations at ``after``; return its place, empty where that chunk does not exist or is of the same
        stage."""
        chunks, stages = len(self._units), self._strategy.pp
        if not 0 <= other < chunks or (now.chunk - other) % stages == 0:
            return ()
        source, target = (now.chunk, other) if verb == "send" else (other, now.chunk)
        message = Operation(
            verb=verb,
            name=f"{verb} {now.tensors}, chunk {source} to {target}",
            data=after,
            peer=other % stages,
            nbytes=float(now.sends.nbytes[0, max(source, target)]),
            tag=((0 if now.forward else 1) * chunks + source) * self._step.micro_batches + now.micro,
        )
        return (now.builder.add(message),)

    @property
    def gathered_sends(self) -> Iterator[CollectiveUse]:
        """The gathers in tensor groups of what stages send in slices, one for each chunk that has any: of a
        micro-batch, then of the last one, which repeats them where it is alike."""
        for _, sends in (self._whole, self._last):
            for nbytes in sends.gathered[0].tolist():
                if nbytes:
                    yield sends_use(nbytes, self._strategy.tp)


def _add_collectives(
    builder: StageOperations, name: str, payloads: list[Payload], part: str, column: int, *after: int
) -> tuple[int, ...]:
    """Add to ``builder`` as many collectives as ``column``, a chunk or a stage, has for a part of the step (a key of
    ``Payload.counts``), each after the operations at the places ``after``; return the place of the last, empty where
    there is none. Each is named by its kind and then ``name``."""
    places: tuple[int, ...] = ()
    for payload in payloads:
        for _ in range(payload.counts[part][column]):
            places = (builder.collective(f"{payload.use.kind} {name}", payload.use, *after),)
    return places


def _which(unit: int) -> str:
    """Return ``first`` for unit 0 of a chunk and ``other`` for any other, as :func:`_counts` names parts."""
    return "first" if unit == 0 else "other"


def sends_use(nbytes: float, tp: int) -> CollectiveUse:
    """Return the all-gather, in a tensor group of ``tp`` neighbouring ranks, of the ``nbytes`` that a stage received in
    slices."""
    return CollectiveUse("tensor", GATHER, nbytes, tp, 1)


def tied_use(table: TiedSum) -> CollectiveUse:
    """Return the all-reduce of a tied table's gradients among the n stages that hold it, on the pipeline axis. Its
    bytes are those that the sum says a rank sends, divided by the 2 (n - 1) / n of a ring; its stride is 0, as the
    operation names the stages."""
    holders = len(table.stages)
    return CollectiveUse("pipeline", "all-reduce", float(table.nbytes[0]) * holders / (2 * (holders - 1)), holders, 0)
