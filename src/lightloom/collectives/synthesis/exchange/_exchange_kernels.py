"""Compiled loops of synthesized all-to-alls: paths over circuits by price, their loads, and rows.

A circuit is one of the first period of ranks; a block goes from a rank of the first period to any rank. Paths exist for
one period of sources; all others are rotations. A tree says by which circuit the cheapest path enters each rank.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numba import njit

_TIE = 1e-13
STEEP = 4.0
"""How steeply a circuit's price rises with the share of the time for which it is busy."""


@njit(cache=True)
def reach(share: int, most: int, found: Any) -> None:
    """Most ranks on one side of a root, ``share`` at most behind one wavelength: out, [wavelengths, depth].

    The farthest child takes some of the wavelengths up to where it lies, where both it and the root serve ranks over
    the rest; beyond, it has all of them.
    """
    for left in range(1, found.shape[0]):
        for depth in range(1, found.shape[1]):
            for width in range(1, left + 1):
                behind = min(1 + found[left - width, depth - 1] + found[left, depth - 1], share * width)
                found[left, depth] = max(found[left, depth], min(found[left - width, depth] + behind, most))


@njit(cache=True)
def cheapest(first: Any, length: Any, price: Any, sources: Any, ranks: int, circuit: Any) -> float:
    """Cheapest paths from some ranks of the first period.

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
            here = at % period
            # Sources take turns, so that what is equally cheap is equally used.
            count = first[here + 1] - first[here]
            for k in range(count):
                which = first[here] + (k + i) % count
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


@njit(cache=True)
def choose(
    trees: Any, sources: Any, weight: float, length: Any, busy: Any, delay: Any, toll: float, load: Any, chosen: Any
) -> None:
    """Give every block the tree whose path is cheapest at present loads, one after the other, the farthest first.

    Args:
        trees: [tree, source, rank], as :func:`cheapest` leaves them.
        weight: blocks that a block stands for.
        busy: share of the time at hand for which a block holds a circuit: [circuit].
        delay: seconds after which it arrives: [circuit].
        toll: seconds that a circuit costs besides which is busy all the time.
        load: in and out, blocks that pass a circuit: [circuit].
        chosen: in and out, −1 where none is chosen yet: [source, rank].
    """
    count, _, ranks = trees.shape
    for k in range(1, ranks):
        # From the opposite rank on, both sides in turn.
        ahead = (ranks + 1) // 2 + (k // 2 if k % 2 else -(k // 2))
        for i in range(len(sources)):
            source = sources[i]
            rank = (source + ahead) % ranks
            if chosen[i, rank] >= 0:
                _pass(trees[chosen[i, rank], i], source, rank, length, load, -weight)
            best, least = -1, 1e300
            for tree in range(count):
                at, cost = rank, 0.0
                while at != source:
                    which = trees[tree, i, at]
                    used = (load[which] + weight) * busy[which]
                    cost += delay[which] + toll * used**STEEP
                    at = (at - length[which]) % ranks
                if cost < least - _TIE:
                    best, least = tree, cost
            chosen[i, rank] = best
            _pass(trees[best, i], source, rank, length, load, weight)


@njit(cache=True)
def _pass(tree: Any, source: int, rank: int, length: Any, load: Any, weight: float) -> None:
    """Add a block to the circuits of its path."""
    ranks, at = len(tree), rank
    while at != source:
        which = tree[at]
        load[which] += weight
        at = (at - length[which]) % ranks


@njit(cache=True)
def lay(trees: Any, chosen: Any, sources: Any, length: Any, delay: Any, begin: Any, path: Any, left: Any) -> int:
    """Circuits of every block's path, in order; only counted while ``path`` is empty.

    Args:
        begin: out, where the path of a block, place of its source · ranks + rank, begins: [blocks + 1].
        path: out, [hops].
        left: out, seconds from there to the end of the path: [hops].
    """
    ranks, count = chosen.shape[1], 0
    for i in range(len(sources)):
        for rank in range(ranks):
            begin[i * ranks + rank] = count
            tree = trees[max(chosen[i, rank], 0), i]
            at, hops = rank, 0
            while at != sources[i]:
                at = (at - length[tree[at]]) % ranks
                hops += 1
            if len(path):
                at, seconds = rank, 0.0
                for k in range(count + hops - 1, count - 1, -1):
                    path[k] = tree[at]
                    seconds += delay[path[k]]
                    left[k] = seconds
                    at = (at - length[path[k]]) % ranks
            count += hops
    begin[chosen.size] = count
    return count


@njit(cache=True)
def rows(
    begin: Any,
    path: Any,
    sent: Any,
    start: Any,
    length: Any,
    ranks: int,
    step: Any,
    lightpath: Any,
    destination: Any,
    chunk: Any,
) -> None:
    """Columns of a schedule, turned to where a circuit starts in the first period.

    Args:
        sent: path entries by circuit, in the order sent: [hop].
        step, lightpath, destination, chunk: out, [hop], in the order of ``sent``.
    """
    here = np.empty(len(path), np.int32)
    what = np.empty(len(path), np.int32)
    for block in range(len(begin) - 1):
        at = block // ranks
        for k in range(begin[block], begin[block + 1]):
            here[k], what[k] = at, block
            at = (at + length[path[k]]) % ranks
    before = -1
    for i in range(len(sent)):
        which = path[sent[i]]
        step[i] = step[i - 1] + 1 if which == before else 0
        before = which
        lightpath[i] = which
        turn = here[sent[i]] - start[which]
        source, rank = what[sent[i]] // ranks, what[sent[i]] % ranks
        destination[i] = (start[which] + length[which]) % ranks
        chunk[i] = (source - turn) % ranks * ranks + (rank - turn) % ranks
