"""Wavelength assignment on rings and lines, and planes on circuit switches.

For all-to-all the assignments are optimal and written down:

* line of n nodes: ``floor(n²/4)`` wavelengths each way (the load of the middle link; intervals colour perfectly);
* ring of n nodes: ``ceil(floor(n²/4) / 2)`` each way (half the load of any pair of opposite links).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.fabrics.base import CLOCKWISE, COUNTERCLOCKWISE


def ring_all_to_all_wavelengths(nodes: int) -> int:
    """Fewest wavelengths, each way, for one-stage all-to-all on a ring: ``ceil(floor(n²/4)/2)``.

    OpTree's Lemma 1 prints ``ceil(n²/8)``, which is one more than this for odd n above 1 (n = 5: 4 instead of 3).
    """
    return (nodes * nodes // 4 + 1) // 2


def line_all_to_all_wavelengths(nodes: int) -> int:
    """Fewest wavelengths, each way, for one-stage all-to-all on a line: ``floor(n²/4)`` (OpTree, Lemma 1)."""
    return nodes * nodes // 4


def ring_links(nodes: int, source: Ints, destination: Ints, route: Ints) -> int:
    """Links of the longest of these lightpaths on a ring."""
    ahead = np.where(np.asarray(route) == CLOCKWISE, destination - source, source - destination)
    return int((ahead % nodes).max())


@lru_cache(maxsize=64)
def ring_all_to_all(nodes: int) -> tuple[Ints, Ints, Ints, Ints]:
    """An optimal one-stage all-to-all on a ring: (source, destination, route, wavelength), one entry an ordered pair.

    Two opposite nodes X and Y are served at a time and then taken off the ring. For v on the one side of them and u on
    the other, one clockwise wavelength carries the closed tour X→v→Y→u→X, one counter-clockwise its reverse:

             v
          ↗     ↘
        X         Y        four demands a wavelength, every link used exactly once
          ↖     ↙
             u

    X→Y and Y→X take what is left: half a tour each way when the sides differ by one node, else a wavelength of their
    own, clockwise and counter-clockwise in turn.
    """
    parts: list[tuple[Ints, Ints, int, Ints]] = []
    used = [0, 0]
    remaining = np.arange(nodes, dtype=np.int64)
    while len(remaining) >= 2:
        half = (len(remaining) + 1) // 2
        x, y = remaining[0], remaining[half]
        near, far = remaining[1:half], remaining[half + 1 :]
        for direction in (CLOCKWISE, COUNTERCLOCKWISE):
            for side, enter, leave in ((near, x, y), (far, y, x)):
                colour = used[direction] + np.arange(len(side))
                ends = (np.full(len(side), enter), np.full(len(side), leave))
                a, b = ends if direction == CLOCKWISE else ends[::-1]
                parts += [(a, side, direction, colour), (side, b, direction, colour)]
        one = np.ones(1, dtype=np.int64)
        spare = used[CLOCKWISE] + len(far), used[COUNTERCLOCKWISE] + len(far)
        used[0] += len(near)
        used[1] += len(near)
        if len(near) > len(far):
            parts += [
                (y * one, x * one, CLOCKWISE, spare[0] * one),
                (x * one, y * one, COUNTERCLOCKWISE, spare[1] * one),
            ]
        else:
            direction = CLOCKWISE if used[CLOCKWISE] <= used[COUNTERCLOCKWISE] else COUNTERCLOCKWISE
            parts += [
                (x * one, y * one, direction, used[direction] * one),
                (y * one, x * one, direction, used[direction] * one),
            ]
            used[direction] += 1
        remaining = np.concatenate([near, far])
    source, destination = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    route = np.concatenate([np.full(len(part[0]), part[2]) for part in parts])
    return source, destination, route, np.concatenate([part[3] for part in parts])


def colour_intervals(start: Ints, end: Ints, count: Ints, nodes: int) -> tuple[Ints, int]:
    """Fewest colours such that overlapping intervals [start, end) of a line of ``nodes`` differ.

    Interval i receives ``count[i]`` colours; they come back concatenated, with the number of colours (the largest
    load).
    """
    from lightloom.collectives.schedule import _colour_kernels as kernels

    colour = np.empty(int(count.sum()), np.int64)
    ends = (column.astype(np.int64, copy=False) for column in (start, end))
    used = kernels.sweep(np.lexsort((end, start)), *ends, count, colour, nodes)
    return colour, int(used)


class ColourRanges(NamedTuple):
    """Colours of intervals, as ranges of colours that follow each other: arrays [range]."""

    interval: Ints
    """Interval to which the colours belong; ranges of one interval follow each other."""
    colour: Ints
    """First colour."""
    size: Ints
    """Colours."""
    before: Ints
    """Colours that the interval has in ranges before."""
    colours: int
    """Colours that are used in all."""


def colour_ranges(start: Ints, end: Ints, count: Ints, nodes: int) -> ColourRanges:
    """As :func:`colour_intervals`, with memory for ranges of colours instead of colours."""
    from lightloom.collectives.schedule import _colour_kernels as kernels

    ends = (column.astype(np.int64, copy=False) for column in (start, end, count))
    interval, colour, given, used = kernels.sweep_ranges(np.lexsort((end, start)), *ends, nodes)
    order = np.argsort(interval, kind="stable")
    interval, colour, given = interval[order], colour[order], given[order]
    total = np.cumsum(given) - given
    before = total - total[np.searchsorted(interval, interval)] if len(interval) else total
    return ColourRanges(interval, colour, given, before, int(used))


def colour_arcs(start: Ints, length: Ints, nodes: int) -> tuple[Ints, int]:
    """Colours such that overlapping arcs of a ring differ: optimal if some link is free, else first-fit, longest first.

    The colour of an arc depends on the set of arcs only, not on their order, so that a transfer and its reverse, which
    run over the same links, get the same one. Arc i covers the links ``start[i] ... start[i] + length[i] − 1`` modulo
    ``nodes``.
    """
    load = np.zeros(nodes + 1, np.int64)
    ends = start + length
    np.add.at(load, start, 1)
    np.add.at(load, np.minimum(ends, nodes), -1)
    wrapped = ends > nodes
    load[0] += int(wrapped.sum())
    np.add.at(load, ends[wrapped] - nodes, -1)
    load = np.cumsum(load)[:nodes]
    free = np.flatnonzero(load == 0)
    if len(free):
        shifted = (start - free[0]) % nodes
        return colour_intervals(shifted, shifted + length, np.ones_like(start), nodes)
    from lightloom.collectives.schedule import _colour_kernels as kernels

    colour = np.empty(len(start), np.int64)
    order = np.lexsort((start, -length))
    return colour, int(kernels.first_fit(order, *map(np.ascontiguousarray, (start, length)), nodes, colour))


def colour_planes(source: Ints, destination: Ints, nodes: int) -> tuple[Ints, int]:
    """Fewest planes (the largest number of circuits a node holds, by König's theorem) for these circuits."""
    from lightloom.collectives.schedule import _colour_kernels as kernels

    degree = int(max(np.bincount(source).max(), np.bincount(destination).max()))
    colour = np.full(len(source), -1, np.int64)
    kernels.alternate(*map(np.ascontiguousarray, (source, destination)), nodes, degree, colour)
    return colour, degree
