"""SiP-ML's program of permutation matrices, independent of the package's smaller one, which has the same optimum."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from lightloom.core.errors import InputError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.parallelism.circuits.circuits import Traffic
from lightloom.planning.parallelism.circuits.switch import Counts


def solve_permutations(
    traffic: Traffic, fabric: Fabric, objective: str = "max-min", time_limit: float = 10.0
) -> Counts:
    """Q permutation matrices P[q, i, j], as in SiP-ML's published simulator; fixed points are idle ports.

    max-min: the largest m with ``sum_q P[q, i, j] >= m · T[i, j]`` for every demand, T relative to the largest;
    throughput: the largest ``sum T[i, j] · P[q, i, j]``.
    """
    n, planes, pairs = fabric.ranks, fabric.channels, len(traffic)
    cells = planes * n * n
    plane, row, column = (index.ravel() for index in np.indices((planes, n, n)))
    lines = np.concatenate([plane * n + row, (planes + plane) * n + column])
    sums = sparse.csr_array((np.ones(2 * cells), (lines, np.tile(np.arange(cells), 2))), shape=(2 * planes * n, cells))
    served = np.arange(planes)[:, None] * n * n + traffic.source * n + traffic.destination
    place = np.tile(np.arange(pairs), planes), served.ravel()
    granted = sparse.csr_array((np.ones(planes * pairs), place), shape=(pairs, cells))
    max_min = objective == "max-min"
    relative = traffic.nbytes / traffic.nbytes.max()
    demands = sparse.csr_array(-relative[:, None])
    result = milp(
        -np.append(np.zeros(cells) if max_min else granted.T @ relative, float(max_min)),
        integrality=np.append(np.ones(cells, np.int64), 0),
        bounds=Bounds(0, np.append(np.ones(cells), np.inf if max_min else 0.0)),
        constraints=LinearConstraint(
            sparse.block_array([[sums, None], [granted, demands]], format="csr"),
            np.append(np.ones(2 * planes * n), np.zeros(pairs)),
            np.append(np.ones(2 * planes * n), np.full(pairs, np.inf)),
        ),
        options={"time_limit": time_limit, "mip_rel_gap": 0.0},
    )
    if result.x is None:
        raise InputError(f"no permutations: {result.message}")
    counts = np.rint(granted @ np.rint(result.x[:-1])).astype(np.int64)[:, None]
    return Counts(counts, "optimal" if result.status == 0 else "time limit", float(result.mip_gap or 0.0))
