"""The SiP-ML study: degrees that the distance rule needs, Fig. 4, sweeps without end, circuits of small rings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.claims import Claim
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.papers import sipml as paper
from lightloom.papers import study
from lightloom.papers.sipml import BANDWIDTHS, JOBS, RANKS, System, comparison, runs
from lightloom.papers.sipml import rows as sipml
from lightloom.papers.sipml.comparison import Comparison, rival_key, rivals
from lightloom.papers.sipml.rows import balanced_graph
from lightloom.planning.parallelism.circuits.group import grant
from lightloom.planning.parallelism.placement.kernels import forward_pass
from lightloom.planning.parallelism.placement.place import initial_state, place, problem_of
from lightloom.planning.parallelism.placement.placement import Link, Reach
from lightloom.planning.simulation.placed_step import simulate_placed
from tests.studies.rows import assert_sound

ID = re.compile(r"sipml\.(table|figure|headline|example)\d*\.[a-z0-9_]+")
DEVIATING = {"example.peers_by_distance", "example.repair_ends"}


@pytest.fixture(scope="module")
def rows() -> dict[str, Claim]:
    return {claim.id.removeprefix("sipml."): claim for claim in study.find("sipml")().claims}


@pytest.mark.parametrize("speed", [sipml.fastest, sipml.over_data_parallel, sipml.searched])
@pytest.mark.parametrize("refused", [(), ("ocs",), ("ring",), sipml.OPTICAL, ("electrical",)])
def test_a_network_on_which_nothing_fits_does_not_hide_the_other(
    speed: Callable[[Comparison, str, float, float], float], refused: tuple[str, ...]
) -> None:
    model = next(iter(JOBS))
    seconds: dict[System, float] = {"electrical": 6.0, "ocs": 3.0, "ring": 2.0}
    results: dict[str, object] = {}
    for system in seconds:
        gbps = 100 if system == "electrical" else 1600
        row = {"refused": "why"} if system in refused else {"step_s": seconds[system]}
        results[comparison.Network(system, RANKS, gbps, model=model).key] = {"1": row}
        results[rival_key(system, gbps)] = {model: {"search": row}}
    fitting = [seconds[system] for system in sipml.OPTICAL if system not in refused]
    expected = math.nan if not fitting or "electrical" in refused else 6 / min(fitting)
    assert speed(Comparison(results), model, 1600, 100) == pytest.approx(expected, nan_ok=True)


def test_rows_have_ids_and_the_statuses_that_the_page_tells(rows: dict[str, Claim]) -> None:
    assert all(ID.fullmatch(claim.id) for claim in rows.values())
    assert_sound("sipml", rows.values())
    printed = {name: claim for name, claim in rows.items() if claim.paper is not None}
    assert {name for name, claim in printed.items() if claim.status == "deviates"} == DEVIATING
    assert all(name.startswith(("example.", "figure4.")) for name in printed)
    assert {name for name, claim in rows.items() if claim.fitted} == {
        "figure4.most_peers",
        "figure4.not_balanced",
        "figure4.circuits_of_gpu_1",
    }


@given(degree=st.integers(1, 4), spare=st.integers(1, 4))
@settings(deadline=None, max_examples=20)
def test_distance_rule_allows_twice_as_many_peers_as_readers(degree: int, spare: int) -> None:
    plan = sipml.forward_case(degree, 2 * degree + spare)
    assert sipml.most_peers(plan) == 2 * degree
    assert not sipml.circuits_refusal(plan, 2 * degree + 1)
    assert f"at least {2 * degree + 1}" in sipml.circuits_refusal(plan, degree + 1)


def test_two_rules_give_all_of_figure_4() -> None:
    """The device that is free first, as printed, and the one that could start first; of equals the last, A in one
    part. Both hold counted from 0, and from 1 with B on GPU 1."""
    readings = sipml.readings_of_figure_4()
    assert sum(sipml.most_peers(sipml.figure_4_plan(*reading)) > sipml.DEGREE - 1 for reading in readings) == 12
    agree = [reading for reading, facts in readings.items() if facts]
    assert agree == [(1, False, "last"), (1, True, "last")]
    for reading in agree:
        plan = sipml.figure_4_plan(*reading)
        assert sipml.printed_facts(plan) == (2, "C", "2, 3, 5")
        assert sipml.turned(plan) == [2, 3, 5]
        assert len(set(sipml.devices(plan)["C"])) == sipml.most_devices_of_c() == 3
        for device in range(sipml.K):
            assert [rank for rank in sipml.peers_of_device(plan, device) if rank >= sipml.K] == [device + sipml.K]


def test_all_of_c_would_need_three_peers() -> None:
    assert [sipml.most_devices_of_c(degree) for degree in range(4)] == [1, 2, 3, 4]


def test_sweeps_return_to_where_they_were() -> None:
    found = sipml.chase()
    assert found.period > 0
    assert found.states[-1] == found.states[-1 - found.period]
    assert len(set(found.states)) == found.period


def test_the_sweeps_are_those_of_the_repair() -> None:
    """The compiled forward pass gets stuck in the same state, and no number of rounds frees it."""
    balanced = balanced_graph("chase", (1,) * 5, sipml.EDGES)
    reach = Reach(sipml.CHASE_REACH, "forward")
    problem = problem_of(balanced, sipml.CHASE_DEVICES, reach, None, Link(bandwidth=1e12))

    def sweep(rounds: int) -> tuple[bool, list[int], int]:
        state = initial_state(problem, np.full(5, -1, np.int32))
        rows = problem.rows._replace(order=np.array(sipml.ORDER))
        settled = forward_pass(rows, state, sipml.CHASE_DEVICES, False, rounds)
        return bool(settled), state.device.tolist(), int(state.moves[0])

    found = sipml.chase()
    assert sweep(0) == (False, list(sipml.BEFORE), 0)
    for rounds in (1, 2, 50):
        assert sweep(rounds) == (False, list(found.states[2]), 2 * rounds)


def test_a_placement_exists_where_sweeps_chase_one_another() -> None:
    fits = [
        device
        for device in product(range(sipml.CHASE_DEVICES), repeat=5)
        if all((device[b] - device[a]) % sipml.CHASE_DEVICES <= sipml.CHASE_REACH for a, b in sipml.EDGES)
    ]
    assert (0,) * 5 in fits
    assert any(len(set(device)) > 2 for device in fits)


def test_counts_that_no_wavelengths_can_serve() -> None:
    nodes, links, wavelengths = sipml.LONG
    case = sipml.solve(sipml.ahead(nodes, links), wavelengths)
    assert case.unassigned > 0
    assert case.fast.max_min <= case.fast.bound < case.optimum
    assert case.fast.max_min == np.floor(case.fast.bound)


@given(nodes=st.integers(3, 6), wavelengths=st.integers(1, 12), links=st.integers(1, 2))
@settings(deadline=None, max_examples=15)
def test_the_fast_way_never_beats_the_program(nodes: int, wavelengths: int, links: int) -> None:
    case = sipml.solve(sipml.ahead(nodes, links), wavelengths)
    assert case.fast.max_min <= case.optimum + 1e-9
    assert case.fast.max_min <= case.fast.bound + 1e-9


@pytest.mark.parametrize(("gbps", "milliseconds"), [(400, 10.0), (8192, 0.488)])
def test_the_scripts_term_is_what_they_print(gbps: float, milliseconds: float) -> None:
    weights = JOBS["resnet50"].weights
    assert 1e3 * comparison.ring_time(weights, gbps) == pytest.approx(milliseconds, rel=1e-3)


def test_rings_are_one_ring_of_all_their_wavelengths() -> None:
    five, one = sipml.solve(sipml.all_to_all(8), 2, fibres=5), sipml.all_to_all_case(8, 10)
    assert (five.optimum, five.fast.max_min) == (one.optimum, one.fast.max_min)


@pytest.mark.parametrize("gbps", [128.0, 400.0, 8192.0])
def test_every_gpu_has_the_same_bandwidth_on_all_networks(gbps: float) -> None:
    electrical, ocs, ring = (paper.fabric(system, 64, gbps) for system in paper.SYSTEMS)
    port = electrical.link_bandwidth()[0]
    assert port == pytest.approx(gbps * 1e9 / 8)
    assert ocs.link_bandwidth()[0] == pytest.approx(port)
    both_ways = 2 * ring.link_bandwidth()[0]
    assert 0.75 * port < both_ways <= port


def test_networks_leave_one_circuit_to_data_parallelism() -> None:
    assert paper.reach("ocs", 64, 16).degree == 19
    assert paper.reach("ocs", 64, 1).degree == 20
    assert paper.reach("electrical", 64, 16).clique(64) == 64
    assert paper.reach("ring", 4, 16).degree == 3


def test_data_parallelism_is_that_of_the_planner() -> None:
    """k = 1 of the placed plans against the planner's schedules, verified and simulated bucket by bucket."""
    measured = Comparison.load()
    for model in JOBS:
        for system in paper.SYSTEMS:
            for gbps in BANDWIDTHS:
                placed = measured.seconds(model, system, gbps, 1)
                planned = measured.rival(model, system, gbps, "ddp")["step_s"]
                # A placed ring all-reduce runs one way round, the planner's both.
                assert 0.99 * planned <= placed <= (1.01 if system != "ring" else 2.1) * planned


