"""Links in watts: an ideal one averages exactly, and each part errs as its law says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from lightloom.core.arrays import Ints
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import FunctionArguments
from lightloom.photonics.devices import amplifier_noise
from lightloom.photonics.link.settings import (
    AMPLIFIER_LIMIT,
    LARGEST_SWING,
    PARTS,
    RANGES,
    Link,
    erring,
    ideal,
    only,
    without,
)
from lightloom.photonics.link.simulate import (
    NEAR,
    Calibrated,
    Chip,
    FabricatedLink,
    LinkAverager,
    Senders,
    Statistics,
    Units,
    calibrated,
    calibrated_chip,
    design_chip,
    draw_words,
    emitted_noise,
    homodyne_noise,
    laser_noise,
    light,
    modulate,
    sent_on,
)
from lightloom.photonics.link.word_errors import FACTORS, WordErrors, contributions, enlarged, word_errors
from lightloom.photonics.meshes.mapping import positive
from lightloom.photonics.nonlinear import linear_height

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


LARGE = np.linspace(-0.5, 6.0, 66, dtype=np.float32)
"""Arguments from below 0 to beyond all ceilings."""


@pytest.mark.parametrize("ceiling", [0.5, 1.0, 4.0])
def test_units_end_at_their_ceilings_and_give_nothing_for_negative_arguments(ceiling: float) -> None:
    """Those that decide swing by half a wave; those that keep values give them nearly as they are."""
    arguments = np.stack([LARGE, LARGE])
    expected = np.clip(LARGE, 0, ceiling)
    units = Units(np.array([True, False]), np.full(2, ceiling, np.float32), saturates=True)
    assert units.transfer(arguments.copy(), replace(IDEAL, unit="clip")) == pytest.approx(np.stack([expected] * 2))
    decided, kept = units.transfer(arguments.copy(), replace(IDEAL, unit="limiting", swing=0.25))
    assert decided == pytest.approx(ceiling * np.sin(np.pi / 2 * expected / ceiling), abs=1e-6)
    assert abs(kept - expected).max() < 0.01 * ceiling and kept.max() < ceiling
    plain = Units(np.zeros(2, bool), np.full(2, ceiling, np.float32), saturates=False)
    assert plain.transfer(arguments.copy(), IDEAL) == pytest.approx(np.maximum(arguments, 0))


def test_modulators_at_null_send_both_signs_up_to_full_scale() -> None:
    fields = np.linspace(-3, 3, 61, dtype=np.float32)[None]
    limited = np.clip(fields, -1, 1)
    assert np.array_equal(sent_on(fields, replace(IDEAL, unit="clip")), limited)
    sent = sent_on(fields, replace(IDEAL, unit="limiting", swing=0.5))
    assert sent == pytest.approx(linear_height(0.5) * np.sin(0.5 * limited), abs=1e-6)


def test_factors_that_are_not_above_0_leave_what_they_scale() -> None:
    assert positive(np.array([-2.0, -0.5, 0.0, 1e-9, 0.5, 3.0])).tolist() == [1.0, 1.0, 1.0, 1e-9, 0.5, 3.0]


def test_words_are_half_of_them_near_and_all_codes_occur() -> None:
    codes = draw_words(3, 4, 20_000, np.random.default_rng(0))
    assert codes.shape == (3, 20_000) and set(codes.ravel().tolist()) == set(range(16))
    spread = np.ptp(codes, axis=0)
    assert set(spread[spread <= 2 * NEAR].tolist()) == set(range(2 * NEAR + 1))
    uniform = np.ptp(np.indices((16,) * 3).reshape(3, -1), axis=0)
    assert (spread > 2 * NEAR).mean() == pytest.approx((uniform > 2 * NEAR).mean() / 2, abs=0.01)
    wide = np.ptp(draw_words(2, 30, 500, np.random.default_rng(2)), axis=0)
    assert sorted(set(wide.tolist()))[: 2 * NEAR + 1] == list(range(2 * NEAR + 1))
    assert sorted(set(wide.tolist()))[2 * NEAR + 1] > 1000
    for bits in (1, 2):
        assert draw_words(2, bits, 500, np.random.default_rng(1)).max() == (1 << bits) - 1


@pytest.mark.parametrize("how", ["none", "rows", "levels", "words"])
def test_calibration_sets_what_it_says_and_no_more(how: Any) -> None:
    """Over known words, the error of a row has no mean, and the row's own part in it none of its variance."""
    rng = np.random.default_rng(5)
    target, designed = rng.normal(size=(3, 4)), np.array([1.0, 2.0, 4.0])
    passive = (target * rng.uniform(0.8, 1.2, (3, 4)) / designed[:, None]).astype(complex)
    inputs = rng.normal(size=(4, 4)) @ rng.normal(size=(4, 500)) + rng.normal(size=(4, 1))
    made = calibrated(passive, target, designed, Statistics(inputs.mean(axis=1), np.cov(inputs)), how)
    assert (made.levels != 1).any() == (how == "levels") and made.added.any() == (how == "words")
    assert np.array_equal(made.gains, designed) == (how == "none")
    error = target - made.gains[:, None] * passive.real
    along = made.gains[:, None] * passive.real
    if how == "rows":
        assert (error * along).sum(axis=1) == pytest.approx(np.zeros(3), abs=1e-9)
    if how == "words":
        assert (error @ inputs - made.added[:, None]).mean(axis=1) == pytest.approx(np.zeros(3), abs=1e-9)
        assert ((error @ np.cov(inputs)) * along).sum(axis=1) == pytest.approx(np.zeros(3), abs=1e-8)


