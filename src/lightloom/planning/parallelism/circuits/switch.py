"""SiP-OCS: circuits on Q planes of permutation switches.

A set of Q permutations gives pair (i, j) a whole number x_ij of circuits, with row and column sums of at most Q. By
König's theorem every such x is Q matchings, and a matching of ranks to ranks always completes to a permutation. So x is
all there is to decide. H holds are H·Q planes, in turn.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy import sparse

from lightloom.collectives.schedule.build import colour_planes
from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import InputError
from lightloom.machines.fabrics.derived import links_of
from lightloom.machines.fabrics.fabric import CLOCKWISE, COUNTERCLOCKWISE, Fabric
from lightloom.planning.parallelism.circuits.circuits import (
    Assignment,
    Circuits,
    Traffic,
    fill_longest,
    smallest_counts,
)
from lightloom.planning.parallelism.circuits.ring import check_ring

Objective = Literal["max-min", "throughput"]


def assign(traffic: Traffic, fabric: Fabric, objective: Objective = "max-min", holds: int = 1) -> Assignment:
    """Return circuits on the switch planes by the fast method, which is exact for both objectives; they are not
    verified yet. Beside them stands the bound of their least service, circuits a hold of the largest demand.

    With ``max-min`` (the largest least service) ports that these circuits leave free go to the longest transfers that
    can use them. Time: demands times the peers of a rank for the counts, circuits times ranks for the colouring.

    Args:
        traffic: demands between the ranks.
        fabric: planes of permutation switches.
        objective: ``max-min``, or ``throughput`` for the largest sum of demand times circuits, which may leave pairs
            without any (the heaviest permutation on all planes of all holds, and nothing else).
        holds: number of holds of the cycle over which ranks with more peers than planes take turns.

    Raises:
        InputError: a rank has more peers than circuits over all holds (max-min), the sizes differ, or no hold.
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
    """Return the fractional optimum of max-min, circuits a hold for the largest demand: the number of planes over the
    largest sum of relative demands that one rank sends or receives."""
    return fabric.channels / float(_line_sums(traffic, traffic.relative).max())


