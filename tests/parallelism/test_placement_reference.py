"""Compiled placements do, step by step, what plain lists and dictionaries do."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from benchmarks.placement import LINK, random_case
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lightloom.planning.parallelism.placement.cuts import _received
from lightloom.planning.parallelism.placement.kernels import anneal, forward_pass, reconcile, settle
from lightloom.planning.parallelism.placement.place import (
    FURTHER,
    SEARCHED,
    THOROUGH,
    Problem,
    initial_state,
    moves,
    place,
    problem_of,
    random_starts,
    valid_starts,
)
from lightloom.planning.parallelism.placement.placement import PlacementState, Reach
from tests.parallelism.placement_reference import Plain, starts

seeds = st.integers(0, 2**32 - 1)


def drawn(seed: int) -> tuple[Problem, np.random.Generator]:
    """A small problem, mostly with little reach or little memory or both.

    In every other durations, transfers and memories are whole numbers, so that many are equal.
    """
    rng = np.random.default_rng(seed)
    size, devices = int(rng.integers(2, 16)), int(rng.integers(2, 8))
    balanced = random_case(rng, size, 6).balanced
    shared = (rng.random(size) < rng.choice([0.0, 0.4])) & (np.arange(size) > 0)
    first = np.flatnonzero((rng.random(size) < 0.5) | (np.arange(size) == 0))
    parts = np.diff(first, append=size)
    balanced = replace(
        balanced,
        synchronised=np.where(shared, 1e4, 0.0),
        first=np.append(first, size),
        operator=np.repeat(np.arange(len(first), dtype=np.int32), parts),
        part=(np.arange(size) - np.repeat(first, parts)).astype(np.int32),
    )
    if rng.random() < 0.5:
        forward, backward = rng.integers(0, 3, (2, size)) * 1e-6
        held = rng.integers(1, 4, size).astype(float)
        nbytes = rng.integers(0, 3, len(balanced.parent)).astype(float) * (LINK.bandwidth * 1e-6)
        balanced = replace(balanced, forward=forward, backward=backward, memory=held, nbytes=nbytes)
    memory = None
    if rng.random() < 0.6:
        memory = float(max(balanced.memory.max(), np.ceil(balanced.memory.sum() / devices * rng.uniform(1.0, 1.4))))
    rule: Literal["peers", "forward"] = "peers" if rng.random() < 0.5 else "forward"
    degree = int(rng.integers(2 if rule == "peers" else 1, 4)) if rng.random() < 0.9 else devices
    return problem_of(balanced, devices, Reach(degree, rule), memory, LINK), rng


def agrees(state: PlacementState, plain: Plain, width: int) -> None:
    assert state.device.tolist() == plain.device
    assert state.used.tolist()[:width] == plain.used[:width]
    assert state.free.tolist() == plain.free
    assert state.end.tolist() == plain.end
    assert state.moves[0] == plain.moves
    assert not state.reached.any()


@example(seed=217, finish=False, rounds=1)  # moved away, a sub-operator ends later than its device is free
@settings(max_examples=150, deadline=None)
@given(seed=seeds, finish=st.booleans(), rounds=st.integers(0, 3))
def test_the_forward_pass_and_its_repair_step_by_step(seed: int, finish: bool, rounds: int) -> None:
    problem, rng = drawn(seed)
    width = int(rng.integers(1, problem.devices + 1))
    plain = Plain(problem, [-1] * problem.balanced.size)
    state = initial_state(problem, np.full(problem.balanced.size, -1, np.int32))
    assert forward_pass(problem.rows, state, width, finish, rounds) == plain.forward_pass(width, finish, rounds)
    agrees(state, plain, width)
    assert state.pending.tolist() == plain.pending


@settings(max_examples=80, deadline=None)
@given(seed=seeds, rounds=st.integers(1, 3))
def test_a_repair_of_any_placement_step_by_step(seed: int, rounds: int) -> None:
    """Of the sub-operators up to any place in the order; the others have no device yet."""
    problem, rng = drawn(seed)
    size, devices = problem.balanced.size, problem.devices
    last = int(rng.integers(size))
    device = np.full(size, -1, np.int32)
    device[problem.rows.order[: last + 1]] = rng.integers(0, devices, last + 1)
    plain, state = Plain(problem, device.tolist()), initial_state(problem, device)
    assert settle(problem.rows, state, last, rounds) == plain.settle(devices, last, rounds)
    agrees(state, plain, devices)
    assert not state.pending.any()


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_a_search_around_a_placement_step_by_step(seed: int) -> None:
    problem, rng = drawn(seed)
    device = np.zeros(problem.balanced.size, np.int32)
    reconcile(problem.rows, device, 500, 0)
    steps, plain = int(rng.integers(1, 150)), Plain(problem, device.tolist())
    assert anneal(problem.rows, device, steps, seed) == plain.anneal(steps, seed)
    assert device.tolist() == plain.device


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_a_search_for_any_placement_step_by_step(seed: int) -> None:
    problem, rng = drawn(seed)
    device = rng.integers(0, problem.devices, problem.balanced.size, np.int32)
    steps, plain = int(rng.integers(0, 150)), Plain(problem, device.tolist())
    assert reconcile(problem.rows, device, steps, seed) == plain.reconcile(steps, seed)
    assert device.tolist() == plain.device


@settings(max_examples=60, deadline=None)
@given(seed=seeds, repair=st.booleans())
def test_all_starts_in_their_order(seed: int, repair: bool) -> None:
    problem, _ = drawn(seed)
    made = [(start.method, start.device.tolist(), start.repaired) for start in valid_starts(problem, repair)]
    assert made == starts(problem, repair)


@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_a_placement_is_the_best_of_what_searches_make_of_the_fastest_starts(seed: int) -> None:
    """Each of them searches with an equal share of the moves, and with its place as the seed."""
    problem, rng = drawn(seed)
    balanced, rows, devices = problem.balanced, problem.rows, problem.devices
    memory = None if rows.capacity > 1e200 else rows.capacity
    found = list(valid_starts(problem, True))
    if not found:
        return
    effort = int(rng.integers(0, 40_000))
    placed = place(balanced, devices, problem.reach, memory, LINK, effort=effort)
    found.sort(key=lambda start: Plain(problem, start.device.tolist()).seconds())
    chosen = found[:SEARCHED]
    share = effort // (2 * (balanced.size + len(rows.before.node)) + 20) // len(chosen)
    seconds = [anneal(rows, start.device, share, number) for number, start in enumerate(chosen)]
    best = chosen[seconds.index(min(seconds))] if share else chosen[0]
    assert (placed.method, placed.device.tolist(), placed.repaired) == (
        best.method,
        best.device.tolist(),
        best.repaired,
    )
    assert placed.makespan == Plain(problem, best.device.tolist()).seconds()
    assert placed.backward_start.min() >= placed.end.max()


def test_small_graphs_have_random_starts_as_soon_as_every_start_is_searched_thoroughly() -> None:
    problem, _ = drawn(2)
    size = problem.balanced.size
    effort = (SEARCHED + FURTHER) * THOROUGH * size * (2 * (size + len(problem.rows.before.node)) + 20)
    assert moves(problem, effort) == (SEARCHED + FURTHER) * THOROUGH * size
    assert not list(random_starts(problem, effort - 1))
    expected = []
    for seed in range(FURTHER):
        device = np.random.default_rng(seed).integers(0, problem.devices, size, np.int32)
        if reconcile(problem.rows, device, 4 * THOROUGH * size, seed):
            expected.append(device.tolist())
    assert expected and [start.device.tolist() for start in random_starts(problem, effort)] == expected
    for other in (
        problem._replace(devices=1),
        problem._replace(balanced=replace(problem.balanced, operator=problem.balanced.operator[:1])),
    ):
        assert not list(random_starts(other, 10 * effort))


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_what_is_received_of_dropped_outputs_counts_once_on_each_device(seed: int) -> None:
    problem, rng = drawn(seed)
    size, k = problem.balanced.size, problem.devices
    content = rng.integers(0, 2, len(problem.balanced.parent))
    nbytes = 1.0 + problem.balanced.parent + 100.0 * content
    balanced = replace(problem.balanced, content=content, nbytes=nbytes)
    device, dropped = rng.integers(0, k, size, np.int32), rng.random(size) < 0.6
    held: set[tuple[int, int, int]] = set()
    for x in range(size):
        for e in range(balanced.parent_start[x], balanced.parent_start[x + 1]):
            y = int(balanced.parent[e])
            if dropped[y] and device[x] != device[y]:
                held.add((y, int(content[e]), int(device[x])))
    expected = [sum(1.0 + y + 100.0 * c for y, c, at in held if at == to) for to in range(k)]
    assert _received(balanced, device, dropped, k).tolist() == expected
