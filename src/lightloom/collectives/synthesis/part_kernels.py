"""Compiled loops that give every part a way over circuits that stand."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.kernels import njit_cached

_STEEP = 6.0
"""How steeply a circuit's price rises with the share of the time for which it is busy."""


class Links(NamedTuple):
    """Circuits ordered by the rank that sends: arrays [circuit] but for the first."""

    first: Ints
    """First circuit of each rank: [rank + 1]."""
    source: Ints
    destination: Ints
    busy: Floats
    """Seconds a byte."""
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
