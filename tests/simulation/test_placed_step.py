"""Placed steps against a slow simulation and against laws: bytes, order, light, bounds, corners."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.timeline import Timeline
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.planning.parallelism.circuits.circuits import GroupCircuits, Timing
from lightloom.planning.parallelism.circuits.group import grant, grants, regrants
from lightloom.planning.parallelism.placement.placement import HybridPlan
from lightloom.planning.simulation import placed_step
from lightloom.planning.simulation.placed_step import (
    KINDS,
    PlacedStep,
    simulate_best,
    simulate_placed,
    updated_parameters,
)
from tests.simulation.placed_plans import (
    A100,
    MICROSECOND,
    SETTINGS,
    pipes,
    plan_of,
    random_graph,
    random_pipes,
    random_plan,
    reference,
)

seeds = st.integers(0, 2**32 - 1)


def run(plan: HybridPlan, circuits: GroupCircuits, **options: Any) -> PlacedStep:
    return simulate_placed(plan, circuits, A100, SETTINGS, **options)


def drawn(seed: int) -> tuple[HybridPlan, GroupCircuits, PlacedStep]:
    rng = np.random.default_rng(seed)
    plan = random_plan(rng)
    circuits = random_pipes(rng, plan)
    return plan, circuits, run(plan, circuits)


@settings(max_examples=100, deadline=None)
@given(seed=seeds)
def test_the_slow_simulation_says_the_same(seed: int) -> None:
    plan, circuits, step = drawn(seed)
    seconds, found = reference(plan, circuits)
    assert step.step_time == pytest.approx(seconds, rel=1e-9)
    for name, nodes in (("F", step.run.work.forward), ("B", step.run.work.backward), ("U", step.run.work.update)):
        spans = np.array([found[name, i] for i in range(len(nodes))])
        assert np.allclose(step.run.state.start[nodes], spans[:, 0], rtol=1e-9)
        assert np.allclose(step.run.state.end[nodes], spans[:, 1], rtol=1e-9)


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_nothing_starts_before_what_it_needs_and_queues_are_kept(seed: int) -> None:
    plan, _, step = drawn(seed)
    nodes, events = step.run.work.nodes, step.run.state
    arrival = events.end + nodes.delay
    for node in range(len(nodes.amount)):
        for follower in nodes.follower[nodes.first[node] : nodes.first[node + 1]]:
            assert arrival[node] <= events.ready[follower]
    assert (events.ready <= events.start).all()
    assert (events.start <= events.end).all()
    ports = step.run.work.ports
    hops = np.flatnonzero(nodes.pipe >= 0)
    sides = (ports.leaves[nodes.pipe[hops]], ports.enters[nodes.pipe[hops]])
    of_ports = [hops[side == port] for side in sides for port in np.unique(side)]
    for here in (
        *of_ports,
        *(np.flatnonzero(nodes.resource == resource) for resource in range(step.run.work.resources)),
    ):
        here = here[np.lexsort((events.end[here], events.start[here]))]
        assert (events.start[here][1:] >= events.end[here][:-1]).all(), "two at a time"
    for resource in range(step.run.work.resources):
        here = np.flatnonzero(nodes.resource == resource)
        here = here[np.lexsort((events.end[here], events.start[here]))]
        if resource >= plan.k:
            assert (np.diff(events.ready[here]) >= 0).all(), "not first in, first out"
        else:
            _check_taken_up(here, events.ready, events.start, events.end)


def _check_taken_up(here: Any, ready: Floats, start: Floats, end: Floats) -> None:
    """A device takes the smallest that is ready, and never rests while one is."""
    for position, node in enumerate(here.tolist()):
        later = here[position + 1 :]
        passed_over = later[(ready[later] < start[node]) & (later < node)]
        assert not len(passed_over), "a node of smaller number was ready"
        free = end[here[position - 1]] if position else 0.0
        assert start[node] <= max(free, ready[here[position:]].min()) * (1 + 1e-12), "rested"


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_the_pipes_carry_what_the_plan_says(seed: int) -> None:
    plan, circuits, step = drawn(seed)
    matrix = plan.traffic.total.toarray()
    sent = np.zeros((plan.k, 2 * plan.k))
    hops = np.flatnonzero(step.run.work.nodes.pipe >= 0)
    at = step.run.work.nodes.pipe[hops]
    np.add.at(sent, (circuits.source[at], circuits.destination[at]), step.run.work.nodes.amount[hops])
    for a in range(plan.k):
        assert sent[a, : plan.k] == pytest.approx(matrix[a, : plan.k])
        assert sent[a, plan.k + a] == pytest.approx(plan.all_reduce_bytes[a] if plan.groups > 1 else 0.0)
    assert step.sent_bytes == pytest.approx(matrix[: plan.k].sum())
    assert step.relayed_bytes == 0


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_bytes_move_in_the_light_alone(seed: int) -> None:
    """What every hop has sent is the integral of its pipe's rate over its stretches, and none of them is dark."""
    _, circuits, step = drawn(seed)
    nodes, stretches = step.run.work.nodes, step.run.stretches
    moved = np.zeros(len(nodes.amount))
    timing, holds = circuits.timing, len(circuits.bandwidth)
    for node, start, end, nbytes in zip(*stretches, strict=True):
        row = 0
        if timing is not None:
            hold = int((start + 1e-12) // timing.period)
            row = hold % holds
            assert start >= hold * timing.period + timing.reconfiguration - 1e-12
            assert end <= (hold + 1) * timing.period + 1e-12
        assert circuits.bandwidth[row, nodes.pipe[node]] > 0
        sent = circuits.bandwidth[row, nodes.pipe[node]] * (end - start)
        assert nbytes == pytest.approx(sent, rel=1e-6, abs=1e-3)
        moved[node] += sent
    hops = nodes.pipe >= 0
    assert np.allclose(moved[hops], nodes.amount[hops], rtol=1e-6, atol=1e-3)


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_no_step_is_faster_than_its_bounds(seed: int) -> None:
    plan, circuits, step = drawn(seed)
    least = np.bincount(plan.placement.device, plan.balanced.forward + plan.balanced.backward, plan.k)
    update = _update_seconds(plan)
    bounds = {"device": (least + update).max(), "path": _critical_path(plan)}
    load = np.bincount(
        step.run.work.nodes.pipe[step.run.work.nodes.pipe >= 0],
        step.run.work.nodes.amount[step.run.work.nodes.pipe >= 0],
        len(circuits.source),
    )
    seconds = load / circuits.bandwidth.max(axis=0)
    bounds["pipe"] = seconds.max()
    bounds["port"] = np.bincount(circuits.port, seconds).max()
    bounds["entry"] = np.bincount(circuits.entry, seconds).max()
    assert all(step.step_time >= bound * (1 - 1e-9) for bound in bounds.values()), bounds
    free = run(plan, pipes(plan, 1e30))
    assert free.step_time >= max(bounds["device"], bounds["path"]) * (1 - 1e-9)


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_copies_that_share_state_update_every_parameter_once(seed: int) -> None:
    plan, circuits, step = drawn(seed)
    shared = replace(plan, shares_state=True)
    updated = updated_parameters(shared)
    assert updated.sum() * plan.groups == pytest.approx(plan.balanced.parameters.sum())
    assert (updated <= updated_parameters(plan) * (1 + 1e-12)).all()
    assert run(shared, circuits).step_time <= step.step_time * (1 + 1e-9)


def _update_seconds(plan: HybridPlan) -> Floats:
    held = updated_parameters(plan) * SETTINGS.optimizer_traffic_bytes
    return A100.update_time(held)


def _critical_path(plan: HybridPlan) -> float:
    """Forward along the longest way to a sub-operator, then backward from it."""
    graph = plan.balanced
    to, back = graph.forward.copy(), graph.backward.copy()
    for x in range(graph.size):
        for y in graph.parent[graph.parent_start[x] : graph.parent_start[x + 1]]:
            to[x] = max(to[x], to[y] + graph.forward[x])
            back[x] = max(back[x], back[y] + graph.backward[x])
    return float((to + back).max())


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_the_timeline_says_what_the_step_says(seed: int) -> None:
    plan, _, step = drawn(seed)
    _check_timeline(step, step.timeline)
    # Each stretch of sending is named after the message whose hop it is.
    messages, sent = step.run.work.messages, []
    for node, start, end, nbytes in zip(*step.run.stretches, strict=True):
        (number,) = np.flatnonzero((messages.first <= node) & (node <= messages.last))
        kind, about = KINDS[messages.kind[number]], int(messages.about[number])
        name = f"all-reduce bucket {about}" if kind == "all-reduce" else f"{kind} of {plan.balanced.label(about)}"
        sent.append((float(start), float(end), name, float(nbytes)))
    shown = [each for each in step.timeline.intervals if each.category == "transmission"]
    assert sorted((each.start, each.end, each.name, each.details["bytes"]) for each in shown) == sorted(sent)
    # A hop that the dark cuts into stretches sends its bytes once.
    assert sum(each.details["bytes"] for each in shown) == pytest.approx(step.sent_bytes)


@given(
    cuts=st.lists(st.integers(0, 4), min_size=2, max_size=12).map(sorted),
    split=st.integers(0, 10),
    shuffle=st.randoms(use_true_random=False),
)
@example(cuts=[0, 0, 1, 1], split=0, shuffle=Random(1))
@example(cuts=[0, 0, 1, 1], split=0, shuffle=Random(5))
def test_transfers_back_to_back_on_a_port_are_one_run(cuts: list[int], split: int, shuffle: Any) -> None:
    """Those of no duration included, in whatever order they are listed; two ports are two runs."""
    rows = [(int(i >= split), a, b) for i, (a, b) in enumerate(pairwise(cuts))]
    listed = shuffle.sample(rows, len(rows))
    port, start, end = (np.array(column) for column in zip(*listed, strict=True))
    order, first = placed_step._back_to_back(port, start.astype(float), end.astype(float))
    assert [listed[i] for i in order] == sorted(rows)
    assert first.tolist() == [0, split][: 1 + (0 < split < len(rows))]


def test_a_large_timeline_joins_transfers(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _, _ = drawn(5)
    plan = plan_of(plan.balanced, np.arange(plan.balanced.size) % 3, 3, 2)
    for circuits in (pipes(plan, 1e8), pipes(plan, 1e8, ports=True)):
        step = run(plan, circuits)
        several = len(step.timeline.intervals)
        monkeypatch.setattr(placed_step, "MOST_TRANSFERS", 0)
        fewer = run(plan, circuits).timeline
        monkeypatch.undo()
        assert len(fewer.intervals) < several
        _check_timeline(step, fewer)


def _check_timeline(step: PlacedStep, timeline: Timeline) -> None:
    for name, seconds in timeline.breakdown().items():
        assert step.breakdown[name] == pytest.approx(seconds, rel=1e-9, abs=1e-15)
    for name, seconds in timeline.busy_time().items():
        assert step.busy_time[name] == pytest.approx(seconds, rel=1e-9, abs=1e-15)
    # The last bytes may still be on their way when the last interval ends, but somebody always waits for them.
    assert timeline.step_time <= step.step_time
    assert sum(step.breakdown.values()) == pytest.approx(step.step_time)


@pytest.mark.parametrize("seed", range(3))
def test_one_device_takes_the_sum_of_its_passes(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed), 8)
    plan = plan_of(graph, np.zeros(graph.size), 1, 1)
    none = np.empty(0, np.int64)
    circuits = GroupCircuits(
        k=1,
        source=none,
        destination=none,
        bandwidth=np.empty((1, 0)),
        latency=np.empty(0),
        port=none,
        entry=none,
        timing=None,
        assignment=None,
    )
    step = run(plan, circuits)
    assert step.step_time == pytest.approx(graph.forward.sum() + graph.backward.sum() + _update_seconds(plan).sum())
    assert step.memory.tolist() == pytest.approx([graph.memory.sum()])
    assert step.sent_bytes == 0
    assert {each.resource for each in step.timeline.intervals} == {"device 0"}


@pytest.mark.parametrize("groups", [2, 3, 8])
def test_data_parallelism_alone_is_a_formula(groups: int) -> None:
    """k = 1: buckets in backward order, one after the other on the way to the next group."""
    graph = random_graph(np.random.default_rng(groups), 9, copied=0.0)
    plan, rate, latency = plan_of(graph, np.zeros(graph.size), 1, groups), 2e8, 3e-7
    step = run(plan, pipes(plan, rate, latency))
    computed, held, free, marks, buckets = graph.forward.sum(), 0, 0.0, [1000, 3000], 0
    arrived = 0.0
    order = sorted(range(graph.size), key=lambda x: step.run.work.backward[x])
    with_gradients = [x for x in order if graph.parameters[x]]
    for x in order:
        computed += graph.backward[x]
        held += 4 * int(graph.parameters[x])
        if held >= marks[min(buckets, 1)] or (held and x == with_gradients[-1]):
            free = max(free, computed) + 2 * (groups - 1) / groups * held / rate
            arrived = free + 2 * (groups - 1) * latency
            held, buckets = 0, buckets + 1
    assert buckets > 1
    assert step.step_time == pytest.approx(max(computed, arrived) + _update_seconds(plan)[0])


@pytest.mark.parametrize("senders", [1, 2, 3])
def test_parcels_that_meet_at_a_receiver_take_turns(senders: int) -> None:
    """Each sender has a port of its own; all send to one device, which takes as many times as long as one of them."""
    k = senders + 1
    graph = random_graph(np.random.default_rng(0), 1, copied=0.0)
    graph = replace(
        graph,
        operators=tuple(f"op{x}" for x in range(k)),
        dimensions=("",) * k,
        first=np.arange(k + 1),
        operator=np.arange(k, dtype=np.int32),
        part=np.zeros(k, np.int32),
        forward=np.ones(k),
        backward=np.ones(k),
        parameters=np.zeros(k, np.int64),
        memory=np.ones(k),
        synchronised=np.zeros(k),
        parent_start=np.array([0] * k + [senders]),
        parent=np.arange(senders, dtype=np.int32),
        nbytes=np.full(senders, 40.0),
        content=np.zeros(senders, np.int64),
    )
    plan = plan_of(graph, np.arange(k), k, 1)
    step = run(plan, pipes(plan, 40.0, ports=True))
    sent = [step.run.state.end[last] for last in step.run.work.messages.last[: 2 * senders]]
    assert sorted(sent[:senders]) == pytest.approx([2.0 + number for number in range(senders)])
    # Forward 1 s, parcels, forward and backward pass of the reader 2 s; its gradients leave one after the other.
    assert sorted(sent[senders:]) == pytest.approx([4.0 + senders + number for number in range(senders)])
    meanwhile = run(plan, pipes(plan, 40.0))
    assert meanwhile.step_time == pytest.approx(6.0)
    assert step.step_time == pytest.approx(4.0 + 2 * senders)


def test_copies_go_to_owners_and_back() -> None:
    """Three parts with copies on three devices, in two groups; every event by hand."""
    graph = random_graph(np.random.default_rng(0), 1, copied=0.0)
    graph = replace(
        graph,
        first=np.array([0, 3]),
        operator=np.zeros(3, np.int32),
        part=np.arange(3, dtype=np.int32),
        forward=np.full(3, 1.0),
        backward=np.array([2.0, 3.0, 5.0]),
        parameters=np.array([10, 10, 20]),
        memory=np.ones(3),
        synchronised=np.array([0.0, 160.0, 160.0]),
        parent_start=np.zeros(4, np.int64),
        parent=np.empty(0, np.int32),
        nbytes=np.empty(0),
        content=np.empty(0, np.int64),
    )
    plan = plan_of(graph, [0, 1, 2], 3, 2)
    step = run(plan, pipes(plan, 40.0))
    messages, end = step.run.work.messages, step.run.state.end
    found = {
        (KINDS[kind], int(a), int(b)): (float(nbytes), float(end[last]))
        for kind, a, b, nbytes, last in zip(
            messages.kind, messages.source, messages.destination, messages.nbytes, messages.last, strict=True
        )
    }
    # Backward passes end at 3, 4 and 6. Shares are 40, 40 and 80 bytes; a second moves 40.
    assert found["sum", 0, 1] == (120.0, 6.0)  # those of parts 1 and 2
    assert found["sum", 1, 2] == (80.0, 8.0)
    assert found["sum", 2, 1] == (80.0, 8.0)  # those of parts 0 and 1
    assert found["sum", 1, 0] == (40.0, 9.0)
    assert found["all-reduce", 0, 3] == (40.0, 10.0)
    assert found["all-reduce", 1, 4] == (40.0, 9.0)
    assert found["all-reduce", 2, 5] == (80.0, 10.0)
    assert found["share", 0, 1] == (40.0, 11.0)
    assert found["share", 1, 2] == (80.0, 13.0)
    assert found["share", 2, 1] == (80.0, 12.0)
    assert found["share", 1, 0] == (120.0, 15.0)
    update = A100.update_time(40 * SETTINGS.optimizer_traffic_bytes)
    assert step.step_time == pytest.approx(15 + update)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, factor=st.sampled_from([2.0, 8.0]))
