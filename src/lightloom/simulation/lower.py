"""A plan becomes tasks: computing on one resource, collectives in their order of issue on the other.

    compute   forward ... backward ...                                             update
                              └──────────┐                                         ▲
    network      [set up circuits] ─▶ [encode] ─▶ [transmission] ─▶ [decode] ──────┘

One rank stands for all, and the network serves one collective at a time, as one communicator does. A codec between the
hops is part of its collective: the next one waits for it too, while computing goes on. Circuits
are set up while the data is still being computed, since the order of the collectives is known; they are not
set up at all where the previous collective left them in place. The step is one of many equal ones, so the
last collective of the step before comes before the first. Computing beside transmissions is slower by the share of the
arithmetic that these take.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lightloom.accelerators.base import Accelerator
from lightloom.collectives.cost.price import Cost
from lightloom.collectives.spec import Kind
from lightloom.parallelism.operator_kernels import passes
from lightloom.parallelism.operators import times_and_launches
from lightloom.parallelism.plan import START, Exchange, ParallelPlan
from lightloom.simulation.contention import SlowedComputing
from lightloom.simulation.engine import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """Cost of a collective of some size on a fabric, and the circuits that it needs."""

    cost: Cost
    circuits: Hashable = None
    """Names the set of circuits of a static schedule, whatever the size: equal keys, equal circuits. None never
    matches."""


Price = Callable[[Kind, float], Priced]
"""Prices a collective by kind (``all-reduce``, ...) and bytes (as ``Collective.nbytes``)."""


def lower(
    plan: ParallelPlan, computing: Sequence[Task], price: Price, *, overlap: bool = True, arithmetic_share: float = 0.0
) -> tuple[list[Task], list[Priced]]:
    """Return the tasks of one step, and the price of each exchange of the plan.

    Without ``overlap`` every task waits for the one before it, collectives at the first moment that their data exists.
    Otherwise transmissions take ``arithmetic_share`` of what the accelerator computes meanwhile.

    Args:
        computing: :func:`compute_tasks` of the plan.
    """
    priced = [price(exchange.kind, exchange.nbytes) for exchange in plan.exchanges]
    builder = _Builder(plan, priced)
    builder.exchange_up_to(START)
    for position, task in enumerate(computing):
        builder.compute(position, task)
        builder.exchange_up_to(position)
    return (_slowed(builder.tasks, arithmetic_share) if overlap else _in_a_row(builder.tasks)), priced


def compute_tasks(plan: ParallelPlan, accelerator: Accelerator) -> list[Task]:
    """Return the tasks of all positions: forward passes, backward passes, the update.

    Raises:
        UnsupportedError: the accelerator has no rate for the plan's precision.
    """
    operators = plan.graph.operators
    settings, again = plan.settings, [operator.name in plan.recomputed for operator in operators]
    times, launches = times_and_launches(plan.graph, accelerator, settings.precision, settings.attention)
    forward, backward = (seconds.tolist() for seconds in passes(times, launches, np.array(again, np.int64)))
    work = [(op, "forward", op.forward_flops, time) for op, time in zip(operators, forward, strict=True)]
    work += [
        (op, "backward", op.backward_flops + repeated * op.forward_flops, time)
        for op, repeated, time in zip(operators, again, backward, strict=True)
    ][::-1]
    tasks = [
        Task(
            name=f"{operator.name} {direction}",
            resource="compute",
            category=direction,
            duration=seconds,
            details={"operator": operator.name, "kind": operator.kind, "flops": flops},
        )
        for operator, direction, flops, seconds in work
    ]
    update = Task(
        name="optimizer update",
        resource="compute",
        category="update",
        duration=accelerator.update_time(plan.updated_parameters * plan.settings.optimizer_traffic_bytes),
        details={"parameters": plan.updated_parameters},
    )
    return [*tasks, update]


class _Builder:
    """Appends tasks, each behind the last of its resource: both resources serve in order.

    The list is in an order that respects every dependency.
    """

    def __init__(self, plan: ParallelPlan, priced: list[Priced]) -> None:
        self.tasks: list[Task] = []
        self._plan = plan
        self._priced = priced
        self._issued = 0
        self._last: dict[str, int] = {}
        """The latest task, by resource."""
        self._done: dict[int, int] = {}
        """The task of each position."""
        self._awaited: dict[int, list[int]] = {}
        """By position: the tasks that end the exchanges it waits for."""

    def compute(self, position: int, task: Task) -> None:
        """The work of one position, after the collectives that it waits for."""
        self._done[position] = self._append(task, *self._awaited.pop(position, []))

    def exchange_up_to(self, position: int) -> None:
        """Issue, in order, every collective whose data exists once ``position`` is done."""
        exchanges = self._plan.exchanges
        while self._issued < len(exchanges) and exchanges[self._issued].starts_after <= position:
            self._exchange(self._issued, exchanges[self._issued])
            self._issued += 1

    def _append(self, task: Task, *after: int) -> int:
        before = (self._last[task.resource],) if task.resource in self._last else ()
        self.tasks.append(
            Task(
                name=task.name,
                resource=task.resource,
                category=task.category,
                duration=task.duration,
                after=tuple(dict.fromkeys(before + after)) if after else before,
                details=task.details,
            )
        )
        self._last[task.resource] = len(self.tasks) - 1
        return len(self.tasks) - 1

    def _exchange(self, index: int, exchange: Exchange) -> None:
        priced = self._priced[index]
        cost = priced.cost
        ready = () if exchange.starts_after == START else (self._done[exchange.starts_after],)
        setup = 0.0 if circuits_in_place(self._priced, index) else cost.setup
        if setup:
            self._append(_network(exchange, "set up ", "reconfiguration", setup, cost))
        # A schedule changes circuits, and a codec works, between its steps; the timeline shows all changes together and
        # all encoding together, ahead of the bits, and all decoding behind them.
        changes = cost.reconfiguration - cost.setup
        if changes > 0:
            ready = (self._append(_network(exchange, "reconfigure ", "reconfiguration", changes, cost), *ready),)
        if cost.encode:
            ready = (self._append(_network(exchange, "encode ", "codec", cost.encode, cost), *ready),)
        end = self._append(_network(exchange, "", "transmission", cost.transmission + cost.conversion, cost), *ready)
        if cost.decode:
            end = self._append(_network(exchange, "decode ", "codec", cost.decode, cost), end)
        self._awaited.setdefault(exchange.needed_by, []).append(end)


def circuits_in_place(priced: list[Priced], index: int) -> bool:
    """Whether the collective before this one (the last of the step before, for the first) left the circuits it
    needs."""
    before, this = priced[index - 1], priced[index]
    same = this.circuits is not None and before.circuits == this.circuits
    return same and before.cost.static and this.cost.static


def _network(exchange: Exchange, verb: str, category: str, duration: float, cost: Cost) -> Task:
    return Task(
        name=verb + exchange.name,
        resource="network",
        category=category,
        duration=duration,
        details={"collective": exchange.kind, "bytes": exchange.nbytes, "steps": cost.steps},
    )


def _slowed(tasks: list[Task], share: float) -> list[Task]:
    """Return the tasks with those of computing as long as they take beside the transmissions, which come in order."""
    if not share:
        return tasks
    computing, ends, slower = SlowedComputing(share), [0.0] * len(tasks), list(tasks)
    for index, task in enumerate(tasks):
        begin = max((ends[earlier] for earlier in task.after), default=0.0)
        ends[index] = begin + task.duration
        if task.resource == "compute":
            ends[index] = computing.end(begin, task.duration)
            slower[index] = replace(task, duration=ends[index] - begin)
        elif task.category == "transmission":
            computing.exchange(begin, ends[index])
    return slower


def _in_a_row(tasks: list[Task]) -> list[Task]:
    return [replace(task, after=(index - 1,) if index else ()) for index, task in enumerate(tasks)]
