"""Rates at which pairs share the circuits of one hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lightloom.core.arrays import Floats, Ints
from lightloom.parallelism.circuits.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Sharing:
    """Paths of pairs over pipes; a pipe is all circuits from one rank to another."""

    capacity: Floats
    """Bytes per second of each pipe, shape [pipe]."""
    paths: sparse.csr_array
    """1 where the path of a pair takes a pipe, shape [pair, pipe]."""
    hops: Ints
    """Pipes on the path of each pair, shape [pair]; 0 where it has none."""
    shared: NDArray[np.bool_]
    """Pairs on a pipe that others take too, shape [pair]."""
    alone: Floats
    """Bytes per second of each pair while no other pair sends, shape [pair]; 0 where it has no path."""


def direct(counts: Ints, bandwidth: float) -> Sharing:
    """Give every pair its own circuits: ``counts`` [pair] of ``bandwidth`` bytes per second."""
    hops = (counts > 0).astype(np.int64)
    paths = sparse.csr_array(sparse.diags_array(hops.astype(np.float64)))
    rates: Floats = counts * np.float64(bandwidth)
    return Sharing(rates, paths, hops, np.zeros(len(counts), dtype=bool), rates)


def with_relays(traffic: Traffic, granted: sparse.csr_array, stranded: Ints, bandwidth: float) -> Sharing:
    """Give pairs their own circuits, and let the ``stranded`` ones relay over the fewest circuits that lead there.

    Args:
        granted: circuits between ranks, shape [rank, rank].
        stranded: pairs without a circuit of their own, by position.
        bandwidth: bytes per second of one circuit.
    """
    from scipy.sparse.csgraph import dijkstra

    pipes = sparse.csr_array(granted)
    pipes.sum_duplicates()
    pipes.sort_indices()
    ends = np.repeat(np.arange(traffic.ranks), np.diff(pipes.indptr)) * traffic.ranks + pipes.indices

    direct_pairs = np.flatnonzero(np.isin(traffic.source * traffic.ranks + traffic.destination, ends))
    taken = [(p, int(traffic.source[p]), int(traffic.destination[p])) for p in direct_pairs.tolist()]
    sources, row = np.unique(traffic.source[stranded], return_inverse=True)
    _, before = dijkstra(pipes, unweighted=True, indices=sources, return_predecessors=True)
    for pair, search in zip(stranded.tolist(), row.tolist(), strict=True):
        at = int(traffic.destination[pair])
        while before[search, at] >= 0:
            previous = int(before[search, at])
            taken.append((pair, previous, at))
            at = previous

    pair, a, b = np.array(taken, dtype=np.int64).reshape(-1, 3).T
    pipe = np.searchsorted(ends, a * traffic.ranks + b)
    paths = sparse.csr_array((np.ones(len(pair)), (pair, pipe)), shape=(len(traffic), pipes.nnz))
    hops = np.diff(paths.indptr).astype(np.int64)
    crowded = np.bincount(pipe, minlength=pipes.nnz) > 1
    capacity = pipes.data * bandwidth
    alone = np.full(len(traffic), np.inf)
    np.minimum.at(alone, pair, capacity[pipe])
    alone[hops == 0] = 0.0
    return Sharing(capacity, paths, hops, paths @ crowded.astype(np.float64) > 0, alone)


def share(sharing: Sharing, active: NDArray[np.bool_]) -> Floats:
    """Return the max-min fair rates of the active pairs in bytes per second, shape [pair]; 0 for all others.

    Rates rise together; when a pipe is full, the pairs on it keep theirs (progressive filling).
    """
    rate: Floats = np.where(active & ~sharing.shared, sharing.alone, 0.0)
    rising = active & sharing.shared
    remaining = sharing.capacity.copy()
    while rising.any():
        takers = rising.astype(np.float64) @ sharing.paths
        used = takers > 0
        level = np.full(len(remaining), np.inf)
        level[used] = remaining[used] / takers[used]
        more = level.min()
        rate[rising] += more
        remaining -= more * takers
        full = used & (level <= more * (1 + 1e-12))
        rising &= ~(sharing.paths @ full.astype(np.float64) > 0)
    return rate
