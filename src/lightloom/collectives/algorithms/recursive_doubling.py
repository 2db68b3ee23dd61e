"""Recursive doubling: partners at distance 1, 2, 4, ... exchange all that they hold.

    0 ⇄ 1   2 ⇄ 3   4 ⇄ 5   6 ⇄ 7        1 share
    0 ⇄ 2   1 ⇄ 3   4 ⇄ 6   5 ⇄ 7        2 shares
    0 ⇄ 4   1 ⇄ 5   2 ⇄ 6   3 ⇄ 7        4 shares          log2 N exchanges

As all-reduce the partners exchange and add whole vectors. When N is no power of two, N − 2^p ranks first hand their
data to a neighbour and receive the result from it at the end (MPICH's way).

Halving-doubling: recursive halving (a reduce-scatter), then recursive doubling (an all-gather).

    halves of the vector to partners at distance N/2, quarters at N/4, ...; then the sums back the same way

Sources: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005;
Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.algorithm import Algorithm, longest_links, rows_by_rank
from lightloom.collectives.schedule.build import Moves, assign_wavelengths, moves
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.compose import from_all_gather
from lightloom.collectives.spec import Collective
from lightloom.core.arrays import Ints
from lightloom.fabrics.base import Fabric


def recursive_doubling(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Recursive doubling; as reduce-scatter it is run backwards (recursive halving)."""
    name = "recursive-doubling-striped" if striped else "recursive-doubling"
    if collective.kind == "all-reduce":
        return assign_wavelengths(name, collective, fabric, 1, _whole_vectors(collective.ranks), striped=striped)
    return _halving_and_doubling(name, collective, fabric, striped)


def halving_doubling(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Rabenseifner's all-reduce, for any number of ranks (folded to a power of two)."""
    return _halving_and_doubling(
        "halving-doubling-striped" if striped else "halving-doubling", collective, fabric, striped
    )


def _halving_and_doubling(name: str, collective: Collective, fabric: Fabric, striped: bool) -> Schedule:
    n = collective.ranks
    logical = _shares(n)
    return from_all_gather(
        collective, fabric, lambda gather: assign_wavelengths(name, gather, fabric, n, logical, striped=striped)
    )


def _partners(ranks: int) -> list[tuple[Ints, Ints]]:
    """Who sends to whom in each exchange, folding of the ranks beyond a power of two first."""
    members, folded = _members(ranks)
    position = np.arange(len(members))
    exchanges = [(folded, folded - 1)] if len(folded) else []
    distances = [1 << k for k in range(len(members).bit_length() - 1)]
    return exchanges + [(members, members[position ^ distance]) for distance in distances]


def _members(n: int) -> tuple[Ints, Ints]:
    """(ranks that take part, ranks that fold into the one before them): pairs at the front fold until 2^p are left."""
    extra = n - (1 << (n.bit_length() - 1))
    folded = 2 * np.arange(extra, dtype=np.int64) + 1
    return np.setdiff1d(np.arange(n, dtype=np.int64), folded), folded


def _shares(n: int) -> list[Moves]:
    """All-gather: each member i holds the shares [low[i], high[i]) of its block of members."""
    members, folded = _members(n)
    bounds = np.append(members, n)
    logical = [moves(folded, folded - 1, folded)] if len(folded) else []
    position = np.arange(len(members))
    for distance in (1 << k for k in range(len(members).bit_length() - 1)):
        partner = position ^ distance
        low = position & ~(distance - 1)
        size = bounds[low + distance] - bounds[low]
        source = np.repeat(members, size)
        offset = np.arange(len(source)) - np.repeat(np.cumsum(size) - size, size)
        chunk = np.repeat(bounds[low], size) + offset
        logical.append(moves(source, np.repeat(members[partner], size), chunk))
    if len(folded):
        source, chunk = np.repeat(folded - 1, n), np.tile(np.arange(n), len(folded))
        missing = chunk != source + 1
        logical.append(moves(source[missing], source[missing] + 1, chunk[missing]))
    return logical


def _whole_vectors(n: int) -> list[Moves]:
    logical = [moves(source, partner, 0, reduces=True) for source, partner in _partners(n)]
    folded = _members(n)[1]
    return [*logical, moves(folded - 1, folded, 0)] if len(folded) else logical


def _longest_links(kind: str, fabric: Fabric) -> int:  # noqa: ARG001 - all kinds alike
    return max(longest_links(fabric, source, partner) for source, partner in _partners(fabric.ranks))


RECURSIVE_DOUBLING = Algorithm(
    name="recursive-doubling",
    build=recursive_doubling,
    by_structure=True,
    longest_lightpath=_longest_links,
    rows=rows_by_rank,
    summary="exchange everything with partners at distance 1, 2, 4, ...",
)

HALVING_DOUBLING = Algorithm(
    name="halving-doubling",
    build=halving_doubling,
    by_structure=True,
    longest_lightpath=_longest_links,
    kinds=("all-reduce",),
    summary="recursive halving, then recursive doubling (Rabenseifner)",
)
