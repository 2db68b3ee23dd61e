"""Designs of circuits in levels on a ring, and the trees over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.collectives.synthesis.engine.forest import Forest, grow_forest
from lightloom.collectives.synthesis.engine.hubs import HubCircuits, Level, hub_ranks

_SWEEPS = 4
"""Rounds of balancing; later ones hardly move anything."""


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
    """Deadline of balancing, over the lower bound."""
    at_hubs: bool = False
    """Trees begin at the hub of the top level before each rank, as those of an all-reduce may, not at the rank."""

    def walks(self) -> list[int]:
        """Ranks that each piece walks before it takes a chord: [piece]."""
        return [self.walk * piece // max(self.pieces - 1, 1) for piece in range(self.pieces)]


@dataclass(frozen=True, slots=True)
class RingTrees:
    """A design's circuits and the trees over them."""

    circuits: HubCircuits
    forest: Forest

    @property
    def time(self) -> float:
        """Seconds until the last arrival, circuits in place."""
        return self.forest.time


def make_trees(
    design: Design, ranks: int, channels: int, nbytes: float, timing: Timing, bound: float
) -> RingTrees | None:
    """Trees and times of an all-gather of ``nbytes`` a rank; None where the design does not fit the channels.

    Args:
        bound: seconds that no schedule beats, circuits in place.

    Time: period · ranks · pieces, times the logarithm of what waits.
    """
    circuits = HubCircuits.of(ranks, channels, design.chords)
    if circuits is None:
        return None
    paths, lines = circuits.lightpaths()
    busy = nbytes / design.pieces / (circuits.width * timing.bandwidth) + timing.occupancy
    lengths = np.array([np.ceil(level.length(ranks)) for level in circuits.levels])
    delay = busy + timing.hop + timing.propagation * lengths
    paths = paths._replace(delay=delay[lines.line // 2], busy=np.repeat(busy, 2 * circuits.period))
    if design.longest is not None and len(circuits.levels) > 1:
        longest = lines.longest.copy()
        longest[-2:] = design.longest
        lines = lines._replace(longest=longest)
    roots = np.arange(circuits.period)
    if design.at_hubs:
        hubs = hub_ranks(ranks, circuits.levels[-1].hubs)
        roots = hubs[np.searchsorted(hubs, roots, side="right") - 1]
    forest = grow_forest(paths, lines, design.walks(), deadline=design.slack * bound, sweeps=_SWEEPS, roots=roots)
    return None if forest is None else RingTrees(circuits, forest)
