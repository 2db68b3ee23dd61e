"""Which way ``lightloom circuits`` finds its circuits: what the options ask for, and the solvers behind them."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from lightloom.cli.output import read_count
from lightloom.core.effort import Effort
from lightloom.core.errors import ConfigError, InputError, UnknownNameError
from lightloom.core.units import parse
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.circuits import (
    Assignment,
    Played,
    Timing,
    Traffic,
    play_once,
    ring,
    switch,
    verify,
    verify_permutations,
)
from lightloom.parallelism.circuits.milp import Counts, solve_multiplicities, solve_ring
from lightloom.parallelism.circuits.ring_bound import relax

MOST_HOLDS = 4096
_MOST_TIMES = 4
_TRIED: Effort = 16
"""Numbers of holds that are tried on a switch at most, up to so many times the fewest."""
_TIME_LIMIT = 10.0
_SOLVERS = ("fast", "milp")
_OBJECTIVES = ("max-min", "throughput")


class Request(NamedTuple):
    """What the options ask for."""

    solver: str
    time_limit: float
    """Seconds of wall time."""
    holds: int | None
    """None for as few as suffice."""
    objective: Literal["max-min", "throughput"]


class Solved(NamedTuple):
    """Circuits, and how sure the solver is."""

    assignment: Assignment
    solver: str
    objective: str
    status: str = "optimal"
    """``optimal``, or ``time limit``; of the fast way always the first."""
    solver_gap: float = 0.0


def read_request(solver: str, time_limit: str | None, holds: str, objective: str) -> Request:
    """Check the options before anything is read.

    Raises:
        ConfigError: a count or a time that cannot be used, or options that exclude each other.
        UnknownNameError: no such solver or objective.
    """
    if solver not in _SOLVERS:
        raise UnknownNameError("solver", solver, _SOLVERS)
    if objective not in _OBJECTIVES:
        raise UnknownNameError("objective", objective, _OBJECTIVES)
    if time_limit is not None and solver != "milp":
        raise ConfigError("--time-limit is of the mixed-integer program: expected --solver milp with it")
    limit = _TIME_LIMIT if time_limit is None else parse(time_limit, "time")
    if not limit:
        raise ConfigError(f"--time-limit {time_limit}: expected more than 0")
    count = None if holds == "auto" else read_count(holds, "--holds")
    if count is not None and not 1 <= count <= MOST_HOLDS:
        raise ConfigError(f"--holds {count}: expected 1 to {MOST_HOLDS}, or auto")
    return Request(solver, limit, count, cast(Any, objective))


def solve(traffic: Traffic, on: Fabric, request: Request, timing: Timing) -> tuple[Solved, Played]:
    """Circuits, verified, and the traffic played through them.

    With ``holds`` left open, a ring takes one hold or a cycle near the bound, whichever is done sooner; a switch the
    number of holds that is done first, of up to four times as many as give each pair a circuit. A mixed-integer program
    takes the fewest holds.

    Raises:
        InputError: infeasible, out of time, or circuits that leave ranks without a way to each other.
    """
    if on.switch_planes:
        candidates = [_on_switch(traffic, on, request, holds) for holds in _switch_holds(traffic, on, request)]
    else:
        if request.objective != "max-min":
            raise ConfigError("--objective throughput is of circuit switches: expected max-min on a wdm-ring")
        candidates = _on_ring(traffic, on, request)
    tried: list[tuple[Solved, Played]] = []
    refused: InputError | None = None
    for solved in candidates:
        verify(solved.assignment.circuits, on)
        try:
            tried.append((solved, play_once(traffic, solved.assignment.circuits, on, timing)))
        except InputError as error:
            refused = error
    if not tried:
        assert refused is not None
        raise refused
    return min(tried, key=lambda solved: solved[1].makespan)


def _on_switch(traffic: Traffic, on: Fabric, request: Request, holds: int) -> Solved:
    if request.solver == "fast":
        solved = Solved(switch.assign(traffic, on, request.objective, holds), "fast", request.objective)
    else:
        exact = solve_multiplicities(traffic, on, request.objective, request.time_limit, holds=holds)
        granted = switch.realise(traffic, on, exact.counts[:, 0], holds)
        solved = _solved(Assignment(traffic, granted, switch.bound(traffic, on)), request, exact)
    verify_permutations(switch.permutations(solved.assignment.circuits, on), solved.assignment.circuits)
    return solved


def _switch_holds(traffic: Traffic, on: Fabric, request: Request) -> list[int]:
    """Numbers of holds that are tried: with more, rounded circuits are nearer to the demands, and more of the time is
    spent on setting them."""
    if request.holds is not None or request.objective != "max-min":
        return [request.holds or 1]
    peers = max(int(np.bincount(ends).max()) for ends in (traffic.source, traffic.destination))
    least = math.ceil(peers / on.channels)
    most = min(_MOST_TIMES * least, MOST_HOLDS)
    tried = np.linspace(least, max(least, most), _TRIED).round().astype(int).tolist()
    return [least] if request.solver == "milp" else list(dict.fromkeys(tried))


def _on_ring(traffic: Traffic, on: Fabric, request: Request) -> list[Solved]:
    relaxation = relax(traffic, on)
    if request.solver == "fast":
        once = ring.assign(traffic, on, request.holds or 1, relaxation)
        # Near the bound some counts fit where fewer, rounded worse, did not.
        turns = ring.assign_in_turns(traffic, on, most_holds=2 * (request.holds or 128), relaxation=relaxation)
        assignments = [once, turns] if turns.circuits.holds == request.holds or request.holds is None else [once]
        return [Solved(assignment, "fast", request.objective) for assignment in assignments]
    least = _ring_holds(traffic, on)
    holds = request.holds or least
    if holds < least:
        raise InputError(
            f"the circuit program is infeasible: {on.channels} wavelengths each way cannot give each of "
            f"{len(traffic)} pairs a circuit in {counted(holds)}: expected --holds of at least {least}, or more "
            "wavelengths"
        )
    exact = solve_ring(traffic, on, holds, request.time_limit)
    if not exact.counts.sum(axis=1).all():
        raise InputError(
            f"the circuit program gives some of {len(traffic)} pairs no circuit in {counted(holds)} "
            f"({exact.status}): expected --holds of more than {holds}, more wavelengths, or --solver fast, which relays"
        )
    granted, unassigned = ring.realise(traffic, on, exact.counts, holds)
    return [_solved(Assignment(traffic, granted, relaxation.service, unassigned), request, exact)]


def _ring_holds(traffic: Traffic, on: Fabric) -> int:
    """Fewer holds cannot serve all pairs, whatever they send: even fractions of circuits would not do."""
    equal = traffic.with_bytes(np.ones(len(traffic)))
    return max(1, math.ceil(1 / relax(equal, on).service - 1e-9))


def counted(holds: int) -> str:
    """Return a number of holds in words."""
    return "1 hold" if holds == 1 else f"{holds} holds"


def _solved(assignment: Assignment, request: Request, exact: Counts) -> Solved:
    return Solved(assignment, "milp", request.objective, exact.status, exact.gap)
