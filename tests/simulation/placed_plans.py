"""Random placed plans and pipes, and a step simulated slowly, from the plan and nothing of what it is laid out in."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.planning.parallelism.circuits.circuits import GroupCircuits, Timing
from lightloom.planning.parallelism.placement.placement import BalancedGraph, HybridPlan, Link, Placement, Reach

_A100 = load_accelerator("a100")
assert _A100.kernels is not None
A100 = _A100.model_copy(update={"kernels": _A100.kernels.model_copy(update={"step_overhead": 0.0})})
"""Its times scale with the work: what every step adds besides is tested with the accelerators."""
SETTINGS = TrainingSettings(bucket_size=3000, first_bucket_size=1000)
MICROSECOND = 1e-6


def random_graph(rng: np.random.Generator, operators: int, copied: float = 0.3) -> BalancedGraph:
    """Operators of one to four parts, of which some hold copies of their parameters."""
    parts = rng.integers(1, 5, operators)
    first = np.concatenate(([0], np.cumsum(parts))).astype(np.int64)
    size = int(first[-1])
    operator = np.repeat(np.arange(operators, dtype=np.int32), parts)
    edges: list[tuple[int, int, int]] = []
    for x in range(size):
        for y in range(max(0, int(first[operator[x]]) - 6), int(first[operator[x]])):
            for content in range(2):
                if rng.random() < 0.25:
                    edges += [(x, y, content)]
    reader, parent, contents = np.array(edges, np.int64).reshape(-1, 3).T
    sizes = rng.lognormal(8, 1, (size, 2))
    parameters = rng.integers(0, 600, size)
    totals = np.add.reduceat(parameters, first[:-1])
    copies = (rng.random(operators) < copied)[operator] & (np.arange(size) > first[operator])
    forward = rng.lognormal(0, 0.7, size) * MICROSECOND
    return BalancedGraph(
        name="random",
        operators=tuple(f"op{o}" for o in range(operators)),
        dimensions=("",) * operators,
        first=first,
        operator=operator,
        part=np.concatenate([np.arange(n, dtype=np.int32) for n in parts]),
        forward=forward,
        backward=forward * rng.uniform(1, 2.5, size),
        parameters=parameters,
        memory=rng.uniform(1, 2, size),
        synchronised=np.where(copies, totals[operator] * 4.0, 0.0),
        parent_start=np.searchsorted(reader, np.arange(size + 1)).astype(np.int64),
        parent=parent.astype(np.int32),
        nbytes=sizes[parent, contents],
        content=contents,
        gradient_bytes=4,
    )


def plan_of(balanced: BalancedGraph, device: Any, k: int, groups: int) -> HybridPlan:
    """A plan with these devices; the times of the placement are not used."""
    none = np.zeros(balanced.size)
    placement = Placement(
        device=np.asarray(device, np.int32),
        devices=k,
        reach=Reach(k),
        link=Link(bandwidth=1.0),
        start=none,
        end=none,
        backward_start=none,
        backward_end=none,
        makespan=0.0,
        repaired=0,
        method="given",
    )
    return HybridPlan(placement=placement, balanced=balanced, k=k, groups=groups)


def random_plan(rng: np.random.Generator, most_operators: int = 10) -> HybridPlan:
    """On one to five devices, in one to four groups."""
    balanced = random_graph(rng, int(rng.integers(1, most_operators + 1)))
    k = int(rng.integers(1, 6))
    return plan_of(balanced, rng.integers(0, k, balanced.size), k, int(rng.integers(1, 5)))


def pipes(
    plan: HybridPlan, bandwidth: Any, latency: Any = 0.0, timing: Timing | None = None, ports: bool = False
) -> GroupCircuits:
    """One pipe for each pair that could send; ``bandwidth`` broadcasts to [hold, pipe]."""
    k = plan.k
    source, destination = np.divmod(np.arange(k * k), k)
    stride = source != destination
    source = np.concatenate([source[stride], np.arange(k)])
    destination = np.concatenate([destination[stride], k + np.arange(k)])
    rates = np.asarray(bandwidth, np.float64)
    return GroupCircuits(
        k=k,
        source=source,
        destination=destination,
        bandwidth=np.broadcast_to(rates, (len(rates) if rates.ndim == 2 else 1, len(source))).copy(),
        latency=np.broadcast_to(np.asarray(latency, np.float64), len(source)).copy(),
        port=source if ports else np.arange(len(source)),
        entry=destination % k if ports else np.arange(len(source)),
        timing=timing,
        assignment=None,
    )


def random_pipes(rng: np.random.Generator, plan: HybridPlan) -> GroupCircuits:
    """Circuits set once, in holds, or ports; every pipe has light in some hold."""
    count = plan.k * plan.k
    latency = rng.uniform(0, 2, count) * MICROSECOND
    kind = rng.integers(3)
    if kind < 2:
        return pipes(plan, rng.lognormal(22, 1, count), latency, ports=bool(kind))
    rates = rng.lognormal(22, 1, (3, count)) * (rng.random((3, count)) < 0.5)
    rates[rng.integers(0, 3, count), np.arange(count)] = 4e9
    timing = Timing(*(rng.uniform(0.5, 8, 2) * MICROSECOND).tolist())
    return pipes(plan, rates, latency, timing)


class Task(NamedTuple):
    """Something to be done: seconds on a device or bytes on a pipe."""

    resource: tuple[str, int] | None
    amount: float
    delay: float
    after: list[Any]
    pipe: int = -1


def reference(
    plan: HybridPlan, circuits: GroupCircuits, settings: TrainingSettings = SETTINGS, accelerator: Accelerator = A100
) -> tuple[float, dict[Any, tuple[float, float]]]:
    """Seconds of a step and (start, end) of everything in it, by a plain list of tasks and a walk through the holds.

    Every pair must have a pipe of its own.
    """
    tasks = _tasks(plan, circuits, settings, accelerator)
    waits = {name: len(task.after) for name, task in tasks.items()}
    followers: dict[Any, list[Any]] = {name: [] for name in tasks}
    for name, task in tasks.items():
        for earlier in task.after:
            followers[earlier].append(name)
    number = {name: i for i, name in enumerate(tasks)}
    queues: dict[Any, list[Any]] = {}
    ready_at: dict[Any, float] = {}
    busy: dict[Any, Any] = {}
    left: dict[Any, float] = {}
    found: dict[Any, tuple[float, float]] = {}
    events: list[tuple[float, int, str, Any]] = []

    def ready(name: Any, now: float) -> None:
        resource = tasks[name].resource
        ready_at[name] = now
        if resource is None:
            found[name] = (now, now)
            arrive(name, now)
        else:
            queues.setdefault(resource, []).append(name)

    def arrive(name: Any, now: float) -> None:
        for follower in followers[name]:
            waits[follower] -= 1
            if waits[follower] == 0:
                ready(follower, now)

    def turn(resource: Any) -> tuple[float, int, int]:
        """Pipes whose first parcel has been ready longest, then those to the nearest devices."""
        a, b = int(circuits.source[resource[1]]), int(circuits.destination[resource[1]])
        return ready_at[queues[resource][0]], (b - a) % plan.k, a

    for name in tasks:
        if not tasks[name].after:
            ready(name, 0.0)
    now = last = 0.0
    light = _light(circuits)
    begin, until, row = next(light)
    while True:
        for resource, queue in queues.items():
            if resource[0] == "device" and queue and resource not in busy:
                name = busy[resource] = min(queue, key=lambda each: number[each])
                queue.remove(name)
                found[name] = (now, now + tasks[name].amount)
                heappush(events, (now + tasks[name].amount, number[name], "end", name))
        rates = circuits.bandwidth[row] if now >= begin else np.zeros(len(circuits.source))
        for resource in sorted((each for each in queues if each[0] == "pipe" and queues[each]), key=turn):
            pipe = resource[1]
            ends = ("leaves", int(circuits.port[pipe])), ("enters", int(circuits.entry[pipe]))
            if rates[pipe] > 0 and not any(each in busy for each in ends):
                name = queues[resource].pop(0)
                busy |= dict.fromkeys(ends, name)
                left[name] = tasks[name].amount
        if not busy and not events and not any(queues.values()):
            break
        due = {name: now + left[name] / rates[task.pipe] for name in left if rates[(task := tasks[name]).pipe] > 0}
        soon = min([*due.values(), *(event[0] for event in events[:1]), until if now >= begin else begin])
        for name in left:
            left[name] -= float(rates[tasks[name].pipe]) * (soon - now)
        now = soon
        while events and events[0][0] == now:
            _, _, what, name = heappop(events)
            last = max(last, now)
            if what == "end":
                del busy[tasks[name].resource]
            arrive(name, now)
        for name in [each for each in left if due.get(each) == now or left[each] <= 1e-9 * tasks[each].amount]:
            last = max(last, now)
            del left[name]
            found[name] = (np.nan, now)
            busy = {end: sent for end, sent in busy.items() if sent != name}
            if tasks[name].delay > 0:
                heappush(events, (now + tasks[name].delay, number[name], "arrive", name))
            else:
                arrive(name, now)
        if now >= until:
            begin, until, row = next(light)
    assert len(found) == len(tasks), "tasks wait for each other"
    return last, found


def _light(circuits: GroupCircuits) -> Iterator[tuple[float, float, int]]:
    """From, to and row of each hold."""
    timing = circuits.timing
    if timing is None:
        yield 0.0, np.inf, 0
        return
    for hold in range(10**6):
        yield (
            hold * timing.period + timing.reconfiguration,
            (hold + 1) * timing.period,
            hold % len(circuits.bandwidth),
        )


def _tasks(
    plan: HybridPlan, circuits: GroupCircuits, settings: TrainingSettings, accelerator: Accelerator
) -> dict[Any, Task]:
    """By name, those of devices in the order of preference."""
    graph, device, k, groups = plan.balanced, plan.placement.device.tolist(), plan.k, plan.groups
    n = graph.size
    parents = [
        [
            (int(graph.parent[e]), int(graph.content[e]), float(graph.nbytes[e]))
            for e in range(*graph.parent_start[i : i + 2])
        ]
        for i in range(n)
    ]
    tail = [0.0] * n
    for x in reversed(range(n)):
        tail[x] += graph.forward[x]
        for y, _, _ in parents[x]:
            tail[y] = max(tail[y], tail[x])
    order = sorted(range(n), key=lambda x: (-tail[x], x))
    tasks: dict[Any, Task] = {}
    for x in order:
        tasks["F", x] = Task(("device", device[x]), float(graph.forward[x]), 0.0, [])
    for x in reversed(order):
        tasks["B", x] = Task(("device", device[x]), float(graph.backward[x]), 0.0, [("F", x)])
    for d in range(k):
        tasks["U", d] = Task(("device", d), 0.0, 0.0, [])
    of = {(int(a), int(b)): p for p, (a, b) in enumerate(zip(circuits.source, circuits.destination, strict=True))}

    def send(name: Any, a: int, b: int, nbytes: float, after: list[Any], steps: int = 1) -> None:
        if a == b or nbytes == 0:
            tasks[name] = Task(None, 0.0, 0.0, after)
        else:
            pipe = of[a, b]
            tasks[name] = Task(("pipe", pipe), nbytes, steps * float(circuits.latency[pipe]), after, pipe)

    parcels = {(y, device[x], c): b for x in range(n) for y, c, b in reversed(parents[x]) if device[y] != device[x]}
    readers = sorted((y, x, c) for x in range(n) for y, c, _ in parents[x] if device[y] != device[x])
    parcel_order = list(dict.fromkeys((y, device[x], c) for y, x, c in readers))
    first_bytes: dict[Any, float] = {}
    for y, x, c in readers:
        first_bytes.setdefault((y, device[x], c), next(b for z, d, b in parents[x] if (z, d) == (y, c)))
    assert set(first_bytes) == set(parcels)
    for y, to, c in parcel_order:
        send(("activation", y, to, c), device[y], to, first_bytes[y, to, c], [("F", y)])
    for y, to, c in parcel_order:
        after = [("B", x) for z, x, d in readers if (z, device[x], d) == (y, to, c)]
        send(("gradient", y, to, c), to, device[y], first_bytes[y, to, c], after)
    for x in range(n):
        for y, c, _ in parents[x]:
            here = device[x] == device[y]
            tasks["F", x].after.append(("F", y) if here else ("activation", y, device[x], c))
            tasks["B", y].after.append(("B", x) if here else ("gradient", y, device[x], c))

    # Copies: every owner's share of the parameters comes to it along the chain, and goes out again.
    linked = [x for x in range(n) if graph.synchronised[x] > 0]
    complete: list[list[Any]] = [[("B", x)] for x in range(n)]
    for way in ("down", "up"):
        for x in linked:
            below = _owned_before(graph, x)
            a, b = (x, x - 1) if way == "down" else (x - 1, x)
            behind = x + 1 if way == "down" else x - 1
            before: list[Any] = [("B", a), *([("sum", way, behind)] if behind in linked else [])]
            nbytes = below if way == "down" else float(graph.synchronised[x]) - below
            send(("sum", way, x), device[a], device[b], nbytes, before)
            complete[b].append(("sum", way, x))
    for x in range(n):
        tasks["owned", x] = Task(None, 0.0, 0.0, complete[x])
    reduced: dict[int, Any] = {x: ("owned", x) for x in range(n)}
    if groups > 1:
        for d in range(k):
            members = [x for x in reversed(order) if device[x] == d and graph.parameters[x] > 0]
            bucket: list[int] = []
            number = 0
            for x in members:
                bucket.append(x)
                nbytes = sum(int(graph.parameters[z]) for z in bucket) * graph.gradient_bytes
                mark = settings.bucket_size if number else min(settings.first_bucket_size, settings.bucket_size)
                if nbytes >= mark or x == members[-1]:
                    after = [("owned", z) for z in bucket]
                    moved = 2 * (groups - 1) / groups * nbytes
                    send(("all-reduce", d, number), d, k + d, moved, after, 2 * (groups - 1))
                    reduced |= dict.fromkeys(bucket, ("all-reduce", d, number))
                    bucket, number = [], number + 1
    for way in ("down", "up"):
        for x in linked:
            below = _owned_before(graph, x)
            a, b = (x, x - 1) if way == "down" else (x - 1, x)
            behind = x + 1 if way == "down" else x - 1
            before = [reduced[a], *([("share", way, behind)] if behind in linked else [])]
            nbytes = float(graph.synchronised[x]) - below if way == "down" else below
            send(("share", way, x), device[a], device[b], nbytes, before)
    for d in range(k):
        here = [x for x in range(n) if device[x] == d]
        arrivals = [("share", w, x) for w, a in (("down", 1), ("up", 0)) for x in linked if device[x - a] == d]
        held = 0
        for x in here:
            copied = x in linked or x + 1 in linked
            operator = graph.operator[x]
            whole = graph.parameters[graph.first[operator] : graph.first[operator + 1]].sum()
            held += int(whole if copied else graph.parameters[x])
        seconds = accelerator.update_time(held * settings.optimizer_traffic_bytes)
        after = [("B", x) for x in here] + [reduced[x] for x in here] + arrivals
        tasks["U", d] = Task(("device", d), seconds, 0.0, after)
    return tasks


def _owned_before(graph: BalancedGraph, x: int) -> float:
    """Bytes of the gradients that x exchanges with the part before it and that smaller parts own."""
    first, last = graph.first[graph.operator[x]], graph.first[graph.operator[x] + 1]
    total = max(int(graph.parameters[first:last].sum()), 1)
    return float(graph.synchronised[x]) * (int(graph.parameters[first:x].sum()) / total)