@pytest.mark.parametrize("how", ["rows", "words"])
def test_rows_that_fit_no_positive_gain_keep_their_own(how: Any) -> None:
    target = np.array([[1.0, 2.0], [1.0, 2.0]])
    passive = np.array([[-1.0, -2.0], [0.0, 0.0]], complex)
    made = calibrated(passive, target, np.array([3.0, 5.0]), Statistics(np.ones(2), np.eye(2)), how)
    assert made.gains.tolist() == [3.0, 5.0]


def test_lasers_are_as_noisy_as_stated_and_never_below_darkness() -> None:
    still = laser_noise(replace(IDEAL, rin_db=None), (2, 3), np.random.default_rng(0))
    assert still.shape == (2, 3) and (still == 1).all()
    loud = replace(IDEAL, rin_db=-120.0, detector_bandwidth=1e10)
    powers = laser_noise(loud, (50_000,), np.random.default_rng(0)) ** 2
    assert powers.mean() == pytest.approx(1, abs=0.005) and powers.std() == pytest.approx(0.1, rel=0.02)
    assert laser_noise(replace(loud, rin_db=-90.0), (1000,), np.random.default_rng(0)).min() == 0


def test_lanes_are_at_most_a_symbol_early_or_late_and_their_powers_at_least_0() -> None:
    senders = Senders.draw(4, 50, replace(IDEAL, skew=1.0, power_error=2.0), np.random.default_rng(0))
    assert senders.skew.min() == -1 and senders.skew.max() == 1
    assert senders.amplitude.min() == 0 and senders.amplitude.max() > 1.5
    turned = Senders.draw(4, 500, replace(IDEAL, polarisation=0.3), np.random.default_rng(0)).amplitude
    assert turned.max() <= 1 and turned.mean() == pytest.approx(math.exp(-(0.3**2) / 2), abs=0.003)


def told(wrong: Callable[[Link], int]) -> Callable[..., WordErrors]:
    """Word errors as a function of the link says, of a thousand words each."""

    def word_errors(chip: Chip, link: Link, *, advance: Callable[[int], None], **_: int) -> WordErrors:
        advance(1)
        return counted(wrong(link))

    return word_errors


def counted(wrong: int) -> WordErrors:
    return WordErrors(wrong=np.array([wrong]), words=1000, split=np.array([0]), peaks={})


