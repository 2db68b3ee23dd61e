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

from dataclasses import dataclass
from hashlib import sha256
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import InputError
from lightloom.core.files import cache_directory, read_entry, source_hash, write_entry
from lightloom.machines.fabrics.fabric import CLOCKWISE, COUNTERCLOCKWISE, Fabric
from lightloom.planning.parallelism.circuits import kernels
from lightloom.planning.parallelism.circuits.circuits import (
    Assignment,
    Circuits,
    Traffic,
    fill_longest,
    least_service,
    smallest_counts,
)

# SiP-Ring with circuits of any width: the linear programme whose optimum no whole assignment exceeds.
#
# Whole circuits take the integer programme of `switch.solve_ring`; this is what is left when they may be cut. Demand
# (i, j) gets ``t · T_ij``, a share of it clockwise and the rest counter-clockwise. Instead of one row a link over all
# arcs that cross it, the load of a link follows from that of the link before it: plus what starts between them, minus
# what ends there.


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The fractional optimum of one hold."""

    service: float
    """Circuits for the largest demand, and for others in proportion."""
    clockwise: Floats
    """Share of each demand that runs clockwise, shape [pair]."""


def relax(traffic: Traffic, fabric: Fabric, continuity: bool = True) -> Relaxation:
    """Return the fractional optimum of one hold: the largest t at which ``t · T`` circuits of any width fit on the
    links, T the demands relative to the largest (t is the circuits of the largest demand, ``service``), and
    ``clockwise``, the share of each demand that runs clockwise, [pair], 1/2 where the optimum gives a demand nothing.

    Fibres of one direction count together. Solved by HiGHS: 2 · pairs + 2 · ranks + 3 variables of one period of the
    traffic (the fewest ranks by which it can be shifted without a change), each in few rows.

    Args:
        traffic: demands between the ranks.
        fabric: the WDM ring.
        continuity: heed too that no wavelength serves two circuits longer than half the ring, nor one of half the ring
            beside it. Loads do not show this: two arcs of 3/4 of the ring load each link 3/2 times on average. Without
            it, this is the bound of wavelength counts.

    Raises:
        InputError: the sizes differ, or a rank has fewer transceivers than channels in both directions.
    """
    check_ring(traffic, fabric)
    from scipy.optimize import linprog

    nodes = traffic.period()
    inside = np.flatnonzero(traffic.source < nodes)
    pairs = len(inside)
    matrix = _link_equations(traffic, inside, nodes)
    objective = np.zeros(matrix.shape[1])
    objective[-1] = -1.0
    highest = np.ones(matrix.shape[1])
    highest[: 2 * pairs] = highest[-1] = np.inf
    if not continuity:
        highest[2 * pairs + 2 * nodes :] = np.inf
    limits = np.column_stack([np.zeros_like(highest), highest])
    result: Any = linprog(objective, A_eq=matrix, b_eq=np.zeros(matrix.shape[0]), bounds=limits, method="highs-ds")
    shares = np.maximum(result.x[: 2 * pairs].reshape(2, pairs), 0)
    first = traffic.source % nodes
    representative = traffic.find(first, (first + traffic.destination - traffic.source) % traffic.ranks)
    # Demands far below the largest may get nothing either way.
    total = shares.sum(axis=0)
    share = np.divide(shares[0], total, out=np.full(pairs, 0.5), where=total > 0)
    return Relaxation(float(result.x[-1]) * fabric.channels, share[np.searchsorted(inside, representative)])


def check_ring(traffic: Traffic, fabric: Fabric) -> None:
    """Check that traffic and fabric are what ring assignments model.

    Raises:
        InputError: the sizes differ, or a rank has fewer transceivers than channels in both directions.
    """
    traffic.check_fits(fabric)
    if fabric.transmitters is not None and fabric.transmitters < 2 * fabric.channels:
        raise InputError(
            f"{fabric.transmitters} transceivers a rank: expected none stated, or at least the {2 * fabric.channels} "
            "channels in both directions (circuits are assigned by link loads alone)"
        )


def _link_equations(traffic: Traffic, inside: Ints, period: int) -> sparse.csc_array:
    """Return a matrix of equations, each a row that equals 0, one column for each of these variables in order:
    clockwise [pair], counter-clockwise [pair], loads [direction, link], long [direction], and t.

    All are shares of a link's channels. Pairs are those ``inside`` the first period (positions in the traffic); loads
    are of the ``period`` links of that period. ``long`` [direction] counts circuits of the whole ring that are longer
    than half of it, and those of just half as halves. The rows: both directions of each pair sum to t times its
    relative demand; then for each direction, each load is the one of the link before it plus what starts and minus what
    ends between them, the last load is what crosses it, and ``long`` is its count.
    """
    nodes, pairs = traffic.ranks, len(inside)
    source, destination = traffic.source[inside], traffic.destination[inside]
    pair, link = np.arange(pairs), np.arange(period)
    long = 2 * pairs + 2 * period
    t = long + 2
    entries: list[tuple[Ints, Ints, Any]] = [
        (pair, pair, 1.0),
        (pair, pairs + pair, 1.0),
        (pair, np.full(pairs, t), -traffic.relative[inside]),
    ]
    row = pairs
    for direction, (first, last) in enumerate(((source, destination), (destination, source))):
        arcs, loads = direction * pairs, 2 * pairs + direction * period
        # The differences leave one level open: arcs over the last link of a period, those of all rotations.
        length, start, level = (last - first) % nodes, first % period, row + period
        halves = (2 * length > nodes) + 0.5 * (2 * length == nodes)
        entries += [
            (row + link, loads + link, 1.0),
            (row + link, loads + (link - 1) % period, -1.0),
            (row + start, arcs + pair, -1.0),
            (row + last % period, arcs + pair, 1.0),
            (np.array([level]), np.array([loads + period - 1]), 1.0),
            (np.full(pairs, level), arcs + pair, -((start + length) // period).astype(np.float64)),
            (np.array([level + 1]), np.array([long + direction]), 1.0),
            (np.full(pairs, level + 1), arcs + pair, -(nodes // period) * halves),
        ]
        row += period + 2
    rows, columns = (np.concatenate([entry[i] for entry in entries]) for i in (0, 1))
    values = np.concatenate([np.broadcast_to(value, len(at)) for at, _, value in entries])
    return sparse.csc_array((values, (rows, columns)), shape=(row, t + 1))


ENOUGH = 0.1
"""Gap to the bound at which longer cycles are not tried: they make transfers wait longer for their turn."""
_BISECTIONS = 12
"""Halvings of the interval in which the best service is sought: 1/4096 of the bound."""
_CUTS = 16
"""Cuts of the ring that are tried for one colouring."""


def assign(traffic: Traffic, fabric: Fabric, holds: int = 1, relaxation: Relaxation | None = None) -> Assignment:
    """Return circuits whose least service (circuits over relative demand, the least of all pairs) comes near the
    fractional optimum, as far as whole circuits can; they are not verified yet. Beside them stand that optimum, as the
    bound of circuits a hold, and how many circuits that were sought found no wavelength.

    Seeks the largest t at which ``ceil(t · T)`` circuits a pair, T the demands relative to the largest, divided between
    the two directions as the relaxation does and reversed where a link overflows, all find a wavelength. Free
    wavelengths then go to the longest transfers; where not even one circuit a pair fits, all go there, and some pairs
    have none, so that the gap (the share of the bound that the least service lacks) is 1: give more holds.

    Args:
        traffic: demands between the ranks.
        fabric: the WDM ring.
        holds: number of holds of the cycle over which circuits take turns.
        relaxation: of the same traffic and fabric, if already solved; else it is solved here.

    Raises:
        InputError: the sizes differ, a rank has fewer transceivers than channels in both directions, or no hold.
    """
    check_ring(traffic, fabric)
    if holds < 1:
        raise InputError(f"a cycle of {holds} holds: expected at least 1")
    relaxation = relax(traffic, fabric) if relaxation is None else relaxation
    return _assign_from(traffic, fabric, holds, relaxation, min(1.0, relaxation.service * holds))


def assign_in_turns(
    traffic: Traffic, fabric: Fabric, most_holds: int = 256, relaxation: Relaxation | None = None
) -> Assignment:
    """Return the circuits of the shortest cycle of 1, 2, 4, ... holds whose least service (circuits over demand
    relative to the largest, the least of all pairs) a hold comes within 10 % of the fractional optimum; where none
    does, those of the longest of these cycles, which has at most ``most_holds``. They are not verified yet.

    ``relaxation`` is of the same traffic and fabric, if already solved; else it is solved here.

    Raises:
        InputError: the sizes differ, or a rank has fewer transceivers than channels in both directions.
    """
    relaxation = relax(traffic, fabric) if relaxation is None else relaxation
    holds = 1
    while 2 * holds <= most_holds:
        least = (1 - ENOUGH) * (relaxation.service * holds)
        if _fit(traffic, least, relaxation, fabric.channels * holds) is not None:
            return _assign_from(traffic, fabric, holds, relaxation, least)
        holds *= 2
    return assign(traffic, fabric, holds, relaxation)


def _assign_from(traffic: Traffic, fabric: Fabric, holds: int, relaxation: Relaxation, first: float) -> Assignment:
    """Return the assignment of the best service that bisection finds, free wavelengths given to the longest transfers;
    ``first`` is the service that is tried first, in circuits of the largest demand over all ``holds``; where it does
    not fit, all wavelengths go to the longest transfers."""
    counts = _search(traffic, relaxation, fabric.channels * holds, first, relaxation.service * holds)
    circuits, dropped = realise(traffic, fabric, counts, holds, fill=True)
    return Assignment(traffic, circuits, relaxation.service, dropped)


def assign_longest(traffic: Traffic, fabric: Fabric, most: Ints | None = None) -> Circuits:
    """Return circuits of one hold by water-filling: one at a time, each to the pair with the most bytes for each
    circuit, the added one counted, while it finds a free wavelength; they are not verified.

    Args:
        traffic: demands between the ranks.
        fabric: the WDM ring.
        most: circuits that each pair can use, shape [pair]; unlimited if not given.

    Raises:
        InputError: the sizes differ, or a rank has fewer transceivers than channels in both directions.
    """
    check_ring(traffic, fabric)
    return realise(traffic, fabric, np.zeros((len(traffic), 2), np.int64), fill=True, most=most)[0]


def realise(
    traffic: Traffic, fabric: Fabric, counts: Ints, holds: int = 1, fill: bool = False, most: Ints | None = None
) -> tuple[Circuits, int]:
    """Return circuits, each on one free wavelength from end to end, for counts [pair, direction], and how many of those
    asked for found no wavelength. They are not verified.

    Where colours run out, the colours that occupy the fewest links are given up, and each of their circuits is tried
    once more, in both directions, on whatever is free.

    Args:
        traffic: demands between the ranks.
        fabric: the WDM ring.
        counts: circuits of each pair in each direction (clockwise 0): [pair, direction].
        holds: number of holds of the cycle, each with all wavelengths of the ring.
        fill: give free wavelengths to the longest transfers at the end; these circuits are not asked for.
        most: circuits that a pair may have after filling: [pair]; None for no limit. Without ``fill`` it has no effect.
    """
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
    """Return counts [pair, direction] of the best service up to ``high`` that at most 12 bisections from ``first`` on
    find; all 0 if ``first`` does not fit.

    Services are circuits of the largest demand, summed over the cycle; ``channels`` are the wavelengths of a link in
    one direction, over all holds.
    """
    best = np.zeros((len(traffic), 2), np.int64)
    middle, low = first, 0.0
    for _ in range(_BISECTIONS):
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
    """Return the fewest circuits [pair, direction] of at least ``service`` (circuits of the largest demand, others in
    proportion, rounded up, at least 1) that links can carry and ``channels`` wavelengths (of one direction, over all
    holds) colour; None where neither of two ways to divide them among the directions does.

    Divided as the relaxation does, else in the shorter direction: the relaxation fills links, which fewer circuits than
    it promises need not.
    """
    needed = smallest_counts(traffic.relative, service)
    ahead = (traffic.destination - traffic.source) % traffic.ranks
    for clockwise in (relaxation.clockwise, (2 * ahead <= traffic.ranks).astype(np.float64)):
        counts, fits = _divide(traffic, needed, clockwise, channels)
        arcs = [_arcs(traffic, counts, direction)[1:] for direction in (0, 1)]
        if fits and all(colour_arcs(*each, traffic.ranks, channels)[1] <= channels for each in arcs):
            return counts
    return None


def _divide(traffic: Traffic, needed: Ints, clockwise_share: Floats, channels: int) -> tuple[Ints, bool]:
    """Return ``needed`` [pair] circuits as counts [pair, direction] near the given shares (rounded as a running sum
    over pairs), reversed where a link overflows, and True if the links, of ``channels`` wavelengths a direction, can
    then carry them.

    ``clockwise_share`` [pair] is the share of each pair's circuits that runs clockwise.
    """
    nodes = traffic.ranks
    # Rounding the running sum keeps the error of pairs that lie side by side below one circuit.
    running = np.floor(np.cumsum(needed * clockwise_share) + 0.5)
    clockwise = np.clip(np.diff(running, prepend=0.0).astype(np.int64), 0, needed)
    counts = np.column_stack([clockwise, needed - clockwise])
    load = np.stack([arc_load(*_arcs(traffic, counts, direction)[1:], nodes) for direction in (0, 1)])
    pairs = kernels.RingPairs(nodes, traffic.source, (traffic.destination - traffic.source) % nodes, traffic.nbytes)
    return counts, kernels.reverse_circuits(pairs, channels, counts, load) == 0


def _arcs(traffic: Traffic, counts: Ints, direction: int) -> tuple[Ints, Ints, Ints]:
    """Return three columns, each [circuit], of the circuits that ``counts`` [pair, direction] has in one direction:
    pair, first link and number of links, the links counted clockwise whatever the direction."""
    pair = np.repeat(np.arange(len(traffic)), counts[:, direction])
    first, last = traffic.source[pair], traffic.destination[pair]
    if direction != CLOCKWISE:
        first, last = last, first
    return pair, first, (last - first) % traffic.ranks


def _largest_classes(colour: Ints, length: Ints, channels: int) -> Ints:
    """Return the colours [circuit] renumbered so that the ``channels`` colours that occupy the most links stay as 0 ...
    channels - 1, the one with the most first, and all others become -1; unchanged where there are no more colours than
    that.

    ``length`` [circuit] is the number of links of each circuit.
    """
    if not len(colour) or colour.max() < channels:
        return colour
    order = np.argsort(-np.bincount(colour, weights=length), kind="stable")
    renumbered = np.full(len(order), -1, np.int64)
    renumbered[order[:channels]] = np.arange(channels)
    return renumbered[colour]


def arc_load(start: Ints, length: Ints, nodes: int) -> Ints:
    """Return the number of arcs over each link, shape [nodes]; arc i covers ``start[i] ... start[i] + length[i] − 1``
    modulo nodes."""
    change = np.zeros(2 * nodes + 1, np.int64)
    np.add.at(change, start, 1)
    np.add.at(change, start + length, -1)
    unrolled = np.cumsum(change)
    return unrolled[:nodes] + unrolled[nodes : 2 * nodes]


def colour_arcs(start: Ints, length: Ints, nodes: int, enough: int = 0) -> tuple[Ints, int]:
    """Return colours [arc], numbered from 0, such that overlapping arcs of a ring differ, and how many colours they
    are, which is the largest load or more.

    The fewest colours of several sweeps are returned, two from each of at most 16 cuts, those with the fewest arcs
    first; each takes time linear in arcs.

    Args:
        start: first link of each arc: [arc].
        length: number of links of each arc, fewer than ``nodes``: [arc].
        nodes: number of links of the ring.
        enough: stop at the first sweep that needs no more than this many, or no more than the load.
    """
    if not len(start):
        return np.zeros(0, np.int64), 0
    load = arc_load(start, length, nodes)
    best, fewest = np.zeros(0, np.int64), len(start) + 1
    for link in np.argsort(load, kind="stable")[:_CUTS]:
        shifted = (start - int(link) - 1) % nodes
        for order in (np.lexsort((length, shifted)), np.lexsort((-length, shifted))):
            colour = np.empty(len(start), np.int64)
            used = int(kernels.sweep(order, shifted, length, nodes, colour))
            if used < fewest:
                best, fewest = colour, used
            if fewest <= max(enough, load.max()):
                return best, fewest
    return best, fewest


# Circuits on a ring that are the same in every group: what repeats is assigned once.
#
# group 0            group 1            group 2
# 0 ─ 1 ─ 2 ─ 3      0 ─ 1 ─ 2 ─ 3      0 ─ 1 ─ 2 ─ 3
# └──→┘              └──→┘              └──→┘             circuits within groups share a wavelength
# └──────────────────┴──────────────────┴───────···       those to the next group tile the ring, a wavelength a device
#
# Groups that have their circuits in different holds would not be alike. Within a group circuits take the direction
# that stays in it, so that they are intervals of its links, which need no more wavelengths than the busiest link has
# circuits.

_TILED_BISECTIONS = 20


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
    """Return circuits for traffic that is the same in every group of k ranks, and from every group to the next; the
    circuits are the same in every group too. They are not verified yet.

    Beside them stands the fractional optimum as their bound, in circuits of the largest demand a hold. The circuits are
    those of the largest t, found by bisection, at which ``ceil(t · T)`` circuits a pair fit, T the demands relative to
    the largest; free wavelengths then go to the longest transfers. Where not even one circuit a pair fits, all go to
    the longest, and some pairs have none, so that the gap (the share of the bound that the least service lacks) is 1.

    Args:
        traffic: of at least two groups; pairs are within a group, or from a device to the same one of the next group.
        fabric: the WDM ring.
        k: ranks of a group.
        holds: number of holds of the cycle over which circuits take turns.
        relaxation: of the same traffic and fabric, if already solved; else it is solved here.

    Raises:
        InputError: the relaxation is solved here, and the sizes differ, or a rank has fewer transceivers than channels
            in both directions.
    """
    relaxation = relax(traffic, fabric) if relaxation is None else relaxation
    channels = fabric.channels * holds
    pipes = _pipes(traffic, k)
    counts = _fill(pipes, k, channels, _fewest(pipes, k, channels))
    return Assignment(traffic, _repeated(traffic, pipes, k, counts, holds), relaxation.service)


def longest_tiled(traffic: Traffic, fabric: Fabric, k: int, most: Ints) -> Circuits:
    """Return circuits of one hold by water-filling, the same in every group of k ranks: one at a time to the transfer
    with the most bytes for each circuit, the added one counted, up to ``most`` [pair] circuits of each pair; they are
    not verified. The traffic is that of :func:`assign_tiled`.

    Raises:
        InputError: the sizes differ, or a rank has fewer transceivers than channels in both directions.
    """
    check_ring(traffic, fabric)
    pipes = _pipes(traffic, k)
    counts = _fill(pipes, k, fabric.channels, np.zeros(len(pipes.source), np.int64), most[traffic.source < k])
    return _repeated(traffic, pipes, k, counts, 1)


def _repeated(traffic: Traffic, pipes: _Pipes, k: int, counts: Ints, holds: int) -> Circuits:
    """Return circuits of all groups: ``counts`` [pipe] of the first one, each with its lowest free wavelength, and the
    same shifted by k ranks in every other. The wavelengths of all holds, counted through, are dealt to the ``holds`` in
    turn: number w is channel w // holds of hold w % holds."""
    pipe = np.repeat(np.arange(len(counts)), counts)
    colour = _lowest_free_colours(pipes, pipe)
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
    """Return the pairs whose source is in the first group of k ranks, each with the direction that stays inside the
    group; those to the next group run clockwise, but with two groups in all those of odd devices counter-clockwise.
    Columns, [pipe] each: source 0 to k - 1, destination (from k on of the next group), bytes, direction (0 clockwise),
    and the links of the group that a circuit occupies, numbered from 0 clockwise: the first, and one past the last,
    which is at most k."""
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
    """Return the number of circuits over each link of a group, [direction, k], for ``counts`` [pipe] of each pipe."""
    change = np.zeros((2, k + 1), np.int64)
    np.add.at(change, (pipes.direction, pipes.first), counts)
    np.subtract.at(change, (pipes.direction, pipes.last), counts)
    return np.cumsum(change, axis=1)[:, :k]


