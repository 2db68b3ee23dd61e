"""Instances for a bandwidth, and what all of them need."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import InputError
from lightloom.machines.reducers import capacity as capacities
from lightloom.machines.reducers.built import Averaging
from lightloom.machines.reducers.capacity import (
    capacity,
    instance_bandwidth,
    instances_for,
    most_wavelengths,
)
from lightloom.machines.reducers.constants import published
from lightloom.machines.reducers.rivals import Rival, Setting
from lightloom.photonics.chip.wavelengths import spacing_in_metres

CLAIMED = 6.4e12 / 8
"""Bytes a second of a server of OptINC."""


def test_one_instance_carries_a_sixteenth_of_what_is_claimed() -> None:
    assert instance_bandwidth(8, 50e9) * 8 == pytest.approx(0.4e12)
    assert instances_for(CLAIMED, 8, 50e9) == 16


@settings(max_examples=25, deadline=None)
@given(st.floats(1e6, 1e13), st.integers(1, 32), st.floats(1e9, 1e12))
def test_instances_carry_the_bandwidth_and_one_fewer_does_not(bandwidth: float, bits: int, rate: float) -> None:
    count, each = instances_for(bandwidth, bits, rate), instance_bandwidth(bits, rate)
    assert count == max(1, ceil(bandwidth / each * (1 - 1e-12)))
    assert count * each >= bandwidth * (1 - 1e-9) > (count - 1) * each * (1 - 1e-9)


def test_everything_but_latency_grows_with_the_bandwidth() -> None:
    one, many = (capacity(Averaging(reducer="row-gain-network"), 4, bandwidth) for bandwidth in (CLAIMED / 16, CLAIMED))
    assert (one.instances, many.instances, one.lanes, many.lanes) == (1, 16, 4, 64)
    assert one.total is not None and many.total is not None and one.area is not None and many.low is not None
    assert many.total == pytest.approx(16 * one.total) and many.area == pytest.approx(16 * one.area)
    assert many.latency == one.latency
    assert many.low < many.total < (many.high or 0)


def test_half_the_symbols_a_second_take_twice_the_instances() -> None:
    """Of 50 GBd where no rate is stated."""
    counts = {
        rate: capacity(Averaging(reducer="reducer-asic", symbol_rate=rate), 4, CLAIMED).instances
        for rate in (None, 25e9, 50e9, 100e9)
    }
    assert counts == {None: 16, 25e9: 32, 50e9: 16, 100e9: 8}


def test_wavelengths_share_heaters_and_area_alone() -> None:
    alone, shared = (
        capacity(Averaging(reducer="row-gain-network", wavelengths=number), 4, CLAIMED) for number in (1, 5)
    )
    assert (alone.meshes, shared.meshes) == (16, 4)
    heaters = [each.watts["heaters"] or 0.0 for each in (alone, shared)]
    assert heaters[1] == pytest.approx(heaters[0] / 4)
    assert alone.area is not None and shared.area == pytest.approx(alone.area / 4)
    assert {**shared.watts, "heaters": 0} == {**alone.watts, "heaters": 0}


def test_wavelengths_lie_within_the_window_of_the_meshes() -> None:
    assert most_wavelengths(4, 8) > most_wavelengths(8, 8) > most_wavelengths(16, 8, 4) == 1
    assert most_wavelengths(4, 8, spacing=50e9) > most_wavelengths(4, 8)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: capacity(Averaging(reducer="abacus"), 4, CLAIMED), "unknown reducer 'abacus'"),
        (lambda: capacity(Averaging(reducer="digit-sum"), 16, CLAIMED), "digit-sum for 16 servers: no light suffices"),
        (lambda: capacity(Averaging(reducer="row-gain-network"), 17, CLAIMED), "more than 16 servers"),
        (lambda: capacity(Averaging(reducer="row-gain-network"), 4, 0.0), "bandwidth = 0.0"),
        (
            lambda: capacity(Averaging(reducer="row-gain-network", wavelengths=99), 4, CLAIMED),
            "wavelengths = 99: expected at most",
        ),
        (lambda: capacity(Averaging(reducer="digit-sum", wavelengths=2), 4, CLAIMED), "digit-sum has no mesh"),
        (lambda: capacity(Averaging(reducer="reducer-asic", symbol_rate=1.0), 4, CLAIMED), "symbol_rate"),
        (lambda: instances_for(CLAIMED, 8, float("inf")), "symbol_rate"),
    ],
)
def test_what_cannot_be_is_one_line(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        call()  # type: ignore[operator]
    assert "\n" not in str(caught.value)


def test_ranges_leave_five_of_a_hundred_draws_at_either_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws whose lasers take 1 to 100 pJ a bit; 4 servers of 8 bits draw 1.6 W for each pJ and instance."""

    def rival(setting: Setting, values: Mapping[str, float]) -> Any:
        each = values.get("draw", 50.0) * 1e-12
        costs: dict[str, Any] = {"energy": {"lasers": each, "heaters": 0.0}, "latency": {"logic": 2e-9, "way": 3e-9}}
        return Rival(name="reducer-asic", title="", launched=0.0, lanes=3, limits=("dim",), needs=("light",), **costs)

    monkeypatch.setattr(capacities, "RIVALS", {"reducer-asic": rival})
    for lit in (True, False):
        draws = [{"draw": float(1 + 37 * number % 100) if lit or number % 10 else inf} for number in range(100)]
        monkeypatch.setattr(capacities, "drawn", lambda chosen, count, draws=draws: draws[:count])
        found = capacity(Averaging(reducer="reducer-asic"), 4, 1.1 * 8 * 50e9 / 8)
        assert (found.instances, found.lanes, found.meshes, found.area, found.levels) == (2, 6, 0, 0.0, 1)
        assert found.watts == pytest.approx({"lasers": 2 * 1.6 * 50, "heaters": 0.0})
        assert found.high == (pytest.approx(2 * 1.6 * 95) if lit else None)
        if lit:
            assert found.low == pytest.approx(2 * 1.6 * 6)
    assert (found.latency, found.limits, found.needs) == (5e-9, ("dim",), ("light",))
    assert found.total == pytest.approx(2 * 1.6 * 50)
    assert found.assumed == sum(constant.assumed for constant in published().values()) > 0


@pytest.mark.parametrize(("spacings", "count"), [(0.0, 1), (0.49, 1), (0.5, 2), (0.99, 2), (1.0, 3), (7.6, 16)])
def test_wavelengths_are_one_more_than_the_spacings_on_both_sides(
    monkeypatch: pytest.MonkeyPatch, spacings: float, count: int
) -> None:
    metres = spacing_in_metres(100e9)
    monkeypatch.setattr(capacities, "network_design", lambda *_: SimpleNamespace(window=spacings * metres))
    assert most_wavelengths(4, 8) == count
