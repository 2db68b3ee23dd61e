"""Predict every row of measured tables, and say how near the predictions are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import yaml

from lightloom.core.arrays import Floats
from lightloom.core.configfile import catalog_file, read_yaml, validate
from lightloom.core.errors import ConfigError
from lightloom.core.files import write_atomically
from lightloom.core.results import Advance, Document, Result, attributes, cells, ignore, in_groups
from lightloom.machines.accelerators import calibrated
from lightloom.machines.accelerators.calibrated import CalibrationRows
from lightloom.machines.accelerators.load import CATALOG, is_calibration, load_accelerator
from lightloom.planning.calibration.fit import (
    FOLDS,
    Fit,
    Predictions,
    Scores,
    error_statistics,
    fit,
    model_folds,
    predict_held_out,
    predicted,
    prior_fit,
    random_folds,
    scatter_of,
    scores_of,
    sensitivity,
)
from lightloom.planning.calibration.rows import Jobs, MeasuredSteps, Priors, jobs_of, priors_of, transport_of
from lightloom.planning.pricing.job import PRIOR_SCATTER, half_widths
from lightloom.reports.figures.comparisons import PredictedSeries, accuracy_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Calibrations as files, and as parameters for predictions.

DETERMINED = 0.7
"""Spread after over spread before the rows, below which they count as having determined a parameter."""


def fitted_parameters(calibration: calibrated.Calibration, priors: Priors) -> Fit:
    """Return the parameters of a calibration as a fit: natural logarithms and their covariance, in the order of
    ``priors``, and the calibration's noise. Those that the calibration lacks keep centre and spread of their priors,
    without correlation to others.

    Raises:
        ConfigError: the calibration has parameters that ``priors`` does not.
    """
    names = list(calibration.parameters)
    if odd := ", ".join(name for name in names if name not in priors.names):
        raise ConfigError(f"calibration of {calibration.accelerator}: unknown parameters: {odd}; calibrate anew")
    logarithms, covariance = priors.center.copy(), np.diag(priors.spread**2)
    ours = [priors.names.index(name) for name in names]
    logarithms[ours] = [log(entry.value) for entry in calibration.parameters.values()]
    covariance[np.ix_(ours, ours)] = calibration.covariance
    return Fit(logarithms, covariance, calibration.noise)


def parameters_of(fitted: Fit, priors: Priors) -> dict[str, calibrated.CalibratedParameter]:
    """Return the entries of a calibration file for fitted parameters, by name in the order of ``priors``.

    Each has ``value`` and ``spread`` (standard deviation of the value's natural logarithm) to six significant digits,
    the prior's value, spread, unit, meaning and source as they are, and ``determined``, True where the spread is below
    0.7 of the prior's.
    """
    spread = np.sqrt(np.diag(fitted.covariance))
    return {
        name: calibrated.CalibratedParameter(
            value=rounded(value),
            spread=rounded(after),
            determined=bool(after < DETERMINED * prior.spread),
            **attributes(prior, "prior=value prior_spread=spread unit meaning source"),
        )
        for (name, prior), value, after in zip(priors.by_name.items(), np.exp(fitted.logarithms), spread, strict=True)
    }


def rounded(value: float) -> float:
    """Return a value to six significant digits, as files of calibrations show it."""
    return float(f"{value:.6g}")


def calibration_text(calibration: calibrated.Calibration) -> str:
    """Return the content of a calibration's file as YAML: all fields in their order, but the covariance last, a line
    for each of its rows, to six significant digits; all other numbers as they are."""
    document = calibration.model_dump(mode="json")
    covariance = [[rounded(entry) for entry in row] for row in document.pop("covariance")]
    rows = "".join(f"- {yaml.safe_dump(row, default_flow_style=True, width=10**6).strip()}\n" for row in covariance)
    return f"{yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)}covariance:\n{rows}"


def write_calibration(calibration: calibrated.Calibration, path: Path) -> None:
    """Write a calibration as YAML; the file is complete or left as it was, and missing folders are made.

    Raises:
        ConfigError: the file cannot be written.
    """
    write_atomically(path, calibration_text(calibration))


def read_calibration(path: Path) -> calibrated.Calibration:
    """Return the calibration that :func:`write_calibration` wrote to a file; ``path`` may also be the name of one in
    the catalog.

    Raises:
        ConfigError: the file cannot be read, is no calibration, or a field is missing, unknown or out of range.
    """
    fields = read_yaml(catalog_file(str(path), CATALOG) or path)
    if not is_calibration(fields):
        raise ConfigError(f"{path}: no calibration: expected a file that `lightloom calibrate` wrote")
    return validate(calibrated.Calibration, fields, str(path))


CrossValidation = Literal["rows", "models"]
"""Rows that are left out of one fit: a tenth of the rows, or all rows of one model size."""


_OPEN = {"micro-batch": "micro_batch", "virtual stages": "virtual_stages"}
"""Fields that a row may leave open, by their names in words: the prediction assumes the fastest."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Accuracy(Result):
    """Predictions of the rows of a table, with their intervals and errors."""

    steps: MeasuredSteps
    predicted: Predictions
    basis: str
    """Origin of the parameters, in words."""
    scores: Scores

    def summary(self) -> str:
        """Return one line, ``TABLE, BASIS: SCORES``: the name of the table, the basis of the parameters, and the scores
        as :meth:`Scores.line` words them: errors, coverage and width of the intervals as percentages, and the rank
        agreement as a coefficient where there is one."""
        return f"{self.steps.name}, {self.basis}: {self.scores.line()}"

    def rows(self) -> list[Document]:
        """Return a row for each measured step, in the order of the table: ``row`` (its name), ``model``, ``gpus``,
        ``measured_s`` and ``predicted_s``, the ends of the 90 % interval ``low_s`` and ``high_s``, the relative
        ``error`` (above 0 where predicted too slow), ``inside`` the interval or not, and in words what was ``assumed``
        of choices that the row leaves open, such as "micro-batch 4, virtual stages 2" (the fastest), empty where it
        leaves none."""
        seconds, low, high = self.predicted.seconds, self.predicted.low, self.predicted.high
        return [
            {
                **attributes(step, "row model gpus measured_s=step_s"),
                "predicted_s": float(seconds[index]),
                "low_s": float(low[index]),
                "high_s": float(high[index]),
                "error": float(seconds[index] / step.step_s - 1),
                "inside": bool(low[index] <= step.step_s <= high[index]),
                "assumed": ", ".join(
                    f"{words} {getattr(used, name)}" for words, name in _OPEN.items() if getattr(step, name) is None
                ),
            }
            for index, (step, used) in enumerate(zip(self.steps.steps, self.predicted.steps, strict=True))
        ]

    def display_rows(self) -> list[dict[str, str]]:
        """Return a row for each measured step as texts with units, by heading of the column: row, model, GPUs,
        measured, predicted, 90 % interval, error (a percentage with its sign) and assumed; where the measurement lies
        outside of its interval, " outside" follows the error."""
        columns = "row: {row} | model: {model} | GPUs: {gpus} | measured: {measured_s:time} | "
        columns += "predicted: {predicted_s:time} | 90 % interval: {low_s:time} to {high_s:time} | "
        columns += "error: {error:+.1%}{outside} | assumed: {assumed}"
        return cells(columns, ({**row, "outside": "" if row["inside"] else " outside"} for row in self.rows()))

    def to_json(self) -> Document:
        """Return a document with ``table`` (name), its checksum ``sha256``, ``basis`` of the parameters in words,
        ``scores`` (``rows``, ``mean``, ``median``, ``bias``, ``percentile_90``, ``coverage`` and ``half_width``, errors
        as shares, and ``rank_agreement``, None where no model size has enough rows) and ``rows``, one for each measured
        step as :meth:`rows` returns them (names, seconds measured and predicted, ends of the interval, relative
        error)."""
        document = attributes(self, "table=steps.name sha256=steps.sha256 basis")
        return document | {"scores": asdict(self.scores), "rows": self.rows()}

    def worst(self, count: int = 5) -> list[Document]:
        """Return the ``count`` rows of :meth:`rows` (all, if there are fewer) with the largest sizes of relative
        errors, whatever the sign, the largest first."""
        return sorted(self.rows(), key=lambda row: -abs(row["error"]))[:count]


def accuracy(steps: MeasuredSteps, calibration: calibrated.Calibration | None = None) -> Accuracy:
    """Return predictions of every row with their errors. Without a calibration they are from the priors of each row's
    accelerator, and the scatter in their 90 % intervals is the one assumed before any row is seen (0.082 as a natural
    logarithm); with one, parameters and scatter are the calibration's. The ``basis`` of the result reads "priors only",
    or "calibrated on TABLE", with ", these very rows" where the rows are those of the calibration, and followed by ";
    NAMES at priors, as the file is older" where the calibration lacks parameters.

    Raises:
        ConfigError: a row is of another accelerator than the calibration, or the calibration has unknown parameters.
        UnsupportedError: an accelerator of the rows has no kernel model, or names no transport.
    """
    if calibration is None:
        by_priors = lambda jobs, priors: predictions(jobs, priors, prior_fit(priors), PRIOR_SCATTER)  # noqa: E731
        return _predict_each_accelerator(steps, "priors only", by_priors)
    for number, step in enumerate(steps.steps, 1):
        if step.accelerator != calibration.accelerator:
            raise ConfigError(
                f"{steps.file}, row {number} ({step.row}): column 'accelerator': {step.accelerator!r}: "
                f"the calibration is of {calibration.accelerator!r}"
            )
    basis = f"calibrated on {calibration.rows.table}"
    basis += ", these very rows" if calibration.rows.sha256 == steps.sha256 else ""
    transport = transport_of(load_accelerator(calibration.accelerator))
    if absent := calibration.at_priors(transport.priors()):
        basis += f"; {', '.join(absent)} at priors, as the file is older"

    def predict(jobs: Jobs, priors: Priors) -> Predictions:
        """Return the predictions of the rows by the calibration."""
        return predictions(jobs, priors, fitted_parameters(calibration, priors), calibration.scatter)

    return _predict_each_accelerator(steps, basis, predict)


def cross_validated(steps: MeasuredSteps, left_out: CrossValidation = "rows", advance: Advance = ignore) -> Accuracy:
    """Return predictions of every row by fits that have not seen it, and their errors. Rows of each accelerator are
    fitted by themselves.

    Args:
        steps: measured rows, of any number of accelerators.
        left_out: "rows" for ten folds of an accelerator's rows (a fold of each row where there are fewer than ten),
            drawn at random with a fixed seed, each left out of one fit; "models" for a fold of each model size. Rows of
            a fold beside which there are no others are predicted from the priors.
        advance: called with 1 after the fit for each fold.

    Returns:
        The predictions in the order of the table, the scatter in the interval of a row being that of the errors in the
        other folds; ``basis`` is "calibrated on the other nine tenths of its rows" or "calibrated on its other models".

    Raises:
        UnsupportedError: an accelerator of the rows has no kernel model, or names no transport.
    """
    words = {"rows": "calibrated on the other nine tenths of its rows", "models": "calibrated on its other models"}

    def predict(jobs: Jobs, priors: Priors) -> Predictions:
        """Return the predictions of one accelerator's rows, each by a fit to the folds that it is not in."""
        folds = random_folds(jobs.rows) if left_out == "rows" else model_folds(jobs)
        return predict_held_out(jobs, priors, fit(jobs, priors), folds, advance)

    return _predict_each_accelerator(steps, words[left_out], predict)


def predictions(jobs: Jobs, priors: Priors, fitted: Fit, scatter: float) -> Predictions:
    """Return the predictions of all rows of ``jobs``, in their order, each by its fastest job, with their 90 %
    intervals, which join the uncertainty of the parameters and ``scatter`` (root of the sum of squares):
    ``log_seconds`` (natural logarithms) and ``half_width`` (of these), both [rows], and ``steps``, the rows with the
    choices of their fastest jobs filled in.

    Args:
        jobs: jobs of the rows.
        priors: priors of the parameters.
        fitted: logarithms of the parameters and their covariance, in the order of ``priors``; its noise is not used.
        scatter: half-width, in natural logarithms, of the 90 % interval that unseen rows need around the best model.
    """
    slopes = sensitivity(jobs, priors, fitted.logarithms)
    seconds, fastest = predicted(jobs, priors, fitted.logarithms)
    return Predictions(seconds, half_widths(slopes, fitted.covariance, scatter), fastest.steps)


def _predict_each_accelerator(
    steps: MeasuredSteps, basis: str, predict: Callable[[Jobs, Priors], Predictions]
) -> Accuracy:
    """Return the predictions, in the order of the table, and scores of all rows; ``predict`` is called once for each
    accelerator, with its rows alone, and returns their predictions in the order of the table.

    Args:
        steps: measured rows.
        basis: origin of the parameters, in words.
        predict: called as ``predict(jobs, priors)`` with the jobs of one accelerator's rows and the priors of their
            parameters.
    """
    (seconds, half), used = np.zeros((2, len(steps))), np.empty(len(steps), np.object_)
    for name, rows in in_groups(range(len(steps)), lambda row: steps.steps[row].accelerator).items():
        machine = load_accelerator(name)
        part = predict(jobs_of([steps.steps[row] for row in rows], machine), priors_of(machine))
        seconds[rows], half[rows], used[rows] = part.log_seconds, part.half_width, part.steps
    whole = Predictions(seconds, half, tuple(used))
    return Accuracy(steps=steps, predicted=whole, basis=basis, scores=scores_of(steps.steps, whole))


# The picture of predicted against measured steps, from judged tables.


def draw_accuracy(judged: Sequence[Accuracy]) -> Figure:
    """Return a figure of predicted (upwards) against measured (across) seconds of steps on equal logarithmic axes, with
    the 90 % intervals as error bars, one colour for each table of rows in ``judged``, named with its number of rows.

    The line of equality and a band within 10 % of it are drawn too. There must be at least one row.
    """
    series = [
        PredictedSeries(
            measured=np.array([step.step_s for step in entry.steps.steps]),
            **attributes(entry, "name=steps.name predicted=predicted.seconds low=predicted.low high=predicted.high"),
        )
        for entry in judged
    ]
    return accuracy_figure(series)


# Calibrate an accelerator on measured steps.

LEAST_ROWS = 4
"""Rows from which an error can be cross-validated."""


def calibrate(steps: MeasuredSteps, accelerator: str, advance: Advance = ignore) -> calibrated.Calibration:
    """Return a calibration of an accelerator: its parameters, fitted from its priors to steps measured on it, with the
    errors on rows left out, in ten folds (with fewer rows, one each) drawn at random with a fixed seed
    (:func:`random_folds`).

    Args:
        steps: the measured rows.
        accelerator: a name of the catalog, or a YAML file, as the rows name it.
        advance: called with 1 after the fit to all rows, and after that for each fold.

    Raises:
        ConfigError: the accelerator is calibrated already, a row is of another one, or there are fewer than four rows.
        UnsupportedError: the accelerator has no kernel model, or names no transport.
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
    priors, jobs = priors_of(machine), jobs_of(steps.steps, machine)
    fitted, folds = fit(jobs, priors), random_folds(jobs.rows)
    advance(1)
    unseen = predict_held_out(jobs, priors, fitted, folds, advance)
    rows = CalibrationRows(table=steps.name, sha256=steps.sha256, count=len(steps))
    inside = (unseen.low <= jobs.measured) & (jobs.measured <= unseen.high)
    statistics = error_statistics(unseen.seconds / jobs.measured - 1, inside)
    errors = unseen.log_seconds - np.log(jobs.measured)
    return calibration_of(accelerator, rows, fitted, priors, errors, statistics)


def calibration_of(
    accelerator: str, rows: CalibrationRows, fitted: Fit, priors: Priors, errors: Floats, statistics: dict[str, float]
) -> calibrated.Calibration:
    """Return the calibration that a fit to rows gives: the parameters with their priors, spreads and covariance, the
    noise of the fit, the scatter of ``errors``, and ``statistics`` as the cross-validated errors, in ten folds or as
    many as there are rows. Its description reads "ACCELERATOR, calibrated on the 55 rows of TABLE" for measured steps,
    else "... on 55 operators of TABLE" by the kind of rows.

    Args:
        accelerator: a name of the catalog, or a YAML file.
        rows: name, checksum and number of the rows that were fitted to.
        fitted: all parameters after the fit.
        priors: their priors, in the same order.
        errors: natural logarithm of predicted over measured seconds of each row, by fits that had not seen it, a fold
            of :func:`random_folds` each: [rows].
        statistics: ``mean``, ``median``, ``bias``, ``percentile_90`` and ``coverage`` of these errors as relative ones
            (:func:`error_statistics`).
    """
    counted = f"the {rows.count} rows" if rows.kind == "steps" else f"{rows.count} {rows.kind}"
    return calibrated.Calibration(
        description=f"{accelerator}, calibrated on {counted} of {rows.table}",
        accelerator=accelerator,
        rows=rows,
        cross_validated=calibrated.CrossValidatedError(folds=min(FOLDS, rows.count), **statistics),
        noise=fitted.noise,
        scatter=scatter_of(errors),
        parameters=parameters_of(fitted, priors),
        covariance=fitted.covariance.tolist(),
    )
