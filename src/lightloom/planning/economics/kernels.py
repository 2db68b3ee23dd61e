"""Compiled loop of the event simulation: nodes with clocks of their own, repairs, spares and one job.

``clock[node]`` is when a node fails if it works, when it is repaired if a crew repairs it, and infinite while it waits
for a crew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.kernels import njit_cached

USEFUL, RESTARTING, WAITING, FAILURES = range(4)
"""Entries of what :func:`play` returns: seconds of training kept, of restarts and of waits; interruptions."""
_UP, _SERVING, _BUSY, _FIRST, _QUEUED = range(5)
"""Counts of nodes: those that work, serve the job and are repaired; place and length of the queue for repairs."""


class Nodes(NamedTuple):
    """How nodes fail and are repaired."""

    needed: int
    """Nodes that the job needs; all others are spares."""
    mtbf: float
    """Mean seconds between failures of one, infinite if none fails."""
    scale: float
    """Weibull's scale for this mean, seconds."""
    shape: float
    """Weibull's shape; 1 is exponential."""
    restart: float
    """Seconds of a restart on other nodes."""
    repair: float
    """Mean seconds of a repair, exponential."""
    crews: int
    """Repairs at once; 0 for as many as wanted."""
    rack: int
    """Nodes of a rack."""


class Rhythm(NamedTuple):
    """Checkpoints: useful seconds between them, seconds of stall, and seconds until they are durable."""

    interval: float
    stall: float
    save: float


class _State(NamedTuple):
    clock: Floats
    works: Mask
    used: Mask
    queue: Ints
    counts: Ints


@njit_cached
def _exponential(mean: float) -> float:
    """Return a number drawn at random from the exponential distribution of this mean; infinite for an infinite mean."""
    return -mean * np.log(1 - np.random.random()) if mean < np.inf else np.inf  # noqa: NPY002  (Numba's own generator)


@njit_cached
def _lifetime(nodes: Nodes) -> float:
    """Return the seconds, drawn at random, that a new node works until it fails: of the Weibull distribution of
    ``nodes``, exponential where its shape is 1; infinite where nodes never fail."""
    drawn: float = _exponential(nodes.mtbf if nodes.shape == 1.0 or nodes.mtbf == np.inf else 1.0)
    if nodes.shape == 1.0 or nodes.mtbf == np.inf:
        return drawn
    return float(nodes.scale * drawn ** (1 / nodes.shape))


@njit_cached
def _durable(length: float, rhythm: Rhythm) -> float:
    """Return the useful seconds of training that a run of ``length`` seconds leaves in checkpoints that are completely
    saved when an interruption ends it. ``rhythm`` has the useful seconds between checkpoints, those of a stall, and
    those until a checkpoint is saved."""
    if length <= rhythm.save:
        return 0.0
    return float(rhythm.interval * np.floor((length - rhythm.save) / (rhythm.interval + rhythm.stall)))


@njit_cached
def _fail(low: int, high: int, now: float, nodes: Nodes, state: _State) -> bool:
    """Fail those of the nodes from ``low`` to before ``high`` that work, and begin their repairs, or queue them where
    all crews are busy, in place in ``state``; return True if one of them served the job. ``now`` is the time in
    seconds."""
    hit = False
    counts = state.counts
    for each in range(low, high):
        if not state.works[each]:
            continue
        state.works[each] = False
        counts[_UP] -= 1
        if state.used[each]:
            state.used[each] = False
            counts[_SERVING] -= 1
            hit = True
        if nodes.crews == 0 or counts[_BUSY] < nodes.crews:
            counts[_BUSY] += 1
            state.clock[each] = now + _exponential(nodes.repair)
        else:
            state.clock[each] = np.inf
            state.queue[(counts[_FIRST] + counts[_QUEUED]) % len(state.queue)] = each
            counts[_QUEUED] += 1
    return hit


@njit_cached
def _repair(node: int, now: float, nodes: Nodes, state: _State) -> None:
    """Put a repaired node back, as new, and begin the next repair of the queue, in place in ``state``; ``now`` is the
    time in seconds. The node does not serve the job yet."""
    counts = state.counts
    state.works[node] = True
    counts[_UP] += 1
    state.clock[node] = now + _lifetime(nodes)
    if counts[_QUEUED] == 0:
        counts[_BUSY] -= 1
        return
    state.clock[state.queue[counts[_FIRST]]] = now + _exponential(nodes.repair)
    counts[_FIRST] = (counts[_FIRST] + 1) % len(state.queue)
    counts[_QUEUED] -= 1


