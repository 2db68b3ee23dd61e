"""Links in watts: an ideal one averages exactly, and each part errs as its law says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from lightloom.core.arrays import Ints
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import FunctionArguments
from lightloom.photonics.devices import amplifier_noise
from lightloom.photonics.link.settings import (
    PARTS,
    Link,
    erring,
    ideal,
    only,
    without,
)
from lightloom.photonics.link.simulate import (
    Chip,
    FabricatedLink,
    LinkAverager,
    Senders,
    design_chip,
    emitted_noise,
    homodyne_noise,
    light,
    modulate,
)
from lightloom.photonics.link.word_errors import contributions, enlarged, word_errors

IDEAL = ideal(Link())


def chip_of(servers: int, bits: int, nonlinearity: str = "clipped", rounding: str = "floor") -> Chip:
    network = build(servers, bits, nonlinearity=nonlinearity, rounding=rounding).network  # type: ignore[arg-type]
    arguments = FunctionArguments(servers=servers, bits=bits, rounding=rounding)  # type: ignore[arg-type]
    return design_chip(network, arguments)


@pytest.fixture(scope="module")
def chip() -> Chip:
    return chip_of(2, 4)


def all_words(servers: int, bits: int) -> Ints:
    return np.indices((1 << bits,) * servers).reshape(servers, -1)


@pytest.mark.parametrize(
    ("servers", "bits", "nonlinearity", "rounding", "gain"),
    [
        (2, 4, "clipped", "floor", "electrical"),
        (2, 4, "clipped", "half-up", "optical"),
        (3, 3, "relu", "floor", "electrical"),
        (4, 2, "relu", "half-up", "optical"),
    ],
)
def test_ideal_links_average_exactly(servers: int, bits: int, nonlinearity: str, rounding: str, gain: str) -> None:
    chip = chip_of(servers, bits, nonlinearity, rounding)
    codes = all_words(servers, bits)
    received = FabricatedLink(chip, replace(IDEAL, gain=gain)).receive(codes, np.random.default_rng(0))  # type: ignore[arg-type]
    offset = servers // 2 if rounding == "half-up" else 0
    assert (received == (codes.sum(axis=0) + offset) // servers).all()


def test_limiting_units_average_exactly(chip: Chip) -> None:
    errors = word_errors(chip, replace(IDEAL, unit="limiting"), words=2000, fabrications=1)
    assert errors.rate == 0 and errors.interval[1] < 2e-3


def test_links_without_a_part_differ_in_nothing_else() -> None:
    link = Link(gain="optical", modulation="intensity")
    assert set(erring(link)) == set(PARTS)
    for part in PARTS:
        assert without(only(link, part), part) == ideal(link)
    assert "amplifier noise" not in erring(Link()) and erring(IDEAL) == []


def test_noise_of_a_detector_is_that_of_its_currents() -> None:
    link = replace(IDEAL, shot_noise=True, noise_density=12.86e-12, full_scale=2e-3, local_oscillator=1e-3)
    current = np.sqrt((2 * 1.602176634e-19 * 1e-3 + 12.86e-12**2) * 35e9)
    assert homodyne_noise(link) == pytest.approx(current / (2 * np.sqrt(1e-3 * 2e-3)))
    assert homodyne_noise(link, 10.0) == pytest.approx(homodyne_noise(replace(link, full_scale=2e-4)))


def test_noise_of_amplifiers_follows_their_gain() -> None:
    link = replace(IDEAL, gain="optical", amplifier_noise=True)
    emitted = emitted_noise(link, np.array([0.5, 1.0, 10.0]))
    assert emitted[:2].tolist() == [0.0, 0.0]
    assert emitted[2] == pytest.approx(amplifier_noise(100.0, 6.0, 50e9, 3e-3))
    assert not emitted_noise(replace(link, gain="electrical"), np.array([10.0])).any()


def test_wrong_words_are_as_many_as_the_noise_of_the_receivers_makes(chip: Chip) -> None:
    """Two digits at two servers; the last one is sent as 0.75 for a sum of 2: half sums lie at the threshold."""
    link = replace(IDEAL, noise_density=12.86e-12, full_scale=1e3, path_loss_db=85.0)
    made = FabricatedLink(chip, link)
    deviation = chip.output_scale * float(made.exit_noise[0, 0])
    high, low = 2 * ndtr(-0.5 / deviation), ndtr(-0.25 / deviation) + ndtr(-0.75 / deviation)
    assert 1e-3 < low < 0.1
    wrong = (made.receive(np.full((2, 20_000), 5), np.random.default_rng(1)) != 5).any(axis=0).mean()
    assert wrong == pytest.approx(1 - (1 - high) ** 2 * (1 - low) ** 2, rel=0.1)


def test_skewed_symbols_carry_their_neighbours() -> None:
    senders = Senders(np.ones((2, 1)), np.array([[0.5], [-0.5]]))
    lanes = modulate(np.array([[3, 0, 0], [0, 0, 3]]), 2, IDEAL, senders, np.random.default_rng(0))
    assert lanes[0].round(6).tolist() == [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]] and not lanes[1].any()


def test_every_lane_of_a_server_errs_on_its_own() -> None:
    """One laser, modulator and fibre a lane: powers, phases and times of a server's lanes are not alike."""
    link = replace(IDEAL, power_error=0.1, skew=0.1, phase_lock=0.3, rin_db=-120.0)
    senders = Senders.draw(3, 4, link, np.random.default_rng(0))
    for errors in (senders.amplitude, senders.skew):
        assert errors.shape == (3, 4) and len(np.unique(errors)) == 12
    still = replace(link, power_error=0.0, skew=0.0)
    lanes = modulate(
        np.full((3, 4000), 255), 8, still, Senders.draw(3, 4, still, np.random.default_rng(0)), np.random.default_rng(1)
    )
    for errors in (np.hypot(*lanes), np.arctan2(lanes[1], lanes[0])):
        assert np.abs(np.corrcoef(errors) - np.eye(12)).max() < 0.1


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("rin_db", (-145.0, -130.0, -120.0)),
        ("phase_lock", (0.1, 0.3, 0.6)),
        ("power_error", (0.05, 0.2, 0.5)),
        ("polarisation", (0.1, 0.5, 1.0)),
        ("skew", (0.05, 0.15, 0.4)),
        ("noise_density", (1e-11, 1e-9, 1e-8)),
        ("phase_error", (0.01, 0.05, 0.2)),
        ("coupler_error", (0.01, 0.1, 0.3)),
        ("loss_spread_db", (0.1, 0.5, 2.0)),
        ("crossing_loss_db", (0.05, 0.5, 2.0)),
        ("thermal_crosstalk", (1e-3, 1e-2, 0.1)),
        ("dac_bits", (8, 5, 3)),
        ("bias_error", (0.01, 0.1, 0.5)),
        ("gain_error", (0.01, 0.1, 0.5)),
        ("threshold_error", (0.05, 0.3, 1.0)),
    ],
)
def test_no_error_makes_a_link_more_accurate(chip: Chip, field: str, values: tuple[float, ...]) -> None:
    """Words and fabrications are the same draws, so that the shares of wrong words can be compared."""
    links = [IDEAL, *(replace(IDEAL, **{field: value}) for value in values)]  # type: ignore[arg-type]
    rates = [word_errors(chip, link, words=1000, fabrications=4).rate for link in links]
    assert rates[0] == 0 and rates == sorted(rates) and rates[-1] > 0.01


