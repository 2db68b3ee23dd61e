"""Compiled programme over intervals: the cheapest tree on a line where every level has a price for each length.

G(t, m) is the least cost of m ranks between two that have the data, served in levels t and later; E(t, p) that of the
ranks up to p that one end serves in level t, p itself among them, with all between them. Beyond the two outermost ranks
of a level lie ranks that one end each serves, which together are like a gap.
"""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.kernels import njit_cached, njit_without_arrays


@njit_cached
def cheapest_tree(price: Floats, count: Floats) -> float:
    """Return the least cost of serving the ranks of a line between two ends that both have the data, and count in
    ``count`` the edges of that tree.

    In every level the ends, and ranks that were served in a level before, may each serve any number of ranks on either
    side, by an edge to each, whose length is the distance. There are as many ranks between the ends as ``price`` has
    lengths above 0.

    Time: levels · lengths², and memory: levels · lengths.

    Args:
        price: of an edge of each length, which does not fall with the length: [level, length], lengths from 0.
        count: out, edges of that tree, whatever it held before: [level, length].
    """
    gap, ends, between, one_end = gap_costs(price)
    count[:] = 0.0
    count_edges(gap, ends, between, one_end, [(0, price.shape[1] - 1)], count)
    return float(gap[0, -1])


@njit_cached
def gap_costs(price: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the least costs of serving so many ranks in a gap from a level on, infinite where it cannot be done.

    Args:
        price: of an edge in each level by its length, the distance of the two ranks: [level, length], lengths from 0.

    Returns:
        gap: of all ranks between two ends that have the data: [level + 1, ranks], the last row for no level left.
        ends: of the ranks next to one end, up to and with the farthest that this end serves at this level: [level,
            ranks], as the others.
        between: the same without the edge to that farthest rank.
        one_end: of the ranks of ``ends`` together with those beyond, which are served from the next level on.
        In all, ranks count from 0.
    """
    levels, room = price.shape
    gap, ends = np.full((levels + 1, room), np.inf), np.full((levels, room), np.inf)
    between, one_end = np.full((levels, room), np.inf), np.full((levels, room), np.inf)
    gap[levels, 0] = 0.0
    for level in range(levels - 1, -1, -1):
        inner, end, below = gap[level + 1], ends[level], between[level]
        end[0] = 0.0
        for reached in range(room):
            if reached:
                end[reached] = price[level, reached] + below[reached]
            offer(below[reached + 1 :], inner, end[reached])
        for reached in range(room):
            offer(one_end[level, reached:], inner, end[reached])
        for reached in range(room):
            offer(gap[level, reached:], one_end[level], end[reached])
    return gap, ends, between, one_end


@njit_without_arrays
def offer(least: Floats, added: Floats, cost: float) -> None:
    """Lower each entry of ``least`` in place to the entry of ``added`` in the same place plus ``cost``, where that is
    less; ``added`` may be longer."""
    for i in range(len(least)):
        offered = cost + added[i]
        least[i] = offered if offered < least[i] else least[i]


@njit_cached
def count_edges(
    gap: Floats, ends: Floats, between: Floats, one_end: Floats, waiting: list[tuple[int, int]], count: Floats
) -> None:
    """Count the edges of the cheapest tree from its least costs, which :func:`gap_costs` found, by walking back: of
    several ways to reach the least cost the first is taken.

    Args:
        gap, ends, between, one_end: least costs, [level, ranks], as :func:`gap_costs` returns them.
        waiting: (level, ranks) of gaps between two ends whose ranks are to be served from that level on; with −r for
            ranks, of r ranks next to an end, the farthest of which this end serves at that level. Emptied.
        count: number of edges, to which these are added in place: [level, length].
    """
    levels = len(ends)
    while len(waiting):
        level, ranks = waiting.pop()
        if level == levels or ranks == 0:
            continue
        if ranks < 0:
            ranks = -ranks
            count[level, ranks] += 1.0
            left = place_of(between[level, ranks], ends[level], gap[level + 1], ranks - 1)
            waiting.append((level, -left))
            waiting.append((level + 1, ranks - 1 - left))
        else:
            right = place_of(gap[level, ranks], ends[level], one_end[level], ranks)
            left = place_of(one_end[level, ranks - right], ends[level], gap[level + 1], ranks - right)
            waiting.append((level, -left))
            waiting.append((level, -right))
            waiting.append((level + 1, ranks - right - left))


@njit_without_arrays
def place_of(least: float, first: Floats, second: Floats, ranks: int) -> int:
    """Return the first p of 0, 1, ..., ``ranks`` at which ``first[p]`` + ``second[ranks − p]`` is at most ``least``; 0
    if there is none."""
    for place in range(ranks + 1):
        if first[place] + second[ranks - place] <= least:
            return place
    return 0


# Compiled programme over intervals: the cheapest tree on a line whose root sends first at prices of its own.
#
# In the first level in which the root serves anybody it serves ranks on both sides of it at its own prices. From the
# next level on it is like any other rank that has the data, so that the rest is the programme of :func:`gap_costs`.


@njit_cached
def cheapest_rooted_tree(price: Floats, first_price: Floats, count: Floats, first_count: Floats) -> float:
    """Return the least cost of a tree on a ring whose root sends first at prices of its own, and count its edges in
    ``count`` and ``first_count``.

    The tree reaches as many ranks besides its root as ``price`` has lengths above 0. The root first sends in whichever
    level is cheapest, and in later ones at ``price``, as all other ranks.

    Time: levels · lengths², and memory: levels · lengths.

    Args:
        price: of an edge of each length, which does not fall with the length: [level, length], lengths from 0. That of
            the first level is not used: before anything was received only the root sends.
        first_price: the same of edges from the root in the first level in which it sends.
        count: out, edges of that tree priced by ``price``: [level, length].
        first_count: out, edges priced by ``first_price``: [level, length].
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
    """Return how far away the farthest of ``ranks`` ranks lies, on one side of the root, that the root serves at this
    level; 0 where it is cheaper to serve all of them later.

    Args:
        least: least cost of serving these ranks.
        chain: cost of serving the ranks up to one that the root serves: [ranks].
        inner: cost of serving as many ranks in a gap from the next level on: [ranks].
    """
    return 0 if inner[ranks] <= least else place_of(least, chain, inner, ranks)
