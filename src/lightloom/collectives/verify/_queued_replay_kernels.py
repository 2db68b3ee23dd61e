"""Compiled loops of the queued verifier: rows are sent as soon as they can be, in no particular time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

OK, STUCK, TWICE, WRONG_END, AGAIN = range(5)


@njit(cache=True)
def claim(base: Any, start: Any, length: Any, cycle: Any, channel: Any, count: Any, channels: int, holder: Any) -> Any:
    """Mark every channel of every link that lightpaths hold; the first clash as (lightpath, cell), else -1s.

    A cell is link · channels + channel; ``holder`` [cell] carries over from call to call.
    """
    for path in range(len(channel)):
        for run in range(base.shape[1]):
            for k in range(length[path, run]):
                link = base[path, run] + (start[path, run] + k) % cycle[path, run]
                first = link * channels + channel[path]
                for cell in range(first, first + count[path]):
                    if holder[cell] != -1:
                        return path, cell
                    holder[cell] = path
    return -1, -1


@njit(cache=True)
def replay(
    order: Any, lightpath: Any, origin: Any, target: Any, reduces: Any, parts: Any, whole: int, ends: Any
) -> Any:
    """Send every row; (code, row, or the place in ``ends`` of what is not complete).

    Args:
        order: rows by lightpath, and in the order of its queue.
        origin, target: the cell that a row reads and the cell that it writes, a cell being a rank of the first period
            and a chunk: [row].
        parts: in and out, contributions that are summed in each cell: [cell].
        whole: contributions of a complete chunk.
        ends: cells that must be complete in the end.

    ``awaited`` counts the sums that are still to arrive; a cell whose parts have been sent on holds none until the
    whole comes back. Rows of one multicast count one by one: none changes what the next one reads.
    """
    rows, cells = len(order), len(parts)
    awaited = np.zeros(cells, np.int64)
    given = np.zeros(cells, np.bool_)
    for row in range(rows):
        if reduces[row]:
            awaited[target[row]] += 1
    # Lightpaths whose next row waits for a cell hang on that cell.
    paths = lightpath.max() + 1 if rows else 0
    place = np.zeros(paths + 1, np.int64)
    for row in range(rows):
        place[lightpath[row] + 1] += 1
    for path in range(paths):
        place[path + 1] += place[path]
    head = place[:-1].copy()
    waiting = np.full(cells, -1, np.int64)
    behind = np.full(paths, -1, np.int64)
    stack = np.arange(paths)
    top, sent = paths, 0
    while top > 0:
        top -= 1
        path = stack[top]
        while head[path] < place[path + 1]:
            row = order[head[path]]
            cell = origin[row]
            if reduces[row]:
                if given[cell]:
                    return AGAIN, row
                ready = awaited[cell] == 0
            else:
                ready = parts[cell] == whole and awaited[cell] == 0
            if not ready:
                behind[path] = waiting[cell]
                waiting[cell] = path
                break
            head[path] += 1
            sent += 1
            to = target[row]
            if reduces[row]:
                if given[to]:
                    return TWICE, row
                parts[to] += parts[cell]
                awaited[to] -= 1
                parts[cell] = 0
                given[cell] = True
            else:
                if parts[to] != 0 or awaited[to] != 0:
                    return TWICE, row
                parts[to] = whole
            woken = waiting[to]
            waiting[to] = -1
            while woken >= 0:
                following = behind[woken]
                stack[top] = woken
                top += 1
                woken = following
    if sent < rows:
        for path in range(paths):
            if head[path] < place[path + 1]:
                return STUCK, order[head[path]]
    for i in range(len(ends)):
        if parts[ends[i]] != whole:
            return WRONG_END, i
    return OK, -1
