"""Compiled loops that make a placement: the forward pass in order, and the repair where it gets stuck."""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Floats, Int32s, Ints, Mask
from lightloom.core.kernels import njit_cached, njit_without_arrays
from lightloom.planning.parallelism.placement.placement import Arrivals, Neighbours, PlacementProblem, PlacementState

BEFORE, AFTER = np.int64(1), np.int64(-1)
"""Signs of what comes before and after; numba would compile all that is called with a literal once more."""


@njit_without_arrays
def out_of_reach(x: int, neighbours: Neighbours, sign: int, device: Int32s, allowed: Mask) -> bool:
    """Return True if sub-operator ``x`` cannot reach some placed neighbour from its device.

    Args:
        x: number of the sub-operator.
        neighbours: rows of its neighbours on one side.
        sign: 1 for neighbours before it, -1 for those after it.
        device: device of each sub-operator, -1 for those not placed: [sub-operators].
        allowed: True for each difference, modulo the devices, of the device after and the one before that is in reach:
            [devices].
    """
    for e in range(neighbours.start[x], neighbours.start[x + 1]):
        at = device[neighbours.node[e]]
        # A difference below 0 counts from the end, as it does modulo the devices.
        if at >= 0 and not allowed[sign * (device[x] - at)]:
            return True
    return False


@njit_without_arrays
def unreachable_pairs(problem: PlacementProblem, device: Int32s) -> int:
    """Return the number of pairs of sub-operators that exchange data and whose devices are out of reach of one another;
    ``device`` [sub-operators] is the device of each, all of which must be placed."""
    before, allowed, count = problem.before, problem.allowed, 0
    for x in range(len(device)):
        for e in range(before.start[x], before.start[x + 1]):
            if not allowed[device[x] - device[before.node[e]]]:
                count += 1
    return count


@njit_without_arrays
def _vote(x: int, neighbours: Neighbours, sign: int, problem: PlacementProblem, state: PlacementState) -> int:
    """Add to ``state.votes`` [device], for each device, the number of placed neighbours of ``x`` that ``x`` would reach
    from there; return how many neighbours are placed.

    ``sign`` is 1 for ``neighbours`` before it, -1 for those after it.
    """
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
                to = at + sign * offset
                votes[to if to < len(votes) else to - len(votes)] += reached[at]
            reached[at] = 0
    return total


@njit_without_arrays
def _move(problem: PlacementProblem, state: PlacementState, x: int, to: int) -> None:
    """Place sub-operator ``x`` on device ``to`` in ``state``, and count its memory there. If it was on a device before,
    its memory and its forward seconds are taken from that one, and the seconds added to those of ``to``; for a first
    placement the caller sets them."""
    if state.device[x] >= 0:
        state.used[state.device[x]] -= problem.memory[x]
        state.free[state.device[x]] -= problem.forward[x]
        state.free[to] += problem.forward[x]
    state.device[x] = to
    state.used[to] += problem.memory[x]


@njit_without_arrays
def _nearest(problem: PlacementProblem, state: PlacementState, x: int) -> int:
    """Return the device that has the most of ``state.votes`` (neighbours of ``x`` in reach) among the device of ``x``
    and those with room for it; of equals the one nearest around the ring to the device of ``x``."""
    devices, at = len(problem.allowed), state.device[x]
    best, most, least = -1, -1, devices
    for to in range(devices):
        if state.votes[to] < most or (to != at and state.used[to] + problem.memory[x] > problem.capacity):
            continue
        stride = min(abs(to - at), devices - abs(to - at))
        if state.votes[to] > most or (state.votes[to] == most and stride < least):
            best, most, least = to, state.votes[to], stride
    return best


