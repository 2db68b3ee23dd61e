"""Compiled loops over any standing circuits: broadcast trees, their balance, and list scheduling.

Nothing repeats: there is a tree for every piece of every rank, and every circuit has times of its own. ``load`` counts
the pieces that pass a circuit. Circuits that leave a rank, or enter it, are listed one rank after the other:
``listed[first[rank] : first[rank + 1]]``.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numba import njit

_TIE = 1e-13


@njit(cache=True)
def grow(
    first: Any, leaving: Any, target: Any, delay: Any, busy: Any, load: Any,
    parent: Any, circuit: Any, arrival: Any, order: Any,
) -> bool:  # fmt: skip
    """Earliest-arrival trees of one piece of every rank; equal arrivals go to the circuit that is less busy.

    Args:
        delay, busy: seconds from the start of a transmission to its arrival, and that it holds its circuit: [circuit].
        load: in and out, [circuit].
        parent, circuit, arrival, order: out, [root, rank]; ``order`` lists ranks by arrival.

    Returns:
        Whether every rank is reached from every other.
    """
    ranks = len(first) - 1
    done = np.zeros(ranks, np.bool_)
    for root in range(ranks):
        done[:] = False
        parent[root, :], circuit[root, :], arrival[root, :] = -1, -1, 1e300
        arrival[root, root] = 0.0
        heap = [(0.0, root)]
        count = 0
        while len(heap):
            at = heapq.heappop(heap)[1]
            if done[at]:
                continue
            done[at] = True
            order[root, count] = at
            count += 1
            if circuit[root, at] >= 0:
                load[circuit[root, at]] += 1.0
            for i in range(first[at], first[at + 1]):
                which = leaving[i]
                to = target[which]
                if done[to]:
                    continue
                then = arrival[root, at] + delay[which]
                before = circuit[root, to]
                sooner = then < arrival[root, to] - _TIE
                if not sooner and then < arrival[root, to] + _TIE:
                    sooner = load[which] * busy[which] < load[before] * busy[before] - _TIE
                if sooner:
                    arrival[root, to], parent[root, to], circuit[root, to] = then, at, which
                    heapq.heappush(heap, (then, to))
        if count < ranks:
            return False
    return True


@njit(cache=True)
def rebalance(
    first: Any, entering: Any, origin: Any, delay: Any, busy: Any, load: Any,
    parent: Any, circuit: Any, arrival: Any, order: Any, deadline: float,
) -> int:  # fmt: skip
    """Give ranks other parents, over circuits that are less busy, while all below them still arrives by the deadline.

    From the latest arrival backward, so that what hangs below a rank is settled; a parent arrives earlier than its
    child. Returns the number of moves.
    """
    ranks = len(first) - 1
    below, place = np.zeros(ranks), np.zeros(ranks, np.int64)
    moves = 0
    for root in range(ranks):
        below[:] = 0.0
        for i in range(ranks):
            place[order[root, i]] = i
        for i in range(ranks - 1, 0, -1):
            at = order[root, i]
            old = circuit[root, at]
            least, best = load[old] * busy[old], -1
            for k in range(first[at], first[at + 1]):
                which = entering[k]
                near = origin[which]
                if which == old or place[near] >= i:
                    continue
                used = (load[which] + 1) * busy[which]
                late = arrival[root, near] + delay[which] + below[at]
                if used < least - _TIE and late <= deadline:
                    least, best = used, which
            if best >= 0:
                load[old] -= 1.0
                load[best] += 1.0
                parent[root, at], circuit[root, at] = origin[best], best
                moves += 1
            up = parent[root, at]
            below[up] = max(below[up], below[at] + delay[circuit[root, at]])
        for i in range(1, ranks):
            at = order[root, i]
            arrival[root, at] = arrival[root, parent[root, at]] + delay[circuit[root, at]]
        order[root] = np.argsort(arrival[root], kind="mergesort")
    return moves


@njit(cache=True)
def remaining(delay: Any, parent: Any, circuit: Any, order: Any, left: Any) -> None:
    """Seconds of the longest path below each rank of each tree, into ``left`` [root, rank]."""
    ranks = parent.shape[1]
    for root in range(ranks):
        left[root, :] = 0.0
        for i in range(ranks - 1, 0, -1):
            at = order[root, i]
            up = parent[root, at]
            left[root, up] = max(left[root, up], left[root, at] + delay[circuit[root, at]])


@njit(cache=True)
def list_schedule(delay: Any, busy: Any, parent: Any, circuit: Any, left: Any, begin: Any) -> float:
    """Every circuit sends, whenever it is free, the piece whose longest path below is longest.

    Args:
        parent, circuit, left: [piece, root, rank].
        begin: out, seconds at which each rank's piece begins to be sent to it; [piece, root, rank].

    Returns:
        Seconds until the last arrival.
    """
    pieces, ranks = parent.shape[0], parent.shape[2]
    child, sibling = np.full(parent.size, -1, np.int32), np.full(parent.size, -1, np.int32)
    parents, circuits, lefts, begins = parent.ravel(), circuit.ravel(), left.ravel(), begin.ravel()
    for at in range(parent.size):
        if parents[at] >= 0:
            up = at - at % ranks + parents[at]
            sibling[at], child[up] = child[up], at
    queues = [[(0.0, 0)] for _ in range(len(busy))]
    for queue in queues:
        queue.pop()
    sending, marked = np.zeros(len(busy), np.bool_), np.zeros(len(busy), np.bool_)
    touched = np.empty(len(busy), np.int64)
    events = [(0.0, 0, (piece * ranks + root) * ranks + root) for piece in range(pieces) for root in range(ranks)]
    end = 0.0
    while len(events):
        now, count = events[0][0], 0
        while len(events) and events[0][0] <= now + 1e-15:
            _, kind, i = heapq.heappop(events)
            if kind == 1:
                sending[i] = False
                if not marked[i]:
                    marked[i], touched[count] = True, i
                    count += 1
                continue
            end = max(end, now)
            to = np.int64(child[i])
            while to >= 0:
                which = circuits[to]
                heapq.heappush(queues[which], (-lefts[to], to))
                if not marked[which]:
                    marked[which], touched[count] = True, which
                    count += 1
                to = np.int64(sibling[to])
        for k in range(count):
            which = touched[k]
            marked[which] = False
            if sending[which] or not len(queues[which]):
                continue
            i = heapq.heappop(queues[which])[1]
            begins[i] = now
            sending[which] = True
            heapq.heappush(events, (now + busy[which], 1, which))
            heapq.heappush(events, (now + delay[which], 0, i))
    return end
