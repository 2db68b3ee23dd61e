"""The event engine: tasks with durations, resources and dependencies become intervals.

A resource runs one task at a time and never lies idle while a task that is ready waits for it. Among ready tasks the
smallest ``(priority, position in the list)`` goes first, so that equal inputs give equal timelines. A task that runs
is never interrupted.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from lightloom.collectives.bounds.lower_bound import Bound
from lightloom.collectives.collective import Kind
from lightloom.collectives.cost.price import Cost
from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.core.timeline import Interval, Timeline
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.parallelism.operators import passes, times_and_launches
from lightloom.planning.parallelism.plan import START, Exchange, ParallelPlan


class DeadlockError(AssertionError):
    """Tasks wait for each other in a circle: the code that built them is wrong."""


class Task(NamedTuple):
    """A piece of work on one resource."""

    name: str
    resource: str
    category: str
    """Category of the time; see :mod:`lightloom.core.timeline`."""
    duration: float
    """Seconds that the task takes."""
    after: tuple[int, ...] = ()
    """Positions in the task list of the tasks that must end before this one starts."""
    priority: int = 0
    """Rank among ready tasks: the smaller number goes first."""
    details: Mapping[str, Any] = MappingProxyType({})
    """Values that a trace shows."""


def run(tasks: Sequence[Task]) -> Timeline:
    """Run the tasks on their resources and return their intervals, each with its position in the list as ``task``, in
    O(n log n) for n tasks and dependencies together.

    A resource runs one task at a time, the smallest (priority, position) of those that are ready, and is never idle
    while one is ready.

    Raises:
        DeadlockError: tasks wait for each other; names a circle.
        ValueError: a duration is negative or not finite, or a dependency is no position in the list.
    """
    _check_tasks(tasks)
    waits = [len(task.after) for task in tasks]
    followers: list[list[int]] = [[] for _ in tasks]
    for index, task in enumerate(tasks):
        for earlier in task.after:
            followers[earlier].append(index)

    ready: dict[str, list[tuple[int, int]]] = {task.resource: [] for task in tasks}
    idle, touched = dict.fromkeys(ready, True), dict[str, None].fromkeys(ready)
    ending: list[tuple[float, int]] = []
    starts: list[float] = [math.nan] * len(tasks)
    released = [index for index, count in enumerate(waits) if not count]
    now, done = 0.0, 0
    while True:
        for index in released:
            heappush(ready[tasks[index].resource], (tasks[index].priority, index))
            touched[tasks[index].resource] = None
        for resource in touched:
            if idle[resource] and ready[resource]:
                index = heappop(ready[resource])[1]
                idle[resource], starts[index] = False, now
                heappush(ending, (now + tasks[index].duration, index))
        if not ending:
            break
        now, touched, released = ending[0][0], {}, []
        while ending and ending[0][0] == now:
            index = heappop(ending)[1]
            done += 1
            idle[tasks[index].resource] = True
            touched[tasks[index].resource] = None
            for follower in followers[index]:
                waits[follower] -= 1
                if waits[follower] == 0:
                    released.append(follower)
    if done < len(tasks):
        raise DeadlockError(f"tasks wait for each other: {' → '.join(_circle(tasks, waits))}")
    return Timeline.of(
        Interval(
            resource=task.resource,
            category=task.category,
            name=task.name,
            start=start,
            end=start + task.duration,
            details=task.details,
            task=number,
            after=task.after,
        )
        for number, (task, start) in enumerate(zip(tasks, starts, strict=True))
    )


def _check_tasks(tasks: Sequence[Task]) -> None:
    """Raise ValueError for a duration that is negative or not finite, or a dependency that is no position in the
    list."""
    for task in tasks:
        if not (math.isfinite(task.duration) and task.duration >= 0):
            raise ValueError(f"task {task.name!r}: duration {task.duration} s, expected finite and not negative")
        for earlier in task.after:
            if not 0 <= earlier < len(tasks):
                raise ValueError(f"task {task.name!r} comes after position {earlier}, which does not exist")


def _circle(tasks: Sequence[Task], waits: Sequence[int]) -> list[str]:
    """Return the names of tasks that wait for each other in a circle, each before the one that waits for it, the first
    again at the end; ``waits`` is how many others each still waits for."""
    seen: dict[int, None] = {}
    at = next(index for index, count in enumerate(waits) if count)
    while at not in seen:
        seen[at] = None
        at = next(earlier for earlier in tasks[at].after if waits[earlier])
    walk = [*seen][list(seen).index(at) :]
    return [tasks[index].name for index in (*reversed(walk), walk[-1])]


# Joules that sending takes, beside what the network draws busy or idle.


def sending_energy(fabric: Fabric, nbytes: Floats, source: Ints, destination: Ints) -> float | None:
    """Return the joules of sending ``nbytes`` [pair] from ``source`` to ``destination`` ranks, [pair] each, summed over
    all pairs, headers of the fabric's packets included: every bit once on fabrics of lightpaths, once for each link
    that it crosses on packet fabrics; None where the fabric states no energy of a bit."""
    if fabric.energy_per_bit is None:
        return None
    crossed = 1 if fabric.exclusive else fabric.hops(source, destination, fabric.route(source, destination))
    return float((nbytes * crossed).sum()) * fabric.wire_bytes(1.0) * 8 * fabric.energy_per_bit


# What communication takes from computing: while data travels, an accelerator computes at 1 − share of its rate.
#
# collective        [=============]
# computing   ──────~~~~~~~~~~~~~~~──────     C seconds of computing beside E of exchanges take max(E, C + share · E)
#
# Kernels of a collective library occupy compute units and the memory's bandwidth; with a share of 1 nothing is
# hidden. The exchanges themselves take as long as alone.

_LEAST_RATE = 1e-12
"""Stands for a rate of 0, at which computing beside exchanges does not go on."""


def waiting(computing: Floats, exchanging: Floats, share: float) -> Floats:
    """Return by how many seconds exchanges prolong the computing with which they begin, in the arguments' shape: what
    of ``exchanging`` seconds outlasts ``computing``, but at least ``share`` of the exchanges, the part of the
    arithmetic that they take meanwhile."""
    # An exchange that nothing serves takes infinitely long, of which no share is no number.
    return np.maximum(exchanging - computing, share * exchanging if share else 0.0)


def slowing(computing: Floats, exchanging: Floats, share: float) -> Floats:
    """Return by how many seconds exchanges slow the computing with which they begin, in the arguments' shape; what of
    the exchanges outlasts computing is not counted. Beside exchanges computing goes on at 1 - ``share`` of its rate:
    the result is ``share`` of the seconds during which both run."""
    return share * np.minimum(exchanging, computing / max(1 - share, _LEAST_RATE))


class SlowedComputing:
    """Computing of one accelerator beside exchanges that follow each other. Beside an exchange it goes on at 1 -
    ``share`` of its rate."""

    def __init__(self, share: float) -> None:
        self._rate = 1.0 - share
        self._exchanges: deque[tuple[float, float]] = deque()
        """Begin and end of exchanges that have not ended before the latest computing began."""

    def exchange(self, begin: float, end: float) -> None:
        """Add an exchange from ``begin`` to ``end``, in seconds, which begins no earlier than the last one ended;
        nothing is kept where exchanges take no share of the arithmetic."""
        if self._rate < 1:
            self._exchanges.append((begin, end))

    def end(self, begin: float, seconds: float) -> float:
        """Return the second at which computing ends that begins at ``begin`` and takes ``seconds`` undisturbed, slowed
        down by the exchanges that were added.

        All exchanges that begin before its end must have been added, and ``begin`` must not be earlier than in the
        calls before: exchanges that ended by then are dropped.
        """
        while self._exchanges and self._exchanges[0][1] <= begin:
            self._exchanges.popleft()
        now, left = begin, seconds
        for start, stop in self._exchanges:
            alone = max(start - now, 0.0)
            if left <= alone:
                break
            now, left = now + alone, left - alone
            beside = (stop - now) * self._rate
            if left < beside:
                return now + left / self._rate
            now, left = stop, left - beside
        return now + left


# A plan becomes tasks: computing on one resource, collectives in their order of issue on the other.
#
# compute   forward ... backward ...                                             update
# └──────────┐                                         ▲
# network      [set up circuits] ─▶ [encode] ─▶ [transmission] ─▶ [decode] ──────┘
#
# One rank stands for all, and the network serves one collective at a time, as one communicator does. A codec between
# the hops is part of its collective: the next one waits for it too, while computing goes on. Circuits are set up
# while the data is still being computed, since the order of the collectives is known; they are not set up at all
# where the previous collective left them in place. The step is one of many equal ones, so the last collective of the
# step before comes before the first. Computing beside transmissions is slower by the share of the arithmetic that
# these take.


def _unbounded() -> Bound:
    """Return the bound of what is held against none: 0 s, set by nothing."""
    return Bound(0.0, "nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """Cost of a collective of some size on a fabric, and the circuits that it needs."""

    cost: Cost
    circuits: Hashable = None
    """Names the set of circuits of a static schedule, whatever the size: equal keys, equal circuits. None never
    matches."""
    algorithm: str = ""
    """Name of the algorithm that carries the collective; of an exchange of several phases, that of the largest."""
    proof: Callable[[], Bound] = field(default=_unbounded, compare=False, repr=False)
    """Return the lower bound of the seconds; found when it is asked for, as the largest one may take a second."""

    @property
    def bound(self) -> Bound:
        """Lower bound of the seconds; 0 where the cost is held against none."""
        return self.proof()


Price = Callable[[Kind, float], Priced]
"""Prices a collective by kind (``all-reduce``, ...) and bytes (as ``Collective.nbytes``)."""


def lower(
    plan: ParallelPlan, computing: Sequence[Task], price: Price, *, overlap: bool = True, arithmetic_share: float = 0.0
) -> tuple[list[Task], list[Priced]]:
    """Return the tasks of one step of data parallelism alone, each after those that it waits for, and the price of each
    exchange of the plan, in order.

    Args:
        plan: exchanges, each with the positions (numbers of computing tasks, from 0) after which its data exists and
            that waits for it.
        computing: the tasks of all positions (:func:`compute_tasks`).
        price: prices a collective by kind and bytes.
        overlap: False lets every task wait for the one before it, collectives at the first moment that their data
            exists.
        arithmetic_share: with overlap, the share of the arithmetic that transmissions take from computing beside them,
            which makes computing tasks longer.
    """
    priced = [price(exchange.kind, exchange.nbytes) for exchange in plan.exchanges]
    builder, following = _PlanTasks(priced), deque(enumerate(plan.exchanges))
    for position in range(START, len(computing)):
        if position != START:
            builder.compute(position, computing[position])
        # The network serves in the order of issue, so that one whose data exists waits for those before it.
        while following and following[0][1].starts_after <= position:
            builder.exchange(*following.popleft())
    if overlap:
        return _slowed(builder.tasks, arithmetic_share), priced
    return [task._replace(after=(index - 1,) if index else ()) for index, task in enumerate(builder.tasks)], priced


def compute_tasks(plan: ParallelPlan, accelerator: Accelerator) -> list[Task]:
    """Return the computing tasks of all positions of a plan: forward passes of the operators, backward passes in
    reverse order (with the forward pass again where the plan recomputes it), and the optimizer's update last. They have
    no dependencies yet.

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
    tasks = []
    for operator, direction, flops, seconds in work:
        details = {"operator": operator.name, "kind": operator.kind, "flops": flops}
        tasks.append(Task(f"{operator.name} {direction}", "compute", direction, seconds, details=details))
    update = accelerator.update_time(plan.updated_parameters * settings.optimizer_traffic_bytes)
    details = {"parameters": plan.updated_parameters}
    return [*tasks, Task("optimizer update", "compute", "update", update, details=details)]


