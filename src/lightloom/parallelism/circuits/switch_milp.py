"""SiP-OCS as mixed-integer programs, for small cases: in permutations as the paper has it, and in multiplicities."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import sparse

from lightloom.core.arrays import Floats
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.circuits.milp import Counts, maximise
from lightloom.parallelism.circuits.switch import check_degree
from lightloom.parallelism.circuits.traffic import Traffic

Objective = Literal["max-min", "throughput"]


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
    values, status, gap = _solve(ones, granted, traffic, objective, 1.0, 1.0, time_limit)
    return Counts(np.rint(granted @ values).astype(np.int64)[:, None], status, gap)


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
    values, status, gap = _solve(sums, granted, traffic, objective, 0.0, float(fabric.channels * holds), time_limit)
    return Counts(values.astype(np.int64)[:, None], status, gap)


def _solve(
    sums: sparse.csr_array,
    granted: sparse.csr_array,
    traffic: Traffic,
    objective: Objective,
    least: float,
    most: float,
    time_limit: float,
) -> tuple[Floats, Literal["optimal", "time limit"], float]:
    """Both programs: ``least <= sums · v <= most`` and the objective on ``granted · v``, the circuits of each pair."""
    lines, cells = sums.shape
    relative = traffic.relative
    integral = np.ones(cells + 1, dtype=bool)
    integral[-1] = False
    highest = np.full(cells + 1, most)
    highest[-1] = np.inf
    demands = sparse.csr_array(-relative[:, None])
    matrix = sparse.block_array([[sums, None], [granted, demands]], format="csr")
    low = np.concatenate([np.full(lines, least), np.zeros(len(traffic))])
    high = np.concatenate([np.full(lines, most), np.full(len(traffic), np.inf)])
    gain = np.zeros(cells + 1)
    if objective == "max-min":
        gain[-1] = 1.0
    else:
        gain[:-1] = granted.T @ relative
        highest[-1] = 0.0
    solution = maximise(gain, matrix, low, high, integral, highest, time_limit)
    return solution.values[:-1], solution.status, solution.gap
