"""What a trial states of a simulated chip is what a second look at the chip shows."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.calibration.calibrate import (
    AGAIN,
    Calibration,
    Conditions,
    calibrate,
    random_mesh,
    target_of,
    try_calibration,
)
from lightloom.photonics.meshes.calibration.chip import SimulatedChip
from lightloom.photonics.meshes.calibration.fit import Fields, Unknowns, phase_free_error
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.disturb import disturb
from lightloom.photonics.meshes.mapping import MappedMatrix, map_matrix
from lightloom.photonics.meshes.mesh import Mesh
from tests.photonics.meshes.strategies import haar

TRIAL = sys.modules[try_calibration.__module__]
SILICON = NonIdealities(phase_error=0.1, coupler_error=0.1, loss_db=0.1)


@pytest.mark.parametrize("ideal", [random_mesh(4, "rectangular", 3), map_matrix(haar(2, 1))], ids=["mesh", "matrix"])
@pytest.mark.parametrize("real", [False, True])
def test_a_trial_calibrates_anew_and_after_aging_from_what_it_knows(
    ideal: Mesh | MappedMatrix, real: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Second calibrations measure four settings, fit phases alone, keep the order, and have noise of their own."""
    calls: list[tuple[Any, dict[str, Any], Calibration]] = []

    def remembered(chip: SimulatedChip, programmed: Mesh | MappedMatrix, **given: Any) -> Calibration:
        calls.append((programmed, given, calibrate(chip, programmed, **given)))
        return calls[-1][2]

    monkeypatch.setattr(TRIAL, "calibrate", remembered)
    conditions = Conditions(settings=9, aging=0.02, real=real, output_orders=3, unknowns=Unknowns(crosstalk=False))
    trial = try_calibration(ideal, SILICON, conditions, 5)
    (first, given, made), (second, again, _) = calls
    assert first is ideal and made is trial.calibration and second is made.programmed
    assert (given["settings"], given["unknowns"]) == (9, conditions.unknowns)
    assert (given["output_orders"], given["seed"], given["unknown_offsets"]) == (3, 5, False)
    assert (
        (again["settings"], again["output_orders"], again["start"]) == (AGAIN, 0, made.twin)
        and AGAIN == 4
        and again["seed"] != 5
    )
    assert again["unknowns"] == Unknowns(couplers=False, heaters=False, crosstalk=False, loss=False)
    assert given["real"] is again["real"] is real
    target = target_of(ideal)
    assert trial.before == phase_free_error(trial.before_matrix, target, real=real)
    assert trial.after == phase_free_error(trial.after_matrix, target[made.order], real=real)
    assert trial.after < trial.before and trial.aged is not None and trial.renewed is not None
    chip = SimulatedChip(disturb(ideal, SILICON, np.random.default_rng((5, 0))))
    np.testing.assert_array_equal(trial.before_matrix, chip.matrix(chip.designed))
    np.testing.assert_array_equal(trial.after_matrix, chip.matrix(made.settings))
    row = trial.row()
    wiring = chip.wiring
    probes = 2 * wiring.inputs * wiring.outputs
    assert [row[name] for name in ("inputs", "outputs", "mzi_count")] == [wiring.inputs, wiring.outputs, wiring.devices]
    assert (row["settings"], row["measurements"]) == (9, 9 * probes)
    assert row["output_order"] == made.order.tolist()
    errors = [row[f"error_{name}"] for name in ("before", "after", "limit", "aged", "renewed", "in_twin")]
    assert errors == [trial.before, trial.after, trial.limit, trial.aged, trial.renewed, made.twin_errors[-1]]
    assert (row["fitted_crosstalk"], row["fitted_loss_db"]) == (0.0, made.twin.loss_db)
    assert row["residuals"] == list(made.residuals)
    assert 0 < trial.cpu_seconds < 60