def test_all_times_scale_together(seed: int, factor: float) -> None:
    plan, circuits, step = drawn(seed)
    graph = plan.balanced
    slower = replace(graph, forward=graph.forward * factor, backward=graph.backward * factor)
    timing = circuits.timing
    slow = replace(
        circuits,
        bandwidth=circuits.bandwidth / factor,
        latency=circuits.latency * factor,
        timing=None if timing is None else Timing(timing.hold * factor, timing.reconfiguration * factor),
    )
    updates = SETTINGS.model_copy(update={"optimizer_traffic_bytes": int(SETTINGS.optimizer_traffic_bytes * factor)})
    found = simulate_placed(replace(plan, balanced=slower), slow, A100, updates)
    assert found.step_time == pytest.approx(factor * step.step_time, rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_one_hold_is_a_cycle_of_equal_ones_without_darkness(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plan = random_plan(rng)
    rates = rng.lognormal(22, 1, plan.k * plan.k)
    once = run(plan, pipes(plan, rates, MICROSECOND))
    turns = run(plan, pipes(plan, np.tile(rates, (3, 1)), MICROSECOND, Timing(float(rng.uniform(0.3, 5)) * 1e-6, 0.0)))
    assert turns.step_time == pytest.approx(once.step_time, rel=1e-9)
    assert turns.waited_for_circuits == 0
    assert turns.busy_time == pytest.approx(once.busy_time)


def test_waiting_in_the_dark_is_counted() -> None:
    graph = random_graph(np.random.default_rng(0), 1, copied=0.0)
    graph = replace(
        graph,
        operators=("a", "b"),
        first=np.array([0, 1, 2]),
        operator=np.arange(2, dtype=np.int32),
        part=np.zeros(2, np.int32),
        forward=np.array([1.0, 1.0]),
        backward=np.array([1.0, 1.0]),
        parameters=np.zeros(2, np.int64),
        memory=np.ones(2),
        synchronised=np.zeros(2),
        parent_start=np.array([0, 0, 1]),
        parent=np.zeros(1, np.int32),
        nbytes=np.array([3.0]),
        content=np.zeros(1, np.int64),
    )
    plan = plan_of(graph, [0, 1], 2, 1)
    # Light from 2 to 4, 6 to 8, ...: ready at 1, sends 2 to 4 and 6 to 7; reads to 9; sends 10 to 12 and 14 to 15.
    step = run(plan, pipes(plan, 1.0, timing=Timing(2.0, 2.0)))
    assert step.step_time == pytest.approx(16.0)
    assert step.waited_for_circuits == pytest.approx(1 + 2 + 1 + 2)
    assert step.breakdown == pytest.approx(
        {"compute_s": 4, "exposed_communication_s": 6, "exposed_reconfiguration_s": 6, "idle_s": 0}, abs=1e-9
    )


@settings(max_examples=30, deadline=None)
@given(seed=seeds, more=st.floats(1, 10))
def test_bandwidth_never_hurts_a_chain_on_two_devices(seed: int, more: float) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 12))
    graph = replace(
        random_graph(rng, size, copied=0.0),
        first=np.arange(size + 1),
        operator=np.arange(size, dtype=np.int32),
        part=np.zeros(size, np.int32),
        forward=rng.lognormal(0, 1, size) * 1e-6,
        backward=rng.lognormal(0, 1, size) * 1e-6,
        parameters=np.zeros(size, np.int64),
        memory=np.ones(size),
        synchronised=np.zeros(size),
        parent_start=np.concatenate(([0], np.arange(size))),
        parent=np.arange(size - 1, dtype=np.int32),
        nbytes=rng.lognormal(8, 1, size - 1),
        content=np.zeros(size - 1, np.int64),
    )
    plan = plan_of(graph, np.arange(size) % 2, 2, 1)
    slow, fast = run(plan, pipes(plan, 1e9)), run(plan, pipes(plan, 1e9 * more))
    assert fast.step_time <= slow.step_time * (1 + 1e-12)
    # A chain waits for every transfer.
    seconds = graph.forward.sum() + graph.backward.sum() + 2 * graph.nbytes.sum() / 1e9
    assert slow.step_time == pytest.approx(seconds)


