"""Compiled list scheduling: who is sent what when, over any standing lightpaths.

What waits for a lightpath is a set of bits, one for each of its transmissions in the order of urgency, with one bit for
each word that is not empty in the level above.
"""

from __future__ import annotations

import heapq

import numpy as np

from lightloom.collectives.synthesis.engine._sort_kernels import sort_stably
from lightloom.collectives.synthesis.engine.lightpaths import Transmissions
from lightloom.core.arrays import Column, Floats, Int32s, Ints
from lightloom.core.kernels import njit_cached, njit_without_arrays


@njit_cached
def list_schedule(queue: Int32s, delay: Floats, busy: Floats, sends: Transmissions, begin: Floats) -> float:
    """Seconds until the last arrival if every lightpath sends, whenever it is free, what has the longest path below.

    Args:
        queue, delay: queue of each tap, and seconds until a transmission arrives there: [tap].
        busy: seconds for which a transmission holds its lightpath: [queue].
        begin: out, seconds at which each reception begins to be sent: [reception].
    """
    # Arrays as variables of their own: reading them out of a tuple in a loop takes time.
    tap, child, sibling, fellow = sends.tap, sends.child, sends.sibling, sends.fellow
    several = len(fellow) > 0
    path: Ints = np.full(len(tap), -1, np.int64)
    for reception in range(len(tap)):
        if tap[reception] >= 0:
            path[reception] = queue[tap[reception]]
    # First place of each queue, and place of each transmission in its queue.
    start, place = np.zeros(len(busy) + 1, np.int64), np.full(len(tap), -1, np.int32)
    ranked = _rank(path, sends, start, place)
    words = len(ranked) // 64 + 1
    low, high = np.zeros(words, np.uint64), np.zeros(words // 64 + 1, np.uint64)
    sending, marked = np.zeros(len(busy), np.bool_), np.zeros(len(busy), np.bool_)
    waiting, touched = np.zeros(len(busy), np.int64), np.empty(len(busy), np.int64)
    # Without copies, a lightpath's transmissions arrive in the order sent, so that only the first needs an event.
    last, following = np.full(len(busy), -1, np.int64), np.full(0 if several else len(tap), -1, np.int32)
    # An event is twice the reception that arrives, or twice the queue that is free, and 1.
    events = [(0.0, 2 * root) for root in sends.roots]
    end = 0.0
    while len(events):
        now, count = events[0][0], 0
        while len(events) and events[0][0] <= now + 1e-15:
            event = heapq.heappop(events)[1]
            if event & 1:
                which = event >> 1
                sending[which] = False
                if not marked[which]:
                    marked[which], touched[count] = True, which
                    count += 1
                continue
            end = max(end, now)
            cell = event >> 1
            if not several and path[cell] >= 0:
                behind = np.int64(following[cell])
                if behind >= 0:
                    heapq.heappush(events, (begin[behind] + delay[tap[behind]], 2 * behind))
                else:
                    last[path[cell]] = -1
            while cell >= 0:
                to = np.int64(child[cell])
                while to >= 0:
                    which = path[to]
                    let_wait(low, high, np.int64(place[to]))
                    waiting[which] += 1
                    if not marked[which]:
                        marked[which], touched[count] = True, which
                        count += 1
                    to = np.int64(sibling[to])
                cell = np.int64(fellow[cell]) if several else np.int64(-1)
                later = delay[tap[cell]] - delay[tap[event >> 1]] if cell >= 0 else 0.0
                if later > 0:
                    heapq.heappush(events, (now + later, 2 * cell))
                    break
        for k in range(count):
            which = touched[k]
            marked[which] = False
            if sending[which] or waiting[which] == 0:
                continue
            i = np.int64(ranked[take_most_urgent(low, high, start[which])])
            waiting[which] -= 1
            sending[which] = True
            heapq.heappush(events, (now + busy[which], 2 * which + 1))
            if several or last[which] < 0:
                heapq.heappush(events, (now + delay[tap[i]], 2 * i))
            else:
                following[last[which]] = i
            last[which] = i
            while i >= 0:
                begin[i] = now
                i = np.int64(fellow[i]) if several else np.int64(-1)
    return end


@njit_cached
def _rank(path: Ints, sends: Transmissions, start: Ints, place: Int32s) -> Int32s:
    """Transmissions by queue and urgency, by number where they are equally urgent.

    Args:
        path: queue of each transmission: [reception].
        start: out, first place of each queue: [queue + 1].
        place: out, place of each transmission, and −1, as it comes in, of other receptions: [reception].

    Returns:
        First reception of the transmission at each place: [place].
    """
    for above in range(len(place)):
        to = sends.child[above]
        while to >= 0:
            place[to] = 0
            start[path[to] + 1] += 1
            to = sends.sibling[to]
    for which in range(len(start) - 1):
        start[which + 1] += start[which]
    ranked = np.empty(start[-1], np.int32)
    following = start[:-1].copy()
    for i in range(len(place)):
        if place[i] == 0:
            which = path[i]
            ranked[following[which]] = i
            following[which] += 1
    urgency, sent = np.empty(len(ranked)), ranked.copy()
    order, scratch = np.empty(len(ranked), np.int64), np.empty(len(ranked), np.int64)
    for which in range(len(start) - 1):
        first, count = start[which], start[which + 1] - start[which]
        for k in range(count):
            urgency[k] = -sends.left[sent[first + k]]
        sort_stably(urgency, order[:count], scratch)
        for k in range(count):
            ranked[first + k] = sent[first + order[k]]
    for k in range(len(ranked)):
        place[ranked[k]] = k
    return ranked


@njit_without_arrays
def let_wait(low: Column, high: Column, at: int) -> None:
    """Let the transmission at a place wait: in ``low`` [place / 64], and in ``high`` [place / 4096] for its word."""
    low[at >> 6] |= np.uint64(1) << np.uint64(at & 63)
    high[at >> 12] |= np.uint64(1) << np.uint64((at >> 6) & 63)


@njit_without_arrays
def take_most_urgent(low: Column, high: Column, at: int) -> int:
    """Take the first place that waits from a place on, where one does."""
    word = at >> 6
    bits = low[word] >> np.uint64(at & 63)
    if bits:
        at += _lowest(bits)
    else:
        word += 1
        group = word >> 6
        bits = high[group] >> np.uint64(word & 63)
        if bits:
            word += _lowest(bits)
        else:
            group += 1
            while high[group] == 0:
                group += 1
            word = (group << 6) + _lowest(high[group])
        at = (word << 6) + _lowest(low[word])
    low[word] &= ~(np.uint64(1) << np.uint64(at & 63))
    if low[word] == 0:
        high[word >> 6] &= ~(np.uint64(1) << np.uint64(word & 63))
    return at


@njit_without_arrays
def _lowest(word: int) -> int:
    """Place of the lowest bit that is set, by halving; ``word`` is an unsigned 64-bit integer."""
    at = 0
    for k in range(5, -1, -1):
        half = np.uint64(1) << np.uint64(k)
        if word & ((np.uint64(1) << half) - np.uint64(1)) == 0:
            at += 1 << k
            word >>= half  # type: ignore[assignment]
    return at
