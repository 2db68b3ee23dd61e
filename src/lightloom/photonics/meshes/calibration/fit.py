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
from lightloom.core.results import Advance, ignore
from lightloom.photonics.devices import coupler
from lightloom.photonics.meshes.correction import pass_phases_on, splittings, within_reach, without_crosstalk
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
class Twin:
    """Estimated errors of a chip, in radians: errors of all phases, heaters and couplers, crosstalk, a common loss."""

    wiring: Wiring
    offsets: Floats
    """Errors of every θ and of every φ, [2, devices]."""
    couplers: Floats
    """Mixing-angle errors of each interferometer's first and second coupler, [2, devices]."""
    efficiencies: Floats
    """Phases of each θ heater and of each φ heater relative to their commands, [2, devices]."""
    crosstalk: float = 0.0
    """Share of a heater's phase that appears in each of its nearest heaters."""
    loss_db: float = 0.0
    """Loss of every interferometer, in dB."""

    @classmethod
    def ideal(cls, wiring: Wiring) -> Twin:
        """Return the twin of a chip without errors: no offsets, crosstalk or loss, and heaters of efficiency 1."""
        zero, one = np.zeros((2, wiring.devices)), np.ones((2, wiring.devices))
        return cls(wiring=wiring, offsets=zero, couplers=zero, efficiencies=one)

    def phases(self, settings: Floats) -> Floats:
        """Return the phases that act, [..., 2, devices], for ``settings`` of θ and φ of that shape, in radians.

        They are the sum of the settings times the heaters' efficiencies, the share of crosstalk times the settings of
        the nearest heaters, and the offsets.
        """
        heat = heat_from_neighbours(settings, self.wiring.beside)
        return self.efficiencies * settings + self.crosstalk * heat + self.offsets

    def devices(self, acting: Floats) -> tuple[Fields, Fields]:
        """Return the transfer matrices of all devices at the phases that act, and the derivatives of the matrices.

        ``acting`` [..., 2, devices] is a result of `phases`. Matrices are [..., devices, 2, 2], loss included;
        derivatives [..., devices, 4, 2, 2] are those by θ, by φ, and by the first and the second coupler's error, per
        radian.
        """
        amplitude, turned = 10 ** (-self.loss_db / 20), np.pi / 2
        theta, phi = np.exp(1j * acting[..., 0, :]), np.exp(1j * acting[..., 1, :])
        upper_phi = np.stack([phi, np.ones_like(phi)], -1)[..., None, :]
        upper_theta = np.stack([theta, np.ones_like(theta)], -1)[..., None]
        first, second = coupler(self.couplers)
        inner = first * upper_phi
        whole = second @ (upper_theta * inner)
        by_phi = whole * np.array([1j, 0.0])
        by_theta = second @ (np.stack([1j * theta, np.zeros_like(theta)], -1)[..., None] * inner)
        by_first = second @ (upper_theta * (coupler(self.couplers[0] + turned) * upper_phi))
        by_second = coupler(self.couplers[1] + turned) @ (upper_theta * inner)
        changes: Fields = np.stack([by_theta, by_phi, by_first, by_second], -3)
        return np.asarray(amplitude * whole), np.asarray(amplitude * changes, np.complex128)

    def propagate(self, settings: Floats, vectors: Fields) -> Fields:
        """Return output fields [..., outputs, vectors] of input fields [inputs, vectors] at commanded ``settings`` of θ
        and φ in radians, [..., 2, devices]."""
        return forward(self.wiring, self.devices(self.phases(settings))[0], vectors)[0]


