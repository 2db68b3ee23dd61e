"""Maximum a posteriori fit of the parameters to measured steps, and how well it predicts rows it has not seen.

Logarithms of step times are compared, so that an error of ten percent weighs the same at every scale. Errors of a few
times the noise count linearly rather than squared (pseudo-Huber), so that a few rows off any smooth model do not bend
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.results import Advance, ignore, in_groups
from lightloom.planning.calibration.rows import Jobs, MeasuredStep, Priors, step_seconds
from lightloom.planning.pricing.job import LEVEL, NOISE, PRIOR_SCATTER, half_widths

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
    """Logarithms of the parameters: [parameters]."""
    covariance: Floats
    """Covariance of the logarithms: [parameters, parameters]."""
    noise: float
    """Standard deviation of the logarithm of a typical row around the model."""


def prior_fit(priors: Priors) -> Fit:
    """Return the priors as a fit: their natural logarithms, a diagonal covariance of the squares of their spreads, and
    the noise that is assumed before any row, 0.05."""
    return Fit(priors.center, np.diag(priors.spread**2), NOISE)


def log_seconds(jobs: Jobs, priors: Priors, logarithms: Floats) -> Floats:
    """Return the natural logarithm of the predicted seconds of each row, by its fastest job: [rows]. ``logarithms`` are
    those of all parameters, in the order of ``priors``."""
    return predicted(jobs, priors, logarithms)[0]


def predicted(jobs: Jobs, priors: Priors, logarithms: Floats) -> tuple[Floats, Jobs]:
    """Return the natural logarithm of the predicted seconds of each row by its fastest job, [rows], and these jobs, one
    a row. ``logarithms`` are those of all parameters, in the order of ``priors``."""
    seconds, fastest = jobs.fastest(step_seconds(jobs, priors.values(logarithms)))
    return np.log(seconds), jobs.only(fastest)


def sensitivity(jobs: Jobs, priors: Priors, logarithms: Floats) -> Floats:
    """Return the numerical derivatives of the logarithm of each row's seconds by the logarithm of each parameter at
    ``logarithms``: [rows, parameters]. Each row keeps the job that is fastest there. Differences are taken towards
    smaller values, a thousandth down."""
    center, chosen = predicted(jobs, priors, logarithms)
    moved = (log_seconds(chosen, priors, logarithms + _STEP * row) for row in np.eye(len(logarithms)))
    return np.stack([(values - center) / _STEP for values in moved], axis=1)


def fit(jobs: Jobs, priors: Priors, start: Floats | None = None, slopes: Floats | None = None) -> Fit:
    """Return the parameters that the rows of ``jobs`` and the priors support most, as natural logarithms in the order
    of ``priors``, their covariance and the noise (standard deviation of a row's logarithm around the model,
    :func:`_robust_noise`). No parameter exceeds its largest value.

    Rows far off the model weigh less, and in the covariance the rows of one model size count together as one.
    Derivatives cost as many predictions as there are parameters, so that a few steps share them.

    Args:
        jobs: rows to fit to.
        priors: priors of the parameters.
        start: logarithms at which to begin; None for the priors' centre.
        slopes: derivatives of the rows near the solution, [rows, parameters], which then serve throughout; None to
            compute them, and again where the parameters have moved.
    """
    logarithms = priors.center if start is None else start
    measured = np.log(jobs.measured)
    noise, known = NOISE, slopes is not None
    if slopes is None:
        slopes = sensitivity(jobs, priors, logarithms)
    for _ in range(_MOST_ROUNDS):
        found = _most_likely(jobs, priors, logarithms, noise, slopes)
        errors = log_seconds(jobs, priors, found) - measured
        before, noise = noise, _robust_noise(errors, jobs.rows)
        moved = float(np.abs((found - logarithms) / priors.spread).max())
        logarithms = found
        if moved < _SETTLED and abs(noise / before - 1) < _SETTLED:
            break
        if not known and moved >= _SETTLED:
            slopes = sensitivity(jobs, priors, logarithms)
    # Rows of one model size share what the model gets wrong about it, and so count together as one in the covariance.
    # How near the fit comes to the rows does not depend on this, only how certain its parameters are.
    independent = len({step.model for step in jobs.steps}) / jobs.rows
    weights = 1 / np.sqrt(1 + (errors / noise) ** 2 / 2) / noise**2 * independent
    information = slopes.T @ (slopes * weights[:, None]) + np.diag(priors.spread**-2.0)
    return Fit(logarithms, np.linalg.inv(information).astype(np.float64), noise)


def _robust_noise(errors: Floats, rows: int) -> float:
    """Return the noise of rows from their errors (of logarithms): the root of a weighted mean of the squares of 1.4826
    times the median size of the errors, with weight ``rows``, and of 0.05 (:data:`NOISE`), with weight ten; at least
    0.02 (:data:`LEAST_NOISE`)."""
    median = float(np.median(np.abs(errors))) * 1.4826
    return max(float(np.sqrt((rows * median**2 + 10 * NOISE**2) / (rows + 10))), LEAST_NOISE)


def _most_likely(jobs: Jobs, priors: Priors, start: Floats, noise: float, near: Floats) -> Floats:
    """Return the logarithms of the most likely parameters: [parameters], none beyond its largest value
    (:attr:`Priors.most`), by robust least squares of the rows' errors and the distances from the priors, with at most
    six predictions of all rows, so that they may stop short of the optimum.

    Args:
        jobs: rows.
        priors: priors of the parameters.
        start: logarithms at which to begin: [parameters].
        noise: standard deviation of a row's logarithm.
        near: derivatives of the rows, [rows, parameters], which are not computed again.
    """
    from scipy.optimize import least_squares

    measured = np.log(jobs.measured)
    errors: dict[bytes, Floats] = {}

    def errors_at(logarithms: Floats) -> Floats:
        """Return the errors of the rows' logarithms over the noise, computed once for each point: [rows]."""
        key = logarithms.tobytes()
        if key not in errors:
            errors[key] = (log_seconds(jobs, priors, logarithms) - measured) / noise
        return errors[key]

    def residuals(logarithms: Floats) -> Floats:
        """Return the robust errors of the rows, then the parameters' distances from their priors, in spreads."""
        return np.concatenate([_robust(errors_at(logarithms))[0], (logarithms - priors.center) / priors.spread])

    def slopes(logarithms: Floats) -> Floats:
        """Return the derivatives of the residuals by the parameters: [rows + parameters, parameters]."""
        weighted = near * (_robust(errors_at(logarithms))[1] / noise)[:, None]
        return np.concatenate([weighted, np.diag(1 / priors.spread)])

    bounds = -np.inf, priors.most
    solved = least_squares(
        residuals, start, slopes, bounds, x_scale=priors.spread, xtol=1e-3, ftol=1e-5, max_nfev=_MOST_EVALUATIONS
    )
    logarithms: Floats = solved.x
    return logarithms


