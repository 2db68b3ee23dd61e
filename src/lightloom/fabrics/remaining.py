"""What failures leave of fabrics without wavelengths: grids, graphs, packet switches and planes of circuit switches.

    links between ranks    the links that are left as a graph, on which packets take the shortest ways that there are
    a packet switch        the switch with the ranks that are left
    switch planes          the planes and ranks that are left

A dead node whose light, or router, still passes data on becomes a vertex without a rank.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightloom.core.configfile import validate
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.derived import pairs
from lightloom.fabrics.failures import Failure
from lightloom.fabrics.graph.edges import Edge, Vertex
from lightloom.fabrics.graph.graph import Graph

_OWN = frozenset({"kind", "ranks", "sources", "edges", "one_way", "given_routes"})
"""Fields of a graph that do not come from the fabric; packets are in the rates of its links already."""
_PACKETS = frozenset({"packet_payload", "packet_header", "packet_time"})


def without(fabric: Fabric, failures: Sequence[Failure]) -> Fabric:
    """What these failures, of things that the fabric has, leave of it.

    Raises:
        ConfigError: a node, link or plane that it does not have, or too little left to reach each other.
        UnsupportedError: links that a graph between ranks cannot stand for (:func:`links_between_ranks`).
    """
    dead = {failure.at for failure in failures if failure.what in ("node", "dark-node")}
    for failure in failures:
        if failure.what != "plane":
            _check_node(fabric, failure)
    if fabric.ranks - len(dead) < 2:
        raise ConfigError(f"failures leave {fabric.ranks - len(dead)} of {fabric.ranks} ranks: expected 2 or more")
    if fabric.joins_ranks:
        return _graph(fabric, failures)
    planes = {failure.at for failure in failures if failure.what == "plane"}
    outside = [at for at in planes if not 0 <= at < fabric.channels]
    if outside:
        raise ConfigError(f"plane:{outside[0]}: expected one of {fabric.channels} planes, counted from 0")
    if fabric.switch_planes and len(planes) == fabric.channels:
        raise ConfigError(f"all {len(planes)} planes have failed: expected one that is left")
    fields = fabric.model_dump() | {"ranks": fabric.ranks - len(dead)}
    fields |= {"degree": fabric.channels - len(planes)} if planes else {}
    remaining: Fabric = validate(type(fabric), fields, "failures")
    return remaining


def _check_node(fabric: Fabric, failure: Failure) -> None:
    for node in (failure.at, failure.to):
        if node is not None and not 0 <= node < fabric.ranks:
            raise ConfigError(f"{failure.text()}: expected one of {fabric.ranks} nodes, counted from 0")


def links_between_ranks(fabric: Fabric) -> list[Edge]:
    """The links of a fabric as edges from rank to rank, each one way, at the rates at which they carry data.

    Time: the links of all pairs of ranks.

    Raises:
        UnsupportedError: some link leads to a switch, or two lead from one rank to the same other one, of which a graph
            has one: twice as fast, it would carry more than the sound fabric, whose packets take one of both.
    """
    from scipy.sparse import csgraph, csr_array

    rate, seconds = fabric.link_bandwidth(), fabric.link_latency()
    tail, head = np.full((2, fabric.links), -1, np.int64)
    used, follow = np.zeros(fabric.links, np.bool_), [np.zeros(0, np.int64)]
    for source, destination in pairs(fabric.ranks):
        for route in range(fabric.routes):
            path = fabric.path(source, destination, np.full(len(source), route))
            taken = path >= 0
            used[path[taken]] = True
            row = np.arange(len(path))
            tail[path[row, taken.argmax(axis=1)]] = source
            head[path[row, path.shape[1] - 1 - taken[:, ::-1].argmax(axis=1)]] = destination
            onward = taken[:, 1:] & taken[:, :-1]
            follow.append(np.unique(path[:, :-1][onward] * fabric.links + path[:, 1:][onward]))
    # Where one link leads, the next one begins: both ends are one vertex.
    before, after = np.divmod(np.unique(np.concatenate(follow)), fabric.links)
    meets = csr_array((np.ones(len(after)), (fabric.links + before, after)), shape=(2 * fabric.links,) * 2)
    count, vertex = csgraph.connected_components(meets, directed=False)
    rank = np.full(count, -1, np.int64)
    np.maximum.at(rank, vertex, np.concatenate([tail, head]))
    tail, head = rank[vertex].reshape(2, -1)
    # Between a link to a switch and one from it no rank is known.
    through = np.flatnonzero(used & ((tail < 0) | (head < 0)))
    if len(through):
        raise UnsupportedError(
            f"failures of a {fabric.kind_name} whose {fabric.link_name(int(through[0]))} joins no two ranks are not "
            "modelled: expected links between ranks alone"
        )
    links = np.flatnonzero(used)
    ends, first = np.unique(tail[links] * fabric.ranks + head[links], return_index=True)
    one, other = np.divmod(ends, fabric.ranks)
    if len(ends) < len(links):
        twice = np.delete(links, first)[0]
        raise UnsupportedError(
            f"failures of a {fabric.kind_name} with several links from rank {tail[twice]} to rank {head[twice]} are "
            "not modelled: expected one link from a rank to another"
        )
    columns = one, other, rate[links[first]], seconds[links[first]]
    return [Edge(*link) for link in zip(*(column.tolist() for column in columns), strict=True)]


def _graph(fabric: Fabric, failures: Sequence[Failure]) -> Fabric:
    edges = links_between_ranks(fabric)
    joined = {frozenset((edge.source, edge.target)) for edge in edges}
    cut = {frozenset((failure.at, failure.to)): failure for failure in failures if failure.what == "link"}
    for ends, failure in cut.items():
        if ends not in joined:
            raise ConfigError(f"{failure.text()}: no link joins these nodes")
    dark = {failure.at for failure in failures if failure.what == "dark-node"}
    passing = {failure.at for failure in failures if failure.what == "node"} - dark
    left = [node for node in range(fabric.ranks) if node not in dark | passing]
    vertex: dict[Vertex, Vertex] = {node: rank for rank, node in enumerate(left)}
    vertex |= {node: f"dead node {node}" for node in passing}
    kept = [
        edge._replace(source=vertex[edge.source], target=vertex[edge.target])
        for edge in edges
        if frozenset((edge.source, edge.target)) not in cut and edge.source in vertex and edge.target in vertex
    ]
    if not kept:
        raise ConfigError("failures: no link is left: expected some that join the ranks")
    names = (set(Graph.model_fields) & set(type(fabric).model_fields)) - _OWN - _PACKETS
    fields = {name: getattr(fabric, name) for name in names}
    if fabric.energy_per_bit is not None:
        fields["energy_per_bit"] = fabric.energy_per_bit * fabric.wire_bytes(1.0)
    given = {"ranks": len(left), "edges": kept, "one_way": True, "sources": dict(fabric.sources)}
    graph: Graph = validate(Graph, fields | given, "failures")
    return graph
