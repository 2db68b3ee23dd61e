"""Circuits on a ring that are the same in every group: what repeats is assigned once.

    group 0            group 1            group 2
    0 ─ 1 ─ 2 ─ 3      0 ─ 1 ─ 2 ─ 3      0 ─ 1 ─ 2 ─ 3
    └──→┘              └──→┘              └──→┘             circuits within groups share a wavelength
    └──────────────────┴──────────────────┴───────···       those to the next group tile the ring, a wavelength a device

Groups that have their circuits in different holds would not be alike. Within a group circuits take the direction that
stays in it, so that they are intervals of its links, which need no more wavelengths than the busiest link has circuits.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics.base import CLOCKWISE, COUNTERCLOCKWISE, Fabric
from lightloom.parallelism.circuits.circuits import Assignment, Circuits, fill_longest, smallest_counts
from lightloom.parallelism.circuits.ring_bound import Relaxation, check_ring, relax
from lightloom.parallelism.circuits.traffic import Traffic

_HALVINGS = 20


class _Pipes(NamedTuple):
    """Pairs of one group, arrays of shape [pipe]."""

    source: Ints
    destination: Ints
    """From k on: of the next group."""
    nbytes: Floats
    direction: Ints
    first: Ints
    """First of the links that a circuit occupies, 0 ... k − 1, in the direction of the clock."""
    last: Ints
    """One past the last, 1 ... k."""


def assign_tiled(
    traffic: Traffic, fabric: Fabric, k: int, holds: int = 1, relaxation: Relaxation | None = None
) -> Assignment:
    """Return circuits for traffic that repeats every k ranks, within groups and to the next one, repeating likewise.

    The largest t at which ``ceil(t · T)`` circuits a pair fit, free wavelengths then to the longest transfers. Where
    not even one circuit a pair fits, all go to the longest, and some pairs have none (gap 1).

    Args:
        traffic: of at least two groups; other pairs than named are left without circuits.
        k: ranks of a group.
        holds: of the cycle over which circuits take turns.
        relaxation: of the same traffic and fabric, if already solved.
    """
    relaxation = relax(traffic, fabric) if relaxation is None else relaxation
    channels = fabric.channels * holds
    pipes = _pipes(traffic, k)
    counts = _fill(pipes, k, channels, _fewest(pipes, k, channels))
    return Assignment(traffic, _repeated(traffic, pipes, k, counts, holds), relaxation.service)


def longest_tiled(traffic: Traffic, fabric: Fabric, k: int, most: Ints) -> Circuits:
    """One hold by water-filling alone, repeating every k ranks, each pair with at most ``most`` [pair] circuits."""
    check_ring(traffic, fabric)
    pipes = _pipes(traffic, k)
    counts = _fill(pipes, k, fabric.channels, np.zeros(len(pipes.source), np.int64), most[traffic.source < k])
    return _repeated(traffic, pipes, k, counts, 1)


def _repeated(traffic: Traffic, pipes: _Pipes, k: int, counts: Ints, holds: int) -> Circuits:
    """Assign wavelengths to counts [pipe] of one group, and the same in all others."""
    pipe = np.repeat(np.arange(len(counts)), counts)
    colour = _colours(pipes, pipe)
    groups = traffic.ranks // k
    first = np.repeat(np.arange(groups) * k, len(pipe))
    # Neighbouring colours, often of one pair, go to different holds.
    return Circuits(
        holds,
        np.tile(colour % holds, groups),
        first + np.tile(pipes.source[pipe], groups),
        (first + np.tile(pipes.destination[pipe], groups)) % traffic.ranks,
        np.tile(pipes.direction[pipe], groups),
        np.tile(colour // holds, groups),
    )


def _pipes(traffic: Traffic, k: int) -> _Pipes:
    inside = np.flatnonzero(traffic.source < k)
    source, destination = traffic.source[inside], traffic.destination[inside]
    next_group = destination == source + k
    direction = np.where(destination > source, CLOCKWISE, COUNTERCLOCKWISE)
    if traffic.ranks == 2 * k:
        direction = np.where(next_group & (source % 2 == 1), COUNTERCLOCKWISE, direction)
    first = np.where(next_group, 0, np.minimum(source, destination))
    last = np.where(next_group, k, np.maximum(source, destination))
    return _Pipes(source, destination, traffic.nbytes[inside], direction, first, last)


def _loads(pipes: _Pipes, k: int, counts: Ints) -> Ints:
    """Return the number of circuits on each link [direction, k]."""
    change = np.zeros((2, k + 1), np.int64)
    np.add.at(change, (pipes.direction, pipes.first), counts)
    np.subtract.at(change, (pipes.direction, pipes.last), counts)
    return np.cumsum(change, axis=1)[:, :k]


def _fewest(pipes: _Pipes, k: int, channels: int) -> Ints:
    """Return circuits of the best service that fits, shape [pipe]; none where one a pipe is too many."""
    relative = pipes.nbytes / pipes.nbytes.max()
    best = np.ones(len(relative), np.int64)
    if _loads(pipes, k, best).max() > channels:
        return np.zeros_like(best)
    low, high = 0.0, float(channels)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        counts = smallest_counts(relative, middle)
        if _loads(pipes, k, counts).max() <= channels:
            best, low = counts, middle
        else:
            high = middle
    return best


def _fill(pipes: _Pipes, k: int, channels: int, counts: Ints, most: Ints | None = None) -> Ints:
    """Give free wavelengths one at a time to the transfer that is still the longest with the added circuit."""
    remaining = (np.full(len(counts), channels) if most is None else most) - counts
    load = _loads(pipes, k, counts)

    def take(pipe: int) -> bool:
        crossed = load[pipes.direction[pipe], pipes.first[pipe] : pipes.last[pipe]]
        if remaining[pipe] <= 0 or crossed.max() >= channels:
            return False
        crossed += 1
        remaining[pipe] -= 1
        return True

    return fill_longest(pipes.nbytes, counts, take)


def _colours(pipes: _Pipes, pipe: Ints) -> Ints:
    """Return a wavelength of each circuit: the lowest that is free where it begins."""
    colour = np.empty(len(pipe), np.int64)
    first, last = pipes.first[pipe], pipes.last[pipe]
    for direction in (CLOCKWISE, COUNTERCLOCKWISE):
        free: list[int] = []
        busy: list[tuple[int, int]] = []
        used = 0
        circuits = np.flatnonzero(pipes.direction[pipe] == direction)
        for circuit in circuits[np.lexsort((pipe[circuits], -last[circuits], first[circuits]))].tolist():
            while busy and busy[0][0] <= first[circuit]:
                heappush(free, heappop(busy)[1])
            if not free:
                heappush(free, used)
                used += 1
            colour[circuit] = heappop(free)
            heappush(busy, (int(last[circuit]), int(colour[circuit])))
    return colour
