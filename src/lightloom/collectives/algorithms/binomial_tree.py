"""Binomial tree: pairs at distance 1, 2, 4, ... combine until rank 0 has everything, and the way back.

    0                              as all-reduce: whole vectors are added on the way up and copied on the way down
    ├─ 1                           as all-gather: shares are gathered at rank 0, which hands every rank what it lacks
    ├─ 2 ── 3
    └─ 4 ┬─ 5
         └─ 6 ── 7

Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.algorithms._rooted import up_and_down
from lightloom.collectives.algorithms.longest import longest_links
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import FROM_ALL_GATHER, ROOTED, Collective
from lightloom.core.arrays import Ints
from lightloom.fabrics.base import Fabric


def binomial_rounds(ranks: int) -> int:
    """Rounds up, and as many down: ceil(log2 N)."""
    return (ranks - 1).bit_length()


def binomial_tree(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Binomial tree to rank 0 and back, for any number of ranks."""
    return up_and_down("binomial-tree", collective, fabric, binomial_levels(collective.ranks), striped)


def binomial_levels(ranks: int) -> list[tuple[Ints, Ints, int]]:
    """Children, their parents and the ranks of a child's subtree, leaves first."""
    distances = [1 << k for k in range(binomial_rounds(ranks))]
    return [(np.arange(d, ranks, 2 * d), np.arange(d, ranks, 2 * d) - d, d) for d in distances]


def _longest_edge(kind: str, fabric: Fabric) -> int:  # noqa: ARG001 - all kinds alike
    return max(longest_links(fabric, child, parent) for child, parent, _ in binomial_levels(fabric.ranks))


BINOMIAL_TREE = Algorithm(
    name="binomial-tree",
    build=binomial_tree,
    longest_lightpath=_longest_edge,
    kinds=(*FROM_ALL_GATHER, *ROOTED),
    summary="up a binomial tree to rank 0, and back",
)
