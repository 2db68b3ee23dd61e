"""Fits where the logarithm of seconds is linear in those of the parameters: solutions are known in closed form."""

from __future__ import annotations

from math import exp, log, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.errors import ConfigError
from lightloom.machines.accelerators.calibrated import CalibrationRows
from lightloom.machines.accelerators.kernels import Prior
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.planning.calibration import fit as fit_module
from lightloom.planning.calibration import profile as profile_module
from lightloom.planning.calibration.accuracy import calibration_of, fitted_parameters, parameters_of
from lightloom.planning.calibration.fit import (
    Fit,
    error_statistics,
    fit,
    log_seconds,
    model_folds,
    predict_held_out,
    predicted,
    prior_fit,
    scatter_of,
    sensitivity,
)
from lightloom.planning.calibration.rows import Jobs, Priors, kernels_with, priors_of, step_seconds
from lightloom.planning.pricing.job import PRIOR_SCATTER, half_widths
from tests.calibration.samples import made_calibration, step

PRIORS = Priors({"a": Prior(2.0, 0.5, "", ""), "b": Prior(0.8, 0.25, "", "", most=1.0)})
TABLE = np.array([[1.0, 0.0], [0.5, -1.0], [0.0, 2.0], [-1.0, 1.0], [2.0, 0.5]])
"""By which the logarithms of the seconds of five rows depend on those of the parameters."""


def jobs_of_rows(seconds: Floats, row: Ints, models: str) -> Jobs:
    """Jobs of rows, by name of the model each, that were measured to take so long."""
    planned = tuple(
        SimpleNamespace(step=SimpleNamespace(step_s=float(seconds[at]), model=models[at], job=number), number=number)
        for number, at in enumerate(row.tolist())
    )
    return Jobs(planned, row, len(seconds), None)  # type: ignore[arg-type]