def check_degree(traffic: Traffic, planes: int) -> None:
    """Check that no rank sends to, or receives from, more peers than ``planes``, its circuits over all holds.

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
    """Return the circuits of each pair, [pair], the fewest that reach the largest m with ``x_ij >= m · T_ij`` for every
    pair, x its circuits and T its demand; ``planes`` (Q) is the circuits of a rank over all holds, each way.

    Exact. Any x that reaches m has ``x_ij >= ceil(m T_ij)``, being whole, so m is feasible if and only if the matrix
    ``ceil(m T)`` has line sums of at most Q. That is one condition a line, each of which holds up to some m_line: the
    optimum is the least of them. On a line, ``m_0 = (Q − k) / sum T`` is feasible, k demands being rounded up by less
    than 1 each. From ``ceil(m_0 T)``, give one circuit at a time to the longest transfer, min x/T. While that minimum
    is below m_line, the circuit goes to an x below ``ceil(m_line T)``, so that the line does not overflow before.

    Raises:
        InputError: a rank has more peers than ``planes``.
    """
    check_degree(traffic, planes)
    best = np.inf
    for ends in (traffic.source, traffic.destination):
        order = np.argsort(ends, kind="stable")
        lines = np.split(traffic.nbytes[order], np.flatnonzero(np.diff(ends[order])) + 1)
        best = min(best, *(_line_optimum(line, planes) for line in lines))
    return smallest_counts(traffic.nbytes, best)


def throughput_counts(traffic: Traffic, planes: int) -> Ints:
    """Return the number of circuits of each pair, [pair], with the largest ``sum T_ij x_ij``: ``planes`` or 0, where
    ``planes`` is the circuits of a rank over all holds.

    Exact, and of little use alone: nothing limits x_ij but the ports, so that the heaviest single permutation, set on
    every plane, is optimal (the transportation polytope of line sums Q is Q times that of permutations).
    """
    from scipy.optimize import linear_sum_assignment

    dense = np.zeros((traffic.ranks, traffic.ranks))
    dense[traffic.source, traffic.destination] = traffic.nbytes
    _, column = linear_sum_assignment(dense, maximize=True)
    return np.where(column[traffic.source] == traffic.destination, planes, 0)


def fill_ports(traffic: Traffic, planes: int, counts: Ints, most: Ints | None = None) -> Ints:
    """Return the circuits of each pair, [pair], once free ports went one at a time to the pair with the most bytes for
    each circuit, the added one counted.

    Args:
        traffic: demands between the ranks.
        planes: circuits that a rank can send, and as many that it can receive, over all holds.
        counts: circuits that each pair has already, shape [pair]; left as they are.
        most: circuits that each pair may have, shape [pair]; unlimited if not given.
    """
    free = planes - _line_sums(traffic, counts.astype(np.float64)).astype(np.int64)
    entrance = traffic.ranks + traffic.destination
    remaining = np.full(len(traffic), planes) if most is None else most - counts

    def take(pair: int) -> bool:
        """Take a port at either end of a pair for one more circuit; return False where none is free or needed."""
        ports = traffic.source[pair], entrance[pair]
        if not free[ports[0]] or not free[ports[1]] or remaining[pair] <= 0:
            return False
        free[ports[0]] -= 1
        free[ports[1]] -= 1
        remaining[pair] -= 1
        return True

    return fill_longest(traffic.nbytes, counts, take)


def realise(traffic: Traffic, fabric: Fabric, counts: Ints, holds: int = 1) -> Circuits:
    """Return circuits of counts [pair], each with a hold and a plane. No rank may (this is not checked) send or receive
    more of them than the fabric's channels times ``holds``; then all find a plane. Which hold a circuit is in is not
    chosen by its bytes. Circuits are not verified."""
    pair = np.repeat(np.arange(len(traffic)), counts)
    source, destination = traffic.source[pair], traffic.destination[pair]
    colour = colour_planes(source, destination, traffic.ranks)[0] if len(pair) else pair
    hold, plane = np.divmod(colour, fabric.channels)
    return Circuits(holds, hold, source, destination, np.zeros_like(hold), plane)


def permutations(circuits: Circuits, fabric: Fabric) -> Ints:
    """Return the settings of all planes, shape [hold, plane, rank]: entry j at rank i is a circuit from i to j.

    Ports without a circuit are joined to themselves where both sides are free; the rest are joined in ascending order.
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
    """Return the sums of ``weights`` [pair] over the demands of each source rank, then over those of each destination
    rank: [2 · ranks]."""
    lines = np.concatenate([traffic.source, traffic.ranks + traffic.destination])
    return np.bincount(lines, weights=np.tile(weights, 2), minlength=2 * traffic.ranks).astype(np.float64)


def _line_optimum(nbytes: Floats, planes: int) -> float:
    """Return the largest m at which ``ceil(m · nbytes)`` circuits of one line (the demands of one sender, or of one
    receiver, [pair]) sum to at most ``planes``, which must be at least the number of pairs."""
    counts: Ints = smallest_counts(nbytes, (planes - len(nbytes)) / nbytes.sum())
    for _ in range(planes - int(counts.sum())):
        counts[(counts / nbytes).argmin()] += 1
    return float((counts / nbytes).min())


# Circuits as mixed-integer programs, solved by HiGHS, for small cases: counts of each pair and route.

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
    """Return whole circuits [pair, direction], summed over fibres and holds, for the largest t with at least ``t · T``
    circuits for every demand, T relative to the largest; with the status ``optimal`` and gap 0, or ``time limit`` and
    the relative gap that the solver leaves.

    Each link of a fibre carries at most its wavelengths. Source: the published simulator of SiP-ML's authors. Counts
    only: whether they can be coloured with continuity is `ring.realise`'s to find.

    Args:
        traffic: demands between the ranks.
        fabric: the WDM ring.
        holds: number of holds of a cycle; each is one more set of fibres.
        time_limit: seconds of wall time, above 0, after which the best so far is returned.

    Raises:
        InputError: the sizes differ, a rank has fewer transceivers than channels in both directions, the limit is not
            positive, the time ran out without a solution, or the solver failed.
    """
    check_ring(traffic, fabric)
    pairs, sets = len(traffic), fabric.channels // fabric.fibre_channels * holds
    directions = np.repeat([CLOCKWISE, COUNTERCLOCKWISE], pairs)
    arc, link = links_of(fabric.footprint(np.tile(traffic.source, 2), np.tile(traffic.destination, 2), directions))
    crossing = sparse.csr_array((np.ones(len(arc)), (link, arc)), shape=(fabric.links, 2 * pairs))
    loads = sparse.kron(sparse.eye_array(sets), crossing)
    granted = sparse.kron(np.ones((1, 2 * sets)), sparse.eye_array(pairs))
    solved = _most_service(loads, granted, traffic, "max-min", float(fabric.fibre_channels), time_limit)
    return replace(solved, counts=solved.counts.reshape(sets, 2, pairs).sum(axis=0).T)


