"""SiP-Ring: wavelengths of a ring of micro-ring resonators, assigned fast.

H holds of W wavelengths on F fibres are one hold of H·F·W wavelengths, in turn: a circuit's channel is the same on all
links it crosses, so arcs coloured with H·F·W colours are coloured in every hold.

Arcs take as few wavelengths as the best of many sweeps finds. Cut the ring before a node. Arcs across the cut take a
wavelength each and leave it free from where they end to where they start again. Sweep around, give every arc the free
wavelength whose own arc starts again soonest, but not before the new one ends:

    cut                                   cut
     ├──a──┤                         ├──a──┤      wavelength 0, free between the two parts of a
           ├───b───┤    ├────c───────┤            fits before a starts again

Intervals of a line need no more wavelengths than the load. Arcs of a ring may (three arcs, each two of which overlap,
have load 2), and the fewest are hard to find (Garey, Johnson, Miller and Papadimitriou, 1980).
"""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import InputError
from lightloom.fabrics.base import CLOCKWISE, Fabric
from lightloom.parallelism.circuits.circuits import Assignment, Circuits, least_service, smallest_counts
from lightloom.parallelism.circuits.ring_bound import Relaxation, check_ring, relax
from lightloom.parallelism.circuits.traffic import Traffic

_HALVINGS = 12
"""Of the interval in which the best service is sought: 1/4096 of the bound."""
_CUTS = 16
"""Cuts of the ring that are tried for one colouring."""


def assign(traffic: Traffic, fabric: Fabric, holds: int = 1, relaxation: Relaxation | None = None) -> Assignment:
    """Return circuits whose least service comes near the fractional optimum, as far as whole circuits can.

    Seeks the largest t at which ``ceil(t · T)`` circuits a pair, divided between the two directions as the relaxation
    does and reversed where a link overflows, all find a wavelength. Free wavelengths then go to the longest transfers;
    where not even one circuit a pair fits, all go there, and some pairs have none (gap 1): give more holds.

    Args:
        holds: of the cycle over which circuits take turns.
        relaxation: of the same traffic and fabric, if already solved.

    Raises:
        InputError: the sizes differ, transceivers bind before the links do, or no hold.
    """
    check_ring(traffic, fabric)
    if holds < 1:
        raise InputError(f"a cycle of {holds} holds: expected at least 1")
    relaxation = relax(traffic, fabric) if relaxation is None else relaxation
    high = relaxation.service * holds
    best = _search(traffic, relaxation, fabric.channels * holds, min(1.0, high), high)
    circuits, dropped = realise(traffic, fabric, best, holds, fill=True)
    return Assignment(traffic, circuits, relaxation.service, dropped)


def assign_in_turns(
    traffic: Traffic, fabric: Fabric, gap: float = 0.1, most_holds: int = 256, relaxation: Relaxation | None = None
) -> Assignment:
    """The shortest cycle of 1, 2, 4, ... holds whose gap to the bound is at most ``gap``, else one of ``most_holds``.

    Raises:
        InputError: as :func:`assign`, or ``gap`` is not between 0 and 1.
    """
    if not 0 < gap < 1:
        raise InputError(f"a gap of {gap} to the bound: expected more than 0 and less than 1")
    relaxation = relax(traffic, fabric) if relaxation is None else relaxation
    holds = 1
    while 2 * holds <= most_holds:
        high = relaxation.service * holds
        if _fit(traffic, (1 - gap) * high, relaxation, fabric.channels * holds) is not None:
            counts = _search(traffic, relaxation, fabric.channels * holds, (1 - gap) * high, high)
            circuits, dropped = realise(traffic, fabric, counts, holds, fill=True)
            return Assignment(traffic, circuits, relaxation.service, dropped)
        holds *= 2
    return assign(traffic, fabric, holds, relaxation)


def assign_longest(traffic: Traffic, fabric: Fabric, most: Ints | None = None) -> Circuits:
    """One hold by water-filling alone: each circuit to the pair whose transfer is still the longest with it.

    Args:
        most: circuits that each pair can use, shape [pair]; unlimited if not given.

    Raises:
        InputError: the sizes differ, or transceivers bind before the links do.
    """
    check_ring(traffic, fabric)
    none = np.zeros((len(traffic), 2), np.int64)
    return realise(traffic, fabric, none, fill=True, most=most)[0]


