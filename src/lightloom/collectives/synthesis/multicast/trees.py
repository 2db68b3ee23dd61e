"""Standing lightpaths with taps, in levels, and the trees and times of a design over them.

    level 1   h ─────────────●─────────────●─────────────●    hubs every few ranks; taps at some hubs on the way
    level 0   ○─●─●─●                                         every rank reaches its next few ranks, both ways

A lightpath is light for all its taps: one transmission serves several ranks and uses every link once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.synthesis.engine.hubs import Circuits, Level, hub_ranks, repetition
from lightloom.collectives.synthesis.engine.trees import Timing
from lightloom.core.arrays import Floats, Ints

_SWEEPS = 3
"""Rounds of rebalancing; later ones hardly move anything."""


class Arc(NamedTuple):
    """Lightpaths of one length with their taps."""

    hubs: int
    """Where lightpaths start; hub i is rank ⌊i · ranks / hubs⌋."""
    spacing: int
    """Ranks from tap to tap."""
    taps: int
    """Taps so far apart, the last one at the lightpath's end."""
    width: int
    """Wavelengths of a lightpath."""
    between: int = 0
    """Further taps, at ranks next to each other in the middle of each gap."""

    @property
    def links(self) -> int:
        """Links that a lightpath passes."""
        return self.spacing * self.taps

    @property
    def offsets(self) -> list[int]:
        """Ranks from the start to each tap, nearest first."""
        middle = [(self.spacing - self.between + 1) // 2 + each for each in range(self.between)]
        return [k * self.spacing + each for k in range(self.taps) for each in (*middle, self.spacing)]

    def level(self, ranks: int) -> Level:
        """Chords from hub to hub that take the room of these."""
        return Level(self.hubs, -(-self.links * self.hubs // ranks), self.width)


@dataclass(frozen=True, slots=True)
class MulticastDesign:
    """Everything that a search may choose."""

    arcs: tuple[Arc, ...]
    """Shortest first; the first starts at every rank and has a tap at every rank on its way."""
    pieces: int = 1
    """Parts of every rank's share that travel on trees of their own."""
    longest: int | None = None
    """Lightpaths of the top level that a piece takes in a row each way; None for all around."""
    walk: int = 0
    """Ranks before which the last piece takes no lightpath of the top level; those before it less, the first none."""
    slack: float = 1.1
    """Deadline of rebalancing, over the lower bound."""

    def sound(self, ranks: int, taps: int, reach: int | None) -> bool:
        """Whether the first level misses no rank, hubs are nested, and no lightpath has too many taps or links."""
        base, most = self.arcs[0], ranks - 1 if reach is None else min(reach, ranks - 1)
        return (
            (base.hubs, base.spacing) == (ranks, 1)
            and all(each.taps >= 1 and each.width >= 1 and 1 <= each.links <= most for each in self.arcs)
            and all(0 <= each.between < each.spacing and each.taps * (1 + each.between) <= taps for each in self.arcs)
            and all(2 <= each.hubs <= ranks for each in self.arcs)
            and all(below.hubs % above.hubs == 0 for below, above in pairwise(self.arcs[1:]))
        )

    def wavelengths(self, ranks: int) -> int:
        """Wavelengths of a link that all levels take, each way; the design being sound."""
        return sum(level.wavelengths for level in self.levels(ranks))

    def levels(self, ranks: int) -> tuple[Level, ...]:
        """The arcs as chords."""
        return tuple(each.level(ranks) for each in self.arcs)

    def period(self, ranks: int) -> int:
        """Ranks after which trees repeat."""
        return repetition(ranks, self.levels(ranks))


@dataclass(frozen=True, slots=True)
class MulticastTrees:
    """Trees of all pieces of one period of sources; arrays [piece, source, rank]."""

    circuits: Circuits
    parent: NDArray[np.int32]
    circuit: NDArray[np.int32]
    """(level · 2 + way) · period + rank of the sender in its period; −1 at the root."""
    number: NDArray[np.int32]
    """Transmission that serves the rank; −1 at the root."""
    begin: Floats
    """Seconds at which each transmission begins: [transmission]."""
    time: float
    """Seconds until the last arrival, circuits in place."""


def make_multicast_trees(
    design: MulticastDesign, ranks: int, nbytes: float, timing: Timing, bound: float
) -> MulticastTrees | None:
    """Trees and times of an all-gather of ``nbytes`` a rank; None where lines of lightpaths do not reach every rank.

    Args:
        bound: seconds that no schedule beats, circuits in place.

    Time: period · ranks · pieces, times the taps, times the logarithm of what waits.
    """
    from lightloom.collectives.synthesis.multicast import _multicast_kernels as kernels

    circuits = Circuits(ranks, design.levels(ranks))
    period, pieces = circuits.period, design.pieces
    tap, origin = _taps(design, ranks)
    parent, circuit, order, number = (np.empty((pieces, period, ranks), np.int32) for _ in range(4))
    arrival = np.zeros((pieces, period, ranks))
    busy = nbytes / pieces / (circuits.width * timing.bandwidth) + timing.occupancy
    longest = np.full(len(design.arcs), ranks, np.int64)
    if design.longest is not None and len(design.arcs) > 1:
        longest[-1] = design.longest
    dense = np.array([each.spacing == 1 for each in design.arcs])
    load = np.zeros(2 * len(design.arcs) * period)
    delays = busy, timing.hop, timing.propagation

    def of(piece: int) -> tuple[Any, ...]:
        return parent[piece], circuit[piece], arrival[piece], order[piece]

    for piece in range(pieces):
        walk = design.walk * piece // max(pieces - 1, 1)
        if not kernels.grow(tap, dense, *delays, period, walk, longest, load, *of(piece)):
            return None
    deadline = max(float(arrival.max()), design.slack * bound)
    for _ in range(_SWEEPS):
        moves = 0
        for piece in range(pieces):
            moves += kernels.rebalance(tap, origin, *delays, period, load, *of(piece), deadline)
        if not moves:
            break
    left, count = np.empty(pieces * period * ranks), 0
    for piece in range(pieces):
        trees = parent[piece], circuit[piece], order[piece], number[piece]
        more = kernels.transmissions(tap, *delays, period, *trees, left[count:])
        number[piece][number[piece] >= 0] += count
        count += more
    begin = np.zeros(count)
    time = kernels.list_schedule(*delays, parent, circuit, number, left[:count], begin)
    return MulticastTrees(circuits, parent, circuit, number, begin, float(time))


def _taps(design: MulticastDesign, ranks: int) -> tuple[Ints, Ints]:
    """Ranks that the lightpath of each rank reaches, and ranks whose lightpaths reach it, or −1: [level, way, rank,
    tap]."""
    most = max(len(each.offsets) for each in design.arcs)
    tap, origin = (np.full((len(design.arcs), 2, ranks, most), -1, np.int64) for _ in range(2))
    for level, each in enumerate(design.arcs):
        hub = hub_ranks(ranks, each.hubs)
        for k, far in enumerate(each.offsets):
            for way, step in enumerate((far, -far)):
                there = (hub + step) % ranks
                tap[level, way, hub, k], origin[level, way, there, k] = there, hub
    return tap, origin