def test_defaults_are_no_ideal() -> None:
    """Whatever may err errs by default, but what is a choice of devices."""
    choices = {"modulation", "amplifier noise"}
    assert set(erring(Link())) == set(PARTS) - choices
    assert all(getattr(Link(), name) for name in ("dac_bits", "thermal_crosstalk", "crossing_loss_db"))


def test_a_phase_turns_light_into_the_other_quadrature() -> None:
    link = replace(IDEAL, phase_lock=0.3)
    lanes = modulate(
        np.full((2, 4000), 3), 2, link, Senders(np.ones((2, 1)), np.zeros((2, 1))), np.random.default_rng(0)
    )
    assert np.hypot(*lanes) == pytest.approx(np.ones((2, 4000)), abs=1e-6)
    assert np.arcsin(lanes[1]).std() == pytest.approx(0.3, rel=0.03)


def test_uniform_loss_costs_noise_and_is_no_error(chip: Chip) -> None:
    errors = word_errors(chip, replace(IDEAL, loss_db=0.2), words=1000, fabrications=1)
    assert errors.rate == 0
    noise = [FabricatedLink(chip, replace(Link(), phase_error=0.0, loss_db=x)).layers[0].noise for x in (0.0, 1.0)]
    assert (noise[1] > 1.3 * noise[0]).all()
    lossy = word_errors(chip, replace(IDEAL, loss_db=1.0, calibration="none"), words=1000, fabrications=1)
    assert lossy.rate > 0.1


