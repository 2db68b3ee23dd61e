"""Compiled loops that time a placement: the objective that every placement is judged by."""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Floats, Int32s, Ints
from lightloom.core.kernels import njit_cached
from lightloom.parallelism.placement.state import Neighbours, PlacementProblem


@njit_cached
def ranks(after: Neighbours, duration: Floats) -> Floats:
    """Return the seconds from the start of each sub-operator to the end along the longest path, without transfers."""
    rank = duration.copy()
    for x in range(len(duration) - 1, -1, -1):
        for e in range(after.start[x], after.start[x + 1]):
            if after.delay[e] >= 0:
                rank[x] = max(rank[x], duration[x] + rank[after.node[e]])
    return rank


@njit_cached
def pass_time(
    order: Ints, before: Neighbours, duration: Floats, device: Int32s, devices: int, begin: Floats, end: Floats
) -> float:
    """Return the seconds of one pass in a fixed order: each starts when its device is free and its inputs have arrived.

    ``begin`` and ``end`` [sub-operators] receive the times.
    """
    start, node, delay = before
    free = np.zeros(devices)
    last = 0.0
    for x in order:
        at = device[x]
        ready = free[at]
        for e in range(start[x], start[x + 1]):
            if delay[e] >= 0:
                arrival = end[node[e]]
                if device[node[e]] != at:
                    arrival += delay[e]
                ready = max(ready, arrival)
        begin[x] = ready
        end[x] = ready + duration[x]
        free[at] = end[x]
        last = max(last, end[x])
    return last


@njit_cached
def iteration_time(problem: PlacementProblem, device: Int32s, times: Floats) -> float:
    """Return the seconds of a forward pass in the order of the problem and of the backward pass in the reverse order.

    ``times`` [4, sub-operators] receives begin and end of both, the backward pass counted from its own beginning.
    """
    order, devices = problem.order, len(problem.allowed)
    forward = pass_time(order, problem.before, problem.forward, device, devices, times[0], times[1])
    backward = pass_time(order[::-1], problem.after, problem.backward, device, devices, times[2], times[3])
    return float(forward + backward)
