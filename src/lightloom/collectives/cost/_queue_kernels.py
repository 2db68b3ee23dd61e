"""Compiled loop of the queued cost model: when every row is sent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from lightloom.core.arrays import Column, Floats, Ints, Mask


class PlayedRows(NamedTuple):
    """Rows of a queued schedule with their times; a cell is a chunk in a rank of the first period."""

    order: Ints
    """Rows by lightpath, and in the order of its queue."""
    lightpath: Column
    """[row]."""
    follows: Mask
    """Whether the row at a place of the order is of the same transmission as the one before it: [place]."""
    origin: Ints
    """Cell that a row reads: [row]."""
    target: Ints
    """Cell that a row writes: [row]."""
    reduces: Mask
    """Whether the row adds to its target: [row]."""
    busy: Floats
    """Seconds for which a chunk holds its lightpath: [row]."""
    delay: Floats
    """Seconds after which it arrives: [row]."""


@njit(cache=True)
def play(rows: PlayedRows, held: Mask, begin: Floats) -> float:
    """Seconds until the last arrival; verified schedules only.

    Args:
        held: in and out, whether data lies in a cell: [cell].
        begin: out, seconds at which each row begins: [row].
    """
    cells, order = len(held), rows.order
    ready, awaited = np.zeros(cells), np.zeros(cells, np.int64)
    for row in range(len(order)):
        if rows.reduces[row]:
            awaited[rows.target[row]] += 1
    place = first_places(rows.lightpath)
    paths = len(place) - 1
    head, free = place[:-1].copy(), np.zeros(paths)
    waiting, behind = np.full(cells, -1, np.int64), np.full(paths, -1, np.int64)
    stack, top = np.arange(paths), paths
    end = 0.0
    while top > 0:
        top -= 1
        path = stack[top]
        while head[path] < place[path + 1]:
            row = order[head[path]]
            cell, to = rows.origin[row], rows.target[row]
            if awaited[cell] > 0 or not (rows.reduces[row] or held[cell]):
                behind[path] = waiting[cell]
                waiting[cell] = path
                break
            if rows.follows[head[path]]:
                begin[row] = begin[order[head[path] - 1]]
            else:
                begin[row] = max(free[path], ready[cell])
                free[path] = begin[row] + rows.busy[row]
            head[path] += 1
            arrives = begin[row] + rows.delay[row]
            end = max(end, arrives)
            if rows.reduces[row]:
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


@njit(cache=True)
def first_places(lightpath: Column) -> Ints:
    """Place of the first row of each lightpath in an order by lightpath: [lightpath + 1]."""
    paths = lightpath.max() + 1 if len(lightpath) else 0
    place = np.zeros(paths + 1, np.int64)
    for path in lightpath:
        place[path + 1] += 1
    return np.cumsum(place)
