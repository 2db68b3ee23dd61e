"""Edge lists: who is joined to whom, in YAML or CSV."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from lightloom.core.errors import ConfigError
from lightloom.core.fields import Bandwidth, Seconds
from lightloom.core.files import cannot_read

Vertex = int | str
"""A rank by its number, or a switch by its name."""
_COLUMNS = ("source", "target", "bandwidth", "latency")


class Edge(NamedTuple):
    """One link of a graph."""

    source: Vertex
    target: Vertex
    bandwidth: Bandwidth
    """Bytes per second, in each direction that the link has."""
    latency: Seconds | None = None
    """Seconds; left out, ``hop_latency`` of the fabric."""


def read_edges(path: Path) -> list[dict[str, Any]]:
    """Return the edges of a CSV file with the columns source, target, bandwidth and, if wanted, latency.

    Raises:
        ConfigError: unreadable, or a column is missing, unknown or empty; names the line.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise cannot_read(path, error) from error
    heading = [cell.strip() for cell in rows[0]] if rows else []
    if not set(_COLUMNS[:3]) <= set(heading) <= set(_COLUMNS) or len(set(heading)) < len(heading):
        raise ConfigError(f"{path}, line 1: {','.join(heading)!r}: expected the columns {','.join(_COLUMNS)}")
    return [
        _edge(dict(zip(heading, (cell.strip() for cell in row), strict=False)), f"{path}, line {number}")
        for number, row in enumerate(rows[1:], 2)
        if row
    ]


def _edge(cells: dict[str, str], where: str) -> dict[str, Any]:
    missing = [name for name in _COLUMNS[:3] if not cells.get(name)]
    if missing:
        raise ConfigError(f"{where}: no {missing[0]}: expected source,target,bandwidth")
    edge: dict[str, Any] = {name: value for name, value in cells.items() if value}
    return edge | {name: vertex_of(cells[name]) for name in ("source", "target")}


def vertex_of(name: Vertex) -> Vertex:
    """Return a vertex as files write it: digits are a rank."""
    return int(name) if isinstance(name, str) and name.isascii() and name.isdecimal() else name


def with_edge_file(fields: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the fields of a fabric, the edges read where they are the name of a CSV file in ``folder``."""
    edges = fields.get("edges")
    if not isinstance(edges, str):
        return dict(fields)
    return dict(fields) | {"edges": read_edges(folder / edges)}


# Edge lists of named topologies.


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
