"""Pieces of placed steps: the turns of pipes at their ports, darkness, and steps of several micro-batches."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.timeline import SHARES
from lightloom.planning.simulation.placed_step import PlacedRun, _message_of, ports_of, simulate_placed
from tests.simulation.placed_plans import A100, SETTINGS, pipes, random_pipes, random_plan

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_pipes_take_turns_at_their_ports_the_nearest_devices_first(seed: int) -> None:
    """In whatever order they are listed, and whichever of them share a port where they leave or where they enter."""
    rng = np.random.default_rng(seed)
    plan = random_plan(rng, 1)
    every = pipes(plan, 1.0)
    count = len(every.source)
    shuffled = rng.permutation(count)
    circuits = replace(
        every,
        source=every.source[shuffled],
        destination=every.destination[shuffled],
        port=rng.integers(0, count, count) if rng.random() < 0.7 else np.arange(count),
        entry=rng.integers(0, count, count) if rng.random() < 0.7 else np.arange(count),
    )
    ports = ports_of(circuits)
    ends = list(zip(circuits.source.tolist(), circuits.destination.tolist(), strict=True))
    turns = sorted(range(count), key=lambda pipe: ((ends[pipe][1] - ends[pipe][0]) % plan.k, ends[pipe][0], pipe))
    assert ports.pipe.tolist() == turns
    assert ports.turn.tolist() == [turns.index(pipe) for pipe in range(count)]
    members = [ports.member[a:b].tolist() for a, b in zip(ports.first[:-1], ports.first[1:], strict=True)]
    sides = [(circuits.port.tolist(), ports.leaves), (circuits.entry.tolist(), ports.enters)]
    groups = [sorted(np.flatnonzero(np.array(side) == name).tolist()) for side, _ in sides for name in sorted({*side})]
    assert members == groups
    for side, port in sides:
        assert all(pipe in members[port[pipe]] for pipe in range(count))
        assert [side[a] == side[b] for a in range(count) for b in range(count)] == [
            port[a] == port[b] for a in range(count) for b in range(count)
        ]
    assert ports.shared == any(len(group) > 1 for group in groups)


def test_what_is_dark_ends_with_the_step() -> None:
    run = object.__new__(PlacedRun)
    run.dark = [(0.0, 1.0), (5.0, 6.0), (10.0, 11.0)]
    for end, dark in (
        (5.0, [[0.0, 1.0]]),
        (5.5, [[0.0, 1.0], [5.0, 5.5]]),
        (20.0, [[0.0, 1.0], [5.0, 6.0], [10.0, 11.0]]),
    ):
        run.state = cast(Any, SimpleNamespace(totals=[0.0, end]))
        assert run.dark_periods.tolist() == dark


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_transfers_wait_for_circuits_from_when_they_are_ready_while_their_pipe_is_dark(seed: int) -> None:
    """Those under way whose hold has ended included, and no others."""
    rng = np.random.default_rng(seed)
    plan = random_plan(rng, 5)
    circuits = random_pipes(rng, plan)
    step = simulate_placed(plan, circuits, A100, SETTINGS)
    timing, nodes, events = circuits.timing, step.run.work.nodes, step.run.state
    if timing is None:
        assert step.waited_for_circuits == 0.0
        return
    waited = 0.0
    for node in np.flatnonzero(nodes.pipe >= 0):
        ready, end, hold = float(events.ready[node]), float(events.end[node]), 0
        while hold * timing.period < end:
            begin = hold * timing.period
            lit = circuits.bandwidth[hold % len(circuits.bandwidth), nodes.pipe[node]] > 0
            dark_until = begin + timing.reconfiguration if lit else begin + timing.period
            waited += max(min(dark_until, end) - max(begin, ready), 0.0)
            hold += 1
    assert step.waited_for_circuits == pytest.approx(waited, rel=1e-6, abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(seed=seeds, count=st.integers(1, 4))
def test_micro_batches_follow_each_other_and_the_last_one_is_the_step_s_own(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    plan = random_plan(rng, 4)
    circuits = random_pipes(rng, plan)
    earlier, last = (
        simulate_placed(plan, circuits, A100, SETTINGS, accumulates=accumulates) for accumulates in (True, False)
    )
    step, period = last.after(earlier, count), earlier.step_time
    assert step.step_time == pytest.approx(last.step_time + count * period)
    expected = [
        (each.resource, each.category, each.name, each.start + number * period, each.end + number * period)
        for number in range(count + 1)
        for each in (earlier if number < count else last).timeline.intervals
    ]
    shown = [(each.resource, each.category, each.name, each.start, each.end) for each in step.timeline.intervals]
    assert sorted(shown) == sorted(expected)
    busy = step.timeline.busy_time()
    assert all(busy[name] == pytest.approx(step.busy_time[name], rel=1e-9, abs=1e-15) for name in SHARES)
    for name in ("waited_for_circuits", "relayed_bytes", "sent_bytes"):
        assert getattr(step, name) == pytest.approx(getattr(last, name) + count * getattr(earlier, name))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=6), st.integers(0, 3))
def test_the_nodes_of_a_message_are_all_of_its_hops(listed: list[tuple[int, int]], behind: int) -> None:
    """Messages one after the other, with nodes between them and behind them that are of none."""
    message: list[int] = []
    first, last = [], []
    for number, (others, hops) in enumerate(listed):
        message += [-1] * others + [number] * hops
        first.append(len(message) - hops)
        last.append(len(message) - 1)
    message += [-1] * behind
    hops_of = SimpleNamespace(first=np.array(first, np.int64), last=np.array(last, np.int64))
    work: Any = SimpleNamespace(waits=np.zeros(len(message), np.int32), messages=hops_of)
    assert _message_of(work).tolist() == message
