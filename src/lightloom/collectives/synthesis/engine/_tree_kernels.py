"""Compiled loops over standing lightpaths: broadcast trees, their balance, and the receptions that they consist of.

There is a tree for every piece of every root of one period. ``load`` counts the transmissions that pass a queue.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from lightloom.collectives.synthesis.engine._sort_kernels import sort_stably
from lightloom.collectives.synthesis.engine.lightpaths import Lightpaths, Lines, Transmissions, Trees
from lightloom.core.arrays import Floats, Int32s, Ints, Mask
from lightloom.core.kernels import njit_cached, njit_without_arrays

_TIE = 1e-13


class _Growth(NamedTuple):
    """Scratch of one growing tree."""

    root: int
    stamp: int
    """Number of the tree."""
    done: Mask
    """[rank]."""
    run: Ints
    """Lightpaths of one line in a row up to each rank: [rank]."""
    sent: Ints
    """Tree in which a lightpath was last used: [lightpath]."""
    entry: Ints
    """Rank at which a line may begin: [line]."""


class _Balance(NamedTuple):
    """Scratch of balancing one tree."""

    below: Floats
    """Seconds of the longest path below: [rank]."""
    place: Ints
    """Place in the order of arrivals: [rank]."""
    served: Ints
    """Ranks that a lightpath serves: [lightpath]."""
    scratch: Ints
    """Of sorting: [rank]."""


@njit_cached
def grow(paths: Lightpaths, lines: Lines, walks: Ints, roots: Ints, trees: Trees, load: Floats) -> bool:
    """Earliest-arrival trees; equal arrivals go to the lightpath whose queue is less busy.

    Args:
        walks: ranks ahead of the root before which a piece enters no line of the highest level: [piece].
        roots: ranks at which trees begin: [root].
        trees: out.
        load: in and out, [queue].

    Returns:
        Whether every rank is reached from every root.
    """
    pieces, period, ranks = trees.tap.shape
    done, run = np.zeros(ranks, np.bool_), np.zeros(ranks, np.int64)
    sent = np.full(_count(paths), -1, np.int64)
    entry = np.empty(len(lines.free), np.int64)
    for piece in range(pieces):
        for root in range(period):
            for line in range(len(entry)):
                highest = line // 2 == (len(entry) - 1) // 2 and line > 1
                entry[line] = -1
                if not lines.free[line]:
                    entry[line] = _first_hub(paths, lines, line, roots[root], walks[piece] if highest else 0)
            growth = _Growth(roots[root], piece * period + root, done, run, sent, entry)
            tree = Trees(trees.tap[piece, root], trees.arrival[piece, root], trees.order[piece, root])
            if not _grow_tree(paths, lines, growth, tree, load):
                return False
    return True


@njit_cached
def _count(paths: Lightpaths) -> int:
    """Number of lightpaths."""
    return paths.path.max() + 1 if len(paths.path) else 0


@njit_without_arrays
def _first_hub(paths: Lightpaths, lines: Lines, line: int, root: int, walk: int) -> int:
    """The first rank, at least ``walk`` ahead of the root, at which a lightpath of the line begins."""
    ranks = len(paths.leaving) - 1
    step = 1 if line % 2 == 0 else -1
    rank = (root + step * walk) % ranks
    for _ in range(ranks):
        for tap in range(paths.leaving[rank], paths.leaving[rank + 1]):
            if lines.line[tap] == line:
                return rank
        rank = (rank + step) % ranks
    return -1


@njit_cached
def _grow_tree(paths: Lightpaths, lines: Lines, growth: _Growth, tree: Trees, load: Floats) -> bool:
    done, arrival, came = growth.done, tree.arrival, tree.tap
    done[:] = False
    came[:] = -1
    arrival[:] = 1e300
    arrival[growth.root] = 0.0
    heap = [(0.0, growth.root)]
    count = 0
    while len(heap):
        at = heapq.heappop(heap)[1]
        if done[at]:
            continue
        done[at] = True
        tree.order[count] = at
        count += 1
        if came[at] >= 0 and growth.sent[paths.path[came[at]]] != growth.stamp:
            growth.sent[paths.path[came[at]]] = growth.stamp
            load[paths.queue[came[at]]] += 1.0
        length, seen = 0, -1
        for tap in range(paths.leaving[at], paths.leaving[at + 1]):
            to = paths.target[tap]
            if done[to]:
                continue
            if paths.path[tap] != seen:
                seen = paths.path[tap]
                length = 0 if lines.free[lines.line[tap]] else _run_length(lines, growth, at, came[at], tap)
            if length < 0:
                continue
            then = arrival[at] + paths.delay[tap]
            sooner = then < arrival[to] - _TIE
            if not sooner and then < arrival[to] + _TIE:
                queue, other = paths.queue[tap], paths.queue[came[to]]
                sooner = load[queue] * paths.busy[queue] < load[other] * paths.busy[other] - _TIE
            if sooner:
                arrival[to], came[to], growth.run[to] = then, tap, length
                heapq.heappush(heap, (then, np.int64(to)))  # type: ignore[misc]
    return count == len(done)


@njit_without_arrays
def _run_length(lines: Lines, growth: _Growth, at: int, came: int, tap: int) -> int:
    """Lightpaths of a line in a row with that of ``tap``, to a rank reached by ``came``; −1 where rules forbid it."""
    line = lines.line[tap]
    before = lines.line[came] if came >= 0 else -1
    length = 1
    if before == line:
        if not lines.last[came]:
            return -1
        length = growth.run[at] + 1
    elif at != growth.entry[line] and not (before // 2 > line // 2 and (lines.last[came] or not lines.dense[before])):
        return -1
    if length > lines.longest[line]:
        return -1
    if line // 2 == (len(lines.free) - 1) // 2:
        # A line of the highest level ends near the opposite rank, where that of the other direction takes over.
        ranks, overhang = len(growth.done), lines.overhang[tap]
        ahead = at - growth.root if line % 2 == 0 else growth.root - at
        if 2 * ((ahead + overhang) % ranks) > ranks + overhang:
            return -1
    return length


@njit_cached
def rebalance(paths: Lightpaths, trees: Trees, load: Floats, deadline: float, sweeps: int) -> None:
    """Let ranks receive by other transmissions: larger ones that exist anyway, or new ones in less busy queues.

    Each tree is passed from the latest arrival backward, so that what hangs below a rank is settled; a parent arrives
    earlier than its child, and all below still arrives by the deadline. Ends early when nothing moves.
    """
    pieces, period, ranks = trees.tap.shape
    served = np.zeros(_count(paths), np.int64)
    balance = _Balance(np.empty(ranks), np.empty(ranks, np.int64), served, np.empty(ranks, np.int64))
    for _ in range(sweeps):
        moves = 0
        for piece in range(pieces):
            for root in range(period):
                tree = Trees(trees.tap[piece, root], trees.arrival[piece, root], trees.order[piece, root])
                moves += _rebalance_tree(paths, tree, load, balance, deadline)
        if moves == 0:
            break


@njit_without_arrays
def _rebalance_tree(paths: Lightpaths, tree: Trees, load: Floats, balance: _Balance, deadline: float) -> int:
    below, served, moves = balance.below, balance.served, 0
    ranks = len(below)
    below[:] = 0.0
    for i in range(ranks):
        balance.place[tree.order[i]] = i
        if i:
            served[paths.path[tree.tap[tree.order[i]]]] += 1
    for i in range(ranks - 1, 0, -1):
        at = tree.order[i]
        tap = tree.tap[at]
        better = _better_tap(paths, tree, load, balance, deadline, at)
        if better >= 0:
            served[paths.path[tap]] -= 1
            if served[paths.path[tap]] == 0:
                load[paths.queue[tap]] -= 1.0
            if served[paths.path[better]] == 0:
                load[paths.queue[better]] += 1.0
            served[paths.path[better]] += 1
            tree.tap[at] = tap = better
            moves += 1
        parent = paths.origin[tap]
        below[parent] = max(below[parent], below[at] + paths.delay[tap])
    for i in range(1, ranks):
        at = tree.order[i]
        tap = tree.tap[at]
        served[paths.path[tap]] = 0
        tree.arrival[at] = tree.arrival[paths.origin[tap]] + paths.delay[tap]
    sort_stably(tree.arrival, balance.place, balance.scratch)
    for i in range(ranks):
        tree.order[i] = balance.place[i]
    return moves


@njit_without_arrays
def _better_tap(paths: Lightpaths, tree: Trees, load: Floats, balance: _Balance, deadline: float, at: int) -> int:
    """The tap by which a rank had better receive, or −1."""
    tap = tree.tap[at]
    path, queue, best = paths.path[tap], paths.queue[tap], -1
    most = balance.served[path] - 1
    least = load[queue] * paths.busy[queue] if most == 0 else -1.0
    for k in range(paths.entering[at], paths.entering[at + 1]):
        other = paths.arriving[k]
        near, queue = paths.origin[other], paths.queue[other]
        if paths.path[other] == path or balance.place[near] >= balance.place[at]:
            continue
        fellows = balance.served[paths.path[other]]
        used = (load[queue] + 1) * paths.busy[queue]
        if fellows <= most and (fellows > 0 or used >= least - _TIE):
            continue
        if tree.arrival[near] + paths.delay[other] + balance.below[at] <= deadline:
            best = other
            if fellows > most:
                most, least = fellows, -1.0
            else:
                least = used
    return best


@njit_cached
def transmissions(paths: Lightpaths, tap: Int32s, order: Int32s) -> Transmissions:
    """The receptions of trees, for list scheduling.

    Args:
        tap, order: as in :class:`Trees`, [piece, root, rank].
    """
    pieces, period, ranks = tap.shape
    taps = tap.ravel()
    child, sibling = np.full(taps.size, -1, np.int32), np.full(taps.size, -1, np.int32)
    several = _count(paths) < len(paths.path)
    fellow = np.full(taps.size if several else 0, -1, np.int32)
    head = np.full(_count(paths) if several else 0, -1, np.int64)
    roots = np.empty(pieces * period, np.int64)
    hanging = Transmissions(taps, child, sibling, fellow, np.zeros(taps.size), roots)
    for tree in range(pieces * period):
        first = tree * ranks
        ranking, left = order[tree // period, tree % period], hanging.left[first : first + ranks]
        roots[tree] = first + ranking[0]
        for i in range(ranks - 1, 0, -1):
            at = ranking[i]
            by = taps[first + at]
            parent = paths.origin[by]
            left[parent] = max(left[parent], left[at] + paths.delay[by])
        if several:
            _join_fellows(paths, hanging, head, first, ranks)
        for cell in range(first, first + ranks):
            by = taps[cell]
            if by < 0 or (several and head[paths.path[by]] != cell):
                continue
            above = first + paths.origin[by]
            sibling[cell], child[above] = child[above], cell
    return hanging


@njit_without_arrays
def _join_fellows(paths: Lightpaths, hanging: Transmissions, head: Ints, first: int, ranks: int) -> None:
    """Chain the receptions of each transmission of one tree, nearest first; the ``head`` of each lightpath [lightpath]
    has the longest path below any of them."""
    taps, fellow, left = hanging.tap, hanging.fellow, hanging.left
    head[:] = -1
    for cell in range(first, first + ranks):
        if taps[cell] < 0:
            continue
        path = paths.path[taps[cell]]
        before, after = -1, head[path]
        while after >= 0 and taps[after] < taps[cell]:
            before, after = after, fellow[after]
        fellow[cell] = after
        if before < 0:
            head[path] = cell
        else:
            fellow[before] = cell
    for path in range(len(head)):
        nearest = head[path]
        cell = nearest
        while cell >= 0:
            later = paths.delay[taps[cell]] - paths.delay[taps[nearest]]
            left[nearest] = max(left[nearest], left[cell] + later)
            cell = fellow[cell]
