"""SiP-Ring with circuits of any width: the linear programme whose optimum no whole assignment exceeds.

Whole circuits take the integer programme of `ring_milp`; this is what is left when they may be cut. Demand (i, j) gets
``t · T_ij``, a share of it clockwise and the rest counter-clockwise. Instead of one row a link over all arcs that cross
it, the load of a link follows from that of the link before it: plus what starts between them, minus what ends there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lightloom.core.errors import InputError
from lightloom.fabrics.base import Floats, Ints
from lightloom.fabrics.wdm_ring import WdmRing
from lightloom.parallelism.circuits.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The fractional optimum of one hold."""

    service: float
    """Circuits for the largest demand, and for others in proportion."""
    clockwise: Floats
    """Share of each demand that runs clockwise, shape [pair]."""


def relax(traffic: Traffic, fabric: WdmRing, continuity: bool = True) -> Relaxation:
    """The largest t at which ``t · T`` fits on the links, T relative to the largest demand.

    Fibres of one direction count together. Solved by HiGHS: 2 · pairs + 2 · ranks + 3 variables, each in few rows.

    Args:
        continuity: heed too that no wavelength serves two circuits longer than half the ring, nor one of half the ring
            beside it. Loads do not show this: two arcs of 3/4 of the ring load each link 3/2 times on average.
            Without it, this is the bound of wavelength counts.

    Raises:
        InputError: the sizes differ, or transceivers bind before the links do.
    """
    check_ring(traffic, fabric)
    from scipy.optimize import linprog

    pairs, nodes = len(traffic), fabric.ranks
    matrix = _rows(traffic)
    objective = np.zeros(matrix.shape[1])
    objective[-1] = -1.0
    highest = np.ones(matrix.shape[1])
    highest[: 2 * pairs] = highest[-1] = np.inf
    if not continuity:
        highest[2 * pairs + 2 * nodes :] = np.inf
    limits = np.column_stack([np.zeros_like(highest), highest])
    found: Any = linprog(objective, A_eq=matrix, b_eq=np.zeros(matrix.shape[0]), bounds=limits, method="highs-ds")
    ways = np.maximum(found.x[: 2 * pairs].reshape(2, pairs), 0)
    return Relaxation(float(found.x[-1]) * fabric.channels, ways[0] / ways.sum(axis=0))


def check_ring(traffic: Traffic, fabric: WdmRing) -> None:
    """Refuse what ring assignments do not model.

    Raises:
        InputError: the sizes differ, or a rank has fewer transceivers than channels both ways.
    """
    traffic.check_fits(fabric)
    if fabric.transmitters is not None and fabric.transmitters < 2 * fabric.channels:
        raise InputError(
            f"{fabric.transmitters} transceivers a rank: expected none stated, or at least the {2 * fabric.channels} "
            "channels both ways (circuits are assigned by link loads alone)"
        )


def _rows(traffic: Traffic) -> sparse.csc_array:
    """Columns: clockwise [pair], counter-clockwise [pair], loads [way, link], long [way], t; in shares of a link.

    ``long`` counts circuits longer than half the ring, and those of just half the ring as halves.
    """
    nodes, pairs = traffic.ranks, len(traffic)
    source, destination = traffic.source, traffic.destination
    pair, node = np.arange(pairs), np.arange(nodes)
    long = 2 * pairs + 2 * nodes
    t = long + 2
    entries: list[tuple[Ints, Ints, Any]] = [
        (pair, pair, 1.0),
        (pair, pairs + pair, 1.0),
        (pair, np.full(pairs, t), -traffic.relative),
    ]
    row = pairs
    for way, (first, last) in enumerate(((source, destination), (destination, source))):
        arcs, loads = way * pairs, 2 * pairs + way * nodes
        entries += [
            (row + node, loads + node, 1.0),
            (row + node, loads + (node - 1) % nodes, -1.0),
            (row + first, arcs + pair, -1.0),
            (row + last, arcs + pair, 1.0),
        ]
        # The differences leave one level open: arcs over the last link are those that end before they start.
        across = np.flatnonzero(last < first)
        level = row + nodes
        entries += [
            (np.array([level]), np.array([loads + nodes - 1]), 1.0),
            (np.full(len(across), level), arcs + across, -1.0),
        ]
        twice = 2 * ((last - first) % nodes)
        entries += [
            (np.array([level + 1]), np.array([long + way]), 1.0),
            (np.full(pairs, level + 1), arcs + pair, -((twice > nodes) + 0.5 * (twice == nodes))),
        ]
        row += nodes + 2
    rows, columns = (np.concatenate([entry[i] for entry in entries]) for i in (0, 1))
    values = np.concatenate([np.broadcast_to(value, len(at)) for at, _, value in entries])
    return sparse.csc_array((values, (rows, columns)), shape=(row, t + 1))