def _fewest(pipes: _Pipes, k: int, channels: int) -> Ints:
    """Return the number of circuits of each pipe, [pipe], with the largest service (circuits of the largest demand,
    others in proportion and rounded up) found by 20 bisections at which no link carries more than ``channels`` circuits
    in a direction; at least 1 each, but all 0 where even one a pipe is too many."""
    relative = pipes.nbytes / pipes.nbytes.max()
    best = np.ones(len(relative), np.int64)
    if _loads(pipes, k, best).max() > channels:
        return np.zeros_like(best)
    low, high = 0.0, float(channels)
    for _ in range(_TILED_BISECTIONS):
        middle = (low + high) / 2
        counts = smallest_counts(relative, middle)
        if _loads(pipes, k, counts).max() <= channels:
            best, low = counts, middle
        else:
            high = middle
    return best


def _fill(pipes: _Pipes, k: int, channels: int, counts: Ints, most: Ints | None = None) -> Ints:
    """Return the circuits of each pipe, [pipe], once free wavelengths went one at a time to the pipe with the most
    bytes for each circuit, the added one counted.

    Args:
        pipes: pairs of one group.
        k: ranks of a group.
        channels: wavelengths of a link in one direction, over all holds.
        counts: circuits that each pipe has already: [pipe]; left as they are.
        most: circuits that each pipe may have: [pipe]; None for as many as wavelengths.
    """
    remaining = (np.full(len(counts), channels) if most is None else most) - counts
    load = _loads(pipes, k, counts)

    def take(pipe: int) -> bool:
        """Take a wavelength on the links of a pipe for one more circuit; return False where none is free or needed."""
        crossed = load[pipes.direction[pipe], pipes.first[pipe] : pipes.last[pipe]]
        if remaining[pipe] <= 0 or crossed.max() >= channels:
            return False
        crossed += 1
        remaining[pipe] -= 1
        return True

    return fill_longest(pipes.nbytes, counts, take)