def realise(
    traffic: Traffic, fabric: Fabric, counts: Ints, holds: int = 1, fill: bool = False, most: Ints | None = None
) -> tuple[Circuits, int]:
    """Return circuits with wavelength continuity for counts [pair, direction], and how many found no wavelength.

    Where colours run out, the smallest colour classes are given up, and each of their circuits is tried once more, in
    both directions, on whatever is free.

    Args:
        fill: then give free wavelengths to the longest transfers, up to ``most`` [pair] each.
    """
    from lightloom.parallelism.circuits import _arc_kernels as kernels

    nodes, channels = fabric.ranks, fabric.channels * holds
    pairs = kernels.RingPairs(nodes, traffic.source, (traffic.destination - traffic.source) % nodes, traffic.nbytes)
    taken = np.zeros((2, nodes, -(-channels // 64)), np.uint64)
    rows = []
    for direction in (0, 1):
        pair, start, length = _arcs(traffic, counts, direction)
        colour, _ = colour_arcs(start, length, nodes, channels)
        colour = _largest_classes(colour, length, channels)
        coloured = colour >= 0
        pair, start, length, colour = pair[coloured], start[coloured], length[coloured], colour[coloured]
        directions = np.full_like(pair, direction)
        rows.append(np.column_stack([pair, directions, colour]))
        kernels.occupy(directions, start, length, colour, nodes, taken)
    granted = np.bincount(np.concatenate(rows)[:, 0], minlength=len(traffic))
    requested = counts.sum(axis=1)
    rows.append(kernels.fill(pairs, channels, requested, granted, taken))
    dropped = int((requested - granted).sum())
    if fill:
        most = np.full(len(traffic), 2 * channels, np.int64) if most is None else most
        rows.append(kernels.fill(pairs, channels, most, granted, taken))
    pair, direction, colour = np.concatenate(rows).T
    hold, channel = np.divmod(colour, fabric.channels)
    return Circuits(holds, hold, traffic.source[pair], traffic.destination[pair], direction, channel), dropped


def _search(traffic: Traffic, relaxation: Relaxation, channels: int, first: float, high: float) -> Ints:
    """Return counts [pair, direction] of the best service up to ``high``, by bisection; 0 if ``first`` does not fit."""
    best = np.zeros((len(traffic), 2), np.int64)
    middle, low = first, 0.0
    for _ in range(_HALVINGS):
        counts = _fit(traffic, middle, relaxation, channels)
        if counts is not None:
            best, low = counts, max(middle, least_service(counts.sum(axis=1), traffic))
        elif low == 0.0:
            break
        else:
            high = middle
        middle = (low + high) / 2
        if low >= high:
            break
    return best


def _fit(traffic: Traffic, service: float, relaxation: Relaxation, channels: int) -> Ints | None:
    """Return counts [pair, direction] of at least ``service`` that links can carry and wavelengths colour, or None.

    Divided as the relaxation does, else in the shorter direction: the relaxation fills links, which fewer circuits
    than it promises need not.
    """
    needed = smallest_counts(traffic.relative, service)
    ahead = (traffic.destination - traffic.source) % traffic.ranks
    for clockwise in (relaxation.clockwise, (2 * ahead <= traffic.ranks).astype(np.float64)):
        counts, fits = _divide(traffic, needed, clockwise, channels)
        if fits and _colours(traffic, counts, channels) <= channels:
            return counts
    return None


def _divide(traffic: Traffic, needed: Ints, clockwise_share: Floats, channels: int) -> tuple[Ints, bool]:
    """Return whole circuits [pair, direction] near the given shares, and whether the links can carry them."""
    from lightloom.parallelism.circuits import _arc_kernels as kernels

    nodes = traffic.ranks
    # Rounding the running sum keeps the error of pairs that lie side by side below one circuit.
    running = np.floor(np.cumsum(needed * clockwise_share) + 0.5)
    clockwise = np.clip(np.diff(running, prepend=0.0).astype(np.int64), 0, needed)
    counts = np.column_stack([clockwise, needed - clockwise])
    load = np.stack([arc_load(*_arcs(traffic, counts, direction)[1:], nodes) for direction in (0, 1)])
    pairs = kernels.RingPairs(nodes, traffic.source, (traffic.destination - traffic.source) % nodes, traffic.nbytes)
    return counts, kernels.reverse_circuits(pairs, channels, counts, load) == 0


def _arcs(traffic: Traffic, counts: Ints, direction: int) -> tuple[Ints, Ints, Ints]:
    """Return the pair, first link and number of links of each circuit of one direction."""
    pair = np.repeat(np.arange(len(traffic)), counts[:, direction])
    first, last = traffic.source[pair], traffic.destination[pair]
    if direction != CLOCKWISE:
        first, last = last, first
    return pair, first, (last - first) % traffic.ranks


def _colours(traffic: Traffic, counts: Ints, enough: int) -> int:
    return max(colour_arcs(*_arcs(traffic, counts, direction)[1:], traffic.ranks, enough)[1] for direction in (0, 1))


def _largest_classes(colour: Ints, length: Ints, channels: int) -> Ints:
    """Renumber colours so that the ``channels`` that occupy most links stay, the others become −1."""
    if not len(colour) or colour.max() < channels:
        return colour
    order = np.argsort(-np.bincount(colour, weights=length), kind="stable")
    renumbered = np.full(len(order), -1, np.int64)
    renumbered[order[:channels]] = np.arange(channels)
    return renumbered[colour]


def arc_load(start: Ints, length: Ints, nodes: int) -> Ints:
    """Arcs over each link, shape [nodes]; arc i covers ``start[i] ... start[i] + length[i] − 1`` modulo nodes."""
    change = np.zeros(2 * nodes + 1, np.int64)
    np.add.at(change, start, 1)
    np.add.at(change, start + length, -1)
    unrolled = np.cumsum(change)
    return unrolled[:nodes] + unrolled[nodes : 2 * nodes]


def colour_arcs(start: Ints, length: Ints, nodes: int, enough: int = 0) -> tuple[Ints, int]:
    """Return colours [arc] such that overlapping arcs of a ring differ, and their number, at least the largest load.

    Arcs are shorter than the ring. Cuts with the fewest arcs come first; each takes time linear in arcs.

    Args:
        enough: stop at the first cut that needs no more than this many, or no more than the load.
    """
    from lightloom.parallelism.circuits import _arc_kernels as kernels

    if not len(start):
        return np.zeros(0, np.int64), 0
    load = arc_load(start, length, nodes)
    best, fewest = np.zeros(0, np.int64), len(start) + 1
    for link in np.argsort(load, kind="stable")[:_CUTS]:
        cut = (int(link) + 1) % nodes
        shifted = (start - cut) % nodes
        for order in (np.lexsort((length, shifted)), np.lexsort((-length, shifted))):
            colour = np.empty(len(start), np.int64)
            used = int(kernels.sweep(order, shifted, length, nodes, colour))
            if used < fewest:
                best, fewest = colour, used
            if fewest <= max(enough, load.max()):
                return best, fewest
    return best, fewest
