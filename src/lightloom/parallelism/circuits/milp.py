"""Circuits as mixed-integer programs, solved by HiGHS, for small cases: counts of each pair and route."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import InputError
from lightloom.fabrics.base import CLOCKWISE, COUNTERCLOCKWISE, Fabric
from lightloom.fabrics.footprint import links_of
from lightloom.parallelism.circuits.ring_bound import check_ring
from lightloom.parallelism.circuits.switch import Objective, check_degree
from lightloom.parallelism.circuits.traffic import Traffic

_OPTIMAL, _INFEASIBLE, _SOLVER_ERROR = 0, 2, 4


@dataclass(frozen=True, slots=True)
class Counts:
    """Circuits by a mixed-integer program, and how far they may be from the optimum."""

    counts: Ints
    """Circuits of each pair and route, shape [pair, route]."""
    status: Literal["optimal", "time limit"]
    gap: float
    """Relative gap between the objective and the proved bound; 0 when optimal."""


def solve_ring(traffic: Traffic, fabric: Fabric, holds: int = 1, time_limit: float = 10.0) -> Counts:
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
    arc, link = links_of(fabric.footprint(np.tile(traffic.source, 2), np.tile(traffic.destination, 2), directions))
    crossing = sparse.csr_array((np.ones(len(arc)), (link, arc)), shape=(fabric.links, 2 * pairs))
    loads = sparse.kron(sparse.eye_array(sets), crossing)
    granted = sparse.kron(np.ones((1, 2 * sets)), sparse.eye_array(pairs))
    most = float(fabric.fibre_channels)
    solution = _most_service(loads, granted, traffic, "max-min", least=0.0, most=most, time_limit=time_limit)
    counts = solution.values.reshape(sets, 2, pairs).sum(axis=0).T
    return Counts(counts.astype(np.int64), solution.status, solution.gap)


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
    lines = np.concatenate([plane * n + row, (planes + plane) * n + column])
    sums = _incidence(lines, np.tile(np.arange(cells), 2), (2 * planes * n, cells))
    served = np.arange(planes)[:, None] * n * n + traffic.source * n + traffic.destination
    granted = _incidence(np.tile(np.arange(len(traffic)), planes), served.ravel(), (len(traffic), cells))
    solution = _most_service(sums, granted, traffic, objective, least=1.0, most=1.0, time_limit=time_limit)
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
    planes, pairs = fabric.channels * holds, len(traffic)
    if objective == "max-min":
        check_degree(traffic, planes)
    lines = np.concatenate([traffic.source, fabric.ranks + traffic.destination])
    sums = _incidence(lines, np.tile(np.arange(pairs), 2), (2 * fabric.ranks, pairs))
    granted = sparse.eye_array(pairs, format="csr")
    solution = _most_service(sums, granted, traffic, objective, least=0.0, most=float(planes), time_limit=time_limit)
    return Counts(solution.values.astype(np.int64)[:, None], solution.status, solution.gap)


class _Solution(NamedTuple):
    values: Floats
    """Values of the variables, shape [variable]: whole numbers."""
    status: Literal["optimal", "time limit"]
    gap: float


def _incidence(rows: Ints, columns: Ints, shape: tuple[int, int]) -> sparse.csr_array:
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def _most_service(
    limits: sparse.csr_array,
    granted: sparse.csr_array,
    traffic: Traffic,
    objective: Objective,
    *,
    least: float,
    most: float,
    time_limit: float,
) -> _Solution:
    """Maximise an objective on ``granted · v``, the circuits of each pair, with ``least <= limits · v <= most``.

    max-min: the largest t with ``granted · v >= t · T`` for every demand, T relative to the largest; throughput: the
    largest ``T · granted · v``. Each of v is a whole number from 0 to ``most``; t is the last variable of the program.

    Raises:
        InputError: infeasible, no solution within ``time_limit`` seconds of wall time, or an error of the solver.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    if not time_limit > 0:
        raise InputError(f"a time limit of {time_limit} s: expected more than 0")
    rows, cells = limits.shape
    demands = sparse.csr_array(-traffic.relative[:, None])
    matrix = sparse.block_array([[limits, None], [granted, demands]], format="csr")
    lower = np.concatenate([np.full(rows, least), np.zeros(len(traffic))])
    upper = np.concatenate([np.full(rows, most), np.full(len(traffic), np.inf)])
    max_min = objective == "max-min"
    gain = np.append(np.zeros(cells) if max_min else granted.T @ traffic.relative, float(max_min))
    solve = partial(
        milp,
        -gain,
        integrality=np.append(np.ones(cells, np.int64), 0),
        bounds=Bounds(0, np.append(np.full(cells, most), np.inf if max_min else 0.0)),
        constraints=LinearConstraint(matrix, lower, upper),
    )
    options = {"time_limit": time_limit, "mip_rel_gap": 0.0}
    result: Any = solve(options=options)
    if result.status == _SOLVER_ERROR:
        # Presolve of HiGHS fails on a few small programs that it solves without.
        result = solve(options=options | {"presolve": False})
    if result.status == _INFEASIBLE:
        raise InputError("the circuit program is infeasible: expected demands that the fabric's circuits can serve")
    if result.x is None and result.status == _SOLVER_ERROR:
        raise InputError(f"the solver failed: {result.message}: expected the fast assignment")
    if result.x is None:
        raise InputError(
            f"the solver found no circuits within its time limit of {time_limit:g} s: expected a longer one, or the "
            "fast assignment"
        )
    values = np.rint(result.x[:-1])
    if result.status == _OPTIMAL:
        return _Solution(values, "optimal", 0.0)
    return _Solution(values, "time limit", float(result.mip_gap))