def _robust(errors: Floats) -> tuple[Floats, Floats]:
    """Return residuals whose squares are the pseudo-Huber loss of ``errors`` (errors over the noise), with the errors'
    signs, and the residuals' derivatives by the errors: both [rows]."""
    root = np.sqrt(1 + errors**2 / 2)
    size = np.sqrt(4 * (root - 1))
    slope = np.divide(np.abs(errors), root * size, out=np.ones_like(errors), where=size > 1e-9)
    return np.sign(errors) * size, slope


# Predictions with their intervals (:mod:`lightloom.planning.pricing.job`), and how far rows scatter around the best
# model: read off held-out rows, so that it holds however their errors are distributed.

_PRIOR_ROWS = 5
"""Rows that the prior scatter counts for."""


@dataclass(frozen=True)
class Predictions:
    """Predicted steps of measured rows, with 90 % intervals."""

    log_seconds: Floats
    half_width: Floats
    """Half the width of the 90 % interval of the logarithm: [rows]."""
    steps: tuple[MeasuredStep, ...]
    """The rows as they are predicted: what they leave open, at its fastest."""

    @property
    def seconds(self) -> Floats:
        """Predicted seconds of each step: [rows]."""
        return np.exp(self.log_seconds)

    @property
    def low(self) -> Floats:
        """Seconds at the lower end of the 90 % interval: [rows]."""
        return np.exp(self.log_seconds - self.half_width)

    @property
    def high(self) -> Floats:
        """Seconds at the upper end of the 90 % interval: [rows]."""
        return np.exp(self.log_seconds + self.half_width)


def scatter_of(errors: Floats) -> float:
    """Return the size (of a natural logarithm) that nine of ten errors of unseen rows stay below, drawn towards the
    0.082 of :data:`PRIOR_SCATTER` as by five more rows (root of the mean of squares, weighted by rows); 0.082 itself
    without errors.

    Args:
        errors: natural logarithm of predicted over measured seconds, of rows that a fit had not seen: [rows].
    """
    if not len(errors):
        return PRIOR_SCATTER
    size = float(np.quantile(np.abs(errors), LEVEL, method="higher"))
    return float(np.sqrt((len(errors) * size**2 + _PRIOR_ROWS * PRIOR_SCATTER**2) / (len(errors) + _PRIOR_ROWS)))


# Predictions of rows by fits that had not seen them: cross-validation over rows, and with whole models left out.

FOLDS = 10


def random_folds(rows: int) -> Ints:
    """Return the number of a fold, 0 to 9, for each row, drawn at random with a fixed seed, of sizes as equal as they
    can be: [rows]; a fold of its own for each of fewer than ten rows."""
    return np.random.default_rng(0).permutation(rows) % FOLDS


def model_folds(jobs: Jobs) -> Ints:
    """Return the number of a fold, from 0, for each row such that a fold has all rows of one model size and no others,
    numbered in alphabetical order of the models: [rows]."""
    models = dict(zip(jobs.row.tolist(), (step.model for step in jobs.steps), strict=True))
    _, fold = np.unique([models[row] for row in range(jobs.rows)], return_inverse=True)
    return fold.astype(np.int64)