@njit_cached
def _assign(nodes: Nodes, state: _State) -> bool:
    """Let working spare nodes serve the job in the place of failed ones, in place in ``state``; return True if the job
    has as many as it needs."""
    counts = state.counts
    each = 0
    while counts[_SERVING] < min(nodes.needed, counts[_UP]):
        if state.works[each] and not state.used[each]:
            state.used[each] = True
            counts[_SERVING] += 1
        each += 1
    return bool(counts[_SERVING] == nodes.needed)


@njit_cached
def _next(now: float, which: int, kinds: Floats, due: Floats, nodes: Nodes, state: _State) -> float:
    """Play the next event, in place in ``due`` and ``state``, and return the seconds of the restart that the job needs
    then; −1 if it goes on.

    Args:
        now: time of the event in seconds.
        which: index of its clock: first those of ``due``, then those of all nodes. A clock of ``due`` is an
            interruption of its kind or (the last) the failure of a rack drawn at random, that of a node its failure or
            the end of its repair.
        kinds: rate and restart of interruptions that break no node, [kinds, 2]; the last row is racks.
        due: times of the next interruption of each kind: [kinds].
        nodes: how nodes fail and are repaired.
        state: state of all nodes.
    """
    last = len(due) - 1
    if which < len(due):
        due[which] = now + _exponential(1 / kinds[which, 0])
        if which < last:
            return float(kinds[which, 1])
        count = len(state.clock)
        low = int(np.random.random() * ((count + nodes.rack - 1) // nodes.rack)) * nodes.rack  # noqa: NPY002
        return nodes.restart if _fail(low, min(low + nodes.rack, count), now, nodes, state) else -1.0
    node = which - len(due)
    if state.works[node]:
        return nodes.restart if _fail(node, node + 1, now, nodes, state) else -1.0
    _repair(node, now, nodes, state)
    return -1.0


@njit_cached
def play(seed: int, horizon: float, nodes: Nodes, kinds: Floats, rhythm: Rhythm, clock: Floats) -> Floats:
    """Play one job for ``horizon`` seconds and return four totals: seconds of training kept, of restarts and of waits
    for a repair, and the number of interruptions, failures during a wait left out (indices :data:`USEFUL` to
    :data:`FAILURES`).

    A spare that works takes the place of a failed node in use at once, after which the job restarts; without one the
    job waits for a repair, which a restart follows. Training kept is what checkpoints have saved when an interruption
    comes, or at the horizon.

    Args:
        seed: of the random numbers.
        horizon: seconds.
        nodes: how nodes fail and are repaired.
        kinds: rate a second and seconds of restart of interruptions that break no node, shape [kinds, 2]; the last row
            is racks, whose nodes all fail.
        rhythm: the checkpoints.
        clock: room for the times of all nodes, spares included, shape [nodes]; overwritten.
    """
    np.random.seed(seed)  # noqa: NPY002
    count = len(clock)
    state = _State(
        clock,
        np.ones(count, np.bool_),
        np.arange(count) < nodes.needed,
        np.zeros(count, np.int64),
        np.zeros(5, np.int64),
    )
    state.counts[_UP], state.counts[_SERVING] = count, nodes.needed
    for each in range(count):
        clock[each] = _lifetime(nodes)
    due = np.full(len(kinds), np.inf)
    for each in range(len(kinds)):
        if kinds[each, 0] > 0:
            due[each] = _exponential(1 / kinds[each, 0])
    totals = np.zeros(4)
    began = ready = 0.0  # When the present restart or wait began, and when a restart ends or has ended.
    waits = False
    while True:
        node, kind = np.argmin(clock), np.argmin(due)
        now = min(clock[node], due[kind])
        if now >= horizon:
            break
        restart = _next(now, kind if due[kind] == now else node + len(due), kinds, due, nodes, state)
        complete = _assign(nodes, state)
        if waits and complete:
            totals[WAITING] += now - began
            waits, began, ready = False, now, now + nodes.restart
        elif not waits and restart >= 0:
            totals[FAILURES] += 1
            totals[RESTARTING] += min(now, ready) - began
            totals[USEFUL] += _durable(now - ready, rhythm)
            began, ready, waits = now, now + restart, not complete
    if waits:
        totals[WAITING] += horizon - began
    else:
        totals[RESTARTING] += min(ready, horizon) - began
        totals[USEFUL] += _durable(horizon - ready, rhythm)
    return totals
