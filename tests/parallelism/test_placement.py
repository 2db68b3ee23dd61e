"""Every placement keeps degrees, memory and order; it is near the optimum; refusals name what is enough."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from benchmarks.placement import (
    LINK,
    MODELS,
    Case,
    against_exhaustive,
    durations,
    exhaustive,
    large,
    models,
    random_case,
    random_graph,
    small_cases,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lightloom.core.arrays import Column
from lightloom.core.errors import ConfigError, UnsupportedError, VerificationError
from lightloom.models.zoo import load_workload
from lightloom.planning.parallelism.placement.check import check
from lightloom.planning.parallelism.placement.cuts import PartitionRules
from lightloom.planning.parallelism.placement.kernels import iteration_time
from lightloom.planning.parallelism.placement.place import _too_large, partition, place, problem_of
from lightloom.planning.parallelism.placement.placement import BalancedGraph, Link, Placement, Reach

Rule = Literal["peers", "forward"]


def fan(*layers: int, nbytes: float = 0.0, full: bool = True) -> BalancedGraph:
    """Layers of equal sub-operators, each reading all of the layer before, or its own place in it."""
    first = np.concatenate(([0], np.cumsum(layers)))
    size = int(first[-1])
    parents: list[list[int]] = [[] for _ in range(size)]
    for o in range(1, len(layers)):
        for part in range(layers[o]):
            before = range(first[o - 1], first[o])
            aligned = first[o - 1] + part * layers[o - 1] // layers[o]
            parents[first[o] + part] = list(before) if full else [int(aligned)]
    counts = [len(found) for found in parents]
    return BalancedGraph(
        name="fan",
        operators=tuple("ABCDEFGH"[: len(layers)]),
        dimensions=("channel",) * len(layers),
        first=first,
        operator=np.repeat(np.arange(len(layers), dtype=np.int32), layers),
        part=np.concatenate([np.arange(n, dtype=np.int32) for n in layers]),
        forward=np.full(size, 1e-6),
        backward=np.full(size, 2e-6),
        parameters=np.full(size, 10),
        memory=np.ones(size),
        synchronised=np.zeros(size),
        parent_start=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        parent=np.array([y for found in parents for y in found], np.int32),
        nbytes=np.full(sum(counts), nbytes),
        content=np.zeros(sum(counts), np.int64),
        gradient_bytes=4,
    )


def iteration_seconds(balanced: BalancedGraph, device: Column, devices: int, link: Link) -> float:
    problem = problem_of(balanced, devices, Reach(devices), None, link)
    return float(iteration_time(problem.rows, device.astype(np.int32), np.zeros((4, balanced.size))))


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 80), devices=st.integers(3, 12), repair=st.booleans())
def test_every_placement_is_valid_or_refused_for_memory(seed: int, size: int, devices: int, repair: bool) -> None:
    case = random_case(np.random.default_rng(seed), size, devices)
    try:
        case.place(repair=repair, effort=100_000)  # checks itself
    except UnsupportedError:
        assert case.memory is not None


@pytest.mark.long
def test_small_graphs_are_placed_near_the_optimum() -> None:
    found = against_exhaustive(25)
    assert found["below_optimum"] == 0
    assert found["median"] <= 0.02
    assert found["percentile_95"] <= 0.10
    assert found["missed"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_many_small_graphs_are_placed_near_the_optimum(seed: int) -> None:
    found = against_exhaustive(500, seed)
    assert found["below_optimum"] == 0
    assert found["median"] <= 0.02
    assert found["percentile_95"] <= 0.10
    assert found["missed"] == 0


@pytest.mark.long
def test_exhaustive_search_agrees_with_trying_everything() -> None:
    for case in small_cases(12, seed=5):
        small = min(case.balanced.size, 6)
        balanced = random_graph(np.random.default_rng(case.balanced.size), small, 0.5)
        case = Case(balanced, 3, Reach(2), None)
        every = (
            iteration_seconds(balanced, np.array(np.unravel_index(n, (3,) * small)), 3, LINK) for n in range(3**small)
        )
        assert exhaustive(case) == pytest.approx(min(every), rel=1e-12)


def test_the_objective_is_what_a_placement_reports() -> None:
    for case in small_cases(10, seed=3):
        if case.memory is None:
            found = case.place()
            again = iteration_seconds(case.balanced, found.device, case.devices, LINK)
            assert found.makespan == pytest.approx(again, rel=1e-12)


def test_one_chain_runs_on_one_device_and_free_work_spreads() -> None:
    chain = place(fan(1, 1, 1, 1, nbytes=1e6), 4, Reach(3), None, Link(bandwidth=1e9))
    assert len(set(chain.device.tolist())) == 1
    assert chain.makespan == pytest.approx(4 * 3e-6)
    free = place(fan(4, 4, full=False), 4, Reach(2), None, LINK)
    assert free.makespan == pytest.approx(2 * 3e-6)


def test_repair_moves_parents_that_are_out_of_reach_of_one_another() -> None:
    # Eight producers spread over the ring; whoever reads two that lie opposite has no device within reach.
    balanced = replace(
        fan(8, 1),
        forward=np.array([1e-6] * 8 + [0.0]),
        parent_start=np.array([0] * 9 + [2]),
        parent=np.array([0, 4], np.int32),
        nbytes=np.zeros(2),
        content=np.zeros(2, np.int64),
    )
    free = Link(bandwidth=1e30)
    stuck, mended = (place(balanced, 8, Reach(2), None, free, repair=r, effort=0) for r in (False, True))
    for found in (stuck, mended):
        check(found, balanced)
    assert stuck.repaired == 0
    assert mended.repaired > 0
    assert mended.makespan < stuck.makespan


@pytest.mark.parametrize("rule", ["peers", "forward"])
def test_operator_c_cannot_be_balanced_over_all_four(rule: str) -> None:
    """Fig. 4: k = 4, Δ = 2; B in one part, C in four parts that all read it."""
    balanced = fan(4, 1, 4, 2)
    found = place(balanced, 4, Reach(2, rule), None, Link(bandwidth=1e15))  # type: ignore[arg-type]
    check(found, balanced)
    assert len(set(found.device[5:9].tolist())) <= 3
    unbound = place(balanced, 4, Reach(3), None, Link(bandwidth=1e15))
    assert len(set(unbound.device[5:9].tolist())) == 4
    assert unbound.makespan < found.makespan


def test_memory_is_filled_and_not_exceeded() -> None:
    balanced = fan(6, 6, full=False)
    found = place(balanced, 6, Reach(2), 2.0, LINK)
    check(found, balanced, 2.0)
    assert np.bincount(found.device, balanced.memory).tolist() == [2.0] * 6


@pytest.mark.parametrize(("degree", "rule", "least"), [(0, "peers", 2), (1, "peers", 2), (0, "forward", 1)])
def test_too_small_a_degree_names_the_least(degree: int, rule: str, least: int) -> None:
    balanced = fan(4, 4)
    with pytest.raises(UnsupportedError, match=rf"too small .* expected Δ of at least {least}"):
        place(balanced, 4, Reach(degree, rule), None, LINK)  # type: ignore[arg-type]
    place(balanced, 4, Reach(least, rule), None, LINK)  # type: ignore[arg-type]
    place(balanced, 1, Reach(0, rule), None, LINK)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["peers", "forward"])
def test_too_large_a_model_names_changes_that_are_enough(rule: str) -> None:
    balanced = random_graph(np.random.default_rng(0), 60, 0.5)
    balanced = replace(balanced, memory=balanced.memory * 2.0**30)
    capacity = float(balanced.memory.sum()) / 12
    with pytest.raises(UnsupportedError, match="too large") as refused:
        place(balanced, 8, Reach(4, rule), capacity, LINK)  # type: ignore[arg-type]
    text = str(refused.value)
    assert "\n" not in text
    needed = re.search(r"enough would be ([0-9.]+) GiB a device", text)
    change = re.search(r"k = (\d+) with Δ = (\d+)", text)
    assert needed is not None
    assert change is not None
    place(balanced, 8, Reach(4, rule), float(needed[1]) * 1.001 * 2**30, LINK)  # type: ignore[arg-type]
    place(balanced, int(change[1]), Reach(int(change[2]), rule), capacity, LINK)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="smaller parts"):
        place(balanced, 8, Reach(4, rule), float(balanced.memory.max()) / 2, LINK)  # type: ignore[arg-type]


def test_numbers_out_of_range() -> None:
    with pytest.raises(ConfigError, match="at least one device"):
        place(fan(1), 0, Reach(1), None, LINK)
    for memory in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="more than 0 B"):
            place(fan(1), 1, Reach(1), memory, LINK)
    for bandwidth, latency in ((0.0, 0.0), (-1.0, 0.0), (1.0, -1e-9), (1.0, float("inf")), (1.0, float("nan"))):
        with pytest.raises(ConfigError, match="more than 0 B/s"):
            Link(bandwidth=bandwidth, latency=latency)


def test_the_check_finds_what_is_wrong() -> None:
    balanced = fan(4, 4, full=False, nbytes=1e3)
    found = place(balanced, 4, Reach(2), 2.0, LINK)
    opposite = found.device.copy()
    opposite[0] = (opposite[4] + 2) % 4
    wrong: list[tuple[Placement, str]] = [
        (replace(found, device=opposite), "out of reach"),
        (replace(found, device=np.full(8, 4, np.int32)), "on device 4 of 4"),
        (replace(found, device=found.device[:-1]), "7 rows"),
        (replace(found, device=np.zeros(8, np.int32)), "holds 8.0 B"),
        (replace(found, start=found.start * 0, end=balanced.forward), "before|overlap"),
        (
            replace(found, backward_start=found.start, backward_end=found.start + balanced.backward),
            "backward pass begins",
        ),
        (replace(found, makespan=1.0), "makespan"),
    ]
    check(found, balanced, 2.0)
    for placement, message in wrong:
        with pytest.raises(VerificationError, match=message):
            check(placement, balanced, 2.0)


@pytest.mark.slow
def test_real_models_are_placed_validly() -> None:
    assert {row["model"] for row in models()} == {model for model, _, _ in MODELS}  # each placement checks itself


@pytest.mark.slow
@pytest.mark.parametrize(("model", "batch", "quantum"), MODELS)
def test_more_peers_help_one_partition(model: str, batch: int, quantum: float) -> None:
    graph = load_workload(model, batch=batch).with_element_bytes(2)
    rules = PartitionRules(most_exchanging=Reach(2).clique(8))
    balanced = partition(graph, durations(graph), 8, quantum, rules)
    seconds = [Case(balanced, 8, Reach(degree), 80e9).place().makespan for degree in (2, 4, 6, 7)]
    assert seconds == sorted(seconds, reverse=True)


@pytest.mark.slow
def test_more_than_twenty_thousand_sub_operators_are_placed() -> None:
    assert large()["sub_operators"] > 20_000


def test_parts_that_cannot_be_packed_are_not_called_too_large() -> None:
    """Three parts of 2 GiB on two devices of 3 GiB: as many bytes as there is room, but no placement."""
    balanced = fan(1, 1, 1)
    balanced = replace(balanced, memory=np.full(3, 2.0 * 2**30))
    for gibibytes, why in ((3.0, "no placement found for 6"), (2.99, "too large, 6"), (1.9, "too large, 6")):
        refused = _too_large(problem_of(balanced, 2, Reach(1), gibibytes * 2**30, LINK))
        assert why in str(refused) and ("or smaller parts" in str(refused)) == (gibibytes < 2)


def devices_of_a_line(memory: list[int], capacity: float) -> int:
    """Devices that are filled one after the other, in order."""
    devices, room = 0, 0.0
    for size in memory:
        if size > room:
            devices, room = devices + 1, capacity
        room -= size
    return devices


@given(
    memory=st.lists(st.integers(1, 9), min_size=2, max_size=12),
    devices=st.integers(2, 8),
    degree=st.integers(1, 7),
    rule=st.sampled_from(["peers", "forward"]),
    capacity=st.integers(1, 30),
)
@example(memory=[2] * 6, devices=8, degree=2, rule="peers", capacity=4)
@example(memory=[2] * 6, devices=8, degree=1, rule="forward", capacity=4)
@example(memory=[2] * 6, devices=4, degree=2, rule="peers", capacity=4)
@example(memory=[3] * 6, devices=4, degree=2, rule="forward", capacity=4)
@example(memory=[5, 1, 1], devices=3, degree=2, rule="peers", capacity=4)
def test_a_refusal_names_the_least_that_is_enough(
    memory: list[int], devices: int, degree: int, rule: Rule, capacity: int
) -> None:
    """Of each change alone: with what it says a line fits, and with one less of it none does."""
    reach = Reach(degree, rule)
    if degree < (2 if rule == "peers" else 1):
        return
    balanced = replace(fan(len(memory)), memory=np.array(memory) * 2.0**30)
    text = str(_too_large(problem_of(balanced, devices, reach, capacity * 2.0**30, LINK)))
    least = next(room for room in range(max(memory), 1000) if devices_of_a_line(memory, room) <= reach.span(devices))
    stated = re.search(r"on (\d+) devices of (.+) GiB with Δ = (\d+); enough would be (.+) GiB a device, or (.*)", text)
    assert stated is not None and (int(stated[1]), float(stated[2]), int(stated[3])) == (devices, capacity, degree)
    assert least - 0.01 <= float(stated[4]) <= least * 1.002 + 0.01
    packs = sum(memory) <= devices * capacity and max(memory) <= capacity
    assert ("no placement found for" in text, "too large" in text) == (packs, not packs)
    change, enough = stated[5], devices_of_a_line(memory, capacity)
    if max(memory) > capacity:
        assert change == f"smaller parts (A/{memory.index(max(memory))} needs {max(memory)} GiB)"
    elif enough > devices:
        assert change == f"k = {enough} with Δ = {enough - 1}"
        assert Reach(enough - 1, rule).span(enough) == enough
    else:
        found = re.fullmatch(r"Δ = (\d+)", change)
        assert found is not None
        assert (
            Reach(int(found[1]), rule).span(devices)
            >= enough
            > Reach(int(found[1]) - 1, rule).span(devices) * (int(found[1]) > 0)
        )
