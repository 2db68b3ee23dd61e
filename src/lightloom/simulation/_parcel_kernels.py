"""Compiled loop that lays out a placed step: what is sent to whom."""

from __future__ import annotations

import numpy as np
from numba import njit

from lightloom.core.arrays import Int32s, Ints


@njit(cache=True)
def parcels(parent_start: Ints, parent: Int32s, content: Ints, device: Ints, devices: int) -> tuple[Ints, Int32s, Ints]:
    """Gather the edges that cross devices: what one sub-operator sends to one device is sent once.

    Returns the parcel of every edge (−1 where none is needed), the reader of every edge, and for every parcel an edge
    that it stands for.
    """
    size = len(parent_start) - 1
    reader = np.empty(len(parent), np.int32)
    start = np.zeros(size + 1, np.int64)
    for x in range(size):
        for e in range(parent_start[x], parent_start[x + 1]):
            reader[e] = x
            start[parent[e] + 1] += 1
    for x in range(size):
        start[x + 1] += start[x]
    place = start[:-1].copy()
    leaving = np.empty(len(parent), np.int64)
    for e in range(len(parent)):
        leaving[place[parent[e]]] = e
        place[parent[e]] += 1
    parcel = np.full(len(parent), -1, np.int64)
    stands, before = np.empty(len(parent), np.int64), np.empty(len(parent), np.int64)
    latest, owner = np.full(devices, -1, np.int64), np.full(devices, -1, np.int64)
    count = 0
    for y in range(size):
        for i in range(start[y], start[y + 1]):
            e = leaving[i]
            to = device[reader[e]]
            if to == device[y]:
                continue
            if owner[to] != y:
                owner[to], latest[to] = y, -1
            p = latest[to]
            while p >= 0 and content[stands[p]] != content[e]:
                p = before[p]
            if p < 0:
                p = count
                stands[p], before[p], latest[to] = e, latest[to], p
                count += 1
            parcel[e] = p
    return parcel, reader, stands[:count].copy()
