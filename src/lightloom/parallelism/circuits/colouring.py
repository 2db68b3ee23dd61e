"""Wavelengths for arcs of a ring: as few as the best of many sweeps finds.

Cut the ring before a node. Arcs across the cut take a wavelength each and leave it free from where they end to where
they start again. Sweep around, give every arc the free wavelength whose own arc starts again soonest, but not before
the new one ends:

    cut                                   cut
     ├──a──┤                         ├──a──┤      wavelength 0, free between the two parts of a
           ├───b───┤    ├────c───────┤            fits before a starts again

Intervals of a line need no more wavelengths than the load. Arcs of a ring may (three arcs, each two of which overlap,
have load 2), and the fewest are hard to find (Garey, Johnson, Miller and Papadimitriou, 1980).
"""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Ints

_CUTS = 16


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
