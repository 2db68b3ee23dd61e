"""Odds of wrong sums of fields and of powers in closed form, where phases are still and few servers send."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from lightloom.photonics.detection import DigitReceiver, homodyne_variance

ELECTRON = 1.602176634e-19


def tail(deviations: float) -> float:
    """The share of a Gaussian beyond so many deviations, by the sum of a fine grid."""
    at = deviations + (np.arange(60_000) + 0.5) * 2e-4
    return float((np.exp(-(at**2) / 2) * 2e-4).sum() / np.sqrt(2 * np.pi))


def noisy(servers: int, levels: int, antipodal: bool) -> DigitReceiver:
    """A digit of one symbol: relative noise of 1e-12.5 · 10 GHz = 0.00316, levelling of 0.1, no errors of phases."""
    return DigitReceiver(
        servers=servers,
        levels=levels,
        bits=levels // 2,
        symbol_rate=20e9,
        noise_bandwidth=0.5,
        responsivity=0.8,
        noise_density=2e-10,
        rin_db=-125.0,
        local_oscillator=1e-3,
        levelling=0.1,
        phase_error=0.0,
        antipodal=antipodal,
    )


RELATIVE, LEVELLING = 10**-12.5 * 1e10, 0.01
CURRENT = (2 * ELECTRON * 0.8 * 1e-3 + 4e-20) * 1e10
"""Variance of the receiver's current: shot noise of the oscillator and the amplifier's, in A²."""


def test_a_receiver_has_the_noise_of_its_oscillator_and_of_its_amplifier() -> None:
    assert homodyne_variance(1e-3, 0.8, 2e-10, 1e10) == pytest.approx(CURRENT)


@pytest.mark.parametrize(
    ("servers", "levels", "antipodal", "sums"),
    [
        # Share of the cases, directions in which a sum may err, squares of fields, field of the sum; in steps.
        (1, 2, False, [(0.5, 1, 0.0, 0.0), (0.5, 1, 1.0, 1.0)]),
        (1, 2, True, [(0.5, 1, 0.25, 0.5), (0.5, 1, 0.25, 0.5)]),
        (2, 2, True, [(0.25, 1, 0.5, 1.0), (0.5, 2, 0.5, 0.0), (0.25, 1, 0.5, 1.0)]),
        (2, 2, False, [(0.25, 1, 0.0, 0.0), (0.5, 2, 1.0, 1.0), (0.25, 1, 2.0, 2.0)]),
        (1, 4, True, [(0.5, 1, 2.25, 1.5), (0.5, 2, 0.25, 0.5)]),
        (1, 4, False, [(0.25, 1, 0.0, 0.0), (0.25, 2, 1.0, 1.0), (0.25, 2, 4.0, 2.0), (0.25, 1, 9.0, 3.0)]),
    ],
)
def test_sums_of_still_fields_err_as_gaussians_do(
    servers: int, levels: int, antipodal: bool, sums: Sequence[tuple[float, int, float, float]]
) -> None:
    power = 1.5e-6 * servers**0.5 * (1 if antipodal else 4) * (levels - 1) ** 2
    step = 2 * 0.8 * (1e-3 * power / servers) ** 0.5 * (2 if antipodal else 1) / (levels - 1)
    expected = 0.0
    for share, sides, squares, field in sums:
        variance = CURRENT / step**2 + (RELATIVE + LEVELLING) / 4 * squares + RELATIVE / 4 * field**2
        expected += share * sides * tail(0.5 / variance**0.5)
    assert 1e-4 < expected < 0.3
    found = noisy(servers, levels, antipodal).word_error(power, "homodyne")
    assert found == pytest.approx(expected, rel=1e-3)


def test_sums_of_powers_err_by_half_a_step_either_way_but_at_the_ends() -> None:
    """PAM4 of one server with 10 dB between its ends: levels of 0.1, 0.4, 0.7 and 1 of 40 µW."""
    receiver = DigitReceiver(
        servers=1, bits=2, symbol_rate=20e9, noise_bandwidth=0.5, responsivity=0.8, noise_density=4e-11,
        extinction_db=10.0, rin_db=-125.0, levelling=0.1,
    )  # fmt: skip
    expected = 0.0
    for level, sides in ((0.1, 1), (0.4, 2), (0.7, 2), (1.0, 1)):
        current = 0.8 * level * 4e-5
        variance = (1.6e-21 + 2 * ELECTRON * current) * 1e10 + (RELATIVE + LEVELLING) * current**2
        expected += sides / 4 * tail(0.8 * 4e-5 * 0.15 / variance**0.5)
    assert 1e-3 < expected < 0.4
    assert receiver.word_error(4e-5) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("levels", "bits", "digits"), [(2, 5, 5), (4, 5, 3), (4, 4, 2)])
def test_words_have_as_many_digits_as_their_bits_need(levels: int, bits: int, digits: int) -> None:
    receiver = DigitReceiver(servers=3, levels=levels, bits=bits)
    assert receiver.digits == digits and receiver.sum_levels == (10 if levels == 4 else 4)
    assert receiver.bandwidth == pytest.approx(0.7 * 50e9)


def test_a_converter_errs_at_half_a_step_of_its_noise() -> None:
    """A digit of two servers has the sums 0, 1 and 2: four of six half-steps, each a share of 3/4 of the errors."""
    receiver = DigitReceiver(servers=2, levels=2, bits=1)
    bits = receiver.needed_enob(0.01)
    # Noise of a converter over the range of two steps, in steps.
    deviation = 2 / (2**bits * 12**0.5)
    assert tail(0.5 / deviation) * 4 / 3 == pytest.approx(0.01, rel=1e-6)
