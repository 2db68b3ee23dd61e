"""Static circuits of a ring in levels: unit links between neighbours, and chords between hubs, the same all around.

    level 1   h ───────────────► h ───────────────► h        hubs: every few ranks, evenly spread
    level 0   ○ ─► ○ ─► ○ ─► ○ ─► ○ ─► ○ ─► ○ ─► ○ ─► ○      every rank is a hub; both directions alike

A chord joins a hub to the one ``skip`` hubs on and bundles ``width`` wavelengths. Chords of one level overlap, so that
a level takes ``colours · width`` wavelengths of every link: with m hubs, one colour holds ⌊m/skip⌋ chords, and cutting
the hubs into that many nearly equal blocks, each at least ``skip`` long, shows that ⌈m/⌊m/skip⌋⌉ colours do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Ints


class Level(NamedTuple):
    """Chords of one length."""

    hubs: int
    """Hub i is rank ⌊i · ranks / hubs⌋."""
    skip: int
    """Hubs that a chord reaches ahead."""
    width: int
    """Wavelengths of a chord."""

    @property
    def colours(self) -> int:
        """Fewest wavelengths for chords of width 1, each way."""
        return 1 if self.skip == 1 else -(-self.hubs // (self.hubs // self.skip))

    @property
    def wavelengths(self) -> int:
        """Wavelengths of a link that the level takes, each way."""
        return self.colours * self.width

    def length(self, ranks: int) -> float:
        """Ranks that a chord passes, on average."""
        return self.skip * ranks / self.hubs


@dataclass(frozen=True)
class Circuits:
    """Levels on a ring of ranks, unit links first and the longest chords last."""

    ranks: int
    levels: tuple[Level, ...]

    @classmethod
    def of(cls, ranks: int, channels: int, chords: Sequence[Level]) -> Circuits | None:
        """Unit links take the channels that chords leave; None where they leave none, or hubs are not nested."""
        if not all(1 <= each.skip < each.hubs <= ranks and each.width >= 1 for each in chords):
            return None
        left = channels - sum(each.wavelengths for each in chords)
        nested = all(
            below.hubs % above.hubs == 0 and below.skip * above.hubs < above.skip * below.hubs
            for below, above in pairwise(chords)
        )
        chords_are_long = all(each.length(ranks) > 1 for each in chords)
        if left < 1 or not (nested and chords_are_long):
            return None
        return cls(ranks, (Level(ranks, 1, left), *chords))

    @cached_property
    def period(self) -> int:
        """Ranks after which everything repeats: all of them where hubs do not divide the ranks."""
        return repetition(self.ranks, self.levels)

    @cached_property
    def next(self) -> Ints:
        """Where the chord of a rank leads, or −1 without one: [level, direction, rank], clockwise first."""
        found = np.full((len(self.levels), 2, self.ranks), -1, np.int64)
        for level, each in enumerate(self.levels):
            hub = hub_ranks(self.ranks, each.hubs)
            found[level, 0, hub] = np.roll(hub, -each.skip)
            found[level, 1, hub] = np.roll(hub, each.skip)
        return found

    @property
    def width(self) -> Ints:
        """Wavelengths of a circuit of each level."""
        return np.array([each.width for each in self.levels], np.int64)

    def channel(self, level: int, hub: Ints) -> Ints:
        """First wavelength of the chord between hubs ``hub`` and ``hub + skip``, the same both ways."""
        each = self.levels[level]
        # Unit links come last, so that chords keep their wavelengths whatever is left.
        base = sum(other.wavelengths for other in (*self.levels[1:], self.levels[0])[: (level - 1) % len(self.levels)])
        return base + colour(each, hub) * each.width


def repetition(ranks: int, levels: Sequence[Level]) -> int:
    """Ranks after which nested levels repeat, unit links aside."""
    regular = all(ranks % each.hubs == 0 for each in levels)
    return ranks // min((each.hubs for each in levels), default=ranks) if regular else ranks


def hub_ranks(ranks: int, hubs: int) -> Ints:
    """Ranks of evenly spread hubs: [hub]."""
    return np.arange(hubs, dtype=np.int64) * ranks // hubs


def colour(level: Level, hub: Ints) -> Ints:
    """Colour of the chord that starts at a hub: its place in its block."""
    if level.skip == 1:
        return np.zeros_like(hub)
    blocks = level.hubs // level.skip
    first = np.arange(blocks, dtype=np.int64) * level.hubs // blocks
    return hub - first[np.searchsorted(first, hub, side="right") - 1]
