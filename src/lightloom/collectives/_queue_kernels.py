"""Compiled loop of the queued cost model: when every row is sent."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def play(
    order: Any, lightpath: Any, source: Any, destination: Any, chunk: Any, reduces: Any, ranks: int, period: int,
    pieces: int, busy: Any, delay: Any, begin: Any,
) -> float:  # fmt: skip
    """Seconds until the last arrival; verified schedules only.

    Args:
        order: rows by lightpath, and in the order of its queue.
        busy, delay: seconds that a chunk holds its lightpath, and after which it arrives: [row].
        begin: out, [row].
    """
    chunks = ranks * pieces
    cells = period * chunks
    ready = np.zeros(cells)
    awaited = np.zeros(cells, np.int64)
    held = np.zeros(cells, np.bool_)
    rows = len(order)
    target = np.empty(rows, np.int64)
    for row in range(rows):
        to = destination[row] % period
        owner = (chunk[row] // pieces - (destination[row] - to)) % ranks
        target[row] = to * chunks + owner * pieces + chunk[row] % pieces
        if reduces[row]:
            awaited[target[row]] += 1
    for rank in range(period):
        for piece in range(pieces):
            held[rank * chunks + rank * pieces + piece] = True
    paths = lightpath.max() + 1 if rows else 0
    place = np.zeros(paths + 1, np.int64)
    for row in range(rows):
        place[lightpath[row] + 1] += 1
    for path in range(paths):
        place[path + 1] += place[path]
    head, free = place[:-1].copy(), np.zeros(paths)
    waiting, behind = np.full(cells, -1, np.int64), np.full(paths, -1, np.int64)
    stack, top = np.arange(paths), paths
    end = 0.0
    while top > 0:
        top -= 1
        path = stack[top]
        while head[path] < place[path + 1]:
            row = order[head[path]]
            cell = source[row] * chunks + chunk[row]
            if awaited[cell] > 0 or not (reduces[row] or held[cell]):
                behind[path] = waiting[cell]
                waiting[cell] = path
                break
            head[path] += 1
            begin[row] = max(free[path], ready[cell])
            free[path] = begin[row] + busy[row]
            to = target[row]
            arrives = begin[row] + delay[row]
            end = max(end, arrives)
            if reduces[row]:
                ready[to] = max(ready[to], arrives)
                awaited[to] -= 1
            else:
                ready[to] = arrives
                held[to] = True
            woken, waiting[to] = waiting[to], -1
            while woken >= 0:
                stack[top] = woken
                top += 1
                woken = behind[woken]
    return end
