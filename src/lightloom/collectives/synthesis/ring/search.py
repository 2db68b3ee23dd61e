"""The best design for a ring: candidates in the order of their estimate, then steps away from the best of them.

Deterministic: the effort is counted in transfers scheduled, not in seconds, and the random steps are seeded.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import replace
from math import ceil

import numpy as np

from lightloom.collectives.synthesis.engine.hubs import Level, repetition
from lightloom.collectives.synthesis.engine.trees import Design, RingTrees, Timing, make_trees
from lightloom.collectives.synthesis.ring.candidates import Candidate, candidates, hub_counts, widened

NEAR = 1.01
"""Times the bound at which a search is content."""
_KEPT, _REFINED, _REFINED_AT_HUBS = 16, 4, 1
"""Designs that random steps start from; those whose pieces and deadlines are all tried first."""
_COARSE = 0.8
"""Of the effort, up to where designs have few pieces."""
_FEW = 4
_DOUBLE = 0.4
"""Of the random steps, those that are followed by another before the design is tried."""
_WIDENED = 0.25
"""Of the random steps, those whose chords are as wide as their estimated loads ask."""
_LOOK, _LOOK_AT_HUBS = 5_000, 1_500
"""Transfers' worth of looking at any design, also at one that does not fit; trees that begin at hubs are few."""
_QUICK = 0.1
"""Of a hop, in which a piece is sent."""
_PIECES = (1, 2, 3, 4, 6, 8, 12, 16)
_SLACKS = (1.0, 1.1, 1.2, 1.35)
_LARGEST_TABLE = 1 << 23
"""Transfers of one design above which it is not tried."""


