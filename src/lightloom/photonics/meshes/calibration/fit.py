"""Fit a twin to measured powers: Gauss-Newton over all offsets and couplers, damped by what is left unexplained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsyrk

from lightloom.core.arrays import Floats
from lightloom.core.effort import Effort
from lightloom.photonics.meshes.calibration.twin import (
    Fields,
    Settings,
    Twin,
    backward,
    field_derivatives,
    forward,
)
from lightloom.photonics.meshes.disturb import heat_from_neighbours

_STEPS: Effort = 60
"""Steps of a fit at most, unless another number is asked for."""
_VALUES: Effort = 12_000_000
"""Derivatives that are held at a time."""
_DECIBEL = -np.log(10) / 20


def ignore(count: int) -> None:
    """Take a count of finished steps and report nothing, where no progress is shown."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """Powers that detectors showed."""

    settings: Settings
    """Phases that were commanded, [settings, devices]."""
    vectors: Fields
    """Input fields, [inputs, vectors]."""
    powers: Floats
    """Output powers, [settings, outputs, vectors], relative to the power of an input vector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknowns:
    """Which parameters of a twin are fitted besides the phase offsets."""

    couplers: bool = True
    heaters: bool = True
    """Whether the efficiency of every heater is fitted."""
    crosstalk: bool = True
    loss: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A fitted twin and the way to it."""

    twin: Twin
    residuals: tuple[float, ...]
    """Root mean square difference of powers, before the first step and after each."""


def fit(
    start: Twin,
    measured: Measured,
    unknowns: Unknowns,
    *,
    steps: int = _STEPS,
    tolerance: float = 1e-3,
    advance: Callable[[int], None] = ignore,
) -> Fit:
    """Return the twin whose powers differ least from the measured ones, by damped Gauss-Newton steps from ``start``.

    The damping is the residual's norm times a factor that falls with every step that helps and rises with every one
    that does not. Parameters that no power shows keep their values. Steps end when two in a row lower the residual by
    less than the share ``tolerance``, or eight in a row do not lower it.
    """
    twin, factor, quiet, refused = start, 1.0, 0, 0
    matrix, gradient, squares = _normal_equations(twin, measured, unknowns)
    residuals = [squares]
    for _ in range(steps):
        advance(1)
        candidate = _moved(twin, unknowns, _solve(matrix, gradient, factor * np.sqrt(squares) + 1e-12))
        *equations, candidate_squares = _normal_equations(candidate, measured, unknowns)
        if candidate_squares < squares:
            quiet, refused = (quiet + 1 if candidate_squares > squares * (1 - tolerance) ** 2 else 0), 0
            twin, (matrix, gradient), squares, factor = candidate, equations, candidate_squares, factor / 4
        else:
            refused, factor = refused + 1, factor * 8
        residuals.append(squares)
        if quiet >= 2 or refused >= 8:
            break
    count = measured.powers.size
    return Fit(twin=twin, residuals=tuple(float(np.sqrt(value / count)) for value in residuals))


def _solve(matrix: Floats, gradient: Floats, damping: float) -> Floats:
    damped = matrix.copy()
    damped[np.diag_indices_from(damped)] += damping
    return np.asarray(cho_solve(cho_factor(damped, lower=True, overwrite_a=True), gradient))


def _moved(twin: Twin, unknowns: Unknowns, step: Floats) -> Twin:
    names = ["theta_offset", "phi_offset"]
    names += ["first", "second"] if unknowns.couplers else []
    names += ["theta_efficiency", "phi_efficiency"] if unknowns.heaters else []
    *pieces, rest = np.split(step, twin.wiring.devices * np.arange(1, len(names) + 1))
    others = rest.tolist()
    changes = dict(zip(names, pieces, strict=True))
    moved = replace(twin, **{name: getattr(twin, name) + change for name, change in changes.items()})
    if unknowns.crosstalk:
        moved = replace(moved, crosstalk=twin.crosstalk + others.pop(0))
    if unknowns.loss:
        moved = replace(moved, loss_db=twin.loss_db + others.pop(0))
    return moved


def _normal_equations(twin: Twin, measured: Measured, unknowns: Unknowns) -> tuple[Floats, Floats, float]:
    """Return JᵀJ (its lower triangle), Jᵀ(measured - expected) and the sum of squares of the difference."""
    count = len(measured.powers)
    parameters = 6 * twin.wiring.devices
    chunk = max(1, _VALUES // max(1, parameters * measured.powers[0].size))
    matrix, gradient, squares = None, None, 0.0
    for start in range(0, count, chunk):
        part = slice(start, start + chunk)
        settings = Settings(theta=measured.settings.theta[part], phi=measured.settings.phi[part])
        expected, jacobian = power_derivatives(twin, settings, measured.vectors, unknowns)
        difference = (measured.powers[part] - expected).ravel()
        squares += float(difference @ difference)
        product = dsyrk(1.0, jacobian.T, trans=1, lower=1) if jacobian.flags.c_contiguous else jacobian @ jacobian.T
        matrix = product if matrix is None else matrix + product
        gradient = jacobian @ difference if gradient is None else gradient + jacobian @ difference
    assert matrix is not None and gradient is not None
    return matrix, gradient, squares


def power_derivatives(twin: Twin, settings: Settings, vectors: Fields, unknowns: Unknowns) -> tuple[Floats, Floats]:
    """Return powers [settings, outputs, vectors] and their derivatives [parameters, settings · outputs · vectors].

    Parameters are the offsets of all θ, of all φ, then as ``unknowns`` say the first and the second couplers, the
    efficiencies of the heaters of θ and of φ, the crosstalk and the loss in dB.
    """
    wiring, acting = twin.wiring, twin.phases(settings)
    devices = twin.devices(acting)
    fields, entering = forward(wiring, devices, vectors)
    behind = backward(wiring, devices)
    changes = twin.device_derivatives(acting)[..., : 4 if unknowns.couplers else 2, :, :]
    if unknowns.loss:
        changes = np.concatenate([changes, _DECIBEL * devices[..., None, :, :]], -3)
    kinds, samples = changes.shape[-3], fields.size
    jacobian = np.empty((kinds, wiring.devices, len(fields), *fields.shape[1:]))
    for column, derivative in zip(wiring.slices, field_derivatives(wiring, behind, entering, changes), strict=True):
        derivative *= 2 * np.conj(fields)[:, None, None]
        jacobian[:, column] = derivative.real.transpose(2, 1, 0, 3, 4)
    rows = [jacobian[: 4 if unknowns.couplers else 2].reshape(-1, samples)]
    if unknowns.heaters:
        for by_phase, commanded in zip(jacobian, (settings.theta, settings.phi), strict=False):
            rows.append((by_phase * commanded.T[:, :, None, None]).reshape(-1, samples))
    if unknowns.crosstalk:
        theta_heat, phi_heat = heat_from_neighbours(settings.theta, settings.phi, wiring.beside)
        rows.append(
            (
                np.einsum("ksov,sk->sov", jacobian[0], theta_heat) + np.einsum("ksov,sk->sov", jacobian[1], phi_heat)
            ).reshape(1, samples)
        )
    if unknowns.loss:
        rows.append(jacobian[-1].sum(0).reshape(1, samples))
    return np.abs(fields) ** 2, np.concatenate(rows) if len(rows) > 1 else rows[0]