def test_a_trial_without_aging_ends_with_the_first_calibration() -> None:
    trial = try_calibration(random_mesh(2, "rectangular", 0), SILICON, Conditions(), 0)
    assert (trial.aged, trial.renewed) == (None, None) and trial.calibration.measured_settings == 12


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (2, 3), (3, 2)])
def test_the_true_loss_is_the_mean_of_the_losses_of_all_devices(shape: tuple[int, int]) -> None:
    """And that of no device is 0."""
    lossy = NonIdealities(loss_db=0.5, loss_spread_db=0.1, thermal_crosstalk=0.03)
    mapped = map_matrix(np.random.default_rng(0).normal(size=shape), "svd")
    fabricated = disturb(mapped, lossy, np.random.default_rng(0))
    assert fabricated.output_mesh is not None
    parts = (fabricated.input_mesh.fabrication, fabricated.attenuators, fabricated.output_mesh.fabrication)
    losses = -10 * np.log10(np.concatenate([part.transmission for part in parts]))
    truth = SimulatedChip(fabricated).truth()
    assert truth.loss_db == pytest.approx(losses.mean()) and truth.crosstalk == 0.03
    single = SimulatedChip(disturb(decompose(np.ones((1, 1))), lossy, np.random.default_rng(0))).truth()
    assert single.loss_db == 0.0 and single.wiring.devices == 0


@pytest.mark.parametrize("form", ["svd", "economy", "sigma-u"])
def test_a_chip_of_ideal_devices_is_the_matrix_without_its_amplifiers(form: Any) -> None:
    """Up to phases at its outputs, which no power shows; its gains are not those of the passive chip."""
    mapped = map_matrix(5 * np.random.default_rng(0).normal(size=(3, 3)), form)
    assert mapped.gain > 2
    chip = SimulatedChip(disturb(mapped, NonIdealities(), np.random.default_rng(0)))
    np.testing.assert_allclose(np.abs(chip.matrix(chip.designed)), np.abs(target_of(mapped)), atol=1e-12)
    np.testing.assert_allclose(mapped.gains[:, None] * target_of(mapped), mapped.matrix(), atol=1e-12)
    assert np.linalg.norm(target_of(mapped), 2) < 1 + 1e-12


def test_errors_are_free_of_phases_and_of_one_gain() -> None:
    rng = np.random.default_rng(0)
    target: Fields = haar(4, 0)
    turned: Fields = 0.3 * np.exp(1j * rng.uniform(0, 7, (4, 1))) * target
    assert phase_free_error(turned, target) < 1e-12 and phase_free_error(turned, target, real=True) < 1e-12
    assert phase_free_error(np.zeros((4, 4), np.complex128), target) == 1.0
    other: Fields = target + 0.1 * rng.normal(size=(4, 4))
    error = phase_free_error(other, target)
    assert (
        error
        == pytest.approx(phase_free_error(7j * other, target))
        == pytest.approx(phase_free_error(other, 3 * target))
    )
    for _ in range(20):
        factors = rng.uniform(0.8, 1.2) * np.exp(0.1j * rng.normal(size=(4, 1)))
        assert np.linalg.norm(factors * other - target) >= error * np.linalg.norm(target)


def test_random_meshes_are_haar_matrices_by_seed_and_modes() -> None:
    """One mode has any phase; the share of power from one of two modes to the first has any value."""
    phases = np.array([random_mesh(1, "rectangular", seed).matrix()[0, 0] for seed in range(300)])
    np.testing.assert_allclose(np.abs(phases), 1.0)
    assert abs(phases.mean()) < 0.15 and abs((phases**2).mean()) < 0.15
    pairs = np.array([random_mesh(2, "triangular", seed).matrix() for seed in range(300)])
    assert np.histogram((np.abs(pairs[:, 0, 0]) ** 2), 3, (0, 1))[0] == pytest.approx([100] * 3, rel=0.35)
    for power in (1, 2):
        assert (np.abs((pairs**power).mean(0)) < 0.15).all()
    unlike = random_mesh(3, "rectangular", 0).matrix()
    np.testing.assert_allclose(random_mesh(3, "triangular", 0).matrix(), unlike, atol=1e-12)
    assert not np.allclose(random_mesh(3, "rectangular", 1).matrix(), unlike)
