"""Which integer radices give OpTree the fewest steps: candidates by estimate, the best of them counted exactly."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

import numpy as np

from lightloom.collectives.algorithms._optree_kernels import exchange_parts
from lightloom.collectives.schedule.wavelengths import (
    line_all_to_all_wavelengths,
    ring_all_to_all,
    ring_all_to_all_wavelengths,
)
from lightloom.core.arrays import Ints

_LARGEST_LATER_RADIX = 16
_COUNTED_EXACTLY = 48


def cut(start: Ints, size: Ints, radix: int) -> tuple[Ints, Ints, Ints]:
    """Cut each part into ``radix`` near-equal ones, larger first: (starts, sizes, which part each came from)."""
    pieces = np.minimum(size, radix)
    parent = np.repeat(np.arange(len(size)), pieces)
    index = np.arange(len(parent)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    small, larger = np.divmod(size, pieces)
    piece_size = small[parent] + (index < larger[parent])
    piece_start = start[parent] + index * small[parent] + np.minimum(index, larger[parent])
    return piece_start, piece_size, parent


def stage_steps(n: int, channels: int, radices: Sequence[int]) -> tuple[int, ...]:
    """Exact steps of each stage, from the load of every link, without building the schedule. O(N · sum of radices)."""
    return tuple(_steps(n, channels, radices))


def _steps(n: int, channels: int, radices: Sequence[int]) -> Iterator[int]:
    """The steps of one stage after the other, each counted when it is asked for."""
    start, size = np.zeros(1, np.int64), np.full(1, n, np.int64)
    items = np.ones(n, np.int64)
    for number, radix in enumerate(radices):
        start, size, parent = cut(start, size, radix)
        first = np.searchsorted(parent, np.arange(parent[-1] + 2))
        change, arriving = np.zeros((2, n + 1) if number else (0, 0), np.int64), np.zeros(n, np.int64)
        exchange_parts(start, size, first, items, arriving, change)
        colours = int(np.cumsum(change, axis=1).max()) if number else _first_stage_colours(size)
        yield -(-colours // channels)
        items += arriving


def _first_stage_colours(size: Ints) -> int:
    """Each position of the parts takes an all-to-all of its own; the last one only what its senders use."""
    larger = int(np.count_nonzero(size == size.max()))
    full = int(size.min()) * ring_all_to_all_wavelengths(len(size))
    if larger == len(size):
        return full
    source, _, _, colour = ring_all_to_all(len(size))
    return full + len(np.unique(colour[source < larger]))


@lru_cache(maxsize=256)
def best_radices(n: int, channels: int) -> tuple[int, ...]:
    """The radices with the fewest steps among the most promising; ties go to fewer stages, then to the lower estimate.

    Estimate of a stage of radix m: around the ring ceil(N/m)·C(m) wavelengths, along a line (N/m)·floor(m²/4), over w.
    """
    candidates = _candidates(n, channels)
    best, fewest = candidates[0], (sys.maxsize, 0)
    for radices in candidates:
        # Each stage takes a step at least; the rest of those that cannot win is not counted.
        least = len(radices)
        for steps in _steps(n, channels, radices):
            least += steps - 1
            if (least, len(radices)) >= fewest:
                break
        else:
            best, fewest = radices, (least, len(radices))
    return best


def _candidates(n: int, channels: int) -> list[tuple[int, ...]]:
    @cache
    def rest(size: int) -> list[tuple[float, tuple[int, ...]]]:
        """The best ways to finish parts of ``size`` ranks along lines, cheapest first."""
        if size == 1:
            return [(0.0, ())]
        candidates = []
        for radix in range(2, min(size, _LARGEST_LATER_RADIX) + 1):
            cost = float(np.ceil(n / radix * line_all_to_all_wavelengths(radix) / channels - 1e-9))
            candidates += [(cost + more, (radix, *tail)) for more, tail in rest(-(-size // radix))[:8]]
        return sorted(candidates)[:_COUNTED_EXACTLY]

    candidates = []
    for radix in sorted({*range(2, min(n, 64) + 1), n}):
        parts = -(-n // radix)
        cost = float(-(-parts * ring_all_to_all_wavelengths(radix) // channels))
        candidates += [(cost + more, (radix, *tail)) for more, tail in rest(parts)[:12]]
    return [radices for _, radices in sorted(candidates)[:_COUNTED_EXACTLY]]
