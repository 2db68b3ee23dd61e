"""Maximum a posteriori fit of the parameters to measured steps, and how well it predicts rows it has not seen.

Logarithms of step times are compared, so that an error of ten percent weighs the same at every scale. Errors of a few
times the noise count linearly rather than squared (pseudo-Huber), so that a few rows off any smooth model do not bend
it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.calibration.jobs import Jobs
from lightloom.calibration.priors import Priors
from lightloom.calibration.steps import step_seconds
from lightloom.core.arrays import Floats
from lightloom.planner.pricing.belief import NOISE

LEAST_NOISE = 0.02
"""Least noise that a fit assumes: few rows can lie on the model by chance."""
_STEP = -1e-3
"""Change of a logarithm for numerical derivatives: downwards, as fractions may be 1."""
_MOST_EVALUATIONS = 6
"""Predictions of all rows with the same derivatives."""
_MOST_ROUNDS = 4
_SETTLED = 0.1
"""Change of a parameter's logarithm, in spreads, and of the noise, relative, that is none."""


@dataclass(frozen=True)
class Fit:
    """Parameters that rows and priors support most, and what is still uncertain about them."""

    logarithms: Floats
    """Of the parameters: [parameters]."""
    covariance: Floats
    """Of the logarithms: [parameters, parameters]."""
    noise: float
    """Standard deviation of the logarithm of a typical row around the model."""


def prior_fit(priors: Priors) -> Fit:
    """Return what is known before any row."""
    return Fit(priors.center, np.diag(priors.spread**2), NOISE)


def log_seconds(jobs: Jobs, priors: Priors, logarithms: Floats) -> Floats:
    """Return the logarithm of the predicted seconds of each row: [rows]."""
    return predicted(jobs, priors, logarithms)[0]


def predicted(jobs: Jobs, priors: Priors, logarithms: Floats) -> tuple[Floats, Jobs]:
    """Return the logarithm of the predicted seconds of each row, and each row's fastest job: [rows]."""
    seconds, fastest = jobs.fastest(step_seconds(jobs, priors.values(logarithms)))
    return np.log(seconds), jobs.only(fastest)


def sensitivity(jobs: Jobs, priors: Priors, logarithms: Floats) -> Floats:
    """Return how the logarithm of each row's seconds changes with that of each parameter: [rows, parameters]."""
    center, chosen = predicted(jobs, priors, logarithms)
    columns = []
    for index in range(len(logarithms)):
        moved = logarithms.copy()
        moved[index] += _STEP
        columns.append((log_seconds(chosen, priors, moved) - center) / _STEP)
    return np.stack(columns, axis=1)


def fit(jobs: Jobs, priors: Priors, start: Floats | None = None, slopes: Floats | None = None) -> Fit:
    """Fit the parameters to the rows of ``jobs``.

    Derivatives cost as many predictions as there are parameters, so that a few steps share them.

    Args:
        jobs: rows.
        priors: parameters.
        start: logarithms at which to begin; the priors' centre without them.
        slopes: derivatives of the rows near the solution, [rows, parameters], which then serve throughout; without
            them they are computed anew where the parameters have moved.
    """
    logarithms = priors.center if start is None else start
    measured = np.log(jobs.measured)
    noise, known = NOISE, slopes is not None
    for _ in range(_MOST_ROUNDS):
        if slopes is None:
            slopes = sensitivity(jobs, priors, logarithms)
        found = _most_likely(jobs, priors, logarithms, noise, slopes)
        errors = log_seconds(jobs, priors, found) - measured
        before, noise = noise, _robust_noise(errors, jobs.rows)
        moved = float(np.abs((found - logarithms) / priors.spread).max())
        logarithms = found
        if moved < _SETTLED and abs(noise / before - 1) < _SETTLED:
            break
        if not known and moved >= _SETTLED:
            slopes = None
    if slopes is None:
        slopes = sensitivity(jobs, priors, logarithms)
    weights = 1 / np.sqrt(1 + (errors / noise) ** 2 / 2) / noise**2 * _independent_share(jobs)
    information = slopes.T @ (slopes * weights[:, None]) + np.diag(priors.spread**-2.0)
    return Fit(logarithms, np.linalg.inv(information).astype(np.float64), noise)


def _independent_share(jobs: Jobs) -> float:
    """Share of the rows that count as independent in the covariance.

    Rows of one model size share what the model gets wrong about it, and so count together as one. How near the fit
    comes to the rows does not depend on this, only how certain its parameters are.
    """
    models = {step.model for step in jobs.steps}
    return len(models) / jobs.rows


def _robust_noise(errors: Floats, rows: int) -> float:
    """Noise from the median of the errors' sizes, drawn towards :data:`NOISE` as if that were ten rows' worth."""
    median = float(np.median(np.abs(errors))) * 1.4826
    return max(float(np.sqrt((rows * median**2 + 10 * NOISE**2) / (rows + 10))), LEAST_NOISE)


def _most_likely(jobs: Jobs, priors: Priors, start: Floats, noise: float, near: Floats) -> Floats:
    from scipy.optimize import least_squares

    measured = np.log(jobs.measured)
    errors: dict[bytes, Floats] = {}

    def errors_at(logarithms: Floats) -> Floats:
        key = logarithms.tobytes()
        if key not in errors:
            errors[key] = (log_seconds(jobs, priors, logarithms) - measured) / noise
        return errors[key]

    def residuals(logarithms: Floats) -> Floats:
        return np.concatenate([_robust(errors_at(logarithms))[0], (logarithms - priors.center) / priors.spread])

    def slopes(logarithms: Floats) -> Floats:
        weighted = near * (_robust(errors_at(logarithms))[1] / noise)[:, None]
        return np.concatenate([weighted, np.diag(1 / priors.spread)])

    solved = least_squares(
        residuals,
        start,
        jac=slopes,
        bounds=(-np.inf, priors.most),
        x_scale=priors.spread,
        max_nfev=_MOST_EVALUATIONS,
        xtol=1e-3,
        ftol=1e-5,
    )
    logarithms: Floats = solved.x
    return logarithms


def _robust(errors: Floats) -> tuple[Floats, Floats]:
    """Residuals whose squares are the pseudo-Huber loss of ``errors``, and their derivatives."""
    root = np.sqrt(1 + errors**2 / 2)
    size = np.sqrt(4 * (root - 1))
    slope = np.divide(np.abs(errors), root * size, out=np.ones_like(errors), where=size > 1e-9)
    return np.sign(errors) * size, slope
