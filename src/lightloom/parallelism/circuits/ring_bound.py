"""SiP-Ring with circuits of any width: the linear programme whose optimum no whole assignment exceeds.

Whole circuits take the integer programme of `milp.solve_ring`; this is what is left when they may be cut. Demand (i, j)
gets ``t · T_ij``, a share of it clockwise and the rest counter-clockwise. Instead of one row a link over all arcs that
cross it, the load of a link follows from that of the link before it: plus what starts between them, minus what ends
there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import InputError
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.circuits.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The fractional optimum of one hold."""

    service: float
    """Circuits for the largest demand, and for others in proportion."""
    clockwise: Floats
    """Share of each demand that runs clockwise, shape [pair]."""


def relax(traffic: Traffic, fabric: Fabric, continuity: bool = True) -> Relaxation:
    """Return the largest t at which ``t · T`` fits on the links, T relative to the largest demand.

    Fibres of one direction count together. Solved by HiGHS: 2 · pairs + 2 · ranks + 3 variables of one period of the
    traffic, each in few rows.

    Args:
        continuity: heed too that no wavelength serves two circuits longer than half the ring, nor one of half the ring
            beside it. Loads do not show this: two arcs of 3/4 of the ring load each link 3/2 times on average.
            Without it, this is the bound of wavelength counts.

    Raises:
        InputError: the sizes differ, or transceivers bind before the links do.
    """
    check_ring(traffic, fabric)
    from scipy.optimize import linprog

    nodes = traffic.period()
    inside = np.flatnonzero(traffic.source < nodes)
    pairs = len(inside)
    matrix = _rows(traffic, inside, nodes)
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
    """Refuse what ring assignments do not model.

    Raises:
        InputError: the sizes differ, or a rank has fewer transceivers than channels in both directions.
    """
    traffic.check_fits(fabric)
    if fabric.transmitters is not None and fabric.transmitters < 2 * fabric.channels:
        raise InputError(
            f"{fabric.transmitters} transceivers a rank: expected none stated, or at least the {2 * fabric.channels} "
            "channels in both directions (circuits are assigned by link loads alone)"
        )


def _rows(traffic: Traffic, inside: Ints, period: int) -> sparse.csc_array:
    """Return equations over clockwise [pair], counter-clockwise [pair], loads and long [direction, ...], and t.

    All are shares of a link. Pairs are those ``inside`` the first period; loads [direction, link] are of its links.
    ``long`` [direction] counts circuits of the whole ring that are longer than half of it, and those of just half as
    halves.
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
        length = (last - first) % nodes
        start = first % period
        entries += [
            (row + link, loads + link, 1.0),
            (row + link, loads + (link - 1) % period, -1.0),
            (row + start, arcs + pair, -1.0),
            (row + last % period, arcs + pair, 1.0),
        ]
        # The differences leave one level open: arcs over the last link of a period, those of all rotations.
        level = row + period
        entries += [
            (np.array([level]), np.array([loads + period - 1]), 1.0),
            (np.full(pairs, level), arcs + pair, -((start + length) // period).astype(np.float64)),
        ]
        copies = nodes // period
        entries += [
            (np.array([level + 1]), np.array([long + direction]), 1.0),
            (np.full(pairs, level + 1), arcs + pair, -copies * ((2 * length > nodes) + 0.5 * (2 * length == nodes))),
        ]
        row += period + 2
    rows, columns = (np.concatenate([entry[i] for entry in entries]) for i in (0, 1))
    values = np.concatenate([np.broadcast_to(value, len(at)) for at, _, value in entries])
    return sparse.csc_array((values, (rows, columns)), shape=(row, t + 1))
