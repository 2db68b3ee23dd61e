"""Transfer curves: passive units never amplify, and each does what it is named for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import InputError
from lightloom.photonics.nonlinear import (
    ElectroOptic,
    SaturableAbsorber,
)

_UNITS: list[Any] = [
    ElectroOptic(gain=3.0),
    SaturableAbsorber(saturation_power=0.2),
]


@pytest.mark.parametrize("unit", _UNITS)
def test_no_unit_makes_light(unit: Any) -> None:
    before = np.linspace(0.0, 4.0, 101)
    assert (np.abs(unit.transfer(before)) <= before + 1e-15).all()
    assert unit.transfer(np.zeros((2, 3))).shape == (2, 3)


def test_the_electro_optic_unit_opens_like_a_rectifier() -> None:
    """Dark for weak light, f ~ |z|³; all that is not tapped passes at the open power; monotone between."""
    unit = ElectroOptic(gain=3.0)
    before = np.linspace(0.0, np.sqrt(np.pi / unit.gain), 101)
    after = np.abs(unit.transfer(before))
    assert (np.diff(after) > 0).all()
    assert after[-1] == pytest.approx(np.sqrt(0.9) * before[-1])
    weak = np.abs(unit.transfer([0.01, 0.02]))
    assert weak[1] / weak[0] == pytest.approx(8, rel=1e-3)


def test_the_absorber_saturates() -> None:
    unit = SaturableAbsorber(depth=0.6, unsaturated_loss=0.1, saturation_power=2.0)
    power = np.abs(unit.transfer(np.sqrt([1e-9, 2.0, 1e9]))) ** 2 / [1e-9, 2.0, 1e9]
    np.testing.assert_allclose(power, [0.3, 0.6, 0.9], atol=1e-8)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ElectroOptic(gain=0.0),
        lambda: ElectroOptic(gain=1.0, tap=1.0),
        lambda: SaturableAbsorber(saturation_power=0.0),
        lambda: SaturableAbsorber(saturation_power=1.0, depth=0.9, unsaturated_loss=0.2),
    ],
)
def test_impossible_units_are_refused(call: Any) -> None:
    with pytest.raises(InputError):
        call()
