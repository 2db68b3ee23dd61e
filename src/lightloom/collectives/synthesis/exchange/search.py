"""The best wiring for an all-to-all on a ring: many are estimated, the best of them tried, then varied.

An estimate adds up the longest of the cheapest paths and the heaviest load of a few sources; a trial schedules the
blocks of some sources as if they were all; the leaders are planned in full. Deterministic: the effort is counted in
hops, not in seconds, and random choices are seeded.
"""

from __future__ import annotations

from heapq import nsmallest

import numpy as np

from lightloom.collectives.synthesis.engine.hubs import Level
from lightloom.collectives.synthesis.exchange.circuits import Wiring, shared_wiring
from lightloom.collectives.synthesis.exchange.designs import Designs
from lightloom.collectives.synthesis.exchange.paths import Exchange, Plan, estimate, plan
from lightloom.collectives.synthesis.ring.circulant import regular_skips, varied_skips
from lightloom.core.arrays import Floats

EFFORT = 12_000_000
"""Hops that a search may schedule, up to 300 ranks; about three CPU seconds."""
_RANKS, _GROWTH = 300, 0.8
"""From so many ranks on effort grows with this power of the ranks."""
_ESTIMATED, _TRIED, _STEPPED = 0.15, 0.45, 0.8
"""Shares of the effort that are spent by the end of each part; the rest is for plans in full."""
_NEAR = 1.003
"""Times the bound at which a search is content."""
_ESTIMATE_SOURCES, _SOURCES, _BLOCKS = 3, 10, 1 << 14
"""Sources of an estimate; of a trial, or as many as have so many blocks."""
_HOPELESS = 1.15
"""Times the best trial so far: what takes longer by its paths or its loads alone."""
_MOST_ROWS = 8_000_000
"""Most rows of a schedule."""
_MISSES = 500
"""Random choices that lead nowhere, after which there is nothing left to choose."""
_KEPT, _FINAL = 6, 4
"""Wirings that steps start from; those planned in full."""
_COMPLETE = 2
"""Wirings that join all hubs that are planned in full."""
_TREES, FINAL_TREES = 2, 4
_SHARED, _LOOK = 0.06, 5_000
"""Of the effort, what chords that share wavelengths may add; hops' worth of looking at one such wiring."""
_DRAWS = 20
"""Plans of one wiring that chance makes different where paths are equally cheap."""


