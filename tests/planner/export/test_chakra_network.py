"""The network that stands for a plan's fabric in traces: messages over it take as long as the plan's collectives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.registry import build, find
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Torus
from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from lightloom.machines.fabrics.wdm_ring import Ring
from lightloom.planning.export.chakra_operations import CollectiveUse
from lightloom.planning.export.chakra_step import (
    AnalyticalNetwork,
    CarriedCollective,
    Dimension,
    Line,
    _library_line,
    goes_around,
    network_of,
    pair_line,
)
from tests.collectives.strategies import two_tiers, wdm_ring

RATES = st.floats(1e6, 1e12)
LATENCIES = st.floats(0, 1e-3)


@given(RATES, LATENCIES, st.floats(1, 1e9), st.floats(0, 5e-3))
def test_lines_are_alike_where_messages_of_both_take_as_long_to_a_thousandth(
    rate: float, latency: float, message: float, change: float
) -> None:
    line = Line(rate, latency, message)
    assert line.seconds == latency + message / rate and line.alike(line)
    for other in (Line(rate / (1 + change), latency, message), Line(rate, latency + change * line.seconds, message)):
        assert other.alike(line) == line.alike(other)
        slower = other.seconds / line.seconds - 1
        assert line.alike(other) == (slower <= 1e-3) or slower == pytest.approx(1e-3, rel=0.01)


def test_lines_are_not_alike_where_rate_and_latency_only_make_up_for_each_other() -> None:
    line, other = Line(1e9, 1e-3, 1e6), Line(2e9, 1.5e-3, 1e6)
    assert line.seconds == other.seconds == 2e-3
    assert not line.alike(other) and not other.alike(line)
    # A rate that differs is not noticed by small messages, but by those of the other line.
    small, large = Line(1e9, 1e-3, 10.0), Line(2e9, 1e-3, 1e6)
    assert small.alike(large._replace(message=10.0)) and not small.alike(large) and not large.alike(small)


@pytest.mark.parametrize(("kind", "messages"), [("all-reduce", 14), ("all-gather", 7), ("reduce-scatter", 7)])
@pytest.mark.parametrize(("latency", "rate"), [(1e-4, 1e9), (0.0, 1e9)])
def test_a_ring_over_the_library_s_line_takes_as_long_as_the_library(
    kind: Kind, messages: int, latency: float, rate: float
) -> None:
    """At the size itself, and along a line also at others."""

    def seconds(_: object, nbytes: Any) -> Any:
        return latency + np.asarray(nbytes) / rate

    prices: Any = SimpleNamespace(fabric=SimpleNamespace(ranks=8), seconds=seconds)
    line = _library_line(prices, kind, 4e6)
    assert line.message == 4e6 / 8 and line.spread == 0
    for nbytes in (1e6, 4e6, 9e6) if latency else (4e6,):
        ring = messages * (line.latency + nbytes / 8 / line.rate)
        assert ring == pytest.approx(seconds(kind, nbytes))
    assert (line.latency > 0) == (latency > 0)


@pytest.mark.parametrize("power", [0.0, -1.0, 1.5, 2.0])
def test_a_library_that_does_not_grow_like_a_line_gives_no_latency(power: float) -> None:
    prices: Any = SimpleNamespace(
        fabric=SimpleNamespace(ranks=4), seconds=lambda _, nbytes: 1e-3 * (np.asarray(nbytes) / 1e6) ** power
    )
    line = _library_line(prices, "all-gather", 1e6)
    assert line.latency == 0 and 3 * line.seconds == pytest.approx(1e-3)


FABRICS: list[Fabric] = [
    PacketSwitch(ranks=6, bandwidth=1e9, hop_latency=1e-6),
    Ring(ranks=6, bandwidth=1e9, hop_latency=1e-6),
    Torus(ranks=6, dims=(2, 3), bandwidth=1e9, hop_latency=2e-6),
    two_tiers(6, domain_size=3),
    CircuitSwitch(ranks=6, degree=3, hop_latency=1e-6),
    wdm_ring(6, 8, hop_latency=1e-6),
]


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: fabric.kind_name)
@pytest.mark.parametrize(("algorithm", "kind"), [("ring", "all-reduce"), ("one-stage", "all-gather")])
def test_a_pair_has_the_rate_that_its_rows_leave_it(fabric: Fabric, algorithm: str, kind: Kind) -> None:
    """Of each link the share of its rows, counted one by one; of lightpaths all their channels."""
    schedule = build(find(algorithm), Collective(kind, 6, 6e6), fabric).unfolded(fabric.fibre_channels)
    rows = [
        tuple(int(value) for value in row)
        for row in zip(schedule.step, schedule.source, schedule.destination, schedule.route, strict=True)
    ]
    rates = [_rate(fabric, schedule, rows, row) for row in rows]
    latencies = [float(fabric.latency(*(np.array([end]) for end in row[1:]))[0]) for row in rows]
    line = pair_line(schedule, fabric)
    assert line.rate == pytest.approx(len(rows) / sum(1 / rate for rate in rates))
    assert line.latency == pytest.approx(np.mean(latencies)) and line.message == schedule.chunk_nbytes
    seconds = [latency + line.message / rate for latency, rate in zip(latencies, rates, strict=True)]
    others = [abs(each - line.seconds) > 1e-3 * each for each in seconds]
    assert line.spread == pytest.approx(np.mean(others))


def _rate(fabric: Any, schedule: Any, rows: list[Any], row: Any) -> Any:
    step, source, destination, _ = row
    if fabric.exclusive:
        same = [place for place, other in enumerate(rows) if other[:3] == row[:3]]
        held = {int(schedule.lightpath[place]): int(schedule.wavelength_count[place]) for place in same}
        return float(sum(held.values()) * fabric.channel_bandwidth)

    def links(other: Any) -> set[int]:
        path = fabric.path(*(np.array([end]) for end in other[1:])).ravel()
        return {int(link) for link in path if link >= 0}

    now = [other for other in rows if other[0] == step]
    own = sum(other[1:3] == (source, destination) for other in now)
    width = fabric.link_bandwidth()
    return min(float(width[link]) * own / sum(link in links(other) for other in now) for link in links(row))


def test_a_schedule_without_rows_sends_at_any_rate() -> None:
    schedule = build(find("ring"), Collective("all-gather", 4, 4e6), PacketSwitch(ranks=4))
    none = schedule.with_columns({name: column[:0] for name, column in schedule.columns().items()})
    assert pair_line(none, PacketSwitch(ranks=4)) == Line(np.inf, 0.0, 0.0)


ONE, TWO = Line(1e9, 1e-6, 1e6), Line(2e9, 2e-6, 1e6)


@pytest.mark.parametrize(
    ("sizes", "lines", "around", "topology", "ranks"),
    [
        ([("tensor", 4), ("data", 2)], {"tensor": ONE, "data": ONE}, False, ["FullyConnected"], [8]),
        ([("tensor", 4), ("data", 2)], {"tensor": ONE, "data": ONE}, True, ["Ring"], [8]),
        ([("tensor", 1), ("data", 2)], {"data": ONE}, True, ["FullyConnected"], [2]),
        ([("tensor", 1), ("data", 3)], {"data": ONE}, True, ["Ring"], [3]),
        ([("tensor", 4), ("data", 2)], {"data": ONE}, False, ["FullyConnected"], [8]),
        ([("tensor", 4), ("data", 2)], {"tensor": ONE, "data": TWO}, True, ["FullyConnected"] * 2, [4, 2]),
        ([("tensor", 4), ("pipe", 3), ("data", 1)], {"tensor": ONE, "pipe": TWO, "data": ONE}, False,
         ["FullyConnected"] * 2, [4, 3]),
        ([("tensor", 1), ("data", 1)], {}, True, ["FullyConnected"], [1]),
    ],
)  # fmt: skip
def test_a_network_has_a_dimension_for_each_axis_of_ranks_with_a_rate_of_its_own(
    sizes: list[tuple[str, int]], lines: dict[str, Line], around: bool, topology: list[str], ranks: list[int]
) -> None:
    network, notes = network_of(sizes, {name: [(1e6, line)] for name, line in lines.items()}, around=around)
    assert [each.topology for each in network.dimensions] == topology
    assert [each.ranks for each in network.dimensions] == ranks
    assert bool(notes) is (len(topology) > 1)
    several = [lines[name] for name, count in sizes if count > 1 and name in lines]
    if len(topology) > 1:
        assert [each.line for each in network.dimensions] == several
    elif several:
        assert network.dimensions[0].line == several[0]
    else:
        assert network.dimensions[0].line == Line(1 << 30, 0.0, 0.0)


def test_an_axis_has_the_mean_rate_of_all_bytes_and_the_mean_latency_of_all_messages() -> None:
    """Three megabytes in one message each, and one in a hundred."""
    lines = [(3e6, Line(1e9, 1e-6, 3e6)), (1e6, Line(2e9, 5e-6, 1e4))]
    network, notes = network_of([("data", 2)], {"data": lines}, around=False)
    (only,) = network.dimensions
    assert only.line.rate == pytest.approx(4e6 / (3e-3 + 0.5e-3))
    assert only.line.latency == pytest.approx((1e-6 + 100 * 5e-6) / 101)
    assert only.line.message == (3e6 + 1e4) / 2
    (note,) = notes
    assert note.startswith("data: messages between pairs of ranks take longer or shorter")
    assert "(means of a collective: 8 Gb/s to 16 Gb/s, 1 µs to 5 µs)" in note
    alike = network_of([("data", 2)], {"data": lines[:1]}, around=False)
    assert not alike[1] and alike[0].dimensions[0].line == lines[0][1]
    spread = network_of([("data", 2)], {"data": [(3e6, lines[0][1]._replace(spread=0.5))]}, around=False)
    assert len(spread[1]) == 1
    nothing = network_of([("data", 2)], {"data": [(1e6, Line(1e9, 3e-6, 0.0))]}, around=False)
    assert nothing[0].dimensions[0].line.latency == pytest.approx(3e-6), "messages of no bytes are no reason for none"


def test_a_network_is_written_in_gib_and_nanoseconds() -> None:
    network = AnalyticalNetwork((Dimension("Ring", 4, ONE), Dimension("FullyConnected", 2, TWO)))
    assert network.backend == "Congestion_Unaware"
    assert AnalyticalNetwork(network.dimensions[:1]).backend == "Congestion_Aware"
    text = network.to_yaml()
    assert text.startswith("#") and text.endswith("]\n")
    assert yaml.safe_load(text) == {
        "topology": ["Ring", "FullyConnected"],
        "npus_count": [4, 2],
        "bandwidth": [pytest.approx(1e9 / 2**30), pytest.approx(2e9 / 2**30)],
        "latency": [pytest.approx(1e3), pytest.approx(2e3)],
    }


def test_messages_go_around_where_all_ranks_exchange_with_neighbours_by_schedules() -> None:
    fabric = PacketSwitch(ranks=6)

    def carriers(*uses: tuple[str, int]) -> dict[CollectiveUse, CarriedCollective]:
        """By the name of an algorithm, or of none, and the ranks that exchange."""
        found = {}
        for number, (name, ranks) in enumerate(uses):
            schedule = build(find(name), Collective("all-gather", 6, 6e6), fabric) if name else None
            use = CollectiveUse("data", "all-gather", 1e6 * number, ranks, 1)
            found[use] = CarriedCollective(name, 1.0, ONE, schedule, fabric if name else None)
        return found

    assert goes_around(carriers(("ring", 6)), 6) and goes_around(carriers(("ring", 6), ("ring", 6)), 6)
    for others in ([("one-stage", 6)], [("ring", 6), ("one-stage", 6)], [("ring", 3)], [("", 6)], []):
        assert not goes_around(carriers(*others), 6)
