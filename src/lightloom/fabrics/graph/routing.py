"""Deterministic shortest routes through a graph, towards every rank.

A route has the fewest links, and of these the least latency, so that the way back takes as long. Where several have, a
vertex sends data for rank d over the (d mod n)-th of its n links
that lie on one, so that transfers to different ranks spread over equal ways (D-mod-k routing, as fat trees use it).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Floats, Int32s, Ints
from lightloom.core.memory import require_memory

_ROUNDING = 1e-12
_PAIR_NBYTES = 24
"""Bytes that routes take at most for a vertex and a rank while they are searched."""
Distances = NDArray[np.int16]
_FAR = np.int16(np.iinfo(np.int16).max)


class Routes(NamedTuple):
    """Shortest routes from every vertex to every rank."""

    distance: Distances
    """Links on the way: [vertex, rank]."""
    link: Int32s
    """The link to take, -1 at the rank itself: [vertex, rank]."""

    @classmethod
    def through(cls, ends: tuple[Ints, Ints], seconds: Floats, vertices: int, ranks: int) -> Routes:
        """Routes over links from tails to heads (``ends``, each [link]); the ranks are the first vertices."""
        require_memory(_PAIR_NBYTES * vertices * ranks, f"the routes of a graph among {ranks:,} ranks")
        tail, head = ends
        distance = _distances(tail, head, vertices, ranks)
        link = np.full((vertices, ranks), -1, np.int32)
        order = np.argsort(tail, kind="stable")
        first = np.searchsorted(tail[order], np.arange(vertices + 1))
        outgoing = [order[first[vertex] : first[vertex + 1]] for vertex in range(vertices)]
        latency = _latencies(distance, outgoing, head, seconds)
        ranks_to = np.arange(ranks)
        for vertex, out in enumerate(outgoing):
            if len(out) == 0:
                continue
            nearer = distance[head[out]] == distance[vertex] - 1
            if latency is not None:
                left = np.where(nearer, seconds[out, None] + latency[head[out]], np.inf)
                nearer &= left <= latency[vertex] * (1 + _ROUNDING)
            turn = ranks_to % np.maximum(nearer.sum(axis=0), 1)
            chosen = np.argmax(np.cumsum(nearer, axis=0) == turn + 1, axis=0)
            link[vertex] = np.where(nearer.any(axis=0), out[chosen], -1)
        return cls(distance, link)

    def walk(self, head: Ints, source: Ints, destination: Ints) -> Ints:
        """The links of transfers in order, -1 beyond the end: [transfer, link]."""
        place = np.array(source, dtype=np.int64)
        links = self.distance[place, destination].max(initial=0)
        path = np.full((len(place), max(int(links), 1)), -1, np.int64)
        for step in range(int(links)):
            link = self.link[place, destination]
            path[:, step] = link
            place = np.where(link >= 0, head[link], place)
        return path


def _distances(tail: Ints, head: Ints, vertices: int, ranks: int) -> Distances:
    """Links from every vertex to every rank, breadth first from all ranks at once."""
    from scipy.sparse import csr_array

    ahead = csr_array((np.ones(len(tail), np.float32), (tail, head)), shape=(vertices, vertices))
    distance = np.full((vertices, ranks), _FAR, np.int16)
    frontier = np.zeros((vertices, ranks), np.float32)
    np.fill_diagonal(frontier, 1.0)
    np.fill_diagonal(distance, 0)
    step = 0
    while frontier.any():
        step += 1
        reached = (ahead @ frontier > 0) & (distance == _FAR)
        distance[reached] = step
        frontier = reached.astype(np.float32)
    return distance


def _latencies(distance: Distances, outgoing: list[Ints], head: Ints, seconds: Floats) -> Floats | None:
    """Seconds of the quickest way with the fewest links: [vertex, rank]; None where all links take as long."""
    if (seconds == seconds[0]).all():
        return None
    latency = np.where(distance == 0, 0.0, np.inf)
    for step in range(1, int(distance[distance < _FAR].max()) + 1):
        for vertex, out in enumerate(outgoing):
            ranks = np.flatnonzero(distance[vertex] == step)
            if len(ranks):
                nearer = distance[np.ix_(head[out], ranks)] == step - 1
                left = np.where(nearer, seconds[out, None] + latency[np.ix_(head[out], ranks)], np.inf)
                latency[vertex, ranks] = left.min(axis=0)
    return latency
