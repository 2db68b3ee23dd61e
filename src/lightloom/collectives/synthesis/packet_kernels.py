"""Compiled list scheduling of rows over paths of links: which goes first where several could."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from lightloom.collectives.synthesis.engine.kernels import OrderedRows, let_wait, take_most_urgent
from lightloom.collectives.synthesis.grid_links import Transfers
from lightloom.core.arrays import Floats, Int32s, Ints, Mask
from lightloom.core.kernels import njit_cached, njit_without_arrays

_EQUAL = 1e-12
"""Relative difference below which two times are one."""


class Urgency(NamedTuple):
    """Rows by the first link of their way, those with most to follow first."""

    first: Ints
    """First place of each link: [link + 1]."""
    row: Ints
    """Row at each place: [place]."""
    place: Ints
    """Place of each row: [row]."""


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


# Compiled loops that pack trees onto links: one tree after the other, each where links are least busy.

_TIE = 1e-3
"""Part of the seconds on all links of a transfer that decides between equally busy ones."""


@njit_cached
def pack(transfers: Transfers, root: Ints, nbytes: float, hurry: float, sweeps: int, tap: Int32s, load: Floats) -> bool:
    """Grow a tree for every chunk, and grow each anew ``sweeps`` times among the others; whether all ranks are reached.

    A rank joins by the transfer after which the busiest of its links is least busy.

    Args:
        root: rank at which the tree of each chunk begins: [chunk].
        nbytes: bytes of a chunk.
        hurry: seconds of a busier link that a second of later arrival counts for.
        tap: out, transfer by which each rank receives, −1 at the root: [chunk, rank].
        load: out, seconds for which each link is busy: [link].
    """
    ranks = len(transfers.first) - 1
    arrival = np.empty(ranks)
    tap[:] = -1
    load[:] = 0.0
    for sweep in range(sweeps + 1):
        for chunk in range(len(root)):
            if sweep:
                for rank in range(ranks):
                    if tap[chunk, rank] >= 0:
                        _add(transfers, np.int64(tap[chunk, rank]), -nbytes, load)
            if not _grow(transfers, root[chunk], nbytes, hurry, tap[chunk], load, arrival):
                return False
    return True


@njit_cached
def _grow(
    transfers: Transfers, root: int, nbytes: float, hurry: float, tap: Int32s, load: Floats, arrival: Floats
) -> bool:
    """Grow the tree of one chunk; whether it reaches all ranks."""
    tap[:] = -1
    arrival[:] = -1.0
    arrival[root] = 0.0
    reached, joined, last = 1, np.int64(root), np.int64(-1)
    heap = [(0.0, last)]
    heap.pop()
    while True:
        for leaving in range(transfers.first[joined], transfers.first[joined + 1]):
            if arrival[transfers.destination[leaving]] < 0:
                price = _price(transfers, leaving, nbytes, hurry, load, arrival)
                heapq.heappush(heap, (price, np.int64(leaving)))
        joined = np.int64(-1)
        while len(heap) and joined < 0:
            price, transfer = heapq.heappop(heap)
            to = transfers.destination[transfer]
            if arrival[to] >= 0:
                continue
            now = _price(transfers, transfer, nbytes, hurry, load, arrival)
            # Links have become busier since: prices only rise.
            if now > price * (1 + 1e-12) and len(heap) and heap[0][0] < now:
                heapq.heappush(heap, (now, transfer))
                continue
            joined = to
            arrival[to] = _arrival(transfers, transfer, nbytes, arrival)
            tap[to] = transfer
            _add(transfers, transfer, nbytes, load)
            reached += 1
        if joined < 0:
            return reached == len(arrival)


@njit_without_arrays
def _price(transfers: Transfers, transfer: int, nbytes: float, hurry: float, load: Floats, arrival: Floats) -> float:
    busiest, together = 0.0, 0.0
    for k in range(transfers.begins[transfer], transfers.begins[transfer + 1]):
        busy = nbytes * transfers.seconds_per_byte[k]
        busiest = max(busiest, load[transfers.link[k]] + busy)
        together += busy
    return busiest + _TIE * together + hurry * _arrival(transfers, transfer, nbytes, arrival)  # type: ignore[no-any-return]


@njit_without_arrays
def _arrival(transfers: Transfers, transfer: int, nbytes: float, arrival: Floats) -> float:
    """Seconds from the root, if nothing waits."""
    slowest = 0.0
    for k in range(transfers.begins[transfer], transfers.begins[transfer + 1]):
        slowest = max(slowest, nbytes * transfers.seconds_per_byte[k])
    return arrival[transfers.source[transfer]] + transfers.latency[transfer] + slowest  # type: ignore[no-any-return]


@njit_without_arrays
def _add(transfers: Transfers, transfer: int, nbytes: float, load: Floats) -> None:
    for k in range(transfers.begins[transfer], transfers.begins[transfer + 1]):
        load[transfers.link[k]] += nbytes * transfers.seconds_per_byte[k]


# Compiled loops that give every part a way over circuits that stand.

_STEEP = 6.0
"""How steeply a circuit's price rises with the share of the time for which it is busy."""


