"""Parameters of the kernel model, fitted to the operators of a profile.

Only parameters that the time of single kernels determines are fitted: the rates of products, of attention and of the
memory. How much fusion saves, how fast the host launches and what links reach are those of whole steps, and stay at
their priors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightloom.accelerators.base import Accelerator
from lightloom.accelerators.calibrated import Calibration, CalibrationRows, CrossValidatedError
from lightloom.calibration.document import parameters_of
from lightloom.calibration.fit import prior_fit
from lightloom.calibration.held_out import random_folds
from lightloom.calibration.intervals import scatter_of
from lightloom.calibration.priors import kernels_with, priors_of
from lightloom.calibration.profiled_operators import TIMED_FROM, ProfiledOperator, operators_of, predicted_seconds
from lightloom.core.arrays import Floats, Mask
from lightloom.core.errors import ConfigError
from lightloom.interchange.traces.kineto import Profile
from lightloom.planner.pricing.belief import half_widths

FITTED = ("gemm_fraction", "gemm_depth", "unaligned", "flash_forward", "flash_backward", "memory_fraction")
"""Parameters that operators determine."""
_FRACTIONS = frozenset(FITTED) - {"gemm_depth"}
LEAST_OPERATORS = 4
"""Operators from which an error can be cross-validated."""
_NOISE = 0.15
"""Standard deviation of the logarithm of one operator's time around the model: an assumption."""
_LEAST_NOISE = 0.02
"""Least noise that a fit assumes: few operators can lie on the model by chance."""
_STEP = 1e-4
_MOST_REWEIGHTINGS = 12
_SETTLED = 0.02
"""Relative change of the noise that ends a fit."""


class _Rows:
    """Operators that a fit rests on, as a function of the fitted parameters."""

    def __init__(self, operators: Sequence[ProfiledOperator], accelerator: Accelerator) -> None:
        self.operators, self._accelerator = list(operators), accelerator
        self.measured = np.log([operator.mean_seconds for operator in operators])
        names = [(operator.key.name, operator.key.step_pass) for operator in operators]
        self.kinds = len(set(names))

    def predicted(self, logarithms: Floats) -> Floats:
        """Logarithm of the predicted seconds of a call of each operator: [operators]."""
        kernels = kernels_with(self._accelerator, dict(zip(FITTED, np.exp(logarithms).tolist(), strict=True)))
        return np.log(predicted_seconds(self.operators, self._accelerator, kernels))

    def slopes(self, logarithms: Floats) -> Floats:
        """Change of :meth:`predicted` with each parameter's logarithm: [operators, parameters]."""
        center = self.predicted(logarithms)
        # Backward differences: fractions may lie at their upper limit, 1.
        moved = (self.predicted(logarithms - _STEP * row) for row in np.eye(len(FITTED)))
        return np.stack([(center - values) / _STEP for values in moved], axis=1)

    def subset(self, keep: Mask) -> _Rows:
        return _Rows([operator for operator, kept in zip(self.operators, keep, strict=True) if kept], self._accelerator)


def usable_operators(operators: Sequence[ProfiledOperator], accelerator: Accelerator) -> list[ProfiledOperator]:
    """Return the operators that have a price and take long enough for a fit."""
    priced = np.isfinite(predicted_seconds(operators, accelerator))
    return [
        operator
        for operator, known in zip(operators, priced, strict=True)
        if known and operator.mean_seconds >= TIMED_FROM
    ]


