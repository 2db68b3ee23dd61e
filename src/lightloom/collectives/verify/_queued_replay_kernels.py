"""Compiled loops of the queued verifier: rows are sent as soon as they can be, in no particular time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Column, Ints, Mask
from lightloom.core.kernels import njit_cached, njit_without_arrays

OK, STUCK, TWICE, WRONG_END, AGAIN, WAITS = range(6)


class QueuedRows(NamedTuple):
    """Rows of a queued schedule; a cell is a rank of the first period and a chunk."""

    order: Ints
    """Rows by lightpath, and in the order of its queue."""
    lightpath: Column
    """[row]."""
    origin: Ints
    """Cell that a row reads: [row]."""
    target: Ints
    """Cell that a row writes: [row]."""
    reduces: Mask
    """Whether the row adds to its target: [row]."""


class _Cells(NamedTuple):
    """What cells hold: arrays [cell]."""

    parts: Ints
    """Contributions that are summed."""
    awaited: Ints
    """Sums that are still to arrive."""
    given: Mask
    """Whether the parts have been sent on, so that the cell holds none until the complete chunk comes."""


@njit_cached
def replay(rows: QueuedRows, parts: Ints, complete: int, ends: Ints) -> tuple[int, int]:
    """Send every row; (code, row, or the place in ``ends`` of what is not complete).

    Rows of one multicast count one by one: none changes what the next one reads.

    Args:
        parts: in and out, contributions that are summed in each cell: [cell].
        complete: contributions of a complete chunk.
        ends: cells that must be complete in the end.
    """
    cells = _Cells(parts, np.zeros(len(parts), np.int64), np.zeros(len(parts), np.bool_))
    for row in range(len(rows.order)):
        if rows.reduces[row]:
            cells.awaited[rows.target[row]] += 1
    place = _queues(rows.lightpath)
    paths = len(place) - 1
    head = place[:-1].copy()
    # Lightpaths whose next row waits for a cell hang on that cell.
    waiting, behind = np.full(len(parts), -1, np.int64), np.full(paths, -1, np.int64)
    stack, top = np.arange(paths), paths
    while top > 0:
        top -= 1
        path = stack[top]
        while head[path] < place[path + 1]:
            row = rows.order[head[path]]
            code = _send(rows, cells, row, complete)
            if code == WAITS:
                behind[path] = waiting[rows.origin[row]]
                waiting[rows.origin[row]] = path
                break
            if code != OK:
                return code, row
            head[path] += 1
            woken = waiting[rows.target[row]]
            waiting[rows.target[row]] = -1
            while woken >= 0:
                stack[top] = woken
                top += 1
                woken = behind[woken]
    for path in range(paths):
        if head[path] < place[path + 1]:
            return STUCK, rows.order[head[path]]
    for i in range(len(ends)):
        if parts[ends[i]] != complete:
            return WRONG_END, i
    return OK, -1


@njit_cached
def _queues(lightpath: Column) -> Ints:
    """Place in the order of rows at which the queue of each lightpath begins: [lightpath + 1]."""
    paths = lightpath.max() + 1 if len(lightpath) else 0
    place = np.zeros(paths + 1, np.int64)
    for path in lightpath:
        place[path + 1] += 1
    return np.cumsum(place)


@njit_without_arrays
def _send(rows: QueuedRows, cells: _Cells, row: int, complete: int) -> int:
    """Send one row, unless it has to wait or breaks a promise."""
    cell, to = rows.origin[row], rows.target[row]
    if not rows.reduces[row]:
        if cells.parts[cell] != complete or cells.awaited[cell] != 0:
            return WAITS
        if cells.parts[to] != 0 or cells.awaited[to] != 0:
            return TWICE
        cells.parts[to] = complete
        return OK
    if cells.given[cell]:
        return AGAIN
    if cells.awaited[cell] != 0:
        return WAITS
    if cells.given[to]:
        return TWICE
    cells.parts[to] += cells.parts[cell]
    cells.awaited[to] -= 1
    cells.parts[cell] = 0
    cells.given[cell] = True
    return OK
