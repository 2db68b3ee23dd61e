"""Intervals of predictions: what parameters leave open, and how far rows scatter around the best model.

The half-width of a 90 % interval, in logarithms, has two parts that add up as squares: 1.645 standard deviations of
what the parameters' covariance says, and the size that nine of ten errors of unseen rows stay below. The second is read
off held-out rows, so that it holds however their errors are distributed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.calibration.fit import NOISE, Fit
from lightloom.calibration.rows import MeasuredStep
from lightloom.core.arrays import Floats, Mask

LEVEL = 0.9
"""Probability that a measured step lies within its interval."""
_NORMAL = 1.645
"""Standard deviations of a normal distribution within which nine tenths lie."""
PRIOR_SCATTER = _NORMAL * NOISE
"""Scatter of rows, as a half-width of logarithms, before any row was seen."""
_PRIOR_ROWS = 5
"""Rows that the prior scatter counts for."""


@dataclass(frozen=True)
class Predictions:
    """Predicted steps: each array of shape [rows]."""

    log_seconds: Floats
    half_width: Floats
    """Of the 90 % interval of the logarithm."""
    steps: tuple[MeasuredStep, ...]
    """The rows as they are predicted: what they leave open, at its fastest."""

    @property
    def seconds(self) -> Floats:
        return np.exp(self.log_seconds)

    @property
    def low(self) -> Floats:
        """Seconds at the lower end of the interval."""
        return np.exp(self.log_seconds - self.half_width)

    @property
    def high(self) -> Floats:
        """Seconds at the upper end of the interval."""
        return np.exp(self.log_seconds + self.half_width)


def half_widths(slopes: Floats, fitted: Fit, scatter: Floats | float) -> Floats:
    """Return the half-width of each row's interval, in logarithms: [rows].

    Args:
        slopes: change of each row's logarithm with each parameter's: [rows, parameters].
        fitted: parameters and their covariance.
        scatter: half-width that rows need around the best model (:func:`scatter_of`).
    """
    variance: Floats = np.einsum("rp,pq,rq->r", slopes, fitted.covariance, slopes)
    half: Floats = np.sqrt(_NORMAL**2 * variance + np.asarray(scatter) ** 2)
    return half


def scatter_of(errors: Floats) -> float:
    """Return the size that nine of ten errors of unseen rows stay below, drawn towards :data:`PRIOR_SCATTER`.

    Args:
        errors: logarithm of predicted over measured seconds, of rows that a fit had not seen: [rows].
    """
    if not len(errors):
        return PRIOR_SCATTER
    size = float(np.quantile(np.abs(errors), LEVEL, method="higher"))
    return float(np.sqrt((len(errors) * size**2 + _PRIOR_ROWS * PRIOR_SCATTER**2) / (len(errors) + _PRIOR_ROWS)))


def told_apart(slopes: Floats, log_seconds: Floats, fitted: Fit, scatter: float) -> Mask:
    """Return whether the first of several steps is told apart from each of the others: [steps].

    Parameters that move both times alike cancel in the difference; the scatter of each stays.

    Args:
        slopes: of each step: [steps, parameters].
        log_seconds: of each step.
        fitted: parameters and their covariance.
        scatter: half-width of rows around the model.
    """
    difference = half_widths(slopes - slopes[0], fitted, np.sqrt(2) * scatter)
    apart: Mask = np.abs(log_seconds - log_seconds[0]) > difference
    return apart
