"""Fit a twin to measured powers: Gauss-Newton over all offsets and couplers, damped by what is left unexplained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsyrk

from lightloom.core.arrays import Effort, Floats, Ints
from lightloom.photonics.devices import bar_and_cross, coupler
from lightloom.photonics.meshes.correction import pass_phases_on, within_reach, without_crosstalk
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.disturb import Wiring, heat_from_neighbours
from lightloom.photonics.meshes.mesh import Mesh

# A twin of a fabricated chip: light through interferometers with offsets and unequal couplers, and its derivatives.
#
# A column's light is linear in each of its parameters, so
#
# d E_out / d p  =  (columns behind) · (dT / dp) · (fields in front),      d |E|² / d p = 2 Re(conj(E) · dE / dp)
#
# and one pass forward and one backward give the derivatives with respect to all parameters.

Fields = NDArray[np.complex128]
Point = TypeVar("Point")


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """Phases that are commanded, in radians: θ and φ of every interferometer, [..., devices]."""

    theta: Floats
    phi: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Twin:
    """Estimated errors of a chip, in radians: errors of all phases, heaters and couplers, crosstalk, a common loss."""

    wiring: Wiring
    theta_offset: Floats
    phi_offset: Floats
    first: Floats
    """Mixing-angle error of each interferometer's first coupler, [devices]."""
    second: Floats
    """Mixing-angle error of the second coupler, [devices]."""
    theta_efficiency: Floats
    """Phase of each θ heater relative to its command, [devices]."""
    phi_efficiency: Floats
    """Phase of each φ heater relative to its command, [devices]."""
    crosstalk: float = 0.0
    """Share of a heater's phase that appears in each of its nearest heaters."""
    loss_db: float = 0.0
    """Loss of every interferometer, in dB."""

    @classmethod
    def ideal(cls, wiring: Wiring) -> Twin:
        """Return the twin of a chip without errors: no offsets, crosstalk or loss, and heaters of efficiency 1."""
        zero, one = np.zeros(wiring.devices), np.ones(wiring.devices)
        return cls(
            wiring=wiring,
            theta_offset=zero,
            phi_offset=zero,
            first=zero,
            second=zero,
            theta_efficiency=one,
            phi_efficiency=one,
        )

    def phases(self, settings: Settings) -> Settings:
        """Return the phases that act: what is set, the heat of neighbours, and the offsets."""
        theta_heat, phi_heat = heat_from_neighbours(settings.theta, settings.phi, self.wiring.beside)
        return Settings(
            theta=self.theta_efficiency * settings.theta + self.crosstalk * theta_heat + self.theta_offset,
            phi=self.phi_efficiency * settings.phi + self.crosstalk * phi_heat + self.phi_offset,
        )

    def devices(self, acting: Settings) -> Fields:
        """Return the transfer matrices [..., devices, 2, 2] at phases that act, which `phases` gives."""
        amplitude = 10 ** (-self.loss_db / 20)
        inner = coupler(self.first) * np.stack([np.exp(1j * acting.phi), np.ones_like(acting.phi)], -1)[..., None, :]
        turned = np.stack([np.exp(1j * acting.theta), np.ones_like(acting.theta)], -1)[..., None] * inner
        return np.asarray(amplitude * (coupler(self.second) @ turned))

    def device_derivatives(self, acting: Settings) -> Fields:
        """Return dT/dp [..., devices, 4, 2, 2] for θ, φ, the first and the second coupler."""
        amplitude = 10 ** (-self.loss_db / 20)
        upper_phi = np.stack([np.exp(1j * acting.phi), np.ones_like(acting.phi)], -1)[..., None, :]
        theta = np.exp(1j * acting.theta)
        upper_theta = np.stack([theta, np.ones_like(theta)], -1)[..., None]
        first, second, turned = coupler(self.first), coupler(self.second), np.pi / 2
        whole = second @ (upper_theta * (first * upper_phi))
        by_phi = whole * np.array([1j, 0.0])
        by_theta = second @ (np.stack([1j * theta, np.zeros_like(theta)], -1)[..., None] * (first * upper_phi))
        by_first = second @ (upper_theta * (coupler(self.first + turned) * upper_phi))
        by_second = coupler(self.second + turned) @ (upper_theta * (first * upper_phi))
        return np.asarray(amplitude * np.stack([by_theta, by_phi, by_first, by_second], -3))

    def propagate(self, settings: Settings, vectors: Fields) -> Fields:
        """Return output fields [..., outputs, vectors] of input fields [inputs, vectors] at commanded phases."""
        return forward(self.wiring, self.devices(self.phases(settings)), vectors)[0]