class _PlanTasks:
    """Appends tasks, each behind the last of its resource: both resources serve in order.

    The list is in an order that respects every dependency. ``priced`` are the prices of the plan's exchanges, in their
    order.
    """

    def __init__(self, priced: list[Priced]) -> None:
        self.tasks: list[Task] = []
        self._priced = priced
        self._last: dict[str, int] = {}
        """The latest task, by resource."""
        self._done: dict[int, int] = {}
        """The task of each position."""
        self._awaited: dict[int, list[int]] = {}
        """By position: the tasks that end the exchanges it waits for."""

    def compute(self, position: int, task: Task) -> None:
        """Add the computing task of one position, after the exchanges that this position waits for."""
        self._done[position] = self._append(task, *self._awaited.pop(position, []))

    def exchange(self, index: int, exchange: Exchange) -> None:
        """Add the tasks of the plan's exchange number ``index``, whose data exists, one after the other on the network,
        and let the position that needs it wait for the last: a set-up where circuits are not in place, reconfiguration
        and encoding, then the transmission with conversions, then decoding. The transmission is always added, the
        others where they take any time."""
        cost = self._priced[index].cost
        ready = () if exchange.starts_after == START else (self._done[exchange.starts_after],)
        if cost.setup and not circuits_in_place(self._priced, index):
            self._append(_network(exchange, "set up ", "reconfiguration", cost.setup, cost))
        # A schedule changes circuits, and a codec works, between its steps; the timeline shows all changes together and
        # all encoding together, ahead of the bits, and all decoding behind them.
        for verb, category, seconds in (
            ("reconfigure ", "reconfiguration", cost.reconfiguration - cost.setup),
            ("encode ", "codec", cost.encode),
            ("", "transmission", cost.transmission + cost.conversion),
            ("decode ", "codec", cost.decode),
        ):
            if seconds > 0 or not verb:
                ready = (self._append(_network(exchange, verb, category, seconds, cost), *ready),)
        self._awaited.setdefault(exchange.needed_by, []).extend(ready)

    def _append(self, task: Task, *after: int) -> int:
        """Add a task behind the last task of its resource and those of ``after``, in place of its own dependencies;
        return its place in the list."""
        before = (self._last[task.resource],) if task.resource in self._last else ()
        self.tasks.append(task._replace(after=tuple(dict.fromkeys(before + after)) if after else before))
        self._last[task.resource] = len(self.tasks) - 1
        return len(self.tasks) - 1