def predict_held_out(jobs: Jobs, priors: Priors, fitted: Fit, fold: Ints, advance: Advance = ignore) -> Predictions:
    """Return the prediction of each row by a fit to the rows of all other folds; from the priors where there are no
    others.

    The scatter in a row's interval is that of the errors of the other folds' rows, each predicted by the fit that had
    not seen it (:func:`scatter_of`). All fits share the derivatives at the fit to all rows.

    Args:
        jobs: jobs of the rows.
        priors: priors of the parameters.
        fitted: the fit to all rows, at whose logarithms the others begin.
        fold: number of the fold in which each row is left out, from 0: [rows].
        advance: called with 1 after each fit.
    """
    seconds, steps = np.zeros(jobs.rows), np.empty(jobs.rows, np.object_)
    fits, slopes = [], sensitivity(jobs, priors, fitted.logarithms)
    for number in range(fold.max() + 1):
        out = fold == number
        other = fit(jobs.subset(~out), priors, fitted.logarithms, slopes[~out]) if (~out).any() else prior_fit(priors)
        seconds[out], fastest = predicted(jobs.subset(out), priors, other.logarithms)
        steps[out] = fastest.steps
        fits.append(other)
        advance(1)
    errors, half = seconds - np.log(jobs.measured), np.zeros(jobs.rows)
    for number, other in enumerate(fits):
        out = fold == number
        half[out] = half_widths(slopes[out], other.covariance, scatter_of(errors[~out]))
    return Predictions(seconds, half, tuple(steps))


# Scores of predictions of measured steps: errors, bias, coverage of the intervals, agreement of ranks.

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

    def line(self) -> str:
        """Return the scores in one line of words: mean, median, bias and 90th percentile of the errors, coverage and
        median half-width of the 90 % intervals, all as percentages, and the rank agreement, a coefficient with two
        decimals, where it is known."""
        text = (
            f"{self.rows} rows: mean error {self.mean:.1%}, median {self.median:.1%}, bias {self.bias:+.1%}, "
            f"nine of ten below {self.percentile_90:.1%}; 90 % intervals hold {self.coverage:.0%} of the rows, "
            f"median half-width {self.half_width:.1%}"
        )
        agreement = self.rank_agreement
        return text if agreement is None else f"{text}; rank agreement within models {agreement:.2f}"


def scores_of(steps: Sequence[MeasuredStep], predicted: Predictions) -> Scores:
    """Return the scores of predictions of these steps, errors and widths as shares: the number of ``rows``, ``mean``,
    ``median`` and ``percentile_90`` of the sizes of relative errors, their ``bias`` (mean with sign), ``coverage`` of
    the 90 % intervals, their median ``half_width`` relative to the prediction, and ``rank_agreement``, Spearman's
    coefficient within model sizes (None where no size has five rows that differ); ``predicted`` has a prediction of
    each, in their order."""
    measured = np.array([step.step_s for step in steps])
    inside = (predicted.low <= measured) & (measured <= predicted.high)
    return Scores(
        rows=len(steps),
        **error_statistics(predicted.seconds / measured - 1, inside),
        half_width=float(np.median(np.sinh(predicted.half_width))),
        rank_agreement=_rank_agreement(steps, predicted.seconds),
    )


def error_statistics(errors: Floats, inside: Mask) -> dict[str, float]:
    """Return ``mean``, ``median`` and ``percentile_90`` of the sizes of relative errors, their ``bias`` (mean with
    sign), and ``coverage``, the share of rows in their interval.

    Args:
        errors: (predicted - measured) / measured: [rows].
        inside: rows whose measurement lies in the interval: [rows].
    """
    size = np.abs(errors)
    return {
        "mean": float(size.mean()),
        "median": float(np.median(size)),
        "bias": float(errors.mean()),
        "percentile_90": float(np.quantile(size, 0.9)),
        "coverage": float(inside.mean()),
    }


def _rank_agreement(steps: Sequence[MeasuredStep], seconds: Floats) -> float | None:
    """Return Spearman's coefficient of predicted and measured tokens per second and GPU within each model size of at
    least five rows, averaged over the sizes; None where no size has enough rows that differ. ``seconds`` are predicted:
    [rows]."""
    from scipy.stats import spearmanr

    agreements = []
    for rows in in_groups(range(len(steps)), lambda row: steps[row].model).values():
        measured = np.array([steps[row].tokens_per_second_and_gpu for row in rows])
        ours = np.array([steps[row].tokens / steps[row].gpus for row in rows]) / seconds[rows]
        # Rows that are alike, such as repeated measurements of one step, have no order.
        if len(rows) >= LEAST_ROWS_OF_A_MODEL and np.ptp(measured) > 0 and np.ptp(ours) > 0:
            agreements.append(float(spearmanr(ours, measured).statistic))
    return float(np.mean(agreements)) if agreements else None
