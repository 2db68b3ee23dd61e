"""Circuit switches: which circuits stand, and what each of them sends, for the size at hand.

Large shares go over a circulant, where one tree stands for those of all ranks and every circuit carries the same; small
ones over a generalised Kautz graph, whose ranks are fewest hops apart (:mod:`.switch_graphs`).

    all-gather over a circulant: rank 0 sends, for the tree's circuit from u to u + c, the share of rank −u to rank c

A reduce-scatter takes the same circuits: its trees are those of the circulant with the connections −c, backwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from lightloom.collectives.algorithms.one_stage import one_stage
from lightloom.collectives.cost import cost
from lightloom.collectives.degree_bound import degree_seconds, ranks_by_hops
from lightloom.collectives.folding import Folding
from lightloom.collectives.schedule import Schedule
from lightloom.collectives.spec import FROM_ALL_GATHER, Collective
from lightloom.collectives.synthesis.standing import gather_over
from lightloom.collectives.synthesis.switch_exchange import exchange_over, exchange_over_lift
from lightloom.collectives.synthesis.switch_graphs import circulant, hops_ahead, kautz, lift
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric, Ints

SERVES = (*FROM_ALL_GATHER, "all-to-all")
_PIECES = (1, 2, 4, 8, 16)
_MOST_ROWS = 1 << 23
"""Of a schedule in which nothing repeats."""
_LONGEST_PERIOD = 8
"""Of circuits that carry an all-to-all."""
_NAMED = 8
"""Connections that a note names."""
_NEAR = 1.0005
"""Times the bound at which nothing else is tried."""


def on_switch(collective: Collective, fabric: Fabric) -> Schedule:
    """The fastest schedule found, not yet verified.

    Raises:
        UnsupportedError: no circuit switch, or a kind that circuits of a switch do not serve here.
    """
    if not fabric.exclusive or fabric.wavelength_routed:
        raise UnsupportedError(f"circuits of a switch on a {type(fabric).__name__}: expected a circuit switch")
    if collective.kind not in SERVES:
        raise UnsupportedError(f"circuits of a switch serve {', '.join(SERVES)}, not {collective.kind}")
    best, least = None, np.inf
    enough = fabric.setup_time + _NEAR * (degree_seconds(collective, fabric) - fabric.setup_time)
    for each in _candidates(collective, fabric):
        time = cost(each, fabric).time
        if time < least:
            best, least = each, time
        if least <= enough:
            break
    assert best is not None
    return best


def _candidates(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    if collective.kind == "all-to-all":
        yield from _exchanges(collective, fabric)
        return
    ranks, degree = fabric.ranks, fabric.channels
    for offsets in _circulants(ranks, degree):
        several = len(np.unique(offsets)) > _NAMED
        ahead = ", ".join(str(each) for each in np.unique(offsets)[:_NAMED]) + (", ..." if several else "")
        for pieces in _PIECES:
            note = _note(f"circuits lead from every rank to those {ahead} ahead", "share", pieces)
            yield over_circulant(collective, fabric, offsets, pieces, note)
    if degree == 1:
        return
    graph = kautz(ranks, degree)
    circuits = graph.only(graph.source != graph.destination)
    for pieces in _PIECES[:2]:
        if ranks**2 * pieces <= _MOST_ROWS:
            note = _note(f"{degree} circuits a rank form a generalised Kautz graph", "share", pieces)
            yield gather_over(collective, fabric, circuits, pieces, notes=(note,))


def _circulants(ranks: int, degree: int) -> Iterator[Ints]:
    yield circulant(ranks, degree)
    if degree >= ranks and degree % (ranks - 1):
        # With a circuit to every other rank and some to spare, only relaying uses these as much as the others.
        fewer = max(each for each in range(1, ranks) if degree % each == 0)
        yield np.tile(circulant(ranks, fewer), degree // fewer)


def _exchanges(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    ranks, degree = fabric.ranks, fabric.channels
    periods = {1, max(each for each in range(1, _LONGEST_PERIOD + 1) if ranks % each == 0)}
    for period in sorted(periods):
        for pieces in _PIECES[:3:2]:
            note = _note(f"circuits of {degree} planes that repeat every {period} ranks", "block", pieces)
            yield exchange_over_lift(collective, lift(ranks, degree, period), pieces, note)
    if degree > 1 and ranks**2 * len(ranks_by_hops(ranks, degree)) <= _MOST_ROWS:
        note = _note(f"{degree} circuits a rank form a generalised Kautz graph", "block", 1)
        yield exchange_over(collective, kautz(ranks, degree), 1, note)
    # Circuits that change carry every block straight, which many bytes ask for.
    straight = one_stage(collective, fabric, striped=True)
    yield replace(straight, algorithm="synthesized", notes=("every rank sends straight to every other",))


def _note(circuits: str, part: str, pieces: int) -> str:
    return f"{circuits}; every {part} travels in {pieces} {'piece' if pieces == 1 else 'pieces'}"


def over_circulant(collective: Collective, fabric: Fabric, offsets: Ints, pieces: int, note: str) -> Schedule:
    """A folded queued schedule over circuits from every rank to those ``offsets`` ahead, one plane each."""
    rank, circuit, piece, when = _tree(collective, fabric, offsets, pieces)
    ranks = fabric.ranks
    gather = {"circuit": circuit, "chunk": (offsets[circuit] - rank) % ranks * pieces + piece, "when": when}
    scatter = {"circuit": circuit, "chunk": rank * pieces + piece, "when": -when}
    parts = {"all-gather": [gather], "reduce-scatter": [scatter], "all-reduce": [scatter, gather]}[collective.kind]
    rows: dict[str, Any] = {key: np.concatenate([part[key] for part in parts]) for key in gather}
    adds = np.repeat([part is scatter for part in parts], len(rank))
    order = np.lexsort((rows["when"], ~adds, rows["circuit"]))
    used, path = np.unique(rows["circuit"][order], return_inverse=True)
    none, one = np.zeros(len(order), np.int64), np.ones(len(order), np.int64)
    channel = np.tile(used.astype(np.int32), (ranks, 1))
    step = np.arange(len(path)) - np.searchsorted(path, np.arange(len(used)))[path]
    return Schedule(
        algorithm="synthesized",
        collective=collective,
        chunks=ranks * pieces,
        steps=int(step.max()) + 1,
        step=step,
        lightpath=path,
        source=none,
        destination=offsets[used[path]],
        route=none,
        fibre=used[path],
        first_wavelength=none,
        wavelength_count=one,
        chunk=rows["chunk"][order],
        reduces=adds[order],
        queued=True,
        folding=Folding(1, channel),
        notes=(note,),
    )


def _tree(collective: Collective, fabric: Fabric, offsets: Ints, pieces: int) -> tuple[Ints, Ints, Ints, Any]:
    """Rank, circuit into it, piece and seconds of every transfer of rank 0's share."""
    from lightloom.collectives.synthesis import _ring_kernels, _switch_kernels

    ranks, degree = fabric.ranks, len(offsets)
    hops = hops_ahead(offsets, ranks)
    choice = np.empty((pieces, ranks), np.int64)
    _switch_kernels.share(offsets, hops, pieces, choice, np.empty(degree, np.int64))
    # As the loops of rings number circuits: (level · 2 + direction) · period, the period being one rank.
    circuit = np.where(choice < 0, -1, 2 * choice).astype(np.int32)[:, None, :]
    parent = np.where(choice < 0, -1, (np.arange(ranks) - offsets[choice]) % ranks).astype(np.int32)[:, None, :]
    order = np.argsort(hops, kind="stable")[None, :]
    busy = np.full(degree, collective.nbytes_per_rank / pieces / fabric.channel_bandwidth + fabric.piece_overhead)
    delay = busy + fabric.step_overhead + fabric.neighbour_latency()
    left, begin = np.zeros(parent.shape), np.zeros(parent.shape)
    for each in range(pieces):
        _ring_kernels.remaining(delay, 1, parent[each], circuit[each], order, left[each])
    _ring_kernels.list_schedule(delay, busy, parent, circuit, left, begin)
    piece, rank = np.nonzero(choice >= 0)
    return rank, choice[piece, rank], piece, begin[piece, 0, rank]