def forward(wiring: Wiring, devices: Fields, vectors: Fields) -> tuple[Fields, list[Fields]]:
    """Return the output fields [..., outputs, vectors], and those entering each column [..., devices, 2, vectors]."""
    batch = devices.shape[:-3]
    fields = np.zeros((*batch, wiring.size, vectors.shape[1]), np.complex128)
    fields[..., : wiring.inputs, :] = vectors
    entering = []
    for column in wiring.slices:
        pair = np.stack([wiring.upper[column], wiring.lower[column]], -1)
        inner = fields[..., pair, :]
        entering.append(inner)
        fields[..., pair, :] = devices[..., column, :, :] @ inner
    return fields[..., wiring.output_modes, :], entering


def backward(wiring: Wiring, devices: Fields) -> list[Fields]:
    """Return, for each column, the transfer [..., devices, outputs, 2] from behind its devices to the outputs."""
    batch = devices.shape[:-3]
    transfer = np.zeros((*batch, wiring.size, wiring.outputs), np.complex128)
    transfer[..., wiring.output_modes, np.arange(wiring.outputs)] = 1.0
    behind = []
    for column in reversed(wiring.slices):
        pair = np.stack([wiring.upper[column], wiring.lower[column]], -1)
        inner = transfer[..., pair, :]
        behind.append(np.swapaxes(inner, -1, -2))
        transfer[..., pair, :] = np.swapaxes(devices[..., column, :, :], -1, -2) @ inner
    return behind[::-1]


def field_derivatives(wiring: Wiring, behind: list[Fields], entering: list[Fields], changes: Fields) -> list[Fields]:
    """Return, for each column, dE/dp [..., devices, changes, outputs, vectors].

    ``changes`` [..., devices, changes, 2, 2] are derivatives of the devices' transfer matrices.
    """
    return [
        transfer[..., None, :, :] @ (changes[..., column, :, :, :] @ fields[..., None, :, :])
        for column, transfer, fields in zip(wiring.slices, behind, entering, strict=True)
    ]


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
    """True if the efficiency of every heater is fitted."""
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
    twin, squares = _descend(
        start,
        lambda twin: _normal_equations(twin, measured, unknowns),
        lambda twin, step: _moved(twin, unknowns, step),
        steps,
        advance,
        little=(1 - tolerance) ** 2,
        quiet_steps=2,
    )
    count = measured.powers.size
    return Fit(twin=twin, residuals=tuple(float(np.sqrt(value / count)) for value in squares))


def _descend(
    point: Point,
    equations: Callable[[Point], tuple[Floats, Floats, float]],
    moved: Callable[[Point, Floats], Point],
    steps: int,
    advance: Callable[[int], None] = ignore,
    *,
    little: float,
    quiet_steps: int,
    enough: float = 0.0,
) -> tuple[Point, list[float]]:
    """Take damped Gauss-Newton steps, and return the last point and the sum of squares before the first and after each.

    Args:
        point: where to start.
        equations: JᵀJ (its lower triangle), the gradient and the sum of squares at a point.
        moved: the point that a step leads to.
        steps: steps at most.
        advance: called for every step.
        little: a step that leaves more than this share of the squares is a quiet one.
        quiet_steps: so many quiet steps in a row end the descent, as eight do that do not help.
        enough: squares below this need no further step.
    """
    factor, quiet, refused = 1.0, 0, 0
    matrix, gradient, squares = equations(point)
    history = [squares]
    for _ in range(steps):
        if quiet >= quiet_steps or refused >= 8 or squares < enough:
            break
        advance(1)
        candidate = moved(point, _solve(matrix, gradient, factor * np.sqrt(squares) + 1e-12))
        *system, squares_after = equations(candidate)
        if squares_after < squares:
            quiet, refused = (quiet + 1 if squares_after > squares * little else 0), 0
            point, (matrix, gradient), squares, factor = candidate, system, squares_after, factor / 4
        else:
            refused, factor = refused + 1, factor * 8
        history.append(squares)
    return point, history


