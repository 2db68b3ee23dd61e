"""Predictions with their intervals (:mod:`lightloom.planner.pricing.belief`), and how far rows scatter around the best
model: read off held-out rows, so that it holds however their errors are distributed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.calibration.rows import MeasuredStep
from lightloom.core.arrays import Floats
from lightloom.planner.pricing.belief import LEVEL, PRIOR_SCATTER

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


def scatter_of(errors: Floats) -> float:
    """Return the size that nine of ten errors of unseen rows stay below, drawn towards :data:`PRIOR_SCATTER`.

    Args:
        errors: logarithm of predicted over measured seconds, of rows that a fit had not seen: [rows].
    """
    if not len(errors):
        return PRIOR_SCATTER
    size = float(np.quantile(np.abs(errors), LEVEL, method="higher"))
    return float(np.sqrt((len(errors) * size**2 + _PRIOR_ROWS * PRIOR_SCATTER**2) / (len(errors) + _PRIOR_ROWS)))
