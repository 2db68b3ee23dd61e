"""Detection of digit sums: the tables of an independent calculation, and laws."""

from __future__ import annotations

from math import log10

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.photonics.detection import DigitReceiver, compositions

TABLE = {
    (4, 2): (-10.3, -10.1, -22.5, 3.9, 4.2),
    (4, 4): (-10.2, -9.5, -19.4, 4.9, 5.2),
    (4, 8): (-10.1, -8.2, -16.3, 5.9, 6.2),
    (4, 16): (-10.0, -5.8, -13.2, 6.9, 7.2),
    (2, 8): (-15.1, -14.7, -25.8, 4.3, 4.6),
    (2, 16): (-15.0, -14.0, -22.7, 5.3, 5.6),
}
"""dBm a lane for a word error rate of 1e-6 (separate, wavelengths, homodyne), bits of a converter for 1e-4 and 1e-6."""


def dbm(power: float | None) -> float:
    assert power is not None
    return 10 * log10(power / 1e-3)


@pytest.mark.parametrize(("levels", "servers"), TABLE)
def test_the_table_of_an_independent_calculation(levels: int, servers: int) -> None:
    receiver = DigitReceiver(servers=servers, levels=levels)
    separate, wavelengths, homodyne, coarse, fine = TABLE[levels, servers]
    assert dbm(receiver.needed_power(1e-6, "separate")) == pytest.approx(separate, abs=0.1)
    assert dbm(receiver.needed_power(1e-6)) == pytest.approx(wavelengths, abs=0.1)
    assert dbm(receiver.needed_power(1e-6, "homodyne")) == pytest.approx(homodyne, abs=0.3)
    assert receiver.needed_enob(1e-4) == pytest.approx(coarse, abs=0.06)
    assert receiver.needed_enob(1e-6) == pytest.approx(fine, abs=0.06)


def test_intensity_noise_ends_sums() -> None:
    assert dbm(DigitReceiver(servers=8, rin_db=-145).needed_power(1e-6)) == pytest.approx(-5.5, abs=0.1)
    assert DigitReceiver(servers=16, rin_db=-145).needed_power(1e-6) is None
    assert DigitReceiver(servers=4, rin_db=-140).needed_power(1e-6) is None


@pytest.mark.parametrize(
    ("levels", "servers", "levelling", "wrong"), [(4, 4, 0.02, 2.5e-4), (4, 4, 0.03, 8e-3), (4, 8, 0.02, 4.6e-3)]
)
def test_static_levelling_at_twice_the_needed_power(levels: int, servers: int, levelling: float, wrong: float) -> None:
    power = DigitReceiver(servers=servers, levels=levels).needed_power(1e-6)
    assert power is not None
    receiver = DigitReceiver(servers=servers, levels=levels, levelling=levelling)
    assert wrong / 1.5 < receiver.word_error(2 * power) < 1.5 * wrong


@pytest.mark.parametrize(("servers", "wrong"), [(4, 5e-6), (8, 4e-5)])
def test_phases_of_homodyne_sums_at_twice_the_needed_power(servers: int, wrong: float) -> None:
    power = DigitReceiver(servers=servers).needed_power(1e-6, "homodyne")
    assert power is not None
    assert wrong / 3 < DigitReceiver(servers=servers, phase_error=0.1).word_error(2 * power, "homodyne") < 3 * wrong


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
    assert (counts.sum(axis=1) == servers).all() and (counts >= 0).all()
    assert len(np.unique(counts, axis=0)) == len(counts)
    assert weights.sum() == pytest.approx(1)
    assert weights @ counts == pytest.approx(np.full(levels, servers / levels))


def test_a_sum_of_one_server_is_its_own_receiver() -> None:
    receiver = DigitReceiver(servers=1)
    assert receiver.word_error(5e-5) == pytest.approx(receiver.word_error(5e-5, "separate"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"servers": 0}, "servers = 0"),
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
