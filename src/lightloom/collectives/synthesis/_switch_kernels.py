"""Compiled loops over circuits of a switch: distances in circulants, trees in them, and ways of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def circulant_hops(offsets: Any, ranks: int, hops: Any, queue: Any) -> Any:
    """Hops from rank 0 where every rank has circuits to those ``offsets`` ahead, into ``hops``; (most, sum).

    Ranks that cannot be reached count as ``ranks`` hops away. ``queue`` [rank] is scratch.
    """
    hops[:] = ranks
    hops[0] = 0
    queue[0], count, at = 0, 1, 0
    while at < count:
        rank = queue[at]
        at += 1
        for ahead in offsets:
            to = (rank + ahead) % ranks
            if hops[to] == ranks:
                hops[to] = hops[rank] + 1
                queue[count] = to
                count += 1
    return hops.max(), hops.sum()


@njit(cache=True)
def climb(offsets: Any, ranks: int, which: Any, instead: Any) -> Any:
    """Change offset ``which[t]`` for ``instead[t]``, t = 0, 1, ..., wherever the most hops, and then their sum, do not
    grow; offsets in and out. Returns (most, sum)."""
    hops, queue = np.empty(ranks, np.int64), np.empty(ranks, np.int64)
    most, total = circulant_hops(offsets, ranks, hops, queue)
    for t in range(len(which)):
        k = which[t]
        old = offsets[k]
        offsets[k] = instead[t]
        now, together = circulant_hops(offsets, ranks, hops, queue)
        if now < most or (now == most and together <= total):
            most, total = now, together
        else:
            offsets[k] = old
    return most, total


@njit(cache=True)
def share(offsets: Any, hops: Any, pieces: int, choice: Any, load: Any) -> None:
    """Shortest trees in a circulant that use its circuits alike: ``choice`` [piece, rank] is the circuit into a rank.

    A rank may be reached over any circuit that begins one hop nearer. Those that can choose least choose first, each
    the circuit with least load; then chains of changes level the load as far as they can.

    Args:
        load: out, [circuit].
    """
    ranks, degree = len(hops), len(offsets)
    options = np.zeros(ranks, np.int64)
    for rank in range(1, ranks):
        for k in range(degree):
            if hops[(rank - offsets[k]) % ranks] == hops[rank] - 1:
                options[rank] += 1
    order = np.argsort(options, kind="mergesort")
    load[:] = 0
    choice[:, 0] = -1
    for rank in order:
        if rank == 0:
            continue
        for piece in range(pieces):
            best = -1
            for k in range(degree):
                if hops[(rank - offsets[k]) % ranks] == hops[rank] - 1 and (best < 0 or load[k] < load[best]):
                    best = k
            choice[piece, rank] = best
            load[best] += 1
    while load.max() - load.min() > 1 and _relieve(offsets, hops, pieces, choice, load):
        pass


@njit(cache=True)
def _relieve(offsets: Any, hops: Any, pieces: int, choice: Any, load: Any) -> bool:
    """Take one piece off the fullest circuit by a chain of changes that ends at one with at least two less."""
    ranks, degree = len(hops), len(offsets)
    before, via = np.full(degree, -2, np.int64), np.full((degree, 2), -1, np.int64)
    fullest = np.argmax(load)
    before[fullest] = -1
    queue, count, at = np.empty(degree, np.int64), 1, 0
    queue[0] = fullest
    while at < count:
        now = queue[at]
        at += 1
        for piece in range(pieces):
            for rank in range(1, ranks):
                if choice[piece, rank] != now:
                    continue
                for k in range(degree):
                    if before[k] != -2 or hops[(rank - offsets[k]) % ranks] != hops[rank] - 1:
                        continue
                    before[k], via[k, 0], via[k, 1] = now, piece, rank
                    if load[k] <= load[fullest] - 2:
                        load[k] += 1
                        load[fullest] -= 1
                        while before[k] >= 0:
                            choice[via[k, 0], via[k, 1]] = k
                            k = before[k]
                        return True
                    queue[count] = k
                    count += 1
    return False
