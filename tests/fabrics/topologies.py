"""Edge lists of named topologies."""

from __future__ import annotations

from itertools import combinations

from lightloom.machines.fabrics.graph import Edge


def hypercube(dimensions: int, bandwidth: float, latency: float | None = None) -> tuple[Edge, ...]:
    """Return the links between the 2 ** ``dimensions`` ranks whose numbers differ in one bit."""
    return tuple(
        Edge(rank, rank | 1 << bit, bandwidth, latency)
        for rank in range(1 << dimensions)
        for bit in range(dimensions)
        if not rank >> bit & 1
    )


def dragonfly(
    groups: int, routers: int, ranks: int, bandwidth: float, global_links: int = 1, latency: float | None = None
) -> tuple[Edge, ...]:
    """Return the groups of routers with ``ranks`` ranks each; routers of a group are fully joined, and so are groups.

    Every two groups have ``global_links`` links, at routers that take turns.

    Source: Kim, Dally, Scott and Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008.
    """
    name = [[f"router {group}.{router}" for router in range(routers)] for group in range(groups)]
    edges = [
        Edge((group * routers + router) * ranks + rank, name[group][router], bandwidth, latency)
        for group in range(groups)
        for router in range(routers)
        for rank in range(ranks)
    ]
    for group in range(groups):
        edges += [Edge(one, other, bandwidth, latency) for one, other in combinations(name[group], 2)]
    turn = [0] * groups
    for pair in combinations(range(groups), 2):
        for _ in range(global_links):
            ends = [name[group][turn[group] % routers] for group in pair]
            edges.append(Edge(ends[0], ends[1], bandwidth, latency))
            for group in pair:
                turn[group] += 1
    return tuple(edges)
