"""Compiled loops that search around a placement by moving sub-operators at random."""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Floats, Int32s, Mask
from lightloom.core.kernels import njit_cached, njit_without_arrays
from lightloom.parallelism.placement._pass_kernels import (
    AFTER,
    BEFORE,
    out_of_reach,
    unreachable_pairs,
)
from lightloom.parallelism.placement._time_kernels import iteration_time
from lightloom.parallelism.placement.state import Neighbours, PlacementProblem


@njit_cached
def anneal(problem: PlacementProblem, device: Int32s, steps: int, seed: int) -> float:
    """Improve a valid ``device`` in place by simulated annealing; never ends worse. Returns its iteration time.

    A step moves one sub-operator, swaps two, or brings two neighbours together, and is dropped where it exceeds the
    reach or a memory.
    """
    size, memory = len(device), problem.memory
    times = np.zeros((4, size))
    used = np.zeros(len(problem.allowed))
    for x in range(size):
        used[device[x]] += memory[x]
    current = iteration_time(problem, device, times)
    best, best_device = current, device.copy()
    np.random.seed(seed)  # noqa: NPY002
    for step in range(steps):
        heat = 0.05 * best * (1.0 - step / steps) ** 2
        x, new_x, y, new_y = _propose(problem, device)
        old_x, old_y = np.int64(device[x]), np.int64(device[y])
        if new_x == old_x and new_y == old_y:
            continue
        _shift(device, used, memory, x, new_x)
        if y != x:
            _shift(device, used, memory, y, new_y)
        fits = used[device[x]] <= problem.capacity and used[device[y]] <= problem.capacity
        if fits and _within_reach(problem, device, x) and _within_reach(problem, device, y):
            seconds = iteration_time(problem, device, times)
            if seconds <= current or np.random.random() < np.exp((current - seconds) / heat):  # noqa: NPY002
                current = seconds
                if seconds < best:
                    best = seconds
                    _copy(device, best_device)
                continue
        _shift(device, used, memory, x, old_x)
        if y != x:
            _shift(device, used, memory, y, old_y)
    _copy(best_device, device)
    return float(best)


@njit_without_arrays
def _copy(source: Int32s, destination: Int32s) -> None:
    """Copy an array; assigning to a slice would compile a message about shapes, in seconds."""
    for x in range(len(source)):
        destination[x] = source[x]


@njit_without_arrays
def _propose(problem: PlacementProblem, device: Int32s) -> tuple[int, int, int, int]:
    """Draw a step: a sub-operator and its new device, twice; the second is the first again where only one moves."""
    size = len(device)
    x = np.random.randint(size)  # noqa: NPY002
    kind = np.random.randint(4)  # noqa: NPY002
    to = np.random.randint(len(problem.allowed))  # noqa: NPY002
    y, to_y = x, to
    if kind == 1:
        y = np.random.randint(size)  # noqa: NPY002
        to, to_y = device[y], device[x]
    elif kind >= 2:
        neighbours = problem.before if np.random.randint(2) else problem.after  # noqa: NPY002
        degree = neighbours.start[x + 1] - neighbours.start[x]
        if degree == 0:
            return x, device[x], x, device[x]
        neighbour = neighbours.node[neighbours.start[x] + np.random.randint(degree)]  # noqa: NPY002
        if kind == 2:
            y = neighbour
        else:
            to = to_y = device[neighbour]
    return x, to, y, to_y


@njit_without_arrays
def _shift(device: Int32s, used: Floats, memory: Floats, x: int, to: int) -> None:
    used[device[x]] -= memory[x]
    used[to] += memory[x]
    device[x] = to


@njit_without_arrays
def _within_reach(problem: PlacementProblem, device: Int32s, x: int) -> bool:
    return not (
        out_of_reach(x, problem.before, BEFORE, device, problem.allowed)
        or out_of_reach(x, problem.after, AFTER, device, problem.allowed)
    )


@njit_cached
def reconcile(problem: PlacementProblem, device: Int32s, steps: int, seed: int) -> bool:
    """Search in place for any valid ``device`` by moves that lessen conflicts; True when one is found.

    A conflict is a pair out of reach, or memory beyond the capacity in units of the mean sub-operator. Moves that add
    conflicts are taken the more rarely the more they add.
    """
    before, after, allowed = problem.before, problem.after, problem.allowed
    size, devices, memory, capacity = len(device), len(allowed), problem.memory, problem.capacity
    unit = max(memory.mean(), 1e-30)
    used = np.zeros(devices)
    for x in range(size):
        used[device[x]] += memory[x]
    np.random.seed(seed)  # noqa: NPY002
    for step in range(steps):
        if step % size == 0 and used.max() <= capacity and unreachable_pairs(problem, device) == 0:
            return True
        x, to = np.random.randint(size), np.random.randint(devices)  # noqa: NPY002
        at = np.int64(device[x])
        change = float(
            _conflicts(before, BEFORE, device, allowed, x, to)
            + _conflicts(after, AFTER, device, allowed, x, to)
            - _conflicts(before, BEFORE, device, allowed, x, at)
            - _conflicts(after, AFTER, device, allowed, x, at)
        )
        if to != at:
            change += max(0.0, used[to] + memory[x] - capacity) / unit - max(0.0, used[to] - capacity) / unit
            change += max(0.0, used[at] - memory[x] - capacity) / unit - max(0.0, used[at] - capacity) / unit
        if change <= 0 or np.random.random() < np.exp(-4.0 * change):  # noqa: NPY002
            _shift(device, used, memory, x, to)
    return bool(used.max() <= capacity and unreachable_pairs(problem, device) == 0)


@njit_without_arrays
def _conflicts(neighbours: Neighbours, sign: int, device: Int32s, allowed: Mask, x: int, to: int) -> int:
    """Number of neighbours that ``x`` could not reach from a device."""
    start, node, count = neighbours.start, neighbours.node, 0
    for e in range(start[x], start[x + 1]):
        if not allowed[(sign * (to - device[node[e]])) % len(allowed)]:
            count += 1
    return count