def forward(wiring: Wiring, devices: Fields, vectors: Fields) -> tuple[Fields, list[Fields]]:
    """Return the output fields [..., outputs, vectors] of a chip, and those that enter each column's devices.

    Args:
        wiring: places of the interferometers.
        devices: their transfer matrices, [..., devices, 2, 2].
        vectors: input fields, [inputs, vectors].

    Returns:
        The output fields, and for each column the fields at both inputs of its devices, [..., devices, 2, vectors].
    """
    fields = np.zeros((*devices.shape[:-3], wiring.size, vectors.shape[1]), np.complex128)
    fields[..., : wiring.inputs, :] = vectors
    entering = []
    for column in wiring.slices:
        pair = np.stack([wiring.upper[column], wiring.lower[column]], -1)
        inner = fields[..., pair, :]
        entering.append(inner)
        fields[..., pair, :] = devices[..., column, :, :] @ inner
    return fields[..., wiring.output_modes, :], entering


def backward(wiring: Wiring, devices: Fields) -> list[Fields]:
    """Return, for each column in the order of the light, the transfer from behind its devices to the outputs.

    Each is [..., devices, outputs, 2], from both outputs of the column's devices; ``devices`` [..., devices, 2, 2] are
    the transfer matrices of all.
    """
    transfer = np.zeros((*devices.shape[:-3], wiring.size, wiring.outputs), np.complex128)
    transfer[..., wiring.output_modes, np.arange(wiring.outputs)] = 1.0
    behind = []
    for column in reversed(wiring.slices):
        pair = np.stack([wiring.upper[column], wiring.lower[column]], -1)
        inner = transfer[..., pair, :]
        behind.append(np.swapaxes(inner, -1, -2))
        transfer[..., pair, :] = np.swapaxes(devices[..., column, :, :], -1, -2) @ inner
    return behind[::-1]


def field_derivatives(wiring: Wiring, behind: list[Fields], entering: list[Fields], changes: Fields) -> list[Fields]:
    """Return, for each column, the derivatives of the output fields, [..., devices, changes, outputs, vectors].

    Args:
        wiring: places of the interferometers.
        behind: transfer from each column to the outputs (`backward`).
        entering: fields that enter each column (`forward`).
        changes: derivatives of the devices' transfer matrices, [..., devices, changes, 2, 2].
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """Powers that detectors showed."""

    settings: Floats
    """θ and φ that were commanded, [settings, 2, devices]."""
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


def fit(
    start: Twin,
    measured: Measured,
    unknowns: Unknowns,
    *,
    steps: int = _STEPS,
    tolerance: float = 1e-3,
    advance: Advance = ignore,
) -> tuple[Twin, tuple[float, ...]]:
    """Fit a twin to measured powers by damped Gauss-Newton steps, and return it with the differences of powers on the
    way.

    The damping is the residual's norm times a factor that falls with every step that helps and rises with every one
    that does not. Parameters that no power shows keep their values. Steps end when two in a row lower the residual by
    less than the share ``tolerance``, or eight in a row do not lower it.

    Args:
        start: the twin to start from.
        measured: settings, input fields and powers.
        unknowns: which parameters are fitted besides the phase offsets.
        steps: most steps, 60 by default.
        tolerance: share by which a step must lower the residual not to count as one of the last two.
        advance: called with 1 for every step.

    Returns:
        The twin, and the root mean square difference of powers before the first step and after each, steps that were
        refused included.
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
    return twin, tuple(float(np.sqrt(value / measured.powers.size)) for value in squares)