def circuits_in_place(priced: list[Priced], index: int) -> bool:
    """Return True if the collective before number ``index`` of a step's collectives left the circuits that it needs,
    both being static schedules on the same circuits; before the first comes the last one, of the step before."""
    before, this = priced[index - 1], priced[index]
    return this.circuits is not None and before.circuits == this.circuits and before.cost.static and this.cost.static


def _network(exchange: Exchange, verb: str, category: str, duration: float, cost: Cost) -> Task:
    """Return a task of an exchange on the network without dependencies, of ``duration`` seconds, named by ``verb``
    (``"encode "``; empty for the transmission) and the exchange's name; its details are the kind and bytes of the
    collective and the steps of ``cost``."""
    details = {"collective": exchange.kind, "bytes": exchange.nbytes, "steps": cost.steps}
    return Task(verb + exchange.name, "network", category, duration, details=details)


def _slowed(tasks: list[Task], share: float) -> list[Task]:
    """Return the tasks with computing tasks made longer, as transmissions that run beside them take ``share`` of the
    arithmetic; the same list for a share of 0. Tasks come after all that they wait for, and transmissions in order of
    time."""
    if not share:
        return tasks
    computing, ends, slower = SlowedComputing(share), [0.0] * len(tasks), list(tasks)
    for index, task in enumerate(tasks):
        begin = max((ends[earlier] for earlier in task.after), default=0.0)
        ends[index] = begin + task.duration
        if task.resource == "compute":
            ends[index] = computing.end(begin, task.duration)
            slower[index] = task._replace(duration=ends[index] - begin)
        elif task.category == "transmission":
            computing.exchange(begin, ends[index])
    return slower


