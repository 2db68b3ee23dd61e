"""Compiled list scheduling of all-to-alls: every circuit sends, whenever it is free, what has the longest way left."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def list_schedule(
    begin: Any, path: Any, busy: Any, delay: Any, urgency: Any, place: Any, sent: Any, when: Any
) -> float:
    """Every circuit sends, whenever it is free, the block with the most seconds left to go.

    Args:
        begin, path: where the path of a block begins, [block + 1], and its circuits, [hop].
        busy, delay: seconds that a block holds a circuit, and after which it arrives: [circuit].
        urgency: places of path entries by circuit, and in each circuit the most urgent first: [hop].
        place: where a path entry stands there: [hop].
        sent: out, path entries by circuit, in the order sent: [hop].
        when: out, seconds at which they are sent: [hop].

    Returns:
        Seconds until the last arrival.

    What waits for a circuit is a set of bits in the order of urgency, with one bit for each word that is not empty in
    the level above. A circuit's blocks arrive in the order in which it sent them, so that each circuit has at most
    two events to come: it is free, and its next block arrives.
    """
    circuits, hops = len(busy), len(path)
    start = np.zeros(circuits + 1, np.int64)
    for i in range(hops):
        start[path[i] + 1] += 1
    for c in range(circuits):
        start[c + 1] += start[c]
    last = np.zeros(hops, np.bool_)
    for block in range(len(begin) - 1):
        if begin[block + 1] > begin[block]:
            last[begin[block + 1] - 1] = True
    words = hops // 64 + 1
    low = np.zeros(words, np.uint64)
    high = np.zeros(words // 64 + 1, np.uint64)
    waiting = np.zeros(circuits, np.int64)
    done, come = start[:-1].copy(), start[:-1].copy()
    idle = np.ones(circuits, np.bool_)
    touched, marked, count = np.empty(circuits, np.int64), np.zeros(circuits, np.bool_), 0
    for block in range(len(begin) - 1):
        if begin[block + 1] > begin[block]:
            entry = begin[block]
            _add(low, high, place[entry])
            c = path[entry]
            waiting[c] += 1
            if not marked[c]:
                marked[c], touched[count] = True, c
                count += 1
    events = [(0.0, 0)]
    events.pop()
    now = 0.0
    while True:
        for k in range(count):
            c = touched[k]
            marked[c] = False
            if not idle[c] or waiting[c] == 0:
                continue
            at = _next(low, high, start[c])
            low[at >> 6] &= ~(np.uint64(1) << np.uint64(at & 63))
            if low[at >> 6] == 0:
                high[at >> 12] &= ~(np.uint64(1) << np.uint64((at >> 6) & 63))
            waiting[c] -= 1
            sent[done[c]], when[done[c]] = urgency[at], now
            if come[c] == done[c]:
                heapq.heappush(events, (now + delay[c], 2 * c + 1))
            done[c] += 1
            idle[c] = False
            heapq.heappush(events, (now + busy[c], 2 * c))
        if not len(events):
            return now
        now, count = events[0][0], 0
        while len(events) and events[0][0] <= now + 1e-15:
            event = heapq.heappop(events)[1]
            c = event >> 1
            if event & 1:
                entry = sent[come[c]]
                come[c] += 1
                if come[c] < done[c]:
                    heapq.heappush(events, (when[come[c]] + delay[c], event))
                if last[entry]:
                    continue
                _add(low, high, place[entry + 1])
                c = path[entry + 1]
                waiting[c] += 1
            else:
                idle[c] = True
            if not marked[c]:
                marked[c], touched[count] = True, c
                count += 1


@njit(cache=True, inline="always")
def _add(low: Any, high: Any, at: int) -> None:
    low[at >> 6] |= np.uint64(1) << np.uint64(at & 63)
    high[at >> 12] |= np.uint64(1) << np.uint64((at >> 6) & 63)


@njit(cache=True)
def _next(low: Any, high: Any, at: int) -> Any:
    """The first bit from a place on; there is one."""
    word = at >> 6
    found = low[word] >> np.uint64(at & 63)
    if found:
        return at + _lowest(found)
    word += 1
    group = word >> 6
    found = high[group] >> np.uint64(word & 63)
    if found:
        word += _lowest(found)
    else:
        group += 1
        while high[group] == 0:
            group += 1
        word = (group << 6) + _lowest(high[group])
    return (word << 6) + _lowest(low[word])


@njit(cache=True)
def _lowest(word: Any) -> Any:
    """Place of the lowest bit that is set."""
    at = 0
    if word & np.uint64(0xFFFFFFFF) == 0:
        at += 32
        word >>= np.uint64(32)
    if word & np.uint64(0xFFFF) == 0:
        at += 16
        word >>= np.uint64(16)
    if word & np.uint64(0xFF) == 0:
        at += 8
        word >>= np.uint64(8)
    if word & np.uint64(0xF) == 0:
        at += 4
        word >>= np.uint64(4)
    if word & np.uint64(0x3) == 0:
        at += 2
        word >>= np.uint64(2)
    if word & np.uint64(0x1) == 0:
        at += 1
    return at
