"""Lines below prices: never above, and no lower than they are drawn to be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from lightloom.planning.pricing.price_lines import (
    _CHORD_SIZES,
    _DENSE_SIZES,
    PriceLine,
    chords,
    exchange_line,
    price_line,
    proved_line,
    sized_line,
    steps_between,
)
from lightloom.planning.pricing.schedule_prices import LINE_SIZES

SIZES = np.array([0.0, 1.0, 4095.0, 4096.0, 1e5, 3e7, 2e10, 2.0**37])
TIMES = st.floats(1e-7, 1e-2)
RATES = st.floats(1e-13, 1e-9)


def _price(pieces: list[tuple[float, float]], setup: float = 0.0, hidden: float = 0.0) -> Any:
    """A verified schedule's price: the maximum of linear functions, and circuits set up before."""

    def price(_kind: str, nbytes: float) -> Any:
        time = max(fixed + rate * nbytes for fixed, rate in pieces)
        return SimpleNamespace(cost=SimpleNamespace(time=time + setup, setup=setup, repeated_time=time + hidden))

    return price


@given(TIMES, RATES, TIMES)
def test_the_line_of_a_linear_price_is_the_price(fixed: float, rate: float, setup: float) -> None:
    """But for what rounding of the largest sizes leaves."""
    expected = fixed + rate * SIZES
    hidden = price_line(_price([(fixed, rate)], setup), "all-reduce", hidden_setup=True)
    assert hidden(SIZES) == pytest.approx(expected, rel=2e-5)
    stays = price_line(_price([(fixed, rate)], setup, hidden=setup / 2), "all-reduce", hidden_setup=False)
    assert stays(SIZES) == pytest.approx(expected + setup / 2, rel=2e-5)


@given(st.lists(st.tuples(TIMES, RATES), min_size=1, max_size=4))
def test_lines_lie_below_convex_prices_and_meet_them_where_they_are_drawn(pieces: list[tuple[float, float]]) -> None:
    line = price_line(_price(pieces), "all-reduce", hidden_setup=True)
    prices = np.array([_price(pieces)("", size).cost.time for size in SIZES])
    assert (line(SIZES) <= prices * (1 + 1e-9)).all()
    drawn = np.array(LINE_SIZES[:3])
    assert line(drawn) == pytest.approx([_price(pieces)("", size).cost.time for size in drawn], rel=1e-9)


@pytest.mark.parametrize("seconds", [np.sqrt, lambda nbytes: np.minimum(1e-9 * nbytes, 1e-4 + 1e-12 * nbytes)])
def test_chords_lie_below_concave_prices_and_meet_them_where_they_are_drawn(seconds: Any) -> None:
    between = np.geomspace(1.0, 4.0**20, 200)
    for met, ratio in ((np.array(_CHORD_SIZES), 4.0), (np.array(_DENSE_SIZES), 2.0**0.25)):
        drawn = chords(met, seconds(met))
        assert (drawn(between) <= seconds(between) * (1 + 1e-12)).all()
        assert drawn(met) == pytest.approx(seconds(met), rel=1e-9)
        steps = met[2:] / met[1:-1]
        assert steps == pytest.approx(np.full(len(steps), ratio))


def test_a_sized_line_takes_the_size_at_or_below() -> None:
    grid = [0.0, *(2.0 ** (place / 4) for place in range(12))]
    asked: list[float] = []

    def place_of(size: float) -> float:
        asked.append(size)
        return float(grid.index(size)) if size in grid else len(grid) - 1.0

    line = steps_between(place_of)
    for place, size in enumerate(grid):
        assert line(np.array([size]))[0] == place
        if place:
            assert line(np.array([size * 1.1]))[0] == place
    assert line(np.array([0.9, 1e9])).tolist() == [0.0, len(grid) - 1.0]
    assert len(asked) == len(set(asked)) == len(grid) + 1


@pytest.mark.parametrize("setup", [0.0, 3e-5])
def test_proved_lines_are_bounds_without_the_first_set_up(setup: float) -> None:
    fabric = CircuitSwitch(ranks=8, degree=7, bandwidth=1e9, reconfiguration_time=setup, hop_latency=1e-6)
    whole = 7 / 8 / (7 * fabric.channel_bandwidth)
    hop, sizes = fabric.neighbour_latency(), np.array([2.0**power for power in range(43)])
    line = proved_line("all-gather", fabric, "physical")
    assert line(SIZES) == pytest.approx(np.maximum(hop, whole * SIZES), rel=1e-6)
    sized = sized_line("all-gather", fabric, "physical")(sizes)
    assert sized == pytest.approx(hop + whole * sizes, rel=1e-6)
    switch = PacketSwitch(ranks=4, bandwidth=1e9, hop_latency=1e-6)
    line = proved_line("all-reduce", switch, "physical")
    assert line(np.array([0.0, 1e9])) == pytest.approx([switch.diameter_latency(), 1.5], rel=1e-6)


def test_an_exchange_is_bound_by_the_quickest_algorithm_of_each_phase_and_by_coding() -> None:
    first = (PriceLine(1.0, 0.0, 0.0, 0.0), chords((0.0, 10.0), (0.0, 20.0)))
    second = (steps_between(lambda _: 7.0),)
    line = exchange_line(((first, 0.5), (second, 1.0)), (3.0, 0.25), 4)
    # Half of the bytes in the first phase: their chord is the lower one up to one byte of the collective.
    assert line(np.array([0.4, 8.0])) == pytest.approx([(3.1 + 0.4 + 7) / 4, (3 + 2 + 1 + 7) / 4])
