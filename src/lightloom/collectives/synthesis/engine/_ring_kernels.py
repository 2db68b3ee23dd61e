"""Compiled loops of synthesis on rings: broadcast trees over circuits, and their balance.

Trees exist for one period of sources; all others are rotations. A circuit is numbered
``(level · 2 + direction) · period + start % period``; its ``load`` counts the pieces of all sources that pass it.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numba import njit

_TIE = 1e-13


@njit(cache=True)
def grow(
    onward: Any,
    delay: Any,
    busy: Any,
    period: int,
    walk: int,
    longest: Any,
    load: Any,
    parent: Any,
    circuit: Any,
    arrival: Any,
    order: Any,
) -> None:
    """Earliest-arrival trees in which chords of a level run in one line each way.

    From a source, a run of a level's chords begins at the level's first hub (of the top level, the first at least
    ``walk`` ranks ahead), or at any rank that a longer chord has reached, and goes on from chord to chord, at most
    ``longest[level]`` of them. Without this rule every hub near the source would begin a run of its own, and chords
    would carry the same piece several times past each other. Equal arrivals go to the circuit with less load.

    Args:
        onward: next rank, or −1: [level, direction, rank].
        delay: seconds from the start of a transmission to its arrival: [level].
        busy: seconds that a transmission holds its circuit: [level].
        load: in and out, [circuit].
        parent, circuit, arrival, order: out, [period, rank]; ``order`` lists ranks by arrival.
    """
    levels, ranks = onward.shape[0], onward.shape[2]
    done = np.zeros(ranks, np.bool_)
    run = np.zeros(ranks, np.int64)
    entry = np.empty((levels, 2), np.int64)
    for source in range(period):
        done[:] = False
        for rank in range(ranks):
            parent[source, rank], circuit[source, rank], arrival[source, rank] = -1, -1, 1e300
        for level in range(levels):
            for way in range(2):
                entry[level, way] = _first_hub(onward, level, way, source, walk if level == levels - 1 else 0)
        arrival[source, source] = 0.0
        heap = [(0.0, source)]
        count = 0
        while len(heap):
            at = heapq.heappop(heap)[1]
            if done[at]:
                continue
            done[at] = True
            order[source, count] = at
            count += 1
            came = circuit[source, at]
            by, into = -1, -1
            if came >= 0:
                load[came] += 1.0
                by, into = came // (2 * period), came // period % 2
            for level in range(levels):
                for way in range(2):
                    to = onward[level, way, at]
                    if to < 0 or done[to]:
                        continue
                    length = 0
                    if level > 0:
                        length = 1
                        if by == level and into == way:
                            length = run[at] + 1
                        elif not (by > level or at == entry[level, way]):
                            continue
                        if length > longest[level]:
                            continue
                        ahead = (to - source) % ranks if way == 0 else (source - to) % ranks
                        chord = (to - at) % ranks if way == 0 else (at - to) % ranks
                        if level == levels - 1 and 2 * ahead > ranks + chord:
                            continue
                    then = arrival[source, at] + delay[level]
                    which = (level * 2 + way) * period + at % period
                    before = circuit[source, to]
                    sooner = then < arrival[source, to] - _TIE
                    if not sooner and then < arrival[source, to] + _TIE:
                        other = busy[before // (2 * period)]
                        sooner = (load[which] * busy[level]) < load[before] * other - _TIE
                    if sooner:
                        arrival[source, to], parent[source, to], circuit[source, to] = then, at, which
                        run[to] = length
                        heapq.heappush(heap, (then, to))


@njit(cache=True)
def _first_hub(onward: Any, level: int, way: int, source: int, walk: int) -> Any:
    ranks = onward.shape[2]
    step = 1 if way == 0 else -1
    at = (source + step * walk) % ranks
    while onward[level, way, at] < 0:
        at = (at + step) % ranks
    return at


@njit(cache=True)
def rebalance(
    onward: Any,
    delay: Any,
    busy: Any,
    period: int,
    load: Any,
    parent: Any,
    circuit: Any,
    arrival: Any,
    order: Any,
    deadline: float,
) -> int:
    """Give ranks other parents, over circuits with less load, while all below them still arrives by the deadline.

    From the latest arrival backward, so that what hangs below a rank is settled; a parent arrives earlier than its
    child. Returns the number of moves.
    """
    levels, ranks = onward.shape[0], onward.shape[2]
    below = np.zeros(ranks)
    place = np.zeros(ranks, np.int64)
    moves = 0
    for source in range(period):
        below[:] = 0.0
        for i in range(ranks):
            place[order[source, i]] = i
        for i in range(ranks - 1, 0, -1):
            at = order[source, i]
            old = circuit[source, at]
            least, best, via = load[old] * busy[old // (2 * period)], -1, -1
            for level in range(levels):
                for way in range(2):
                    # Against the circuit's direction: where its other end stands.
                    near = onward[level, 1 - way, at]
                    if near < 0 or place[near] >= i:
                        continue
                    which = (level * 2 + way) * period + near % period
                    used = (load[which] + 1) * busy[level]
                    late = arrival[source, near] + delay[level] + below[at]
                    if which != old and used < least - _TIE and late <= deadline:
                        least, best, via = used, which, near
            if best >= 0:
                load[old] -= 1.0
                load[best] += 1.0
                parent[source, at], circuit[source, at] = via, best
                moves += 1
            up = parent[source, at]
            below[up] = max(below[up], below[at] + delay[circuit[source, at] // (2 * period)])
        for i in range(1, ranks):
            at = order[source, i]
            arrival[source, at] = arrival[source, parent[source, at]] + delay[circuit[source, at] // (2 * period)]
        order[source] = np.argsort(arrival[source], kind="mergesort")
    return moves
