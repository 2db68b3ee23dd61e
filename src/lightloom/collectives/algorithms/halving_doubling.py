"""Halving-doubling: recursive halving (a reduce-scatter), then recursive doubling (an all-gather).

    halves of the vector to partners at distance N/2, quarters at N/4, ...; then the sums back the same way

Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
"""

from __future__ import annotations

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.algorithms.recursive_doubling import doubling_shares, longest_doubling_links
from lightloom.collectives.schedule.build import assign_wavelengths
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.compose import from_all_gather
from lightloom.collectives.spec import Collective
from lightloom.fabrics.base import Fabric


def halving_doubling(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Rabenseifner's all-reduce, for any number of ranks (folded to a power of two)."""
    name = "halving-doubling-striped" if striped else "halving-doubling"
    n = collective.ranks
    logical = doubling_shares(n)
    return from_all_gather(
        collective, fabric, lambda gather: assign_wavelengths(name, gather, fabric, n, logical, striped=striped)
    )


HALVING_DOUBLING = Algorithm(
    name="halving-doubling",
    build=halving_doubling,
    longest_lightpath=longest_doubling_links,
    kinds=("all-reduce",),
    summary="recursive halving, then recursive doubling (Rabenseifner)",
)
