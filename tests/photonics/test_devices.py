"""The 2x2 device, against its own definition and textbook limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import InputError
from lightloom.photonics.devices import (
    amplifier_noise,
    coupler,
    mzi,
)

angles = st.floats(-7, 7)
errors = st.floats(-0.8, 0.8)


@given(angles, angles, errors, errors, st.floats(0, 1))
def test_the_closed_form_is_the_product_of_the_parts(
    theta: float, phi: float, first: float, second: float, transmission: float
) -> None:
    arm = np.diag([np.exp(1j * theta), 1])
    entry = np.diag([np.exp(1j * phi), 1])
    expected = np.sqrt(transmission) * coupler(second) @ arm @ coupler(first) @ entry
    np.testing.assert_allclose(
        mzi(theta, phi, first=first, second=second, transmission=transmission), expected, atol=1e-14
    )


@given(angles, angles, errors, errors)
def test_without_loss_no_energy_is_lost(theta: float, phi: float, first: float, second: float) -> None:
    device = mzi(theta, phi, first=first, second=second)
    np.testing.assert_allclose(device.conj().T @ device, np.eye(2), atol=1e-14)


def test_zero_crosses_and_pi_passes() -> None:
    assert np.abs(np.diag(mzi(0.0, 0.3))).max() < 1e-15
    assert np.abs(mzi(np.pi, 0.3)[[0, 1], [1, 0]]).max() < 1e-15


def test_arguments_broadcast() -> None:
    assert mzi(np.zeros((3, 1)), np.zeros(4)).shape == (3, 4, 2, 2)


def test_amplifiers_add_noise_only_when_they_amplify() -> None:
    assert amplifier_noise(1.0, 5.0, 25e9, 1e-3) == 0
    once, twice = (amplifier_noise(gain, 5.0, 25e9, 1e-3) for gain in (11.0, 41.0))
    assert twice == pytest.approx(2 * once)


@pytest.mark.parametrize(
    "call",
    [
        lambda: amplifier_noise(0.5, 5.0, 1e9, 1.0),
        lambda: amplifier_noise(2.0, 5.0, 0.0, 1.0),
    ],
)
def test_impossible_quantities_are_refused(call: object) -> None:
    with pytest.raises(InputError):
        call()  # type: ignore[operator]
