"""Mixed-integer programs solved by HiGHS, with the solver's verdict read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import InputError
from lightloom.parallelism.circuits.traffic import Traffic

Objective = Literal["max-min", "throughput"]

_OPTIMAL, _LIMIT, _INFEASIBLE, _SOLVER_ERROR = 0, 1, 2, 4


@dataclass(frozen=True, slots=True)
class Solution:
    """A solution, and how far it may be from the optimum."""

    values: Floats
    """Values of the variables, shape [variable]; integers are whole numbers."""
    status: Literal["optimal", "time limit"]
    gap: float
    """Relative gap between the objective and the proved bound; 0 when optimal."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Circuits by a mixed-integer program."""

    counts: Ints
    """Of each pair and route, shape [pair, route]."""
    status: Literal["optimal", "time limit"]
    gap: float


def most_service(
    limits: sparse.csr_array,
    granted: sparse.csr_array,
    traffic: Traffic,
    objective: Objective,
    *,
    least: float,
    most: float,
    time_limit: float,
) -> Solution:
    """Maximise an objective on ``granted · v``, the circuits of each pair, with ``least <= limits · v <= most``.

    max-min: the largest t with ``granted · v >= t · T`` for every demand, T relative to the largest; throughput: the
    largest ``T · granted · v``. Each of v is a whole number from 0 to ``most``.

    Args:
        time_limit: seconds of wall time.

    Raises:
        InputError: as :func:`maximise`.
    """
    rows, cells = limits.shape
    integral = np.ones(cells + 1, dtype=bool)
    integral[-1] = False
    highest = np.append(np.full(cells, most), np.inf)
    demands = sparse.csr_array(-traffic.relative[:, None])
    matrix = sparse.block_array([[limits, None], [granted, demands]], format="csr")
    lower = np.concatenate([np.full(rows, least), np.zeros(len(traffic))])
    upper = np.concatenate([np.full(rows, most), np.full(len(traffic), np.inf)])
    gain = np.zeros(cells + 1)
    if objective == "max-min":
        gain[-1] = 1.0
    else:
        gain[:-1] = granted.T @ traffic.relative
        highest[-1] = 0.0
    solution = maximise(gain, matrix, lower, upper, integral, highest, time_limit)
    return Solution(solution.values[:-1], solution.status, solution.gap)


def maximise(
    objective: Floats,
    matrix: sparse.csr_array,
    lower: Floats | float,
    upper: Floats | float,
    integral: NDArray[np.bool_],
    highest: Floats,
    time_limit: float,
) -> Solution:
    """Maximise ``objective · v`` with ``lower ≤ matrix · v ≤ upper``, ``0 ≤ v ≤ highest``, some of v whole numbers.

    Args:
        time_limit: seconds of wall time.

    Raises:
        InputError: infeasible, no solution within the time limit, or an error of the solver.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    if not time_limit > 0:
        raise InputError(f"a time limit of {time_limit} s: expected more than 0")
    solve = partial(
        milp,
        -objective,
        integrality=integral.astype(np.int64),
        bounds=Bounds(0, highest),
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
    values = np.where(integral, np.rint(result.x), result.x)
    if result.status == _OPTIMAL:
        return Solution(values, "optimal", 0.0)
    return Solution(values, "time limit", float(result.mip_gap))
