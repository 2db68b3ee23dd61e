"""Compiled list scheduling of broadcast trees over circuits: who is sent what when.

Trees exist for one period of roots, all ranks where nothing repeats; arrays of circuits have one entry a circuit.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def remaining(delay: Any, parent: Any, circuit: Any, order: Any, left: Any) -> None:
    """Seconds of the longest path below each rank of each tree, into ``left`` [root, rank]."""
    period, ranks = parent.shape
    for root in range(period):
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
    pieces, period, ranks = parent.shape
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
    events = [(0.0, 0, (piece * period + root) * ranks + root) for piece in range(pieces) for root in range(period)]
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
