"""Which designs are worth growing trees for: a time for each from its depth and its busiest circuits, in closed form.

A piece takes M chords of the top level each way, then fills the gap between two ranks of that line from both ends with
the next level, and so on down to unit links:

    loads   chord of level i: uses · spacing · bytes / wavelength      unit link: (N − 1 − uses of hubs everywhere) / 2
    depth   M + gap/(2 length) of every level below

Loads fall with the wavelengths given to a level, so the least time at which all levels fit the fibre is found by
bisection.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from math import ceil
from typing import NamedTuple

from lightloom.collectives.synthesis.hubs import Level
from lightloom.collectives.synthesis.trees import Design, Timing

_SPACINGS = 64
"""Most ranks between hubs."""
_FRACTIONS = (1.0, 0.85, 0.7, 0.5, 0.35, 0.2, 0.1)
"""Of a half ring that the line of top chords covers."""
_BISECTIONS = 14


class Candidate(NamedTuple):
    """A design with its estimate."""

    seconds: float
    design: Design


class _Work(NamedTuple):
    depth: float
    """Hops of the longest path."""
    chords: list[float]
    """Bytes over wavelengths' bandwidth for a level of width 1, seconds, shortest chords first."""
    unit: float


def candidates(ranks: int, channels: int, nbytes: float, timing: Timing, limit: float) -> list[Candidate]:
    """Designs of one to three levels that may take less than ``limit`` seconds, best estimate first."""
    found = []
    levels = list(_levels(ranks, channels))
    for count in (1, 2, 3):
        for chords in combinations(levels, count):
            if not _nested(chords) or (count == 3 and ranks / 2 / chords[-1].length(ranks) > 24):
                continue
            whole = ceil(ranks / 2 / chords[-1].length(ranks))
            for longest in sorted({max(1, round(whole * part)) for part in _FRACTIONS}, reverse=True):
                work = _work(chords, longest, ranks, nbytes, timing)
                if work.depth * timing.hop >= limit:
                    continue
                fitted = _fit(chords, work, channels, timing.hop, limit)
                if fitted is not None:
                    seconds, widths = fitted
                    wide = tuple(each._replace(width=width) for each, width in zip(chords, widths, strict=True))
                    found.append(Candidate(seconds, Design(wide, longest=longest if longest < whole else None)))
    return sorted(found, key=lambda each: each.seconds)


def hub_counts(ranks: int) -> list[int]:
    """Numbers of hubs worth trying: divisors, and where there are few, any nearly even spread."""
    spacings = [each for each in range(1, min(_SPACINGS, ranks // 2) + 1) if ranks % each == 0]
    if len(spacings) > 2:
        return [ranks // each for each in spacings]
    powers = [1 << k for k in range(1, (ranks - 1).bit_length()) if ranks >> k >= 1 and 1 << k <= _SPACINGS]
    return sorted({ranks, *(max(2, ranks // each) for each in powers)}, reverse=True)


def _levels(ranks: int, channels: int) -> Iterator[Level]:
    """Ordered by length, then by spacing."""
    found = []
    for hubs in hub_counts(ranks):
        for skip in _skips(hubs, ranks):
            level = Level(hubs, skip, 1)
            if 1 < level.length(ranks) <= ranks / 3 + 1 and level.wavelengths < channels:
                found.append(level)
    yield from sorted(found, key=lambda each: (each.length(ranks), -each.hubs))


def _skips(hubs: int, ranks: int) -> list[int]:
    fine = [
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        10,
        12,
        14,
        16,
        20,
        24,
        28,
        32,
        40,
        48,
        56,
        64,
        80,
        96,
        112,
        128,
        160,
        192,
        224,
        256,
    ]
    return [each for each in fine if each < hubs and each * ranks / hubs <= 512]


def _nested(chords: tuple[Level, ...]) -> bool:
    return all(
        below.hubs % above.hubs == 0 and 2 * below.skip * above.hubs <= above.skip * below.hubs
        for below, above in pairwise(chords)
    )


def _work(chords: tuple[Level, ...], longest: int, ranks: int, nbytes: float, timing: Timing) -> _Work:
    seconds = nbytes / timing.bandwidth
    top = chords[-1]
    gap = top.length(ranks)
    tail = max(0.0, ranks / 2 - longest * gap)
    depth, loads = float(longest), [longest * ranks / top.hubs * seconds]
    everywhere = 2.0 * longest if top.hubs == ranks else 0.0
    for level in reversed(chords[:-1]):
        length = level.length(ranks)
        uses = longest * max(0.0, gap / length - 1) + tail / length
        # Gaps inside longer chords are filled again at every chord of the line above.
        loads.append(uses * ranks / level.hubs * seconds)
        everywhere += 2 * uses if level.hubs == ranks else 0.0
        depth += max(gap / length / 2, tail / length)
        gap, tail = length, tail % length
    depth += max(gap / 2, tail) + ranks / top.hubs / 2 / (chords[0].length(ranks) if len(chords) > 1 else 1)
    return _Work(depth, loads[::-1], max(0.0, ranks - 1 - everywhere) * seconds / 2)


def _fit(
    chords: tuple[Level, ...], work: _Work, channels: int, hop: float, limit: float
) -> tuple[float, list[int]] | None:
    """The least seconds at which every level has the wavelengths it needs, and the widths; None above the limit."""
    colours = [each.colours for each in chords]

    def wanted(seconds: float) -> list[int]:
        return [max(1, ceil(load / seconds)) for load in work.chords]

    def fits(seconds: float) -> bool:
        unit = max(1, ceil(work.unit / seconds))
        return unit + sum(c * k for c, k in zip(colours, wanted(seconds), strict=True)) <= channels

    low, high = work.depth * hop, limit
    if not fits(high):
        return None
    if fits(low):
        high = low
    for _ in range(_BISECTIONS if high > low else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    widths = wanted(high)
    left = channels - sum(c * k for c, k in zip(colours, widths, strict=True))
    while True:
        # What is left over goes to the busiest level as long as unit links do not become busier than that.
        busiest = max(range(len(widths)), key=lambda i: work.chords[i] / widths[i])
        after = left - colours[busiest]
        if after < 1 or work.unit / after >= work.chords[busiest] / widths[busiest]:
            return high, widths
        widths[busiest] += 1
        left = after
