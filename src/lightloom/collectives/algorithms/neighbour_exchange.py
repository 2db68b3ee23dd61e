"""Neighbour exchange: pairs swap what they last received, then the pairs shift by one.

    0 ⇄ 1   2 ⇄ 3   4 ⇄ 5        own shares
    1 ⇄ 2   3 ⇄ 4   5 ⇄ 0        the two shares last obtained
    0 ⇄ 1   2 ⇄ 3   4 ⇄ 5        the two shares last obtained ...      N / 2 steps, N even

Every step but the first moves two shares. OpTree's text says so, yet its averages charge one share a step. Both are
real schedules: the two shares on one wavelength (2d a step), or side by side on two (d a step).

Source: Chen, Zhang, Zhang and Yuan, "Performance of a new allgather algorithm on terascale deepcomp 6800", 2005;
OpTree, Table I.
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.algorithm import Algorithm, links_to_neighbours
from lightloom.collectives.schedule.build import Moves, Stage, assign_wavelengths, moves, staged
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.compose import from_all_gather
from lightloom.collectives.spec import Collective
from lightloom.fabrics.base import CLOCKWISE, COUNTERCLOCKWISE, Fabric


def neighbour_exchange_steps(ranks: int) -> int:
    """All-gather steps: N / 2, for even N only (OpTree, Table I)."""
    return ranks // 2


def neighbour_exchange(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Two shares a step follow each other on one lightpath (which bundles all wavelengths when striped)."""
    name = "neighbour-exchange-striped" if striped else "neighbour-exchange"
    n = collective.ranks
    return from_all_gather(
        collective, fabric, lambda gather: assign_wavelengths(name, gather, fabric, n, _moves(n), striped=striped)
    )


def neighbour_exchange_pairs(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:  # noqa: ARG001 - every algorithm takes it
    """Two shares a step travel side by side on two wavelengths, so that a step charges one share."""
    n = collective.ranks

    def all_gather(gather: Collective) -> Schedule:
        stages = []
        for step, swaps in enumerate(_moves(n)):
            route = np.where((swaps.destination - swaps.source) % n == 1, CLOCKWISE, COUNTERCLOCKWISE)
            second = np.arange(len(route)) % 2 if step else np.zeros(n, np.int64)
            stages.append(Stage(swaps.source, swaps.destination, swaps.chunk, route, second, 2))
        return staged("neighbour-exchange-pairs", gather, fabric, stages, chunks=n, striped=False)

    return from_all_gather(collective, fabric, all_gather)


def _moves(n: int) -> list[Moves]:
    rank = np.arange(n, dtype=np.int64)
    even = rank % 2 == 0
    fresh = rank[:, None]
    logical: list[Moves] = []
    for step in range(n // 2):
        ahead = even if step % 2 == 0 else ~even
        partner = np.where(ahead, rank + 1, rank - 1) % n
        logical.append(moves(np.repeat(rank, fresh.shape[1]), np.repeat(partner, fresh.shape[1]), fresh.ravel()))
        received = fresh[partner]
        fresh = np.concatenate([rank[:, None], received], axis=1) if step == 0 else received
    return logical


NEIGHBOUR_EXCHANGE = Algorithm(
    name="neighbour-exchange",
    build=neighbour_exchange,
    by_structure=True,
    longest_lightpath=links_to_neighbours,
    even_ranks=True,
    summary="pairs swap what they last received, two shares one after the other",
)


NEIGHBOUR_EXCHANGE_PAIRS = Algorithm(
    name="neighbour-exchange-pairs",
    build=neighbour_exchange_pairs,
    by_structure=True,
    longest_lightpath=links_to_neighbours,
    even_ranks=True,
    needs="wdm-ring",
    least_channels=2,
    summary="pairs swap two shares side by side on two wavelengths",
)