# The duration of a step of data parallelism alone, without its tasks: as the timeline of :func:`lower` ends.
#
# compute   ───────────────────[wait]──────────────────[wait]── update
# network        [exchange 0]    ↑    [exchange 1] ...
#
# Computing runs from wait to wait, and slower beside exchanges, so that only these are gone through one by one.
# Collectives keep no circuits and have no codec here.


def step_duration(
    plan: ParallelPlan, computing: Floats, exchanging: Floats, *, overlap: bool, arithmetic_share: float = 0.0
) -> float:
    """Return the seconds of a step of data parallelism alone, as the timeline of :func:`lower` ends, for collectives
    that are each one transmission, without setting circuits and coding.

    Args:
        plan: positions and exchanges.
        computing: seconds of all positions: forward passes, backward passes, the update: [positions].
        exchanging: seconds of each exchange of the plan: [exchanges].
        overlap: True when exchanges run while computing; False for one after the other.
        arithmetic_share: part of the arithmetic that exchanges take meanwhile.
    """
    if not overlap:
        return float(computing.sum() + exchanging.sum())
    clock = _Clock(np.concatenate(([0.0], np.cumsum(computing))), arithmetic_share)
    network, issued = 0.0, -1
    for exchange, seconds in zip(plan.exchanges, exchanging.tolist(), strict=True):
        # Exchanges are issued in their order, none before its data exists.
        issued = max(issued, exchange.starts_after)
        begin = max(network, clock.done(issued) if exchange.starts_after >= 0 else 0.0)
        network = begin + seconds
        clock.exchange(begin, network, exchange.needed_by)
    return max(clock.done(len(computing) - 1), network)