def test_phase_errors_of_servers_are_paired_with_those_of_meshes(chip: Chip) -> None:
    """A part that is made ideal leaves the draws of all others as they were."""
    link = Link()
    one, other = FabricatedLink(chip, link), FabricatedLink(chip, without(link, "server power"))
    assert np.array_equal(one.layers[0].matrix, other.layers[0].matrix)
    assert not np.array_equal(one.senders.amplitude, other.senders.amplitude)


def test_the_weakest_part_is_named(chip: Chip) -> None:
    link = replace(Link(), phase_lock=0.6)
    compared = contributions(
        chip, link, word_errors(chip, link, words=1000, fabrications=2), words=1000, fabrications=2
    )
    assert compared["weakest_part"] == "phase lock" and compared["errors_enlarged_by"] == 1
    assert compared["parts"][0]["alone"]["word_error_rate"] > 0.01


def test_errors_are_enlarged_where_hardly_a_word_is_wrong(chip: Chip) -> None:
    link = replace(IDEAL, phase_lock=0.05)
    compared = contributions(chip, link, word_errors(chip, link, words=500, fabrications=1), words=500, fabrications=1)
    assert compared["errors_enlarged_by"] > 1 and {row["part"] for row in compared["parts"]} == {"phase lock"}
    assert enlarged(Link(), 2.0).full_scale == Link().full_scale / 4


@pytest.mark.parametrize(("bits", "factor", "left"), [(8, 2.0, 7), (8, 4.0, 6), (1, 4.0, 1), (0, 4.0, 0)])
def test_settings_of_phases_lose_the_bits_by_which_errors_grow(bits: int, factor: float, left: int) -> None:
    assert enlarged(Link(dac_bits=bits), factor).dac_bits == left


def test_light_is_counted(chip: Chip) -> None:
    errors = word_errors(chip, Link(), words=200, fabrications=1)
    lit = light(chip, Link(), errors.peaks)
    assert lit["full_scale_at_lane_watts"] == pytest.approx(1.5e-3)
    assert lit["laser_per_server_lane_watts"] == pytest.approx(15e-3)
    assert lit["server_lasers_watts"] == pytest.approx(4 * 15e-3)
    optical = Link(gain="optical", full_scale=0.1)
    beyond = light(chip, optical, word_errors(chip, optical, words=200, fabrications=1).peaks)
    assert beyond["beyond_optical_amplifiers"] and beyond["peak_watts"] > 0.1


def test_averagers_of_one_chip_differ_in_noise_alone() -> None:
    network, arguments = build(2, 4, nonlinearity="clipped").network, FunctionArguments(servers=2, bits=4)
    codes = all_words(2, 4).astype(np.uint8)
    one, other = (LinkAverager(network, arguments, Link(), seed) for seed in (0, 1))
    assert np.array_equal(one.made.layers[0].matrix, other.made.layers[0].matrix)
    assert np.array_equal(one(codes), codes.sum(axis=0, dtype=int) // 2)
