"""Detection of digit sums: the tables of an independent calculation, and laws."""

from __future__ import annotations

from dataclasses import replace
from math import comb, inf, log10

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from lightloom.core.errors import ConfigError
from lightloom.machines.reducers.built import SYMBOL_RATE
from lightloom.machines.reducers.constants import nominal, published
from lightloom.machines.reducers.rivals import Setting
from lightloom.photonics.averaging.function import digits
from lightloom.photonics.detection import DigitReceiver, Scheme, _tail, compositions
from lightloom.photonics.link.settings import Link
from lightloom.photonics.link.simulate import (
    Senders,
    homodyne_noise,
    laser_noise,
    modulate,
)

TABLE = {
    (4, 2): (-10.3, -10.1, -22.5, 3.9, 4.2),
    (4, 4): (-10.2, -9.5, -19.4, 4.9, 5.2),
    (4, 8): (-10.1, -8.2, -16.3, 5.9, 6.2),
    (4, 16): (-10.0, -5.8, -13.2, 6.9, 7.2),
    (2, 8): (-15.1, -14.7, -25.8, 4.3, 4.6),
    (2, 16): (-15.0, -14.0, -22.7, 5.3, 5.6),
}
"""dBm a lane for a word error rate of 1e-6 (separate, wavelengths, homodyne), bits of a converter for 1e-4 and 1e-6."""

MORE_THAN_NOTHING = ("symbol_rate", "noise_bandwidth", "responsivity", "extinction_db", "local_oscillator")
AT_LEAST_NOTHING = ("noise_density", "levelling", "phase_error")


def dbm(power: float | None) -> float:
    assert power is not None
    return 10 * log10(power / 1e-3)


@pytest.mark.parametrize(("levels", "servers"), TABLE)
def test_the_table_of_an_independent_calculation(levels: int, servers: int) -> None:
    receiver = DigitReceiver(servers=servers, levels=levels, levelling=0.0, phase_error=0.0)
    separate, wavelengths, homodyne, coarse, fine = TABLE[levels, servers]
    assert dbm(receiver.needed_power(1e-6, "separate")) == pytest.approx(separate, abs=0.1)
    assert dbm(receiver.needed_power(1e-6)) == pytest.approx(wavelengths, abs=0.1)
    quiet = replace(receiver, rin_db=-250.0, antipodal=False)
    assert dbm(quiet.needed_power(1e-6, "homodyne")) == pytest.approx(homodyne, abs=0.3)
    both_signs = replace(quiet, antipodal=True)
    assert dbm(both_signs.needed_power(1e-6, "homodyne")) == pytest.approx(homodyne - 20 * log10(2), abs=0.3)
    assert receiver.needed_enob(1e-4) == pytest.approx(coarse, abs=0.06)
    assert receiver.needed_enob(1e-6) == pytest.approx(fine, abs=0.06)


def test_intensity_noise_ends_sums() -> None:
    level = DigitReceiver(servers=8, rin_db=-145, levelling=0.0)
    assert dbm(level.needed_power(1e-6)) == pytest.approx(-5.5, abs=0.1)
    assert replace(level, servers=16).needed_power(1e-6) is None
    assert replace(level, servers=4, rin_db=-140).needed_power(1e-6) is None


def test_sums_of_fields_need_what_another_simulation_found() -> None:
    """16 servers, -150 dB/Hz, 1 %, 0.055 rad: simulated -13.2 dBm with one sign, -22.2 and -18.9 with both, a floor."""
    receiver = DigitReceiver(servers=16, rin_db=-150.0, levelling=0.01, phase_error=0.055)
    unipolar = replace(receiver, antipodal=False)
    assert dbm(unipolar.needed_power(1e-3, "homodyne")) == pytest.approx(-13.2, abs=0.1)
    assert unipolar.needed_power(1e-6, "homodyne") is None
    assert dbm(receiver.needed_power(1e-3, "homodyne")) == pytest.approx(-22.2, abs=0.1)
    assert dbm(receiver.needed_power(1e-6, "homodyne")) == pytest.approx(-18.9, abs=0.1)


