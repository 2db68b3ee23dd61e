"""Transfers that trees on a packet fabric may be made of, with the links that each occupies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.collectives.synthesis.grid_links import GridLinks, neighbours_join
from lightloom.core.arrays import Floats, Ints
from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics.fabric import Fabric


class Transfers(NamedTuple):
    """Transfers from rank to rank, ordered by the rank that sends: arrays [transfer]."""

    first: Ints
    """First transfer of each rank: [rank + 1]."""
    source: Ints
    destination: Ints
    route: Ints
    latency: Floats
    """Seconds."""
    begins: Ints
    """First entry of ``link`` of each transfer: [transfer + 1]."""
    link: Ints
    """Links of all transfers, one after the other."""
    seconds_per_byte: Floats
    """Of each entry of ``link``."""

    @classmethod
    def of(cls, fabric: Fabric, *, backward: bool = False) -> Transfers:
        """From neighbour to neighbour where links join all ranks, otherwise from every rank to every other.

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
            source, destination = np.concatenate([np.stack(ends) for ends in derived.pairs(fabric.ranks)], axis=1)
            route = fabric.route(destination, source) if backward else fabric.route(source, destination)
        order = np.argsort(source, kind="stable")
        source, destination, route = source[order], destination[order], route[order]
        ends = (destination, source) if backward else (source, destination)
        path = fabric.path(*ends, route)
        begins = np.concatenate([[0], np.cumsum((path >= 0).sum(axis=1))])
        link = path[path >= 0]
        return cls(
            np.searchsorted(source, np.arange(fabric.ranks + 1)),
            source,
            destination,
            route,
            fabric.latency(*ends, route),
            begins,
            link,
            1 / fabric.link_bandwidth()[link],
        )
