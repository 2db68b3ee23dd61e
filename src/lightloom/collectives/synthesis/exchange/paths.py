"""A wiring becomes a path for every block, and the times at which blocks are sent.

    wiring ──► cheapest paths ──► loads ──► dearer circuits, cheapest paths again ──► every block takes one of its paths
           ──► list schedule

The price of a circuit is its delay, and a toll that rises with its load.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.synthesis.engine.trees import Timing
from lightloom.collectives.synthesis.exchange.circuits import Circuits, Wiring, circuits
from lightloom.core.arrays import Floats, Ints

_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True)
class Exchange:
    """What is asked."""

    ranks: int
    channels: int
    """Wavelengths each way."""
    nbytes: float
    """Of a block."""
    timing: Timing
    bound: float
    """Seconds that no schedule beats, circuits in place."""
    reach: int | None = None
    """Most links that a circuit may pass."""


@dataclass(frozen=True, slots=True, eq=False)
class Routed:
    """Paths of the blocks of some sources, as trees to choose from."""

    circuits: Circuits
    sources: Ints
    busy: Floats
    """Seconds that a block holds a circuit: [circuit]."""
    delay: Floats
    """Seconds after which it arrives: [circuit]."""
    trees: NDArray[np.int32]
    """Circuit by which a path enters a rank: [tree, source, rank]."""
    chosen: NDArray[np.int8]
    """Tree of each block: [source, rank]."""
    load: Floats
    """Blocks that pass a circuit: [circuit]."""
    longest: float
    """Seconds of the longest of the cheapest paths, did it wait for nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """All blocks of one period of sources with their paths and times."""

    circuits: Circuits
    begin: Ints
    """Where the path of block source · ranks + rank begins: [block + 1]."""
    path: NDArray[np.int32]
    """Circuits of the paths, in order: [hop]."""
    sent: Ints
    """Hops by circuit, in the order sent."""
    load: Floats
    """Seconds for which a circuit is busy: [circuit]."""
    time: float
    """Seconds until the last arrival, circuits in place."""


def route(
    wiring: Wiring, exchange: Exchange, trees: int, sources: int | None = None, limit: float = np.inf
) -> Routed | None:
    """Paths of the blocks of one period of ranks, or of so many of it; None where a path takes ``limit`` or longer."""
    from lightloom.collectives.synthesis.exchange import _exchange_kernels as kernels

    ring, timing = circuits(wiring, exchange.ranks), exchange.timing
    which = np.arange(min(sources or ring.period, ring.period))
    # Not in step with hubs.
    which = np.unique(((which + which * _GOLDEN % 1) * ring.period / len(which)).astype(np.int64))
    count = len(which)
    busy = np.asarray(exchange.nbytes / (ring.width * timing.bandwidth) + timing.occupancy, np.float64)
    delay = busy + timing.hop + timing.propagation * np.abs(ring.length)
    found = np.empty((trees, count, ring.ranks), np.int32)
    chosen = np.full((count, ring.ranks), -1, np.int8)
    load = np.zeros(len(ring.start))
    allowed, longest, price, toll, first = exchange.bound, 0.0, delay, timing.hop, ring.first
    for tree in range(trees):
        dearest = kernels.cheapest(first, ring.length, price, which, ring.ranks, found[tree])
        if tree == 0 and dearest >= limit:
            return None
        if tree == 0:
            # Where time is not short, neither are hops dear.
            longest, allowed = dearest, max(allowed, dearest)
            toll = timing.hop * allowed / dearest
        kernels.choose(
            found[: tree + 1], which, ring.period / count, ring.length, busy / allowed, delay, toll, load, chosen
        )
        price = delay + toll * (load * busy / allowed) ** kernels.STEEP
    return Routed(ring, which, busy, delay, found, chosen, load, longest)


def glance(wiring: Wiring, exchange: Exchange, sources: int) -> float:
    """Seconds that a schedule may take, from the longest of the cheapest paths and the heaviest load on them."""
    routed = route(wiring, exchange, 1, sources)
    if routed is None:
        return np.inf
    seconds = routed.load * routed.busy
    return float(np.hypot(routed.longest, np.minimum(seconds, seconds[routed.circuits.reverse]).max()))


def plan(
    wiring: Wiring, exchange: Exchange, trees: int, sources: int | None = None, limit: float = np.inf
) -> Plan | None:
    """Paths and times of all blocks; or of the blocks of a few sources, which then stand for all of them.

    None where a path alone, or what one circuit carries, takes ``limit`` or longer.

    A circuit towards few ranks has its share of the blocks of few sources; one that comes from few ranks has not, and
    is as busy as the circuit back.
    """
    from lightloom.collectives.synthesis.exchange import _exchange_kernels as kernels
    from lightloom.collectives.synthesis.exchange._exchange_queue_kernels import list_schedule

    routed = route(wiring, exchange, trees, sources, limit)
    if routed is None:
        return None
    ring, busy = routed.circuits, routed.busy
    if len(routed.chosen) < ring.period:
        back = np.minimum(1.0, routed.load[ring.reverse] / np.maximum(routed.load, 1.0))
        busy = busy * back
    if (routed.load * busy).max() >= limit:
        return None
    busy = busy * (ring.period / len(routed.chosen))
    begin = np.zeros(routed.chosen.size + 1, np.int64)
    shared = routed.trees, routed.chosen, routed.sources, ring.length, routed.delay, begin
    hops = kernels.lay(*shared, np.zeros(0, np.int32), np.zeros(0))
    path, left = np.empty(hops, np.int32), np.empty(hops)
    kernels.lay(*shared, path, left)
    urgency = np.lexsort((-left, path))
    place = np.empty(hops, np.int64)
    place[urgency] = np.arange(hops)
    sent, when = np.empty(hops, np.int64), np.empty(hops)
    seconds = list_schedule(begin, path, busy, routed.delay, urgency, place, sent, when)
    return Plan(ring, begin, path, sent, routed.load * busy * len(routed.chosen) / ring.period, float(seconds))
