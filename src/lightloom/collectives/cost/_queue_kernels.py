"""Compiled loop of the queued cost model: when every row is sent."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def play(
    order: Any,
    lightpath: Any,
    follows: Any,
    origin: Any,
    target: Any,
    reduces: Any,
    held: Any,
    busy: Any,
    delay: Any,
    begin: Any,
) -> float:
    """Seconds until the last arrival; verified schedules only.

    Args:
        order: rows by lightpath, and in the order of its queue.
        follows: whether the row at a place of that order is of the same transmission as the one before it: [place].
        origin, target: the cell that a row reads and the one that it writes: [row].
        held: in and out, whether data lies in a cell: [cell].
        busy, delay: seconds that a chunk holds its lightpath, and after which it arrives: [row].
        begin: out, [row].
    """
    cells, rows = len(held), len(order)
    ready = np.zeros(cells)
    awaited = np.zeros(cells, np.int64)
    for row in range(rows):
        if reduces[row]:
            awaited[target[row]] += 1
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
            cell = origin[row]
            if awaited[cell] > 0 or not (reduces[row] or held[cell]):
                behind[path] = waiting[cell]
                waiting[cell] = path
                break
            if follows[head[path]]:
                begin[row] = begin[order[head[path] - 1]]
            else:
                begin[row] = max(free[path], ready[cell])
                free[path] = begin[row] + busy[row]
            head[path] += 1
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
