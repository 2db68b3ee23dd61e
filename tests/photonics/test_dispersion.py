"""One mesh at several wavelengths: closed forms of a device, and meshes at their own wavelength."""

from __future__ import annotations

from math import pi

import numpy as np
import pytest

from lightloom.core.errors import ConfigError
from lightloom.photonics.chip.wavelengths import Dispersion, at_wavelength, spacing_in_metres
from lightloom.photonics.devices import coupler
from lightloom.photonics.meshes.disturb import DisturbedMatrix
from lightloom.photonics.meshes.mapping import map_components, map_matrix

OWN = Dispersion()


@pytest.mark.parametrize("form", ["economy", "svd"])
def test_at_its_own_wavelength_a_mesh_is_what_was_set(form: str) -> None:
    matrix = np.random.default_rng(0).normal(size=(5, 4))
    for mapped in (map_matrix(matrix, form), map_components(np.diag([1.0, 2.0]), form)):  # type: ignore[arg-type]
        assert at_wavelength(mapped, OWN.wavelength, OWN).matrix() == pytest.approx(mapped.matrix())


def test_a_single_interferometer_by_hand() -> None:
    mapped = map_matrix(np.array([[0.6, 0.8], [-0.8, 0.6]]))
    wavelength = 1.552e-6
    found = at_wavelength(mapped, wavelength, OWN)
    assert isinstance(found, DisturbedMatrix)
    mesh = found.input_mesh if found.input_mesh.mesh.mzis else found.output_mesh
    assert mesh is not None
    scale, error = OWN.wavelength / wavelength, OWN.coupler_slope * 2e-9
    theta, phi = mesh.mesh.theta[0] * scale, mesh.mesh.phi[0] * scale
    arms = [np.diag([np.exp(1j * phase), 1]) for phase in (theta, phi)]
    assert mesh.devices[0] == pytest.approx(coupler(error) @ arms[0] @ coupler(error) @ arms[1])


def test_errors_grow_with_the_distance() -> None:
    mapped = map_matrix(np.random.default_rng(1).normal(size=(6, 6)))
    errors = [
        float(np.abs(at_wavelength(mapped, OWN.wavelength + shift, OWN).matrix() - mapped.matrix()).max())
        for shift in (0.0, 1e-10, 1e-9, 4e-9)
    ]
    assert errors[0] < 1e-12 and errors[0] < errors[1] < errors[2] < errors[3]


def test_waveguides_follow_their_group_index() -> None:
    length, step = 1e-3, 1e-12
    slope = (OWN.guide_phase(length, OWN.wavelength + step) - OWN.guide_phase(length, OWN.wavelength)) / step
    assert float(slope) == pytest.approx(-2 * pi * OWN.group_index * length / OWN.wavelength**2, rel=1e-4)
    loose = Dispersion(mismatch=1e-6)
    mapped = map_matrix(np.random.default_rng(2).normal(size=(4, 4)))
    at = OWN.wavelength + 1e-9
    assert not np.allclose(at_wavelength(mapped, at, loose).matrix(), at_wavelength(mapped, at, OWN).matrix())


def test_spacings() -> None:
    assert spacing_in_metres(100e9) == pytest.approx(0.8e-9, rel=0.01)


@pytest.mark.parametrize("arguments", [{"wavelength": 0.0}, {"group_index": -1.0}, {"mismatch": float("nan")}])
def test_what_is_no_device_is_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(arguments))):
        Dispersion(**arguments)