def test_parcels_of_a_device_take_turns_on_its_port() -> None:
    plan, _, _ = drawn(5)
    plan = plan_of(plan.balanced, np.arange(plan.balanced.size) % 3, 3, 1)
    step = run(plan, pipes(plan, 1e8, ports=True))
    load = plan.traffic.total.sum(axis=1) / 1e8
    assert step.step_time >= load.max()
    assert {name for name in step.timeline.resources if name.startswith("port")} == {
        f"port 0 of device {d}" for d in range(3)
    }


def test_a_codec_shrinks_what_goes_between_groups_alone() -> None:
    graph = random_graph(np.random.default_rng(3), 8)
    plan = plan_of(graph, np.arange(graph.size) % 3, 3, 4)
    circuits = pipes(plan, 1e9)
    plain, small = run(plan, circuits), run(plan, circuits, compression_ratio=4.0)
    model, data = (each[:3].sum() for each in plan.traffic)
    assert plain.sent_bytes == pytest.approx(model + data)
    assert small.sent_bytes == pytest.approx(model + data / 4)


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_relays_deliver_everything(seed: int) -> None:
    """Random circuits on which every device reaches every other, at least along a ring."""
    rng = np.random.default_rng(seed)
    plan = random_plan(rng)
    full = pipes(plan, rng.lognormal(22, 1, plan.k * plan.k), MICROSECOND)
    kept = rng.random(len(full.source)) < 0.4
    kept |= full.destination == (full.source + 1) % plan.k
    kept[np.flatnonzero(full.destination >= plan.k)[0]] = True
    sparse = replace(
        full,
        source=full.source[kept],
        destination=full.destination[kept],
        bandwidth=full.bandwidth[:, kept],
        latency=full.latency[kept],
        port=np.arange(int(kept.sum())),
    )
    step = run(plan, sparse)
    messages = step.run.work.messages
    hops = messages.last - messages.first + 1
    assert np.isfinite(step.run.state.end).all()
    assert step.sent_bytes == pytest.approx((messages.nbytes * hops).sum())
    assert step.relayed_bytes == pytest.approx(messages.nbytes[hops > 1].sum())
    assert messages.nbytes.sum() == pytest.approx(plan.traffic.total[: plan.k].sum())
    for first, last, a, b in zip(messages.first, messages.last, messages.source, messages.destination, strict=True):
        way = step.run.work.nodes.pipe[first : last + 1]
        if way[0] < 0:
            continue
        at = int(a)
        for pipe in way.tolist():
            assert sparse.source[pipe] == at % plan.k
            at = at - at % plan.k + int(sparse.destination[pipe])
        assert at == b
        assert (
            step.run.state.start[first + 1 : last + 1] >= step.run.state.end[first:last] + MICROSECOND * 0.999
        ).all()