def test_more_bandwidth_never_slows_data_parallelism_down() -> None:
    measured = Comparison.load()
    for model in JOBS:
        for system in paper.SYSTEMS:
            steps = [measured.seconds(model, system, gbps, 1) for gbps in BANDWIDTHS]
            assert all(b <= a for a, b in pairwise(steps))


def test_more_bandwidth_hardly_slows_the_best_split_down() -> None:
    """Placements are searched for, so that a faster network may by chance get a worse one."""
    measured = Comparison.load()
    for model in JOBS:
        for system in paper.SYSTEMS:
            steps = [found.seconds for gbps in BANDWIDTHS if (found := measured.best(model, system, gbps))]
            assert len(steps) == len(BANDWIDTHS)
            assert all(b <= 1.02 * a for a, b in pairwise(steps))


def test_an_electrical_switch_of_the_same_speed_is_no_slower_than_optics() -> None:
    measured = Comparison.load()
    for model in JOBS:
        for gbps in BANDWIDTHS:
            assert max(measured.speedup(model, system, gbps, gbps) for system in sipml.OPTICAL) <= 1.01


def test_a_headline_is_reached_between_the_bandwidths_that_straddle_it() -> None:
    def speed(gbps: float) -> float:
        return gbps / 1000

    assert sipml.reached(speed, 1.3) == pytest.approx(1300, rel=0.05)
    assert sipml.reached(speed, 0.1) == BANDWIDTHS[0]
    assert sipml.reached(speed, 9.1) == np.inf
    # Bandwidths at which nothing fits are no ends to interpolate between.
    sparse = sipml.reached(lambda gbps: math.nan if gbps == 1024 else speed(gbps), 1.3)
    assert sparse == pytest.approx(1300, rel=0.05)


