"""SiP-OCS: the fast way is exact, and what it grants can be set on the switches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lightloom.core.errors import InputError
from lightloom.machines.fabrics.switches import CircuitSwitch
from lightloom.planning.parallelism.circuits import switch
from lightloom.planning.parallelism.circuits.circuits import Traffic, least_service
from lightloom.planning.parallelism.circuits.switch import Objective
from lightloom.planning.parallelism.circuits.verify import verify_permutations
from tests.parallelism.circuits.exhaustive import best_permutations
from tests.parallelism.circuits.granted import verify_granted
from tests.parallelism.circuits.permutations import solve_permutations
from tests.parallelism.circuits.strategies import matrices, neighbours, traffics

_LONG = 3600.0
"""Time limit of solvers that a slow machine does not reach, in seconds."""


def peers(traffic: Traffic) -> int:
    return int(max(np.bincount(traffic.source).max(), np.bincount(traffic.destination).max()))


@settings(deadline=None, max_examples=40)
@given(traffics(most=9), st.integers(0, 5), st.integers(1, 3), st.sampled_from(["max-min", "throughput"]))
def test_what_is_granted_can_be_set(traffic: Traffic, spare: int, holds: int, objective: Objective) -> None:
    degree = -(-peers(traffic) // holds) + spare
    fabric = CircuitSwitch(ranks=traffic.ranks, degree=degree)
    found = switch.assign(traffic, fabric, objective, holds)
    verify_granted(found.circuits, fabric, traffic, found.circuits.counts(traffic).sum(axis=0))
    verify_permutations(switch.permutations(found.circuits, fabric), found.circuits)
    if objective == "max-min":
        assert 0 < found.max_min <= found.bound * (1 + 1e-12)


@settings(deadline=None, max_examples=25)
@given(traffics(most=4, share=0.6), st.integers(1, 3))
def test_exact_as_trying_all_and_as_both_programs(traffic: Traffic, degree: int) -> None:
    assume(peers(traffic) <= degree)
    agree_with_all(traffic, degree)


def test_exact_on_five_ranks() -> None:
    for seed in range(3):
        agree_with_all(neighbours(5, 2, seed), 2)


def test_exact_where_presolve_of_the_solver_fails() -> None:
    """HiGHS ends the program in multiplicities of this traffic in a solver error, unless it skips presolve."""
    matrix = np.zeros((4, 4))
    matrix[[0, 0, 1, 2, 2, 3], [2, 3, 3, 1, 3, 1]] = [
        *(0.6542298614154491, 1.0, 0.4037188770315706),
        *(0.6824493474691682, 0.38620810006204775, 0.28879749043985387),
    ]
    agree_with_all(Traffic.of(matrix), 3)


def agree_with_all(traffic: Traffic, degree: int) -> None:
    fabric = CircuitSwitch(ranks=traffic.ranks, degree=degree)
    fairest, heaviest = best_permutations(traffic, degree)
    fast = switch.assign(traffic, fabric)
    assert fast.max_min == pytest.approx(fairest, rel=1e-12)
    weight = switch.throughput_counts(traffic, degree) @ traffic.relative
    assert weight == pytest.approx(heaviest, rel=1e-12)
    for solve in (solve_permutations, switch.solve_multiplicities):
        fair = solve(traffic, fabric, "max-min", _LONG)
        assert fair.status == "optimal"
        assert least_service(fair.counts.sum(axis=1), traffic) == pytest.approx(fairest, rel=1e-6)
        heavy = solve(traffic, fabric, "throughput", _LONG)
        assert heavy.counts.sum(axis=1) @ traffic.relative == pytest.approx(heaviest, rel=1e-6)


@settings(deadline=None, max_examples=15)
@given(traffics(least=5, most=9), st.integers(0, 6))
def test_exact_as_the_small_program_on_larger_cases(traffic: Traffic, spare: int) -> None:
    degree = peers(traffic) + spare
    fabric = CircuitSwitch(ranks=traffic.ranks, degree=degree)
    solved = switch.solve_multiplicities(traffic, fabric, time_limit=_LONG)
    assert solved.status == "optimal"
    best = least_service(solved.counts.sum(axis=1), traffic)
    assert switch.assign(traffic, fabric).max_min == pytest.approx(best, rel=1e-6)


@settings(deadline=None, max_examples=25)
@given(traffics(most=9), st.integers(0, 4))
def test_more_planes_never_serve_less(traffic: Traffic, spare: int) -> None:
    degree = peers(traffic) + spare
    served = [
        switch.assign(traffic, CircuitSwitch(ranks=traffic.ranks, degree=d)).max_min for d in (degree, degree + 1)
    ]
    assert served[0] <= served[1]
    held = [switch.assign(traffic, CircuitSwitch(ranks=traffic.ranks, degree=degree), holds=h) for h in (1, 2)]
    assert held[0].max_min <= held[1].max_min * (1 + 1e-12)


@settings(deadline=None, max_examples=25)
@given(matrices(most=9), st.integers(0, 4), st.integers(-20, 20), st.randoms(use_true_random=False))
def test_scaling_and_renaming_change_nothing(matrix: np.ndarray, spare: int, power: int, random: object) -> None:
    traffic = Traffic.of(matrix)
    fabric = CircuitSwitch(ranks=traffic.ranks, degree=peers(traffic) + spare)
    scaled = switch.max_min_counts(Traffic.of(matrix * 2.0**power), fabric.degree)
    assert (scaled == switch.max_min_counts(traffic, fabric.degree)).all()
    order = np.random.default_rng(spare).permutation(traffic.ranks)
    renamed = Traffic.of(matrix[np.ix_(order, order)])
    before, after = np.zeros((2, *matrix.shape), dtype=int)
    before[traffic.source, traffic.destination] = switch.max_min_counts(traffic, fabric.degree)
    after[renamed.source, renamed.destination] = switch.max_min_counts(renamed, fabric.degree)
    assert (after == before[np.ix_(order, order)]).all()


def test_more_peers_than_degree_says_what_would_do() -> None:
    traffic = neighbours(6, 4, 0)
    with pytest.raises(InputError, match=r"rank 0 sends to 4 ranks, but holds 3 circuits: expected a degree .* 4"):
        switch.assign(traffic, CircuitSwitch(ranks=6, degree=3))
    with pytest.raises(InputError, match="at least 4"):
        switch.solve_multiplicities(traffic, CircuitSwitch(ranks=6, degree=3))
    assert switch.assign(traffic, CircuitSwitch(ranks=6, degree=3), holds=2).max_min > 0


def test_solver_out_of_time() -> None:
    with pytest.raises(InputError, match=r"no circuits within its time limit of 1e-09 s: expected a longer one"):
        switch.solve_multiplicities(neighbours(16, 8, 0), CircuitSwitch(ranks=16, degree=12), time_limit=1e-9)
    with pytest.raises(InputError, match="expected more than 0"):
        switch.solve_multiplicities(neighbours(6, 4, 0), CircuitSwitch(ranks=6, degree=4), time_limit=0)
