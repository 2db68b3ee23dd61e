"""Compiled loops that make a placement: the forward pass in order, and the repair where it gets stuck."""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Int32s, Mask
from lightloom.core.kernels import njit_without_arrays
from lightloom.parallelism.placement.state import Arrivals, Neighbours, PlacementProblem, PlacementState

BEFORE, AFTER = np.int64(1), np.int64(-1)
"""Signs of what comes before and after; numba would compile all that is called with a literal once more."""


@njit_without_arrays
def out_of_reach(x: int, neighbours: Neighbours, sign: int, device: Int32s, allowed: Mask) -> bool:
    """Whether ``x`` cannot reach a placed neighbour; ``sign`` is 1 for those before it, −1 for those after it."""
    for e in range(neighbours.start[x], neighbours.start[x + 1]):
        at = device[neighbours.node[e]]
        if at >= 0 and not allowed[(sign * (device[x] - at)) % len(allowed)]:
            return True
    return False


@njit_without_arrays
def unreachable_pairs(problem: PlacementProblem, device: Int32s) -> int:
    """Number of neighbours that are out of reach of one another."""
    before, allowed, count = problem.before, problem.allowed, 0
    for x in range(len(device)):
        for e in range(before.start[x], before.start[x + 1]):
            if not allowed[(device[x] - device[before.node[e]]) % len(allowed)]:
                count += 1
    return count


@njit_without_arrays
def _vote(x: int, neighbours: Neighbours, sign: int, problem: PlacementProblem, state: PlacementState) -> int:
    """Add to the votes how many placed neighbours each device reaches; returns how many there are."""
    device, reached, votes = state.device, state.reached, state.votes
    total = 0
    for e in range(neighbours.start[x], neighbours.start[x + 1]):
        if device[neighbours.node[e]] >= 0:
            reached[device[neighbours.node[e]]] += 1
            total += 1
    for e in range(neighbours.start[x], neighbours.start[x + 1]):
        at = device[neighbours.node[e]]
        if at >= 0 and reached[at] > 0:
            for offset in problem.offsets:
                votes[(at + sign * offset) % len(votes)] += reached[at]
            reached[at] = 0
    return total


@njit_without_arrays
def _move(problem: PlacementProblem, state: PlacementState, x: int, to: int) -> None:
    if state.device[x] >= 0:
        state.used[state.device[x]] -= problem.memory[x]
        state.free[state.device[x]] -= problem.forward[x]
        state.free[to] += problem.forward[x]
    state.device[x] = to
    state.used[to] += problem.memory[x]


@njit_without_arrays
def _nearest(problem: PlacementProblem, state: PlacementState, x: int) -> int:
    """Return the device with most votes and room, nearest to where x is; −1 without room anywhere."""
    devices, at = len(problem.allowed), state.device[x]
    best, most, least = -1, -1, devices
    for to in range(devices):
        if to != at and state.used[to] + problem.memory[x] > problem.capacity:
            continue
        stride = (to - at) % devices
        stride = min(stride, devices - stride)
        if state.votes[to] > most or (state.votes[to] == most and stride < least):
            best, most, least = to, state.votes[to], stride
    return best


@njit_without_arrays
def settle(problem: PlacementProblem, state: PlacementState, last: int, rounds: int) -> bool:
    """Sweep backward and forward over order[0 ... last] until neighbours are within reach; False after ``rounds``.

    In a backward sweep a sub-operator out of reach of one after it moves to the nearest device that reaches most of
    those after it; in a forward sweep likewise with those before. ``pending`` marks the ones to look at, and is left
    clear. Every sweep visits a position once and there are at most 2 · ``rounds`` sweeps, so it ends.
    """
    for sweep in range(2 * rounds):
        _sweep(problem, state, last, sweep % 2 == 0)
        settled = True
        for step in range(last + 1):
            x = problem.order[step]
            if state.pending[x]:
                if out_of_reach(x, problem.before, BEFORE, state.device, problem.allowed) or out_of_reach(
                    x, problem.after, AFTER, state.device, problem.allowed
                ):
                    settled = False
                else:
                    state.pending[x] = False
        if settled:
            return True
    state.pending[:] = False
    return False


@njit_without_arrays
def _sweep(problem: PlacementProblem, state: PlacementState, last: int, backward: bool) -> None:
    """Move each pending sub-operator towards its neighbours ahead of the sweep's direction, and mark its neighbours."""
    neighbours, sign = (problem.after, AFTER) if backward else (problem.before, BEFORE)
    for step in range(last + 1):
        x = problem.order[last - step] if backward else problem.order[step]
        if not state.pending[x] or not out_of_reach(x, neighbours, sign, state.device, problem.allowed):
            continue
        state.votes[:] = 0
        _vote(x, neighbours, sign, problem, state)
        to = _nearest(problem, state, x)
        if to < 0 or to == state.device[x]:
            continue
        _move(problem, state, x, to)
        state.moves[0] += 1
        _mark_neighbours(problem, state, x)
        state.pending[x] = True


