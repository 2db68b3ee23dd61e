"""Compiled list scheduling of all-reduces: contributions that go up trees and sums that go down again, in one run."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from lightloom.collectives.synthesis.engine._list_kernels import let_wait, take_most_urgent
from lightloom.core.arrays import Column, Floats, Ints, Mask
from lightloom.core.kernels import njit_cached, njit_without_arrays


class SumRows(NamedTuple):
    """Rows of an all-reduce on standing lightpaths: arrays [row], or [cell]; a cell is a chunk in a rank."""

    path: Ints
    """Lightpath: [row]."""
    origin: Ints
    """Cell that is sent: [row]."""
    target: Ints
    """Cell that receives: [row]."""
    adds: Mask
    """Whether the row is a contribution that is added, not a sum that is stored: [row]."""
    busy: Floats
    """Seconds for which the row holds its lightpath: [row]."""
    delay: Floats
    """Seconds from its start to its arrival: [row]."""
    leaving: Ints
    """First entry of ``rows`` of each cell: [cell + 1]."""
    rows: Ints
    """Rows ordered by the cell that they send: [row]."""


@njit_cached
def longest_below(sums: SumRows, order: Ints) -> Floats:
    """Seconds from the start of each row to the last arrival that waits for it: [row].

    Args:
        order: rows, none after one that waits for it.
    """
    left = np.zeros(len(order))
    up, down = np.zeros(len(sums.leaving) - 1), np.zeros(len(sums.leaving) - 1)
    for i in range(len(order) - 1, -1, -1):
        row = order[i]
        to, at = sums.target[row], sums.origin[row]
        if sums.adds[row]:
            left[row] = sums.delay[row] + max(up[to], down[to])
            up[at] = max(up[at], left[row])
        else:
            left[row] = sums.delay[row] + down[to]
            down[at] = max(down[at], left[row])
    return left


class _Paths(NamedTuple):
    """What waits for lightpaths, while they are scheduled."""

    place: Ints
    """Place of each row among those ranked: [row]."""
    low: Column
    """Bits of rows that wait: [place / 64]."""
    high: Column
    """Bits of the words that are not empty: [place / 4096]."""
    waiting: Ints
    """Rows that wait: [lightpath]."""
    marked: Mask
    """Whether a lightpath is among those to look at: [lightpath]."""
    touched: Ints
    """Lightpaths to look at: [number]."""


@njit_cached
def schedule_sums(sums: SumRows, ranked: Ints, start: Ints, sequence: Ints) -> float:
    """Seconds until the last arrival if every lightpath sends, whenever it is free, what is ranked first of what waits.

    Args:
        ranked: rows by lightpath, the most urgent first: [place].
        start: first place of each lightpath: [lightpath + 1].
        sequence: out, number of each row in the order in which they begin: [row].
    """
    count, number, cells = len(ranked), len(start) - 1, len(sums.leaving) - 1
    place, awaited, owner = np.empty(count, np.int64), np.zeros(cells, np.int64), np.ones(cells, np.bool_)
    for k in range(count):
        row = ranked[k]
        place[row] = k
        if sums.adds[row]:
            awaited[sums.target[row]] += 1
            owner[sums.origin[row]] = False
    words = count // 64 + 1
    low, high = np.zeros(words, np.uint64), np.zeros(words // 64 + 1, np.uint64)
    sending, marked = np.zeros(number, np.bool_), np.zeros(number, np.bool_)
    paths = _Paths(place, low, high, np.zeros(number, np.int64), marked, np.empty(number, np.int64))
    # An event is twice the row that arrives, or twice the lightpath that is free, and 1.
    # The first frees a lightpath that is free.
    events = [(0.0, 1)]
    marks = 0
    for cell in range(cells):
        if awaited[cell] == 0 and not owner[cell]:
            marks = _let_leave(sums, paths, cell, True, marks)
    end, sent = 0.0, 0
    while len(events):
        now = events[0][0]
        while len(events) and events[0][0] <= now + 1e-15:
            event = heapq.heappop(events)[1]
            if event & 1:
                sending[event >> 1] = False
                marks = _mark(paths, event >> 1, marks)
                continue
            end = max(end, now)
            cell, added = sums.target[event >> 1], sums.adds[event >> 1]
            awaited[cell] -= added
            if not added or awaited[cell] == 0:
                marks = _let_leave(sums, paths, cell, added and not owner[cell], marks)
        for k in range(marks):
            which = paths.touched[k]
            marked[which] = False
            if sending[which] or paths.waiting[which] == 0:
                continue
            row = ranked[take_most_urgent(low, high, start[which])]
            paths.waiting[which] -= 1
            sending[which] = True
            sequence[row] = sent
            sent += 1
            heapq.heappush(events, (now + sums.busy[row], 2 * which + 1))
            heapq.heappush(events, (now + sums.delay[row], 2 * row))
        marks = 0
    return end


@njit_without_arrays
def _let_leave(sums: SumRows, paths: _Paths, cell: int, adds: bool, marks: int) -> int:
    """Let the contribution of a cell, or its sums, wait for their lightpaths; the number of those to look at."""
    for k in range(sums.leaving[cell], sums.leaving[cell + 1]):
        row = sums.rows[k]
        if sums.adds[row] == adds:
            let_wait(paths.low, paths.high, paths.place[row])
            paths.waiting[sums.path[row]] += 1
            marks = _mark(paths, sums.path[row], marks)
    return marks


@njit_without_arrays
def _mark(paths: _Paths, which: int, marks: int) -> int:
    """Put a lightpath among those to look at, once; the number of those."""
    if not paths.marked[which]:
        paths.marked[which], paths.touched[marks] = True, which
        marks += 1
    return marks
