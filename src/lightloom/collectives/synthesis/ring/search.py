"""The best design for a ring: candidates in the order of their estimate, then steps away from the best of them.

Deterministic: the effort is counted in transfers scheduled, not in seconds, and the random steps are seeded.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from lightloom.collectives.synthesis.engine.trees import Design, Level, RingTask, RingTrees, make_trees, repetition
from lightloom.core.arrays import Floats, Ints, Mask

# Which designs are worth growing trees for: a time for each from its depth and its busiest circuits, in closed form.
#
# A piece takes M chords of the top level each way, then fills the gap between two ranks of that line from both ends
# with the next level, and so on down to unit links:
#
# loads   chord of level i: uses · spacing · bytes / wavelength      unit link: (N − 1 − uses of hubs everywhere) / 2
# depth   M + gap/(2 length) of every level below
#
# Loads fall with the wavelengths given to a level, so the least time at which all levels fit the fibre is found by
# bisection, for all combinations of levels at once.

_SPACINGS = 64
"""Most ranks between hubs."""
_LONGEST = 512
"""Most ranks that a chord passes."""
_SKIPS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256)
_PARTS = (1.0, 0.85, 0.7, 0.5, 0.35, 0.2, 0.1)
"""Parts of a half ring that the line of top chords may cover."""
_BISECTIONS = 14


class _Rows(NamedTuple):
    """Combinations of levels, shortest chords first: arrays [row, level] and [row]."""

    which: Ints
    longest: Ints
    depth: Floats
    """Seconds of the longest path, transmissions left out."""
    loads: Floats
    """Seconds that a chord of width 1 is busy: [row, level]."""
    unit: Floats
    """Seconds that a unit link of one wavelength is busy."""

    def only(self, which: Any) -> _Rows:
        """Return the rows that indices or a mask select."""
        return _Rows(*(column[which] for column in self))


def estimated_designs(task: RingTask, limit: float) -> list[tuple[float, Design]]:
    """Return pairs of estimated seconds and a design of one to three levels in two pieces, best estimate first, of all
    that fit the channels within ``limit`` seconds.

    The fastest is returned of designs that differ in the length of the line of top chords alone, and at most 4000
    designs of each number of levels.
    """
    levels = _levels(task.ranks, task.channels)
    designs: list[tuple[float, Design]] = []
    for count in (1, 2, 3):
        rows = _estimated(levels, count, task)
        rows = rows.only(rows.depth < limit)
        seconds, rows = _fitted(levels, rows, task.channels, limit)
        order = np.argsort(seconds, kind="stable")
        _, first = np.unique(rows.which[order], axis=0, return_index=True)
        for row in order[np.sort(first)][:4000].tolist():
            least = float(seconds[row])
            designs.append((least, _design(levels, rows, row, least, task)))
    return sorted(designs, key=itemgetter(0))


def widened(chords: Sequence[Level], task: RingTask) -> Design | None:
    """Return the design of these chords, each as wide as its estimated load asks; None where they are not nested, one
    is not twice as long as the next shorter one, or they leave no channel for unit links at width 1.

    Widths of the chords given do not count, nor does their order. The design has two pieces.
    """
    levels = sorted((chord._replace(width=1) for chord in chords), key=lambda chord: chord.length(task.ranks))
    if not all(chord.skip < chord.hubs for chord in levels) or sum(chord.colours for chord in levels) >= task.channels:
        return None
    rows = _estimated(levels, len(levels), task)
    limit = task.ranks * (task.timing.hop + task.nbytes / task.timing.bandwidth)
    seconds, rows = _fitted(levels, rows, task.channels, limit)
    if not len(seconds):
        return None
    row = int(np.argmin(seconds))
    return _design(levels, rows, row, float(seconds[row]), task)


def hub_counts(ranks: int) -> list[int]:
    """Return numbers of hubs worth trying, most first: divisors, and where there are few, any nearly even spread.

    Divisors are those with at most 64 ranks from hub to hub. Where there are two or fewer, all ranks, and the ranks
    over 2, 4, 8, ... 64, rounded down.
    """
    spacings = [spacing for spacing in range(1, min(_SPACINGS, ranks // 2) + 1) if ranks % spacing == 0]
    if len(spacings) > 2:
        return [ranks // spacing for spacing in spacings]
    powers = [1 << k for k in range(1, (ranks - 1).bit_length()) if 1 << k <= _SPACINGS]
    return sorted({ranks, *(max(2, ranks // power) for power in powers)}, reverse=True)


def _levels(ranks: int, channels: int) -> list[Level]:
    """Return levels of width 1 worth combining, ordered by length, then by spacing.

    Their chords are longer than a unit link, pass about a third of the ring and 512 ranks at most, and leave one of
    ``channels`` free.
    """
    levels = [
        level
        for hubs in hub_counts(ranks)
        for level in (Level(hubs, skip, 1) for skip in _SKIPS if skip < hubs)
        if 1 < level.length(ranks) <= min(_LONGEST, ranks / 3 + 1) and level.wavelengths < channels
    ]
    return sorted(levels, key=lambda level: (level.length(ranks), -level.hubs))


def _combinations(levels: list[Level], count: int, ranks: int) -> Ints:
    """Return the combinations of ``count`` nested levels, each at least twice as long as the one below, as indices into
    ``levels``: [row, level].

    The hubs of a level are among those of the level below.
    """
    hubs = np.array([level.hubs for level in levels], np.int64)
    length = np.array([level.length(ranks) for level in levels])
    below = (hubs[:, None] % hubs[None, :] == 0) & (2 * length[:, None] <= length[None, :])
    rows = np.arange(len(levels), dtype=np.int64)[:, None]
    for _ in range(count - 1):
        at, above = np.nonzero(below[rows[:, -1]])
        rows = np.column_stack([rows[at], above])
    return rows


def _estimated(levels: list[Level], count: int, task: RingTask) -> _Rows:
    """Return combinations of ``count`` nested levels, each with seven lengths of the line of top chords.

    Each row has its levels as indices into ``levels``, the chords of that line each way, the estimated seconds of the
    longest path without transmissions, and the seconds for which a lightpath of each level, and a unit link, is busy at
    width 1.
    """
    ranks, seconds = task.ranks, task.nbytes / task.timing.bandwidth
    which = _combinations(levels, count, ranks)
    spacing = np.array([ranks / level.hubs for level in levels])[which]
    length = np.array([level.length(ranks) for level in levels])[which]
    longest = np.maximum(1, np.rint(np.ceil(ranks / 2 / length[:, -1])[:, None] * np.array(_PARTS)))
    row = np.repeat(np.arange(len(which)), len(_PARTS))
    which, spacing, length, line = which[row], spacing[row], length[row], longest.ravel()
    gap, tail = length[:, -1], np.maximum(0.0, ranks / 2 - line * length[:, -1])
    depth = line.copy()
    loads = np.empty(which.shape)
    loads[:, -1] = line * spacing[:, -1] * seconds
    everywhere = np.where(spacing[:, -1] == 1, 2 * line, 0.0)
    for level in range(count - 2, -1, -1):
        uses = line * np.maximum(0.0, gap / length[:, level] - 1) + tail / length[:, level]
        loads[:, level] = uses * spacing[:, level] * seconds
        everywhere += np.where(spacing[:, level] == 1, 2 * uses, 0.0)
        depth += np.maximum(gap / length[:, level] / 2, tail / length[:, level])
        gap, tail = length[:, level], tail % length[:, level]
    depth += np.maximum(gap / 2, tail) + spacing[:, -1] / 2 / (length[:, 0] if count > 1 else 1)
    unit = np.maximum(0.0, ranks - 1 - everywhere) * seconds / 2
    return _Rows(which, line.astype(np.int64), depth * task.timing.hop, loads, unit)


def least_fitting(fits: Callable[[Floats], Mask], low: Floats, high: Floats, halvings: int) -> Floats:
    """Return, for each row, the least value from ``low`` to ``high`` that fits, as all larger ones do, found by
    ``halvings`` halvings: [row].

    ``high`` is returned where nothing below it is seen to fit.

    Args:
        fits: function that returns True where the values of rows fit: [row].
    """
    for _ in range(halvings):
        middle = (low + high) / 2
        enough = fits(middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def _fitted(levels: list[Level], rows: _Rows, channels: int, limit: float) -> tuple[Floats, _Rows]:
    """Return the least seconds at which every level has the wavelengths that it needs, [row], and the rows kept, in the
    same order.

    Seconds are not below the row's depth; rows that do not fit the channels within ``limit`` seconds are left out of
    both.
    """
    colours = np.array([level.colours for level in levels], np.int64)

    def fits(rows: _Rows, seconds: Floats) -> Mask:
        """Return whether each row's levels and unit links fit the channels if they are busy so long: [row]."""
        seconds = np.maximum(seconds, 1e-15)
        needed = np.maximum(1, np.ceil(rows.loads / seconds[:, None])) * colours[rows.which]
        total = np.maximum(1, np.ceil(rows.unit / seconds)) + needed.sum(axis=1)
        return np.asarray(total <= channels)

    rows = rows.only(fits(rows, np.full(len(rows.depth), limit)))
    low, high = rows.depth.copy(), np.full(len(rows.depth), limit)
    high = np.where(fits(rows, low), low, high)
    return least_fitting(partial(fits, rows), low, high, _BISECTIONS), rows