def _descend(
    point: Point,
    equations: Callable[[Point], tuple[Floats, Floats, float]],
    moved: Callable[[Point, Floats], Point],
    steps: int,
    advance: Advance = ignore,
    *,
    little: float,
    quiet_steps: int,
    enough: float = 0.0,
) -> tuple[Point, list[float]]:
    """Take damped Gauss-Newton steps, and return the best point and the sums of squares before the first step and after
    each.

    Steps that do not lower the sum of squares are refused: the point and the sum of squares stay, and the damping
    rises.

    Args:
        point: where to start.
        equations: JᵀJ (its lower triangle), the gradient and the sum of squares at a point.
        moved: the point that a step (JᵀJ + damping)⁻¹ gradient leads to.
        steps: steps at most.
        advance: called with 1 for every step.
        little: a step that helps, but leaves more than this share of the squares, is a quiet one.
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
    """Return the step (JᵀJ + damping · 1)⁻¹ gradient, [parameters].

    Only the lower triangle of ``matrix``, JᵀJ, is read; it is not changed.
    """
    damped = matrix.copy()
    damped[np.diag_indices_from(damped)] += damping
    return np.asarray(cho_solve(cho_factor(damped, lower=True, overwrite_a=True), gradient))


def _moved(twin: Twin, unknowns: Unknowns, step: Floats) -> Twin:
    """Return the twin with ``step`` added to its fitted parameters, which are, [parameters], the offsets of all θ and
    of all φ, then as ``unknowns`` say first and second couplers, heaters of θ and of φ, crosstalk and loss in dB."""
    names = ["offsets", *(["couplers"] if unknowns.couplers else []), *(["efficiencies"] if unknowns.heaters else [])]
    pairs, rest = np.split(step, [2 * twin.wiring.devices * len(names)])
    others = rest.tolist()
    changes = zip(names, pairs.reshape(len(names), 2, -1), strict=True)
    moved = replace(twin, **{name: getattr(twin, name) + change for name, change in changes})  # type: ignore[arg-type, unused-ignore]
    if unknowns.crosstalk:
        moved = replace(moved, crosstalk=twin.crosstalk + others.pop(0))
    if unknowns.loss:
        moved = replace(moved, loss_db=twin.loss_db + others.pop(0))
    return moved


def _normal_equations(twin: Twin, measured: Measured, unknowns: Unknowns) -> tuple[Floats, Floats, float]:
    """Return JᵀJ (its lower triangle), Jᵀ(measured - expected) and the sum of squares of that difference of powers.

    J are the derivatives of the powers by the fitted parameters, in the order of `power_derivatives`.
    """
    count = len(measured.powers)
    chunk = max(1, _VALUES // max(1, 6 * twin.wiring.devices * measured.powers[0].size))
    matrix, gradient, squares = np.zeros(()), np.zeros(()), 0.0
    for start in range(0, count, chunk):
        part = slice(start, start + chunk)
        expected, jacobian = power_derivatives(twin, measured.settings[part], measured.vectors, unknowns)
        difference = (measured.powers[part] - expected).ravel()
        squares += float(difference @ difference)
        product = dsyrk(1.0, jacobian.T, trans=1, lower=1) if jacobian.flags.c_contiguous else jacobian @ jacobian.T
        matrix, gradient = matrix + product, gradient + jacobian @ difference
    return matrix, gradient, squares


def power_derivatives(twin: Twin, settings: Floats, vectors: Fields, unknowns: Unknowns) -> tuple[Floats, Floats]:
    """Return the powers that a twin expects, [settings, outputs, vectors], and their derivatives by its fitted
    parameters.

    Args:
        twin: the twin.
        settings: θ and φ as commanded, in radians, [settings, 2, devices].
        vectors: input fields, [inputs, vectors].
        unknowns: which parameters are fitted besides the phase offsets.

    Returns:
        Powers, and derivatives [parameters, settings · outputs · vectors]. Parameters are the offsets of all θ, of all
        φ, then as ``unknowns`` say the first and the second couplers, the efficiencies of the heaters of θ and of φ,
        the crosstalk and the loss in dB.
    """
    wiring = twin.wiring
    devices, changes = twin.devices(twin.phases(settings))
    fields, entering = forward(wiring, devices, vectors)
    behind = backward(wiring, devices)
    changes = changes[..., : 4 if unknowns.couplers else 2, :, :]
    if unknowns.loss:
        changes = np.concatenate([changes, _DECIBEL * devices[..., None, :, :]], -3)
    kinds, samples = changes.shape[-3], fields.size
    jacobian = np.empty((kinds, wiring.devices, len(fields), *fields.shape[1:]))
    for column, derivative in zip(wiring.slices, field_derivatives(wiring, behind, entering, changes), strict=True):
        derivative *= 2 * np.conj(fields)[:, None, None]
        jacobian[:, column] = derivative.real.transpose(2, 1, 0, 3, 4)
    rows = [jacobian[: 4 if unknowns.couplers else 2].reshape(-1, samples)]
    if unknowns.heaters:
        rows.append((jacobian[:2] * settings.transpose(1, 2, 0)[..., None, None]).reshape(-1, samples))
    if unknowns.crosstalk:
        heats = heat_from_neighbours(settings, wiring.beside).transpose(1, 0, 2).copy()
        warmed = sum(np.einsum("ksov,sk->sov", by_phase, heat) for by_phase, heat in zip(jacobian, heats, strict=False))
        rows.append(np.reshape(warmed, (1, samples)))
    if unknowns.loss:
        rows.append(jacobian[-1].sum(0).reshape(1, samples))
    return np.abs(fields) ** 2, np.concatenate(rows) if len(rows) > 1 else rows[0]


# Phases for which a twin implements a matrix, up to phases at its outputs and one gain.

_EXACT = 1e-24
"""Square of a relative error at which a matrix is implemented as well as rounding lets it be."""

_QUADRATURE = 0.1
"""Weight of light in quadrature where real parts are detected; it is lost power, and receivers' phases err."""