@pytest.mark.parametrize(("servers", "rin", "phase_error"), [(2, -135.0, 0.1), (4, -138.0, 0.055), (8, -143.0, 0.1)])
def test_sums_of_fields_err_as_the_link_simulates_them(servers: int, rin: float, phase_error: float) -> None:
    """The senders, lasers and detectors of `photonics.link`, summed by hand; levels from zero, as it sends them."""
    receiver = DigitReceiver(
        servers=servers, bits=2, rin_db=rin, phase_error=phase_error, levelling=0.02, antipodal=False
    )
    power = 6e-6 * servers
    link = Link(
        full_scale=power / servers,
        rin_db=rin,
        phase_lock=phase_error,
        power_error=receiver.levelling,
        polarisation=0.0,
        skew=0.0,
        local_oscillator=receiver.local_oscillator,
        noise_density=receiver.noise_density,
        detector_bandwidth=receiver.bandwidth,
    )
    rng, wrong, chips, words = np.random.default_rng(3), 0, 60, 20_000
    for _ in range(chips):
        codes = rng.integers(0, 4, (servers, words))
        fields = modulate(codes, 2, link, Senders.draw(servers, 1, link, rng), rng)[0].reshape(servers, 1, words)
        received = fields.sum(axis=0) * laser_noise(link, (words,), rng)
        received += homodyne_noise(link) * rng.standard_normal(received.shape)
        decided = np.clip(np.rint(3 * received), 0, 3 * servers)
        wrong += int((decided != digits(codes, 2).sum(axis=0)).any(axis=0).sum())
    assert receiver.word_error(power, "homodyne") == pytest.approx(wrong / (chips * words), rel=0.15)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12),
    st.sampled_from([2, 4]),
    st.booleans(),
    st.floats(-35, 0),
    st.sampled_from(["separate", "wavelengths", "homodyne"]),
    st.sampled_from(["rin_db", "levelling", "phase_error", "noise_density", "noise_bandwidth"]),
    st.floats(0, 1),
)
def test_no_noise_makes_a_sum_more_accurate(
    servers: int, levels: int, antipodal: bool, level: float, scheme: Scheme, cause: str, share: float
) -> None:
    receiver = DigitReceiver(servers=servers, levels=levels, antipodal=antipodal)
    worse = {"rin_db": 20 * share, "levelling": 0.05 * share, "phase_error": 0.15 * share}
    more = getattr(receiver, cause) + worse.get(cause, share * getattr(receiver, cause))
    power = 1e-3 * 10 ** (level / 10)
    before, after = (made.word_error(power, scheme) for made in (receiver, replace(receiver, **{cause: more})))
    assert after >= before * (1 - 1e-6) - 1e-15


def test_the_defaults_are_those_of_the_published_constants() -> None:
    receiver, values = DigitReceiver(servers=2), nominal(published())
    names = {"rin": "rin_db", "extinction": "extinction_db"}
    for name in ("rin", "levelling", "phase_error", "noise_density", "extinction"):
        assert getattr(receiver, names.get(name, name)) == pytest.approx(values[name])
    assert receiver.symbol_rate == Setting(servers=2).symbol_rate == SYMBOL_RATE


@pytest.mark.parametrize(
    ("levels", "servers", "levelling", "wrong"), [(4, 4, 0.02, 2.5e-4), (4, 4, 0.03, 8e-3), (4, 8, 0.02, 4.6e-3)]
)
def test_static_levelling_at_twice_the_needed_power(levels: int, servers: int, levelling: float, wrong: float) -> None:
    power = DigitReceiver(servers=servers, levels=levels, levelling=0.0).needed_power(1e-6)
    assert power is not None
    receiver = DigitReceiver(servers=servers, levels=levels, levelling=levelling)
    assert wrong / 1.5 < receiver.word_error(2 * power) < 1.5 * wrong


@pytest.mark.parametrize(("servers", "wrong"), [(4, 5e-6), (8, 4e-5)])
def test_phases_of_homodyne_sums_at_twice_the_needed_power(servers: int, wrong: float) -> None:
    quiet = DigitReceiver(servers=servers, rin_db=-250.0, levelling=0.0, phase_error=0.0, antipodal=False)
    power = quiet.needed_power(1e-6, "homodyne")
    assert power is not None
    assert wrong / 3 < replace(quiet, phase_error=0.1).word_error(2 * power, "homodyne") < 3 * wrong


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 16), st.sampled_from([2, 4]), st.floats(1e-6, 1e-3))
def test_more_light_and_fewer_servers_err_less(servers: int, levels: int, power: float) -> None:
    receiver = DigitReceiver(servers=servers, levels=levels)
    assert receiver.word_error(1.5 * power) <= receiver.word_error(power) + 1e-15
    more = DigitReceiver(servers=servers + 1, levels=levels)
    assert more.word_error(power) >= receiver.word_error(power)
    assert more.needed_enob(1e-5) > receiver.needed_enob(1e-5)


