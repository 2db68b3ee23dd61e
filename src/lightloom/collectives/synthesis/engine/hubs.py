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
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lightloom.collectives.synthesis.engine.lightpaths import Lightpaths, Lines, arrange
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
    def skips(self) -> tuple[int, ...]:
        """Hubs that chords reach ahead."""
        return (self.skip,)

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
class HubCircuits:
    """Levels on a ring of ranks, unit links first and the longest chords last."""

    ranks: int
    levels: tuple[Level, ...]

    @classmethod
    def of(cls, ranks: int, channels: int, chords: Sequence[Level]) -> HubCircuits | None:
        """Unit links take the channels that chords leave; None where they leave none, or hubs are not nested."""
        if not all(1 <= chord.skip < chord.hubs <= ranks and chord.width >= 1 for chord in chords):
            return None
        left = channels - sum(chord.wavelengths for chord in chords)
        nested = all(
            below.hubs % above.hubs == 0 and below.skip * above.hubs < above.skip * below.hubs
            for below, above in pairwise(chords)
        )
        chords_are_long = all(chord.length(ranks) > 1 for chord in chords)
        if left < 1 or not (nested and chords_are_long):
            return None
        return cls(ranks, (Level(ranks, 1, left), *chords))

    @cached_property
    def period(self) -> int:
        """Ranks after which everything repeats: all of them where hubs do not divide the ranks."""
        return repetition(self.ranks, self.levels)

    def lightpaths(self) -> tuple[Lightpaths, Lines]:
        """All circuits without their times, and the rules of their lines; unit links may be used from any rank."""
        return _lightpaths(self.ranks, self.period, tuple((level.hubs, level.skip) for level in self.levels))

    @property
    def width(self) -> Ints:
        """Wavelengths of a circuit of each level."""
        return np.array([level.width for level in self.levels], np.int64)

    def channel(self, level: int, hub: Ints) -> Ints:
        """First wavelength of the chord between hubs ``hub`` and ``hub + skip``, the same both ways."""
        chords = self.levels[level]
        # Unit links come last, so that chords keep their wavelengths whatever is left.
        base = sum(other.wavelengths for other in (*self.levels[1:], self.levels[0])[: (level - 1) % len(self.levels)])
        return base + colour(chords, hub) * chords.width


@lru_cache(maxsize=32)
def _lightpaths(ranks: int, period: int, chords: tuple[tuple[int, int], ...]) -> tuple[Lightpaths, Lines]:
    """Circuits of chords (hubs, skip), queue (level · 2 + direction) · period + rank in its period; clockwise first."""
    hubs = [hub_ranks(ranks, count) for count, _ in chords for _ in range(2)]
    origin = np.concatenate(hubs)
    steps = [step for _, skip in chords for step in (-skip, skip)]
    target = np.concatenate([np.roll(hub, step) for hub, step in zip(hubs, steps, strict=True)])
    line = np.repeat(np.arange(len(hubs)), [len(hub) for hub in hubs])
    length = np.where(line % 2 == 0, target - origin, origin - target) % ranks
    paths, order = arrange(ranks, period, origin, target, np.arange(len(line)), line * period + origin % period)
    unit, every = np.arange(len(hubs)) < 2, np.ones(len(line), np.bool_)
    longest = np.full(len(hubs), ranks, np.int64)
    return paths, Lines(line[order].astype(np.int32), every, length[order].astype(np.int32), unit, unit, longest)


def tour_colours(hubs: int, skips: Sequence[int]) -> int | None:
    """Wavelengths that chords of all these lengths from every hub take together, each way; None where none suffice.

    One behind the other, the lengths of a tour repeat around the ring if their sum divides the hubs, or with a gap the
    next number that does. Tours that start at each of so many hubs carry every chord once.
    """
    return next((colours for colours in range(max(sum(skips), 1), hubs + 1) if hubs % colours == 0), None)


def repetition(ranks: int, levels: Sequence[Level]) -> int:
    """Ranks after which nested levels repeat, unit links aside."""
    regular = all(ranks % level.hubs == 0 for level in levels)
    return ranks // min((level.hubs for level in levels), default=ranks) if regular else ranks


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


def chord_text(hubs: int, skips: Sequence[int], width: int, ranks: int) -> str:
    """Chords as notes describe them."""
    start = "every rank" if hubs == ranks else f"each of {hubs} hubs"
    lengths = " and ".join(f"{skip * ranks / hubs:.4g}" for skip in skips)
    if lengths == "1":
        return f"{width} wavelengths of each link join neighbours"
    return f"chords of {lengths} ranks start at {start}, {width} wavelengths wide"