class _Clock:
    """When positions are computed, each after the exchanges that it waits for.

    Args:
        before: seconds of computing before each position: [positions].
        arithmetic_share: share of the arithmetic that exchanges take while they run, 0 to 1.
    """

    def __init__(self, before: Floats, arithmetic_share: float) -> None:
        self._before: list[float] = before.tolist()
        """Seconds of computing before each position."""
        self._computing = SlowedComputing(arithmetic_share)
        self._awaited: list[tuple[int, float]] = []
        """A heap of positions, and of the ends of exchanges that they wait for."""
        self._position, self._now = 0, 0.0
        """The first position that is not computed yet, and the end of those before it."""

    def exchange(self, begin: float, end: float, needed_by: int) -> None:
        """Add an exchange from ``begin`` to ``end``, in seconds, that position ``needed_by`` waits for; exchanges are
        added in their order of time."""
        self._computing.exchange(begin, end)
        heappush(self._awaited, (needed_by, end))

    def done(self, position: int) -> float:
        """Return the second at which the work of a position ends; all exchanges that it and earlier positions wait for
        must have been added, and positions must not decrease from call to call."""
        while self._awaited and self._awaited[0][0] <= position:
            needed_by, ended = heappop(self._awaited)
            self._compute(needed_by)
            self._now = max(self._now, ended)
        self._compute(position + 1)
        return self._now

    def _compute(self, position: int) -> None:
        """Advance the clock until all positions before ``position`` are computed."""
        if position > self._position:
            seconds = self._before[position] - self._before[self._position]
            self._position, self._now = position, self._computing.end(self._now, seconds)


# One training step, simulated: the plan's tasks run by the engine, then time and energy read off.


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """Times and joules of sending of one step of a plan, in the steady state."""

    plan: ParallelPlan
    timeline: Timeline
    step_time: float
    """Duration of the step, in seconds."""
    breakdown: dict[str, float]
    """Seconds of the step by what it waits for; adds up to ``step_time``."""
    busy_time: dict[str, float]
    """Seconds by category, whether hidden or not."""
    sent_joules: float | None
    """Joules that sending takes over all ranks; None where the fabric states no energy of a bit."""

    @property
    def compute_time(self) -> float:
        """Seconds of the step in which a rank computes forward and backward passes, recomputation included, and the
        optimizer's update, longer where exchanges beside it take part of the arithmetic; the same for every rank.
        Codecs count as communication."""
        return self.breakdown["compute_s"]

    @property
    def communication_time(self) -> float:
        """Seconds of the step in which the network transmits (conversion included) or changes circuits or a codec
        works, hidden by computing or not; the same for every rank."""
        return self.busy_time["transmission"] + self.busy_time["reconfiguration"] + self.busy_time["codec"]


def simulate_step(
    plan: ParallelPlan,
    accelerator: Accelerator,
    fabric: Fabric,
    price: Price,
    *,
    overlap: bool = True,
    computing: Sequence[Task] | None = None,
) -> StepResult:
    """Simulate one step of a plan of data parallelism alone on a fabric, in the steady state (circuits are as the step
    before left them), and return its ``timeline``, the seconds of the step (``step_time``), these by what a rank does
    or waits for (``breakdown``), those of each category of intervals added up, hidden or not (``busy_time``), and the
    joules of sending of all exchanges (``sent_joules``), None where those of any are unknown.

    Args:
        plan: positions, exchanges and memory of a rank.
        accelerator: what a rank computes on.
        fabric: the network; it gives the share of the arithmetic that exchanges take.
        price: prices a collective by kind and bytes.
        overlap: False for exchanges and computing one after the other.
        computing: :func:`compute_tasks` of the plan on the accelerator, where they are at hand.

    Raises:
        UnsupportedError: the plan is for another number of ranks than the fabric has, or for a precision that the
            accelerator lacks.
    """
    if plan.ranks != fabric.ranks:
        raise UnsupportedError(f"the plan is for {plan.ranks} ranks, but the fabric has {fabric.ranks}")
    computing = compute_tasks(plan, accelerator) if computing is None else computing
    tasks, priced = lower(plan, computing, price, overlap=overlap, arithmetic_share=fabric.arithmetic_share)
    timeline = run(tasks)
    sourced = [collective.cost.energy for collective in priced if collective.cost.energy is not None]
    total = sum(sourced) if len(sourced) == len(priced) else None
    seconds, parts, busy = timeline.step_time, timeline.breakdown(), timeline.busy_time()
    return StepResult(
        plan=plan, timeline=timeline, step_time=seconds, breakdown=parts, busy_time=busy, sent_joules=total
    )