@pytest.fixture
def linear(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let the seconds of job k be exp of row k of the table times the parameters' logarithms; note the jobs."""
    asked: list[int] = []

    def seconds(jobs: Jobs, values: dict[str, float]) -> Floats:
        asked.append(len(jobs.planned))
        numbers = [each.number for each in jobs.planned]  # type: ignore[attr-defined]
        return np.asarray(np.exp(TABLE[numbers] @ np.log(list(values.values()))))

    monkeypatch.setattr(fit_module, "step_seconds", seconds)
    return asked


def true_seconds(at: Floats) -> Floats:
    return np.asarray(np.exp(TABLE @ at))


def test_rows_are_predicted_by_their_fastest_job(linear: list[int]) -> None:
    """Rows 0 and 1 have jobs 0 1 and 2 3 4; where a = 2 and b = 0.8 jobs 1 and 3 are the fastest."""
    jobs = jobs_of_rows(np.ones(2), np.array([0, 0, 1, 1, 1]), "xy")
    at = np.log([2.0, 0.8])
    found, chosen = predicted(jobs, PRIORS, at)
    # Job 0 takes 2, job 1 sqrt(2) / 0.8 = 1.77; job 2 takes 0.64, job 3 0.8 / 2 = 0.4, job 4 4 sqrt(0.8).
    assert found == pytest.approx([log(sqrt(2) / 0.8), log(0.4)])
    assert [each.number for each in chosen.planned] == [1, 3]  # type: ignore[attr-defined]
    assert log_seconds(jobs, PRIORS, at) == pytest.approx(found)
    linear.clear()
    assert sensitivity(jobs, PRIORS, at) == pytest.approx(TABLE[[1, 3]])
    assert linear == [5, 2, 2]


def test_derivatives_are_taken_downwards_where_fractions_may_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def seconds(jobs: Jobs, values: dict[str, float]) -> Floats:
        asked.append(values["b"])
        return np.ones(len(jobs.planned))

    monkeypatch.setattr(fit_module, "step_seconds", seconds)
    sensitivity(jobs_of_rows(np.ones(2), np.arange(2), "xy"), PRIORS, np.log([2.0, 1.0]))
    assert asked == pytest.approx([1.0, 1.0, exp(-1e-3)]) and max(asked) <= 1.0


def test_rows_that_lie_on_the_priors_leave_their_parameters_and_narrow_them(linear: list[int]) -> None:
    """Without errors the noise is that of ten rows of 0.05, and rows of one model count as one in the covariance."""
    jobs = jobs_of_rows(true_seconds(PRIORS.center), np.arange(5), "xxyyy")
    found = fit(jobs, PRIORS)
    noise = sqrt(10 * 0.05**2 / (5 + 10))
    assert found.logarithms == pytest.approx(PRIORS.center, abs=1e-9)
    assert found.noise == pytest.approx(noise)
    information = TABLE.T @ TABLE / noise**2 * 2 / 5 + np.diag([1 / 0.5**2, 1 / 0.25**2])
    assert found.covariance @ information == pytest.approx(np.eye(2), abs=1e-9)
    before = prior_fit(PRIORS)
    assert (before.logarithms.tolist(), before.noise) == (PRIORS.center.tolist(), 0.05)
    assert before.covariance.tolist() == [[0.25, 0.0], [0.0, 0.0625]]


def test_a_small_step_is_that_of_least_squares_with_priors(linear: list[int]) -> None:
    """Far below the noise errors count squared: x = center + (AᵀA/n² + S)⁻¹ Aᵀd/n²."""
    moved = np.array([0.004, -0.003])
    jobs = jobs_of_rows(true_seconds(PRIORS.center + moved), np.arange(5), "abcde")
    noise, spread = 0.5, np.diag([4.0, 16.0])
    found = fit_module._most_likely(jobs, PRIORS, PRIORS.center, noise, TABLE)
    wanted = np.linalg.solve(TABLE.T @ TABLE / noise**2 + spread, TABLE.T @ (TABLE @ moved) / noise**2)
    assert found - PRIORS.center == pytest.approx(wanted, rel=2e-3)
    # Nothing exceeds the largest value, 1 for b, whatever rows say.
    far = jobs_of_rows(true_seconds(np.log([2.0, 3.0])), np.arange(5), "abcde")
    beyond = fit_module._most_likely(far, PRIORS, PRIORS.center, 0.05, TABLE)
    assert -1e-3 < beyond[1] <= 0.0


def test_the_loss_of_an_error_is_squared_where_small_and_linear_where_large() -> None:
    """4 (sqrt(1 + e²/2) - 1): for e = 4 that is 4 (3 - 1) = 8; for e = 0.01 e² but for a few 10⁻⁵ of it."""
    errors = np.array([4.0, -4.0, 0.0, 0.01])
    size, slope = fit_module._robust(errors)
    assert size**2 == pytest.approx([8.0, 8.0, 0.0, 1e-4], rel=1e-4)
    assert np.sign(size).tolist() == [1, -1, 0, 1]
    assert slope == pytest.approx([4 / (3 * sqrt(8))] * 2 + [1.0, 1.0], rel=1e-4)
    step_ = 1e-6
    numeric = (fit_module._robust(errors[:2] + step_)[0] - size[:2]) / step_
    assert slope[:2] == pytest.approx(numeric, rel=1e-5)


def test_the_noise_of_rows_is_drawn_to_that_of_ten() -> None:
    """Errors of 0.1, 0.2 and 0.3: their median times 1.4826 counts for three rows, 0.05 for ten."""
    noise = fit_module._robust_noise(np.array([0.1, -0.3, 0.2]), 3)
    assert noise == pytest.approx(sqrt((3 * (0.2 * 1.4826) ** 2 + 10 * 0.0025) / 13))
    assert fit_module._robust_noise(np.zeros(90), 90) == 0.02
    assert fit_module._robust_noise(np.zeros(10), 10) == pytest.approx(0.05 / sqrt(2))


def test_a_row_far_off_weighs_less_in_the_covariance(linear: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the fit stays at the priors, an error of e times the noise has the weight 1 / sqrt(1 + e²/2)."""
    off = np.array([0.0, 0.02, -0.02, 0.0, 0.0])
    jobs = jobs_of_rows(true_seconds(PRIORS.center) * np.exp(off), np.arange(5), "abcde")
    noises: list[float] = []

    def stay(jobs: Jobs, priors: Priors, start: Floats, noise: float, near: Floats) -> Floats:
        noises.append(noise)
        return start

    monkeypatch.setattr(fit_module, "_most_likely", stay)
    found = fit(jobs, PRIORS)
    assert noises == pytest.approx([0.05, sqrt(10 * 0.05**2 / 15)])  # which the second round leaves as it is
    noise = sqrt(10 * 0.05**2 / 15)  # the median error is 0
    weights = np.array([1.0, *[1 / sqrt(1 + (0.02 / noise) ** 2 / 2)] * 2, 1.0, 1.0]) / noise**2
    information = TABLE.T @ (TABLE * weights[:, None]) + np.diag([4.0, 16.0])
    assert found.covariance @ information == pytest.approx(np.eye(2), abs=1e-8)


def test_rows_left_out_are_predicted_by_the_others_alone(linear: list[int]) -> None:
    """The fifth row, off by a tenth, moves the fits of all folds but its own."""
    seconds = true_seconds(PRIORS.center)
    seconds[4] *= exp(0.4)
    jobs = jobs_of_rows(seconds, np.arange(5), "aabbc")
    whole = fit(jobs, PRIORS)
    fold = model_folds(jobs)
    assert fold.tolist() == [0, 0, 1, 1, 2]
    told: list[int] = []
    found = predict_held_out(jobs, PRIORS, whole, fold, told.append)
    assert told == [1, 1, 1]
    assert found.log_seconds[4] == pytest.approx(log(seconds[4]) - 0.4, abs=1e-6)
    assert abs(found.log_seconds[0] - log(seconds[0])) > 1e-3
    assert [each.job for each in found.steps] == [0, 1, 2, 3, 4]  # type: ignore[attr-defined]
    others = fit(jobs.subset(fold != 2), PRIORS, whole.logarithms, TABLE[:4])
    errors = found.log_seconds - np.log(seconds)
    wanted = half_widths(TABLE[4:], others.covariance, scatter_of(errors[:4]))
    assert found.half_width[4] == pytest.approx(wanted[0], rel=1e-6)
    alone = predict_held_out(jobs, PRIORS, whole, np.zeros(5, np.int64))
    assert alone.log_seconds == pytest.approx(TABLE @ PRIORS.center)
    assert alone.half_width == pytest.approx(half_widths(TABLE, prior_fit(PRIORS).covariance, PRIOR_SCATTER))


# Fits to operators.

NAMES = profile_module.FITTED
CENTER = np.log([0.8, 500.0, 0.5, 0.6, 0.4, 0.9])
SPREAD = np.array([0.2, 0.5, 0.3, 0.4, 0.1, 0.25])


class Lines:
    """Operators whose logarithm of seconds is linear in the parameters' logarithms."""

    def __init__(self, slope: Floats, measured: Floats, kinds: int) -> None:
        self.slope, self.measured, self.kinds = slope, measured, kinds
        self.operators = list(range(len(measured)))

    def predicted(self, logarithms: Floats) -> Floats:
        return np.asarray(self.slope @ (logarithms - CENTER))

    def slopes(self, logarithms: Floats) -> Floats:
        return self.slope

    def subset(self, keep: Mask) -> Lines:
        return Lines(self.slope[keep], self.measured[keep], self.kinds)


def fit_lines(rows: Lines) -> tuple[Floats, Floats, float]:
    given: Any = rows
    return profile_module._fit_parameters(given, CENTER, SPREAD, CENTER)


def test_operators_of_one_name_count_as_one_in_the_covariance() -> None:
    """Ten operators of five names that lie on the priors: the noise is the least, 0.02."""
    slope = np.random.default_rng(0).standard_normal((10, 6))
    logarithms, covariance, noise = fit_lines(Lines(slope, np.zeros(10), 5))
    assert logarithms == pytest.approx(CENTER, abs=1e-7) and noise == 0.02
    information = slope.T @ slope * 5 / 10 / 0.02**2 + np.diag(SPREAD**-2)
    assert covariance @ information == pytest.approx(np.eye(6), abs=1e-8)


def test_a_fit_to_operators_ends_where_its_noise_has_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first noise is assumed; the second is that of the rows, and so is the third."""
    from scipy import optimize

    solve, noises = optimize.least_squares, list[float]()

    def noted(residuals: Any, start: Floats, *rest: Any, **more: Any) -> Any:
        # A row that lies 0.2 off the start is 0.2 over the noise off.
        noises.append(0.2 / float(np.abs(residuals(CENTER)).max()))
        return solve(residuals, start, *rest, **more)

    monkeypatch.setattr(optimize, "least_squares", noted)
    slope = np.zeros((40, 6))
    fit_lines(Lines(slope, np.where(np.arange(40) % 2, 0.2, -0.2), 40))
    # Weights of 0.95, the root of 0.9026, are those of errors of 1 / 1.4826.
    assert noises == pytest.approx([0.15, 0.29652 / sqrt(0.9026)], rel=1e-3)


def test_the_noise_of_operators_is_their_median_error() -> None:
    """A hundred operators that depend on the depth alone, 0.3 slower by its logarithm, and 0.1 above or below that:
    1.4826 times 0.1, so that each weighs 1 / sqrt(1 + 1/1.4826²/2)."""
    slope = np.zeros((100, 6))
    slope[:, 1] = 1.0
    off = np.where(np.arange(100) % 2, 0.1, -0.1)
    logarithms, covariance, noise = fit_lines(Lines(slope, 0.3 + off, 100))
    assert noise == pytest.approx(0.14826, rel=0.03)
    weight = 1 / sqrt(1 + 1 / 1.4826**2 / 2)
    held = 100 * weight / 0.14826**2
    assert logarithms[1] - CENTER[1] == pytest.approx(0.3 * held / (held + 1 / 0.25), rel=5e-3)
    assert logarithms[[0, 2, 3, 4, 5]] == pytest.approx(CENTER[[0, 2, 3, 4, 5]], abs=1e-6)
    assert covariance[1, 1] == pytest.approx(1 / (held + 1 / 0.25), rel=0.05)
    assert covariance[0, 0] == pytest.approx(0.2**2) and covariance[0, 1] == pytest.approx(0, abs=1e-12)


def test_fractions_end_at_one_and_the_depth_does_not() -> None:
    """Half of the operators ask for a fraction of 1.08, half for a depth of 675."""
    slope = np.eye(6)[[0, 1] * 50]
    logarithms, _, _ = fit_lines(Lines(slope, np.full(100, 0.3), 100))
    assert -1e-3 < logarithms[0] <= 0.0
    assert logarithms[1] == pytest.approx(CENTER[1] + 0.3, abs=1e-3)


def test_a_few_operators_far_off_weigh_less() -> None:
    slope = np.zeros((31, 6))
    slope[:, 1] = 1.0
    measured = 0.01 * np.cos(np.arange(31))
    measured[:5] = 5.0
    logarithms, _, _ = fit_lines(Lines(slope, measured, 31))
    assert 0.0 < logarithms[1] - CENTER[1] < 0.05  # a mean would be at 0.8


def test_operators_left_out_are_predicted_by_the_others() -> None:
    """Two folds that are a twentieth apart: each is off by what the other says, less what the priors hold."""
    slope = np.zeros((40, 6))
    slope[:, 1] = 1.0
    fold = np.arange(40) % 2
    measured = np.where(fold == 0, 0.3, 0.35)
    given: Any = Lines(slope, measured, 40)
    errors, inside = profile_module._held_out(given, CENTER, SPREAD, CENTER, fold)
    assert errors[fold == 0] == pytest.approx(np.full(20, 0.05), abs=2e-3)
    assert errors[fold == 1] == pytest.approx(np.full(20, -0.05), abs=2e-3)
    assert inside.all()
    measured = np.where(np.arange(40) < 2, 3.0, 0.3)
    given = Lines(slope, measured, 40)
    errors, inside = profile_module._held_out(given, CENTER, SPREAD, CENTER, fold)
    assert inside.tolist() == [False, False, *[True] * 38]
    assert errors[:2] == pytest.approx([-2.7, -2.7], abs=0.02)


# Calibrations as fits, and fits as calibrations.


def test_a_calibration_says_what_a_fit_found() -> None:
    machine = load_accelerator("a100")
    priors = priors_of(machine)
    rows = CalibrationRows(table="t.csv", sha256="ab" * 32, count=12)
    before = prior_fit(priors)
    logarithms = before.logarithms + 0.1
    covariance = before.covariance * 0.25
    covariance[0, 1] = covariance[1, 0] = 1e-4
    fitted = Fit(logarithms, covariance, 0.033)
    errors = np.linspace(-0.2, 0.1, 12)
    statistics = error_statistics(errors, np.ones(12, bool))
    for kind, count, folds, words in (
        ("steps", 12, 10, "a100, calibrated on the 12 rows of t.csv"),
        ("operators", 7, 7, "a100, calibrated on 7 operators of t.csv"),
    ):
        which = rows.model_copy(update={"kind": kind, "count": count})
        made = calibration_of("a100", which, fitted, priors, errors, statistics)
        assert made.description == words and made.cross_validated.folds == folds
        assert (made.noise, made.scatter) == (0.033, scatter_of(errors))
        assert made.cross_validated.mean == pytest.approx(np.abs(errors).mean())
        assert np.array_equal(made.covariance, covariance)
        again = fitted_parameters(made, priors)
        assert again.logarithms == pytest.approx(logarithms, abs=1e-5) and again.noise == 0.033
        assert np.array_equal(again.covariance, covariance)
        entry = made.parameters["gemm_depth"]
        prior = priors.by_name["gemm_depth"]
        assert (entry.prior, entry.prior_spread, entry.unit) == (prior.value, prior.spread, prior.unit)
        assert entry.spread == pytest.approx(prior.spread / 2, rel=1e-5) and entry.determined


def test_parameters_that_a_calibration_lacks_stay_at_their_priors() -> None:
    priors = priors_of(load_accelerator("a100"))
    whole = made_calibration(gemm_fraction=0.5)
    kept = dict(list(whole.parameters.items())[2:])
    part = whole.model_copy(update={"parameters": kept, "covariance": (np.eye(len(kept)) * 0.01).tolist()})
    found = fitted_parameters(part, priors)
    assert found.logarithms[:2] == pytest.approx(priors.center[:2])
    assert np.diag(found.covariance) == pytest.approx([*priors.spread[:2] ** 2, *[0.01] * len(kept)])
    assert list(parameters_of(found, priors)) == priors.names
    with pytest.raises(ConfigError, match="unknown parameters: speed; calibrate anew"):
        fitted_parameters(part.model_copy(update={"parameters": {"speed": kept["fusion"]}}), priors)


def test_values_of_parameters_reach_kernels_and_transport() -> None:
    """Twice the latency slows a step; a parameter that is not named keeps the accelerator's value."""
    from lightloom.planning.calibration.rows import jobs_of

    machine = load_accelerator("a100")
    jobs = jobs_of([step(), step(row="plain", dp=16, tp=1, pp=1, micro_batch=3)], machine)
    plain = step_seconds(jobs, {})
    assert plain.shape == (2,) and (plain > 0).all()
    priors = priors_of(machine)
    assert step_seconds(jobs, priors.values(priors.center)) == pytest.approx(plain)
    for name, value in (("latency", 4.0), ("network_bandwidth", 0.25), ("dispatch", 1e-3), ("gemm_fraction", 0.4)):
        assert (step_seconds(jobs, {name: value}) > plain).any(), name
    made = kernels_with(machine, {"gemm_fraction": 0.4, "latency": 3.0})
    assert machine.kernels is not None
    assert made == machine.kernels.model_copy(update={"gemm_fraction": 0.4})
