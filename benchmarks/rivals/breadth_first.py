"""Breadth-first broadcasts from all ranks at once, rebuilt from what their paper says.

    L. Zhao et al., Efficient Direct-Connect Topologies for Collective Communications, NSDI 2025, section 5 (BFB)

In step t every rank receives the shares of all ranks t links away, from neighbours that are t − 1 links away from them,
split so that the busiest of its incoming links carries least. The paper splits at will by a linear programme; here
shares travel in equal pieces, which maximum flows distribute.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow, shortest_path

from benchmarks.rivals.fabrics import Links
from benchmarks.rivals.spread import Spread
from lightloom.core.arrays import Ints


def breadth_first(links: Links, ranks: int, pieces: int) -> Spread:
    """The all-gather, every share in so many pieces."""
    begun = time.process_time()
    graph = csr_matrix((np.ones(len(links.source)), (links.source, links.destination)), (ranks, ranks))
    distance = shortest_path(graph, unweighted=True).astype(np.int64)
    sends = []
    for rank in range(ranks):
        neighbour = links.source[links.destination == rank]
        for far in range(1, int(distance[:, rank].max()) + 1):
            owner = np.flatnonzero(distance[:, rank] == far)
            if len(owner):
                near = distance[owner][:, neighbour] == far - 1
                share = _least_busy(near, pieces)
                sends += _rows(share, owner, neighbour, rank, far - 1, pieces)
    step, source, destination, chunk = np.concatenate(sends, axis=1)
    return Spread(step, source, destination, chunk, pieces, time.process_time() - begun)


def _least_busy(near: np.ndarray, pieces: int) -> Ints:
    """Pieces of each owner's share that come over each link, [owner, link], the fullest link carrying least."""
    owners, links = near.shape
    start, end = owners + links, owners + links + 1
    capacity = -(-owners * pieces // links)
    while True:
        edges = np.zeros((end + 1, end + 1), np.int32)
        edges[start, :owners] = pieces
        edges[:owners, owners:start] = near * pieces
        edges[owners:start, end] = capacity
        flow = maximum_flow(csr_matrix(edges), start, end)
        if flow.flow_value == owners * pieces:
            carried: Ints = flow.flow.toarray()[:owners, owners:start].astype(np.int64)
            return carried
        capacity += 1


def _rows(share: Ints, owner: Ints, neighbour: Ints, rank: int, step: int, pieces: int) -> list[np.ndarray]:
    """Step, source, destination and chunk of every send to one rank in one step."""
    source = np.repeat(np.tile(neighbour, len(owner)), share.ravel())
    chunk = np.repeat(owner * pieces, pieces) + np.tile(np.arange(pieces), len(owner))
    return [np.stack([np.full(len(chunk), step), source, np.full(len(chunk), rank), chunk])]