def calibrate_on_profile(profile: Profile, accelerator: Accelerator, name: str) -> Calibration:
    """Fit the parameters that operators determine to a profile of a GPU.

    Args:
        profile: what was profiled.
        accelerator: the accelerator that it ran on.
        name: the accelerator as the calibration names it.

    Raises:
        ConfigError: the profile holds no work of a GPU, or too few operators that can be priced.
        UnsupportedError: the accelerator has no kernel model.
    """
    if not profile.on_device:
        raise ConfigError(
            f"{profile.name}: holds no GPU kernels, and times of the host say nothing about {name!r}: profile with "
            "ProfilerActivity.CUDA to calibrate"
        )
    rows = _Rows(usable_operators(operators_of(profile), accelerator), accelerator)
    if len(rows.operators) < LEAST_OPERATORS:
        raise ConfigError(
            f"{profile.name}: {len(rows.operators)} operators that take {TIMED_FROM * 1e6:g} us or more and that the "
            f"kernel model prices: expected at least {LEAST_OPERATORS} to calibrate on"
        )
    priors = priors_of(accelerator)
    indices = [priors.names.index(parameter) for parameter in FITTED]
    center, spread = priors.center[indices], priors.spread[indices]
    logarithms, covariance, noise = _fit(rows, center, spread, center)
    errors, inside, folds = _held_out(rows, center, spread, logarithms)
    whole = prior_fit(priors)
    whole.logarithms[indices] = logarithms
    whole.covariance[np.ix_(indices, indices)] = covariance
    relative = np.expm1(errors)
    return Calibration(
        description=f"{name}, calibrated on {len(rows.operators)} operators of {profile.name}",
        accelerator=name,
        rows=CalibrationRows(table=profile.name, sha256=profile.sha256, count=len(rows.operators), kind="operators"),
        cross_validated=CrossValidatedError(
            folds=folds,
            mean=float(np.abs(relative).mean()),
            median=float(np.median(np.abs(relative))),
            bias=float(relative.mean()),
            percentile_90=float(np.quantile(np.abs(relative), 0.9)),
            coverage=float(inside.mean()),
        ),
        noise=noise,
        scatter=scatter_of(errors),
        parameters=parameters_of(whole, priors),
        covariance=whole.covariance.tolist(),
    )


def _fit(rows: _Rows, center: Floats, spread: Floats, start: Floats) -> tuple[Floats, Floats, float]:
    """Logarithms of the fitted parameters, their covariance, and the noise of a row; errors far off weigh less."""
    from scipy.optimize import least_squares

    logarithms, noise = start, _NOISE
    highest = np.array([0.0 if name in _FRACTIONS else np.inf for name in FITTED])
    weights = np.ones(len(rows.measured))
    for _ in range(_MOST_REWEIGHTINGS):
        scale = np.sqrt(weights) / noise

        def residuals(point: Floats, scale: Floats = scale) -> Floats:
            return np.concatenate([(rows.predicted(point) - rows.measured) * scale, (point - center) / spread])

        def slopes(point: Floats, scale: Floats = scale) -> Floats:
            return np.concatenate([rows.slopes(point) * scale[:, None], np.diag(1 / spread)])

        inside = np.minimum(logarithms, highest - 1e-9)
        solved = least_squares(residuals, inside, slopes, (-np.inf, highest), x_scale=spread, xtol=1e-5, max_nfev=30)
        logarithms = solved.x
        errors = rows.predicted(logarithms) - rows.measured
        before, noise = noise, max(float(np.median(np.abs(errors))) * 1.4826, _LEAST_NOISE)
        weights = 1 / np.sqrt(1 + (errors / noise) ** 2 / 2)
        if abs(noise / before - 1) < _SETTLED:
            break
    # Operators of one name share what the model gets wrong about it, and count as one for what stays uncertain.
    share = rows.kinds / len(rows.operators)
    slope = rows.slopes(logarithms)
    information = slope.T @ (slope * (weights * share / noise**2)[:, None]) + np.diag(spread**-2.0)
    return logarithms, np.linalg.inv(information).astype(np.float64), noise


def _held_out(rows: _Rows, center: Floats, spread: Floats, start: Floats) -> tuple[Floats, Mask, int]:
    """Errors of operators that a fit had not seen (logarithms), whether each lies in its interval, and the folds."""
    fold = random_folds(len(rows.operators))
    errors, half = np.zeros(len(fold)), np.zeros(len(fold))
    for number in range(int(fold.max()) + 1):
        out = fold == number
        logarithms, covariance, _ = _fit(rows.subset(~out), center, spread, start)
        tested = rows.subset(out)
        errors[out] = tested.predicted(logarithms) - tested.measured
        half[out] = half_widths(tested.slopes(logarithms), covariance, 0.0)
    inside: Mask = np.abs(errors) <= np.hypot(half, scatter_of(errors))
    return errors, inside, int(fold.max()) + 1
