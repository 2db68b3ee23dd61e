"""Phases for which a twin implements a matrix, up to phases at its outputs and one gain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from lightloom.core.arrays import Floats, Ints
from lightloom.core.effort import Effort
from lightloom.photonics.devices import bar_and_cross
from lightloom.photonics.meshes.calibration.twin import Fields, Settings, Twin, backward, field_derivatives, forward
from lightloom.photonics.meshes.correction import pass_phases_on, within_reach, without_crosstalk
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.mesh import Mesh

_STEPS: Effort = 60
"""Steps at most, unless another number is asked for."""
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
    """Return g D M, and the factors g D [outputs]."""
    overlaps = np.einsum("oi,oi->o", matrix.conj(), target)
    phases = np.exp(1j * np.angle(overlaps))
    power = float(np.vdot(matrix, matrix).real)
    factors = phases * (float(np.abs(overlaps).sum()) / power if power > 0 else 1.0)
    return factors[:, None] * matrix, factors


def program(
    twin: Twin, target: Fields, ideal: tuple[Floats, Floats], *, real: bool = False, steps: int = _STEPS
) -> Programmed:
    """Return settings for which the twin implements ``target`` [outputs, inputs], norm at most 1.

    Starts from ``ideal``, θ and φ of ideal devices, corrected for the couplers (:mod:`correction`), and takes damped
    Gauss-Newton steps in all phases and in the phases of the outputs. With ``real``, the real parts of the outputs
    are detected, and light in quadrature counts little. Steps end when three in a row lower the square of the error by
    less than 0.2 %, or eight in a row do not lower it.
    """
    acting = _corrected(twin, ideal, real)
    quadrature = _QUADRATURE if real else 1.0
    norm, factor, quiet, refused = float(np.linalg.norm(target)), 1.0, 0, 0
    residual, jacobian = _residual(twin, acting, target, quadrature)
    squares = float(residual @ residual)
    errors = [float(np.sqrt(squares)) / norm]
    for _ in range(steps):
        if quiet >= 3 or refused >= 8 or squares < _EXACT * norm**2:
            break
        candidate = _stepped(acting, jacobian, residual, factor * np.sqrt(squares) + 1e-12)
        residual_after, jacobian_after = _residual(twin, candidate, target, quadrature)
        squares_after = float(residual_after @ residual_after)
        if squares_after < squares:
            quiet, refused = (quiet + 1 if squares_after > squares * 0.998 else 0), 0
            acting, residual, jacobian, squares = candidate, residual_after, jacobian_after, squares_after
            factor /= 4
        else:
            refused, factor = refused + 1, factor * 8
        errors.append(float(np.sqrt(squares)) / norm)
    theta, phi = without_crosstalk(
        acting.theta - twin.theta_offset,
        acting.phi - twin.phi_offset,
        twin.wiring.beside,
        max(twin.crosstalk, 0.0),
        (twin.theta_efficiency, twin.phi_efficiency),
    )
    return Programmed(settings=Settings(theta=theta, phi=phi), errors=tuple(errors))


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
    half, outside = within_reach(np.sin(ideal[0] / 2) ** 2, twin.first, twin.second)
    straight, across = (np.angle(amplitude) for amplitude in bar_and_cross(half, twin.first, twin.second))
    if real:
        half = np.where(outside, ideal[0] / 2, half)
        straight, across = np.where(outside, 0.0, straight), np.where(outside, 0.0, across)
    phi, _ = pass_phases_on(twin.wiring, ideal, half, straight, across)
    return Settings(theta=2 * half, phi=phi)


def _stepped(acting: Settings, jacobian: Floats, residual: Floats, damping: float) -> Settings:
    matrix = jacobian.T @ jacobian
    matrix[np.diag_indices_from(matrix)] += damping
    step = cho_solve(cho_factor(matrix, lower=True, overwrite_a=True), jacobian.T @ residual)
    count = acting.theta.size
    return Settings(theta=acting.theta - step[:count], phi=acting.phi - step[count : 2 * count])


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
