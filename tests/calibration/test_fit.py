"""Fits to made-up rows: true parameters are found, and what rows do not tell stays at its prior."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import ConfigError
from lightloom.core.results import Advance
from lightloom.machines.accelerators.calibrated import Calibration
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.planning.calibration import accuracy as accuracy_module
from lightloom.planning.calibration import fit as fit_module
from lightloom.planning.calibration.accuracy import (
    CrossValidation,
    accuracy,
    calibrate,
    cross_validated,
    predictions,
    read_calibration,
    write_calibration,
)
from lightloom.planning.calibration.fit import (
    Fit,
    Predictions,
    fit,
    log_seconds,
    model_folds,
    predict_held_out,
    prior_fit,
    scatter_of,
    sensitivity,
)
from lightloom.planning.calibration.rows import Jobs, MeasuredSteps, Priors, jobs_of, priors_of
from lightloom.planning.pricing.job import PRIOR_SCATTER, half_widths
from tests.calibration.samples import step, table_of, varied_steps

MACHINE = load_accelerator("a100")
PRIORS = priors_of(MACHINE)
TRUE = {"gemm_fraction": 0.7, "gemm_depth": 800.0}


@cache
def timed(noise: float, outliers: int = 0) -> MeasuredSteps:
    """Return varied steps, timed by the model with two parameters off their priors."""
    steps = varied_steps()
    jobs = jobs_of(steps, MACHINE)
    logarithms = PRIORS.center.copy()
    for name, value in TRUE.items():
        logarithms[PRIORS.names.index(name)] = np.log(value)
    times = np.exp(log_seconds(jobs, PRIORS, logarithms))
    times *= np.exp(np.random.default_rng(1).normal(0, noise, len(times)))
    times[:outliers] *= 1.5
    return table_of([entry.model_copy(update={"step_s": time}) for entry, time in zip(steps, times, strict=True)])


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return calibrate(timed(0.02), "a100")


@pytest.mark.long
def test_true_parameters_are_found_despite_outliers() -> None:
    jobs = jobs_of(timed(0.01, outliers=3).steps, MACHINE)
    fitted = fit(jobs, PRIORS)
    values = PRIORS.values(fitted.logarithms)
    assert values["gemm_fraction"] == pytest.approx(0.7, rel=0.05)
    assert values["gemm_depth"] == pytest.approx(800, rel=0.2)
    # No row uses flash attention.
    assert values["flash_forward"] == pytest.approx(PRIORS.values(PRIORS.center)["flash_forward"])
    errors = np.exp(log_seconds(jobs, PRIORS, fitted.logarithms)) / jobs.measured - 1
    assert np.median(np.abs(errors)) < 0.02


def test_the_file_says_what_the_rows_determine(calibration: Calibration, tmp_path: Path) -> None:
    assert {"flash_forward", "flash_backward"} <= set(calibration.undetermined())
    assert calibration.parameters["gemm_fraction"].determined
    assert calibration.parameters["flash_forward"].spread == pytest.approx(0.3)
    assert calibration.cross_validated.mean < 0.05 and 0.8 <= calibration.cross_validated.coverage <= 1
    path = tmp_path / "a100.yaml"
    write_calibration(calibration, path)
    again = read_calibration(path)
    assert again.parameters == calibration.parameters
    assert np.allclose(again.covariance, calibration.covariance, rtol=1e-4)
    path.write_text(path.read_text().replace("noise:", "nose:"))
    with pytest.raises(ConfigError, match="noise"):
        read_calibration(path)


@pytest.mark.long
def test_a_calibration_mends_what_the_priors_miss(calibration: Calibration) -> None:
    steps = timed(0.02)
    before, after = accuracy(steps), accuracy(steps, calibration)
    assert before.scores.mean > 2 * after.scores.mean
    assert after.scores.half_width < before.scores.half_width
    assert after.scores.coverage >= 0.8
    assert "these very rows" in after.summary()
    assert len(after.to_json()["rows"]) == len(steps)


@pytest.mark.long
def test_an_open_row_is_predicted_as_with_what_is_assumed(calibration: Calibration) -> None:
    """Also where a calibration prefers another micro-batch than the priors do."""
    slow = calibration.parameters["dispatch"].model_copy(update={"value": 1e-3})
    launching = calibration.model_copy(update={"parameters": calibration.parameters | {"dispatch": slow}})
    open_row = step(micro_batch=None)
    sizes = []
    for fitted in (calibration, launching):
        found = accuracy(table_of([open_row]), fitted)
        (used,) = found.predicted.steps
        sizes.append(used.micro_batch)
        assert found.rows()[0]["assumed"] == f"micro-batch {used.micro_batch}"
        assert found.predicted.seconds == pytest.approx(accuracy(table_of([used]), fitted).predicted.seconds)
    assert sizes[0] != sizes[1]


@pytest.mark.slow
@pytest.mark.parametrize("left_out", ["rows", "models"])
def test_rows_and_models_are_held_out(left_out: CrossValidation) -> None:
    """A calibration, made above, leaves rows out too."""
    held = cross_validated(timed(0.02), left_out)
    assert held.scores.mean < 0.06
    assert 0.8 <= held.scores.coverage <= 1


@pytest.mark.parametrize("left_out", ["rows", "models"])
def test_folds_are_drawn_or_hold_whole_models(monkeypatch: pytest.MonkeyPatch, left_out: CrossValidation) -> None:
    steps = table_of(varied_steps()[8:20])
    folds: list[Ints] = []

    def held_out(jobs: Jobs, priors: Priors, fitted: Fit, fold: Ints, _: Advance) -> Predictions:
        folds.append(fold)
        return predictions(jobs, priors, fitted, 0.1)

    monkeypatch.setattr(accuracy_module, "fit", lambda _, priors: prior_fit(priors))
    monkeypatch.setattr(accuracy_module, "predict_held_out", held_out)
    cross_validated(steps, left_out)
    (fold,) = folds
    pairs = set(zip(fold.tolist(), (each.hidden for each in steps.steps), strict=True))
    assert len(pairs) == (4 if left_out == "rows" else 2)


@pytest.mark.long
def test_held_out_rows_are_told_one_fit_after_another_and_scatter_as_the_other_folds_do() -> None:
    """A lone fold is predicted from the priors; rows that are exactly as predicted narrow the others' intervals."""
    rows = [step(micro_batch=micro) for micro in (1, 2, 4, 8)]
    exact = predictions(jobs_of(rows, MACHINE), PRIORS, prior_fit(PRIORS), PRIOR_SCATTER)
    timed_rows = [each.model_copy(update={"step_s": time}) for each, time in zip(rows, exact.seconds, strict=True)]
    jobs, told = jobs_of(timed_rows, MACHINE), list[int]()
    alone = predict_held_out(jobs, PRIORS, prior_fit(PRIORS), np.zeros(4, np.int64), told.append)
    assert told == [1]
    assert alone.seconds == pytest.approx(exact.seconds) and alone.half_width == pytest.approx(exact.half_width)
    halves = predict_held_out(jobs, PRIORS, prior_fit(PRIORS), np.array([0, 1, 0, 1]), told.append)
    assert told == [1, 1, 1]
    assert halves.seconds == pytest.approx(exact.seconds, rel=1e-3)
    assert (halves.half_width < exact.half_width).all()
    assert [each.micro_batch for each in halves.steps] == [1, 2, 4, 8]


