"""Compiled loop of straggling: one queued schedule played again for each rank that is late or slow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def replay(
    order: Any,
    lightpath: Any,
    follows: Any,
    source: Any,
    origin: Any,
    target: Any,
    busy: Any,
    away: Any,
    cells: int,
    stragglers: Any,
    late: float,
    slower: float,
    end: Any,
) -> None:
    """Seconds until the last arrival, into ``end`` [straggler].

    Args:
        order: rows, each after all that it waits for.
        follows: whether the row at a place of that order is of the transmission of the row before it: [place].
        origin, target: the cell that a row reads and the one that it writes: [row].
        busy, away: seconds that a row holds its lightpath, and from then to its arrival: [row].
    """
    paths = lightpath.max() + 1
    for i in range(len(stragglers)):
        free, ready = np.zeros(paths), np.zeros(cells)
        begin, last = 0.0, 0.0
        for place in range(len(order)):
            row = order[place]
            path = lightpath[row]
            straggles = source[row] == stragglers[i]
            holds = busy[row] * slower if straggles else busy[row]
            if not follows[place]:
                begin = max(free[path], ready[origin[row]])
                if straggles:
                    begin = max(begin, late)
                free[path] = begin + holds
            arrives = begin + holds + away[row]
            ready[target[row]] = max(ready[target[row]], arrives)
            last = max(last, arrives)
        end[i] = last
