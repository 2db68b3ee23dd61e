"""Gather, scatter, permute and all-to-all-v: candidates on circuits and on packet links, the fastest of which is taken.

On circuits: those that even collectives stand on, parts finding their ways over them; circuits straight from rank to
rank; and passing on between neighbours. On packet links: straight sends and passing on, without barriers; and where
links join ranks, parts finding their ways over these, as routes in one order of dimensions do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.algorithms.one_stage import ONE_STAGE
from lightloom.collectives.algorithms.ring import RING_TWO_WAY
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.bounds.one_to_one import Demand
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.barriers import without_barriers
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import TO_OR_FROM_ROOT, Collective, Kind
from lightloom.collectives.synthesis.engine.standing import StandingCircuits
from lightloom.collectives.synthesis.exchange.ring import exchange
from lightloom.collectives.synthesis.grid.links import neighbours_join
from lightloom.collectives.synthesis.packets.order import listed
from lightloom.collectives.synthesis.parts.over_circuits import links_of, over_circuits, standing_of
from lightloom.collectives.synthesis.ring.damaged import around_damage
from lightloom.collectives.synthesis.ring.rooted import rooted
from lightloom.collectives.synthesis.switch.gather import on_switch
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric

_PIECES = (1, 2, 4, 8)
_LINK_PIECES = (*_PIECES, 16, 32, 64)
"""On links between ranks, where a part that one rank passes on waits for all of a piece."""
_NEAR = 1.02
"""Times the bound, without the set-up in either, at which the search ends."""
_MOST_ROWS = 1 << 19
"""Most rows that are tried, in pieces."""
_MOST_HOPS = 1 << 16
"""Links that all parts cross together, up to which they find their ways over links between ranks."""
_MOST_RANKS = 512
"""Ranks up to which an all-to-all is searched for its circuits."""


def between_ranks(collective: Collective, fabric: Fabric) -> Schedule:
    """The fastest schedule found, not yet verified.

    Raises:
        UnsupportedError: nothing carries the parts there.
    """
    best, least, bound = None, float("inf"), lower_bound(collective, fabric).time
    for schedule in _candidates(collective, fabric):
        seconds = cost(schedule, fabric).time
        if seconds < least:
            best, least = schedule, seconds
        if least - fabric.setup_time <= _NEAR * (bound - fabric.setup_time):
            break
    if best is None:
        raise UnsupportedError(f"nothing found carries {collective.kind} on this {fabric.kind_name}")
    return best


def _candidates(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    if not fabric.damaged:
        yield from _in_steps(collective, fabric)
    yield from _over_circuits(collective, fabric) if fabric.exclusive else _over_links(collective, fabric)


def _in_steps(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    for algorithm in (ONE_STAGE.bundled(), ONE_STAGE, RING_TWO_WAY.bundled()):
        schedule = _built(algorithm, collective, fabric)
        if schedule is not None:
            yield replace(schedule, algorithm="synthesized", notes=(f"steps of {algorithm.name}",))


def _built(algorithm: Algorithm, collective: Collective, fabric: Fabric) -> Schedule | None:
    if algorithm.refusal(collective.kind, fabric) is not None:
        return None
    carrier = algorithm.carried_as(collective.kind)
    try:
        if carrier == collective.kind:
            return algorithm.build(collective, fabric, striped=algorithm.striped)
        schedule = algorithm.build(collective.of_kind(carrier), fabric, striped=algorithm.striped)
    except UnsupportedError:
        return None
    return schedule.carrying(collective, fabric.fibre_channels)


def _over_links(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    for algorithm in (ONE_STAGE, RING_TWO_WAY.bundled()):
        steps = _built(algorithm, collective, fabric)
        for pieces in _PIECES:
            if steps is not None and len(steps) * pieces <= _MOST_ROWS:
                yield replace(listed(without_barriers(steps, fabric, pieces, 1), fabric), algorithm="synthesized")
    if len(fabric.siblings()[1]) == 1 and neighbours_join(fabric) and _rows(collective, fabric) <= _MOST_HOPS:
        yield from _by_ways(collective, fabric, links_of(fabric), "links between ranks", _LINK_PIECES)


def _rows(collective: Collective, fabric: Fabric) -> int:
    """Links that all parts cross where each takes its route."""
    demand = Demand(collective)
    return int(fabric.hops(demand.source, demand.destination, np.zeros_like(demand.source)).sum())


def _over_circuits(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    for carrier in _carriers(collective, fabric):
        yield from _by_ways(collective, fabric, standing_of(carrier, fabric), carrier.notes[0], _PIECES)


def _by_ways(
    collective: Collective, fabric: Fabric, circuits: StandingCircuits, named: str, tries: tuple[int, ...]
) -> Iterator[Schedule]:
    """Parts over these circuits in more and more pieces, as long as fewer are slower."""
    bound, before = lower_bound(collective, fabric).time - fabric.setup_time, float("inf")
    for pieces in tries:
        note = f"over {named}, every part in {pieces} pieces" if pieces > 1 else f"over {named}"
        try:
            schedule = over_circuits(collective, fabric, circuits, pieces, bound=bound, note=note)
        except UnsupportedError:
            break
        yield schedule
        seconds = cost(schedule, fabric).time
        if seconds >= before or len(schedule) * 2 > _MOST_ROWS:
            break
        before = seconds


def _carriers(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Even collectives on circuits that stand, which parts may take too."""
    if fabric.damaged:
        around = around_damage(Collective("all-gather", fabric.ranks, collective.nbytes), fabric)
        yield replace(around, notes=("circuits around the damage",))
        return
    neighbours = _neighbours(fabric)
    if neighbours is not None:
        yield neighbours
    kinds: list[Kind] = ["all-to-all"] if fabric.ranks <= _MOST_RANKS else []
    mean = collective.distinct_nbytes / fabric.ranks
    if collective.kind in TO_OR_FROM_ROOT and fabric.wavelength_routed:
        kinds = ["reduce" if collective.kind == "gather" else "broadcast"]
    for kind in kinds:
        even = Collective(kind, fabric.ranks, max(mean, float(fabric.ranks)))
        if kind != "all-to-all":
            schedule = rooted(even, fabric)
        else:
            schedule = exchange(even, fabric) if fabric.wavelength_routed else on_switch(even, fabric)
        if schedule.queued or cost(schedule, fabric).static:
            yield replace(schedule, notes=(f"circuits of an even {kind}",))


def _neighbours(fabric: Fabric) -> Schedule | None:
    """Circuits between neighbours alone, as wide as they can be."""
    steps = _built(RING_TWO_WAY.bundled(), Collective("all-gather", fabric.ranks, 1.0), fabric)
    if steps is None or not cost(steps, fabric).static:
        return None
    return replace(steps, notes=("circuits between neighbours alone",))