def phase_free_error(matrix: Fields, target: Fields, *, real: bool = False) -> float:
    """Return ‖g D M - H‖ / ‖H‖ (Frobenius norms) for the best phases D of the outputs and the best common gain g.

    M is ``matrix`` and H is ``target``, [outputs, inputs] both. For unitary matrices of N modes this is ‖M H† -
    diag(phases)‖ / √N, to second order. With ``real``, receivers detect real parts, and light in quadrature is no
    error: ‖Re(g D M) - H‖ / ‖H‖, H being real, with the D and g that are best without ``real``.
    """
    difference = _aligned(matrix, target)[0] - target
    return float(np.linalg.norm(difference.real if real else difference) / np.linalg.norm(target))


def _aligned(matrix: Fields, target: Fields) -> tuple[Fields, Fields]:
    """Return g D M [outputs, inputs], the matrix M brought nearest to the target, and the complex factors g D
    [outputs].

    D are the phases of the outputs and g is a common gain.
    """
    overlaps = np.einsum("oi,oi->o", matrix.conj(), target)
    phases = np.exp(1j * np.angle(overlaps))
    power = float(np.vdot(matrix, matrix).real)
    factors = phases * (float(np.abs(overlaps).sum()) / power if power > 0 else 1.0)
    return factors[:, None] * matrix, factors


def program(
    twin: Twin, target: Fields, ideal: Floats, *, real: bool = False, steps: int = _STEPS
) -> tuple[Floats, tuple[float, ...]]:
    """Return settings of θ and φ [2, devices] for which the twin implements ``target``, and the errors on the way.

    It starts from ``ideal`` corrected for the couplers (`meshes.correction`), and takes damped Gauss-Newton steps in
    all phases and in the phases of the outputs. Steps end when three in a row lower the square of the error by less
    than 0.2 %, or eight in a row do not lower it.

    Args:
        twin: the twin of the chip.
        target: matrix to implement up to output phases and a common gain, of norm at most 1, [outputs, inputs].
        ideal: θ and φ of ideal devices for it, in radians, [2, devices].
        real: whether the real parts of the outputs are detected, so that light in quadrature counts a tenth.
        steps: most steps, 60 by default.

    Returns:
        Settings to command in radians, with crosstalk, efficiencies and offsets made up for, and ‖g D M - H‖ / ‖H‖ in
        the twin (`phase_free_error`; with ``real``, imaginary parts count a tenth) before the first step and after
        each.

    Raises:
        ConfigError: the twin's crosstalk is above 0.1 (a negative one counts as 0).
    """
    quadrature = _QUADRATURE if real else 1.0
    norm, count = float(np.linalg.norm(target)), 2 * twin.wiring.devices

    def equations(acting: Floats) -> tuple[Floats, Floats, float]:
        """Return JᵀJ, the gradient and the sum of squares of the residual at phases that act."""
        residual, jacobian = _residual(twin, acting, target, quadrature)
        return jacobian.T @ jacobian, jacobian.T @ residual, float(residual @ residual)

    half, added, _ = splittings(ideal[0] / 2, np.sin(ideal[0] / 2) ** 2, twin.couplers, real)
    phi, _ = pass_phases_on(twin.wiring, ideal, half, added)
    acting, squares = _descend(
        np.stack([2 * half, phi]),
        equations,
        lambda acting, step: acting - step[:count].reshape(2, -1),
        steps,
        little=0.998,
        quiet_steps=3,
        enough=_EXACT * norm**2,
    )
    settings = without_crosstalk(acting - twin.offsets, twin.wiring.beside, max(twin.crosstalk, 0.0), twin.efficiencies)
    return settings, tuple(float(np.sqrt(value)) / norm for value in squares)