def test_parts_stand_in_the_order_of_what_they_save_then_of_what_they_do_alone(
    chip: Chip, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = replace(IDEAL, skew=0.1, phase_lock=0.2, gain_error=0.3, bias_error=0.4)
    without_it = {"skew": 70, "phase_lock": 60, "gain_error": 60, "bias_error": 80}
    alone = {"skew": 90, "phase_lock": 10, "gain_error": 20, "bias_error": 95}

    def wrong(tried: Link) -> int:
        left = [name for name in without_it if getattr(tried, name)]
        (gone,) = set(without_it) - set(left) if len(left) == 3 else ("",)
        return without_it[gone] if gone else alone[left[0]]

    monkeypatch.setattr("lightloom.photonics.link.word_errors.word_errors", told(wrong))
    done: list[int] = []
    compared = contributions(chip, link, counted(100), advance=done.append)
    assert [row["part"] for row in compared["parts"]] == ["gains", "phase lock", "skew", "biases"]
    assert [row["without"]["wrong_words"] for row in compared["parts"]] == [60, 60, 70, 80]
    assert [row["alone"]["wrong_words"] for row in compared["parts"]] == [20, 10, 90, 95]
    assert compared["weakest_part"] == "gains" and done == [1] * 8


@pytest.mark.parametrize(
    ("wrong", "factor", "tried", "weakest"),
    [(50, 1.0, 0, "skew"), (49, 1.25, 1, "skew"), (0, 10.0, 8, None), (4, 10.0, 8, None)],
)
def test_errors_grow_until_fifty_words_are_wrong(
    chip: Chip, monkeypatch: pytest.MonkeyPatch, wrong: int, factor: float, tried: int, weakest: str | None
) -> None:
    links: list[Link] = []

    def grown(link: Link) -> int:
        links.append(link)
        return round(wrong * link.skew / 0.1)

    monkeypatch.setattr("lightloom.photonics.link.word_errors.word_errors", told(grown))
    link = replace(IDEAL, skew=0.1)
    compared = contributions(chip, link, counted(wrong))
    assert compared["errors_enlarged_by"] == factor and compared["weakest_part"] == weakest
    assert compared["together"]["wrong_words"] == round(wrong * factor) and len(links) == tried + 2
    assert contributions(chip, IDEAL, counted(60))["weakest_part"] is None


def test_factors_of_errors_grow_from_1() -> None:
    assert FACTORS[0] == 1 and all(before < after for before, after in pairwise(FACTORS))


def test_enlarged_errors_stop_at_the_ends_of_their_ranges() -> None:
    larger = enlarged(Link(), 2.0)
    assert (larger.phase_lock, larger.skew, larger.loss_db) == (0.1, 0.06, 0.2)
    assert larger.swing == 0.5 and larger.noise_density == Link().noise_density
    assert larger.rin_db == pytest.approx(-150 + 20 * math.log10(2))
    assert enlarged(Link(rin_db=None), 2.0).rin_db is None
    most = Link(phase_lock=10.0, skew=9.0, full_scale=1e-15, rin_db=-81.0, thermal_crosstalk=0.4)
    stopped = enlarged(most, 4.0)
    assert enlarged(Link(), 10.0).swing == LARGEST_SWING
    for name in ("phase_lock", "skew", "thermal_crosstalk"):
        assert getattr(stopped, name) == RANGES[name][1]
    assert stopped.full_scale == 1e-15 and stopped.rin_db == -80.0 and stopped.swing == 1.0


def test_words_are_counted_in_blocks_and_over_all_fabrications(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightloom.photonics.link.word_errors._AT_ONCE", 300)
    link, done = replace(IDEAL, threshold_error=0.25), list[int]()
    errors = word_errors(chip, link, words=1000, fabrications=3, seed=4, advance=done.append)
    assert done == [1, 1, 1]
    assert errors.words == 1000 and errors.wrong.shape == errors.split.shape == (3,)
    assert (errors.split <= errors.wrong).all() and (errors.split > 0).all() and (errors.wrong < 1000).all()
    document = errors.to_json()
    assert document["words"] == 3000 and document["fabrications"] == 3
    assert document["wrong_words"] == errors.wrong.sum() and document["word_error_rate"] == errors.wrong.sum() / 3000
    assert document["worst_fabrication"] == errors.wrong.max() / 1000
    assert document["words_received_differently"] == errors.split.sum() and document["fabrications_all_right"] == 0
    assert word_errors(chip, IDEAL, words=10, fabrications=2).to_json()["fabrications_all_right"] == 2
    single = word_errors(chip, link, words=1000, fabrications=1, seed=4)
    assert single.wrong[0] == errors.wrong[0]
    assert all(errors.peaks[place] >= power for place, power in single.peaks.items())


def test_carriers_and_oscillators_are_those_of_the_units_that_there_are(chip: Chip) -> None:
    """Oscillators and carriers at every unit, and at the outputs where modulators send them on."""
    hidden, outputs = sum(len(each.decides) for each in chip.units), len(chip.mapped.layers.matrices[-1].gains)
    decided = sum(int(each.decides.sum()) for each in chip.units)
    assert 0 < decided < hidden
    peaks = {"meshes": 2.0, "amplifiers, a": 5.0, "amplifiers, b": 30.0}
    link = Link(full_scale=2e-3, local_oscillator=3e-3)
    for gain, more in (("electrical", outputs), ("optical", 0)):
        lit = light(chip, replace(link, gain=gain), peaks)  # type: ignore[arg-type]
        assert lit["oscillators_watts"] == pytest.approx((hidden + more) * 3e-3)
        kept = (hidden + more - decided) * linear_height(0.25) ** 2
        assert lit["carriers_watts"] == pytest.approx((decided + kept) * 2e-3)
        clipped = light(chip, replace(link, gain=gain, unit="clip"), peaks)  # type: ignore[arg-type]
        assert clipped["carriers_watts"] == pytest.approx((hidden + more) * 2e-3)
        raised = light(chip, replace(link, gain=gain), peaks, raised=2.0)  # type: ignore[arg-type]
        for name in ("carriers_watts", "laser_per_server_lane_watts", "full_scale_at_lane_watts"):
            assert raised[name] == pytest.approx(2 * lit[name])
        assert raised["levels_raised_db"] == pytest.approx(3.0103) and lit["levels_raised_db"] == 0
        assert (lit["peak_place"], lit["peak_watts"]) == ("amplifiers, b", pytest.approx(0.06))
        assert lit["beyond_optical_amplifiers"] == ["amplifiers, b"]
    # An amplifier emits its limit itself; full scale is a power of two, so that the product is that limit exactly.
    peaks = {"amplifiers, a": AMPLIFIER_LIMIT * 2**9, "amplifiers, b": AMPLIFIER_LIMIT * 2**9 * (1 + 1e-9)}
    assert light(chip, replace(link, full_scale=2**-9), peaks)["beyond_optical_amplifiers"] == ["amplifiers, b"]


@pytest.mark.parametrize(("level", "raised"), [(0.5, 1.0), (1.0, 1.0), (3.0, 9.0)])
def test_powers_are_raised_where_levels_rise_and_never_lowered(
    chip: Chip, monkeypatch: pytest.MonkeyPatch, level: float, raised: float
) -> None:
    """By the square of the largest level of any matrix."""

    def leveled(*arguments: Any) -> list[Calibrated]:
        first, *others = [
            made._replace(levels=np.full_like(made.levels, min(level, 1.0))) for made in calibrated_chip(*arguments)
        ]
        return [first._replace(levels=np.full_like(first.levels, level)), *others]

    monkeypatch.setattr("lightloom.photonics.link.simulate.calibrated_chip", leveled)
    assert FabricatedLink(chip, IDEAL).raised == pytest.approx(raised)
