"""Devices that are not ideal: no noise is no change, and small noise adds up as the closed forms say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lightloom.core.errors import InputError
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.correction import cancel_crosstalk, correct
from lightloom.photonics.meshes.decompose import decompose, switch
from lightloom.photonics.meshes.disturb import (
    Disturbed,
    DisturbedMesh,
    disturb,
    monte_carlo,
    sweep,
)
from lightloom.photonics.meshes.mapping import map_blocks, map_matrix
from lightloom.photonics.meshes.mesh import Mesh
from tests.photonics.meshes.strategies import expected_error, haar, matrix_error


def epsilon(mesh: Mesh, non_idealities: NonIdealities, draws: int = 4) -> float:
    return float(monte_carlo([mesh], non_idealities, matrix_error([mesh.matrix()]), draws=draws).mean())


def test_ideal_devices_change_nothing() -> None:
    rng = np.random.default_rng(0)
    for ideal in (decompose(haar(9, 1)), map_matrix(rng.normal(size=(4, 7))), map_blocks(rng.normal(size=(6, 3)))):
        found = disturb(ideal, NonIdealities(), rng)
        assert np.abs(found.matrix() - ideal.matrix()).max() <= 1e-13
        fields = rng.normal(size=(found.matrix().shape[1], 50))
        np.testing.assert_allclose(found.matrix() @ fields, ideal.matrix() @ fields, atol=1e-12)


@pytest.mark.parametrize("kind", ["rectangular", "triangular"])
@pytest.mark.parametrize(
    ("non_idealities", "within"),
    [
        (NonIdealities(phase_error=0.01), 0.08),
        (NonIdealities(coupler_error=0.01), 0.08),
        (NonIdealities(dac_bits=8), 0.15),
        (NonIdealities(dac_bits=10), 0.15),
        (NonIdealities(phase_error=0.004, coupler_error=0.003, dac_bits=9), 0.08),
    ],
)
def test_errors_add_up_as_the_closed_form_says(kind: Any, non_idealities: NonIdealities, within: float) -> None:
    """Phase errors σ√N, couplers σ√(2N), quantisation (the same in every draw) as phase errors of 2π/(2ᵇ√12)."""
    for size in (32, 64):
        assert epsilon(decompose(haar(size, size), kind), non_idealities) == pytest.approx(
            expected_error(non_idealities, size), rel=within
        )
    assert expected_error(NonIdealities(phase_error=0.01), 64) == pytest.approx(0.01 * 8)
    assert expected_error(NonIdealities(coupler_error=0.01), 64) == pytest.approx(0.01 * np.sqrt(2 * 64), rel=0.01)


def test_energy_is_kept_without_loss_and_falls_with_it() -> None:
    mesh = decompose(haar(12, 3))
    disturbed = NonIdealities(phase_error=0.1, coupler_error=0.1, thermal_crosstalk=0.05, dac_bits=4)
    found = disturb(mesh, disturbed, np.random.default_rng(0)).matrix()
    np.testing.assert_allclose(found.conj().T @ found, np.eye(12), atol=1e-12)
    lossy = disturb(mesh, replace(disturbed, loss_db=0.3), np.random.default_rng(0)).matrix()
    powers = np.linalg.svd(lossy, compute_uv=False) ** 2
    # a mode passes at most one MZI a column, and at least every second
    assert powers.max() <= 10 ** (-0.03 * 12 / 2) * (1 + 1e-12)
    assert powers.min() >= 10 ** (-0.03 * 12) * (1 - 1e-12)
    spread = disturb(mesh, NonIdealities(loss_spread_db=0.5), np.random.default_rng(0)).matrix()
    assert np.linalg.svd(spread, compute_uv=False).max() <= 1 + 1e-12


def test_uniform_loss_is_mostly_calibrated_away() -> None:
    mesh = decompose(haar(24, 4))
    non_idealities = NonIdealities(loss_db=0.2)
    raw = monte_carlo([mesh], non_idealities, matrix_error([mesh.matrix()]), draws=1)[0]
    calibrated = monte_carlo([mesh], non_idealities, matrix_error([mesh.matrix()], calibrated=True), draws=1)[0]
    assert calibrated < raw / 5


def test_crosstalk_warms_neighbours_and_nothing_else() -> None:
    """One heated MZI of three in a column: its own φ and the θ of both neighbours move, by the share stated."""
    theta = np.zeros(15)
    theta[1] = 1.0  # column 0 holds MZIs 0, 1, 2 of six modes
    mesh = Mesh(kind="rectangular", inputs=6, outputs=6, theta=theta, phi=np.zeros(15), output_phases=np.zeros(6))
    found = disturb(mesh, NonIdealities(thermal_crosstalk=0.1), np.random.default_rng(0)).devices
    moved = np.abs(found - mesh.devices).max(axis=(1, 2)) > 1e-9
    assert np.flatnonzero(moved).tolist() == [0, 1, 2]
    warm = replace(mesh, theta=np.where(np.arange(15) == 1, 1.0, np.where(np.arange(15) < 3, 0.1, 0.0)))
    np.testing.assert_allclose(found[[0, 2]], warm.devices[[0, 2]], atol=1e-14)


def detect(device: Disturbed, fields: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Real parts of what a device makes of fields, with detector noise relative to the largest of them."""
    real_parts = (device.matrix() @ fields).real
    noise = device.non_idealities.detector_noise * np.abs(real_parts).max()
    return np.asarray(real_parts + noise * rng.normal(size=real_parts.shape))