def solve_multiplicities(
    traffic: Traffic, fabric: Fabric, objective: Objective = "max-min", time_limit: float = 10.0, *, holds: int = 1
) -> Counts:
    """Return the circuits of Q permutations, [pair, 1], that are best by an objective, with one integer a demand.

    max-min: the largest m with ``x[i, j] >= m · T[i, j]`` for every demand, T relative to the largest; throughput: the
    largest ``sum T[i, j] · x[i, j]``. Line sums of at most Q decompose into Q permutations, so that SiP-ML's program of
    Q permutation matrices (its published simulator) has the same optimum. Q is the planes of the fabric times
    ``holds``. The solver stops after ``time_limit`` seconds of wall time with the best that it has: the status is then
    ``time limit``, with the relative gap left, else ``optimal`` with gap 0.

    Raises:
        InputError: a rank has more peers than circuits (max-min), the sizes differ, the limit is not positive, the time
            ran out without a solution, or the solver failed.
    """
    traffic.check_fits(fabric)
    planes, pairs = fabric.channels * holds, len(traffic)
    if objective == "max-min":
        check_degree(traffic, planes)
    lines = np.concatenate([traffic.source, fabric.ranks + traffic.destination])
    cells = np.ones(2 * pairs), (lines, np.tile(np.arange(pairs), 2))
    sums = sparse.csr_array(cells, shape=(2 * fabric.ranks, pairs))
    return _most_service(sums, sparse.eye_array(pairs, format="csr"), traffic, objective, float(planes), time_limit)


def _most_service(
    limits: sparse.csr_array,
    granted: sparse.csr_array,
    traffic: Traffic,
    objective: Objective,
    most: float,
    time_limit: float,
) -> Counts:
    """Return the whole numbers v, [variable, 1], that maximise an objective on ``granted · v``, the circuits of each
    pair, with ``limits · v <= most``.

    max-min: the largest t with ``granted · v >= t · T`` for every demand, T relative to the largest; throughput: the
    largest ``T · granted · v``. Each of v is a whole number from 0 to ``most``; t is the last variable of the program.
    The status is ``optimal`` with gap 0, or ``time limit`` with the relative gap that the solver leaves.

    Args:
        limits: share of each variable in each limited quantity: [limit, variable].
        granted: circuits of each pair for one of each variable: [pair, variable].
        traffic: demands between the ranks.
        objective: ``max-min`` or ``throughput``.
        most: the limit of every limited quantity, and of every variable.
        time_limit: seconds of wall time, after which the best v so far are returned, with their gap.

    Raises:
        InputError: infeasible, a time limit that is not positive, no solution within it, or an error of the solver.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    if not time_limit > 0:
        raise InputError(f"a time limit of {time_limit} s: expected more than 0")
    rows, cells = limits.shape
    demands = sparse.csr_array(-traffic.relative[:, None])
    matrix = sparse.block_array([[limits, None], [granted, demands]], format="csr")
    upper = np.concatenate([np.full(rows, most), np.full(len(traffic), np.inf)])
    max_min = objective == "max-min"
    gain = np.append(np.zeros(cells) if max_min else granted.T @ traffic.relative, float(max_min))
    bounds = Bounds(0, np.append(np.full(cells, most), np.inf if max_min else 0.0))
    allowed, whole = LinearConstraint(matrix, np.zeros(len(upper)), upper), np.append(np.ones(cells, np.int64), 0)
    solve = partial(milp, -gain, integrality=whole, bounds=bounds, constraints=allowed)
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
    values, optimal = np.rint(result.x[:-1]).astype(np.int64)[:, None], result.status == _OPTIMAL
    return Counts(values, "optimal", 0.0) if optimal else Counts(values, "time limit", float(result.mip_gap))
