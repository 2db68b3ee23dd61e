"""Trees of ForestColl, from its own generator."""

from __future__ import annotations

import importlib
import sys
import time
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.rivals.fabrics import Links
from benchmarks.rivals.spread import Spread
from lightloom.core.errors import InputError

Edge = tuple[Any, Any]


def _generator(sources: Path) -> ModuleType:
    if not (sources / "pipeline_allgather.py").is_file():
        raise InputError(f"{sources}: expected the sources of ForestColl, with pipeline_allgather.py")
    if str(sources) not in sys.path:
        sys.path.insert(0, str(sources))
    return importlib.import_module("pipeline_allgather")


def between_ranks(links: Links) -> list[tuple[Edge, int]]:
    """Links with their capacity, all alike."""
    return [((int(a), int(b)), 1) for a, b in zip(links.source, links.destination, strict=True)]


def through_switches(ranks: int, node: int, inside: int, outside: int) -> list[tuple[Edge, int]]:
    """Links of nodes of GPUs: to the switch of the node, and where there are several nodes to the network.

    Args:
        inside, outside: what a GPU sends into its node and into the network, in one unit.
    """
    edges = []
    for rank in range(ranks):
        switches = [(("node", rank // node), inside)] + ([(("network", 0), outside)] if ranks > node else [])
        edges += [(ends, rate) for switch, rate in switches for ends in ((rank, switch), (switch, rank))]
    return edges


def forestcoll(sources: Path, edges: list[tuple[Edge, int]], ranks: int, trees: int | None) -> Spread:
    """The all-gather over so many trees for each rank; None: as many as the greatest throughput needs."""
    import networkx

    begun = time.process_time()
    # Its generator sorts names of ranks and of switches, so that all are tuples.
    graph = networkx.DiGraph()
    graph.add_edges_from((_named(a), _named(b), {"capacity": rate}) for (a, b), rate in edges)
    names = [_named(rank) for rank in range(ranks)]
    (_, pieces), (paths, counts) = _generator(sources).optimal_pipeline_spanning_trees(
        graph, compute_nodes=names, fixed_K=trees
    )
    spent = time.process_time() - begun
    used = {name: count() for name in names}
    sends = []
    for (root, number), tree in paths.items():
        depth = {root: 0}
        ends = [(path[0][0], path[-1][-1]) for path in tree]
        while len(depth) < ranks:
            depth |= {b: depth[a] + 1 for a, b in ends if a in depth and b not in depth}
        for _ in range(counts[root, number]):
            chunk = root[1] * pieces + next(used[root])
            sends += [(depth[a], a[1], b[1], chunk) for a, b in ends]
    step, source, destination, chunks = np.array(sends, np.int64).T
    return Spread(step, source, destination, chunks, pieces, spent)


def _named(node: Any) -> tuple[str, int]:
    return node if isinstance(node, tuple) else ("GPU", node)