def _solve(matrix: Floats, gradient: Floats, damping: float) -> Floats:
    """Return the step (JᵀJ + damping · 1)⁻¹ gradient; ``matrix`` holds the lower triangle of JᵀJ."""
    damped = matrix.copy()
    damped[np.diag_indices_from(damped)] += damping
    return np.asarray(cho_solve(cho_factor(damped, lower=True, overwrite_a=True), gradient))


def _moved(twin: Twin, unknowns: Unknowns, step: Floats) -> Twin:
    """Return the twin with a step added to its parameters, in the order of `power_derivatives`."""
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


# Phases for which a twin implements a matrix, up to phases at its outputs and one gain.

_EXACT = 1e-24
"""Square of a relative error at which a matrix is implemented as well as rounding lets it be."""

_QUADRATURE = 0.1
"""Weight of light in quadrature where real parts are detected; it is lost power, and receivers' phases err."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Programmed:
    """Settings that implement a matrix on a twin."""

    settings: Settings
    """Phases to command, [devices]."""
    errors: tuple[float, ...]
    """Error in the twin, before the first step and after each."""


def phase_free_error(matrix: Fields, target: Fields, *, real: bool = False) -> float:
    """Return ‖g D M - H‖ / ‖H‖ (Frobenius norms) for the best phases D of the outputs and the best common gain g.

    For unitary matrices of N modes this is ‖M H† - diag(phases)‖ / √N, to second order. With ``real``, receivers
    detect real parts, and light in quadrature is no error: ‖Re(g D M) - H‖ / ‖H‖.
    """
    difference = _aligned(matrix, target)[0] - target
    return float(np.linalg.norm(difference.real if real else difference) / np.linalg.norm(target))


def _aligned(matrix: Fields, target: Fields) -> tuple[Fields, Fields]:
    """Return g D M [outputs, inputs], and the factors g D [outputs].

    D are the phases of outputs and g the common gain that bring M nearest to the target.
    """
    overlaps = np.einsum("oi,oi->o", matrix.conj(), target)
    phases = np.exp(1j * np.angle(overlaps))
    power = float(np.vdot(matrix, matrix).real)
    factors = phases * (float(np.abs(overlaps).sum()) / power if power > 0 else 1.0)
    return factors[:, None] * matrix, factors


def program(
    twin: Twin, target: Fields, ideal: tuple[Floats, Floats], *, real: bool = False, steps: int = _STEPS
) -> Programmed:
    """Return settings for which the twin implements ``target`` [outputs, inputs], norm at most 1.

    Starts from ``ideal``, θ and φ of ideal devices, corrected for the couplers (`meshes.correction`), and takes damped
    Gauss-Newton steps in all phases and in the phases of the outputs. With ``real``, the real parts of the outputs
    are detected, and light in quadrature counts little. Steps end when three in a row lower the square of the error by
    less than 0.2 %, or eight in a row do not lower it.
    """
    quadrature = _QUADRATURE if real else 1.0
    norm, count = float(np.linalg.norm(target)), twin.wiring.devices

    def equations(acting: Settings) -> tuple[Floats, Floats, float]:
        residual, jacobian = _residual(twin, acting, target, quadrature)
        return jacobian.T @ jacobian, jacobian.T @ residual, float(residual @ residual)

    def moved(acting: Settings, step: Floats) -> Settings:
        return Settings(theta=acting.theta - step[:count], phi=acting.phi - step[count : 2 * count])

    acting, squares = _descend(
        _corrected(twin, ideal, real), equations, moved, steps, little=0.998, quiet_steps=3, enough=_EXACT * norm**2
    )
    theta, phi = without_crosstalk(
        acting.theta - twin.theta_offset,
        acting.phi - twin.phi_offset,
        twin.wiring.beside,
        max(twin.crosstalk, 0.0),
        (twin.theta_efficiency, twin.phi_efficiency),
    )
    errors = tuple(float(np.sqrt(value)) / norm for value in squares)
    return Programmed(settings=Settings(theta=theta, phi=phi), errors=errors)


def reachable_order(twin: Twin, mesh: Mesh, tries: int, seed: int) -> tuple[Ints, Mesh]:
    """Return an order of the outputs [outputs] for which few splittings are out of the couplers' reach, and its mesh.

    Row order[o] of the matrix of ``mesh`` leaves at output o. The order of before is kept if all splittings are in
    reach; otherwise the best of ``tries`` random ones is taken, the first one with none out of reach.
    """
    rng, target = np.random.default_rng((seed, 4)), mesh.matrix()
    best, fewest = (np.arange(mesh.outputs), mesh), mesh.mzis + 1
    order = np.arange(mesh.outputs)
    for attempt in range(tries + 1):
        candidate = decompose(target[order], mesh.kind) if attempt else mesh
        outside = int(within_reach(np.sin(candidate.theta / 2) ** 2, twin.first, twin.second)[1].sum())
        if outside < fewest:
            best, fewest = (order, candidate), outside
        if not outside:
            break
        order = rng.permutation(mesh.outputs)
    return best


def _corrected(twin: Twin, ideal: tuple[Floats, Floats], real: bool) -> Settings:
    """Return the acting phases at which the twin's couplers come closest to ideal devices set to ``ideal``, θ and φ.

    With ``real``, interferometers whose splitting is out of reach keep their θ.
    """
    half, outside = within_reach(np.sin(ideal[0] / 2) ** 2, twin.first, twin.second)
    straight, across = (np.angle(amplitude) for amplitude in bar_and_cross(half, twin.first, twin.second))
    if real:
        half = np.where(outside, ideal[0] / 2, half)
        straight, across = np.where(outside, 0.0, straight), np.where(outside, 0.0, across)
    phi, _ = pass_phases_on(twin.wiring, ideal, half, straight, across)
    return Settings(theta=2 * half, phi=phi)


def _residual(twin: Twin, acting: Settings, target: Fields, quadrature: float) -> tuple[Floats, Floats]:
    """Return g D M - H as real numbers, and its derivatives by θ, φ and the output phases, for constant g.

    Imaginary parts are multiplied by ``quadrature``.
    """
    wiring, devices = twin.wiring, twin.devices(acting)
    matrix, entering = forward(wiring, devices, np.eye(wiring.inputs, dtype=np.complex128))
    behind = backward(wiring, devices)
    aligned, factors = _aligned(matrix, target)
    changes = twin.device_derivatives(acting)[:, :2]
    outputs, inputs = target.shape
    jacobian = np.zeros((2 * wiring.devices + outputs, outputs, inputs), np.complex128)
    for column, derivative in zip(wiring.slices, field_derivatives(wiring, behind, entering, changes), strict=True):
        jacobian[column] = derivative[:, 0] * factors[:, None]
        jacobian[wiring.devices + column.start : wiring.devices + column.stop] = derivative[:, 1] * factors[:, None]
    places = np.arange(outputs)
    jacobian[2 * wiring.devices + places, places] = 1j * aligned
    flat = jacobian.reshape(len(jacobian), -1)
    difference = (aligned - target).ravel()
    residual = np.concatenate([difference.real, quadrature * difference.imag])
    return residual, np.concatenate([flat.real, quadrature * flat.imag], 1).T
