"""A design becomes broadcast trees and the times at which their pieces are sent.

circuits ──► a tree for every piece of one period of sources ──► circuits shared evenly ──► list schedule
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.synthesis.engine.hubs import Circuits, Level
from lightloom.core.arrays import Floats

_SWEEPS = 4
"""Rounds of rebalancing; later ones hardly move anything."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What sending costs on a ring."""

    bandwidth: float
    """Bytes per second of one wavelength."""
    hop: float
    """Seconds that a piece is delayed by each lightpath, which meanwhile serves the next one."""
    propagation: float = 0.0
    """Seconds of a link's length."""
    occupancy: float = 0.0
    """Seconds that a piece holds its lightpath besides its bytes."""


@dataclass(frozen=True, slots=True)
class Design:
    """Everything that a search may choose."""

    chords: tuple[Level, ...]
    """Shortest first; none for a plain ring."""
    pieces: int = 2
    """Parts of every rank's share that travel on trees of their own."""
    longest: int | None = None
    """Chords of the top level that a piece takes in a row each way; None for all around."""
    walk: int = 0
    """Ranks that the last piece walks before it takes a chord; those before it less, the first none. Otherwise all work
    of the chords is due at the start."""
    slack: float = 1.15
    """Deadline of rebalancing, over the lower bound."""


@dataclass(frozen=True, slots=True)
class Trees:
    """Trees of all pieces of one period of sources; arrays [piece, source, rank]."""

    circuits: Circuits
    parent: NDArray[np.int32]
    circuit: NDArray[np.int32]
    """(level · 2 + direction) · period + rank of the sender in its period; −1 at the root."""
    begin: Floats
    """Seconds at which the piece is sent to the rank."""
    time: float
    """Seconds until the last arrival, circuits in place."""


def make_trees(design: Design, ranks: int, channels: int, nbytes: float, timing: Timing, bound: float) -> Trees | None:
    """Trees and times of an all-gather of ``nbytes`` a rank; None where the design does not fit the channels.

    Args:
        bound: seconds that no schedule beats, circuits in place.

    Time: period · ranks · pieces, times the logarithm of what waits.
    """
    from lightloom.collectives.synthesis.engine import _list_kernels as lists
    from lightloom.collectives.synthesis.engine import _ring_kernels as kernels

    circuits = Circuits.of(ranks, channels, design.chords)
    if circuits is None:
        return None
    shape = (design.pieces, circuits.period, ranks)
    parent, circuit, order = (np.empty(shape, np.int32) for _ in range(3))
    arrival, left, begin = (np.zeros(shape) for _ in range(3))
    busy = nbytes / design.pieces / (circuits.width * timing.bandwidth) + timing.occupancy
    lengths = np.array([np.ceil(each.length(ranks)) for each in circuits.levels])
    delay = busy + timing.hop + timing.propagation * lengths
    longest = np.full(len(circuits.levels), ranks, np.int64)
    if design.longest is not None and len(circuits.levels) > 1:
        longest[-1] = design.longest
    load = np.zeros(2 * len(circuits.levels) * circuits.period)
    shared = circuits.next, delay, busy, circuits.period

    def of(piece: int) -> tuple[Any, ...]:
        return parent[piece], circuit[piece], arrival[piece], order[piece]

    for piece in range(design.pieces):
        walk = design.walk * piece // max(design.pieces - 1, 1)
        kernels.grow(*shared, walk, longest, load, *of(piece))
    deadline = max(float(arrival.max()), design.slack * bound)
    for _ in range(_SWEEPS):
        if not sum(kernels.rebalance(*shared, load, *of(piece), deadline) for piece in range(design.pieces)):
            break
    delay, busy = np.repeat(delay, 2 * circuits.period), np.repeat(busy, 2 * circuits.period)
    for piece in range(design.pieces):
        lists.remaining(delay, parent[piece], circuit[piece], order[piece], left[piece])
    time = lists.list_schedule(delay, busy, parent, circuit, left, begin)
    return Trees(circuits, parent, circuit, begin, float(time))