@settings(max_examples=20, deadline=None)
@given(seed=seeds, latency=st.floats(0, 1))
def test_holds_planned_anew_send_everything(seed: int, latency: float) -> None:
    rng = np.random.default_rng(seed)
    plan = random_plan(rng)
    if not plan.traffic.total.sum() or plan.ranks < 2:
        return
    fabric = WdmRing(ranks=plan.ranks, wavelengths=int(rng.integers(1, 9)), wavelength_bandwidth=1e9)
    hold, dark = (rng.uniform(1, 6, 2) * MICROSECOND).tolist()
    timing = Timing(hold, dark, latency * (hold + dark))
    circuits, regrant = regrants(plan, fabric, timing)
    granted: list[Floats] = []
    counted: list[Floats] = []

    def noted(waiting: Floats) -> Floats:
        counted.append(waiting.copy())
        granted.append(regrant(waiting))
        return granted[-1]

    step = run(plan, circuits, regrant=noted)
    assert step.relayed_bytes == 0
    assert step.sent_bytes == pytest.approx(plan.traffic.total[: plan.k].sum())
    assert np.isfinite(step.run.state.end).all()
    _check_timeline(step, step.timeline)
    assert step.waited_for_circuits == pytest.approx(_dark_seconds(step, granted), rel=1e-6, abs=1e-12)
    # Bytes move at the rates that were granted, after the reconfiguration that sets them.
    nodes, dark = step.run.work.nodes, step.run.dark_periods[:, 1]
    moved = np.zeros(len(nodes.amount))
    for node, start, end, _ in zip(*step.run.stretches, strict=True):
        hold = int(np.searchsorted(dark, start + 1e-12, "right")) - 1
        moved[node] += granted[hold][nodes.pipe[node]] * (end - start)
    hops = nodes.pipe >= 0
    assert np.allclose(moved[hops], nodes.amount[hops], rtol=1e-6, atol=1e-2)
    shown = [each.details["bytes"] for each in step.timeline.intervals if each.category == "transmission"]
    assert sum(shown) == pytest.approx(step.sent_bytes)
    assert counted[0] == pytest.approx(np.bincount(nodes.pipe[hops], nodes.amount[hops], len(counted[0])))
    for bytes_waiting, start in zip(counted[1:], step.run.dark_periods[1:, 0], strict=False):
        _check_counters(step, granted, bytes_waiting, start - min(timing.controller_latency, timing.hold))


