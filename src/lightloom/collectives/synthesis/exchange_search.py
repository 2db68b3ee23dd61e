"""The best wiring for an all-to-all on a ring: random ones, then steps away from the best of them.

Estimates come from the blocks of a few sources, scheduled as if they were all; the leaders are then planned in full.
Deterministic: the effort is counted in hops, not in seconds, and the random choices are seeded.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from typing import Any

import numpy as np

from lightloom.collectives.synthesis.exchange_circuits import DEEPEST, Feeder, Tours, Wiring, reaches
from lightloom.collectives.synthesis.exchange_paths import Exchange, Plan, glance, plan
from lightloom.collectives.synthesis.hubs import Level

EFFORT = 12_000_000
"""Hops that a search may schedule, up to 300 ranks; about three CPU seconds."""
_RANKS, _GROWTH = 300, 0.8
"""From so many ranks on effort grows with this power of the ranks."""
_NEAR = 1.003
"""Times the bound at which a search is content."""
_SAMPLE, _SOURCES = 1 << 14, 10
"""Blocks from which an estimate is made; sources at least."""
_MOST_ROWS = 8_000_000
"""Of a schedule."""
_GLANCED, _SEEDS, _STEPS = 0.15, 0.45, 0.8
"""Of the effort, spent when wirings that owe nothing to others have been looked at, the best of them tried, and steps
away from the leaders."""
_GLANCE = 3
"""Sources of a glance."""
_MISSES = 500
"""Random choices that lead nowhere, after which there is nothing left to choose."""
_KEPT, _FINAL = 6, 4
"""Wirings that steps start from; those planned in full."""
_TREES, _FINAL_TREES = 2, 4
_BLOCKS = 256
"""Times the ranks, or 1,024 of them: blocks of one period above which a wiring is not tried."""
_HOPELESS = 1.15
"""Times the best estimate so far: what takes longer by its paths or its loads alone."""
_UNEVEN = 512
"""Ranks up to which hubs may be spread unevenly."""


class ExchangeSearch:
    """Wirings tried for one all-to-all on one ring."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._ranks = exchange.ranks
        self._rng = np.random.default_rng(0)
        self._spent = 0.0
        self._best = np.inf
        self._sources = max(_SOURCES, _SAMPLE // self._ranks)
        self._tried: dict[Wiring, float] = {}
        self._hot: dict[Wiring, Any] = {}
        self._hubs = self._hub_counts()

    def run(self, effort: float = EFFORT) -> tuple[Wiring, Plan]:
        """The best wiring found, and its plan."""
        ranks, channels = self._ranks, self._exchange.channels
        effort *= max(1.0, ranks / _RANKS) ** _GROWTH
        plain = Wiring(ranks, (Level(ranks, 1, channels),), None)
        found = plan(plain, self._exchange, _TREES)
        assert found is not None
        best = plain, found
        if found.time <= _NEAR * self._exchange.bound or not self._hubs:
            return best
        self._tried[plain] = self._best = found.time
        seeds = {wiring: self._glance(wiring) for wiring in self._plain() if wiring and self._fits(wiring)}
        misses = 0
        while self._spent < _GLANCED * effort and misses < _MISSES:
            wiring = self._random()
            if wiring and wiring not in seeds and self._fits(wiring):
                seeds[wiring] = self._glance(wiring)
            else:
                misses += 1
        for wiring in sorted(seeds, key=lambda each: seeds[each]):
            if self._spent < _SEEDS * effort:
                self._try(wiring)
        misses = 0
        while self._spent < _STEPS * effort and misses < _MISSES:
            leaders = self._leaders(_KEPT)
            fresh = self._step(leaders[min(int(self._rng.exponential(1.5)), len(leaders) - 1)])
            misses += not self._try(fresh)
        for wiring in self._leaders(_FINAL):
            full = plan(wiring, self._exchange, _FINAL_TREES)
            if full is None:
                continue
            self._spent += len(full.path) * _FINAL_TREES
            if full.time < best[1].time:
                best = wiring, full
            if self._spent > effort:
                break
        return best

    def _glance(self, wiring: Wiring) -> float:
        self._spent += _GLANCE * self._ranks
        return glance(wiring, self._exchange, _GLANCE)

    def _leaders(self, count: int) -> list[Wiring]:
        return nsmallest(count, self._tried, key=lambda each: self._tried[each])

    def _hub_counts(self) -> list[int]:
        ranks = self._ranks
        most = _BLOCKS * max(ranks, 1024) // ranks
        even = [each for each in range(3, ranks + 1) if ranks % each == 0 and ranks // each <= most]
        if len(even) > 4 or ranks > _UNEVEN:
            return even
        return sorted({*even, *range(3, min(ranks, 48)), *(ranks // k for k in range(1, 9) if ranks // k > 2)})

    def _try(self, wiring: Wiring | None) -> bool:
        """Whether this is a new wiring that fits."""
        if wiring is None or wiring in self._tried or not self._fits(wiring):
            return False
        ranks = self._ranks
        found = plan(wiring, self._exchange, _TREES, self._sources, _HOPELESS * self._best)
        self._spent += self._sources * ranks
        period = wiring.period(ranks)
        self._tried[wiring] = np.inf
        if found is not None:
            self._spent += len(found.path) * _TREES
        if found is not None and len(found.path) / (len(found.begin) - 1) * period * ranks <= _MOST_ROWS:
            self._tried[wiring] = found.time
            self._best = min(self._best, found.time)
            self._hot[wiring] = np.array(
                [found.load[found.circuits.family == i].max(initial=0.0) for i in range(len(wiring.chords) + 1)]
            )
        return True

    def _fits(self, wiring: Wiring) -> bool:
        ranks, hubs = self._ranks, wiring.hubs
        if wiring.wavelengths > self._exchange.channels or (wiring.feeder is None) != (hubs == ranks):
            return False
        for each in wiring.chords:
            if each.hubs < 3 or hubs % each.hubs or each.width < 1 or each.skip < 1:
                return False
            if isinstance(each, Tours) and (each.hubs % 2 or each.hubs < 4 or each.skip > each.hubs // 4):
                return False
            if 2 * each.skip > each.hubs:
                return False
        if wiring.period(ranks) * ranks > _BLOCKS * max(ranks, 1024):
            return False
        feeder = wiring.feeder
        if feeder is None:
            return True
        return 1 <= feeder.depth <= DEEPEST and reaches(feeder, -(-ranks // hubs) // 2)

    def _plain(self) -> Iterator[Wiring | None]:
        """Wirings of few parts: chains of hubs, and tours or two lengths of chords between hubs that feed."""
        ranks, channels = self._ranks, self._exchange.channels
        spacings = [each for each in (2, 4, 5, 8, 10, 16, 32) if ranks % each == 0 and ranks // each in self._hubs]
        narrow = sorted({max(1, channels // parts) for parts in (64, 16, 8, 4)})
        for each in spacings:
            for width in narrow:
                hubs, left = ranks // each, channels - width
                yield Wiring(ranks, (Level(ranks, 1, width), Level(hubs, 1, left)), None)
                yield self._filled(Wiring(hubs, (Level(hubs, 1, 1),), self._feeder(hubs, width)))
                for far in spacings:
                    if far % each == 0 and far > each:
                        for more in narrow:
                            chords = (Level(ranks, 1, width), Level(hubs, 1, more), Level(ranks // far, 1, left - more))
                            yield Wiring(ranks, chords, None)
        for hubs in self._hubs:
            for width in sorted({*narrow, max(1, channels // 2)}):
                feeder = self._feeder(hubs, width) if hubs < ranks else None
                far = max(2, channels - width - 1)
                skips = {far, far // 2, far * 3 // 4, round((hubs / 2) ** 0.5)}
                tops: list[tuple[Level | Tours, ...]] = [(Level(hubs, 1, 1),)]
                tops += [(Level(hubs, 1, 1), Level(hubs, each, 1)) for each in sorted(skips) if 2 <= each <= hubs // 2]
                if hubs % 2 == 0:
                    tops.append(tuple(Tours(hubs, each, 1) for each in range(1, hubs // 4 + 1)))
                if feeder is None and hubs < ranks:
                    continue
                for chords in tops:
                    yield self._filled(Wiring(hubs, chords, feeder))
                used = width if feeder else 0
                for more in narrow:
                    for far in (2, 4, 8):
                        if hubs % far == 0:
                            longest = Level(hubs // far, 1, channels - used - more)
                            yield Wiring(hubs, (Level(hubs, 1, more), longest), feeder)

    def _random(self) -> Wiring | None:
        rng, channels = self._rng, self._exchange.channels
        hubs = int(rng.choice(self._hubs))
        feeder = None
        if hubs < self._ranks:
            feeder = self._feeder(hubs, int(rng.integers(1, max(2, channels * 2 // 3 + 1))))
            if feeder is None:
                return None
        chords: list[Level | Tours] = []
        left = channels - (feeder.wavelengths if feeder else 0)
        for _ in range(int(rng.integers(1, 6))):
            each = self._chords(hubs)
            if each is not None and each.wavelengths <= left:
                chords.append(each)
                left -= each.wavelengths
        return self._filled(Wiring(hubs, tuple(chords), feeder))

    def _feeder(self, hubs: int, wavelengths: int) -> Feeder | None:
        half = -(-self._ranks // hubs) // 2
        share = max(1, int(half / wavelengths * self._rng.choice((1.0, 1.25, 1.6, 2.5))))
        for depth in range(1, DEEPEST):
            if reaches(Feeder(wavelengths, depth, share), half):
                return Feeder(wavelengths, depth + int(self._rng.integers(0, 2)), share)
        return None

    def _chords(self, hubs: int) -> Level | Tours | None:
        rng = self._rng
        coarser = [each for each in (1, 1, 1, 2, 3, 4, 5, 8, 16) if hubs % each == 0 and hubs // each >= 3]
        if not coarser:
            return None
        count = hubs // int(rng.choice(coarser))
        if count % 2 == 0 and count >= 4 and rng.random() < 0.4:
            return Tours(count, int(rng.integers(1, count // 4 + 1)), 1)
        skip = int(np.exp(rng.random() * np.log(max(count // 2, 1))))
        return Level(count, max(1, skip), 1)

    def _filled(self, wiring: Wiring) -> Wiring | None:
        """Wavelengths that are left go to chords and feeders at random."""
        chords, feeder = list(wiring.chords), wiring.feeder
        if not chords:
            return None
        left = self._exchange.channels - wiring.wavelengths
        while left < 0:
            wide = [i for i, each in enumerate(chords) if each.width > 1]
            if not wide:
                return None
            i = int(self._rng.choice(wide))
            chords[i] = chords[i]._replace(width=chords[i].width - 1)
            left += chords[i].colours
        while left > 0:
            can = [i for i, each in enumerate(chords) if each.colours <= left]
            if feeder is not None:
                can.append(len(chords))
            if not can:
                break
            i = int(self._rng.choice(can))
            if i == len(chords):
                assert feeder is not None
                feeder = feeder._replace(wavelengths=feeder.wavelengths + 1)
                left -= 1
            else:
                chords[i] = chords[i]._replace(width=chords[i].width + 1)
                left -= chords[i].colours
        return Wiring(wiring.hubs, tuple(sorted(chords, key=lambda each: (-each.hubs, each.skip, each.width))), feeder)

    def _step(self, wiring: Wiring) -> Wiring | None:
        rng = self._rng
        hubs, chords, feeder = wiring.hubs, list(wiring.chords), wiring.feeder
        kind = int(rng.integers(0, 9))
        i = int(rng.integers(0, len(chords)))
        hot = self._hot.get(wiring)
        if kind in (0, 1) and hot is not None:
            # From what is least busy to what is busiest.
            to = int(np.argmax(hot))
            if kind == 1:
                to = int(rng.integers(0, len(hot) if feeder else len(chords)))
            i = int(rng.integers(0, len(chords)))
            if i != to and chords[i].width > 1:
                chords[i] = chords[i]._replace(width=chords[i].width - 1)
            elif feeder is not None and to != len(chords) and feeder.wavelengths > 1:
                feeder = feeder._replace(wavelengths=feeder.wavelengths - 1)
            if to < len(chords):
                chords[to] = chords[to]._replace(width=chords[to].width + 1)
            elif feeder is not None:
                feeder = feeder._replace(wavelengths=feeder.wavelengths + 1)
        elif kind == 2:
            chords[i] = chords[i]._replace(skip=max(1, chords[i].skip + int(rng.choice((-2, -1, 1, 2)))))
        elif kind == 3:
            fresh = self._chords(hubs)
            if fresh is not None:
                chords[i] = fresh
        elif kind == 4:
            fresh = self._chords(hubs)
            if fresh is not None:
                chords.append(fresh)
        elif kind == 5 and len(chords) > 1:
            del chords[i]
        elif kind == 6 and feeder is not None:
            feeder = feeder._replace(
                depth=max(1, feeder.depth + int(rng.choice((-1, 0, 1)))),
                share=max(1, int(feeder.share * rng.choice((0.7, 0.85, 1.2, 1.5)))),
            )
        elif kind == 7 and feeder is not None:
            feeder = self._feeder(hubs, max(1, feeder.wavelengths + int(rng.choice((-3, -2, -1, 1, 2, 3)))))
        elif kind == 8:
            fresh_hubs = int(rng.choice(self._hubs))
            scaled: list[Level | Tours] = []
            for each in chords:
                count = each.hubs * fresh_hubs // hubs
                scaled.append(each._replace(hubs=count, skip=max(1, round(each.skip * count / each.hubs))))
            chords, hubs = scaled, fresh_hubs
            feeder = self._feeder(hubs, feeder.wavelengths if feeder else 1) if hubs < self._ranks else None
        return self._filled(Wiring(hubs, tuple(chords), feeder)) if chords else None
