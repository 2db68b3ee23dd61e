"""Calibrate an accelerator on measured steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lightloom.accelerators.calibrated import Calibration, CalibrationRows, CrossValidatedError
from lightloom.accelerators.load import load_accelerator
from lightloom.calibration.document import parameters_of
from lightloom.calibration.fit import fit
from lightloom.calibration.held_out import FOLDS, predict_held_out, random_folds
from lightloom.calibration.intervals import scatter_of
from lightloom.calibration.jobs import jobs_of
from lightloom.calibration.priors import priors_of
from lightloom.calibration.rows import MeasuredSteps
from lightloom.calibration.scores import scores_of
from lightloom.core.errors import ConfigError

LEAST_ROWS = 4
"""Rows from which an error can be cross-validated."""


def calibrate(steps: MeasuredSteps, accelerator: str, advance: Callable[[int], None] | None = None) -> Calibration:
    """Fit the parameters of an accelerator, from its priors, to steps measured on it.

    Args:
        steps: the measured rows.
        accelerator: a name of the catalog, or a YAML file, as the rows name it.
        advance: told after each fit.

    Raises:
        ConfigError: the accelerator is calibrated already, a row is of another one, or there are fewer than four.
    """
    machine = load_accelerator(accelerator)
    if machine.calibration is not None:
        raise ConfigError(
            f"accelerator {accelerator!r} is calibrated already: expected {machine.calibration.accelerator!r}, from "
            "whose priors a calibration starts"
        )
    for number, step in enumerate(steps.steps, 1):
        if step.accelerator != accelerator:
            raise ConfigError(
                f"{steps.file}, row {number} ({step.row}): column 'accelerator': {step.accelerator!r}: "
                f"expected {accelerator!r}, which is calibrated"
            )
    if len(steps) < LEAST_ROWS:
        raise ConfigError(f"{steps.file}: {len(steps)} rows: expected at least {LEAST_ROWS} to calibrate on")
    priors = priors_of(machine)
    jobs = jobs_of(steps.steps, machine)
    fitted = fit(jobs, priors)
    if advance is not None:
        advance(1)
    folds = random_folds(jobs.rows)
    unseen = predict_held_out(jobs, priors, fitted, folds, advance)
    scores = scores_of(steps.steps, unseen)
    return Calibration(
        description=f"{accelerator}, calibrated on the {len(steps)} rows of {steps.name}",
        accelerator=accelerator,
        rows=CalibrationRows(table=steps.name, sha256=steps.sha256, count=len(steps)),
        cross_validated=CrossValidatedError(
            folds=int(folds.max()) + 1,
            mean=scores.mean,
            median=scores.median,
            bias=scores.bias,
            percentile_90=scores.percentile_90,
            coverage=scores.coverage,
        ),
        noise=fitted.noise,
        scatter=scatter_of(unseen.log_seconds - np.log(jobs.measured)),
        parameters=parameters_of(fitted, priors),
        covariance=fitted.covariance.tolist(),
    )


def fits_of(rows: int) -> int:
    """Return how many fits a calibration on so many rows makes, for a progress bar."""
    return 1 + min(FOLDS, rows)