@njit_without_arrays
def settle(problem: PlacementProblem, state: PlacementState, last: int, rounds: int) -> bool:
    """Repair a placement in place by sweeps over order[0 ... last] until all neighbours are within reach, and return
    True; return False after 2 · ``rounds`` sweeps, which go backward and forward in turn.

    In a backward sweep a sub-operator out of reach of one after it moves to the nearest device that reaches most of
    those after it; in a forward sweep likewise with those before. ``state.pending`` marks the ones to look at, and is
    left clear. Every sweep visits a position once, so it ends.
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
    """Move, in place and in one sweep over order[0 ... last], each pending sub-operator that is out of reach of a
    neighbour: to the nearest device that reaches most of those after it in a ``backward`` sweep, of those before it in
    a forward one. Count the move, and mark its neighbours as pending."""
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
    """Mark the placed neighbours of sub-operator ``x``, before it and after it, as yet to be looked at by the
    repair."""
    for rows in (problem.before, problem.after):
        for e in range(rows.start[x], rows.start[x + 1]):
            if state.device[rows.node[e]] >= 0:
                state.pending[rows.node[e]] = True


@njit_without_arrays
def forward_pass(
    problem: PlacementProblem, state: PlacementState, width: int, earliest_finish: bool, rounds: int
) -> bool:
    """Place all sub-operators in order on devices 0 ... width - 1, by Algorithm 1 of SiP-ML, in ``state``; return False
    when it gets stuck. Devices from ``width`` on are marked as full in ``state.used``.

    Candidates are the devices within reach of all placed neighbours and with room. The earliest free one is taken, or
    with ``earliest_finish`` the one where the sub-operator could start first, transfers included. Without candidates
    the device with room that reaches most neighbours is taken, and the placement repaired by :func:`settle` with
    ``rounds``; with 0 rounds, without room, or where the repair fails, it is stuck.
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
    """Return when the inputs of ``x`` arrive by transfers from other devices, in seconds of the forward pass: the
    latest such arrival and the device it comes from, the latest from any device but that one (0 or device -1 where
    there is none), and the device of the producer with the longest transfer, -1 without a producer; set
    ``state.latest`` [device] to the end of the latest producer on each device, which is the arrival there without a
    transfer. Rows with a negative delay are not waited for."""
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
    """Return the seconds at which all inputs of a sub-operator are on device ``to``: those that transfers bring from
    other devices, and those that are there."""
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
    """Return the candidate device for ``x`` that is free first or, with ``earliest_finish``, where it could start
    first, of equals the one nearest around the ring to the producer whose transfer takes longest (``arrivals.home``);
    -1 without candidates.

    Candidates are devices below ``width`` with room for ``x`` and at least ``votes_needed`` of ``state.votes``, which
    is the number of placed neighbours.
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
        stride = 0 if home < 0 else min(abs(to - home), devices - abs(to - home))
        if start < least or (start == least and stride < nearest):
            best, least, nearest = to, start, stride
    return best


@njit_without_arrays
def _most_votes(problem: PlacementProblem, state: PlacementState, x: int, width: int) -> int:
    """Return the device below ``width`` with room for ``x`` that has the most of ``state.votes`` (placed neighbours in
    reach), of equals the one free first; -1 without room."""
    best, votes, free = -1, state.votes, state.free
    for to in range(width):
        if state.used[to] + problem.memory[x] > problem.capacity:
            continue
        if best < 0 or votes[to] > votes[best] or (votes[to] == votes[best] and free[to] < free[best]):
            best = to
    return best


# Compiled loops that time a placement: the objective that every placement is judged by.


@njit_cached
def ranks(after: Neighbours, duration: Floats) -> Floats:
    """Return the seconds from the start of each sub-operator to the end of the pass along the longest path, without
    transfers: [sub-operators].

    Args:
        after: rows of who comes after each sub-operator, all of larger numbers; rows with a negative delay are left
            out.
        duration: seconds of each: [sub-operators].
    """
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
    """Return the seconds of one pass in a fixed order: each sub-operator starts when its device is free and its inputs
    have arrived.

    Args:
        order: sub-operators in the order in which they start, each behind all that it waits for.
        before: rows of what each waits for, with the seconds of a transfer, which counts between two devices only; rows
            with a negative delay are not waited for.
        duration: seconds of each: [sub-operators].
        device: device of each: [sub-operators].
        devices: number of devices.
        begin, end: receive the start and end of each, in seconds: [sub-operators].
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
    """Return the seconds of a forward pass in the order of the problem and of the backward pass in the reverse order,
    one after the other; exchanges of parameter gradients are not counted.

    ``device`` [sub-operators] is the device of each. ``times`` [4, sub-operators] receives the begin and end of each in
    the forward pass, then in the backward pass, which is counted from its own beginning.
    """
    order, devices = problem.order, len(problem.allowed)
    forward = pass_time(order, problem.before, problem.forward, device, devices, times[0], times[1])
    backward = pass_time(order[::-1], problem.after, problem.backward, device, devices, times[2], times[3])
    return float(forward + backward)


# Compiled loops that search around a placement by moving sub-operators at random.


@njit_cached
def anneal(problem: PlacementProblem, device: Int32s, steps: int, seed: int) -> float:
    """Improve a valid placement ``device`` [sub-operators] in place by simulated annealing, and return its iteration
    time in seconds, which is never longer than before.

    Each of ``steps`` steps moves one sub-operator, swaps two, or brings two neighbours together, and is dropped where
    it exceeds the reach or a memory; one that makes the iteration longer is kept by chance, the more rarely the longer
    and the later it is. ``seed`` is that of the random numbers.
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
    """Copy an array into another one of equal length, element by element; assigning to a slice would compile a message
    about shapes, in seconds."""
    for x in range(len(source)):
        destination[x] = source[x]


@njit_without_arrays
def _propose(problem: PlacementProblem, device: Int32s) -> tuple[int, int, int, int]:
    """Draw a random step of the search, and return two sub-operators, each before its new device. By equal chances one
    moves to any device, two swap devices, two neighbours move to any one device, or one moves to the device of a
    neighbour; one that moves alone is returned twice, one without neighbours with the device that it has."""
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
    """Move sub-operator ``x`` to device ``to``, and its bytes of memory from ``used`` [device] of its old device to the
    new."""
    used[device[x]] -= memory[x]
    used[to] += memory[x]
    device[x] = to


@njit_without_arrays
def _within_reach(problem: PlacementProblem, device: Int32s, x: int) -> bool:
    """Return True if sub-operator ``x`` reaches all its placed neighbours, before it and after it, from its device."""
    return not (
        out_of_reach(x, problem.before, BEFORE, device, problem.allowed)
        or out_of_reach(x, problem.after, AFTER, device, problem.allowed)
    )


@njit_cached
def reconcile(problem: PlacementProblem, device: Int32s, steps: int, seed: int) -> bool:
    """Search in place for any valid placement ``device`` [sub-operators] by at most ``steps`` random moves of single
    sub-operators that lessen conflicts; return True once one is found, else False, with ``device`` as the last move
    left it.

    A conflict is a pair out of reach, or a device's memory beyond the capacity, which counts in units of the mean
    sub-operator's bytes. Moves that add conflicts are taken the more rarely the more they add. ``seed`` is that of the
    random numbers.
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
    """Return the number of ``neighbours`` of ``x`` that it could not reach if it were on device ``to``; ``sign`` is 1
    for neighbours before it, -1 for those after it, and ``allowed`` [devices] says which differences of devices are in
    reach (as in :func:`out_of_reach`). All neighbours must be placed."""
    start, node, count = neighbours.start, neighbours.node, 0
    for e in range(start[x], start[x + 1]):
        if not allowed[sign * (to - device[node[e]])]:
            count += 1
    return count