@settings(max_examples=20, deadline=None)
@given(seed=seeds)
def test_all_that_waits_at_a_port_for_a_dark_pipe_is_counted(seed: int) -> None:
    """Pipes of one port are dark in different holds, and several hops wait there."""
    rng = np.random.default_rng(seed)
    plan = random_plan(rng)
    rates = rng.lognormal(22, 1, (3, plan.k * plan.k)) * (rng.random((3, plan.k * plan.k)) < 0.5)
    rates[rng.integers(0, 3, rates.shape[1]), np.arange(rates.shape[1])] = 4e9
    timing = Timing(*(rng.uniform(0.5, 8, 2) * MICROSECOND).tolist())
    step = run(plan, pipes(plan, rates, 0.0, timing, ports=True))
    holds = [rates[hold % 3] for hold in range(len(step.run.dark_periods))]
    assert step.waited_for_circuits == pytest.approx(_dark_seconds(step, holds), rel=1e-6, abs=1e-12)


def _dark_seconds(step: PlacedStep, granted: list[Floats]) -> float:
    """Seconds, summed over hops, from ready to end in which the pipe of the hop has no rate."""
    nodes, events = step.run.work.nodes, step.run.state
    changes = sorted({0.0, *step.run.dark_periods.ravel().tolist(), step.step_time})
    total = 0.0
    for begin, until in pairwise(changes):
        middle = (begin + until) / 2
        hold = int(np.searchsorted(step.run.dark_periods[:, 0], middle, "right")) - 1
        lit = hold >= 0 and middle > step.run.dark_periods[hold, 1]
        for node in np.flatnonzero(nodes.pipe >= 0).tolist():
            if not lit or granted[hold][nodes.pipe[node]] == 0:
                total += max(0.0, min(until, events.end[node]) - max(begin, events.ready[node]))
    return total


