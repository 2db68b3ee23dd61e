"""Trees along a line of ranks that are as shallow as so many lightpaths over each link allow.

                0 ─────► 1 ─► 2      3 ─► 4      5 ─► 6        two lightpaths over every link: 6 ranks within 2 hops
                └──────────────────► 3
                  ...

On a line with g lightpaths over each link, a tree k hops deep serves C(k + g, g) − 1 ranks: the i-th lightpath that a
rank sends leaves room for i others up to where the next one ends, so that G(k, g) = g + G(k − 1, 1) + ... + G(k − 1, g)
for the ranks served.

A hub d hops from the root has k − d hops left for the ranks behind it, so that hubs lie the closer the later they are
reached. With g lightpaths over each link towards the hubs and b back, all hubs with what lies behind them are
C(k + g + b, g + b) − C(k + b, b) ranks of either side.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Ints


class Edges(NamedTuple):
    """Lightpaths of a tree along one fibre: arrays [edge], places counted from where the line begins."""

    parent: Ints
    child: Ints
    slot: Ints


def served(hops: int, load: int) -> int:
    """Ranks of a line that a tree so deep serves with so many lightpaths over each link."""
    return comb(hops + load, load) - 1


@lru_cache(maxsize=1 << 16)
def depth(ranks: int, load: int) -> int:
    """Fewest hops in which a tree with so many lightpaths over each link serves so many ranks of a line."""
    if load == 1:
        return ranks
    hops = 0
    while served(hops, load) < ranks:
        hops += 1
    return hops


@lru_cache(maxsize=1 << 16)
def side_depth(ranks: int, outward: int, backward: int) -> int:
    """Fewest hops in which hubs serve so many ranks of a side, with so many lightpaths over each link out and back."""
    hops, both = 1, outward + backward
    while comb(hops + both, both) - comb(hops + backward, backward) < ranks:
        hops += 1
    return hops


def hub_tree(ranks: int, hops: int, outward: int, backward: int, spacing: int) -> tuple[Edges, Ints]:
    """A tree from the root to hubs of one side, and the places of root and hubs, the last hub at place ``ranks``.

    Each hub serves the ranks behind it in the hops that it has left, and at most ``spacing`` − 1 of them. In hops that
    do for hubs ``spacing`` ranks from each other, or for hubs as far from each other as hops allow, all are served.
    """
    parent, place = [], [0]
    # Lightpaths still to send: from which hub, with how many hops left behind it, in the room of which number.
    waiting = [(0, hops - 1, room) for room in range(outward, 0, -1)]
    while place[-1] < ranks:
        at, left, room = waiting.pop()
        behind = min(served(left, backward), spacing - 1, ranks - 1 - place[-1])
        parent.append(at)
        place.append(place[-1] + behind + 1)
        if left:
            waiting += [(len(place) - 1, left - 1, number) for number in range(room, 0, -1)]
    edges = np.array([parent, np.arange(1, len(place))], np.int64)
    edges = edges[:, np.lexsort((edges[1], edges[0]))]
    return Edges(edges[0], edges[1], _slots(edges[0], edges[1])), np.array(place, np.int64)


def line_tree(ranks: int, load: int) -> Edges:
    """A tree from place 0 to places 1 ... ``ranks``, as shallow as the load allows."""
    parent, child = [], []
    waiting = [(0, ranks, depth(ranks, load), load)]
    while waiting:
        at, left, hops, room = waiting.pop()
        place = at + 1
        children = min(room, left)
        for number in range(1, children + 1):
            beyond = sum(1 + served(hops - 1, more) for more in range(number + 1, children + 1))
            served_below = max(1, left - beyond) if number < children else left
            parent.append(at)
            child.append(place)
            # Where fewer are sent than there is room for, the last ones have it.
            if served_below > 1:
                waiting.append((place, served_below - 1, hops - 1, room - children + number))
            place, left = place + served_below, left - served_below
    edges = np.array([parent, child], np.int64)
    edges = edges[:, np.lexsort((edges[1], edges[0]))]
    return Edges(edges[0], edges[1], _slots(edges[0], edges[1]))


def _slots(begin: Ints, end: Ints) -> Ints:
    """The lowest slot that is free from each beginning on, in their order."""
    slot = np.zeros(len(begin), np.int64)
    free_from: list[int] = []
    for i, (a, b) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        lowest = next((s for s, free in enumerate(free_from) if free <= a), len(free_from))
        free_from[lowest : lowest + 1] = [b]
        slot[i] = lowest
    return slot
