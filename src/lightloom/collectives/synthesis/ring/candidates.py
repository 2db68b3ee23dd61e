"""Which designs are worth growing trees for: a time for each from its depth and its busiest circuits, in closed form.

A piece takes M chords of the top level each way, then fills the gap between two ranks of that line from both ends with
the next level, and so on down to unit links:

    loads   chord of level i: uses · spacing · bytes / wavelength      unit link: (N − 1 − uses of hubs everywhere) / 2
    depth   M + gap/(2 length) of every level below

Loads fall with the wavelengths given to a level, so the least time at which all levels fit the fibre is found by
bisection, for all combinations of levels at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.synthesis.engine.hubs import Level
from lightloom.collectives.synthesis.engine.trees import Design, Timing
from lightloom.core.arrays import Floats, Ints

_SPACINGS = 64
"""Most ranks between hubs."""
_LONGEST = 512
"""Most ranks that a chord passes."""
_SKIPS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256)
_PARTS = (1.0, 0.85, 0.7, 0.5, 0.35, 0.2, 0.1)
"""Of a half ring that the line of top chords covers."""
_BISECTIONS = 14


class Candidate(NamedTuple):
    """A design with its estimate."""

    seconds: float
    design: Design


@dataclass(frozen=True, slots=True)
class _Rows:
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
        return _Rows(*(getattr(self, name)[which] for name in ("which", "longest", "depth", "loads", "unit")))


def candidates(ranks: int, channels: int, nbytes: float, timing: Timing, limit: float) -> list[Candidate]:
    """Designs of one to three levels that may take less than ``limit`` seconds, best estimate first.

    Of designs that differ in the length of the line of top chords alone, the best.
    """
    levels = _levels(ranks, channels)
    designs: list[Candidate] = []
    for count in (1, 2, 3):
        rows = _estimated(levels, count, ranks, nbytes, timing)
        rows = rows.only(rows.depth < limit)
        seconds, rows = _fitted(levels, rows, channels, limit)
        order = np.argsort(seconds, kind="stable")
        _, first = np.unique(rows.which[order], axis=0, return_index=True)
        designs += [
            Candidate(float(seconds[row]), _design(levels, rows, row, float(seconds[row]), channels, ranks))
            for row in order[np.sort(first)][:4000].tolist()
        ]
    return sorted(designs, key=lambda candidate: candidate.seconds)


def widened(chords: Sequence[Level], ranks: int, channels: int, nbytes: float, timing: Timing) -> Design | None:
    """These chords, each as wide as its estimated load asks; None where they are not nested, or do not fit."""
    levels = sorted((chord._replace(width=1) for chord in chords), key=lambda chord: chord.length(ranks))
    if not all(chord.skip < chord.hubs for chord in levels) or sum(chord.colours for chord in levels) >= channels:
        return None
    rows = _estimated(levels, len(levels), ranks, nbytes, timing)
    seconds, rows = _fitted(levels, rows, channels, ranks * (timing.hop + nbytes / timing.bandwidth))
    if not len(seconds):
        return None
    row = int(np.argmin(seconds))
    return _design(levels, rows, row, float(seconds[row]), channels, ranks)


def hub_counts(ranks: int) -> list[int]:
    """Numbers of hubs worth trying: divisors, and where there are few, any nearly even spread."""
    spacings = [spacing for spacing in range(1, min(_SPACINGS, ranks // 2) + 1) if ranks % spacing == 0]
    if len(spacings) > 2:
        return [ranks // spacing for spacing in spacings]
    powers = [1 << k for k in range(1, (ranks - 1).bit_length()) if 1 << k <= _SPACINGS]
    return sorted({ranks, *(max(2, ranks // power) for power in powers)}, reverse=True)


def _levels(ranks: int, channels: int) -> list[Level]:
    """Ordered by length, then by spacing."""
    levels = [
        level
        for hubs in hub_counts(ranks)
        for level in (Level(hubs, skip, 1) for skip in _SKIPS if skip < hubs)
        if 1 < level.length(ranks) <= min(_LONGEST, ranks / 3 + 1) and level.wavelengths < channels
    ]
    return sorted(levels, key=lambda level: (level.length(ranks), -level.hubs))


def _combinations(levels: list[Level], count: int, ranks: int) -> Ints:
    """Indices of nested levels, each at least twice as long as the one below: [row, level]."""
    hubs = np.array([level.hubs for level in levels], np.int64)
    length = np.array([level.length(ranks) for level in levels])
    below = (hubs[:, None] % hubs[None, :] == 0) & (2 * length[:, None] <= length[None, :])
    rows = np.arange(len(levels), dtype=np.int64)[:, None]
    for _ in range(count - 1):
        at, above = np.nonzero(below[rows[:, -1]])
        rows = np.column_stack([rows[at], above])
    return rows


def _estimated(levels: list[Level], count: int, ranks: int, nbytes: float, timing: Timing) -> _Rows:
    which = _combinations(levels, count, ranks)
    spacing = np.array([ranks / level.hubs for level in levels])[which]
    length = np.array([level.length(ranks) for level in levels])[which]
    half = np.ceil(ranks / 2 / length[:, -1])
    longest = np.maximum(1, np.rint(half[:, None] * np.array(_PARTS)))
    row = np.repeat(np.arange(len(which)), len(_PARTS))
    which, spacing, length, line = which[row], spacing[row], length[row], longest.ravel()
    seconds = nbytes / timing.bandwidth
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
    climb = spacing[:, -1] / 2 / (length[:, 0] if count > 1 else 1)
    depth += np.maximum(gap / 2, tail) + climb
    unit = np.maximum(0.0, ranks - 1 - everywhere) * seconds / 2
    return _Rows(which, line.astype(np.int64), depth * timing.hop, loads, unit)


def _fitted(levels: list[Level], rows: _Rows, channels: int, limit: float) -> tuple[Floats, _Rows]:
    """The least seconds at which every level has the wavelengths it needs; rows that fit below the limit."""
    colours = np.array([level.colours for level in levels], np.int64)

    def fits(rows: _Rows, seconds: Floats) -> NDArray[np.bool_]:
        needed = np.maximum(1, np.ceil(rows.loads / seconds[:, None])) * colours[rows.which]
        total = np.maximum(1, np.ceil(rows.unit / seconds)) + needed.sum(axis=1)
        return np.asarray(total <= channels)

    rows = rows.only(fits(rows, np.full(len(rows.depth), limit)))
    low, high = rows.depth.copy(), np.full(len(rows.depth), limit)
    high = np.where(fits(rows, np.maximum(low, 1e-15)), low, high)
    for _ in range(_BISECTIONS):
        middle = np.maximum((low + high) / 2, 1e-15)
        enough = fits(rows, middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high, rows


def _design(levels: list[Level], rows: _Rows, row: int, seconds: float, channels: int, ranks: int) -> Design:
    """Widths for these seconds; what is left over goes to the busiest level, unit links included."""
    chords = [levels[i] for i in rows.which[row].tolist()]
    widths = np.maximum(1, np.ceil(rows.loads[row] / max(seconds, 1e-15))).astype(np.int64)
    colours = np.array([chord.colours for chord in chords])
    left = channels - int(colours @ widths)
    while True:
        busiest = int(np.argmax(rows.loads[row] / widths))
        after = left - int(colours[busiest])
        if after < 1 or rows.unit[row] / after >= rows.loads[row, busiest] / widths[busiest]:
            break
        widths[busiest] += 1
        left = after
    wide = tuple(chord._replace(width=int(width)) for chord, width in zip(chords, widths, strict=True))
    longest = int(rows.longest[row])
    return Design(wide, longest=None if longest * chords[-1].length(ranks) >= ranks / 2 else longest)
