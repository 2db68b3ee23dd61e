"""Compiled programme over intervals: the cheapest tree on a line whose root sends first at prices of its own.

In the first level in which the root serves anybody it serves ranks on both sides of it at its own prices. From the next
level on it is like any other rank that has the data, so that the rest is the programme of ``_priced_kernels``.
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.bounds._priced_kernels import count_edges, gap_costs, offer, place_of
from lightloom.core.arrays import Floats
from lightloom.core.kernels import njit_cached


@njit_cached
def cheapest_rooted_tree(price: Floats, first_price: Floats, count: Floats, first_count: Floats) -> float:
    """Least cost of a tree that reaches as many ranks besides its root as there are lengths.

    Time: levels · lengths², and memory: levels · lengths.

    Args:
        price: of an edge of each length, which does not fall with the length: [level, length], lengths from 0. That
            of the first level is not used: before anything was received only the root sends.
        first_price: the same of edges from the root in the first level in which it sends.
        count, first_count: out, edges of that tree: [level, length].
    """
    levels, room = price.shape
    gap, ends, between, one_end = gap_costs(price)
    chain, below = np.full((levels, room), np.inf), np.full((levels, room), np.inf)
    side = np.empty((levels, room))
    least, first, right = np.inf, 0, 1
    for level in range(levels):
        inner = gap[level + 1]
        below[level, 1:] = inner[: room - 1]
        side[level] = inner
        for reached in range(1, room):
            chain[level, reached] = first_price[level, reached] + below[level, reached]
            offer(below[level, reached + 1 :], inner, chain[level, reached])
            offer(side[level, reached:], inner, chain[level, reached])
        for reached in range(1, room):
            cost = chain[level, reached] + side[level, room - 1 - reached]
            if cost < least:
                least, first, right = cost, level, reached
    count[:] = 0.0
    first_count[:] = 0.0
    # What is beyond the outermost ranks on both sides lies between these two ranks' circuits, or beside the root.
    rest = room - 1 - right
    left = _outermost(side[first, rest], chain[first], gap[first + 1], rest)
    waiting = [(first + 1, rest - left)]
    for outermost in (right, left):
        reached = outermost
        while reached > 0:
            first_count[first, reached] += 1.0
            before = _outermost(below[first, reached], chain[first], gap[first + 1], reached - 1)
            waiting.append((first + 1, reached - 1 - before))
            reached = before
    count_edges(gap, ends, between, one_end, waiting, count)
    return float(least)


@njit_cached
def _outermost(least: float, chain: Floats, inner: Floats, ranks: int) -> int:
    """The farthest of so many ranks that the root serves, or 0 where the rest is served later."""
    return 0 if inner[ranks] <= least else place_of(least, chain, inner, ranks)
