"""A wiring becomes a path for every block, and the times at which blocks are sent.

    wiring ──► cheapest paths ──► loads ──► dearer circuits, cheapest paths again ──► every block takes one of its paths
           ──► list schedule

The price of a circuit is its delay, and a toll that rises with its load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.synthesis.exchange_circuits import Circuits, Wiring, circuits
from lightloom.collectives.synthesis.trees import Timing
from lightloom.fabrics.base import Floats, Ints

_NORM = 3
"""Between the longest path and the heaviest load: the time of a schedule is a little more than either."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Routed:
    """Paths of the blocks of some sources, as trees to choose from."""

    circuits: Circuits
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
    """Seconds of the longest path, did it wait for nothing."""


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
    time: float
    """Seconds until the last arrival, circuits in place."""


def route(wiring: Wiring, exchange: Exchange, trees: int, sources: int | None = None) -> Routed:
    """Paths of the blocks of one period of ranks, or of so many of it."""
    from lightloom.collectives.synthesis import _exchange_kernels as kernels

    ring, timing = circuits(wiring, exchange.ranks), exchange.timing
    count = min(sources or ring.period, ring.period)
    which = np.arange(count, dtype=np.int64) * ring.period // count
    busy = exchange.nbytes / (ring.width * timing.bandwidth) + timing.occupancy
    delay = busy + timing.hop + timing.propagation * np.abs(ring.length)
    found = np.empty((trees, count, ring.ranks), np.int32)
    chosen = np.full((count, ring.ranks), -1, np.int8)
    load = np.zeros(len(ring.start))
    allowed, price, first = exchange.bound, delay, ring.first
    longest = 0.0
    for tree in range(trees):
        dearest = kernels.cheapest(first, ring.length, price, which, ring.ranks, found[tree])
        if tree == 0:
            longest = dearest
            allowed = max(allowed, longest)
        kernels.choose(
            found[: tree + 1], which, ring.period / count, ring.length, busy / allowed, delay, timing.hop, load, chosen
        )
        price = delay + timing.hop * (load * busy / allowed) ** kernels.STEEP
    return Routed(ring, busy, delay, found, chosen, load, longest)


def estimate(wiring: Wiring, exchange: Exchange, sources: int) -> float:
    """Seconds that a schedule may take, from the cheapest paths of a few sources.

    A circuit towards few ranks has the load of all sources; one that comes from few ranks has not, and is judged by
    the circuit the other way.
    """
    routed = route(wiring, exchange, 1, sources)
    ring, seconds = routed.circuits, routed.load * routed.busy
    if len(routed.chosen) < ring.period:
        seconds = np.minimum(seconds, seconds[ring.reverse])
    return float((routed.longest**_NORM + seconds.max() ** _NORM) ** (1 / _NORM))


def plan(wiring: Wiring, exchange: Exchange, trees: int) -> Plan:
    """Paths and times of all blocks."""
    from lightloom.collectives.synthesis import _exchange_kernels as kernels

    routed = route(wiring, exchange, trees)
    ring = routed.circuits
    begin = np.zeros(ring.period * ring.ranks + 1, np.int64)
    shared = routed.trees, routed.chosen, ring.length, routed.delay, begin
    hops = kernels.lay(*shared, np.zeros(0, np.int32), np.zeros(0))
    path, left = np.empty(hops, np.int32), np.empty(hops)
    kernels.lay(*shared, path, left)
    urgency = np.lexsort((-left, path))
    place = np.empty(hops, np.int64)
    place[urgency] = np.arange(hops)
    sent, when = np.empty(hops, np.int64), np.empty(hops)
    seconds = kernels.list_schedule(begin, path, routed.busy, routed.delay, urgency, place, sent, when)
    return Plan(ring, begin, path, sent, float(seconds))
