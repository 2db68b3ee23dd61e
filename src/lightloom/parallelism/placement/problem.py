"""The placement problem: a balanced graph, devices, their reach and memory, in the form that compiled loops take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Int32s, Ints
from lightloom.parallelism.placement.balanced import BalancedGraph
from lightloom.parallelism.placement.base import Link, Reach
from lightloom.parallelism.placement.state import Neighbours, PlacementProblem, PlacementState

_UNLIMITED = 1e300


class Problem(NamedTuple):
    """What is placed where, and within which limits."""

    balanced: BalancedGraph
    reach: Reach
    devices: int
    rows: PlacementProblem
    """The same in the form that compiled loops take."""


def start_order(balanced: BalancedGraph) -> Ints:
    """Return the sub-operators in the order in which they start where several could: longest path to the end first."""
    from lightloom.parallelism.placement._time_kernels import transpose

    rows = Neighbours(balanced.parent_start, balanced.parent, balanced.nbytes)
    return _start_order(transpose(rows), balanced)


def _start_order(after: Neighbours, balanced: BalancedGraph) -> Ints:
    from lightloom.parallelism.placement._time_kernels import ranks

    # Equal ranks keep their order, in which producers come first.
    order: Ints = np.argsort(-ranks(after, balanced.forward), kind="stable")
    return order


def iteration_time(problem: Problem, device: Int32s, times: Floats) -> float:
    """Return the seconds of a forward and a backward pass, by which placements are compared.

    Sub-operators start in the order of the problem, as soon as their device is free and their inputs have arrived,
    latency + bytes / bandwidth after they were computed elsewhere; backward in reverse. ``times`` [4, sub-operators]
    receives begin and end of both passes.
    """
    from lightloom.parallelism.placement import _time_kernels as kernels

    return float(kernels.iteration_time(problem.rows, device, times))


def problem_of(balanced: BalancedGraph, devices: int, reach: Reach, memory: float | None, link: Link) -> Problem:
    """Return the problem of placing a balanced graph, with ``memory`` bytes a device (None: no limit)."""
    from lightloom.parallelism.placement._time_kernels import transpose

    before = _rows(balanced, link)
    after = transpose(before)
    offsets = reach.offsets(devices)
    allowed = np.zeros(devices, np.bool_)
    allowed[offsets] = True
    rows = PlacementProblem(
        order=_start_order(after, balanced),
        before=before,
        after=after,
        forward=balanced.forward,
        backward=balanced.backward,
        memory=balanced.memory,
        capacity=_UNLIMITED if memory is None else min(memory, _UNLIMITED),
        offsets=offsets,
        allowed=allowed,
    )
    return Problem(balanced, reach, devices, rows)


def initial_state(problem: Problem, device: Int32s) -> PlacementState:
    """Return a placement for compiled loops to change; sub-operators without a device have −1."""
    placed = device >= 0
    columns = (problem.rows.memory, problem.rows.forward)
    used, free = (np.bincount(device[placed], column[placed], problem.devices).astype(np.float64) for column in columns)
    moves, (reached, votes) = np.zeros(2, np.int64), np.zeros((2, problem.devices), np.int64)
    return PlacementState(
        device, used, free, placed, moves, reached, votes, np.zeros(len(device)), np.zeros(problem.devices)
    )


def _rows(balanced: BalancedGraph, link: Link) -> Neighbours:
    """Parents with the seconds of a transfer, and the part before it where gradients are added up, at −1 seconds."""
    delay = link.latency + balanced.nbytes / link.bandwidth
    shared = np.flatnonzero(balanced.synchronised > 0)
    if not len(shared):
        return Neighbours(balanced.parent_start, balanced.parent, delay)
    ends = balanced.parent_start[shared + 1]
    start = balanced.parent_start.copy()
    start[1:] += np.cumsum(balanced.synchronised > 0)
    source = np.insert(balanced.parent, ends, (shared - 1).astype(np.int32))
    return Neighbours(start, source, np.insert(delay, ends, -1.0))