def _design(levels: list[Level], rows: _Rows, row: int, seconds: float, task: RingTask) -> Design:
    """Return the design of one combination of levels with widths for ``seconds``; what channels are left goes to the
    busiest level.

    Unit links count as a level, and keep one wavelength at least. The line of top chords goes all around where it would
    cover half the ring.

    Args:
        row: number of the combination in ``rows``.
        seconds: most seconds for which a lightpath shall be busy.
    """
    chords = [levels[i] for i in rows.which[row].tolist()]
    widths = np.maximum(1, np.ceil(rows.loads[row] / max(seconds, 1e-15))).astype(np.int64)
    colours = np.array([chord.colours for chord in chords])
    left = task.channels - int(colours @ widths)
    while True:
        busiest = int(np.argmax(rows.loads[row] / widths))
        after = left - int(colours[busiest])
        if after < 1 or rows.unit[row] / after >= rows.loads[row, busiest] / widths[busiest]:
            break
        widths[busiest] += 1
        left = after
    wide = tuple(chord._replace(width=int(width)) for chord, width in zip(chords, widths, strict=True))
    longest = int(rows.longest[row])
    return Design(wide, longest=None if longest * chords[-1].length(task.ranks) >= task.ranks / 2 else longest)


NEAR = 1.01
"""Times the bound at which a search is content."""
_KEPT, _REFINED, _REFINED_AT_HUBS = 16, 4, 1
"""Designs that random steps start from; those whose pieces and deadlines are all tried first."""
_COARSE = 0.8
"""Share of the effort up to which designs have few pieces."""
_FEW = 4
_DOUBLE = 0.4
"""Share of random steps that are followed by another before the design is tried."""
_WIDENED = 0.25
"""Share of random steps whose chords are made as wide as their estimated loads ask."""
_LOOK, _LOOK_AT_HUBS = 5_000, 1_500
"""Transfers' worth of looking at any design, also at one that does not fit; trees that begin at hubs are few."""
_QUICK = 0.1
"""Share of a hop's time in which a piece is to be sent."""
_PIECES = (1, 2, 3, 4, 6, 8, 12, 16)
_SLACKS = (1.0, 1.1, 1.2, 1.35)
_LARGEST_TABLE = 1 << 23
"""Transfers of one design above which it is not tried."""


