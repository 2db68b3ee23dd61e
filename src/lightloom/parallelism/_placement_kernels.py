"""Compiled loops of placement: the schedule that everything is judged by, the forward pass, its repair, and a search.

Neighbours come in rows: those before x (``before``: its parents, and the part with which it shares parameters) and
those after it. ``delay`` is seconds when two devices are involved, negative where nothing is waited for. ``offsets``
are the allowed values of (device after − device before) modulo the devices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def transpose(start: Any, source: Any, delay: Any) -> tuple[Any, Any, Any]:
    """Rows of what comes before turned into rows of what comes after."""
    size = len(start) - 1
    turned = np.zeros(size + 1, np.int64)
    for e in range(len(source)):
        turned[source[e] + 1] += 1
    for x in range(size):
        turned[x + 1] += turned[x]
    position = turned[:-1].copy()
    after, delays = np.empty_like(source), np.empty_like(delay)
    for x in range(size):
        for e in range(start[x], start[x + 1]):
            after[position[source[e]]] = x
            delays[position[source[e]]] = delay[e]
            position[source[e]] += 1
    return turned, after, delays


@njit(cache=True)
def ranks(start: Any, source: Any, delay: Any, duration: Any) -> Any:
    """Seconds from the start of each sub-operator to the end of all along the longest path, without transfers.

    Takes rows of what comes after.
    """
    size = len(duration)
    rank = duration.copy()
    for x in range(size - 1, -1, -1):
        for e in range(start[x], start[x + 1]):
            if delay[e] >= 0:
                rank[x] = max(rank[x], duration[x] + rank[source[e]])
    return rank


@njit(cache=True)
def pass_time(
    order: Any, start: Any, source: Any, delay: Any, duration: Any, device: Any, devices: int, begin: Any, end: Any
) -> Any:
    """Seconds of one pass in a fixed order: each starts when its device is free and its inputs have arrived."""
    free = np.zeros(devices)
    last = 0.0
    for x in order:
        at = device[x]
        ready = free[at]
        for e in range(start[x], start[x + 1]):
            if delay[e] >= 0:
                arrival = end[source[e]]
                if device[source[e]] != at:
                    arrival += delay[e]
                ready = max(ready, arrival)
        begin[x] = ready
        end[x] = ready + duration[x]
        free[at] = end[x]
        last = max(last, end[x])
    return last


@njit(cache=True)
def iteration_time(order: Any, before: Any, after: Any, durations: Any, device: Any, devices: int, times: Any) -> Any:
    """The objective: seconds of a forward pass in ``order`` and of the backward pass in the reverse order.

    ``times`` [4, n] receives begin and end of both, the backward pass counted from its own beginning.
    """
    forward = pass_time(order, before[0], before[1], before[2], durations[0], device, devices, times[0], times[1])
    backward = pass_time(order[::-1], after[0], after[1], after[2], durations[1], device, devices, times[2], times[3])
    return forward + backward


@njit(cache=True)
def _votes(x: int, rows: Any, sign: int, device: Any, offsets: Any, devices: int, count: Any, votes: Any) -> int:
    """Add to ``votes`` [devices] how many placed neighbours each device reaches; returns how many there are."""
    start, other = rows[0], rows[1]
    total = 0
    for e in range(start[x], start[x + 1]):
        if device[other[e]] >= 0:
            count[device[other[e]]] += 1
            total += 1
    for e in range(start[x], start[x + 1]):
        at = device[other[e]]
        if at >= 0 and count[at] > 0:
            for offset in offsets:
                votes[(at + sign * offset) % devices] += count[at]
            count[at] = 0
    return total


@njit(cache=True)
def _breaks(x: int, rows: Any, sign: int, device: Any, allowed: Any, devices: int) -> bool:
    start, other = rows[0], rows[1]
    for e in range(start[x], start[x + 1]):
        at = device[other[e]]
        if at >= 0 and not allowed[(sign * (device[x] - at)) % devices]:
            return True
    return False


@njit(cache=True)
def broken(before: Any, device: Any, allowed: Any) -> int:
    """How many neighbours are out of reach of one another."""
    start, other = before[0], before[1]
    found = 0
    for x in range(len(device)):
        for e in range(start[x], start[x + 1]):
            if not allowed[(device[x] - device[other[e]]) % len(allowed)]:
                found += 1
    return found


@njit(cache=True)
def _move(x: int, to: int, device: Any, memory: Any, used: Any, duration: Any, free: Any) -> None:
    if device[x] >= 0:
        used[device[x]] -= memory[x]
        free[device[x]] -= duration[x]
        free[to] += duration[x]
    device[x] = to
    used[to] += memory[x]


@njit(cache=True)
def _nearest(x: int, votes: Any, device: Any, memory: Any, used: Any, capacity: float, devices: int) -> int:
    """Device with most votes and room, nearest to where x is; −1 without room anywhere."""
    best, most, least = -1, -1, devices
    for to in range(devices):
        if to != device[x] and used[to] + memory[x] > capacity:
            continue
        stride = (to - device[x]) % devices
        stride = min(stride, devices - stride)
        if votes[to] > most or (votes[to] == most and stride < least):
            best, most, least = to, votes[to], stride
    return best


@njit(cache=True)
def settle(
    order: Any,
    upto: int,
    before: Any,
    after: Any,
    memory: Any,
    capacity: float,
    offsets: Any,
    allowed: Any,
    rounds: int,
    device: Any,
    used: Any,
    duration: Any,
    free: Any,
    dirty: Any,
    moved: Any,
) -> bool:
    """Backward and forward sweeps over order[0 ... upto] until neighbours are within reach; False after ``rounds``.

    Backward, whoever is out of reach of one after it moves to the nearest device that reaches most of those after it;
    forward likewise with those before. ``dirty`` marks whom to look at, and is left clear. Every sweep visits a
    position once and there are at most 2 · ``rounds`` sweeps, so it ends.
    """
    devices = len(allowed)
    count, votes = np.zeros(devices, np.int64), np.zeros(devices, np.int64)
    for sweep in range(2 * rounds):
        back = sweep % 2 == 0
        here, there, sign = (after, before, -1) if back else (before, after, 1)
        for step in range(upto + 1):
            x = order[upto - step] if back else order[step]
            if not dirty[x] or not _breaks(x, here, sign, device, allowed, devices):
                continue
            votes[:] = 0
            _votes(x, here, sign, device, offsets, devices, count, votes)
            to = _nearest(x, votes, device, memory, used, capacity, devices)
            if to < 0 or to == device[x]:
                continue
            _move(x, to, device, memory, used, duration, free)
            moved[0] += 1
            for rows in (here, there):
                for e in range(rows[0][x], rows[0][x + 1]):
                    if device[rows[1][e]] >= 0:
                        dirty[rows[1][e]] = True
            dirty[x] = True
        settled = True
        for step in range(upto + 1):
            x = order[step]
            if dirty[x]:
                if _breaks(x, before, 1, device, allowed, devices) or _breaks(x, after, -1, device, allowed, devices):
                    settled = False
                else:
                    dirty[x] = False
        if settled:
            return True
    dirty[:] = False
    return False


@njit(cache=True)
def forward_pass(
    order: Any,
    before: Any,
    after: Any,
    duration: Any,
    memory: Any,
    capacity: float,
    offsets: Any,
    allowed: Any,
    width: int,
    earliest_finish: bool,
    rounds: int,
    device: Any,
    moved: Any,
) -> bool:
    """Algorithm 1 on devices 0 ... width − 1, in order; False when it gets stuck.

    Candidates are the devices within reach of all placed neighbours and with room. The earliest free one is taken, or
    the one where x would finish first. Without candidates the placement is repaired by :func:`settle`; with no
    ``rounds`` it is stuck. ``moved`` counts moves and repairs.
    """
    devices = len(allowed)
    start, source, delay = before
    free, used, end = np.zeros(devices), np.zeros(devices), np.zeros(len(device))
    used[width:] = np.inf
    latest = np.zeros(devices)
    count, votes = np.zeros(devices, np.int64), np.zeros(devices, np.int64)
    dirty = np.zeros(len(device), np.bool_)
    bounded = len(offsets) < devices
    for step in range(len(order)):
        x = order[step]
        total = 0
        if bounded:
            votes[:] = 0
            total = _votes(x, before, 1, device, offsets, devices, count, votes)
            total += _votes(x, after, -1, device, offsets, devices, count, votes)
        # Arrival at a device: the latest transfer from the others, or what is there already.
        latest[:] = 0.0
        first, second, top, own = 0.0, 0.0, -1, 0.0
        home, heaviest = -1, -1.0
        for e in range(start[x], start[x + 1]):
            if delay[e] >= 0:
                at, arrival = device[source[e]], end[source[e]] + delay[e]
                if arrival > first or at == top:
                    if at != top:
                        second = first
                    first, top = max(first, arrival), at
                elif arrival > second:
                    second = arrival
                latest[at] = max(latest[at], end[source[e]])
                if delay[e] > heaviest:
                    home, heaviest = at, delay[e]
        best, least, nearest = -1, np.inf, devices
        for to in range(width):
            if votes[to] < total or used[to] + memory[x] > capacity:
                continue
            own = free[to]
            if earliest_finish:
                own = max(own, latest[to], second if to == top else first)
            stride = 0 if home < 0 else min((to - home) % devices, (home - to) % devices)
            if own < least or (own == least and stride < nearest):
                best, least, nearest = to, own, stride
        stuck = best < 0
        if stuck:
            for to in range(width):
                if used[to] + memory[x] > capacity or rounds == 0:
                    continue
                if best < 0 or votes[to] > votes[best] or (votes[to] == votes[best] and free[to] < free[best]):
                    best = to
            if best < 0:
                return False
        arrival = max(latest[best], second if best == top else first)
        end[x] = max(free[best], arrival) + duration[x]
        free[best] = end[x]
        _move(x, best, device, memory, used, duration, free)
        if stuck:
            moved[1] += 1
            dirty[x] = True
            for rows in (before, after):
                for e in range(rows[0][x], rows[0][x + 1]):
                    dirty[rows[1][e]] = True
            if not settle(
                order,
                step,
                before,
                after,
                memory,
                capacity,
                offsets,
                allowed,
                rounds,
                device,
                used,
                duration,
                free,
                dirty,
                moved,
            ):
                return False
    return True


@njit(cache=True)
def _may(x: int, before: Any, after: Any, device: Any, allowed: Any) -> bool:
    return not (
        _breaks(x, before, 1, device, allowed, len(allowed)) or _breaks(x, after, -1, device, allowed, len(allowed))
    )


@njit(cache=True)
def anneal(
    order: Any,
    before: Any,
    after: Any,
    durations: Any,
    memory: Any,
    capacity: float,
    allowed: Any,
    device: Any,
    steps: int,
    seed: int,
) -> Any:
    """Improve a valid ``device`` in place by simulated annealing; never ends worse. Returns its iteration time.

    A step moves one sub-operator, swaps two, or brings two neighbours together, and is dropped where it breaks a reach
    or a memory.
    """
    size, devices = len(device), len(allowed)
    times = np.zeros((4, size))
    used = np.zeros(devices)
    for x in range(size):
        used[device[x]] += memory[x]
    current = iteration_time(order, before, after, durations, device, devices, times)
    best, kept = current, device.copy()
    np.random.seed(seed)  # noqa: NPY002
    for step in range(steps):
        heat = 0.05 * best * (1.0 - step / steps) ** 2
        x = np.random.randint(size)  # noqa: NPY002
        y, kind = x, np.random.randint(4)  # noqa: NPY002
        to = np.random.randint(devices)  # noqa: NPY002
        old_x = device[x]
        if kind == 1:
            y = np.random.randint(size)  # noqa: NPY002
            to = device[y]
        elif kind >= 2:
            rows = before if np.random.randint(2) else after  # noqa: NPY002
            degree = rows[0][x + 1] - rows[0][x]
            if degree == 0:
                continue
            y = rows[1][rows[0][x] + np.random.randint(degree)]  # noqa: NPY002
            if kind == 3:
                to = device[y]
                y = x
        old_y = device[y]
        device[x] = to
        if y != x:
            device[y] = old_x if kind == 1 else to
        if device[x] == old_x and device[y] == old_y:
            continue
        used[old_x] -= memory[x]
        used[device[x]] += memory[x]
        if y != x:
            used[old_y] -= memory[y]
            used[device[y]] += memory[y]
        fits = used[device[x]] <= capacity and used[device[y]] <= capacity
        if fits and _may(x, before, after, device, allowed) and _may(y, before, after, device, allowed):
            found = iteration_time(order, before, after, durations, device, devices, times)
            if found <= current or np.random.random() < np.exp((current - found) / heat):  # noqa: NPY002
                current = found
                if found < best:
                    best = found
                    kept[:] = device
                continue
        used[device[x]] -= memory[x]
        used[old_x] += memory[x]
        if y != x:
            used[device[y]] -= memory[y]
            used[old_y] += memory[y]
        device[x] = old_x
        device[y] = old_y
    device[:] = kept
    return best


@njit(cache=True)
def _conflicts(x: int, to: int, rows: Any, sign: int, device: Any, allowed: Any) -> int:
    start, other = rows[0], rows[1]
    found = 0
    for e in range(start[x], start[x + 1]):
        if not allowed[(sign * (to - device[other[e]])) % len(allowed)]:
            found += 1
    return found


@njit(cache=True)
def reconcile(
    before: Any, after: Any, memory: Any, capacity: float, allowed: Any, device: Any, steps: int, seed: int
) -> Any:
    """Search in place for any valid ``device`` by moves that lessen conflicts; True when one is found.

    A conflict is a pair out of reach, or memory beyond the capacity in units of the mean sub-operator. Moves that add
    conflicts are taken the more rarely the more they add.
    """
    size, devices = len(device), len(allowed)
    unit = max(memory.mean(), 1e-30)
    used = np.zeros(devices)
    for x in range(size):
        used[device[x]] += memory[x]
    np.random.seed(seed)  # noqa: NPY002
    for step in range(steps):
        if step % size == 0 and used.max() <= capacity and broken(before, device, allowed) == 0:
            return True
        x, to = np.random.randint(size), np.random.randint(devices)  # noqa: NPY002
        at = device[x]
        change = float(
            _conflicts(x, to, before, 1, device, allowed)
            + _conflicts(x, to, after, -1, device, allowed)
            - _conflicts(x, at, before, 1, device, allowed)
            - _conflicts(x, at, after, -1, device, allowed)
        )
        if to != at:
            change += max(0.0, used[to] + memory[x] - capacity) / unit - max(0.0, used[to] - capacity) / unit
            change += max(0.0, used[at] - memory[x] - capacity) / unit - max(0.0, used[at] - capacity) / unit
        if change <= 0 or np.random.random() < np.exp(-4.0 * change):  # noqa: NPY002
            used[at] -= memory[x]
            used[to] += memory[x]
            device[x] = to
    return used.max() <= capacity and broken(before, device, allowed) == 0
