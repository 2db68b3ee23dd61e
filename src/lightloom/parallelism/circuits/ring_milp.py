"""SiP-Ring as a mixed-integer program, for small cases: wavelength counts per direction, fibre and pair."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lightloom.fabrics.base import CLOCKWISE, COUNTERCLOCKWISE, Fabric
from lightloom.parallelism.circuits.milp import Counts, maximise
from lightloom.parallelism.circuits.ring_bound import check_ring
from lightloom.parallelism.circuits.traffic import Traffic


def solve(traffic: Traffic, fabric: Fabric, holds: int = 1, time_limit: float = 10.0) -> Counts:
    """Return whole λ[direction, fibre, pair]; the largest t with ``sum of λ >= t · T`` for every demand, T relative.

    Each link of a fibre carries at most its wavelengths. Source: the published simulator of SiP-ML's authors. Counts
    only: whether they can be coloured with continuity is `ring.realise`'s to find.

    Args:
        holds: of a cycle; each is one more set of fibres.
        time_limit: seconds of wall time.

    Raises:
        InputError: the sizes differ, transceivers bind, or the time ran out without a solution.
    """
    check_ring(traffic, fabric)
    pairs, sets = len(traffic), fabric.channels // fabric.fibre_channels * holds
    ways = np.repeat([CLOCKWISE, COUNTERCLOCKWISE], pairs)
    taken = fabric.footprint(np.tile(traffic.source, 2), np.tile(traffic.destination, 2), ways)
    length = taken.length[:, 0]
    arc = np.repeat(np.arange(2 * pairs), length)
    step = np.arange(len(arc)) - np.repeat(np.cumsum(length) - length, length)
    link = taken.base[arc, 0] + (taken.start[arc, 0] + step) % taken.period[arc, 0]
    crossing = sparse.csr_array((np.ones(len(arc)), (link, arc)), shape=(fabric.links, 2 * pairs))
    loads = sparse.kron(sparse.eye_array(sets), crossing)
    granted = sparse.kron(np.ones((1, 2 * sets)), sparse.eye_array(pairs))
    demands = sparse.csr_array(-traffic.relative[:, None])
    matrix = sparse.block_array([[loads, None], [granted, demands]], format="csr")
    cells = 2 * pairs * sets
    integral = np.append(np.ones(cells, dtype=bool), False)
    highest = np.append(np.full(cells, float(fabric.fibre_channels)), np.inf)
    upper = np.concatenate([np.full(sets * fabric.links, float(fabric.fibre_channels)), np.full(pairs, np.inf)])
    lower = np.concatenate([np.zeros(sets * fabric.links), np.zeros(pairs)])
    gain = np.append(np.zeros(cells), 1.0)
    solution = maximise(gain, matrix, lower, upper, integral, highest, time_limit)
    counts = solution.values[:-1].reshape(sets, 2, pairs).sum(axis=0).T
    return Counts(counts.astype(np.int64), solution.status, solution.gap)
