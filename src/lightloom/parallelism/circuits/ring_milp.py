"""SiP-Ring as a mixed-integer program, for small cases: wavelength counts per direction, fibre and pair."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lightloom.fabrics.base import CLOCKWISE, COUNTERCLOCKWISE, Fabric
from lightloom.parallelism.circuits.milp import Counts, most_service
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
    directions = np.repeat([CLOCKWISE, COUNTERCLOCKWISE], pairs)
    taken = fabric.footprint(np.tile(traffic.source, 2), np.tile(traffic.destination, 2), directions)
    length = taken.length[:, 0]
    arc = np.repeat(np.arange(2 * pairs), length)
    step = np.arange(len(arc)) - np.repeat(np.cumsum(length) - length, length)
    link = taken.base[arc, 0] + (taken.start[arc, 0] + step) % taken.period[arc, 0]
    crossing = sparse.csr_array((np.ones(len(arc)), (link, arc)), shape=(fabric.links, 2 * pairs))
    loads = sparse.kron(sparse.eye_array(sets), crossing)
    granted = sparse.kron(np.ones((1, 2 * sets)), sparse.eye_array(pairs))
    most = float(fabric.fibre_channels)
    solution = most_service(loads, granted, traffic, "max-min", least=0.0, most=most, time_limit=time_limit)
    counts = solution.values.reshape(sets, 2, pairs).sum(axis=0).T
    return Counts(counts.astype(np.int64), solution.status, solution.gap)