def _check_counters(step: PlacedStep, granted: list[Floats], counted: Floats, now: float) -> None:
    """Counters that are read at a time hold what was ready then and had not been sent."""
    nodes, lit = step.run.work.nodes, step.run.dark_periods[:, 1]
    left = np.where((nodes.pipe >= 0) & (step.run.state.ready <= now), nodes.amount, 0.0)
    for node, start, end, _ in zip(*step.run.stretches, strict=True):
        if start < now:
            hold = int(np.searchsorted(lit, start + 1e-12, "right")) - 1
            left[node] -= granted[hold][nodes.pipe[node]] * (min(end, now) - start)
    waiting = nodes.pipe >= 0
    expected = np.bincount(nodes.pipe[waiting], left[waiting], len(counted))
    assert np.allclose(counted, expected, rtol=1e-6, atol=1e-2)


def bursts(nbytes: float) -> HybridPlan:
    """Operators of four parts, one a device, that read all of the operator before, or only one part of it."""
    rng = np.random.default_rng(0)
    layers, k = 12, 4
    edges = [
        (4 * o + p, 4 * o - 4 + q)
        for o in range(1, layers)
        for p in range(k)
        for q in range(k)
        if o % 4 == 0 or q == o % 4
    ]
    reader, parent = np.array(edges).T
    size = layers * k
    graph = replace(
        random_graph(rng, layers, copied=0.0),
        first=np.arange(0, size + 1, k),
        operator=np.repeat(np.arange(layers, dtype=np.int32), k),
        part=np.tile(np.arange(k, dtype=np.int32), layers),
        forward=np.full(size, 1e-6),
        backward=np.full(size, 2e-6),
        parameters=np.zeros(size, np.int64),
        memory=np.ones(size),
        synchronised=np.zeros(size),
        parent_start=np.searchsorted(reader, np.arange(size + 1)),
        parent=parent.astype(np.int32),
        nbytes=np.full(len(edges), nbytes),
        content=np.zeros(len(edges), np.int64),
    )
    return plan_of(graph, np.tile(np.arange(k), layers), k, 1)