@pytest.mark.parametrize("parameter", ["phase_error", "coupler_error", "loss_db", "detector_noise"])
def test_sweeps_rise_and_start_at_nothing(parameter: str) -> None:
    mesh = decompose(haar(16, 5))
    found = sweep([mesh], parameter, [0.0, 0.003, 0.01, 0.03], matrix_error([mesh.matrix()]), draws=5)
    default = sweep([mesh], parameter, [0.01], matrix_error([mesh.matrix()]))
    assert default == sweep([mesh], parameter, [0.01], matrix_error([mesh.matrix()]), draws=20, seed=0)
    means = [row["mean"] for row in found["rows"]]
    assert means[0] <= 1e-13
    assert all(a < b for a, b in pairwise(means))
    assert means[3] == pytest.approx(10 * means[1], rel=0.15)  # linear while small
    assert found["schema"] == "lightloom.disturb/1"
    assert found["mzis"] == mesh.mzis


def test_from_device_noise_to_the_accuracy_of_a_network() -> None:
    """Two layers that sort points by angle: all right when ideal, worse and worse with phase errors."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2, 400))
    angles = np.arange(8) * np.pi / 4
    first, second = np.stack([np.cos(angles), np.sin(angles)], 1), np.eye(8)
    wanted = (second @ np.maximum(first @ points, 0)).argmax(0)

    def accuracy(network: Sequence[Disturbed], rng: np.random.Generator) -> float:
        hidden = detect(network[0], points, rng)
        found = detect(network[1], np.maximum(hidden, 0), rng)
        return float((found.argmax(0) == wanted).mean())

    network = [map_matrix(first), map_matrix(second)]
    rows = sweep(network, "phase_error", [0.0, 0.02, 0.3], accuracy, draws=6, seed=1)["rows"]
    assert rows[0]["mean"] == 1.0
    assert 1.0 > rows[1]["mean"] > rows[2]["mean"] + 0.05
    noisy = sweep(network, "detector_noise", [0.1], accuracy, draws=3)["rows"][0]
    assert noisy["mean"] < 1.0


def test_draws_are_reproducible() -> None:
    mesh = decompose(haar(6, 0))
    first, again = (monte_carlo([mesh], NonIdealities(phase_error=0.1), matrix_error([mesh.matrix()])) for _ in "12")
    assert first.tolist() == again.tolist()
    assert len(set(first.tolist())) == 20


def corrected(mesh: Mesh, sigma: float, seed: int) -> tuple[float, float, int]:
    non_idealities = NonIdealities(coupler_error=sigma)
    before = disturb(mesh, non_idealities, np.random.default_rng(seed))
    fixed = correct(mesh, *before.fabrication.couplers)
    after = DisturbedMesh(mesh=fixed.mesh, non_idealities=non_idealities, fabrication=before.fabrication)
    wanted = mesh.matrix()
    errors = [float(np.linalg.norm(each.matrix() - wanted) / np.linalg.norm(wanted)) for each in (before, after)]
    return errors[0], errors[1], fixed.out_of_reach


@pytest.mark.parametrize("kind", ["rectangular", "triangular"])
def test_correction_is_exact_where_couplers_reach_for_any_phase(kind: Any) -> None:
    """Phases of a file may be of any half turn; in every second one a bar or a cross amplitude is negative."""
    rng = np.random.default_rng(0)
    for size in (2, 3, 8, 11):
        mesh = decompose(haar(size, size), kind)
        half_turns = np.pi * rng.integers(-2, 4, mesh.mzis)
        inside = replace(mesh, theta=half_turns + rng.uniform(0.8, np.pi - 0.8, mesh.mzis))
        before, after, out_of_reach = corrected(inside, 0.05, size)
        assert out_of_reach == 0
        assert after <= 1e-13 < before


def test_correction_gains_a_quadratic_factor_that_size_eats_up() -> None:
    """Large meshes cross more often: ε about σ√(2N) before, far less after, but not nothing."""
    small, large = decompose(haar(32, 1)), decompose(haar(128, 1))
    for mesh, gain in ((small, 10), (large, 6)):
        before, after, out_of_reach = corrected(mesh, 0.01, 2)
        assert after < before / gain
        assert out_of_reach > 0
    assert corrected(large, 0.01, 2)[1] > corrected(small, 0.01, 2)[1]
    assert corrected(large, 0.02, 2)[1] > 2.5 * corrected(large, 0.01, 2)[1]


@pytest.mark.parametrize("share", [0.001, 0.02, 0.1])
@pytest.mark.parametrize("kind", ["rectangular", "triangular"])
def test_known_crosstalk_is_cancelled_without_cooling(kind: Any, share: float) -> None:
    mesh = decompose(haar(15, 2), kind)
    non_idealities = NonIdealities(thermal_crosstalk=share)
    settings = cancel_crosstalk(mesh, share)
    for phases in (settings.theta, settings.phi):
        assert ((phases >= 0) & (phases < 4 * np.pi)).all()
    found = disturb(settings, non_idealities, np.random.default_rng(0)).matrix()
    assert np.abs(found - mesh.matrix()).max() <= 1e-12
    assert np.abs(disturb(mesh, non_idealities, np.random.default_rng(0)).matrix() - mesh.matrix()).max() > 1e-3
    with pytest.raises(InputError, match=r"share=0\.2"):
        cancel_crosstalk(mesh, 0.2)


def test_without_crosstalk_heaters_stay_as_they_are() -> None:
    """Phases of 0 too, which take no power: a turn more would."""
    mesh = switch([3, 1, 0, 2])
    assert (mesh.phi == 0).any()
    settings = cancel_crosstalk(replace(mesh, theta=mesh.theta + 2 * np.pi), 0.0)
    assert settings.theta == pytest.approx(mesh.theta % (2 * np.pi), abs=1e-14)
    assert (settings.phi == mesh.phi % (2 * np.pi)).all()


def test_a_switch_leaks_as_its_couplers_do() -> None:
    mesh = switch([3, 1, 0, 2])
    found = disturb(mesh, NonIdealities(coupler_error=0.02), np.random.default_rng(0)).matrix()
    leak = np.abs(found) ** 2 * (mesh.matrix().round(9) == 0)
    assert 1e-5 < leak.sum(axis=1).max() < 10**-1.5


def test_bad_input_is_refused() -> None:
    mesh = decompose(haar(3, 0))
    for call, message in [
        (lambda: NonIdealities(phase_error=-1.0), "phase_error=-1.0"),
        (lambda: NonIdealities(loss_db=float("nan")), "loss_db=nan"),
        (lambda: NonIdealities(dac_bits=33), "dac_bits=33"),
        (lambda: NonIdealities(thermal_crosstalk=0.7), "thermal_crosstalk=0.7"),
        (lambda: sweep([mesh], "phase", [0.1], matrix_error([mesh.matrix()])), "did you mean 'phase_error'"),
        (lambda: monte_carlo([mesh], NonIdealities(), matrix_error([]), draws=0), "draws=0"),
        (lambda: correct(mesh, np.zeros(2), np.zeros(3)), "expected 3 of each"),
        (lambda: correct(mesh, np.full(3, np.nan), np.zeros(3)), "finite angles"),
    ]:
        with pytest.raises(InputError, match=message):
            call()  # type: ignore[no-untyped-call]
