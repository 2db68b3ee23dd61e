"""All-gather over circulant graphs: all ranks have the same chords, of several lengths that share wavelengths.

    rank 0  ─►1 ───►4 ────►8 ─►9 ───►12 ...      chords of 1, 3 and 4 ranks, one behind the other, repeat every
    rank 1    ─►2 ───►5 ────►9 ...               8 ranks: 8 wavelengths carry all of them and fill every link

Two or three hops then reach all ranks where wavelengths are many. Levels of hubs, which the other search varies, colour
every length for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from typing import NamedTuple

import numpy as np

from lightloom.collectives.synthesis.engine.forest import Forest, grow_forest
from lightloom.collectives.synthesis.engine.hubs import tour_colours
from lightloom.collectives.synthesis.engine.lightpaths import Lightpaths, arrange, free_line
from lightloom.collectives.synthesis.engine.queues import Queues
from lightloom.collectives.synthesis.engine.trees import Timing
from lightloom.core.arrays import Ints

SHARE = 0.08
"""Of the effort of the search over levels, what this one may add."""
_LOOK = 500
"""Transfers' worth of looking at any design."""
_PIECES = (1, 2, 4)
_FINE_PIECES = (8, 16)
"""Of the best graph."""
_SLACKS = (1.0, 1.15)
_SWEEPS = 4
_KEPT, _REFINED = 8, 6
_MISSES = 500
_MOST_SKIPS = 24


class Circulant(NamedTuple):
    """Chords of every rank, both ways."""

    skips: tuple[int, ...]
    """Ranks that chords pass, ascending; a length that is listed twice has two chords."""
    pieces: int = 2
    """Parts of every rank's share that travel on trees of their own."""
    slack: float = 1.0
    """Deadline of balancing, over the lower bound."""


class CirculantCircuits(NamedTuple):
    """Chords with their wavelengths: arrays [chord]."""

    skip: Ints
    width: Ints
    first: Ints
    """Channel of colour 0 each way."""
    offset: Ints
    """Ranks from where its tour begins to where the chord does."""
    colours: Ints
    """Colours of its tour: the chord of colour k is the one that starts ``offset`` ranks behind rank k."""

    @classmethod
    def of(cls, ranks: int, channels: int, skips: tuple[int, ...]) -> CirculantCircuits | None:
        """As wide as there is room for; what is left joins neighbours. None where chords do not fit."""
        if not skips or skips[0] < 1 or skips[-1] > ranks // 2 or sum(skips) > channels:
            return None
        colours = tour_colours(ranks, skips)
        if colours is None or colours > channels:
            return None
        width = channels // colours
        left = channels - colours * width
        count = len(skips) + (left > 0)
        skip = np.array((*skips, 1)[:count], np.int64)
        return cls(
            skip,
            np.array(([width] * len(skips) + [left])[:count], np.int64),
            np.array(([0] * len(skips) + [colours * width])[:count], np.int64),
            np.append(np.cumsum(skip[: len(skips)]) - skip[: len(skips)], 0)[:count],
            np.array(([colours] * len(skips) + [1])[:count], np.int64),
        )

    def lightpaths(self, ranks: int, nbytes: float, timing: Timing) -> Lightpaths:
        """All chords, queue 2 · chord + direction, clockwise first; a piece has ``nbytes``."""
        rank, chord = np.tile(np.arange(ranks), 2 * len(self.skip)), np.repeat(np.arange(len(self.skip)), 2 * ranks)
        direction = np.tile(np.repeat(np.arange(2), ranks), len(self.skip))
        target = (rank + np.where(direction, -1, 1) * self.skip[chord]) % ranks
        queue = 2 * chord + direction
        paths, order = arrange(ranks, 1, rank, target.astype(np.int64), np.arange(len(rank)), queue)
        busy = np.repeat(nbytes / (self.width * timing.bandwidth) + timing.occupancy, 2).astype(np.float64)
        delay = busy + timing.hop + timing.propagation * np.repeat(self.skip, 2)
        return paths._replace(delay=delay[queue[order]], busy=busy)

    def queues(self, ranks: int) -> Queues:
        """What the chords use; a counter-clockwise chord lies over the clockwise one that leads to where it starts."""
        rank = np.arange(ranks)[:, None]
        start = np.stack([rank - self.offset, rank - self.skip - self.offset], axis=2) % self.colours[:, None]
        channel = self.first[:, None] + start * self.width[:, None]
        lines = 2 * len(self.skip)
        route = np.arange(lines, dtype=np.int64) % 2
        return Queues(channel.reshape(ranks, lines).astype(np.int32), np.repeat(self.width, 2), route)


