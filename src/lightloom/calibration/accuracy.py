"""Predict every row of measured tables, and say how near the predictions are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lightloom.accelerators.calibrated import Calibration
from lightloom.accelerators.load import load_accelerator
from lightloom.calibration.document import fitted_parameters
from lightloom.calibration.fit import Fit, fit, predicted, prior_fit, sensitivity
from lightloom.calibration.held_out import model_folds, predict_held_out, random_folds
from lightloom.calibration.intervals import Predictions
from lightloom.calibration.jobs import Jobs, jobs_of
from lightloom.calibration.priors import Priors, priors_of, transport_of
from lightloom.calibration.rows import MeasuredStep, MeasuredSteps
from lightloom.calibration.scores import Scores, scores_of
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document, Result
from lightloom.core.units import format_time
from lightloom.planner.pricing.belief import PRIOR_SCATTER, half_widths

CrossValidation = Literal["rows", "models"]
"""What is left out of the fit together: a tenth of the rows, or all rows of one model size."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Accuracy(Result):
    """Predictions of the rows of a table, with their intervals and errors."""

    steps: MeasuredSteps
    predicted: Predictions
    basis: str
    """What the parameters rest on, in words."""
    scores: Scores

    def summary(self) -> str:
        return f"{self.steps.name}, {self.basis}: {self.scores.line()}"

    def rows(self) -> list[Document]:
        seconds, low, high = self.predicted.seconds, self.predicted.low, self.predicted.high
        return [
            {
                "row": step.row,
                "model": step.model,
                "gpus": step.gpus,
                "measured_s": step.step_s,
                "predicted_s": float(seconds[index]),
                "low_s": float(low[index]),
                "high_s": float(high[index]),
                "error": float(seconds[index] / step.step_s - 1),
                "inside": bool(low[index] <= step.step_s <= high[index]),
                "assumed": _assumptions(step, used),
            }
            for index, (step, used) in enumerate(zip(self.steps.steps, self.predicted.steps, strict=True))
        ]

    def display_rows(self) -> list[dict[str, object]]:
        return [
            {
                "row": row["row"],
                "model": row["model"],
                "GPUs": row["gpus"],
                "measured": format_time(row["measured_s"]),
                "predicted": format_time(row["predicted_s"]),
                "90 % interval": f"{format_time(row['low_s'])} to {format_time(row['high_s'])}",
                "error": f"{row['error']:+.1%}" + ("" if row["inside"] else " outside"),
                "assumed": row["assumed"],
            }
            for row in self.rows()
        ]

    def to_json(self) -> Document:
        return {
            "table": self.steps.name,
            "sha256": self.steps.sha256,
            "basis": self.basis,
            "scores": self.scores.to_json(),
            "rows": self.rows(),
        }

    def worst(self, count: int = 5) -> list[Document]:
        """Return the rows with the largest errors."""
        return sorted(self.rows(), key=lambda row: -abs(row["error"]))[:count]


def _assumptions(step: MeasuredStep, used: MeasuredStep) -> str:
    """Words for what a row leaves open and the prediction assumes: the fastest choice."""
    assumed = []
    if step.micro_batch is None:
        assumed.append(f"micro-batch {used.micro_batch}")
    if step.virtual_stages is None:
        assumed.append(f"virtual stages {used.virtual_stages}")
    return ", ".join(assumed)


def accuracy(steps: MeasuredSteps, calibration: Calibration | None = None) -> Accuracy:
    """Predict every row from the priors, or from a calibration.

    Raises:
        ConfigError: a row is of another accelerator than the calibration.
    """
    basis = "priors only" if calibration is None else f"calibrated on {calibration.rows.table}"
    if calibration is not None and calibration.rows.sha256 == steps.sha256:
        basis += ", these very rows"
    if calibration is not None and (absent := _absent(calibration, steps)):
        basis += f"; {', '.join(absent)} at priors, as the file is older"

    def predict(jobs: Jobs, priors: Priors) -> Predictions:
        fitted = prior_fit(priors) if calibration is None else fitted_parameters(calibration, priors)
        return predictions(jobs, priors, fitted, PRIOR_SCATTER if calibration is None else calibration.scatter)

    return _judged(steps, basis, predict, None if calibration is None else calibration.accelerator)


def _absent(calibration: Calibration, steps: MeasuredSteps) -> list[str]:
    """The parameters of kernels, and of the transport that steps are predicted with, that a calibration is too old to
    have."""
    if all(step.accelerator != calibration.accelerator for step in steps.steps):
        return calibration.at_priors()
    return calibration.at_priors(transport_of(load_accelerator(calibration.accelerator)).priors())


def cross_validated(
    steps: MeasuredSteps, left_out: CrossValidation = "rows", advance: Callable[[int], None] | None = None
) -> Accuracy:
    """Predict every row by fits that have not seen it."""
    words = {"rows": "calibrated on the other nine tenths of its rows", "models": "calibrated on its other models"}

    def predict(jobs: Jobs, priors: Priors) -> Predictions:
        folds = random_folds(jobs.rows) if left_out == "rows" else model_folds(jobs)
        return predict_held_out(jobs, priors, fit(jobs, priors), folds, advance)

    return _judged(steps, words[left_out], predict)


def predictions(jobs: Jobs, priors: Priors, fitted: Fit, scatter: float) -> Predictions:
    """Return the predictions of all rows of ``jobs`` with their intervals."""
    slopes = sensitivity(jobs, priors, fitted.logarithms)
    seconds, fastest = predicted(jobs, priors, fitted.logarithms)
    return Predictions(seconds, half_widths(slopes, fitted.covariance, scatter), fastest.steps)


def _judged(
    steps: MeasuredSteps, basis: str, predict: Callable[[Jobs, Priors], Predictions], only: str | None = None
) -> Accuracy:
    """Predict the rows of each accelerator in turn, and put them back in order."""
    seconds, half = np.zeros(len(steps)), np.zeros(len(steps))
    used: list[MeasuredStep] = list(steps.steps)
    for name in dict.fromkeys(step.accelerator for step in steps.steps):
        rows = [index for index, step in enumerate(steps.steps) if step.accelerator == name]
        if only is not None and name != only:
            raise ConfigError(
                f"{steps.file}, row {rows[0] + 1} ({steps.steps[rows[0]].row}): column 'accelerator': {name!r}: "
                f"the calibration is of {only!r}"
            )
        machine = load_accelerator(name)
        priors = priors_of(machine)
        jobs = jobs_of([steps.steps[row] for row in rows], machine)
        part = predict(jobs, priors)
        seconds[rows], half[rows] = part.log_seconds, part.half_width
        for row, step in zip(rows, part.steps, strict=True):
            used[row] = step
    whole = Predictions(seconds, half, tuple(used))
    return Accuracy(steps=steps, predicted=whole, basis=basis, scores=scores_of(steps.steps, whole))
