"""Predictions of rows by fits that had not seen them: cross-validation over rows, and with whole models left out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lightloom.calibration.fit import Fit, fit, predicted, prior_fit, sensitivity
from lightloom.calibration.intervals import Predictions, scatter_of
from lightloom.calibration.jobs import Jobs
from lightloom.calibration.priors import Priors
from lightloom.core.arrays import Ints
from lightloom.planner.pricing.belief import half_widths

FOLDS = 10


def random_folds(rows: int, folds: int = FOLDS, seed: int = 0) -> Ints:
    """Return a fold for each row, drawn at random, of sizes as equal as they can be: [rows]."""
    return np.random.default_rng(seed).permutation(rows) % min(folds, rows)


def model_folds(jobs: Jobs) -> Ints:
    """Return a fold for each row such that rows of one model size are in one: [rows]."""
    models = dict(zip(jobs.row.tolist(), (step.model for step in jobs.steps), strict=True))
    _, fold = np.unique([models[row] for row in range(jobs.rows)], return_inverse=True)
    return fold.astype(np.int64)


def predict_held_out(
    jobs: Jobs, priors: Priors, fitted: Fit, fold: Ints, advance: Callable[[int], None] | None = None
) -> Predictions:
    """Predict each row by a fit to the rows of all other folds.

    The scatter in a row's interval is that of the other folds' rows. All fits share the derivatives at the fit to all
    rows.

    Args:
        jobs: columns of jobs.
        priors: parameters.
        fitted: the fit to all rows, at which the others begin.
        fold: which rows are left out together: [rows].
        advance: told after each fit.
    """
    seconds, steps = np.zeros(jobs.rows), np.empty(jobs.rows, np.object_)
    fits, slopes = [], sensitivity(jobs, priors, fitted.logarithms)
    for number in range(fold.max() + 1):
        out = fold == number
        rows = jobs.subset(~out)
        other = fit(rows, priors, fitted.logarithms, slopes[~out]) if (~out).any() else prior_fit(priors)
        tested = jobs.subset(out)
        seconds[out], fastest = predicted(tested, priors, other.logarithms)
        steps[out] = fastest.steps
        fits.append(other)
        if advance is not None:
            advance(1)
    errors = seconds - np.log(jobs.measured)
    half = np.zeros(jobs.rows)
    for number, other in enumerate(fits):
        out = fold == number
        half[out] = half_widths(slopes[out], other.covariance, scatter_of(errors[~out]))
    return Predictions(seconds, half, tuple(steps))
