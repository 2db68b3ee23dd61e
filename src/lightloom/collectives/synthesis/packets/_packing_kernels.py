"""Compiled loops that pack trees onto links: one tree after the other, each where links are least busy."""

from __future__ import annotations

import heapq

import numpy as np

from lightloom.collectives.synthesis.packets.transfers import Transfers
from lightloom.core.arrays import Floats, Int32s, Ints
from lightloom.core.kernels import njit_cached, njit_without_arrays

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
