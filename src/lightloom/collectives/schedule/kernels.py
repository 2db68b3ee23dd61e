"""Compiled loops of wavelength and plane assignment."""

from __future__ import annotations

from typing import Any

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.core.kernels import njit_cached, njit_without_arrays


@njit_cached
def colour_by_sweep(order: Any, start: Any, end: Any, colour: Any, nodes: int) -> int:
    """Colour intervals [start, end) so that overlapping ones differ, as the left-edge algorithm does; return the number
    of colours, which equals the largest number that overlap.

    Args:
        order: numbers of the intervals by ascending start.
        start, end: nodes, 0 to ``nodes``, start before end: [interval].
        colour: out, from 0: [interval].
    """
    ending = np.full(nodes + 1, -1, np.int64)
    following = np.full(len(start), -1, np.int64)
    free = np.empty(len(start), np.int64)
    available, used, position = 0, 0, 0
    for i in order:
        while position <= start[i]:
            j = ending[position]
            while j >= 0:
                free[available] = colour[j]
                available += 1
                j = following[j]
            position += 1
        if available:
            available -= 1
            colour[i] = free[available]
        else:
            colour[i] = used
            used += 1
        following[i] = ending[end[i]]
        ending[end[i]] = i
    return used


@njit_cached
def sweep_ranges(order: Ints, start: Ints, end: Ints, count: Ints, nodes: int) -> tuple[Ints, Ints, Ints, int]:
    """Give interval i, [start, end), ``count[i]`` colours in ranges, so that overlapping intervals share none.

    An interval takes the smallest free range that suffices, else the largest, so that few have several. Memory: of the
    ranges; time: these, times the free ranges between others.

    Args:
        order: numbers of the intervals by ascending start.
        start, end, count: nodes, 0 to ``nodes``, start before end, and number of colours: [interval].

    Returns:
        Interval, first colour and number of colours of each range, [range] each, in the order of ``order``; and the
        number of all colours, the most that overlap anywhere.
    """
    ending = np.full(nodes + 1, -1, np.int64)
    taken = np.empty((2 * len(start) + 1, 4), np.int64)
    """Interval, first colour, colours, and the range before that ends at the same node: [range, 4]."""
    ranges, used, position = 0, 0, 0
    free, holes = np.empty((16, 2), np.int64), 0
    """First colour and colours of each free range, in order: [range, 2]."""
    for i in order:
        while position <= start[i]:
            j = ending[position]
            while j >= 0:
                if holes == len(free):
                    free = _longer(free)
                holes = _release(free, holes, taken[j, 1], taken[j, 2])
                j = taken[j, 3]
            position += 1
        left = count[i]
        while left > 0:
            if ranges == len(taken):
                taken = _longer(taken)
            hole = _fitting(free, holes, left)
            if hole < 0:
                colour, size = used, left
                used += left
            else:
                colour, size = free[hole, 0], min(left, free[hole, 1])
                free[hole, 0] += size
                free[hole, 1] -= size
                if free[hole, 1] == 0:
                    free[hole : holes - 1] = free[hole + 1 : holes].copy()
                    holes -= 1
            taken[ranges] = i, colour, size, ending[end[i]]
            ending[end[i]] = ranges
            ranges, left = ranges + 1, left - size
    return taken[:ranges, 0].copy(), taken[:ranges, 1].copy(), taken[:ranges, 2].copy(), used


@njit_cached
def _longer(table: Ints) -> Ints:
    """Return a copy of a table with twice as many rows, the new ones not set."""
    longer: Ints = np.empty((2 * len(table), table.shape[1]), np.int64)
    longer[: len(table)] = table
    return longer


@njit_without_arrays
def _fitting(free: Ints, holes: int, wanted: int) -> int:
    """Return the place in ``free`` of the smallest free range of at least ``wanted`` colours, else that of the largest;
    −1 where none is free.

    ``free`` has first colour and number of colours of each range, of which the first ``holes`` count: [range, 2].
    """
    best = -1
    for hole in range(holes):
        size = free[hole, 1]
        if best < 0:
            best = hole
        elif size >= wanted:
            if free[best, 1] < wanted or size < free[best, 1]:
                best = hole
        elif size > free[best, 1]:
            best = hole
    return best