@given(st.integers(1, 12), st.sampled_from([2, 4]))
def test_compositions_are_all_and_weigh_one(servers: int, levels: int) -> None:
    counts, weights = compositions(servers, levels)
    assert len(counts) == comb(servers + levels - 1, servers)
    assert (counts.sum(axis=1) == servers).all() and (counts >= 0).all()
    assert len(np.unique(counts, axis=0)) == len(counts)
    assert weights.sum() == pytest.approx(1)
    assert weights @ counts == pytest.approx(np.full(levels, servers / levels))


@pytest.mark.parametrize("variance", [0.8, 2.0])
@pytest.mark.parametrize("servers", [3, 8])
def test_phases_that_raise_the_sum_by_half_a_step_on_average_do_so_in_less_than_half_of_all_cases(
    variance: float, servers: int
) -> None:
    """The shift of the mean field is skewed: of each server -1 times a square of a normal variable, integrated here."""
    phase_error = servers**-0.5
    nodes, weights = np.polynomial.legendre.leggauss(400)
    shift, dense = 30 * (nodes + 1), 30 * weights  # the sum of squares, which is chi squared
    density = shift ** (servers / 2 - 1) * np.exp(-shift / 2) * dense
    exact = float(density @ ndtr((phase_error**2 * shift / 2 - 0.5) / variance**0.5) / density.sum())
    counts, fields = np.array([[servers]]), np.array([-1.0])
    found = [_tail(np.array([variance]), counts, fields, phase_error * each)[0] for each in (1 - 2e-3, 1.0, 1 + 2e-3)]
    # Beside another composition, of fewer servers at that level, as alone.
    beside = np.array([[servers, 0], [1, servers - 1]])
    both = _tail(np.full(2, variance), beside, np.array([-1.0, 0.0]), phase_error)
    assert both[0] == pytest.approx(found[1], rel=1e-6) and both[1] < both[0]
    assert exact < 0.5 and found[1] == pytest.approx(exact, abs=6e-3)
    assert found[1] == pytest.approx((found[0] + found[2]) / 2, abs=1e-4) and found[0] < found[1] < found[2]


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("variance", [0.02, 0.2])
def test_odds_of_a_composition_are_the_same_alone_and_beside_others(variance: float, sign: float) -> None:
    counts, _ = compositions(4, 4)
    fields = np.array([-1.0, 0.0, 1.0, 2.0]) * sign
    noise = np.full(len(counts), variance)
    together = _tail(noise, counts, fields, 0.7)
    alone = [_tail(noise[:1], each[None], fields, 0.7)[0] for each in counts]
    assert together == pytest.approx(alone, rel=1e-3, abs=1e-12)
    assert ((together >= 0) & (together <= 1)).all()
    still = _tail(noise, counts, fields, 0.0)
    assert still == pytest.approx(ndtr(-0.5 / variance**0.5), rel=1e-4)


