"""How the price of a queued schedule grows with its bytes, what steps wait for, and loads of chunks of unlike sizes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.loads import PacketLoads, StepSeconds, steps_before, uneven_loads
from lightloom.collectives.cost.price import _queue_order, queued_line
from lightloom.collectives.registry import build, find
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.fabrics.wdm_ring import Ring
from tests.collectives.queued_reference import exchanged
from tests.collectives.strategies import wdm_ring


class PaidByPiece(Ring):
    """Packet links that every piece holds for some time more."""

    @property
    def piece_overhead(self) -> float:
        return 1e-6


def test_prices_are_lines_on_packet_links_that_only_bytes_hold() -> None:
    """From some bytes on, and nowhere else is anything said of other sizes."""
    schedule, fabric = exchanged(6, 1, 2, 1e6), Ring(ranks=6, bandwidth=1e9)
    cost, slope = queued_line(schedule, fabric)
    twice, same = queued_line(schedule.resized(2e6), fabric)
    assert slope > 0 and same == pytest.approx(slope)
    assert twice.time - cost.time == pytest.approx(1e6 * slope, rel=1e-6)
    for other, on in (
        (schedule, wdm_ring(6, 8)),
        (schedule, PaidByPiece(ranks=6, bandwidth=1e9)),
        (schedule.resized(0.0), fabric),
    ):
        assert queued_line(other, on)[1] == 0


def test_steps_without_dependencies_follow_each_other() -> None:
    assert steps_before(4, None) == [[], [0], [1], [2]]
    assert steps_before(4, np.array([(2, 0), (2, 1), (1, 3)])) == [[], [3], [0, 1], []]


@pytest.mark.parametrize("seed", range(3))
def test_the_busiest_link_of_each_step_carries_the_sum_of_its_sizes(seed: int) -> None:
    fabric = Ring(ranks=5, bandwidth=2e9, hop_latency=1e-6)
    schedule = build(find("one-stage"), Collective("all-to-all", 5, 5e6), fabric).unfolded(1)
    schedule = replace(schedule, steps=2, step=(np.arange(len(schedule)) % 2).astype(schedule.step.dtype))
    weights = np.random.default_rng(seed).random(len(schedule))
    load, latency = np.zeros((2, fabric.links)), np.zeros(2)
    path = fabric.path(*schedule.ends(slice(None)))
    for row, step in enumerate(schedule.step):
        used = path[row][path[row] >= 0]
        load[step, used] += weights[row]
        latency[step] = max(latency[step], len(used) * 1e-6)
    found = uneven_loads(schedule, fabric, weights)
    assert found.per_byte == pytest.approx((load / 2e9).max(axis=1))
    assert found.latency == pytest.approx(latency)
    sized: Any = SimpleNamespace(chunk_nbytes=10.0)
    assert StepSeconds(np.array([2.0, 3.0]), np.array([5.0, 7.0])).seconds(sized, fabric).tolist() == [25.0, 37.0]


def test_sizes_on_packet_links_want_steps_in_order() -> None:
    fabric = Ring(ranks=5)
    schedule = build(find("ring"), Collective("all-gather", 5, 5e6), fabric).unfolded(1)
    weights = np.ones(len(schedule))
    found = uneven_loads(schedule, fabric, weights)
    assert found.per_byte.shape == found.latency.shape == (schedule.steps,)
    with pytest.raises(UnsupportedError, match=f"^{schedule.algorithm}: steps with dependencies share packet links"):
        uneven_loads(replace(schedule, dependencies=np.zeros((0, 2), np.int64)), fabric, weights)


def test_links_of_one_class_stay_equally_fast_when_packets_are_smaller() -> None:
    """Seconds of a step are those of its busiest link of each class, at the bandwidth that the class then has."""
    chunks, latency = np.array([[3, 0], [2, 4]]), np.array([0.5, 0.25])
    loads = PacketLoads(np.array([0, 1, 1]), np.array([0, 1]), chunks, latency)

    sized: Any = SimpleNamespace(steps=2, chunk_nbytes=8.0)

    def seconds(*bandwidth: float) -> list[float]:
        fabric: Any = SimpleNamespace(kind_name="links", link_bandwidth=lambda: np.array(bandwidth))
        found: list[float] = loads.seconds(sized, fabric).tolist()
        return found

    assert seconds(2.0, 4.0, 4.0) == [12.5, 8.25]
    assert seconds(8.0, 1.0, 1.0) == [16.5, 32.25]
    with pytest.raises(ConfigError, match=r"^links: with_smaller_packets tells links of equal bandwidth apart$"):
        seconds(2.0, 4.0, 5.0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6))
def test_lightpaths_send_by_step_and_rows_of_a_step_as_they_come(rows: list[tuple[int, int]]) -> None:
    path, step = np.array(rows, np.int32).reshape(-1, 2).T
    schedule: Any = SimpleNamespace(lightpath=path, step=step)
    assert _queue_order(schedule).tolist() == sorted(range(len(rows)), key=rows.__getitem__)
