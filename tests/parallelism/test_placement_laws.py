"""Reach, order, times and repair of placements follow their definitions, on small cases looked at one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Literal

import numpy as np
import pytest
from benchmarks.placement import LINK, random_case, random_graph
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lightloom.core.arrays import Int32s
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.planning.parallelism.placement.check import check
from lightloom.planning.parallelism.placement.kernels import (
    _arrivals,
    _conflicts,
    _most_votes,
    anneal,
    forward_pass,
    iteration_time,
    reconcile,
    settle,
    unreachable_pairs,
)
from lightloom.planning.parallelism.placement.place import (
    EFFORT,
    Problem,
    _block_starts,
    fill,
    filled,
    initial_state,
    moves,
    partition,
    place,
    problem_of,
    start_order,
    valid_starts,
)
from lightloom.planning.parallelism.placement.placement import BalancedGraph, Reach, crossing_edges

Rule = Literal["peers", "forward"]
rules = st.sampled_from(["peers", "forward"])


def may_send(rule: Rule, degree: int, k: int, a: int, b: int) -> bool:
    """Whether activations may go from device a to device b."""
    if degree >= k - 1:
        return True
    ahead, behind = (b - a) % k, (a - b) % k
    return min(ahead, behind) <= degree // 2 if rule == "peers" else ahead <= degree


@given(rule=rules, degree=st.integers(2, 9), k=st.integers(1, 10))
def test_reach_is_the_rule_for_every_pair(rule: Rule, degree: int, k: int) -> None:
    reach, devices = Reach(degree, rule), range(k)
    offsets = set(reach.offsets(k).tolist())
    assert all(((b - a) % k in offsets) == may_send(rule, degree, k, a, b) for a in devices for b in devices)
    mutual = [n for n in range(1, k + 1) if all(may_send(rule, degree, k, a, b) for a in range(n) for b in range(n))]
    onward = [n for n in range(1, k + 1) if all(may_send(rule, degree, k, a, b) for a, b in combinations(range(n), 2))]
    if degree < k - 1:
        assert (reach.clique(k), reach.span(k)) == (consecutive(mutual), consecutive(onward))
    else:
        assert reach.clique(k) == reach.span(k) == k


def consecutive(numbers: list[int]) -> int:
    """The last of 1, 2, 3, ... before the first gap: beyond it neighbours are near again, the other way round."""
    return next(n for n in range(1, len(numbers) + 2) if n + 1 not in numbers)


def slow_times(balanced: BalancedGraph, device: Int32s) -> float:
    """Seconds of both passes, from dictionaries."""
    parents: dict[int, list[tuple[int, float]]] = {x: [] for x in range(balanced.size)}
    for x in range(balanced.size):
        for e in range(balanced.parent_start[x], balanced.parent_start[x + 1]):
            parents[x].append((int(balanced.parent[e]), LINK.latency + balanced.nbytes[e] / LINK.bandwidth))
    children: dict[int, list[tuple[int, float]]] = {x: [] for x in parents}
    for x, sources in parents.items():
        for y, seconds in sources:
            children[y].append((x, seconds))
    rank: dict[int, float] = {}
    for x in reversed(range(balanced.size)):
        rank[x] = float(balanced.forward[x]) + max((rank[y] for y, _ in children[x]), default=0.0)
    order = sorted(parents, key=lambda x: (-rank[x], x))
    assert order == start_order(balanced).tolist()
    total = 0.0
    for sequence, inputs, duration in ((order, parents, balanced.forward), (order[::-1], children, balanced.backward)):
        free: dict[int, float] = {}
        end: dict[int, float] = {}
        for x in sequence:
            arrivals = [end[y] + (seconds if device[y] != device[x] else 0.0) for y, seconds in inputs[x]]
            end[x] = max([free.get(int(device[x]), 0.0), *arrivals]) + float(duration[x])
            free[int(device[x])] = end[x]
        total += max(end.values())
    return total


def drawn(seed: int, size: int, devices: int) -> tuple[Problem, Int32s]:
    """A random problem without memory, and random devices."""
    rng = np.random.default_rng(seed)
    case = random_case(rng, size, devices)
    problem = problem_of(case.balanced, devices, case.reach, None, LINK)
    return problem, rng.integers(0, devices, size, np.int32)


def pairs_out_of_reach(problem: Problem, device: Int32s) -> int:
    before, k = problem.rows.before, problem.devices
    reader = np.repeat(np.arange(len(device)), np.diff(before.start)).tolist()
    ends = [(int(device[y]), int(device[x])) for y, x in zip(before.node.tolist(), reader, strict=True)]
    return sum(not may_send(problem.reach.rule, problem.reach.degree, k, a, b) for a, b in ends)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 30), devices=st.integers(3, 8))
def test_times_equal_the_slow_ones(seed: int, size: int, devices: int) -> None:
    problem, device = drawn(seed, size, devices)
    times = np.zeros((4, size))
    assert iteration_time(problem.rows, device, times) == pytest.approx(slow_times(problem.balanced, device), rel=1e-12)
    np.testing.assert_allclose(times[1] - times[0], problem.balanced.forward, atol=1e-15)
    np.testing.assert_allclose(times[3] - times[2], problem.balanced.backward, atol=1e-15)
    assert unreachable_pairs(problem.rows, device) == pairs_out_of_reach(problem, device)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(2, 30), devices=st.integers(3, 8))
def test_repair_and_search_leave_everyone_in_reach(seed: int, size: int, devices: int) -> None:
    problem, device = drawn(seed, size, devices)
    state = initial_state(problem, device.copy())
    assert state.pending.all() and not state.moves.any()
    if settle(problem.rows, state, size - 1, 8):
        assert pairs_out_of_reach(problem, state.device) == 0
        assert state.moves[0] >= (state.device != device).sum()
    used = np.bincount(state.device, problem.balanced.memory, devices)
    np.testing.assert_allclose(state.used, used, rtol=1e-9, atol=1e-12)
    assert not state.pending.any()
    line = np.zeros(size, np.int32)
    before = iteration_time(problem.rows, line, np.zeros((4, size)))
    after = anneal(problem.rows, line, 300, 1)
    assert (
        after == pytest.approx(iteration_time(problem.rows, line, np.zeros((4, size))), rel=1e-12) and after <= before
    )
    assert pairs_out_of_reach(problem, line) == 0
    if reconcile(problem.rows, device, 2000, 1):
        assert pairs_out_of_reach(problem, device) == 0


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(2, 30), devices=st.integers(3, 8), finish=st.booleans())
def test_the_forward_pass_takes_the_best_candidate(seed: int, size: int, devices: int, finish: bool) -> None:
    """Step by step against the definition: devices within reach of all that is placed, the earliest of them."""
    problem, _ = drawn(seed, size, devices)
    state = initial_state(problem, np.full(size, -1, np.int32))
    if not forward_pass(problem.rows, state, devices, finish, 0):
        return
    rows, reach, device = problem.rows, problem.reach, state.device
    end, free = np.zeros(size), np.zeros(devices)
    placed: set[int] = set()
    for x in problem.rows.order.tolist():
        sources = range(rows.before.start[x], rows.before.start[x + 1])
        ways = [(int(rows.before.node[e]), x) for e in sources]
        ways += [(x, int(rows.after.node[e])) for e in range(rows.after.start[x], rows.after.start[x + 1])]

        def reaches(to: int, x: int = x, ways: list[tuple[int, int]] = ways) -> bool:
            ends = [
                (to if a == x else device[a], to if b == x else device[b]) for a, b in ways if {a, b} - {x} <= placed
            ]
            return all(may_send(reach.rule, reach.degree, devices, int(a), int(b)) for a, b in ends)

        def start(to: int, sources: range = sources) -> float:
            waited = [e for e in sources if rows.before.delay[e] >= 0]
            arrivals = [
                end[rows.before.node[e]] + (rows.before.delay[e] if device[rows.before.node[e]] != to else 0.0)
                for e in waited
            ]
            return float(max([free[to], *arrivals]))

        candidates = [to for to in range(devices) if reaches(to)]
        key = start if finish else lambda to: float(free[to])
        to = int(device[x])
        assert to in candidates
        assert key(to) == pytest.approx(min(key(each) for each in candidates), rel=1e-12, abs=1e-18)
        end[x] = free[to] = start(to) + problem.balanced.forward[x]
        placed.add(x)
    np.testing.assert_allclose(state.end, end, rtol=1e-12)
    np.testing.assert_allclose(state.free, free, rtol=1e-12)


@example(memory=[1.0] * 6 + [1.4, 1.100770267260633], width=1)  # summed in pairs, this rounds to less
@given(memory=st.lists(st.floats(0.1, 10), min_size=1, max_size=40), width=st.integers(1, 9))
def test_devices_are_filled_in_order_to_the_least_capacity(memory: list[float], width: int) -> None:
    sizes = np.array(memory)
    capacity, device = filled(sizes, width)
    held = np.bincount(device, sizes)
    assert device[0] == 0 and set(np.diff(device).tolist()) <= {0, 1} and len(held) <= width
    assert held.max() <= capacity * (1 + 1e-9)
    below = capacity * 0.998
    if below >= sizes.max():
        assert fill(np.cumsum(sizes), below)[-1] >= width or below < sizes.sum() / width


@given(memory=st.lists(st.integers(1, 9), min_size=1, max_size=30), capacity=st.integers(1, 30))
def test_a_device_is_filled_until_the_next_does_not_fit(memory: list[int], capacity: int) -> None:
    """One that alone is too large has a device to itself."""
    devices, held = [0], memory[0]
    for size in memory[1:]:
        fits = held + size <= capacity
        devices.append(devices[-1] + (not fits))
        held = held + size if fits else size
    assert fill(np.cumsum(np.array(memory, float)), float(capacity)).tolist() == devices


def test_starts_are_valid_and_the_effort_is_counted_in_moves() -> None:
    problem = problem_of(random_graph(np.random.default_rng(1), 20, 0.5), 6, Reach(2), None, LINK)
    starts = {start.method: start for start in valid_starts(problem, True)}
    assert all(pairs_out_of_reach(problem, start.device) == 0 for start in starts.values())
    assert {"line of 1", "blocks on 1", "earliest finish on 1"} <= starts.keys()
    assert set(starts["line of 1"].device.tolist()) == {0}
    unrepaired = list(valid_starts(problem, False))
    assert all(start.repaired == 0 for start in unrepaired) and len(unrepaired) <= len(starts)
    assert moves(problem, EFFORT) == EFFORT // (2 * (20 + len(problem.rows.before.node)) + 20)


def test_equal_problems_are_placed_alike() -> None:
    case = random_case(np.random.default_rng(3), 40, 6)
    first, second = (case.place(effort=200_000) for _ in range(2))
    assert first.device.tolist() == second.device.tolist() and first.makespan == second.makespan
    better = place(case.balanced, 6, case.reach, case.memory, LINK)
    assert better.makespan <= place(case.balanced, 6, case.reach, case.memory, LINK, effort=0).makespan


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 1.0, 2.0]), st.booleans()), min_size=3, max_size=9),
    st.data(),
)
def test_a_repair_takes_the_most_votes_of_equals_the_one_free_first(
    devices: list[tuple[int, float, bool]], data: st.DataObject
) -> None:
    """Of equals in both the first; of those with room alone."""
    problem, _ = drawn(1, 4, len(devices))
    state = initial_state(problem, np.full(4, -1, np.int32))
    width = data.draw(st.integers(1, len(devices)))
    for to, (votes, free, full) in enumerate(devices):
        state.votes[to], state.free[to], state.used[to] = votes, free, np.inf if full else 0.0
    room = [to for to in range(width) if not devices[to][2]]
    best = min(room, key=lambda to: (-devices[to][0], devices[to][1], to), default=-1)
    assert _most_votes(problem.rows._replace(capacity=1e30), state, 0, width) == best


@pytest.mark.parametrize("seed", range(4))
def test_a_search_for_room_fills_every_device_to_the_brim(seed: int) -> None:
    """Equal sub-operators that just fit, all in reach of each other: only a search that weighs memory finds room."""
    size, devices = 48, 6
    balanced = random_case(np.random.default_rng(seed), size, devices).balanced
    balanced = replace(balanced, memory=np.ones(balanced.size))
    capacity = float(-(-balanced.size // devices))
    problem = problem_of(balanced, devices, Reach(devices), capacity, LINK)
    device = np.zeros(balanced.size, np.int32)
    assert reconcile(problem.rows, device, 4000, seed)
    assert np.bincount(device, minlength=devices).max() <= capacity


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(2, 20), devices=st.integers(3, 6))
def test_sub_operators_of_no_duration_overlap_with_nothing(seed: int, size: int, devices: int) -> None:
    """Whether they lie before or after others in the order of the graph."""
    rng = np.random.default_rng(seed)
    balanced = random_case(rng, size, devices).balanced
    idle = rng.random(size) < 0.5
    balanced = replace(balanced, forward=np.where(idle, 0.0, balanced.forward))
    placement = place(balanced, devices, Reach(devices + 1, "peers"), None, LINK, effort=0)
    check(placement, balanced)
    unread = np.bincount(balanced.parent, minlength=size) == 0
    reads_nothing = np.diff(balanced.parent_start) == 0
    for x in np.flatnonzero(idle & (unread | reads_nothing)):
        # What nobody reads may as well wait until any other on its device begins; what reads nothing, begin with one.
        waits = placement.start >= placement.start[x]
        beside = (placement.device == placement.device[x]) & np.where(waits, unread[x], reads_nothing[x])
        for begin in np.unique(placement.start[beside]):
            start = placement.start.copy()
            start[x] = begin
            check(replace(placement, start=start, end=start + balanced.forward), balanced)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(2, 30), devices=st.integers(3, 8))
def test_conflicts_of_a_device_are_counted_one_by_one(seed: int, size: int, devices: int) -> None:
    problem, device = drawn(seed, size, devices)
    rows, reach = problem.rows, problem.reach
    rng = np.random.default_rng(seed)
    x, to = int(rng.integers(size)), int(rng.integers(devices))
    for neighbours, sign in ((rows.before, 1), (rows.after, -1)):
        others = device[neighbours.node[neighbours.start[x] : neighbours.start[x + 1]]].tolist()
        ends = [(other, to) if sign == 1 else (to, other) for other in others]
        expected = sum(not may_send(reach.rule, reach.degree, devices, *pair) for pair in ends)
        assert _conflicts(neighbours, sign, device, rows.allowed, x, to) == expected


@given(seed=st.integers(0, 10**6), size=st.integers(2, 30), width=st.integers(1, 6))
def test_blocks_put_equal_places_of_all_operators_on_one_device(seed: int, size: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    operator = np.sort(rng.integers(0, 1 + size // 3, size))
    _, first, operator = np.unique(operator, return_index=True, return_inverse=True)
    balanced = replace(
        random_case(rng, size, 6).balanced,
        first=np.append(first, size),
        operator=operator.astype(np.int32),
        part=(np.arange(size) - first[operator]).astype(np.int32),
    )
    problem = problem_of(balanced, 6, Reach(6, "peers"), None, LINK)
    (start,) = _block_starts(problem, width, 0)
    parts = np.diff(balanced.first).tolist()
    expected = [place * width // n for n in parts for place in range(n)]
    assert start.device.tolist() == expected


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(2, 30), devices=st.integers(3, 8))
def test_arrivals_are_the_latest_and_the_latest_from_elsewhere(seed: int, size: int, devices: int) -> None:
    problem, device = drawn(seed, size, devices)
    rng, before = np.random.default_rng(seed), problem.rows.before
    state = initial_state(problem, device)
    state.end[:] = rng.integers(0, 4, size) * LINK.latency
    x = int(np.argmax(np.diff(before.start)))
    edges = [e for e in range(before.start[x], before.start[x + 1]) if before.delay[e] >= 0]
    sent = [(int(device[before.node[e]]), float(state.end[before.node[e]]), float(before.delay[e])) for e in edges]
    found = _arrivals(before, state, x)
    first = max((end + delay for _, end, delay in sent), default=0.0)
    assert found.first == first
    assert found.first_device in ([at for at, end, delay in sent if end + delay == first] or [-1])
    assert found.second == max((end + delay for at, end, delay in sent if at != found.first_device), default=0.0)
    assert found.home == max(sent, key=lambda each: each[2], default=(-1,))[0]
    latest = [max((end for at, end, _ in sent if at == to), default=0.0) for to in range(devices)]
    assert state.latest.tolist() == latest


def test_nothing_fills_no_device() -> None:
    capacity, device = filled(np.zeros(0), 3)
    assert (capacity, len(device)) == (0, 0)


@pytest.mark.parametrize("devices", [1, 4])
def test_nothing_is_placed_in_no_time(devices: int) -> None:
    graph = ComputeGraph(name="nothing", batch=1, operators=(Operator(name="x", kind="input", dimensions={}),))
    nothing = partition(graph, np.zeros((1, 2)), devices, 0.0)
    placement = place(nothing, devices, Reach(2), 1.0, LINK)
    assert (placement.makespan, len(placement.device)) == (0.0, 0)
    first, *_ = valid_starts(problem_of(nothing, devices, Reach(2), 1.0, LINK), True)
    assert (placement.method, placement.repaired) == (first.method, first.repaired)
    check(placement, nothing, 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_the_same_elements_cross_to_a_device_once_however_many_read_them_there(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, devices = 12, 3
    balanced = random_case(rng, size, devices).balanced
    # Every part reads all before it, of which it may have any of three contents.
    parent = np.concatenate([np.arange(reader) for reader in range(size)]).astype(np.int32)
    start = np.cumsum([0, *range(size)])
    content = rng.integers(0, 3, len(parent))
    balanced = replace(balanced, parent=parent, parent_start=start, nbytes=np.ones(len(parent)), content=content)
    device = rng.integers(0, devices, size, np.int32)
    edges, target = crossing_edges(balanced, device, devices)
    reader = np.repeat(np.arange(size), np.diff(balanced.parent_start))
    crossing = {
        (int(balanced.parent[edge]), int(device[reader[edge]]), int(balanced.content[edge]))
        for edge in range(len(reader))
        if device[balanced.parent[edge]] != device[reader[edge]]
    }
    found = [
        (int(balanced.parent[edge]), int(at), int(balanced.content[edge]))
        for edge, at in zip(edges, target, strict=True)
    ]
    assert len(found) == len(set(found)) and set(found) == crossing and crossing
    assert target.tolist() == device[reader[edges]].tolist()
