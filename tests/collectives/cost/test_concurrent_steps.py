"""Steps that nothing orders share packet links and a codec's engine: no link carries more than its bandwidth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective
from lightloom.collectives.cost import kernels
from lightloom.collectives.cost.stepped import CodecTimes, cost
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.verify.verifier import verify
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.machines.fabrics.wdm_ring import Ring
from tests.collectives.strategies import wdm_ring

NOTHING = np.zeros((0, 2), np.int64)


def all_at_once(schedule: Schedule) -> Schedule:
    return replace(schedule, dependencies=NOTHING)


def row_by_row(schedule: Schedule) -> Schedule:
    """Every row in a step of its own, in the order of the table."""
    return replace(schedule, step=np.arange(len(schedule)), steps=len(schedule), lightpath=np.arange(len(schedule)))


@pytest.mark.parametrize(
    "fabric",
    [
        Ring(ranks=5, bandwidth=1e9, hop_latency=1e-6),
        Mesh(ranks=6, bandwidth=1e9),
        PacketSwitch(ranks=6, bandwidth=1e9),
    ],
    ids=lambda fabric: fabric.kind_name,
)
def test_rows_that_run_at_once_cost_what_one_step_of_them_costs(fabric: Fabric) -> None:
    """A one-stage exchange as a step, or as steps that nothing orders: the busiest link carries as much."""
    step = build(find("one-stage"), Collective("all-to-all", fabric.ranks, 6e6), fabric).unfolded(1)
    steps = all_at_once(row_by_row(step))
    verify(steps, fabric)
    assert step.steps == 1
    assert lower_bound(steps.collective, fabric).time <= cost(steps, fabric).time * (1 + 1e-9)
    # Equal shares of a link end it for all at once; nothing that is fair ends sooner than the busiest link.
    assert cost(steps, fabric).time == pytest.approx(cost(step, fabric).time, rel=0.35)
    assert cost(steps, fabric).time >= cost(step, fabric).time * (1 - 1e-9) - 1e-6 * fabric.diameter()


def test_two_steps_over_one_link_take_twice_as_long_as_one() -> None:
    fabric = Ring(ranks=2, bandwidth=1e9, hop_latency=1e-6)
    one = build(find("ring"), Collective("broadcast", 2, 2e6), fabric)
    assert len(one) == 2
    columns = {"source": [0, 0], "destination": [1, 1], "route": [0, 0], "step": [0, 1], "chunk": [0, 1]}
    schedule = one.with_columns(columns | {"lightpath": [0, 1]}, steps=2, chunks=2, dependencies=NOTHING)
    verify(schedule, fabric)
    assert cost(schedule, fabric).time == pytest.approx(2e-3 + 1e-6)
    other_way = schedule.with_columns({"route": [0, 1]})
    assert cost(other_way, fabric).time == pytest.approx(1e-3 + 1e-6)


def test_a_step_gets_what_the_others_leave() -> None:
    """Steps of 1 and 3 ms over one link: alike until the short one ends, and then alone."""
    fabric = Ring(ranks=3, bandwidth=1e9)
    chain = build(find("ring"), Collective("broadcast", 3, 12e6), fabric)
    rows = np.flatnonzero(chain.source == chain.source[0])[:1].repeat(4)
    columns: dict[str, object] = {name: column[rows] for name, column in chain.columns().items()}
    columns |= {"step": [0, 1, 1, 1], "lightpath": [0, 1, 1, 1], "chunk": [0, 1, 1, 1]}
    schedule = chain.with_columns(columns, steps=2, chunks=12, dependencies=NOTHING)
    times = cost(schedule, fabric)
    assert times.time == pytest.approx(4e-3)
    assert cost(replace(schedule, dependencies=np.array([(1, 0)])), fabric).time == pytest.approx(4e-3)


@pytest.mark.parametrize("in_line", [False, True])
def test_steps_at_once_share_the_engine_of_a_codec(in_line: bool) -> None:
    """Over circuits that share nothing, too: coding two steps at once takes as long as one after the other."""
    fabric = wdm_ring(8, 1)
    schedule = build(find("ring-two-way"), Collective("all-gather", 8, 8e6), fabric)
    schedule = schedule.with_columns({"step": schedule.route}, steps=2)
    codec = CodecTimes(np.array([3.0, 3.0]), np.array([2.0, 2.0]), in_line)
    at_once, in_turn = (
        cost(replace(schedule, dependencies=pairs), fabric, codec=codec) for pairs in (NOTHING, np.array([(1, 0)]))
    )
    assert at_once.time == pytest.approx(in_turn.time, rel=1e-3)


SECONDS = st.sampled_from((0.0, 0.5, 1.0, 1.5, 7.0))


@given(st.lists(st.tuples(SECONDS, SECONDS, SECONDS, st.integers(0, 2**8 - 1)), min_size=1, max_size=8), st.data())
def test_tasks_that_share_nothing_wait_for_their_longest_path(
    drawn: list[tuple[float, float, float, int]], data: st.DataObject
) -> None:
    """A task begins once the last of those before it has ended, and takes its lead, its own time and its tail."""
    tasks = len(drawn)
    number = data.draw(st.permutations(range(tasks)))
    followers: list[list[int]] = [[] for _ in drawn]
    waits, begin, end = np.zeros(tasks, np.int64), np.zeros(tasks), np.zeros(tasks)
    lead_alone_tail = np.zeros((3, tasks))
    for i, (lead, alone, tail, before) in enumerate(drawn):
        for j in range(i):
            if before >> j & 1:
                followers[number[j]].append(number[i])
                waits[number[i]] += 1
                begin[number[i]] = max(begin[number[i]], end[number[j]])
        lead_alone_tail[:, number[i]] = lead, alone, tail
        end[number[i]] = begin[number[i]] + lead + alone + tail
    first = np.cumsum([0, *map(len, followers)])
    follower = np.array([one for each in followers for one in each], np.int64)
    leads, alones, tails = lead_alone_tail
    uses = np.zeros(tasks + 1, np.int64), np.zeros(0, np.int64), np.zeros(0)
    work = kernels.TaskGraph(waits, first, follower, leads, alones, tails, *uses)
    found = np.zeros((2, tasks))
    kernels.run_at_once(work, 0, *found)
    assert found == pytest.approx(np.stack([begin, end]), rel=1e-9)
