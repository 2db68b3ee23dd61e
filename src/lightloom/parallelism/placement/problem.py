"""The placement problem: a balanced graph, devices, their reach and memory, in the form that compiled loops take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Int32s, Ints
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
    return _start_order(_transposed(Neighbours(balanced.parent_start, balanced.parent, balanced.nbytes)), balanced)


def _start_order(after: Neighbours, balanced: BalancedGraph) -> Ints:
    from lightloom.parallelism.placement._time_kernels import ranks

    # Equal ranks keep their order, in which producers come first.
    order: Ints = np.argsort(-ranks(after, balanced.forward), kind="stable")
    return order


def _transposed(before: Neighbours) -> Neighbours:
    """Turn rows of what comes before each sub-operator into rows of what comes after it."""
    from scipy.sparse import csr_array

    size = len(before.start) - 1
    after = csr_array((before.delay, before.node, before.start), shape=(size, size)).tocsc()
    return Neighbours(after.indptr.astype(np.int64), after.indices.astype(np.int32), after.data)


def problem_of(balanced: BalancedGraph, devices: int, reach: Reach, memory: float | None, link: Link) -> Problem:
    """Return the problem of placing a balanced graph, with ``memory`` bytes a device (None: no limit)."""
    before = _rows(balanced, link)
    after = _transposed(before)
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
