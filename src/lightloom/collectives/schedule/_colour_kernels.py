"""Compiled loops of wavelength and plane assignment."""

from __future__ import annotations

from typing import Any

import numpy as np

from lightloom.core.kernels import njit_cached


@njit_cached
def sweep(order: Any, start: Any, end: Any, count: Any, colour: Any, nodes: int) -> int:
    """Left-edge colouring of intervals [start, end) in ``order`` of start; entry i takes ``count[i]`` colours.

    ``colour`` [sum of counts] receives them, entry by entry; returns the number of colours, which equals the load.
    """
    offset = np.zeros(len(start) + 1, np.int64)
    for i in range(len(start)):
        offset[i + 1] = offset[i] + count[i]
    ending = np.full(nodes + 1, -1, np.int64)
    following = np.full(len(start), -1, np.int64)
    free = np.empty(offset[-1], np.int64)
    available, used, position = 0, 0, 0
    for i in order:
        while position <= start[i]:
            j = ending[position]
            while j >= 0:
                for k in range(offset[j + 1] - 1, offset[j] - 1, -1):
                    free[available] = colour[k]
                    available += 1
                j = following[j]
            position += 1
        for k in range(offset[i], offset[i + 1]):
            if available:
                available -= 1
                colour[k] = free[available]
            else:
                colour[k] = used
                used += 1
        following[i] = ending[end[i]]
        ending[end[i]] = i
    return used


@njit_cached
def first_fit(order: Any, start: Any, length: Any, nodes: int, colour: Any) -> int:
    """First-fit colouring of circular arcs in the given order; returns the number of colours."""
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
    """Bipartite edge colouring with ``degree`` colours by alternating paths (König)."""
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
