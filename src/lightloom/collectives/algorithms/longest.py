"""Links of the longest lightpath that each algorithm uses, known before a schedule is built.

Light reaches only so many links (:attr:`lightloom.fabrics.base.Fabric.reach`); an algorithm whose longest lightpath
passes more declines. Each function takes the kind of the collective and the fabric.
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.algorithms.binomial_tree import binomial_levels
from lightloom.collectives.algorithms.optree import longest_optree_links
from lightloom.collectives.algorithms.recursive_doubling import doubling_partners
from lightloom.collectives.algorithms.wrht import longest_wrht_links
from lightloom.core.arrays import Ints
from lightloom.fabrics.base import Fabric


def between_neighbours(kind: str, fabric: Fabric) -> int:  # noqa: ARG001 - all kinds alike
    """Links between neighbours of the ring order."""
    order = fabric.ring_order()
    return _longest(fabric, order, np.roll(order, -1))


def between_all_pairs(kind: str, fabric: Fabric) -> int:  # noqa: ARG001 - all kinds alike
    """Links between the farthest ranks."""
    return fabric.diameter()


def to_the_root(kind: str, fabric: Fabric) -> int:  # noqa: ARG001 - all kinds alike
    """Links between rank 0 and the rank farthest from it."""
    others = np.arange(1, fabric.ranks)
    return _longest(fabric, others, np.zeros_like(others))


def between_doubling_partners(kind: str, fabric: Fabric) -> int:  # noqa: ARG001 - all kinds alike
    """Links between the farthest partners of recursive doubling."""
    return max(_longest(fabric, source, partner) for source, partner in doubling_partners(fabric.ranks))


def along_binomial_edges(kind: str, fabric: Fabric) -> int:  # noqa: ARG001 - all kinds alike
    """Links of the longest edge of the binomial tree."""
    return max(_longest(fabric, child, parent) for child, parent, _ in binomial_levels(fabric.ranks))


def within_wrht_groups(kind: str, fabric: Fabric) -> int:  # noqa: ARG001 - all-reduce alone
    """Links of the longest lightpath of WRHT, whose last stages join distant representatives."""
    return longest_wrht_links(fabric.ranks, fabric.usable_channels)


def between_optree_parts(kind: str, fabric: Fabric) -> int:  # noqa: ARG001 - all kinds alike
    """Links of the longest lightpath of OpTree, which is one of its first stage around the ring."""
    return longest_optree_links(fabric.ranks, fabric.usable_channels)


def _longest(fabric: Fabric, source: Ints, destination: Ints) -> int:
    return int(fabric.hops(source, destination, fabric.route(source, destination)).max())