@njit_without_arrays
def _mark_neighbours(problem: PlacementProblem, state: PlacementState, x: int) -> None:
    for rows in (problem.before, problem.after):
        for e in range(rows.start[x], rows.start[x + 1]):
            if state.device[rows.node[e]] >= 0:
                state.pending[rows.node[e]] = True


@njit_without_arrays
def forward_pass(
    problem: PlacementProblem, state: PlacementState, width: int, earliest_finish: bool, rounds: int
) -> bool:
    """Algorithm 1 on devices 0 ... width − 1, in order; False when it gets stuck.

    Candidates are the devices within reach of all placed neighbours and with room. The earliest free one is taken, or
    the one where x would finish first. Without candidates the placement is repaired by :func:`settle`; with no
    ``rounds`` it is stuck.
    """
    devices = len(problem.allowed)
    state.used[width:] = np.inf
    for step in range(len(problem.order)):
        x = problem.order[step]
        total = 0
        if len(problem.offsets) < devices:
            state.votes[:] = 0
            total = _vote(x, problem.before, BEFORE, problem, state) + _vote(x, problem.after, AFTER, problem, state)
        arrivals = _arrivals(problem.before, state, x)
        to = _earliest(problem, state, x, width, total, arrivals, earliest_finish)
        stuck = to < 0
        if stuck:
            to = _most_votes(problem, state, x, width) if rounds else -1
            if to < 0:
                return False
        state.end[x] = max(state.free[to], _arrival(state, arrivals, to)) + problem.forward[x]
        state.free[to] = state.end[x]
        _move(problem, state, x, to)
        if stuck:
            state.pending[x] = True
            _mark_neighbours(problem, state, x)
            if not settle(problem, state, step, rounds):
                return False
    return True


@njit_without_arrays
def _arrivals(before: Neighbours, state: PlacementState, x: int) -> Arrivals:
    """Return when the inputs of ``x`` arrive by transfers; without transfers they arrive at ``state.latest``."""
    device, end, latest = state.device, state.end, state.latest
    latest[:] = 0.0
    first, second, first_device = 0.0, 0.0, -1
    home, heaviest = -1, -1.0
    for e in range(before.start[x], before.start[x + 1]):
        if before.delay[e] >= 0:
            at, arrival = device[before.node[e]], end[before.node[e]] + before.delay[e]
            if arrival > first or at == first_device:
                if at != first_device:
                    second = first
                first, first_device = max(first, arrival), at
            elif arrival > second:
                second = arrival
            latest[at] = max(latest[at], end[before.node[e]])
            if before.delay[e] > heaviest:
                home, heaviest = at, before.delay[e]
    return Arrivals(first, first_device, second, home)


@njit_without_arrays
def _arrival(state: PlacementState, arrivals: Arrivals, to: int) -> float:
    """Return the seconds at which all inputs are on a device."""
    return float(max(state.latest[to], arrivals.second if to == arrivals.first_device else arrivals.first))


@njit_without_arrays
def _earliest(
    problem: PlacementProblem,
    state: PlacementState,
    x: int,
    width: int,
    votes_needed: int,
    arrivals: Arrivals,
    earliest_finish: bool,
) -> int:
    """Return the candidate that is free first or, with ``earliest_finish``, could start first; −1 without candidates.

    Of equals the one nearest to the heaviest producer is taken.
    """
    devices = len(problem.allowed)
    best, least, nearest = -1, np.inf, devices
    for to in range(width):
        if state.votes[to] < votes_needed or state.used[to] + problem.memory[x] > problem.capacity:
            continue
        start = state.free[to]
        if earliest_finish:
            start = max(start, _arrival(state, arrivals, to))
        home = arrivals.home
        stride = 0 if home < 0 else min((to - home) % devices, (home - to) % devices)
        if start < least or (start == least and stride < nearest):
            best, least, nearest = to, start, stride
    return best


@njit_without_arrays
def _most_votes(problem: PlacementProblem, state: PlacementState, x: int, width: int) -> int:
    """Return the device with room that reaches most neighbours, of equals the one free first; −1 without room."""
    best, votes, free = -1, state.votes, state.free
    for to in range(width):
        if state.used[to] + problem.memory[x] > problem.capacity:
            continue
        if best < 0 or votes[to] > votes[best] or (votes[to] == votes[best] and free[to] < free[best]):
            best = to
    return best