class ExchangeSearch:
    """Wirings tried for one all-to-all on one ring."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange, self._ranks = exchange, exchange.ranks
        self._designs = Designs(exchange.ranks, exchange.channels, exchange.reach)
        self._sources = max(_SOURCES, _BLOCKS // exchange.ranks)
        self._spent, self._best = 0.0, np.inf
        self._seconds: dict[Wiring, float] = {}
        self._load: dict[Wiring, Floats] = {}

    def run(self, effort: float) -> tuple[Wiring, Plan]:
        """The best wiring found, and its plan."""
        effort *= max(1.0, self._ranks / _RANKS) ** _GROWTH
        neighbours = Wiring(self._ranks, (Level(self._ranks, 1, self._exchange.channels),), None)
        simplest = plan(neighbours, self._exchange, _TREES)
        assert simplest is not None
        if simplest.time <= _NEAR * self._exchange.bound or not self._designs.hubs:
            return neighbours, simplest
        self._seconds[neighbours] = self._best = simplest.time
        for wiring in self._by_estimate(_ESTIMATED * effort):
            if self._spent < _TRIED * effort:
                self._try(wiring)
        self._walk(_STEPPED * effort)
        best = self._planned(effort, (neighbours, simplest))
        if best[1].time <= _NEAR * self._exchange.bound:
            return best
        self._best = best[1].time
        return self._join_all_hubs(self._share_wavelengths(_SHARED * effort, best))

    def _by_estimate(self, effort: float) -> list[Wiring]:
        """Plain wirings and random ones, the most promising first."""
        seconds: dict[Wiring, float] = {}
        for wiring in self._designs.plain():
            if wiring is not None and self._designs.fits(wiring):
                seconds[wiring] = self._estimate(wiring)
        misses = 0
        while self._spent < effort and misses < _MISSES:
            wiring = self._designs.random()
            if wiring is not None and wiring not in seconds and self._designs.fits(wiring):
                seconds[wiring] = self._estimate(wiring)
            else:
                misses += 1
        return sorted(seconds, key=lambda design: seconds[design])

    def _estimate(self, wiring: Wiring) -> float:
        self._spent += _ESTIMATE_SOURCES * self._ranks
        return estimate(wiring, self._exchange, _ESTIMATE_SOURCES)

    def _walk(self, effort: float) -> None:
        rng, misses = np.random.default_rng(1), 0
        while self._spent < effort and misses < _MISSES:
            leaders = self._leaders(_KEPT)
            leader = leaders[min(int(rng.exponential(1.5)), len(leaders) - 1)]
            fresh = self._designs.step(leader, self._load.get(leader))
            if fresh is None or fresh in self._seconds or not self._designs.fits(fresh):
                misses += 1
            else:
                self._try(fresh)

    def _leaders(self, count: int) -> list[Wiring]:
        return nsmallest(count, self._seconds, key=lambda wiring: self._seconds[wiring])

    def _try(self, wiring: Wiring) -> None:
        """Schedule the blocks of some sources."""
        self._seconds[wiring] = np.inf
        trial = plan(wiring, self._exchange, _TREES, self._sources, _HOPELESS * self._best)
        self._spent += self._sources * self._ranks
        if trial is None:
            return
        self._spent += len(trial.path) * _TREES
        family = trial.circuits.family
        rows = len(trial.path) / (len(trial.begin) - 1) * trial.circuits.period * self._ranks
        if rows <= _MOST_ROWS:
            self._seconds[wiring] = trial.time
            self._best = min(self._best, trial.time)
            self._load[wiring] = np.array(
                [trial.load[family == i].max(initial=0.0) for i in range(len(wiring.chords) + 1)]
            )

    def _share_wavelengths(self, effort: float, best: tuple[Wiring, Plan]) -> tuple[Wiring, Plan]:
        """Chords of several lengths from every rank, on wavelengths that they share: a search of its own."""
        rng, ranks, channels = np.random.default_rng(2), self._ranks, self._exchange.channels
        longest = min(ranks // 2, channels, self._exchange.reach or ranks)
        tried: dict[tuple[int, ...], tuple[float, Wiring]] = {}
        until, misses = self._spent + effort, 0
        seconds_of = {
            skips: self._estimate(wiring)
            for skips in regular_skips(ranks, channels, longest)
            if (wiring := shared_wiring(ranks, channels, skips)) is not None
        }
        regular = iter(sorted(seconds_of, key=lambda skips: seconds_of[skips]))
        while self._spent < until and misses < _MISSES:
            leaders = nsmallest(_KEPT, tried, key=lambda skips: tried[skips][0])
            skips = next(regular, None) or varied_skips(leaders, longest, rng)
            wiring = shared_wiring(ranks, channels, tuple(sorted(set(skips))))
            if wiring is None or skips in tried or wiring.period(ranks) * ranks > self._designs.most:
                misses += 1
                continue
            self._try(wiring)
            self._spent += _LOOK
            tried[skips] = self._seconds[wiring], wiring
        until += effort / 4
        for skips in nsmallest(_FINAL, tried, key=lambda skips: tried[skips][0]):
            seconds, wiring = tried[skips]
            for draw in range(_DRAWS if seconds < _HOPELESS * best[1].time else 0):
                full = plan(wiring, self._exchange, FINAL_TREES, rng=rng if draw else None)
                if full is not None and full.time < best[1].time:
                    best = wiring, full
                self._spent += 0.0 if full is None else len(full.path) * FINAL_TREES
                if full is None or self._spent > until:
                    break
        return best

    def _join_all_hubs(self, best: tuple[Wiring, Plan]) -> tuple[Wiring, Plan]:
        """Circuits between all hubs, the most promising in full."""
        seconds = {wiring: self._estimate(wiring) for wiring in self._designs.complete() if self._designs.fits(wiring)}
        for wiring in nsmallest(_COMPLETE, seconds, key=lambda wiring: seconds[wiring]):
            if seconds[wiring] < best[1].time:
                full = plan(wiring, self._exchange, _TREES, limit=best[1].time)
                if full is not None and full.time < best[1].time:
                    best = wiring, full
        return best

    def _planned(self, effort: float, best: tuple[Wiring, Plan]) -> tuple[Wiring, Plan]:
        """The leaders in full, as long as the effort lasts."""
        for wiring in self._leaders(_FINAL):
            full = plan(wiring, self._exchange, FINAL_TREES) if self._seconds[wiring] < np.inf else None
            if full is None:
                continue
            self._spent += len(full.path) * FINAL_TREES
            if full.time < best[1].time:
                best = wiring, full
            if self._spent > effort:
                break
        return best
