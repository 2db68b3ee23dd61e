"""Compiled loops that pack trees onto links, and that give parts their ways over circuits."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from lightloom.collectives.synthesis.grid_links import Transfers
from lightloom.core.arrays import Floats, Int32s, Ints
from lightloom.core.kernels import njit_cached, njit_without_arrays

# Compiled loops that pack trees onto links: one tree after the other, each where links are least busy.

_TIE = 1e-3
"""Part of the seconds on all links of a transfer that decides between equally busy ones."""


@njit_cached
def pack(transfers: Transfers, root: Ints, nbytes: float, hurry: float, sweeps: int, tap: Int32s, load: Floats) -> bool:
    """Grow a tree for every chunk, and grow each anew ``sweeps`` times among the others; return True if all ranks are
    reached, and False, the outputs incomplete, once some tree lacks a rank.

    The next rank joins by the transfer after which the busiest of the transfer's links is least busy, with ``hurry``
    times the seconds of arrival added.

    Args:
        transfers: transfers that trees may take, with the links of each.
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
    """Grow the tree of one chunk from its root, each time by the cheapest transfer to a rank that the tree lacks;
    return False if some rank is not reached.

    Args:
        nbytes: bytes of the chunk.
        hurry: seconds of a busier link that a second of later arrival counts for.
        tap: out, transfer by which each rank receives, −1 at the root: [rank].
        load: in and out, seconds for which each link is busy: [link].
        arrival: out, seconds from the start to the arrival at each rank, −1 where it is not reached: [rank].
    """
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
    """Return the price of a transfer in seconds: the load of its busiest link with ``nbytes`` more, plus ``hurry``
    times the seconds at which it would arrive, and a thousandth of the seconds on all of its links.

    ``load`` [link] and ``arrival`` [rank] are in seconds.
    """
    busiest, together = 0.0, 0.0
    for k in range(transfers.begins[transfer], transfers.begins[transfer + 1]):
        busy = nbytes * transfers.seconds_per_byte[k]
        busiest = max(busiest, load[transfers.link[k]] + busy)
        together += busy
    return busiest + _TIE * together + hurry * _arrival(transfers, transfer, nbytes, arrival)  # type: ignore[no-any-return]


@njit_without_arrays
def _arrival(transfers: Transfers, transfer: int, nbytes: float, arrival: Floats) -> float:
    """Return the seconds from the root's start until a transfer of ``nbytes`` arrives, if it waits for no other;
    ``arrival`` has those at which each rank of the tree has received: [rank]."""
    slowest = 0.0
    for k in range(transfers.begins[transfer], transfers.begins[transfer + 1]):
        slowest = max(slowest, nbytes * transfers.seconds_per_byte[k])
    return arrival[transfers.source[transfer]] + transfers.latency[transfer] + slowest  # type: ignore[no-any-return]


@njit_without_arrays
def _add(transfers: Transfers, transfer: int, nbytes: float, load: Floats) -> None:
    """Add the seconds that ``nbytes`` take, less than 0 to take them off, to the ``load`` [link] of every link of a
    transfer, in place."""
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
    """Find the cheapest way from ``root`` to every rank: its price, ``cost`` [rank], infinite where no way leads, the
    sum of the ``price`` [circuit] of its circuits, and the circuit by which it enters the rank, ``entered`` [rank], −1
    at the root and where no way leads. Both are changed in place."""
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
    """Take every part off the way it has and along the cheapest way at the present loads, those of one sender
    ``batch`` at a time.

    Args:
        links: circuits ordered by the rank that sends.
        demands: parts ordered by the rank that sends.
        allowed: seconds for which a circuit may be busy.
        toll: seconds that a circuit costs besides its delay when it is busy for ``allowed`` seconds; at other loads
            times the sixth power of their share of ``allowed``.
        batch: parts that share one tree of ways.
        taken: in and out, circuits of each part's way from its destination back, −1 filling up: [part, hop].
        load: in and out, seconds for which each circuit is busy: [circuit].

    Returns:
        True if every part has a way, of no more hops than ``taken`` has place for; after False ``taken`` and ``load``
        are incomplete.
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
