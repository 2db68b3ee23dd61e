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
    first: Any,
    leaving: Any,
    target: Any,
    delay: Any,
    busy: Any,
    load: Any,
    parent: Any,
    circuit: Any,
    arrival: Any,
    order: Any,
) -> bool:
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
    first: Any,
    entering: Any,
    origin: Any,
    delay: Any,
    busy: Any,
    load: Any,
    parent: Any,
    circuit: Any,
    arrival: Any,
    order: Any,
    deadline: float,
) -> int:
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