def reachable_order(twin: Twin, mesh: Mesh, tries: int, seed: int) -> tuple[Ints, Mesh]:
    """Return an order of a mesh's outputs for which few splittings are out of the couplers' reach, and its mesh.

    The given order is kept if all splittings are in reach; otherwise up to ``tries`` random ones are tried until one
    has none out of reach, and the best is taken.

    Args:
        twin: the twin whose coupler errors count.
        mesh: the mesh as designed.
        tries: number of other orders, drawn with ``seed``.
        seed: seed of the orders.

    Returns:
        ``order`` [outputs], for which row order[o] of the matrix of ``mesh`` leaves at output o, and the mesh of the
        matrix with its rows in that order.
    """
    rng, target = np.random.default_rng((seed, 4)), mesh.matrix()
    best, fewest = (np.arange(mesh.outputs), mesh), mesh.mzis + 1
    order = np.arange(mesh.outputs)
    for attempt in range(tries + 1):
        candidate = decompose(target[order], mesh.kind) if attempt else mesh
        outside = int(within_reach(np.sin(candidate.theta / 2) ** 2, twin.couplers)[1].sum())
        if outside < fewest:
            best, fewest = (order, candidate), outside
        if not outside:
            break
        order = rng.permutation(mesh.outputs)
    return best


def _residual(twin: Twin, acting: Floats, target: Fields, quadrature: float) -> tuple[Floats, Floats]:
    """Return the residual g D M - H at phases that act, as real numbers, and its derivatives.

    M is the matrix of the twin, H the ``target``, D the best output phases and g the best common gain. The residual is
    [2 · outputs · inputs], real parts first; imaginary parts are multiplied by ``quadrature``. Derivatives, for
    constant g, are [2 · outputs · inputs, 2 · devices + outputs], by θ, by φ and by the output phases.
    """
    wiring, (devices, changes) = twin.wiring, twin.devices(acting)
    matrix, entering = forward(wiring, devices, np.eye(wiring.inputs, dtype=np.complex128))
    derivatives = field_derivatives(wiring, backward(wiring, devices), entering, changes[:, :2])
    aligned, factors = _aligned(matrix, target)
    outputs, inputs = target.shape
    jacobian = np.zeros((2 * wiring.devices + outputs, outputs, inputs), np.complex128)
    for column, derivative in zip(wiring.slices, derivatives, strict=True):
        jacobian[column] = derivative[:, 0] * factors[:, None]
        jacobian[wiring.devices + column.start : wiring.devices + column.stop] = derivative[:, 1] * factors[:, None]
    places = np.arange(outputs)
    jacobian[2 * wiring.devices + places, places] = 1j * aligned
    flat = jacobian.reshape(len(jacobian), -1)
    difference = (aligned - target).ravel()
    residual = np.concatenate([difference.real, quadrature * difference.imag])
    return residual, np.concatenate([flat.real, quadrature * flat.imag], 1).T
