"""Compiled list scheduling of rows over paths of links: which goes first where several could."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from lightloom.collectives.synthesis.engine._list_kernels import let_wait, take_most_urgent
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.kernels import njit_cached, njit_without_arrays

_EQUAL = 1e-12
"""Relative difference below which two times are one."""


class OrderedRows(NamedTuple):
    """Rows of a queued schedule in an order in which each comes after those that bring what it sends."""

    origin: Ints
    """Cell that a row reads: [row]."""
    target: Ints
    """Cell that a row writes: [row]."""
    reduces: Mask
    """Whether the row adds to its target: [row]."""
    begins: Ints
    """First hop of each row: [row + 1]."""
    link: Ints
    """[hop]."""
    busy: Floats
    """Seconds for which a chunk holds the link: [hop]."""
    delay: Floats
    """Seconds after its beginning at which the chunk may begin on the next link, or has arrived: [hop]."""


class Urgency(NamedTuple):
    """Rows by the first link of their way, those with most to follow first."""

    first: Ints
    """First place of each link: [link + 1]."""
    row: Ints
    """[place]."""
    place: Ints
    """[row]."""


@njit_cached
def list_order(rows: OrderedRows, urgency: Urgency, held: Mask, turn: Ints) -> None:
    """Let every link, when it is free, send the row with most to follow of those that wait nowhere on their way.

    Args:
        held: in and out, whether data lies in a cell: [cell].
        turn: out, place of each row in the order in which they are sent: [row].
    """
    number, cells, links = len(rows.origin), len(held), len(urgency.first) - 1
    awaited = np.zeros(cells, np.int64)
    for row in range(number):
        if rows.reduces[row]:
            awaited[rows.target[row]] += 1
    # Rows that wait for a cell, as lists, and those that wait for their first link, as bits.
    waiting, behind = np.full(cells, -1, np.int64), np.full(number, -1, np.int64)
    words = number // 64 + 1
    low, high = np.zeros(words, np.uint64), np.zeros(words // 64 + 1, np.uint64)
    free, due, ready = np.zeros(links), np.zeros(links, np.bool_), np.zeros(links, np.int64)
    # An event is a row that may begin (0), or a link that is due to choose one (1).
    events = [(0.0, np.int64(0), np.int64(0))]
    events.pop()
    for row in range(number):
        cell = rows.origin[row]
        if awaited[cell] > 0 or not (rows.reduces[row] or held[cell]):
            behind[row] = waiting[cell]
            waiting[cell] = row
        else:
            heapq.heappush(events, (0.0, np.int64(0), np.int64(row)))
    arrived, sent = np.zeros(cells), 0
    while len(events):
        now, is_link, which = heapq.heappop(events)
        if not is_link:
            link = rows.link[rows.begins[which]]
            let_wait(low, high, urgency.place[which])
            ready[link] += 1
            if not due[link]:
                due[link] = True
                heapq.heappush(events, (max(now, free[link]), np.int64(1), np.int64(link)))
            continue
        due[which] = False
        chosen = np.int64(-1)
        while ready[which] > 0 and chosen < 0:
            chosen = urgency.row[take_most_urgent(low, high, urgency.first[which])]
            ready[which] -= 1
            later = _earliest(rows, chosen, now, free)
            if later > now * (1 + _EQUAL):
                heapq.heappush(events, (later, np.int64(0), chosen))
                chosen = np.int64(-1)
        if chosen < 0:
            continue
        arrives, to = _send(rows, chosen, now, free), rows.target[chosen]
        turn[chosen] = sent
        sent += 1
        if ready[which] > 0:
            due[which] = True
            heapq.heappush(events, (free[which], np.int64(1), which))
        arrived[to] = max(arrived[to], arrives)
        if rows.reduces[chosen]:
            awaited[to] -= 1
            if awaited[to] > 0:
                continue
        else:
            held[to] = True
        other, kept = waiting[to], np.int64(-1)
        while other >= 0:
            following = behind[other]
            if rows.reduces[other] or held[to]:
                heapq.heappush(events, (arrived[to], np.int64(0), other))
            else:
                behind[other] = kept
                kept = other
            other = following
        waiting[to] = kept


@njit_cached
def seconds_left(rows: OrderedRows, cells: int) -> Floats:
    """Seconds of the longest way of what a row sends, and of all that follows from it: [row]."""
    left, after = np.zeros(len(rows.origin)), np.zeros(cells)
    for row in range(len(left) - 1, -1, -1):
        left[row] = after[rows.target[row]]
        for hop in range(rows.begins[row], rows.begins[row + 1]):
            left[row] += rows.delay[hop]
        after[rows.origin[row]] = max(after[rows.origin[row]], left[row])
    return left


@njit_without_arrays
def _earliest(rows: OrderedRows, row: int, ready: float, free: Floats) -> float:
    """Seconds at which a row could begin so that it waits nowhere on its way."""
    begin, way = ready, 0.0
    for hop in range(rows.begins[row], rows.begins[row + 1]):
        begin = max(begin, free[rows.link[hop]] - way)
        way += rows.delay[hop]
    return begin


@njit_without_arrays
def _send(rows: OrderedRows, row: int, ready: float, free: Floats) -> float:
    """Seconds at which a row has arrived, links being held as it crosses them."""
    now = ready
    for hop in range(rows.begins[row], rows.begins[row + 1]):
        now = max(now, free[rows.link[hop]])
        free[rows.link[hop]] = now + rows.busy[hop]
        now += rows.delay[hop]
    return now
