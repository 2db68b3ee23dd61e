"""SiP-OCS as mixed-integer programs, for small cases: in permutations as the paper has it, and in multiplicities."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lightloom.fabrics.base import Fabric
from lightloom.parallelism.circuits.milp import Counts, Objective, most_service
from lightloom.parallelism.circuits.switch import check_degree
from lightloom.parallelism.circuits.traffic import Traffic


def solve_permutations(
    traffic: Traffic, fabric: Fabric, objective: Objective = "max-min", time_limit: float = 10.0
) -> Counts:
    """Q permutation matrices P[q, i, j], as in SiP-ML's published simulator (section 3.3; its appendix A.2 not seen).

    max-min: the largest m with ``sum_q P[q, i, j] >= m · T[i, j]`` for every demand, T relative to the largest;
    throughput: the largest ``sum T[i, j] · P[q, i, j]``. Fixed points are idle ports.

    Args:
        time_limit: seconds of wall time.

    Raises:
        InputError: a rank has more peers than circuits (max-min), the sizes differ, or the time ran out.
    """
    traffic.check_fits(fabric)
    if objective == "max-min":
        check_degree(traffic, fabric.channels)
    n, planes = fabric.ranks, fabric.channels
    cells = planes * n * n
    plane, row, column = (a.ravel() for a in np.indices((planes, n, n)))
    cell = traffic.source * n + traffic.destination
    lines = np.concatenate([plane * n + row, (planes + plane) * n + column])
    ones = sparse.csr_array((np.ones(2 * cells), (lines, np.tile(np.arange(cells), 2))), shape=(2 * planes * n, cells))
    served = np.arange(planes)[:, None] * n * n + cell
    pairs = np.tile(np.arange(len(traffic)), planes)
    granted = sparse.csr_array((np.ones(served.size), (pairs, served.ravel())), shape=(len(traffic), cells))
    solution = most_service(ones, granted, traffic, objective, least=1.0, most=1.0, time_limit=time_limit)
    return Counts(np.rint(granted @ solution.values).astype(np.int64)[:, None], solution.status, solution.gap)


def solve_multiplicities(
    traffic: Traffic, fabric: Fabric, objective: Objective = "max-min", time_limit: float = 10.0, *, holds: int = 1
) -> Counts:
    """The same optimum with one integer a demand: row and column sums of at most Q decompose into Q permutations.

    With ``holds`` there are as many times Q planes, one hold's after the other's.

    Raises:
        InputError: as :func:`solve_permutations`.
    """
    traffic.check_fits(fabric)
    if objective == "max-min":
        check_degree(traffic, fabric.channels * holds)
    pairs = np.arange(len(traffic))
    lines = np.concatenate([traffic.source, fabric.ranks + traffic.destination])
    sums = sparse.csr_array(
        (np.ones(2 * len(traffic)), (lines, np.tile(pairs, 2))), shape=(2 * fabric.ranks, len(traffic))
    )
    granted = sparse.eye_array(len(traffic), format="csr")
    most = float(fabric.channels * holds)
    solution = most_service(sums, granted, traffic, objective, least=0.0, most=most, time_limit=time_limit)
    return Counts(solution.values.astype(np.int64)[:, None], solution.status, solution.gap)
