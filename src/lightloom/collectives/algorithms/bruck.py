"""Bruck's doubling: every rank passes on all that it holds to the rank 1, 2, 4, ... further on.

    step 1    0 → 1   1 → 2   2 → 3   3 → 4   4 → 0        1 share
    step 2    0 → 2   1 → 3   2 → 4   3 → 0   4 → 1        2 shares
    step 3    0 → 4   1 → 0   2 → 1   3 → 2   4 → 3        1 share, the only one that is still missing

ceil(log2 N) steps for any number of ranks, in which every rank receives every share once. Unlike the partners of
recursive doubling all ranks do the same, so that the rows of rank 0 stand for all where they also go the same way.

Source: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport
message-passing systems", IEEE TPDS 1997, section on concatenation.
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.algorithm import Algorithm, longest_links, rows_by_pair
from lightloom.collectives.schedule.build import Moves, assign_wavelengths, moves
from lightloom.collectives.schedule.columns import Folding, Schedule
from lightloom.collectives.schedule.compose import from_all_gather
from lightloom.collectives.spec import Collective
from lightloom.fabrics.base import Fabric


def bruck(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Bruck's doubling, for any number of ranks; as reduce-scatter it runs backwards (recursive halving)."""
    name, n, senders = "bruck-striped" if striped else "bruck", collective.ranks, _senders(fabric)

    def all_gather(gather: Collective) -> Schedule:
        logical = [_step(n, distance, senders) for distance in _distances(n)]
        schedule = assign_wavelengths(name, gather, fabric, n, logical, striped=striped)
        return schedule if senders > 1 else schedule.with_columns({}, folding=Folding.alike(n, 1))

    # Mirrored, both halves of an all-reduce take the same circuits.
    return from_all_gather(collective, fabric, all_gather, mirrored=fabric.exclusive)


def _distances(ranks: int) -> list[int]:
    return [1 << k for k in range((ranks - 1).bit_length())]


def _step(ranks: int, distance: int, senders: int) -> Moves:
    """The first ``senders`` ranks send the shares of those up to ``distance`` ranks before them that are missing."""
    source, before = np.indices((senders, min(distance, ranks - distance))).reshape(2, -1)
    return moves(source, (source + distance) % ranks, (source - before) % ranks)


def _senders(fabric: Fabric) -> int:
    """Ranks whose sends are written out: one where those of all others go the same way, else all.

    Wavelengths differ from rank to rank, and so may the way to the opposite rank of a ring.
    """
    if fabric.wavelength_routed:
        return fabric.ranks
    rank = np.arange(fabric.ranks)
    ways = (fabric.route(rank, (rank + distance) % fabric.ranks) for distance in _distances(fabric.ranks))
    return 1 if all((way == way[0]).all() for way in ways) else fabric.ranks


def _rows(kind: str, fabric: Fabric) -> int:
    return rows_by_pair(kind, fabric) * _senders(fabric) // fabric.ranks


def _longest_links(kind: str, fabric: Fabric) -> int:  # noqa: ARG001 - all kinds alike
    rank = np.arange(fabric.ranks)
    return max(longest_links(fabric, rank, (rank + distance) % fabric.ranks) for distance in _distances(fabric.ranks))


BRUCK = Algorithm(
    name="bruck",
    build=bruck,
    longest_lightpath=_longest_links,
    rows=_rows,
    by_structure=True,
    summary="pass everything on to the rank 1, 2, 4, ... further on (Bruck's doubling)",
)
