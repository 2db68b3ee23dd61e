"""Compiled loops of synthesized all-to-alls: paths over circuits by price, and their loads.

A circuit is one of the first period of ranks; a block goes from a rank of the first period to any rank. Paths exist for
one period of sources; all others are rotations.

A tree says by which circuit the cheapest path enters each rank.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Column, Floats, Int32s, Ints
from lightloom.core.kernels import njit_cached, njit_without_arrays

_TIE = 1e-13
STEEP = 4.0
"""How steeply a circuit's price rises with the share of the time for which it is busy."""


class Routes(NamedTuple):
    """Paths of the blocks of some sources of the first period, as trees to choose from."""

    trees: Int32s
    """Circuit by which a path enters a rank, −1 at the source: [tree, source, rank]."""
    chosen: Column
    """Tree of each block, int8, −1 where none is chosen yet: [source, rank]."""
    sources: Ints
    """Rank of each source: [source]."""
    length: Ints
    """Ranks that a circuit passes, less than zero counter-clockwise: [circuit]."""


class Prices(NamedTuple):
    """Terms of the price of a path: its delay, and a toll that rises with its load."""

    busy: Floats
    """Share of the available time for which a block holds a circuit: [circuit]."""
    delay: Floats
    """Seconds after which a block arrives: [circuit]."""
    toll: float
    """Seconds that a circuit costs besides which is busy all the time."""
    weight: float
    """Blocks for which a block stands."""


@njit_without_arrays
def reach(share: int, most: int, reached: Ints) -> None:
    """Compute the most ranks on one side of a root that spans can serve, at most ``most``.

    The farthest child takes some of the wavelengths up to where it lies, where both it and the root serve ranks over
    the rest; beyond, it has all of them.

    Args:
        share: most ranks behind one wavelength of a span.
        reached: zeros on entry; then the ranks by wavelengths and by the most spans one after the other, each counted
            from 0: [wavelengths, spans].
    """
    for left in range(1, reached.shape[0]):
        for depth in range(1, reached.shape[1]):
            for width in range(1, left + 1):
                behind = min(1 + reached[left - width, depth - 1] + reached[left, depth - 1], share * width)
                reached[left, depth] = max(reached[left, depth], min(reached[left - width, depth] + behind, most))


@njit_cached
def cheapest(first: Ints, length: Ints, price: Floats, sources: Ints, ranks: int, circuit: Int32s) -> float:
    """Find the cheapest paths from the ranks ``sources``, of the first period, to all ranks. Of equally cheap circuits
    each source tries another one first.

    Args:
        first: where the circuits of a rank begin: [period + 1].
        length: ranks that a circuit passes, less than zero counter-clockwise: [circuit].
        price: above zero: [circuit].
        circuit: out, the last circuit on the way to a rank, −1 at the source: [source, rank].

    Returns:
        The price of the dearest of these paths; infinite where a rank cannot be reached.
    """
    period = len(first) - 1
    dearest = 0.0
    cost = np.empty(ranks)
    done = np.empty(ranks, np.bool_)
    for i in range(len(sources)):
        source = sources[i]
        cost[:] = 1e300
        done[:] = False
        circuit[i, :] = -1
        cost[source] = 0.0
        heap = [(0.0, source)]
        while len(heap):
            at = heapq.heappop(heap)[1]
            if done[at]:
                continue
            done[at] = True
            dearest = max(dearest, cost[at])
            place = at % period
            # Sources take turns, so that what is equally cheap is equally used.
            count = first[place + 1] - first[place]
            for k in range(count):
                which = first[place] + (k + i) % count
                to = (at + length[which]) % ranks
                then = cost[at] + price[which]
                if then < cost[to] - _TIE:
                    cost[to] = then
                    circuit[i, to] = which
                    heapq.heappush(heap, (then, to))
        for rank in range(ranks):
            if not done[rank]:
                return np.inf
    return dearest


@njit_without_arrays
def choose(routes: Routes, trees: int, prices: Prices, load: Floats) -> None:
    """Give every block the tree whose path is cheapest at present loads, one after the other, the farthest first, in
    ``routes.chosen``.

    Args:
        routes: the trees, and the one chosen before for each block, −1 where none is yet.
        trees: number of trees to choose from, the first ones.
        prices: of circuits: delay + toll · ((load + weight) · busy)^4, where the load is without the block itself.
        load: in and out, blocks that pass a circuit, ``prices.weight`` for each: [circuit].
    """
    ranks = routes.chosen.shape[1]
    for k in range(1, ranks):
        # From the opposite rank on, both sides in turn.
        ahead = (ranks + 1) // 2 + (k // 2 if k % 2 else -(k // 2))
        for i in range(len(routes.sources)):
            rank = (routes.sources[i] + ahead) % ranks
            if routes.chosen[i, rank] >= 0:
                _pass(routes, i, rank, -prices.weight, load)
            best, least = -1, 1e300
            for tree in range(trees):
                at, cost = rank, 0.0
                while at != routes.sources[i]:
                    circuit = routes.trees[tree, i, at]
                    used = (load[circuit] + prices.weight) * prices.busy[circuit]
                    cost += prices.delay[circuit] + prices.toll * used**STEEP
                    at = (at - routes.length[circuit]) % ranks
                if cost < least - _TIE:
                    best, least = tree, cost
            routes.chosen[i, rank] = best
            _pass(routes, i, rank, prices.weight, load)


@njit_without_arrays
def _pass(routes: Routes, i: int, rank: int, weight: float, load: Floats) -> None:
    """Add ``weight`` to the ``load`` [circuit] of every circuit on the path chosen for the block from source number
    ``i`` to ``rank``."""
    tree, at = routes.trees[routes.chosen[i, rank], i], rank
    while at != routes.sources[i]:
        load[tree[at]] += weight
        at = (at - routes.length[tree[at]]) % len(tree)


@njit_without_arrays
def lay_paths(routes: Routes, delay: Floats, begin: Ints, path: Int32s, left: Floats) -> int:
    """Write the circuits of every block's path, in order, and return the number of all hops; only count them while
    ``path`` is empty.

    Args:
        routes: the trees, and the one chosen for each block.
        delay: seconds of a hop over a circuit: [circuit].
        begin: out, where the path of a block, place of its source · ranks + rank, begins: [blocks + 1].
        path: out, [hop].
        left: out, seconds from there to the end of the path: [hop].
    """
    ranks, count = routes.chosen.shape[1], 0
    for i in range(len(routes.sources)):
        for rank in range(ranks):
            begin[i * ranks + rank] = count
            tree = routes.trees[max(routes.chosen[i, rank], 0), i]
            at, hops = rank, 0
            while at != routes.sources[i]:
                at = (at - routes.length[tree[at]]) % ranks
                hops += 1
            if len(path):
                at, seconds = rank, 0.0
                for k in range(count + hops - 1, count - 1, -1):
                    path[k] = tree[at]
                    seconds += delay[path[k]]
                    left[k] = seconds
                    at = (at - routes.length[path[k]]) % ranks
            count += hops
    begin[routes.chosen.size] = count
    return count
