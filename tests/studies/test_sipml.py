"""The SiP-ML study: degrees that the distance rule needs, Fig. 4, sweeps without end, circuits of small rings."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.claims import Claim
from lightloom.parallelism import _placement_kernels as kernels
from lightloom.parallelism import placement as placing
from lightloom.parallelism.placed import Link, Reach
from lightloom.studies import load
from lightloom.studies.sipml import circuits, convergence, data_parallel, degrees, figure4
from lightloom.studies.sipml.paper import JOBS, RING_MS
from lightloom.studies.sipml.small_graphs import balanced_graph

ID = re.compile(r"sipml\.(table|figure|headline|example)\d*\.[a-z0-9_]+")
DEVIATING = {
    "example.peers_by_distance",
    "example.degree_by_distance",
    "example.repair_ends",
    "example.ring_counts_without_wavelengths",
    "example.weights_resnet50",
    "example.weights_transformer_big",
    "example.weights_gpt2_355m",
    "figure4.most_peers_by_formula",
}


@pytest.fixture(scope="module")
def rows() -> dict[str, Claim]:
    return {claim.id.removeprefix("sipml."): claim for claim in load.find("sipml")().claims}


def test_rows_have_ids_and_the_statuses_that_the_page_tells(rows: dict[str, Claim]) -> None:
    assert all(ID.fullmatch(claim.id) for claim in rows.values())
    section_3 = {name: claim for name, claim in rows.items() if name.startswith(("example.", "figure4."))}
    assert {name for name, claim in section_3.items() if claim.status == "deviates"} == DEVIATING
    assert not any(claim.status == "not reproducible" for claim in section_3.values())
    assert not any(claim.fitted for claim in rows.values())


@given(degree=st.integers(1, 4), spare=st.integers(1, 4))
@settings(deadline=None, max_examples=20)
def test_distance_rule_allows_twice_as_many_peers_as_readers(degree: int, spare: int) -> None:
    plan = degrees.forward_case(degree, 2 * degree + spare)
    assert degrees.peers(plan) == degrees.Peers(most=2 * degree, readers=degree)
    assert degrees.least_degree(plan) == 2 * degree + 1
    assert f"at least {2 * degree + 1}" in degrees.refusal(plan, degree + 1)


def test_figure_4_has_both_properties() -> None:
    plan = figure4.plan()
    assert figure4.most_peers(plan) <= figure4.DEGREE - 1
    assert figure4.not_balanced(plan) == ["C"]
    for device in range(figure4.K):
        assert [rank for rank in figure4.peers(plan, device) if rank >= figure4.K] == [device + figure4.K]


@pytest.mark.parametrize("parts_of_a", [1, 2])
def test_figure_4_is_split_as_assumed(parts_of_a: int) -> None:
    balanced = figure4.split(parts_of_a)
    assert dict(zip(balanced.operators, np.diff(balanced.first).tolist(), strict=True)) == figure4.parts(parts_of_a)


def test_all_of_c_would_need_three_peers() -> None:
    assert [figure4.most_devices_of_c(degree) for degree in range(4)] == [1, 2, 3, 4]


def test_sweeps_return_to_where_they_were() -> None:
    found = convergence.chase()
    assert found.period > 0
    assert found.states[-1] == found.states[-1 - found.period]
    assert len(set(found.states)) == found.period


def test_the_sweeps_are_those_of_the_repair() -> None:
    """The compiled forward pass gets stuck in the same state, and no number of rounds frees it."""
    balanced = balanced_graph("chase", (1,) * 5, convergence.EDGES)
    reach = Reach(convergence.DEGREE, "forward")
    problem = placing._problem(balanced, convergence.DEVICES, reach, None, Link(bandwidth=1e12))

    def sweep(rounds: int) -> tuple[bool, list[int], int]:
        device, moved = np.full(5, -1, np.int32), np.zeros(2, np.int64)
        settled = kernels.forward_pass(
            np.array(convergence.ORDER), problem.before, problem.after, balanced.forward, balanced.memory,
            problem.capacity, problem.offsets, problem.allowed, convergence.DEVICES, False, rounds, device, moved,
        )  # fmt: skip
        return bool(settled), device.tolist(), int(moved[0])

    found = convergence.chase()
    assert sweep(0) == (False, list(convergence.BEFORE), 0)
    for rounds in (1, 2, 50):
        assert sweep(rounds) == (False, list(found.states[2]), 2 * rounds)


def test_a_placement_exists_where_sweeps_chase_one_another() -> None:
    fits = [
        device
        for device in product(range(convergence.DEVICES), repeat=5)
        if all((device[b] - device[a]) % convergence.DEVICES <= convergence.DEGREE for a, b in convergence.EDGES)
    ]
    assert (0,) * 5 in fits
    assert any(len(set(device)) > 2 for device in fits)


def test_counts_that_no_wavelengths_can_serve() -> None:
    nodes, links, wavelengths = circuits.LONG
    case = circuits.solve(circuits.ahead(nodes, links), wavelengths)
    assert case.lost > 0
    assert case.fast.max_min <= case.fast.bound < case.optimum
    assert case.fast.max_min == np.floor(case.fast.bound)


@given(nodes=st.integers(3, 6), wavelengths=st.integers(1, 12), links=st.integers(1, 2))
@settings(deadline=None, max_examples=15)
def test_the_fast_way_never_beats_the_program(nodes: int, wavelengths: int, links: int) -> None:
    case = circuits.solve(circuits.ahead(nodes, links), wavelengths)
    assert case.fast.max_min <= case.optimum + 1e-9
    assert case.fast.max_min <= case.fast.bound + 1e-9


@pytest.mark.parametrize("key", sorted(JOBS))
def test_the_scripts_term_is_the_limit_of_a_ring(key: str) -> None:
    for gbps, printed in RING_MS[key].items():
        limit = data_parallel.ring_time(JOBS[key].weights, gbps)
        assert 1e3 * limit == pytest.approx(printed, rel=1e-3)
        times = [data_parallel.ring_time(JOBS[key].weights, gbps, ranks) for ranks in (1, 2, 16, 1024)]
        assert times == sorted(times)
        assert times[0] == 0 < times[-1] < limit
