"""Compiled loop of straggling: one queued schedule played again for each rank that is late or slow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from lightloom.core.arrays import Column, Floats, Ints, Mask


class ReplayedRows(NamedTuple):
    """Rows of a queued schedule with their times; a cell is a chunk in a rank."""

    order: Ints
    """Rows, each after all that it waits for."""
    lightpath: Column
    """[row]."""
    follows: Mask
    """Whether the row at a place of the order is of the transmission of the row before it: [place]."""
    source: Column
    """[row]."""
    origin: Ints
    """Cell that a row reads: [row]."""
    target: Ints
    """Cell that a row writes: [row]."""
    busy: Floats
    """Seconds for which a row holds its lightpath: [row]."""
    away: Floats
    """Seconds from the end of its transmission to its arrival: [row]."""


@njit(cache=True)
def replay(rows: ReplayedRows, cells: int, stragglers: Ints, late: float, slower: float, end: Floats) -> None:
    """Seconds until the last arrival, into ``end`` [straggler]."""
    paths = rows.lightpath.max() + 1
    for i in range(len(stragglers)):
        free, ready = np.zeros(paths), np.zeros(cells)
        begin, last = 0.0, 0.0
        for place in range(len(rows.order)):
            row = rows.order[place]
            path, to = rows.lightpath[row], rows.target[row]
            straggles = rows.source[row] == stragglers[i]
            holds = rows.busy[row] * slower if straggles else rows.busy[row]
            if not rows.follows[place]:
                begin = max(free[path], ready[rows.origin[row]])
                if straggles:
                    begin = max(begin, late)
                free[path] = begin + holds
            arrives = begin + holds + rows.away[row]
            ready[to] = max(ready[to], arrives)
            last = max(last, arrives)
        end[i] = last