class RingSearch:
    """Designs tried for one all-gather on one ring."""

    def __init__(self, task: RingTask, known: Design | None = None, bound: float | None = None) -> None:
        """Take the task, and perhaps a design to start from.

        Args:
            bound: seconds that no all-gather on the ring beats, by which the search ends; those of the task unless
                given.
            known: a good design, near which trees that begin at hubs are looked for; without it, trees from all ranks.
        """
        self._task, self._ranks = task, task.ranks
        self._bound = task.bound if bound is None else bound
        self._known = known and replace(known, at_hubs=True)
        self._spent = self._effort = 0
        self._gained = 0
        """Effort that was spent when the best design was found, or the stage of the search began."""
        self._tried: dict[Design, float] = {}
        self._order: list[tuple[float, int, Design]] = []
        """All that was tried, the best first, then what was tried first."""
        self._best: tuple[float, Design] = (np.inf, Design(()))

    def run(self, effort: int) -> tuple[Design, RingTrees]:
        """Return the fastest design found, and its circuits and trees.

        The search ends early once a design takes at most a hundredth more than the bound, and each of its stages once a
        share of the effort has brought nothing: the share by which the best design exceeds the bound.

        Args:
            effort: transfers that may be scheduled.
        """
        self._effort = effort
        if self._known is not None:
            self._try(self._known)
        for pieces in () if self._known else _PIECES:
            # Two pieces halve what opposite ranks have from each other, however near the bound one piece is.
            if pieces <= 2 or not self._content():
                self._try(Design((), pieces=pieces))
        if not self._content():
            self._sweep(effort // 2)
        self._walk(int(_COARSE * effort), coarse=True)
        for leader in self._leaders(_REFINED_AT_HUBS if self._known else _REFINED):
            finer = [replace(leader, pieces=pieces) for pieces in (4, 8, 16)]
            for design in finer + [replace(leader, slack=slack) for slack in _SLACKS]:
                if not self._content():
                    self._try(design)
        self._walk(effort, coarse=False)
        trees = make_trees(self._best[1], self._task)
        assert trees is not None
        return self._best[1], trees

    def _sweep(self, effort: int) -> None:
        """Try candidates in the order of their estimates, with the same share of ``effort`` for each number of ranks
        after which designs repeat, until an estimate is no better than the best design, or that takes at most a
        hundredth more than the bound.

        The farther hubs lie apart, the longer until a design repeats, and the longer its trees take to grow.
        """
        self._gained, classes = self._spent, dict[int, list[tuple[float, Design]]]()
        for seconds, design in estimated_designs(self._task, limit=self._best[0]):
            classes.setdefault(self._cost(design), []).append((seconds, design))
        for same_cost in classes.values():
            until = self._spent + effort // len(classes)
            for seconds, design in same_cost:
                if self._done() or self._spent > until or seconds >= self._best[0]:
                    break
                pieces = self._pieces(design)
                at_hubs = self._known is not None
                self._try(replace(design, pieces=min(pieces, _FEW) if at_hubs else pieces, at_hubs=at_hubs))

    def _content(self) -> bool:
        """Return True when the best design takes at most a hundredth more than the bound."""
        return self._best[0] <= NEAR * self._bound

    def _done(self) -> bool:
        """Return True when the best design takes at most a hundredth more than the bound, or when the effort spent
        since it was found, or since the stage began, is more than what is left to gain is worth. The little effort for
        trees that begin at hubs is always spent."""
        left = self._effort if self._known else self._effort * (self._best[0] / self._bound - 1)
        return self._content() or self._spent - self._gained > left

    def _try(self, design: Design) -> float:
        """Return the seconds of a design, growing its trees unless it was tried before; infinite where it does not fit.

        The seconds are kept, and the effort is counted.
        """
        if design not in self._tried:
            trees = make_trees(design, self._task) if self._fits(design) else None
            self._spent += _LOOK_AT_HUBS if self._known else _LOOK
            self._spent += 0 if trees is None else self._cost(design)
            self._tried[design] = np.inf if trees is None else trees.forest.time
            insort(self._order, (self._tried[design], len(self._tried), design))
            if self._tried[design] < self._best[0]:
                self._best, self._gained = (self._tried[design], design), self._spent
        return self._tried[design]

    def _fits(self, design: Design) -> bool:
        """Return True when light reaches along all chords and the design schedules at most 8,388,608 transfers; whether
        its chords fit the channels is not looked at."""
        longest = max((ceil(chord.length(self._ranks)) for chord in design.chords), default=1)
        return longest <= self._task.farthest and self._cost(design) <= _LARGEST_TABLE

    def _cost(self, design: Design) -> int:
        """Return the number of transfers that a design schedules: ranks after which it repeats · ranks · pieces."""
        return repetition(self._ranks, design.chords) * self._ranks * design.pieces

    def _pieces(self, design: Design) -> int:
        """Return the least number of pieces of 2, 3, 4, 6, 8, 12 and 16 with which each is sent over the narrowest
        chords in a tenth of a hop, else 16, since long paths take the time of a piece at every hop."""
        timing, width = self._task.timing, min((chord.width for chord in design.chords), default=self._task.channels)
        sending = self._task.nbytes / (width * timing.bandwidth)
        return next((pieces for pieces in _PIECES[1:] if sending <= pieces * _QUICK * timing.hop), _PIECES[-1])

    def _leaders(self, count: int) -> list[Design]:
        """Return the best designs, at most ``count``, no two of them with the same chords, the fastest first.

        They are looked for among the best sixteen times ``count`` that were tried.
        """
        best: dict[tuple[Level, ...], Design] = {}
        for _, _, design in self._order[: _KEPT * count]:
            best.setdefault(design.chords, design)
        return list(best.values())[:count]

    def _walk(self, effort: int, coarse: bool) -> None:
        """Try random steps from the fastest designs until ``effort`` transfers are spent in all, nothing is worth
        going on (:meth:`_done`), or 10,000 steps led to no new design.

        With ``coarse`` designs have at most four pieces, which leaves time for more of them.
        """
        rng = np.random.default_rng(0)
        self._gained, misses = self._spent, 0
        while self._spent < effort and not self._done() and misses < 10_000:
            leaders = self._leaders(_KEPT)
            leader = leaders[min(int(rng.exponential(3.0)), len(leaders) - 1)]
            design = self._step(leader, rng)
            if design is not None and rng.random() < _DOUBLE:
                design = self._step(design, rng)
            if design is not None and design.chords and rng.random() < _WIDENED:
                design = widened(design.chords, self._task)
            if design is not None:
                pieces = min(self._pieces(design), _FEW) if coarse else design.pieces
                design = replace(design, pieces=pieces, at_hubs=self._known is not None)
            if design is None or design in self._tried:
                misses += 1
            else:
                self._try(design)

    def _step(self, design: Design, rng: np.random.Generator) -> Design | None:
        """Return a design that differs from this one in one random choice; None where there are no chords to change.

        The choice is of a level to change, add or leave out, the pieces, the slack, the length of the top level's line,
        or the ranks walked before it. A tenth of the steps leads to two or three new levels between the hubs of one
        random number instead, with all else as by default.
        """
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
        """Return what replaces these chords after a step of a kind: one level, or none for kind 8.

        Kinds 0 and 6 change the width by one, kind 1 the hubs that chords pass by one, either way; any other puts
        chords of about the same length between another number of hubs.
        """
        if kind in (0, 6):
            return [level._replace(width=max(1, level.width + int(rng.choice((-1, 1)))))]
        if kind == 1:
            return [level._replace(skip=max(1, level.skip + int(rng.choice((-1, 1)))))]
        if kind == 8:
            return []
        hubs = int(rng.choice(hub_counts(self._ranks)))
        return [level._replace(hubs=hubs, skip=max(1, round(level.length(self._ranks) * hubs / self._ranks)))]

    def _nested(self, rng: np.random.Generator) -> tuple[Level, ...]:
        """Return two or three levels between the same hubs, the shortest first.

        Hubs and lengths are random: the longest chords pass up to a quarter of the ring, and from level to level
        lengths grow by about the same factor.
        """
        hubs = int(rng.choice(hub_counts(self._ranks)))
        longest = max(4.0, self._ranks / 4) ** rng.uniform(0.5, 1.0)
        parts = (0.5,) if rng.random() < 0.5 else (0.33, 0.67)
        lower = [longest ** (part + rng.uniform(-0.15, 0.15)) for part in parts]
        top = _of_length(hubs, longest, self._ranks, rng)._replace(width=1 + int(rng.exponential(0.5)))
        return (*(_of_length(hubs, length, self._ranks, rng) for length in lower), top)

    def _level(self, rng: np.random.Generator) -> Level:
        """Return chords of one random length between a random number of hubs, 1 or 2 wavelengths wide.

        The number of hubs is one worth trying; chords pass 1 hub to a quarter of them, few more often (log-uniform).
        """
        hubs = int(rng.choice(hub_counts(self._ranks)))
        return Level(hubs, round(max(1, hubs // 4) ** rng.random()), int(rng.integers(1, 3)))


def _of_length(hubs: int, length: float, ranks: int, rng: np.random.Generator) -> Level:
    """Return chords of about this length, in ranks, between so many hubs; their width is random, small more often."""
    return Level(hubs, max(1, round(length * hubs / ranks)), 1 + int(rng.exponential(2.0)))


def _beside(level: Level, rng: np.random.Generator) -> Level:
    """Return chords between the same hubs, 2 to 4 times shorter or 2 to 3 times longer, of a random width from 1 to one
    more than that of ``level``."""
    skip = max(1, round(level.skip * float(rng.choice((0.25, 1 / 3, 0.5, 2.0, 3.0)))))
    return level._replace(skip=skip, width=int(rng.integers(1, level.width + 2)))