def test_a_sum_of_one_server_is_its_own_receiver() -> None:
    receiver = DigitReceiver(servers=1, levelling=0.0)
    assert receiver.word_error(5e-5) == pytest.approx(receiver.word_error(5e-5, "separate"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"servers": 0}, "servers = 0"),
        ({"servers": 1025}, "servers = 1025"),
        ({"servers": 4, "bits": 0}, "bits = 0"),
        *(({"servers": 4, name: inf}, f"{name} = inf") for name in (*MORE_THAN_NOTHING, *AT_LEAST_NOTHING)),
        *(({"servers": 4, name: 0.0}, f"{name} = 0.0: expected more than 0") for name in MORE_THAN_NOTHING),
        ({"servers": 4, "levels": 3}, "levels = 3"),
        ({"servers": 4, "bits": 33}, "bits = 33"),
        ({"servers": 4, "symbol_rate": 0.0}, "symbol_rate"),
        ({"servers": 4, "levelling": -1.0}, "levelling"),
        ({"servers": 4, "rin_db": 0.0, "noise_density": float("nan")}, "noise_density"),
    ],
)
def test_receivers_that_cannot_be_are_refused(arguments: dict[str, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        DigitReceiver(**arguments)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expected fewer"):
        DigitReceiver(servers=200).word_error(1e-4)


def test_receivers_at_the_limits_are_not_refused() -> None:
    quiet = DigitReceiver(servers=1, bits=1, **dict.fromkeys(AT_LEAST_NOTHING, 0.0))  # type: ignore[arg-type]
    assert quiet.digits == 1 and quiet.sum_levels == 4
    assert DigitReceiver(servers=1024, bits=32, levels=2).digits == 32
    assert DigitReceiver(servers=2, bits=5).digits == DigitReceiver(servers=2, bits=6).digits == 3
    assert len(compositions(47, 4)[0]) == comb(50, 3) <= 20_000 < comb(51, 3)
    with pytest.raises(ConfigError, match="servers = 48: expected fewer"):
        compositions(48, 4)


@pytest.mark.parametrize("levels", [2, 4])
def test_levels_are_evenly_spaced_up_to_full_power_and_the_extinction_apart(levels: int) -> None:
    receiver = DigitReceiver(servers=2, levels=levels, extinction_db=10.0, responsivity=0.8)
    shares = receiver.intensities()
    assert len(shares) == levels and shares[0] == pytest.approx(0.1) and shares[-1] == 1
    assert np.diff(shares) == pytest.approx(0.9 / (levels - 1))
    assert receiver.step_current(2e-3) == pytest.approx(0.8 * 2e-3 * 0.9 / (levels - 1))


def test_noise_of_powers_is_thermal_shot_and_relative_noise_of_each_server() -> None:
    """With on-off keying of 3 dB: one server at full power, two at half of it."""
    receiver = DigitReceiver(
        servers=3,
        levels=2,
        symbol_rate=10e9,
        noise_bandwidth=0.5,
        responsivity=0.8,
        noise_density=1e-11,
        extinction_db=10 * log10(2),
        rin_db=-140.0,
        levelling=0.03,
    )
    relative = 1e-14 * 5e9 + 0.03**2
    expected = 1e-22 * 5e9 + 2 * 1.602176634e-19 * 0.8 * 5e9 * 2e-3 + relative * 0.8**2 * 1.5 * 1e-6
    assert receiver.noise_variance(1e-3, np.array([2, 1])) == pytest.approx(expected)


def test_a_word_is_right_if_all_of_its_sums_are_and_the_sums_of_separate_receivers_if_all_servers_are() -> None:
    receiver = DigitReceiver(servers=3, bits=2, levelling=0.02)
    digit = receiver.word_error(6e-5)
    assert 1e-4 < digit < 0.5
    assert replace(receiver, bits=8).word_error(6e-5) == pytest.approx(1 - (1 - digit) ** 4)
    alone = replace(receiver, servers=1, levelling=0.0).word_error(5e-5)
    assert receiver.word_error(5e-5, "separate") == pytest.approx(1 - (1 - alone) ** 3)


def test_the_needed_power_is_just_enough_within_the_powers_that_are_searched() -> None:
    receiver = DigitReceiver(servers=4)
    for scheme in ("separate", "wavelengths", "homodyne"):
        power = receiver.needed_power(1e-6, scheme)
        assert power is not None
        low, high = (receiver.word_error(share * power, scheme) for share in (0.999, 1.0))
        assert high <= 1e-6 < low
    assert DigitReceiver(servers=1, levels=2, bits=1).needed_power(0.6) == 1e-8
    assert replace(receiver, noise_density=1e-7).needed_power(1e-6) is None


def test_there_is_no_other_scheme() -> None:
    receiver = DigitReceiver(servers=2, levels=4, bits=8, symbol_rate=5e10)
    for judge in (receiver.word_error, receiver.needed_power):
        with pytest.raises(ConfigError, match="scheme = 'homodyn': expected one of separate, wavelengths, homodyne"):
            judge(1e-6, "homodyn")  # type: ignore[arg-type]