class RingSearch:
    """Designs tried for one all-gather on one ring."""

    def __init__(
        self,
        ranks: int,
        channels: int,
        nbytes: float,
        timing: Timing,
        bound: float,
        reach: int | None = None,
        *,
        known: Design | None = None,
    ) -> None:
        """Args:
        channels: wavelengths each way.
        nbytes: of one rank's share.
        bound: seconds that no schedule beats, circuits in place.
        reach: most links that a chord may pass.
        known: a good design, near which trees that begin at hubs are looked for; by default they begin at all ranks.
        """
        self._reach = ranks if reach is None else reach
        self._problem = (ranks, channels, nbytes, timing, bound)
        self._ranks, self._bound = ranks, bound
        self._known = known and replace(known, at_hubs=True)
        self._spent = 0
        self._tried: dict[Design, float] = {}
        self._order: list[tuple[float, int, Design]] = []
        """All that was tried, the best first, then what was tried first."""
        self._best: tuple[float, Design] = (np.inf, Design(()))

    def run(self, effort: int) -> tuple[Design, RingTrees]:
        """The best design found, and its trees."""
        if self._known is not None:
            self._try(self._known)
        for pieces in () if self._known else _PIECES:
            # Two pieces halve what opposite ranks have from each other, however near the bound one piece is.
            if pieces <= 2 or not self._content():
                self._try(Design((), pieces))
        if not self._content():
            self._sweep(effort // 2)
        self._walk(int(_COARSE * effort), coarse=True)
        self._refine()
        self._walk(effort, coarse=False)
        trees = make_trees(self._best[1], *self._problem)
        assert trees is not None
        return self._best[1], trees

    def _sweep(self, effort: int) -> None:
        """Candidates in the order of their estimates, with the same effort for each distance between hubs.

        The farther hubs lie apart, the longer until a design repeats, and the longer its trees take to grow.
        """
        classes: dict[int, list[Candidate]] = {}
        for candidate in candidates(*self._problem[:4], limit=self._best[0]):
            classes.setdefault(self._cost(candidate.design), []).append(candidate)
        for same_cost in classes.values():
            until = self._spent + effort // len(classes)
            for candidate in same_cost:
                if self._content() or self._spent > until or candidate.seconds >= self._best[0]:
                    break
                pieces = self._pieces(candidate.design)
                if self._known:
                    self._try(replace(candidate.design, pieces=min(pieces, _FEW), at_hubs=True))
                else:
                    self._try(replace(candidate.design, pieces=pieces))

    def _content(self) -> bool:
        return self._best[0] <= NEAR * self._bound

    def _try(self, design: Design) -> float:
        if design not in self._tried:
            trees = make_trees(design, *self._problem) if self._fits(design) else None
            self._spent += _LOOK_AT_HUBS if self._known else _LOOK
            self._spent += 0 if trees is None else self._cost(design)
            self._tried[design] = np.inf if trees is None else trees.time
            insort(self._order, (self._tried[design], len(self._tried), design))
            if self._tried[design] < self._best[0]:
                self._best = self._tried[design], design
        return self._tried[design]

    def _fits(self, design: Design) -> bool:
        longest = max((ceil(chord.length(self._ranks)) for chord in design.chords), default=1)
        return longest <= self._reach and self._cost(design) <= _LARGEST_TABLE

    def _cost(self, design: Design) -> int:
        return repetition(self._ranks, design.chords) * self._ranks * design.pieces

    def _pieces(self, design: Design) -> int:
        """Enough for a piece to be sent in a fraction of a hop, as long paths pay that at every hop."""
        _, channels, nbytes, timing, _ = self._problem
        sending = nbytes / (min((chord.width for chord in design.chords), default=channels) * timing.bandwidth)
        return next(
            (pieces for pieces in _PIECES if sending <= pieces * _QUICK * timing.hop and pieces > 1), _PIECES[-1]
        )

    def _leaders(self, count: int) -> list[Design]:
        """The best designs, no two of them with the same chords."""
        best: dict[tuple[Level, ...], Design] = {}
        for _, _, design in self._order[: _KEPT * count]:
            best.setdefault(design.chords, design)
        return list(best.values())[:count]

    def _walk(self, effort: int, coarse: bool) -> None:
        """Random steps from the best designs; coarse ones in few pieces, which leaves time for more of them."""
        rng = np.random.default_rng(0)
        misses = 0
        while self._spent < effort and not self._content() and misses < 10_000:
            leaders = self._leaders(_KEPT)
            leader = leaders[min(int(rng.exponential(3.0)), len(leaders) - 1)]
            design = self._step(leader, rng)
            if design is not None and rng.random() < _DOUBLE:
                design = self._step(design, rng)
            if design is not None and design.chords and rng.random() < _WIDENED:
                design = widened(design.chords, *self._problem[:4])
            if design is not None and coarse:
                design = replace(design, pieces=min(self._pieces(design), _FEW))
            if design is not None:
                design = replace(design, at_hubs=self._known is not None)
            if design is None or design in self._tried:
                misses += 1
            else:
                self._try(design)

    def _refine(self) -> None:
        for leader in self._leaders(_REFINED_AT_HUBS if self._known else _REFINED):
            for finer in _finer(leader):
                if not self._content():
                    self._try(finer)

    def _step(self, design: Design, rng: np.random.Generator) -> Design | None:
        """A design near this one; None where the step leads nowhere."""
        kind = int(rng.integers(0, 10))
        chords = list(design.chords)
        if kind == 9:
            return Design(self._nested(rng))
        if kind == 4:
            return replace(design, pieces=int(rng.choice(_PIECES)))
        if kind == 6:
            return replace(design, slack=float(rng.choice(_SLACKS)))
        if kind == 7 and len(chords) < 4:
            chords.append(_beside(chords[int(rng.integers(0, len(chords)))], rng) if chords else self._level(rng))
            chords.sort(key=lambda chord: chord.length(self._ranks))
            return replace(design, chords=tuple(chords), longest=None)
        if not chords:
            return None
        half = ceil(self._ranks / 2 / chords[-1].length(self._ranks))
        if kind == 3:
            longest = (design.longest or half) + int(rng.choice((-3, -2, -1, 1, 2, 3)))
            return replace(design, longest=None if longest >= half else max(1, longest))
        if kind == 5:
            tail = self._ranks / 2 - (design.longest or half) * chords[-1].length(self._ranks)
            return replace(design, walk=max(0, int(rng.choice((0, 0.25, 0.5, 0.75, 1.0)) * tail)))
        at = int(rng.integers(0, len(chords)))
        chords[at : at + 1] = self._changed(kind, chords[at], rng)
        half = ceil(self._ranks / 2 / chords[-1].length(self._ranks)) if chords else 1
        cut = design.longest if design.longest is not None and design.longest < half else None
        return replace(design, chords=tuple(chords), longest=cut)

    def _changed(self, kind: int, level: Level, rng: np.random.Generator) -> list[Level]:
        if kind in (0, 6):
            return [level._replace(width=max(1, level.width + int(rng.choice((-1, 1)))))]
        if kind == 1:
            return [level._replace(skip=max(1, level.skip + int(rng.choice((-1, 1)))))]
        if kind == 8:
            return []
        hubs = int(rng.choice(hub_counts(self._ranks)))
        return [level._replace(hubs=hubs, skip=max(1, round(level.length(self._ranks) * hubs / self._ranks)))]

    def _nested(self, rng: np.random.Generator) -> tuple[Level, ...]:
        """Two or three levels between the same hubs, their lengths apart by like factors."""
        hubs = int(rng.choice(hub_counts(self._ranks)))
        longest = max(4.0, self._ranks / 4) ** rng.uniform(0.5, 1.0)
        parts = (0.5,) if rng.random() < 0.5 else (0.33, 0.67)
        lower = [longest ** (part + rng.uniform(-0.15, 0.15)) for part in parts]
        top = _of_length(hubs, longest, self._ranks, rng)._replace(width=1 + int(rng.exponential(0.5)))
        return (*(_of_length(hubs, length, self._ranks, rng) for length in lower), top)

    def _level(self, rng: np.random.Generator) -> Level:
        hubs = int(rng.choice(hub_counts(self._ranks)))
        return Level(hubs, round(max(1, hubs // 4) ** rng.random()), int(rng.integers(1, 3)))


def _of_length(hubs: int, length: float, ranks: int, rng: np.random.Generator) -> Level:
    return Level(hubs, max(1, round(length * hubs / ranks)), 1 + int(rng.exponential(2.0)))


def _beside(level: Level, rng: np.random.Generator) -> Level:
    """Chords between the same hubs, some times shorter or longer."""
    skip = max(1, round(level.skip * float(rng.choice((0.25, 1 / 3, 0.5, 2.0, 3.0)))))
    return level._replace(skip=skip, width=int(rng.integers(1, level.width + 2)))


def _finer(design: Design) -> list[Design]:
    """The same circuits with other numbers of pieces and other deadlines."""
    return [replace(design, pieces=pieces) for pieces in (4, 8, 16)] + [
        replace(design, slack=slack) for slack in _SLACKS
    ]