def test_the_scripts_model_grows_with_the_weights_and_stays_below_the_ratio_of_bandwidths() -> None:
    measured = Comparison.load()
    for model in JOBS:
        found = [measured.script_speedup(model, 8192, 400, weights) for weights in (1e6, 1e9, 1e12)]
        assert found == sorted(found)
        assert 1 < found[0] < found[-1] < 8192 / 400


def test_figures_can_be_drawn() -> None:
    for figure in study.find("sipml")().figures:
        assert figure.draw().axes
        assert figure.title
        assert figure.caption


def test_model_parallelism_alone_sends_nothing_to_other_groups() -> None:
    """l = 1: what circuits carry is the traffic of one group, and the step is computing and transfers alone."""
    plan = replace(sipml.figure_4_plan(), groups=1)
    fabric = paper.fabric("electrical", sipml.K, 8192)
    step = simulate_placed(plan, grant(plan, fabric), load_accelerator("a100").flat(), TrainingSettings())
    assert plan.traffic.data_parallel.nnz == 0
    assert step.sent_bytes == pytest.approx(plan.traffic.total.sum())
    assert step.step_time >= plan.placement.makespan * (1 - 1e-9)


def test_results_of_other_inputs_are_flagged_and_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows say that what they rest on is stale once a constant, a job or a network differs; runs do not resume it."""
    kept, hashes = Comparison.load(), {part: comparison.inputs_hash(part) for part in comparison.PARTS}
    inputs: dict[str, str] = {str(part): text for part, text in hashes.items()}
    fresh = Comparison(kept.results, inputs)
    assert comparison.stale(fresh.inputs) == ""
    assert runs._resumed(fresh, hashes) == kept.results
    assert not any("STALE" in row.why for row in (*sipml._speedups(fresh), *sipml._beyond_the_paper(fresh)))
    monkeypatch.setitem(JOBS, "resnet50", JOBS["resnet50"]._replace(global_batch=4096))
    comparison.inputs_hash.cache_clear()
    assert all(comparison.inputs_hash(part) != hashes[part] for part in comparison.PARTS)
    comparison.inputs_hash.cache_clear()
    monkeypatch.undo()
    old = Comparison(kept.results, inputs | {"rivals": "of before"})
    flagged = {
        row.id
        for row in (*sipml._speedups(old), *sipml._beyond_the_paper(old))
        if row.why.startswith("STALE: the stored results of rivals")
    }
    assert {"sipml.headline.speedup_search_400", "sipml.headline.beyond_placed_over_sharded_resnet50"} <= flagged
    assert "sipml.headline.speedup_placed_400" not in flagged
    resumed = runs._resumed(old, hashes)
    assert resumed and not any(key.startswith("rivals") for key in resumed)


@pytest.mark.slow
def test_nothing_that_is_stored_is_stale() -> None:
    pytest.importorskip("torch", reason="ResNet-50 is counted from a PyTorch module")
    assert comparison.stale(Comparison.load().inputs) == ""
    assert not any("STALE" in text for text in study.find("sipml")().assumptions)


def test_a_change_of_the_placement_makes_stored_results_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """No constant and no input changes, only what the code makes of a model."""
    monkeypatch.setattr(comparison, "_SPLITS", ((8, 4),))
    hashes = []
    for effort in (None, 0):
        if effort is not None:
            monkeypatch.setattr(comparison, "place", partial(place, effort=effort))
        comparison.placed_outcomes.cache_clear()
        comparison.inputs_hash.cache_clear()
        hashes.append(comparison.inputs_hash("placed"))
    assert hashes[0] != hashes[1]
    comparison.placed_outcomes.cache_clear()
    comparison.inputs_hash.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("system", paper.SYSTEMS)
def test_the_comparison_that_comes_with_the_package_is_what_the_code_gives(system: paper.System) -> None:
    pytest.importorskip("torch", reason="ResNet-50 is counted from a PyTorch module")
    setting = comparison.Network(system, 1024, 8192, model="resnet50")
    kept = Comparison.load().rows("resnet50", system, 8192)
    for k in (1, 2, 8):
        found = min(runs.simulated(setting, k, quantum).step_time for quantum in comparison.QUANTA)
        assert found == pytest.approx(kept[k]["step_s"], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("system", paper.SYSTEMS)
def test_the_searches_that_come_with_the_package_are_what_the_code_gives(system: paper.System) -> None:
    pytest.importorskip("torch", reason="ResNet-50 is counted from a PyTorch module")
    kept = Comparison.load().results[rival_key(system, 8192)]
    assert rivals(paper.fabric(system, 1024, 8192)) == kept
