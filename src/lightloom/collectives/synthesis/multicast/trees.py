"""Standing lightpaths with taps, in levels, and the trees and times of a design over them.

    level 1   h ─────────────●─────────────●─────────────●    hubs every few ranks; taps at some hubs on the way
    level 0   ○─●─●─●                                         every rank reaches its next few ranks, both ways

A lightpath is light for all its taps: one transmission serves several ranks and uses every link once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lightloom.collectives.synthesis.engine.forest import grow_forest
from lightloom.collectives.synthesis.engine.hubs import HubCircuits, Level, hub_ranks, repetition
from lightloom.collectives.synthesis.engine.lightpaths import Lightpaths, Lines, arrange
from lightloom.collectives.synthesis.engine.trees import RingTrees, Timing
from lightloom.core.arrays import Ints

_SWEEPS = 3
"""Rounds of balancing; later ones hardly move anything."""


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
        middle = [(self.spacing - self.between + 1) // 2 + offset for offset in range(self.between)]
        return [k * self.spacing + offset for k in range(self.taps) for offset in (*middle, self.spacing)]

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
    """Deadline of balancing, over the lower bound."""

    def sound(self, ranks: int, taps: int, reach: int | None) -> bool:
        """Whether the first level misses no rank, hubs are nested, and no lightpath has too many taps or links."""
        base, most = self.arcs[0], ranks - 1 if reach is None else min(reach, ranks - 1)
        return (
            (base.hubs, base.spacing) == (ranks, 1)
            and all(arc.taps >= 1 and arc.width >= 1 and 1 <= arc.links <= most for arc in self.arcs)
            and all(0 <= arc.between < arc.spacing and arc.taps * (1 + arc.between) <= taps for arc in self.arcs)
            and all(2 <= arc.hubs <= ranks for arc in self.arcs)
            and all(below.hubs % above.hubs == 0 for below, above in pairwise(self.arcs[1:]))
        )

    def wavelengths(self, ranks: int) -> int:
        """Wavelengths of a link that all levels take, each way; the design being sound."""
        return sum(level.wavelengths for level in self.levels(ranks))

    def levels(self, ranks: int) -> tuple[Level, ...]:
        """The arcs as chords."""
        return tuple(arc.level(ranks) for arc in self.arcs)

    def period(self, ranks: int) -> int:
        """Ranks after which trees repeat."""
        return repetition(ranks, self.levels(ranks))


def make_multicast_trees(
    design: MulticastDesign, ranks: int, nbytes: float, timing: Timing, bound: float
) -> RingTrees | None:
    """Trees and times of an all-gather of ``nbytes`` a rank; None where lines of lightpaths do not reach every rank.

    Args:
        bound: seconds that no schedule beats, circuits in place.

    Time: period · ranks · pieces, times the taps, times the logarithm of what waits.
    """
    circuits = HubCircuits(ranks, design.levels(ranks))
    paths, lines, links = _lightpaths(ranks, circuits.period, tuple(arc._replace(width=1) for arc in design.arcs))
    busy = nbytes / design.pieces / (circuits.width * timing.bandwidth) + timing.occupancy
    delay = (busy + timing.hop)[lines.line // 2] + timing.propagation * links
    paths = paths._replace(delay=delay, busy=np.repeat(busy, 2 * circuits.period))
    if design.longest is not None and len(design.arcs) > 1:
        longest = lines.longest.copy()
        longest[-2:] = design.longest
        lines = lines._replace(longest=longest)
    walks = [design.walk * piece // max(design.pieces - 1, 1) for piece in range(design.pieces)]
    forest = grow_forest(paths, lines, walks, deadline=design.slack * bound, sweeps=_SWEEPS)
    return None if forest is None else RingTrees(circuits, forest)


@lru_cache(maxsize=32)
def _lightpaths(ranks: int, period: int, arcs: tuple[Arc, ...]) -> tuple[Lightpaths, Lines, Ints]:
    """Lightpaths without their times, the rules of their lines, and links from each origin to its tap: [tap]."""
    columns = []
    for number, arc in enumerate(arcs):
        hub, offsets = hub_ranks(ranks, arc.hubs), np.array(arc.offsets)
        for direction in range(2):
            tap, at = (axis.ravel() for axis in np.indices((len(offsets), arc.hubs)))
            line = np.full(len(tap), 2 * number + direction)
            target = (hub[at] + (1 - 2 * direction) * offsets[tap]) % ranks
            columns.append((hub[at], target, line, offsets[tap], tap == len(offsets) - 1))
    origin, target, line, links, last = (np.concatenate(column) for column in zip(*columns, strict=True))
    paths, order = arrange(ranks, period, origin, target, line * ranks + origin, line * period + origin % period)
    # Lightpaths are numbered in the order in which their taps stand.
    path = np.cumsum(np.diff(paths.path, prepend=-1) != 0, dtype=np.int32) - np.int32(1)
    dense = np.repeat([arc.spacing == 1 for arc in arcs], 2)
    none, longest = np.zeros(len(order), np.int32), np.full(len(dense), ranks, np.int64)
    lines = Lines(line[order].astype(np.int32), last[order], none, np.zeros(len(dense), np.bool_), dense, longest)
    return paths._replace(path=path), lines, links[order]
