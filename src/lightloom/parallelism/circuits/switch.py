"""SiP-OCS: circuits on Q planes of permutation switches.

A set of Q permutations gives pair (i, j) a whole number x_ij of circuits, with row and column sums of at most Q. By
König's theorem every such x is Q matchings, and a matching of ranks to ranks always completes to a permutation. So x is
all there is to decide. H holds are H·Q planes, in turn.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from lightloom.collectives.schedule.wavelengths import colour_planes
from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import InputError
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.circuits.circuits import Assignment, Circuits, fill_longest, smallest_counts
from lightloom.parallelism.circuits.traffic import Traffic

Objective = Literal["max-min", "throughput"]


def assign(traffic: Traffic, fabric: Fabric, objective: Objective = "max-min", holds: int = 1) -> Assignment:
    """Return circuits by the fast method, which is exact for both objectives.

    max-min leaves ports free; they go to the longest transfers that can use them. Time: demands times the peers of a
    rank for the counts, circuits times ranks for the colouring.

    Args:
        holds: of the cycle over which ranks with more peers than planes take turns.

    Raises:
        InputError: a rank has more peers than circuits over all holds (max-min), or the sizes differ.
    """
    traffic.check_fits(fabric)
    if holds < 1:
        raise InputError(f"a cycle of {holds} holds: expected at least 1")
    planes = fabric.channels * holds
    if objective == "max-min":
        counts = fill_ports(traffic, planes, max_min_counts(traffic, planes))
    else:
        counts = throughput_counts(traffic, planes)
    return Assignment(traffic, realise(traffic, fabric, counts, holds), bound(traffic, fabric))


def bound(traffic: Traffic, fabric: Fabric) -> float:
    """Return the fractional optimum of max-min, circuits a hold for the largest demand: Q over the largest line sum."""
    return fabric.channels / float(_line_sums(traffic, traffic.relative).max())


def check_degree(traffic: Traffic, planes: int) -> None:
    """Refuse ranks with more peers than ``planes``.

    Raises:
        InputError: names the rank, and the degree it would need.
    """
    peers = _line_sums(traffic, np.ones(len(traffic)))
    worst = int(peers.argmax())
    if peers[worst] > planes:
        verb, rank = ("sends to", worst) if worst < traffic.ranks else ("receives from", worst - traffic.ranks)
        raise InputError(
            f"rank {rank} {verb} {int(peers[worst])} ranks, but holds {planes} circuits: expected a degree (times "
            f"holds) of at least {int(peers[worst])}, or a placement with fewer peers"
        )


def max_min_counts(traffic: Traffic, planes: int) -> Ints:
    """Return the fewest circuits that reach the largest m with ``x_ij >= m · T_ij``, shape [pair].

    Exact. Any x that reaches m has ``x_ij >= ceil(m T_ij)``, being whole, so m is feasible if and only if the matrix
    ``ceil(m T)`` has line sums of at most Q. That is one condition a line, each of which holds up to some m_line: the
    optimum is the least of them. On a line, ``m_0 = (Q − k) / sum T`` is feasible, k demands being rounded up by less
    than 1 each. From ``ceil(m_0 T)``, give one circuit at a time to the longest transfer, min x/T. While that minimum
    is below m_line, the circuit goes to an x below ``ceil(m_line T)``, so that the line does not overflow before.

    Raises:
        InputError: a rank has more peers than planes.
    """
    check_degree(traffic, planes)
    best = min(
        _line_optimum(traffic.nbytes[line], planes)
        for ends in (traffic.source, traffic.destination)
        for line in _lines(ends)
    )
    return smallest_counts(traffic.nbytes, best)


def throughput_counts(traffic: Traffic, planes: int) -> Ints:
    """Return the circuits with the largest ``sum T_ij x_ij``, shape [pair].

    Exact, and of little use alone: nothing limits x_ij but the ports, so that the heaviest single permutation, set on
    every plane, is optimal (the transportation polytope of line sums Q is Q times that of permutations).
    """
    from scipy.optimize import linear_sum_assignment

    dense = np.zeros((traffic.ranks, traffic.ranks))
    dense[traffic.source, traffic.destination] = traffic.nbytes
    row, column = linear_sum_assignment(dense, maximize=True)
    chosen = np.zeros_like(dense, dtype=bool)
    chosen[row, column] = True
    return np.where(chosen[traffic.source, traffic.destination], planes, 0)


def fill_ports(traffic: Traffic, planes: int, counts: Ints, most: Ints | None = None) -> Ints:
    """Give free ports one at a time to the pair whose transfer is still the longest with the added circuit.

    Args:
        counts: circuits that each pair has already, shape [pair].
        most: circuits that each pair can use, shape [pair]; unlimited if not given.
    """
    free = planes - _line_sums(traffic, counts.astype(np.float64)).astype(np.int64)
    entrance = traffic.ranks + traffic.destination
    remaining = None if most is None else most - counts

    def take(pair: int) -> bool:
        ports = traffic.source[pair], entrance[pair]
        if not free[ports[0]] or not free[ports[1]] or (remaining is not None and remaining[pair] <= 0):
            return False
        for port in ports:
            free[port] -= 1
        if remaining is not None:
            remaining[pair] -= 1
        return True

    return fill_longest(traffic.nbytes, counts, take)


def realise(traffic: Traffic, fabric: Fabric, counts: Ints, holds: int = 1) -> Circuits:
    """Holds and planes for counts [pair] whose line sums are at most Q · holds: bipartite edge colouring, no loss."""
    pair = np.repeat(np.arange(len(traffic)), counts)
    source, destination = traffic.source[pair], traffic.destination[pair]
    colour = colour_planes(source, destination, traffic.ranks)[0] if len(pair) else pair
    hold, plane = np.divmod(colour, fabric.channels)
    return Circuits(holds, hold, source, destination, np.zeros_like(hold), plane)


def permutations(circuits: Circuits, fabric: Fabric) -> Ints:
    """Return the settings of all planes, shape [hold, plane, rank]: entry j at rank i is a circuit from i to j.

    Ports without a circuit are joined to themselves where both sides are free, else in ascending order.
    """
    settings = np.full((circuits.holds, fabric.channels, fabric.ranks), -1, np.int64)
    settings[circuits.hold, circuits.channel, circuits.source] = circuits.destination
    for setting in settings.reshape(-1, fabric.ranks):
        idle = np.flatnonzero(setting < 0)
        free = np.setdiff1d(np.arange(fabric.ranks), setting, assume_unique=False)
        both = np.intersect1d(idle, free)
        setting[both] = both
        setting[np.setdiff1d(idle, both)] = np.setdiff1d(free, both)
    return settings


def _line_sums(traffic: Traffic, weights: Floats) -> Floats:
    """Return the sums over the demands of each source, then of each destination, shape [2 · ranks]."""
    lines = np.concatenate([traffic.source, traffic.ranks + traffic.destination])
    return np.bincount(lines, weights=np.tile(weights, 2), minlength=2 * traffic.ranks).astype(np.float64)


def _lines(ends: Ints) -> list[Ints]:
    """Return the demands of each rank that has any."""
    order = np.argsort(ends, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(ends[order])) + 1)


def _line_optimum(nbytes: Floats, planes: int) -> float:
    counts: Ints = smallest_counts(nbytes, (planes - len(nbytes)) / nbytes.sum())
    for _ in range(planes - int(counts.sum())):
        counts[(counts / nbytes).argmin()] += 1
    return float((counts / nbytes).min())