def _lowest_free_colours(pipes: _Pipes, pipe: Ints) -> Ints:
    """Return the wavelength of each circuit, [circuit], the lowest that is free where it begins; ``pipe`` [circuit] is
    the pipe of each. Directions are coloured apart, from 0 each, circuits in the order of their first links, longer
    ones first."""
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


# Relaxations of ring assignments on disk: a search for plans asks for the same ones again, and only loading the
# solver takes longer than most of them.
#
# The programme depends on nothing but the traffic and the channels of a link. Its source is part of the key, so that
# no change of it meets an old optimum. Entries carry a digest, so that a damaged one is solved again.


_SOURCE = "planning/parallelism/circuits/ring.py"
"""This module, which states and solves the programme."""


def cached_relaxation(traffic: Traffic, fabric: Fabric) -> Relaxation:
    """Return the fractional optimum of the traffic on the ring, with continuity (:func:`relax`), from the cache on
    disk; what is not there, or damaged, is solved and written to it.

    Raises:
        InputError: the sizes differ, or a rank has fewer transceivers than channels in both directions.
    """
    check_ring(traffic, fabric)
    digest = sha256(f"{source_hash(_SOURCE)} {traffic.ranks} {fabric.channels}".encode())
    for array in (traffic.source, traffic.destination, traffic.nbytes):
        digest.update(array.tobytes())
    path = cache_directory() / "circuits" / f"{digest.hexdigest()[:16]}.f64"
    content = read_entry(path)
    if content is None:
        relaxation = relax(traffic, fabric)
        write_entry(path, np.append(relaxation.clockwise, relaxation.service).tobytes())
        return relaxation
    values = np.frombuffer(content)
    return Relaxation(float(values[-1]), values[:-1])
