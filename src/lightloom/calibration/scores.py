"""How good predictions of measured steps are: errors, bias, coverage of the intervals, agreement of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from lightloom.calibration.intervals import Predictions
from lightloom.calibration.rows import MeasuredStep
from lightloom.core.arrays import Floats
from lightloom.core.results import Document

LEAST_ROWS_OF_A_MODEL = 5
"""Rows of one model size from which ranks are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Relative errors over all rows of a table; an error is (predicted - measured) / measured."""

    rows: int
    mean: float
    """Mean of the errors' sizes."""
    median: float
    """Median of the errors' sizes."""
    bias: float
    """Mean error with its sign."""
    percentile_90: float
    """The size that nine of ten errors stay below."""
    coverage: float
    """Share of the rows that lie in their 90 % interval."""
    half_width: float
    """Median of half the interval's width over the prediction."""
    rank_agreement: float | None
    """Spearman's coefficient of predicted and measured tokens per second and GPU within models of at least five rows,
    averaged over those models; None where there is no such model."""

    def to_json(self) -> Document:
        return asdict(self)

    def line(self) -> str:
        """Return the scores in one line of words."""
        text = (
            f"{self.rows} rows: mean error {self.mean:.1%}, median {self.median:.1%}, bias {self.bias:+.1%}, "
            f"nine of ten below {self.percentile_90:.1%}; 90 % intervals hold {self.coverage:.0%} of the rows, "
            f"median half-width {self.half_width:.1%}"
        )
        agreement = self.rank_agreement
        return text if agreement is None else f"{text}; rank agreement within models {agreement:.2f}"


def scores_of(steps: Sequence[MeasuredStep], predicted: Predictions) -> Scores:
    """Return the scores of predictions of these steps, in their order."""
    measured = np.array([step.step_s for step in steps])
    errors = predicted.seconds / measured - 1
    size = np.abs(errors)
    inside = (predicted.low <= measured) & (measured <= predicted.high)
    return Scores(
        rows=len(steps),
        mean=float(size.mean()),
        median=float(np.median(size)),
        bias=float(errors.mean()),
        percentile_90=float(np.quantile(size, 0.9)),
        coverage=float(inside.mean()),
        half_width=float(np.median(np.sinh(predicted.half_width))),
        rank_agreement=_rank_agreement(steps, predicted.seconds),
    )


def _rank_agreement(steps: Sequence[MeasuredStep], seconds: Floats) -> float | None:
    from scipy.stats import spearmanr

    agreements = []
    for model in dict.fromkeys(step.model for step in steps):
        rows = [index for index, step in enumerate(steps) if step.model == model]
        if len(rows) < LEAST_ROWS_OF_A_MODEL:
            continue
        measured = np.array([steps[row].tokens_per_second_and_gpu for row in rows])
        ours = measured * np.array([steps[row].step_s for row in rows]) / seconds[rows]
        coefficient = float(spearmanr(ours, measured).statistic)
        if np.isfinite(coefficient):
            agreements.append(coefficient)
    return float(np.mean(agreements)) if agreements else None
