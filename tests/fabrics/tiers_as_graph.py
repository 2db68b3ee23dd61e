"""Fabrics of tiers as graphs, link by link.

Tiers say nothing of what joins ranks to a port that they share, so that nothing there may take time. In the graph each
such rank has a link to the port for every link that leads on from it, as fast and without latency, and one back for
every link that arrives: whatever crosses one of them in order crosses the port's link in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Effort
from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics.derived import Footprint, links_of
from lightloom.machines.fabrics.graph import Edge, Graph, Vertex, vertex_of
from lightloom.machines.fabrics.tiers.tier import Level
from lightloom.machines.fabrics.tiers.tiers import Tiers

_ROUTED: Effort = 64
"""Most ranks whose routes are written down one by one."""


class _Link(NamedTuple):
    """A link of a level, by its number in the fabric."""

    number: int
    tail: Vertex
    head: Vertex


def to_graph(fabric: Tiers) -> Graph:
    """The fabric's links as a graph, with its routes up to 64 ranks and shortest ones beyond.

    Prices, latencies and loads are the same; so are hops, except where ranks share ports.
    """
    links = [link for level in fabric.levels for link in _level_links(level)]
    bandwidth, latency = fabric.link_bandwidth(), fabric.link_latency()
    edges = [Edge(tail, head, float(bandwidth[number]), float(latency[number])) for number, tail, head in links]
    for level in (level for level in fabric.levels if level.beneath is None and level.sharing > 1):
        seats = {_port(level, seat): seat for seat in range(level.seats)}
        for number, tail, head in links:
            rate = float(bandwidth[number])
            edges += [Edge(rank, tail, rate, 0.0) for rank in _sharing(level, seats.get(tail))]
            edges += [Edge(head, rank, rate, 0.0) for rank in _sharing(level, seats.get(head))]
    routes = _routes(fabric, links) if fabric.ranks <= _ROUTED else ()
    common = {name: getattr(fabric, name) for name in ("energy_per_bit", "power_per_rank")}
    return Graph(ranks=fabric.ranks, edges=tuple(edges), one_way=True, given_routes=routes, **common)


def _sharing(level: Level, seat: int | None) -> range:
    """The ranks that share a port; none where there is no port."""
    return range(0) if seat is None else range(seat * level.sharing, (seat + 1) * level.sharing)


def _port(level: Level, seat: int) -> Vertex:
    """The vertex at which a level's links begin: a rank, a port that ranks share, or a switch beneath."""
    if level.beneath is not None:
        group, plane = divmod(seat, level.planes)
        return _switch(level.beneath, group, plane)
    return seat if level.sharing == 1 else f"{level.label} port {seat}"


def _switch(level: Level, group: int, plane: int) -> str:
    """The switch of a group, or of one of its rails."""
    return f"{level.label} switch {group}" if level.joined else f"{level.label} switch {group} of rail {plane}"


def _level_links(level: Level) -> Iterator[_Link]:
    """The links of a level that transfers may take."""
    if not level.switched:
        yield from _direct_links(level)
        return
    per_group = level.seats // (level.ranks // level.group)
    for seat in range(level.seats):
        group, plane = seat // per_group, seat % level.planes
        target: Vertex = _switch(level, group, plane)
        if level.tree:
            target = f"{level.label} leaf {seat * level.sharing // level.child}"
        yield _Link(level.base + seat, _port(level, seat), target)
        yield _Link(level.base + level.seats + seat, target, _port(level, seat))
    if level.tree:
        children, base = level.ranks // level.child, level.base + 2 * level.seats
        for child in range(children):
            leaf, switch = f"{level.label} leaf {child}", _switch(level, child // level.size, 0)
            yield _Link(base + child, leaf, switch)
            yield _Link(base + children + child, switch, leaf)


def _direct_links(level: Level) -> Iterator[_Link]:
    """Links between children: those of a grid, or of a full mesh."""
    copies = level.ranks // level.group * level.planes
    for link in range(level.links):
        if level.is_grid:
            axis, copy, origin, end, forward = level.lattice.ends(link, copies)
            if level.dims[axis] == 1 or (level.tier.shape == "mesh" and (end < origin) == forward):
                continue
        else:
            copy, pair = divmod(link, level.size * (level.size - 1))
            origin, end = divmod(pair, level.size - 1)
            end += end >= origin
        group, plane = divmod(copy, level.planes)
        tail, head = (_port(level, (group * level.size + place) * level.planes + plane) for place in (origin, end))
        yield _Link(level.base + link, tail, head)


class _Ends(NamedTuple):
    """The vertices of a link, as routes name them."""

    tail: Vertex
    head: Vertex
    leaving: int
    """Links that leave the tail before this one."""
    arriving: int
    """Links that arrive at the head before this one."""


def _numbered(vertex: Vertex, twin: int) -> Vertex:
    """A vertex reached over the link of this number, from 0, among those that join it to the vertex before."""
    return f"{vertex}#{twin}" if twin else vertex


def _ends_of(links: list[_Link]) -> dict[int, _Ends]:
    """The ends of every link by its number."""
    twins = Counter[tuple[Vertex, Vertex]]()
    leaving, arriving = Counter[Vertex](), Counter[Vertex]()
    ends: dict[int, _Ends] = {}
    for number, tail, head in links:
        ends[number] = _Ends(tail, _numbered(head, twins[tail, head]), leaving[tail], arriving[head])
        twins[tail, head] += 1
        leaving[tail] += 1
        arriving[head] += 1
    return ends


def _routes(fabric: Tiers, links: list[_Link]) -> tuple[tuple[Vertex, ...], ...]:
    """The vertices that every transfer passes, tier by tier."""
    ends = _ends_of(links)
    routes: list[tuple[Vertex, ...]] = []
    for source, destination in derived.pairs(fabric.ranks):
        ways: list[list[Vertex]] = [[rank] for rank in destination.tolist()]  # from the end, tier by tier
        for level, crosses, gateway, target in fabric.crossings(source, destination):
            rows = np.flatnonzero(crosses)
            runs = [run[:4] for run, _ in level.runs(gateway[rows], target[rows])]
            transfer, link = links_of(Footprint.of(runs)) if len(rows) else (rows, rows)
            begins = np.searchsorted(transfer, np.arange(len(rows) + 1))
            for place, row in enumerate(rows.tolist()):
                taken = [ends[number] for number in link[begins[place] : begins[place + 1]].tolist()]
                ways[row] = [*_walk(level, int(gateway[row]), int(target[row]), taken), *ways[row][1:]]
        routes += [tuple(way) for way in ways]
    return tuple(routes)


def _walk(level: Level, start: int, end: int, links: list[_Ends]) -> list[Vertex]:
    """The links of a transfer over one tier, in order, as the vertices from rank to rank."""
    ahead = {link.tail: link for link in links}
    place = _port(level.root, int(level.root.seat(np.array([start]))[0]))
    way: list[Vertex] = [start] if place == start else [start, _numbered(place, ahead[place].leaving)]
    arriving = 0
    while place in ahead:
        way.append(ahead[place].head)
        arriving = ahead[place].arriving
        place = vertex_of(str(way[-1]).partition("#")[0])
    return way if place == end else [*way, _numbered(end, arriving)]
