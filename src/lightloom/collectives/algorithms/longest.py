"""Links of the longest lightpath that an algorithm uses, known before a schedule is built.

Light reaches only so many links (:attr:`lightloom.fabrics.base.Fabric.reach`); an algorithm whose longest lightpath
passes more declines.
"""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.fabrics.base import Fabric


def longest_links(fabric: Fabric, source: Ints, destination: Ints) -> int:
    """Links of the longest of some lightpaths."""
    return int(fabric.hops(source, destination, fabric.route(source, destination)).max())


def links_to_neighbours(kind: str, fabric: Fabric) -> int:  # noqa: ARG001 - all kinds alike
    """Links between neighbours of the ring order."""
    order = fabric.ring_order()
    return longest_links(fabric, order, np.roll(order, -1))
