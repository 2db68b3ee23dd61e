"""Rounds on packet fabrics whose links join ranks: meshes, tori, electrical rings.

    round r    every link carries at most so many chunks, each to a rank that lacks it, one hop at a time

A step costs its busiest link and its longest way, and steps follow each other. So every all-gather, however it sends,
pays at least D hops of latency for the D links between the farthest ranks, and (N − 1) d over what the poorest rank
receives: a corner of a mesh by two links. These rounds come near both at once. The poorest rank receives over all its
links, in round r, what lies r links away, which sets the budgets of the links; others lag behind and catch up, as what
leads farthest goes first. Where that leaves some behind, the same budgets stretch over a few more rounds.

An all-reduce is that backwards and forwards, or runs over trees (:mod:`.trees`), or doubles, whatever is fastest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.algorithms.recursive_doubling import recursive_doubling
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.build import Rows, assemble
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.compose import from_all_gather
from lightloom.collectives.spec import Collective
from lightloom.collectives.synthesis.grid.links import GridLinks
from lightloom.collectives.synthesis.grid.trees import over_trees
from lightloom.core.arrays import Ints
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric

_MOST_ROWS = 1 << 23
"""Of an all-gather in several pieces a share; a single piece is never refused."""
_PIECES = (1, 2, 4)
"""Of a share, where its whole does not divide evenly among the links of a rank."""


class _Rows(NamedTuple):
    """What passes which link in which round: arrays [row]."""

    round: NDArray[np.int32]
    link: NDArray[np.int32]
    chunk: NDArray[np.int32]


class _Rounds:
    """An all-gather in rounds; its rows, as many as ranks² · pieces, are made again after they were dropped."""

    def __init__(self, links: GridLinks, beyond: NDArray[np.int16], pieces: int, allowed: Ints) -> None:
        """``beyond`` is that of the kernels, ``allowed`` the most chunks on a link in each round."""
        self.pieces = pieces
        self._flooded, self._rows = (links, beyond, pieces, allowed), None
        rows, number = self.rows, len(links.source)
        cell = rows.round.astype(np.int64) * number + rows.link
        rounds = int(rows.round.max()) + 1
        self.budgets: Ints = np.bincount(cell, minlength=rounds * number).reshape(rounds, -1).max(axis=1)
        """Chunks on the busiest link of each round."""

    _rows: _Rows | None

    @property
    def rows(self) -> _Rows:
        """Which chunk passes which link in which round."""
        if self._rows is None:
            self._rows = _flood(*self._flooded)
        return self._rows

    def drop_rows(self) -> None:
        """Keep what decides about them only."""
        self._rows = None

    def seconds(self, hop: float, share: float) -> float:
        """Of all rounds, where a share takes ``share`` seconds on a link."""
        return len(self.budgets) * hop + float(self.budgets.sum()) * share / self.pieces


def in_rounds(collective: Collective, fabric: Fabric) -> Schedule:
    """All-gather, reduce-scatter or all-reduce in steps, the fastest of some, not yet verified.

    Time: linear in ranks² · pieces for each of a few numbers of rounds.

    Raises:
        UnsupportedError: the fabric's links do not join ranks, or it switches circuits.
    """
    return min([*rounds_and_trees(collective, fabric), *doubling(collective, fabric)], key=_seconds_on(fabric))


def rounds_and_trees(collective: Collective, fabric: Fabric) -> list[Schedule]:
    """Schedules of steps whose ranks pass on nothing of which they still wait for a part.

    The fastest rounds, the fastest with whole shares, those that use links best, those in the fewest steps, and
    all-reduces over trees.

    Raises:
        UnsupportedError: the fabric's links do not join ranks, or it switches circuits.
    """
    if fabric.exclusive or fabric.in_network_reduction:
        raise UnsupportedError("rounds from neighbour to neighbour need links that carry packets between ranks")
    trees = [over_trees(collective, fabric, fabric.grid)] if fabric.grid and collective.kind == "all-reduce" else []
    return [*_gathered(collective, fabric), *trees]


def doubling(collective: Collective, fabric: Fabric) -> list[Schedule]:
    """An all-reduce of whole vectors, whose ranks go on adding to what they have sent; none of other kinds."""
    if collective.kind != "all-reduce":
        return []
    steps = recursive_doubling(collective, fabric)
    return [replace(steps, algorithm="synthesized", notes=("partners at 1, 2, 4, ... swap all",))]


def _seconds_on(fabric: Fabric) -> Callable[[Schedule], float]:
    return lambda schedule: cost(schedule, fabric).time


def _gathered(collective: Collective, fabric: Fabric) -> list[Schedule]:
    links = GridLinks.of(fabric)
    share, hop = collective.nbytes_per_rank / float(fabric.link_bandwidth().min()), fabric.hop_latency
    chosen = _chosen(links, hop, share)
    return [
        from_all_gather(collective, fabric, lambda gather, rounds=rounds: _scheduled(gather, fabric, links, rounds))  # type: ignore[misc]
        for rounds in chosen
    ]


_searched: OrderedDict[tuple[bytes, ...], list[_Rounds]] = OrderedDict()
"""Rounds on the grids that were searched last, whatever the size and the kind: rows are kept of those chosen last."""
_GRIDS = 2


def _chosen(links: GridLinks, hop: float, share: float) -> list[_Rounds]:
    """The first rounds, the fastest, the fullest, and the fastest with whole shares, in the order of the search."""
    key = tuple(column.tobytes() for column in links)
    known, searched = _searched.pop(key, None), []
    chosen: list[_Rounds] = []
    for rounds in _candidates(links) if known is None else known:
        searched.append(rounds)
        rivals = [*chosen, rounds]
        fastest = min(rivals, key=lambda one: one.seconds(hop, share))
        fullest = min(rivals, key=lambda one: (int(one.budgets.sum()) / one.pieces, len(one.budgets)))
        whole = min((one for one in rivals if one.pieces == 1), key=lambda one: one.seconds(hop, share))
        chosen = [one for one in rivals if any(one is kept for kept in (rivals[0], fastest, fullest, whole))]
        for rival in rivals if known is None else ():
            if rival not in chosen:
                rival.drop_rows()
    for rounds in searched:
        if rounds not in chosen:
            rounds.drop_rows()
    _searched[key] = searched
    if len(_searched) > _GRIDS:
        _searched.popitem(last=False)
    return chosen


def _candidates(links: GridLinks) -> Iterator[_Rounds]:
    """Ever more pieces, and for each number of them ever more rounds, until nothing is left to gain."""
    from lightloom.collectives.synthesis.grid import _round_kernels as kernels

    ranks = len(links.entering) - 1
    hops, beyond = np.empty((ranks, ranks), np.int16), np.empty((ranks, ranks), np.int16)
    kernels.distances(links.leaving, links.head, hops, beyond)
    entering = int(np.diff(links.entering).min())
    # Without budgets everything moves on at once: the fewest rounds, links not used alike.
    yield _Rounds(links, beyond, 1, np.full(int(hops.max()), ranks))
    for pieces in _PIECES:
        if pieces > 1 and ranks**2 * pieces > _MOST_ROWS:
            return
        least, more = -(-(ranks - 1) * pieces // entering), 0
        budgets = _budgets(links, hops, pieces, least)
        while True:
            rounds = _Rounds(links, beyond, pieces, _stretched(budgets, more))
            yield rounds
            if rounds.budgets.sum() <= least or more > least:
                break
            more = max(2 * more, 1)
        if (ranks - 1) * pieces % entering == 0 and rounds.budgets.sum() <= least:
            return


def _budgets(links: GridLinks, hops: NDArray[np.int16], pieces: int, least: int) -> Ints:
    """Chunks on each link of the poorest rank, in every round as many as the ranks so far away ask for."""
    entering = np.diff(links.entering)
    poorest = np.lexsort((-hops.max(axis=0), entering))[0]
    within = -(-np.cumsum(np.bincount(hops[:, poorest])[1:]) * pieces // entering[poorest])
    # The last ranks are few: a round for each of them is kept free.
    rounds = np.arange(1, len(within) + 1)
    within = np.minimum(within, least - len(within) + rounds)
    budgets: Ints = np.maximum(np.diff(within, prepend=0), 1)
    return budgets


def _stretched(budgets: Ints, more: int) -> Ints:
    """The same total over so many more rounds."""
    total, rounds = np.concatenate([[0], np.cumsum(budgets)]), len(budgets)
    at = np.interp(np.linspace(0, rounds, rounds + more + 1), np.arange(rounds + 1), total)
    stretched: Ints = np.maximum(np.diff(np.ceil(at - 1e-9)), 1).astype(np.int64)
    return stretched


def _flood(links: GridLinks, beyond: NDArray[np.int16], pieces: int, allowed: Ints) -> _Rows:
    from lightloom.collectives.synthesis.grid import _round_kernels as kernels

    ranks = len(links.entering) - 1
    rows = kernels.GatherRows(*(np.empty(ranks * (ranks - 1) * pieces, np.int32) for _ in range(3)))
    kernels.flood(links, beyond, pieces, allowed, rows)
    return _Rows(*rows)


def _scheduled(gather: Collective, fabric: Fabric, links: GridLinks, rounds: _Rounds) -> Schedule:
    rows = rounds.rows
    order = np.lexsort((rows.link, rows.round))
    at, link = rows.round[order], rows.link[order]
    starts = np.ones(len(at), np.bool_)
    starts[1:] = (at[1:] != at[:-1]) | (link[1:] != link[:-1])
    none, count = np.zeros(len(at), np.int16), len(rounds.budgets)
    path = np.cumsum(starts, dtype=np.int32) - 1
    ends = links.source[link], links.destination[link], links.route[link]
    return assemble(
        "synthesized",
        gather,
        fabric,
        Rows(at, path, *ends, none, none, rows.chunk[order], np.zeros(len(at), np.bool_)),
        chunks=gather.ranks * rounds.pieces,
        steps=count,
        notes=(f"{count} rounds from neighbour to neighbour; every share travels in {rounds.pieces} pieces",),
    )
