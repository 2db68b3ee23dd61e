"""Link budgets: power walked link by link, what closes and what does not, errors against the Q factor."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.machines.fabrics.link_budget import SOURCES, LinkBudget, dbm

_LOSSES = ("coupler_loss", "modulator_loss", "drop_loss", "tap_loss", "margin", "ring_loss")

budgets = st.builds(
    LinkBudget,
    wavelengths=st.integers(1, 128),
    laser_power=st.floats(1e-4, 1.0),
    coupler_loss=st.floats(0, 3),
    tap_loss=st.floats(0, 1),
    drop_loss=st.floats(0, 3),
    node_loss=st.none() | st.floats(0.05, 4),
    extinction_ratio=st.floats(3, 20),
    error_rate=st.floats(1e-15, 1e-3),
)


def linear(decibels: float) -> float:
    return 10 ** (decibels / 10)


def _walk(light: LinkBudget, watts: float, links: int, taps: int) -> tuple[list[float], float]:
    """Watts that every tap takes at its photodiode, each taking what is needed but the last, which takes the rest; and
    what is left over when the light ends, all in the order of the light."""
    wanted = light.sensitivity * linear(light.margin)
    power, taken = watts / linear(light.sending_loss), []
    for node in range(1, links + 1):
        power /= linear(light.link_loss)
        if node == links:
            taken.append(power / linear(light.receiving_loss))
            break
        if node > links - taps:
            power /= linear(light.tap_loss)
            taken.append(wanted)
            power -= wanted * linear(light.receiving_loss)
        power /= linear(light.passing_loss)
    return taken, wanted


@given(budgets, st.integers(1, 12), st.integers(0, 20))
def test_the_sum_over_taps_is_the_power_walked_from_node_to_node(light: LinkBudget, taps: int, before: int) -> None:
    links = taps + before
    watts = 1e-3 * linear(light.needed_dbm(links, taps))
    taken, wanted = _walk(light, watts, links, taps)
    assert len(taken) == taps
    assert taken == pytest.approx([wanted] * taps, rel=1e-6)


@given(budgets, st.integers(2, 16))
def test_equal_taps_need_less_than_splitting_and_all_excess_losses(light: LinkBudget, taps: int) -> None:
    passing = (taps - 1) * (light.passing_loss + light.link_loss)
    bound = light.needed_dbm(1) + 10 * math.log10(taps) + taps * light.tap_loss + passing
    assert light.needed_dbm(taps, taps) <= bound + 1e-9


@given(budgets, st.integers(1, 12))
def test_the_reach_closes_and_one_link_more_does_not(light: LinkBudget, taps: int) -> None:
    reach = light.reach(taps)
    assert reach is not None
    assert reach == 0 or light.closes(reach, taps)
    assert not light.closes(reach + 1, taps)


@given(budgets, st.integers(1, 12), st.sampled_from(_LOSSES), st.floats(0.01, 3))
def test_more_loss_never_reaches_farther(light: LinkBudget, taps: int, name: str, more: float) -> None:
    worse = light.model_copy(update={name: getattr(light, name) + more})
    assert worse.needed_dbm(12, taps) >= light.needed_dbm(12, taps)
    before, after = light.reach(taps), worse.reach(taps)
    assert before is not None
    assert after is not None
    assert after <= before
    assert light.needed_dbm(12, taps) <= light.needed_dbm(13, taps)
    assert taps == 12 or light.needed_dbm(12, taps) < light.needed_dbm(12, taps + 1)


@given(budgets, st.integers(1, 8), st.data())
def test_taps_at_the_end_are_the_worst(light: LinkBudget, taps: int, data: Any) -> None:
    links = taps + data.draw(st.integers(1, 8))
    places = [*sorted(data.draw(st.sets(st.integers(1, links - 1), min_size=taps - 1, max_size=taps - 1))), links]
    watts = 1e-3 * linear(light.needed_dbm(links, taps))
    wanted = light.sensitivity * linear(light.margin)
    power = watts / linear(light.sending_loss)
    for node in range(1, links + 1):
        power /= linear(light.link_loss)
        if node in places[:-1]:
            power = power / linear(light.tap_loss) - wanted * linear(light.receiving_loss)
        if node < links:
            power /= linear(light.passing_loss)
    assert power / linear(light.receiving_loss) >= wanted * (1 - 1e-6)


@given(budgets, st.integers(1, 10), st.integers(0, 10))
def test_levels_along_the_path_follow_from_one_another(light: LinkBudget, taps: int, before: int) -> None:
    links = taps + before
    level = light.levels(links, taps)
    first = light.laser_dbm - light.sending_loss - light.link_loss
    assert level[0] == pytest.approx(first, abs=1e-6)
    take = linear(level[-1])
    for node in range(links - 1):
        left = linear(level[node])
        if node >= links - taps:
            left = left / linear(light.tap_loss) - take
        assert 10 * math.log10(left) - light.passing_loss - light.link_loss == pytest.approx(level[node + 1], abs=1e-6)


@given(budgets)
def test_the_sensitivity_has_just_the_errors_that_are_allowed(light: LinkBudget) -> None:
    assert light.errors(light.sensitivity) == pytest.approx(light.error_rate, rel=1e-6)
    assert light.errors(light.sensitivity * 1.1) < light.error_rate < light.errors(light.sensitivity / 1.1)


def test_without_shot_noise_the_sensitivity_is_that_of_textbooks() -> None:
    light = LinkBudget(extinction_ratio=100, noise_density=1e-9)
    thermal = 1e-9 * math.sqrt(0.7 * 40e9)
    q = -NormalDist().inv_cdf(light.error_rate)
    assert light.sensitivity == pytest.approx(q * thermal / light.responsivity, rel=1e-3)


@given(budgets, st.integers(1, 30), st.integers(1, 10))
def test_what_closes_has_no_more_errors_than_allowed(light: LinkBudget, links: int, taps: int) -> None:
    served = min(links, taps)
    assert light.closes(links, taps) == (light.errors_over(links, served) <= light.error_rate * (1 + 1e-9))


def test_lossless_light_reaches_without_limit() -> None:
    light = LinkBudget(node_loss=0, fibre_loss=0, tap_loss=0)
    assert light.reach() is None
    assert light.most_taps() == int(linear(light.laser_dbm - light.needed_dbm(1)))


def test_a_nodes_loss_is_its_couplers_and_all_its_rings() -> None:
    assert LinkBudget().passing_loss == pytest.approx(2 * 1.0 + 2 * 64 * 0.01)
    assert LinkBudget(node_loss=0.3).passing_loss == 0.3


def test_no_tap_without_its_link() -> None:
    with pytest.raises(ValueError, match="3 taps over 2 links"):
        LinkBudget().needed_dbm(2, 3)


def test_every_default_says_where_it_comes_from() -> None:
    assert set(SOURCES) == set(LinkBudget.model_fields)
    assert dbm(1e-3) == 0


def test_every_default_is_the_number_of_its_source() -> None:
    light = LinkBudget()
    stated = {
        "wavelengths": f"{light.wavelengths} wavelengths",
        "wavelength_bandwidth": f"{8e-9 * light.wavelength_bandwidth:g} Gb/s",
        "laser_power": f"{1e3 * 64 * light.laser_power:g} mW, over 64",
        "coupler_loss": f": {light.coupler_loss:g} dB",
        "modulator_loss": f": {light.modulator_loss:g} dB",
        "extinction_ratio": f": {light.extinction_ratio:g} dB",
        "ring_loss": f": {light.ring_loss:g} dB",
        "drop_loss": f": {light.drop_loss:g} dB",
        "tap_loss": f"below {light.tap_loss:g} dB",
        "fibre_loss": f"{1e3 * light.fibre_loss:g} dB/km",
        "fibre_length": f": {light.fibre_length:g} m",
        "responsivity": f": {light.responsivity:g} A/W",
        "noise_density": f": {1e12 * light.noise_density:g} pA",
        "noise_bandwidth": f": {light.noise_bandwidth:g} of the bit rate",
        "error_rate": f": {light.error_rate:g},",
        "margin": f": {light.margin:g} dB",
    }
    assert light.node_loss is None and stated.keys() == SOURCES.keys() - {"node_loss"}
    assert [name for name, number in stated.items() if number not in SOURCES[name]] == []
