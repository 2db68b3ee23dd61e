"""Links that join ranks, read off any fabric's geometry, and transfers that trees on packets are made of."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

import numpy as np

from lightloom.collectives.schedule.columns import Folding
from lightloom.core.arrays import Floats, Int32s, Ints
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
        """Return all transfers of a fabric that take a single link, on any of its routes, ordered by the rank that
        receives.

        Raises:
            UnsupportedError: no such transfer enters, or none leaves, some rank.
        """
        links = _read_links(fabric)
        if not (np.diff(links.entering).all() and np.diff(links.leaving).all()):
            raise UnsupportedError(
                f"rounds from neighbour to neighbour on a {fabric.kind_name}: expected links that join ranks"
            )
        return links


class PeriodLinks(NamedTuple):
    """Links of the ranks of the first period of a folding, as the rounds of an all-gather take them: what a rank in
    another copy holds is read off the rank in its place in the first copy."""

    entering: Ints
    """First link that enters each rank of the first period: [rank + 1]."""
    source: Ints
    """Rank of the first copy in the place of the rank that sends: [link]."""
    sender: Ints
    """Row of ``back`` of the copy in which the rank that sends lies: [link]."""
    leaving: Ints
    """First entry of ``head`` of each rank of the first period: [rank + 1]."""
    head: Ints
    """Ranks of the first copy in the places of the ranks one link away from a rank."""
    receiver: Ints
    """Row of ``back`` of the copy in which the rank one link away lies, in the order of ``head``."""
    back: Int32s
    """Chunk that has in the first copy the place that each chunk has in another copy: [row, chunk]."""

    @classmethod
    def of(cls, links: GridLinks, folding: Folding, pieces: int) -> PeriodLinks:
        """Return the links of the first period, with ``pieces`` chunks of each rank."""
        ranks, period = len(links.entering) - 1, folding.period
        entering, leaving = links.entering[: period + 1], links.leaving[: period + 1]
        source, head = links.source[: entering[-1]], links.head[: leaving[-1]]
        copies, row = np.unique(np.concatenate([source, head]) // period, return_inverse=True)
        owner, piece = np.divmod(np.arange(ranks * pieces), pieces)
        back = folding.moved(owner, copies[:, None], back=True) * pieces + piece
        sender, receiver = np.split(row, [len(source)])
        return cls(entering, source % period, sender, leaving, head % period, receiver, back.astype(np.int32))


def repetition(fabric: Fabric) -> Folding:
    """Return the folding with the fewest ranks in a period under which the links that join ranks repeat: every copy of
    a link is a link of the same route, bandwidth and latency. Copies lie on the outermost axes of the fabric; without
    such a repetition all ranks are one period."""
    links, sizes = GridLinks.of(fabric), tuple(axis.size for axis in fabric.axes)
    ends = links.source, links.destination, links.route
    path = fabric.path(*ends)
    rate, latency = fabric.link_bandwidth()[path.max(axis=1)], fabric.latency(*ends)
    own = np.lexsort(ends)
    columns = np.stack([*ends, rate, latency])[:, own]
    if prod(sizes) != fabric.ranks:
        sizes = (fabric.ranks,)
    for first in range(len(sizes)):
        folding, step = Folding.along(prod(sizes[:first]), sizes[first:]), 1
        for size in folding.axes:
            moved = *(folding.moved(end, np.full(len(end), step)) for end in ends[:2]), links.route
            if (np.stack([*moved, rate, latency])[:, np.lexsort(moved)] != columns).any():
                break
            step *= size
        else:
            return folding
    return Folding.alike(fabric.ranks, fabric.ranks)


@cached
def _read_links(fabric: Geometry) -> GridLinks:
    """Return all transfers of a geometry that take a single link, ordered by the rank that receives, whether or not
    every rank has one."""
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
    """Yield source, destination and route, [transfer] each, of every transfer that takes a single link, route by route
    and for each route in blocks of senders."""
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
        """Return transfers between neighbours where links between ranks join all of them, otherwise from each rank to
        every other on the route that the fabric chooses; ordered by source.

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
