"""Links that join ranks, read off any fabric's geometry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.derived import Geometry, cached
from lightloom.machines.fabrics.fabric import Fabric

_BLOCK = 1 << 20


class GridLinks(NamedTuple):
    """Transfers that take one link, by the rank that they enter."""

    source: Ints
    """[link]."""
    destination: Ints
    """[link]."""
    route: Ints
    """[link]."""
    entering: Ints
    """First link that enters each rank: [rank + 1]."""
    leaving: Ints
    """First entry of ``head`` of each rank: [rank + 1]."""
    head: Ints
    """Ranks one link away from a rank."""

    @classmethod
    def of(cls, fabric: Fabric) -> GridLinks:
        """The links of a fabric, whatever its geometry.

        Raises:
            UnsupportedError: some rank has no neighbour at the other end of a single link.
        """
        links = _links(fabric)
        if not (np.diff(links.entering).all() and np.diff(links.leaving).all()):
            raise UnsupportedError(
                f"rounds from neighbour to neighbour on a {fabric.kind_name}: expected links that join ranks"
            )
        return links


@cached
def _links(fabric: Geometry) -> GridLinks:
    columns = [np.concatenate(parts) for parts in zip(*_neighbours(fabric), strict=True)]
    destination = columns[1]
    order = np.argsort(destination, kind="stable")
    source, destination, route = (column[order] for column in columns)
    rank = np.arange(fabric.ranks + 1)
    out = np.argsort(source, kind="stable")
    return GridLinks(
        source,
        destination,
        route,
        np.searchsorted(destination, rank),
        np.searchsorted(source[out], rank),
        destination[out],
    )


def neighbours_join(fabric: Fabric) -> bool:
    """Whether packets get from every rank to every other over links between ranks alone."""
    from scipy.sparse import csgraph, csr_array

    if not fabric.joins_ranks:
        return False
    links = GridLinks.of(fabric)
    joined = csr_array((np.ones(len(links.source)), (links.source, links.destination)), shape=(fabric.ranks,) * 2)
    return int(csgraph.connected_components(joined, directed=True, connection="strong")[0]) == 1


def _neighbours(fabric: Geometry) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Source, destination and route of every transfer that takes a single link."""
    rows = max(_BLOCK // fabric.ranks, 1)
    for route in range(fabric.routes):
        for begin in range(0, fabric.ranks, rows):
            source, destination = (
                axis.ravel() for axis in np.indices((min(rows, fabric.ranks - begin), fabric.ranks), dtype=np.int64)
            )
            source = source + begin
            differ = source != destination
            source, destination = source[differ], destination[differ]
            routes = np.full(len(source), route, np.int64)
            near = fabric.hops(source, destination, routes) == 1
            yield source[near], destination[near], routes[near]