class Links(NamedTuple):
    """Circuits ordered by the rank that sends: arrays [circuit] but for the first."""

    first: Ints
    """First circuit of each rank: [rank + 1]."""
    source: Ints
    destination: Ints
    busy: Floats
    """Seconds for which a byte holds the circuit."""
    delay: Floats
    """Seconds after which a part of mean size arrives."""


class Demands(NamedTuple):
    """Parts by the rank that sends, the largest of each first: arrays [part] but for the first."""

    first: Ints
    """First part of each rank: [rank + 1]."""
    destination: Ints
    nbytes: Floats


@njit_cached
def _cheapest(links: Links, price: Floats, root: int, cost: Floats, entered: Ints) -> None:
    """The circuit by which the cheapest way from ``root`` enters each rank, −1 where none does."""
    cost[:] = np.inf
    entered[:] = -1
    cost[root] = 0.0
    heap = [(0.0, root)]
    while len(heap):
        now, at = heapq.heappop(heap)
        if now > cost[at]:
            continue
        for circuit in range(links.first[at], links.first[at + 1]):
            to, then = links.destination[circuit], now + price[circuit]
            if then < cost[to]:
                cost[to], entered[to] = then, circuit
                heapq.heappush(heap, (then, to))


@njit_cached
def route(links: Links, demands: Demands, allowed: float, toll: float, batch: int, taken: Ints, load: Floats) -> bool:
    """Take every part along the cheapest way at the present loads, those of a rank some at a time.

    Args:
        allowed: seconds for which a circuit may be busy.
        toll: seconds that a circuit costs which is busy as long.
        batch: parts that share one tree of ways.
        taken: in and out, circuits of each part's way from its destination back, −1 filling up: [part, hop].
        load: in and out, seconds for which each circuit is busy.

    Returns:
        Whether every part has a way, of no more hops than there is place for.
    """
    ranks, circuits = len(links.first) - 1, len(links.source)
    price, cost, entered = np.empty(circuits), np.empty(ranks), np.empty(ranks, np.int64)
    for rank in range(ranks):
        begin, end = demands.first[rank], demands.first[rank + 1]
        for start in range(begin, end, batch):
            stop, mean = min(start + batch, end), 0.0
            for part in range(start, stop):
                mean += demands.nbytes[part] / (stop - start)
                for hop in range(taken.shape[1]):
                    if taken[part, hop] < 0:
                        break
                    load[taken[part, hop]] -= demands.nbytes[part] * links.busy[taken[part, hop]]
                    taken[part, hop] = -1
            for circuit in range(circuits):
                used = max(load[circuit] + mean * links.busy[circuit], 0.0) / allowed
                price[circuit] = links.delay[circuit] + toll * used**_STEEP
            _cheapest(links, price, rank, cost, entered)
            for part in range(start, stop):
                at, hop = demands.destination[part], 0
                while at != rank:
                    circuit = entered[at]
                    if circuit < 0 or hop == taken.shape[1]:
                        return False
                    taken[part, hop] = circuit
                    load[circuit] += demands.nbytes[part] * links.busy[circuit]
                    at, hop = links.source[circuit], hop + 1
    return True
