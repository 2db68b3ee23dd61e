"""Seconds of collectives as a collective library carries them over nodes and the network between them.

    p passes over all bytes    2 for an all-reduce, otherwise 1
    inside a node              base + p/2 · (n − 1) · peer  +  p · (n − 1)/n · bytes / node rate
    across nodes               p · log2(n) · message        +  p · (n − 1)/n · bytes / min(m · port rate, node rate)

n ranks of a group, m of them in each node; the group's siblings use the ports of the other ranks. Inside a node this is
the price of the ring schedule. Across nodes it is a closed form of what libraries reach by pipelining phases over all
ports of a node, and no verified schedule; it stays above the proved lower bounds. Source of the form: NCCL,
src/graph/tuning.cc; the parameters are those of :class:`lightloom.fabrics.transport.Transport`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics.transport import Library, LibraryWays, ranks_in_node
from lightloom.transports.price import collective_seconds
from lightloom.transports.ways import Task

PASSES: Mapping[Kind, int] = {
    "all-reduce": 2,
    "all-gather": 1,
    "reduce-scatter": 1,
    "all-to-all": 1,
    "broadcast": 1,
    "reduce": 1,
}
"""How often the bytes of a collective pass a rank's link, but for its own share."""


def library_seconds(links: Library, kind: Kind, ranks: Ints, stride: Ints, nbytes: Floats) -> Floats:
    """Return the seconds of collectives, those of their latencies where nothing is sent; 0 where there is one rank.

    Args:
        links: links as the library reaches them.
        kind: of collective.
        ranks: of each group, [rows].
        stride: distance between neighbours of each group, in ranks, [rows].
        nbytes: of each collective, as ``Collective.nbytes``, [rows] or [rows, ...].
    """
    shape = ranks.shape + (1,) * (nbytes.ndim - ranks.ndim)
    together = ranks_in_node(links.node_ranks, ranks, stride)
    if isinstance(links, LibraryWays):
        domains = -(-ranks // together)
        columns = np.broadcast_arrays(ranks.reshape(shape), domains.reshape(shape), nbytes)
        return _by_ways(links, kind, *columns)
    n, inside = ranks.reshape(shape), together.reshape(shape)
    passes = PASSES[kind]
    moved = passes * (n - 1) / n * nbytes
    in_node = links.node_latency + passes / 2 * (n - 1) * links.peer_latency + moved / links.node_rate
    # Of an all-to-all each rank sends over its own port what other nodes need.
    ports = np.ones_like(inside) if kind == "all-to-all" else inside
    rate = np.minimum(ports * links.network_rate, links.node_rate)
    across = passes * np.log2(np.maximum(n, 2)) * links.network_latency + moved / rate
    seconds: Floats = np.where(n > 1, np.where(inside == n, in_node, across), 0.0)
    return seconds


def _by_ways(links: LibraryWays, kind: Kind, ranks: Ints, domains: Ints, nbytes: Floats) -> Floats:
    """Seconds of collectives by the quickest way of a transport with protocols, in the shape of ``nbytes``.

    Columns of strategies repeat few collectives: each is asked for once.
    """
    table = np.stack([ranks.ravel(), domains.ravel(), nbytes.ravel()])
    different, row = np.unique(table, axis=1, return_inverse=True)
    tasks = [Task(kind, int(n), int(across), size) for n, across, size in different.T.tolist()]
    seconds = collective_seconds(tasks, links.tiers, links.transport)
    alone: Floats = np.where(different[0] > 1, seconds, 0.0)[row.ravel()].reshape(nbytes.shape)
    return alone