class CirculantSearch:
    """Circulant graphs tried for one all-gather on one ring; deterministic, as effort is counted in transfers."""

    def __init__(
        self, ranks: int, channels: int, nbytes: float, timing: Timing, bound: float, reach: int | None = None
    ) -> None:
        """Args as those of :class:`lightloom.collectives.synthesis.ring.search.RingSearch`."""
        self._ranks, self._channels, self._nbytes, self._timing, self._bound = ranks, channels, nbytes, timing, bound
        self._longest = min(ranks // 2, channels, ranks if reach is None else reach)
        self._rng = np.random.default_rng(0)
        self._tried: dict[Circulant, float] = {}
        self._spent = 0.0

    def run(self, effort: float) -> tuple[Circulant, float] | None:
        """The best graph found and its seconds; None where none joins all ranks."""
        for skips in regular_skips(self._ranks, self._channels, self._longest):
            self._try(Circulant(skips))
            if self._spent > effort / 2:
                break
        misses = 0
        while self._spent < 0.8 * effort and misses < _MISSES:
            design = self._step()
            if design in self._tried:
                misses += 1
            else:
                self._try(design)
        for leader in self._leaders(_REFINED):
            for pieces in _PIECES:
                for slack in _SLACKS:
                    if self._spent < effort:
                        self._try(Circulant(leader.skips, pieces, slack))
        for leader in self._leaders(1):
            for pieces in _FINE_PIECES:
                self._try(leader._replace(pieces=pieces))
        best = self._leaders(1)
        return (best[0], self._tried[best[0]]) if best and np.isfinite(self._tried[best[0]]) else None

    def forest(self, design: Circulant) -> Forest | None:
        """Trees over the chords of a design; None where they do not fit or do not join all ranks."""
        circuits = CirculantCircuits.of(self._ranks, self._channels, design.skips)
        if circuits is None or design.skips[-1] > self._longest:
            return None
        paths = circuits.lightpaths(self._ranks, self._nbytes / design.pieces, self._timing)
        deadline = design.slack * self._bound
        return grow_forest(paths, free_line(len(paths.delay)), [0] * design.pieces, deadline=deadline, sweeps=_SWEEPS)

    def _try(self, design: Circulant) -> None:
        forest = self.forest(design)
        self._spent += _LOOK + len(design.skips) * self._ranks * design.pieces / 2
        self._tried[design] = np.inf if forest is None else forest.time

    def _leaders(self, count: int) -> list[Circulant]:
        return nsmallest(count, self._tried, key=lambda design: self._tried[design])

    def _step(self) -> Circulant:
        """A graph near one of the best, or any."""
        leaders = self._leaders(_KEPT)
        skips = varied_skips([leader.skips for leader in leaders], self._longest, self._rng)
        return Circulant(skips, leaders[0].pieces if leaders else 2)


def regular_skips(ranks: int, channels: int, longest: int) -> Iterator[tuple[int, ...]]:
    """Lengths 1 ... a, and multiples of a length that these bridge from both sides; four hops may reach all ranks."""
    for near in range(1, longest + 1):
        for stride in (2 * near + 1, 2 * near, 2 * near + 2):
            for far in range(longest // stride + 1):
                skips = (*range(1, near + 1), *(stride * k for k in range(1, far + 1)))
                if sum(skips) <= channels and len(skips) <= _MOST_SKIPS and 4 * skips[-1] >= ranks // 2:
                    yield skips


def varied_skips(leaders: Sequence[tuple[int, ...]], longest: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Lengths near those of one of the leaders, or any; short ones more often."""

    def length() -> int:
        return max(1, int(np.exp(rng.random() * np.log(max(longest, 1)))))

    if not leaders or rng.random() < 0.1:
        return tuple(sorted(length() for _ in range(int(rng.integers(1, 9)))))
    skips = list(leaders[min(int(rng.exponential(1.5)), len(leaders) - 1)])
    for _ in range(1 + int(rng.random() < 0.4)):
        i, kind = int(rng.integers(0, len(skips))), int(rng.integers(0, 4))
        if kind == 0:
            skips[i] = max(1, skips[i] + int(rng.choice((-2, -1, 1, 2))))
        elif kind == 1 and len(skips) > 1:
            del skips[i]
        elif kind == 2:
            skips.append(length())
        else:
            skips[i] = length()
    return tuple(sorted(skips))