@njit_without_arrays
def _release(free: Ints, holes: int, colour: int, count: int) -> int:
    """Give a range of ``count`` colours from ``colour`` on back to the free ones, joined with the free ranges that it
    touches, in place; return the number of free ranges.

    ``free`` has first colour and number of colours of each range, ascending, of which the first ``holes`` count, and
    room for one more: [range, 2].
    """
    at = holes
    while at > 0 and free[at - 1, 0] > colour:
        at -= 1
    before = at > 0 and free[at - 1, 0] + free[at - 1, 1] == colour
    after = at < holes and colour + count == free[at, 0]
    if before and after:
        free[at - 1, 1] += count + free[at, 1]
        for hole in range(at, holes - 1):
            free[hole, 0], free[hole, 1] = free[hole + 1, 0], free[hole + 1, 1]
        return holes - 1
    if before:
        free[at - 1, 1] += count
    elif after:
        free[at, 0] = colour
        free[at, 1] += count
    else:
        for hole in range(holes, at, -1):
            free[hole, 0], free[hole, 1] = free[hole - 1, 0], free[hole - 1, 1]
        free[at, 0], free[at, 1] = colour, count
        return holes + 1
    return holes


@njit_cached
def first_fit(order: Any, start: Any, length: Any, nodes: int, colour: Any) -> int:
    """Give each arc of a ring, in the given order, the lowest colour of no arc that it overlaps; return the number of
    colours.

    Args:
        order: numbers of the arcs.
        start, length: first link of an arc and number of links, around a ring of ``nodes`` nodes and as many links:
            [arc].
        colour: out, from 0: [arc].
    """
    taken = np.zeros((len(start), nodes), np.bool_)
    used = 0
    for i in order:
        for c in range(len(start)):
            fits = True
            if c < used:
                for k in range(length[i]):
                    if taken[c, (start[i] + k) % nodes]:
                        fits = False
                        break
            if fits:
                colour[i] = c
                used = max(used, c + 1)
                for k in range(length[i]):
                    taken[c, (start[i] + k) % nodes] = True
                break
    return used


@njit_cached
def alternate(source: Any, destination: Any, nodes: int, degree: int, colour: Any) -> None:
    """Colour the edges of a bipartite graph with ``degree`` colours by alternating paths (König), so that no two edges
    of a node on either side have the same.

    Args:
        source, destination: ends of each edge, numbered on each side from 0 to ``nodes`` − 1: [edge].
        nodes: number of nodes on each side.
        degree: most edges of a node on either side.
        colour: out, from 0 to ``degree`` − 1: [edge].
    """
    out_edge = np.full((nodes, degree), -1, np.int64)
    in_edge = np.full((nodes, degree), -1, np.int64)
    for e in range(len(source)):
        a = 0
        while out_edge[source[e], a] >= 0:
            a += 1
        b = 0
        while in_edge[destination[e], b] >= 0:
            b += 1
        if a != b:
            # Free colour a at the destination: swap a and b along the path that leaves it by a.
            node, want, other, side = destination[e], a, b, 1
            edge = in_edge[node, want]
            path = [edge]
            while edge >= 0:
                node = source[edge] if side == 1 else destination[edge]
                side = 1 - side
                want, other = other, want
                edge = in_edge[node, want] if side == 1 else out_edge[node, want]
                if edge >= 0:
                    path.append(edge)
            for f in path:
                if f >= 0:
                    out_edge[source[f], colour[f]] = -1
                    in_edge[destination[f], colour[f]] = -1
            for f in path:
                if f >= 0:
                    colour[f] = b if colour[f] == a else a
                    out_edge[source[f], colour[f]] = f
                    in_edge[destination[f], colour[f]] = f
        colour[e] = a
        out_edge[source[e], a] = e
        in_edge[destination[e], a] = e


# The compiled loop of a counting sort: entries in the order of small whole keys, in linear time.


@njit_cached
def counted_order(keys: Ints, order: Ints, most: int) -> Ints:
    """Return the entries of ``order`` sorted by their keys, ascending, equal ones as they come (a stable counting
    sort); ``order`` itself stays.

    Args:
        keys: from 0 to ``most`` − 1, by entry: [n].
        order: some of the entries 0 to n − 1.
    """
    first = np.zeros(most + 1, np.int64)
    for entry in order:
        first[keys[entry] + 1] += 1
    for key in range(most):
        first[key + 1] += first[key]
    placed = np.empty(len(order), np.int64)
    for entry in order:
        placed[first[keys[entry]]] = entry
        first[keys[entry]] += 1
    return placed