@pytest.mark.parametrize(("nbytes", "gains"), [(1e8, True), (1e6, False)])
def test_planning_anew_pays_where_transfers_outlast_holds(nbytes: float, gains: bool) -> None:
    """One assignment divides wavelengths among pairs that send at different times; planned anew, those that wait get
    them all, but late: each burst waits for the next hold."""
    plan = bursts(nbytes)
    fabric = WdmRing(ranks=4, wavelengths=16)
    once = run(plan, grant(plan, fabric))
    circuits, regrant = regrants(plan, fabric)
    anew = run(plan, circuits, regrant=regrant)
    assert (anew.step_time < 0.9 * once.step_time) if gains else (anew.step_time > 2 * once.step_time)


def test_the_best_of_all_grants() -> None:
    plan = bursts(1e6)
    fabric = WdmRing(ranks=4, wavelengths=3)
    steps = [run(plan, each).step_time for each in grants(plan, fabric)]
    assert len(steps) > 1
    assert simulate_best(plan, fabric, A100, SETTINGS).step_time == min(steps)


def test_what_does_not_fit_together_is_refused() -> None:
    plan = bursts(1e6)
    circuits = pipes(plan, 1e9)
    with pytest.raises(ConfigError, match="circuits of groups of 4 devices: expected 3, as placed"):
        run(plan_of(plan.balanced, np.zeros(plan.balanced.size), 3, 1), circuits)
    with pytest.raises(ConfigError, match="expected the timing of holds"):
        run(plan, circuits, regrant=lambda waiting: waiting)
    with pytest.raises(ConfigError, match="compression ratio of 0"):
        run(plan, circuits, compression_ratio=0.0)
    dark = replace(circuits, bandwidth=np.zeros_like(circuits.bandwidth))
    with pytest.raises(UnsupportedError, match=r"has no circuit to device .* expected a larger degree"):
        run(plan, dark)