@pytest.mark.long
def test_derivatives_are_taken_again_only_where_parameters_have_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Floats] = []

    def noted(jobs: Jobs, priors: Priors, logarithms: Floats) -> Floats:
        asked.append(logarithms)
        return sensitivity(jobs, priors, logarithms)

    monkeypatch.setattr(fit_module, "sensitivity", noted)
    rows = [step(micro_batch=micro) for micro in (1, 2, 4, 8)]
    exact = np.exp(log_seconds(jobs_of(rows, MACHINE), PRIORS, PRIORS.center))

    def times(factor: float) -> Jobs:
        slow = [each.model_copy(update={"step_s": time * factor}) for each, time in zip(rows, exact, strict=True)]
        return jobs_of(slow, MACHINE)

    settled = fit(times(1.0), PRIORS)
    assert np.allclose(settled.logarithms, PRIORS.center) and len(asked) == 1
    assert np.array_equal(asked.pop(), PRIORS.center)
    fit(times(1.5), PRIORS)
    assert len(asked) >= 2 and np.array_equal(asked.pop(0), PRIORS.center)
    assert all(np.abs((each - PRIORS.center) / PRIORS.spread).max() >= 0.1 for each in asked)
    asked.clear()
    fit(times(1.5), PRIORS, PRIORS.center, sensitivity(times(1.5), PRIORS, PRIORS.center))
    assert asked == []


def test_a_fold_is_all_rows_of_one_model() -> None:
    """A calibration, made above, predicts its rows by folds likewise."""
    steps = timed(0.0).steps
    fold = model_folds(jobs_of(steps, MACHINE))
    assert len(fold) == len(steps) and len(set(fold.tolist())) == 2
    assert len(set(zip(fold.tolist(), (each.hidden for each in steps), strict=True))) == 2


def test_other_accelerators_and_few_rows_are_refused(calibration: Calibration) -> None:
    other = table_of([step(accelerator="h100")])
    with pytest.raises(ConfigError, match=r"row 1 \(first\): column 'accelerator': 'h100'"):
        calibrate(other, "a100")
    with pytest.raises(ConfigError, match="column 'accelerator': 'h100'"):
        accuracy(other, calibration)
    with pytest.raises(ConfigError, match="at least 4"):
        calibrate(table_of([step()]), "a100")


def test_intervals_widen_with_scatter_and_differences_share_parameters() -> None:
    jobs = jobs_of(timed(0.0).steps[:3], MACHINE)
    fitted = prior_fit(PRIORS)
    slopes = sensitivity(jobs, PRIORS, fitted.logarithms)
    narrow, wide = (half_widths(slopes, fitted.covariance, scatter) for scatter in (0.01, 0.2))
    assert (wide > narrow).all()
    # Equal steps move together: three percent show at a scatter of one, although each interval is wide.
    same = np.stack([slopes[0], slopes[0]])
    assert narrow[0] > 0.1
    assert np.log(1.01) < half_widths(same - slopes[0], fitted.covariance, np.sqrt(2) * 0.01)[1] < np.log(1.03)
    assert scatter_of(np.full(1000, 0.3)) == pytest.approx(0.3, rel=0.01)
