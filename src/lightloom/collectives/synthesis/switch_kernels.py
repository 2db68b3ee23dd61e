"""Compiled loops over circuits of a switch: distances in circulants, trees in them, and ways of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from lightloom.collectives.schedule.kernels import counted_order
from lightloom.core.kernels import njit_cached, njit_without_arrays

_ROOM = 1.02
"""Times the best sum of hops up to which it is worth looking at the load."""


@njit_cached
def climb(offsets: Any, ranks: int, which: Any, instead: Any) -> Any:
    """Change offset ``which[t]`` for ``instead[t]``, t = 0, 1, ..., one after the other, and take a change back if the
    most hops grow, or, where these stay, the sum of hops. Return (most, sum) of the offsets that are left, over the
    ways to all other ranks; 2^60 each where no offsets that were tried reach every rank.

    A rank has a circuit to the rank that each of the ``offsets``, changed in place, lies ahead; hops are counted from
    one rank to all others.
    """
    hops, queue, ahead = np.empty((1, ranks), np.int16), np.empty(ranks, np.int64), offsets.reshape(-1, 1)
    most, total = 1 << 60, 1 << 60
    for t in range(-1, len(which)):
        k, old = 0, offsets[0]
        if t >= 0:
            k, old = which[t], offsets[which[t]]
            offsets[k] = instead[t]
        now, together = 1 << 60, 1 << 60
        if lift_hops(ahead, ranks, hops, queue):
            now, together = hops.max(), hops.sum()
        if now < most or (now == most and together <= total):
            most, total = now, together
        else:
            offsets[k] = old
    return most, total


@njit_cached
def share(origin: Any, circuit: Any, hops: Any, choice: Any, load: Any) -> None:
    """Write the shortest trees of all sources that use circuits alike to ``choice`` [piece, source, rank].

    An entry is the place, among the circuits into the rank, of the one that brings the piece; −1 at the source. A rank
    may be reached over any circuit that begins one hop nearer. Those that can choose least choose first, each the
    circuit with least load; then chains of changes level the load as far as they can.

    Args:
        origin, circuit: where circuits into a rank begin, and their numbers: [rank, entering], equally many into every
            rank.
        hops: hops from each source: [source, rank].
        load: out, overwritten, pieces that pass each circuit: [circuit].
    """
    pieces, sources, ranks = choice.shape
    options = np.zeros((sources, ranks), np.int16)
    for source in range(sources):
        for rank in range(ranks):
            for k in range(origin.shape[1]):
                if hops[source, origin[rank, k]] == hops[source, rank] - 1:
                    options[source, rank] += 1
    load[:] = 0
    choice[:] = -1
    for at in counted_order(options.ravel(), np.arange(sources * ranks), origin.shape[1] + 1):
        source, rank = at // ranks, at % ranks
        for piece in range(pieces):
            best = -1
            for k in range(origin.shape[1]):
                near = hops[source, origin[rank, k]] == hops[source, rank] - 1
                if near and (best < 0 or load[circuit[rank, k]] < load[circuit[rank, best]]):
                    best = k
            if best >= 0:
                choice[piece, source, rank] = best
                load[circuit[rank, best]] += 1
    while load.max() * len(load) > load.sum() + len(load) - 1 and _relieve(origin, circuit, hops, choice, load):
        pass


@njit_cached
def _relieve(origin: Any, circuit: Any, hops: Any, choice: Any, load: Any) -> bool:
    """Take one piece off the fullest circuit by a chain of changes that ends at one with at least two less, if there is
    such a chain; return True if so.

    Pieces stay on shortest trees.

    Args:
        origin, circuit: where circuits into a rank begin, and their numbers: [rank, entering], equally many into every
            rank.
        hops: hops from each source: [source, rank].
        choice: in and out, place, among the circuits into a rank, of the one that brings a piece; −1 at the source:
            [piece, source, rank].
        load: in and out, pieces that pass each circuit: [circuit].
    """
    pieces, sources, ranks = choice.shape
    before, via = np.full(len(load), -2, np.int64), np.full((len(load), 3), -1, np.int64)
    fullest = np.argmax(load)
    before[fullest] = -1
    queue, count, at = np.empty(len(load), np.int64), 1, 0
    queue[0] = fullest
    while at < count:
        now = queue[at]
        at += 1
        for piece in range(pieces):
            for source in range(sources):
                for rank in range(ranks):
                    if choice[piece, source, rank] < 0 or circuit[rank, choice[piece, source, rank]] != now:
                        continue
                    for k in range(origin.shape[1]):
                        to = circuit[rank, k]
                        if before[to] != -2 or hops[source, origin[rank, k]] != hops[source, rank] - 1:
                            continue
                        before[to], via[to, 0], via[to, 1], via[to, 2] = now, piece, source, rank
                        if load[to] <= load[fullest] - 2:
                            load[to] += 1
                            load[fullest] -= 1
                            while before[to] >= 0:
                                moved = via[to, 2]
                                for other in range(origin.shape[1]):
                                    if circuit[moved, other] == to:
                                        choice[via[to, 0], via[to, 1], moved] = other
                                to = before[to]
                            return True
                        queue[count] = to
                        count += 1
    return False


@njit_cached
def balance(origin: Any, circuit: Any, hops: Any, choice: Any, load: Any) -> None:
    """Choose the shortest trees of all sources, the farthest ranks first, each reached from where the circuit has least
    load.

    Args:
        origin, circuit: where circuits into a rank begin, and their numbers: [rank, entering], equally many into every
            rank.
        hops: hops from each source, which reaches every rank: [source, rank].
        choice: in, where ``load`` says that trees were chosen before, and out: place, among the circuits into a rank,
            of the one that brings a piece; −1 at the source: [piece, source, rank].
        load: in and out, blocks that pass each circuit, all 0 where no trees were chosen before: [circuit].
    """
    pieces, sources, ranks = choice.shape
    chosen_before = load.max() > 0
    behind, every = np.empty(ranks, np.int64), np.arange(ranks)
    for source in range(sources):
        order = counted_order(hops[source], every, hops[source].max() + 1)
        for piece in range(pieces):
            if chosen_before:
                _passing(origin, circuit, order, choice[piece, source], load, behind)
            behind[:] = 1
            for i in range(ranks - 1, 0, -1):
                rank = order[i]
                best = -1
                for k in range(origin.shape[1]):
                    near = hops[source, origin[rank, k]] == hops[source, rank] - 1
                    if near and (best < 0 or load[circuit[rank, k]] < load[circuit[rank, best]]):
                        best = k
                choice[piece, source, rank] = best
                load[circuit[rank, best]] += behind[rank]
                behind[origin[rank, best]] += behind[rank]
            choice[piece, source, order[0]] = -1


@njit_without_arrays
def _passing(origin: Any, circuit: Any, order: Any, choice: Any, load: Any, behind: Any) -> None:
    """Take the blocks of one tree off ``load`` [circuit].

    Args:
        origin, circuit: where circuits into a rank begin, and their numbers: [rank, entering], equally many into every
            rank.
        order: ranks by ascending hops from the source.
        choice: place of the circuit into each rank: [rank].
        behind: out, blocks that pass the circuit into each rank: [rank].
    """
    behind[:] = 1
    for i in range(len(order) - 1, 0, -1):
        rank = order[i]
        by = choice[rank]
        load[circuit[rank, by]] -= behind[rank]
        behind[origin[rank, by]] += behind[rank]


@njit_without_arrays
def lift_hops(ahead: Any, ranks: int, hops: Any, queue: Any) -> bool:
    """Count the hops from the ranks of one period to all where rank i has a circuit on plane k to rank i + ``ahead[k, i
    % period]``.

    Args:
        ahead: 0 to one less than the ranks: [plane, period].
        hops: out, hops from each rank of the first period: [source, rank]; incomplete where some rank is not reached.
        queue: scratch, [rank].

    Returns:
        True if every rank is reached.
    """
    planes, period = ahead.shape
    for source in range(period):
        hops[source, :] = -1
        hops[source, source] = 0
        queue[0], count, at = source, 1, 0
        while at < count:
            rank = queue[at]
            at += 1
            place = rank % period
            for plane in range(planes):
                to = rank + ahead[plane, place]
                to -= ranks if to >= ranks else 0
                if hops[source, to] < 0:
                    hops[source, to] = hops[source, rank] + 1
                    queue[count] = to
                    count += 1
        if count < ranks:
            return False
    return True


@njit_without_arrays
def lift_ways(ahead: Any, ranks: int, origin: Any, circuit: Any) -> None:
    """Write where the circuits into every rank begin, ``origin`` [rank, plane], and their numbers, ``circuit`` [rank,
    plane], which are plane · period + the place of their beginning in its period.

    Rank i has a circuit on plane k to rank i + ``ahead[k, i % period]``.
    """
    planes, period = ahead.shape
    for plane in range(planes):
        for rank in range(ranks):
            to = (rank + ahead[plane, rank % period]) % ranks
            origin[to, plane], circuit[to, plane] = rank, plane * period + rank % period


@njit_cached
def climb_lift(ahead: Any, ranks: int, which: Any, ends: Any, turns: Any) -> Any:
    """Change circuits one after the other, and take a change back if the most blocks that pass one grow, or, where
    these stay, the sum of hops; a change that leaves ranks out of reach, or raises the sum more than 2 % above that of
    the circuits kept so far, is taken back too.

    On plane ``which[t]`` the circuits that leave ranks ``ends[t]`` of the period swap the residues that they lead to,
    and that of the first lands ``turns[t]`` periods farther on.

    Args:
        ahead: in and out, ranks that each circuit leads ahead: [plane, period].
        which, ends, turns: plane, two ranks of the period, and periods, of each change: [change], [change, 2],
            [change].

    Returns:
        The most blocks that pass a circuit in an all-to-all, and the sum of hops; 2^60 each where no circuits that were
        tried reach every rank.
    """
    planes, period = ahead.shape
    hops, queue = np.empty((period, ranks), np.int16), np.empty(ranks, np.int64)
    origin, circuit = np.empty((ranks, planes), np.int64), np.empty((ranks, planes), np.int64)
    choice = np.empty((1, period, ranks), np.int16)
    load = np.zeros(planes * period, np.int64)
    worst, total = 1 << 60, 1 << 60
    for t in range(-1, len(which)):
        k, a, b = (which[t], ends[t, 0], ends[t, 1]) if t >= 0 else (0, 0, 0)
        before, after = ahead[k, a], ahead[k, b]
        if t >= 0:
            ahead[k, b] = (a + before - b) % ranks
            ahead[k, a] = (b + after - a + turns[t] * period) % ranks
        most, together = 1 << 60, 1 << 60
        if lift_hops(ahead, ranks, hops, queue):
            together = hops.sum()
            if together <= total * _ROOM:
                lift_ways(ahead, ranks, origin, circuit)
                load[:] = 0
                for _ in range(2):
                    balance(origin, circuit, hops, choice, load)
                most = load.max()
        if most < worst or (most == worst and together <= total):
            worst, total = most, together
        else:
            ahead[k, b], ahead[k, a] = after, before
    return worst, total
