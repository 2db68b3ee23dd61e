"""Compiled loops of multicast on rings: trees whose edges serve several ranks, their balance, and list scheduling.

As in :mod:`lightloom.collectives.synthesis.engine._ring_kernels`, but a lightpath reaches several ranks, its taps, and
a transmission to some of them holds it once. A circuit is numbered ``(level · 2 + way) · period + start % period``, and
a rank's transmission in a tree is its parent's on that circuit.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numba import njit

_TIE = 1e-13


@njit(cache=True)
def grow(
    tap: Any,
    dense: Any,
    busy: Any,
    hop: float,
    propagation: float,
    period: int,
    walk: int,
    longest: Any,
    load: Any,
    parent: Any,
    circuit: Any,
    arrival: Any,
    order: Any,
) -> bool:
    """Earliest-arrival trees in which lightpaths of a level follow each other in one line each way.

    A line of a level begins at the level's first hub (of the top level, the first at least ``walk`` ranks ahead), or
    at a tap of a longer lightpath that leaves ranks out (of one that does not, at its end), and goes on from the last
    tap of one lightpath to the next, at most ``longest[level]`` of them. Equal arrivals go to the circuit with less
    load.

    Args:
        tap: ranks that the lightpath of a rank reaches, nearest first, or −1: [level, way, rank, tap].
        dense: whether lightpaths have a tap at every rank on their way: [level].
        busy: seconds that a transmission holds its circuit: [level].
        hop, propagation: seconds of a reception, and of a link.
        load: in and out, transmissions of all sources over a circuit: [circuit].
        parent, circuit, arrival, order: out, [period, rank]; ``order`` lists ranks by arrival.

    Returns:
        Whether every rank is reached.
    """
    levels, ranks, taps = tap.shape[0], tap.shape[2], tap.shape[3]
    done, ends = np.zeros(ranks, np.bool_), np.zeros(ranks, np.bool_)
    run = np.zeros(ranks, np.int64)
    sent = np.full((2 * levels, ranks), -1, np.int64)
    entry = np.empty((levels, 2), np.int64)
    for source in range(period):
        done[:] = False
        for rank in range(ranks):
            parent[source, rank], circuit[source, rank], arrival[source, rank] = -1, -1, 1e300
        for level in range(levels):
            for way in range(2):
                entry[level, way] = _first_hub(tap, level, way, source, walk if level == levels - 1 > 0 else 0)
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
                by, into = came // (2 * period), came // period % 2
                if sent[by * 2 + into, parent[source, at]] != source:
                    sent[by * 2 + into, parent[source, at]] = source
                    load[came] += 1.0
            for level in range(levels):
                for way in range(2):
                    if tap[level, way, at, 0] < 0:
                        continue
                    length = 1
                    if by == level and into == way:
                        if not ends[at]:
                            continue
                        length = run[at] + 1
                    elif not ((by > level and (ends[at] or not dense[by])) or at == entry[level, way]):
                        continue
                    ahead = (at - source) % ranks if way == 0 else (source - at) % ranks
                    if length > longest[level] or (level == levels - 1 and 2 * ahead > ranks):
                        continue
                    which = (level * 2 + way) * period + at % period
                    start = arrival[source, at] + busy[level] + hop
                    for k in range(taps):
                        to = tap[level, way, at, k]
                        if to < 0:
                            break
                        if done[to]:
                            continue
                        far = (to - at) % ranks if way == 0 else (at - to) % ranks
                        then = start + propagation * far
                        sooner = then < arrival[source, to] - _TIE
                        if not sooner and then < arrival[source, to] + _TIE:
                            before = circuit[source, to]
                            sooner = load[which] * busy[level] < load[before] * busy[before // (2 * period)] - _TIE
                        if sooner:
                            arrival[source, to], parent[source, to], circuit[source, to] = then, at, which
                            run[to] = length
                            ends[to] = k == taps - 1 or tap[level, way, at, k + 1] < 0
                            heapq.heappush(heap, (then, to))
        if count < ranks:
            return False
    return True


@njit(cache=True)
def _first_hub(tap: Any, level: int, way: int, source: int, walk: int) -> Any:
    ranks = tap.shape[2]
    step = 1 if way == 0 else -1
    at = (source + step * walk) % ranks
    while tap[level, way, at, 0] < 0:
        at = (at + step) % ranks
    return at


@njit(cache=True)
def rebalance(
    tap: Any,
    origin: Any,
    busy: Any,
    hop: float,
    propagation: float,
    period: int,
    load: Any,
    parent: Any,
    circuit: Any,
    arrival: Any,
    order: Any,
    deadline: float,
) -> int:
    """Hang ranks from other transmissions: larger ones that there are anyway, or new ones over circuits with less load.

    From the latest arrival backward, so that what hangs below a rank is settled; a parent arrives earlier than its
    child, and all below still arrives by the deadline. Returns the number of moves.

    Args:
        origin: the rank whose lightpath has its tap k at a rank, or −1: [level, way, rank, tap].
    """
    levels, ranks, taps = tap.shape[0], tap.shape[2], tap.shape[3]
    below = np.zeros(ranks)
    place = np.zeros(ranks, np.int64)
    served = np.zeros((2 * levels, ranks), np.int64)
    moves = 0
    for source in range(period):
        below[:] = 0.0
        served[:] = 0
        for i in range(ranks):
            at = order[source, i]
            place[at] = i
            if i:
                served[circuit[source, at] // period, parent[source, at]] += 1
        for i in range(ranks - 1, 0, -1):
            at = order[source, i]
            old, up = circuit[source, at], parent[source, at]
            mine = served[old // period, up]
            most = mine - 1
            least = load[old] * busy[old // (2 * period)] if mine == 1 else -1.0
            best, via = -1, -1
            for line in range(2 * levels):
                level, way = line // 2, line % 2
                for k in range(taps):
                    near = origin[level, way, at, k]
                    if near < 0 or place[near] >= i or (near == up and line == old // period):
                        continue
                    others = served[line, near]
                    far = (at - near) % ranks if way == 0 else (near - at) % ranks
                    late = arrival[source, near] + busy[level] + hop + propagation * far + below[at]
                    if late > deadline:
                        continue
                    which = line * period + near % period
                    if others > most:
                        most, best, via, least = others, which, near, -1.0
                    elif others == 0 and (load[which] + 1) * busy[level] < least - _TIE:
                        least, best, via = (load[which] + 1) * busy[level], which, near
            if best >= 0:
                served[old // period, up] -= 1
                if mine == 1:
                    load[old] -= 1.0
                if served[best // period, via] == 0:
                    load[best] += 1.0
                served[best // period, via] += 1
                parent[source, at], circuit[source, at] = via, best
                moves += 1
            up, line = parent[source, at], circuit[source, at] // period
            far = (at - up) % ranks if line % 2 == 0 else (up - at) % ranks
            below[up] = max(below[up], below[at] + busy[line // 2] + hop + propagation * far)
        for i in range(1, ranks):
            at = order[source, i]
            up, line = parent[source, at], circuit[source, at] // period
            far = (at - up) % ranks if line % 2 == 0 else (up - at) % ranks
            arrival[source, at] = arrival[source, up] + busy[line // 2] + hop + propagation * far
        order[source] = np.argsort(arrival[source], kind="mergesort")
    return moves


@njit(cache=True)
def transmissions(
    tap: Any,
    busy: Any,
    hop: float,
    propagation: float,
    period: int,
    parent: Any,
    circuit: Any,
    order: Any,
    number: Any,
    left: Any,
) -> int:
    """Number the transmissions of one piece's trees, into ``number`` [period, rank], and the longest time from the
    begin of each to the last arrival below it, into ``left`` [transmission]; returns how many there are."""
    levels, ranks = tap.shape[0], tap.shape[2]
    known = np.empty((2 * levels, ranks), np.int64)
    below = np.empty(ranks)
    count = 0
    for source in range(period):
        known[:] = -1
        below[:] = 0.0
        number[source, source] = -1
        for i in range(ranks - 1, 0, -1):
            at = order[source, i]
            up, line = parent[source, at], circuit[source, at] // period
            if known[line, up] < 0:
                known[line, up] = count
                left[count] = 0.0
                count += 1
            number[source, at] = known[line, up]
            far = (at - up) % ranks if line % 2 == 0 else (up - at) % ranks
            rest = below[at] + busy[line // 2] + hop + propagation * far
            left[known[line, up]] = max(left[known[line, up]], rest)
            below[up] = max(below[up], rest)
    return count


@njit(cache=True)
def list_schedule(
    busy: Any, hop: float, propagation: float, parent: Any, circuit: Any, number: Any, left: Any, begin: Any
) -> float:
    """Every circuit sends, whenever it is free, the transmission that has the longest way left.

    Args:
        parent, circuit: [piece, period, rank].
        number: transmission that serves a rank, counted over all pieces, −1 at the root: [piece, period, rank].
        left: [transmission].
        begin: out, seconds: [transmission].

    Returns:
        Seconds until the last arrival.
    """
    pieces, period, ranks = parent.shape
    count = len(left)
    # Transmissions hang on the cell (piece, tree, rank) that sends them, cells on the transmission that serves them.
    first, after = np.full(pieces * period * ranks, -1, np.int64), np.full(count, -1, np.int64)
    child, sibling = np.full(count, -1, np.int64), np.full(pieces * period * ranks, -1, np.int64)
    over = np.empty(count, np.int64)
    distance = np.zeros(pieces * period * ranks, np.int64)
    for piece in range(pieces):
        for source in range(period):
            tree = (piece * period + source) * ranks
            for rank in range(ranks):
                which = number[piece, source, rank]
                if which < 0:
                    continue
                up = parent[piece, source, rank]
                way = circuit[piece, source, rank] // period % 2
                distance[tree + rank] = (rank - up) % ranks if way == 0 else (up - rank) % ranks
                if child[which] < 0:
                    over[which] = circuit[piece, source, rank]
                    after[which] = first[tree + up]
                    first[tree + up] = which
                sibling[tree + rank] = child[which]
                child[which] = tree + rank
    if propagation > 0:
        _nearest_first(child, sibling, distance)
    circuits = 2 * len(busy) * period
    queues = [[(0.0, 0)] for _ in range(circuits)]
    for queue in queues:
        queue.pop()
    sending = np.zeros(circuits, np.bool_)
    touched, marked = np.empty(circuits, np.int64), np.zeros(circuits, np.bool_)
    events = [
        (0.0, 0, (piece * period + source) * ranks + source) for piece in range(pieces) for source in range(period)
    ]
    heapq.heapify(events)
    end = 0.0
    while len(events):
        now, some = events[0][0], 0
        while len(events) and events[0][0] <= now + 1e-15:
            _, kind, i = heapq.heappop(events)
            if kind == 1:
                sending[i] = False
                if not marked[i]:
                    marked[i], touched[some] = True, i
                    some += 1
                continue
            end = max(end, now)
            cell = i
            while cell >= 0:
                if propagation > 0 and distance[cell] > distance[i]:
                    heapq.heappush(events, (now + propagation * (distance[cell] - distance[i]), 0, cell))
                    break
                which = first[cell]
                while which >= 0:
                    heapq.heappush(queues[over[which]], (-left[which], which))
                    if not marked[over[which]]:
                        marked[over[which]], touched[some] = True, over[which]
                        some += 1
                    which = after[which]
                cell = sibling[cell]
        for k in range(some):
            path = touched[k]
            marked[path] = False
            if sending[path] or not len(queues[path]):
                continue
            which = heapq.heappop(queues[path])[1]
            begin[which] = now
            sending[path] = True
            heapq.heappush(events, (now + busy[path // (2 * period)], 1, path))
            arrives = now + busy[path // (2 * period)] + hop + propagation * distance[child[which]]
            heapq.heappush(events, (arrives, 0, child[which]))
    return end


@njit(cache=True)
def _nearest_first(child: Any, sibling: Any, distance: Any) -> None:
    """Sort what each transmission serves by distance, by insertion: there are few."""
    for which in range(len(child)):
        head, rest = -1, child[which]
        while rest >= 0:
            cell, rest = rest, sibling[rest]
            if head < 0 or distance[cell] <= distance[head]:
                sibling[cell] = head
                head = cell
                continue
            at = head
            while sibling[at] >= 0 and distance[sibling[at]] < distance[cell]:
                at = sibling[at]
            sibling[cell] = sibling[at]
            sibling[at] = cell
        child[which] = head
