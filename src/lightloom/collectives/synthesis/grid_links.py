"""Links that join ranks, read off any fabric's geometry, and transfers that trees on packets are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.derived import Geometry, cached, pairs
from lightloom.machines.fabrics.fabric import Fabric


class GridLinks(NamedTuple):
    """Transfers that take one link, by the rank that they enter."""

    source: Ints
    """Rank that sends: [link]."""
    destination: Ints
    """Rank that receives: [link]."""
    route: Ints
    """Route of the transfer, as the fabric numbers them: [link]."""
    entering: Ints
    """First link that enters each rank: [rank + 1]."""
    leaving: Ints
    """First entry of ``head`` of each rank: [rank + 1]."""
    head: Ints
    """Ranks one link away from a rank."""

    @classmethod
    def of(cls, fabric: Fabric) -> GridLinks:
        """Return the links of a fabric, whatever its geometry.

        Raises:
            UnsupportedError: some rank has no neighbour at the other end of a single link.
        """
        links = _read_links(fabric)
        if not (np.diff(links.entering).all() and np.diff(links.leaving).all()):
            raise UnsupportedError(
                f"rounds from neighbour to neighbour on a {fabric.kind_name}: expected links that join ranks"
            )
        return links


@cached
def _read_links(fabric: Geometry) -> GridLinks:
    """Return the links of a geometry by the rank that they enter, whether or not every rank has one."""
    columns = [np.concatenate(parts) for parts in zip(*_neighbour_transfers(fabric), strict=True)]
    destination = columns[1]
    order = np.argsort(destination, kind="stable")
    source, destination, route = (column[order] for column in columns)
    rank = np.arange(fabric.ranks + 1)
    out = np.argsort(source, kind="stable")
    entering, leaving = np.searchsorted(destination, rank), np.searchsorted(source[out], rank)
    return GridLinks(source, destination, route, entering, leaving, destination[out])


def neighbours_join(fabric: Fabric) -> bool:
    """Return True when packets get from every rank to every other over links between ranks alone."""
    if not fabric.joins_ranks:
        return False
    links = GridLinks.of(fabric)
    return join_all(fabric.ranks, links.source, links.destination)


def join_all(ranks: int, source: Ints, destination: Ints) -> bool:
    """Return True when links or circuits with these ends, [link] each, lead from every rank to every other."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(source)), (source, destination)), shape=(ranks, ranks))
    return bool(connected_components(graph, connection="strong", return_labels=False) == 1)


def _neighbour_transfers(fabric: Geometry) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield source, destination and route of every transfer that takes a single link, in blocks of senders."""
    for route in range(fabric.routes):
        for source, destination in pairs(fabric.ranks):
            routes = np.full(len(source), route, np.int64)
            near = fabric.hops(source, destination, routes) == 1
            yield source[near], destination[near], routes[near]


class Transfers(NamedTuple):
    """Transfers from rank to rank, ordered by the rank that sends: arrays [transfer]."""

    first: Ints
    """First transfer of each rank: [rank + 1]."""
    source: Ints
    destination: Ints
    route: Ints
    latency: Floats
    """Seconds from the last byte sent to its arrival: [transfer]."""
    begins: Ints
    """First entry of ``link`` of each transfer: [transfer + 1]."""
    link: Ints
    """Links of all transfers, one after the other."""
    seconds_per_byte: Floats
    """Seconds that a byte takes on each entry of ``link``."""

    @classmethod
    def of(cls, fabric: Fabric, *, backward: bool = False) -> Transfers:
        """Return transfers between neighbours where links join all ranks, otherwise from each rank to every other.

        Args:
            backward: transfers of trees that run towards their root: each is named by its ends in the tree that is
                grown away from the root, and occupies the links from its destination to its source.
        """
        if neighbours_join(fabric):
            links = GridLinks.of(fabric)
            source, destination, route = links.source, links.destination, links.route
            if backward:
                source, destination = destination, source
        else:
            source, destination = np.concatenate([np.stack(ends) for ends in pairs(fabric.ranks)], axis=1)
            route = fabric.route(destination, source) if backward else fabric.route(source, destination)
        order = np.argsort(source, kind="stable")
        source, destination, route = source[order], destination[order], route[order]
        ends = (destination, source) if backward else (source, destination)
        path = fabric.path(*ends, route)
        begins = np.concatenate([[0], np.cumsum((path >= 0).sum(axis=1))])
        link = path[path >= 0]
        first, latency = np.searchsorted(source, np.arange(fabric.ranks + 1)), fabric.latency(*ends, route)
        return cls(first, source, destination, route, latency, begins, link, 1 / fabric.link_bandwidth()[link])
