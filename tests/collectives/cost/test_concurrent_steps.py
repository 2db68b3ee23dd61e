"""Steps that nothing orders share packet links and a codec's engine: no link carries more than its bandwidth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.cost.stepped import CodecTimes, cost
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.collectives.verify.stepped import verify
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.mesh import Mesh
from lightloom.fabrics.packet_switch import PacketSwitch
from lightloom.fabrics.wdm_ring import Ring
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
    step = build(find("one-stage"), Collective("all-to-all", fabric.ranks, 6e6), fabric)
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
