"""Circuit switches: which circuits stand, and what each of them sends, for the size at hand.

Large shares go over a circulant, where one tree stands for those of all ranks and every circuit carries the same,
smaller ones over circuits that repeat every few ranks and make fewer hops, the smallest over a generalised Kautz graph,
whose ranks are fewest hops apart (:mod:`.switch_graphs`).

A reduce-scatter takes the same circuits: its trees are those of the reversed circuits, run backwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from lightloom.collectives.algorithms.one_stage import one_stage
from lightloom.collectives.bounds.degree import degree_seconds, ranks_by_hops
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import FROM_ALL_GATHER, Collective
from lightloom.collectives.synthesis.engine.forest import Forest, scheduled
from lightloom.collectives.synthesis.engine.queues import tree_schedule
from lightloom.collectives.synthesis.engine.standing import gather_over
from lightloom.collectives.synthesis.switch.exchange import exchange_over, exchange_over_lift
from lightloom.collectives.synthesis.switch.graphs import Lift, circulant, kautz, lift
from lightloom.core.arrays import Ints
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric

SERVES = (*FROM_ALL_GATHER, "all-to-all")
_PIECES = (1, 2, 4, 8, 16)
_MOST_ROWS = 1 << 23
"""Of a schedule in which nothing repeats."""
_MOST_FOLDED = 1 << 16
"""Transfers of the shares of one period."""
_LONGEST_PERIOD = 8
"""Of circuits that repeat; longer ones take longer to find and are hardly better."""
_NAMED = 8
"""Connections that a note names."""
_NEAR = 1.002
"""Times the bound at which nothing else is tried."""


def on_switch(collective: Collective, fabric: Fabric) -> Schedule:
    """The fastest schedule found, not yet verified.

    Raises:
        UnsupportedError: no circuit switch, or a kind that circuits of a switch do not serve here.
    """
    if not fabric.switch_planes:
        raise UnsupportedError(f"circuits of a switch on a {fabric.kind_name}: expected switch planes (switch_planes)")
    if collective.kind not in SERVES:
        raise UnsupportedError(f"circuits of a switch serve {', '.join(SERVES)}, not {collective.kind}")
    # A size of nothing has the circuits of a byte, so that what follows is sent later.
    nbytes, collective = collective.nbytes, replace(collective, nbytes=max(collective.nbytes, float(fabric.ranks)))
    best, least = None, np.inf
    enough = fabric.setup_time + _NEAR * (degree_seconds(collective, fabric) - fabric.setup_time)
    for schedule in _candidates(collective, fabric):
        time = cost(schedule, fabric).time
        if time < least:
            best, least = schedule, time
        if least <= enough:
            break
    assert best is not None
    return best.resized(nbytes)


def _candidates(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    if collective.kind == "all-to-all":
        yield from _exchanges(collective, fabric)
        return
    ranks, degree = fabric.ranks, fabric.channels
    for offsets in _circulants(ranks, degree):
        several = len(np.unique(offsets)) > _NAMED
        ahead = ", ".join(str(offset) for offset in np.unique(offsets)[:_NAMED]) + (", ..." if several else "")
        once = Lift.of(ranks, offsets[:, None])
        for pieces in _PIECES:
            note = _note(f"circuits lead from every rank to those {ahead} ahead", "share", pieces)
            yield gather_over_lift(collective, fabric, once, pieces, note)
    if degree == 1:
        return
    period = _period(ranks, _LONGEST_PERIOD)
    several_ranks = Lift.of(ranks, lift(ranks, degree, period))
    for pieces in _PIECES:
        if ranks * period * pieces <= _MOST_FOLDED:
            note = _note(f"circuits of {degree} planes that repeat every {period} ranks", "share", pieces)
            yield gather_over_lift(collective, fabric, several_ranks, pieces, note)
    graph = kautz(ranks, degree)
    circuits = graph.only(graph.source != graph.destination)
    for pieces in _PIECES[:2]:
        if ranks**2 * pieces <= _MOST_ROWS:
            note = _note(f"{degree} circuits a rank form a generalised Kautz graph", "share", pieces)
            yield gather_over(collective, fabric, circuits, pieces, note=note)


def _circulants(ranks: int, degree: int) -> Iterator[Ints]:
    yield circulant(ranks, degree)
    if degree >= ranks and degree % (ranks - 1):
        # With a circuit to every other rank and some to spare, only relaying uses these as much as the others.
        fewer = max(divisor for divisor in range(1, ranks) if degree % divisor == 0)
        yield np.tile(circulant(ranks, fewer), degree // fewer)


def _period(ranks: int, longest: int) -> int:
    """The longest period up to this one that divides the ranks."""
    return max(period for period in range(1, longest + 1) if ranks % period == 0)


def _exchanges(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    ranks, degree = fabric.ranks, fabric.channels
    for period in sorted({1, _period(ranks, _LONGEST_PERIOD // 2), _period(ranks, _LONGEST_PERIOD)}):
        circuits = Lift.of(ranks, lift(ranks, degree, period))
        for pieces in _PIECES[:3:2]:
            note = _note(f"circuits of {degree} planes that repeat every {period} ranks", "block", pieces)
            yield exchange_over_lift(collective, fabric, circuits, pieces, note)
    if degree > 1 and ranks**2 * len(ranks_by_hops(ranks, degree)) <= _MOST_ROWS:
        note = _note(f"{degree} circuits a rank form a generalised Kautz graph", "block", 1)
        yield exchange_over(collective, fabric, kautz(ranks, degree), 1, note)
    # Circuits that change carry every block straight, which many bytes ask for.
    straight = one_stage(collective, fabric, striped=True)
    yield replace(straight, algorithm="synthesized", notes=("every rank sends straight to every other",))


def _note(circuits: str, part: str, pieces: int) -> str:
    return f"{circuits}; every {part} travels in {pieces} {'piece' if pieces == 1 else 'pieces'}"


def gather_over_lift(collective: Collective, fabric: Fabric, lift: Lift, pieces: int, note: str) -> Schedule:
    """A folded queued schedule over circuits that repeat."""
    period = lift.ahead.shape[1]
    return tree_schedule(
        collective,
        fabric,
        lift.queues(),
        lambda backward: _sends(collective, fabric, lift.reversed() if backward else lift, pieces),
        lambda queue, source: queue // period * period + source,
        pieces=pieces,
        note=note,
    )


def _sends(collective: Collective, fabric: Fabric, lift: Lift, pieces: int) -> Forest:
    """Shortest trees of the shares of one period of ranks, which use all circuits alike, and their times."""
    from lightloom.collectives.synthesis.switch import _switch_kernels

    planes, period = lift.ahead.shape
    choice = np.empty((pieces, *lift.hops.shape), np.int64)
    _switch_kernels.share(lift.origin, lift.circuit, lift.hops, choice, np.empty(planes * period, np.int64))
    busy = np.full(
        planes * period, collective.nbytes_per_rank / pieces / fabric.channel_bandwidth + fabric.piece_overhead
    )
    delay = busy + fabric.step_overhead + fabric.neighbour_latency()
    paths = lift.lightpaths()
    paths = paths._replace(delay=delay[paths.queue], busy=busy)
    # The circuit of plane k that leaves a rank is tap k of that rank.
    tap = np.where(choice < 0, -1, lift.origin[np.arange(fabric.ranks), choice] * planes + choice)
    order = np.argsort(lift.hops, axis=1, kind="stable").astype(np.int32)
    return scheduled(paths, tap.astype(np.int32), np.tile(order, (pieces, 1, 1)))
