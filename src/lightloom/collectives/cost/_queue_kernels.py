"""Compiled loops of the queued cost model: when every row is sent, and when each rank in turn is late or slow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Column, Floats, Ints, Mask
from lightloom.core.kernels import njit_cached


class PlayedRows(NamedTuple):
    """Rows of a queued schedule with their times; a cell is a chunk in a rank."""

    order: Ints
    """Rows by lightpath, and in the order of its queue; to straggle, each after all that it waits for."""
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


@njit_cached
def play(rows: PlayedRows, held: Mask, begin: Floats) -> tuple[float, float]:
    """Seconds until the last arrival, and of these the seconds in which the chain of rows that leads to it holds
    lightpaths; verified schedules only.

    Args:
        held: in and out, whether data lies in a cell: [cell].
        begin: out, seconds at which each row begins: [row].
    """
    cells, order = len(held), rows.order
    # Moments, and the seconds of sending on the way to each.
    ready, awaited = np.zeros((cells, 2)), np.zeros(cells, np.int32)
    for row in range(len(order)):
        if rows.reduces[row]:
            awaited[rows.target[row]] += 1
    place = first_places(rows.lightpath)
    paths = len(place) - 1
    head, free, since = place[:-1].copy(), np.zeros((paths, 2)), np.zeros(paths)
    waiting, behind = np.full(cells, -1, np.int32), np.full(paths, -1, np.int32)
    stack, top = np.arange(paths), paths
    end = sending = 0.0
    while top > 0:
        top -= 1
        path = stack[top]
        # What a path goes on with is kept at hand while it sends: nothing else changes it meanwhile.
        at, last = head[path], place[path + 1]
        free_from, free_sent, since_start = free[path, 0], free[path, 1], since[path]
        while at < last:
            row = order[at]
            cell, to, reduces = rows.origin[row], rows.target[row], rows.reduces[row]
            if awaited[cell] > 0 or not (reduces or held[cell]):
                behind[path] = waiting[cell]
                waiting[cell] = path
                break
            busy = rows.busy[row]
            if rows.follows[at]:
                start = begin[order[at - 1]]
            else:
                if free_from >= ready[cell, 0]:
                    start, since_start = free_from, free_sent
                else:
                    start, since_start = ready[cell, 0], ready[cell, 1]
                free_from, free_sent = start + busy, since_start + busy
            begin[row] = start
            at += 1
            arrives, sent = start + rows.delay[row], since_start + busy
            if arrives > end:
                end, sending = arrives, sent
            if not reduces or arrives > ready[to, 0]:
                ready[to, 0], ready[to, 1] = arrives, sent
            if reduces:
                awaited[to] -= 1
            else:
                held[to] = True
            woken, waiting[to] = waiting[to], -1
            while woken >= 0:
                stack[top] = woken
                top += 1
                woken = behind[woken]
        head[path], free[path, 0], free[path, 1], since[path] = at, free_from, free_sent, since_start
    return end, sending


@njit_cached
def first_places(lightpath: Column) -> Ints:
    """Place of the first row of each lightpath in an order by lightpath: [lightpath + 1]."""
    place = np.zeros(lightpath.max() + 2 if len(lightpath) else 1, np.int64)
    for path in lightpath:
        place[path + 1] += 1
    return np.cumsum(place)


@njit_cached
def straggle(
    rows: PlayedRows, source: Column, cells: int, stragglers: Ints, late: float, slower: float, end: Floats
) -> None:
    """Seconds until the last arrival if this rank sends nothing before ``late``, and holds lightpaths longer.

    Args:
        rows: in an order in which each comes after all that it waits for.
        source: rank that sends a row: [row].
        slower: times longer that the rank holds lightpaths.
        end: out, [straggler].
    """
    paths = rows.lightpath.max() + 1
    for i in range(len(stragglers)):
        free, ready = np.zeros(paths), np.zeros(cells)
        begin, last = 0.0, 0.0
        for place in range(len(rows.order)):
            row = rows.order[place]
            path, to = rows.lightpath[row], rows.target[row]
            straggles = source[row] == stragglers[i]
            more = rows.busy[row] * (slower - 1) if straggles else 0.0
            if not rows.follows[place]:
                begin = max(free[path], ready[rows.origin[row]])
                if straggles:
                    begin = max(begin, late)
                free[path] = begin + rows.busy[row] + more
            arrives = begin + rows.delay[row] + more
            ready[to] = max(ready[to], arrives)
            last = max(last, arrives)
        end[i] = last
