"""Error correction: phases that make MZIs with imperfect couplers, or warm neighbours, do what ideal ones would.

Bandyopadhyay, Hamerly and Englund, Optica 8, 1247 (arXiv 2103.04993). With mixing-angle errors α and β of its couplers
an MZI reaches any sin θ/2 from |sin(α+β)| to |cos(α−β)|, and does then exactly what the ideal one does, but for phases
at its outputs, which the next column takes back. Beyond, in nearly crossing (or passing) MZIs, it gets as close as
it can. A Haar-random mesh crosses more often the larger it is, so what remains grows with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.core.errors import ConfigError
from lightloom.photonics.meshes.disturb import (
    Disturbed,
    DisturbedBlocks,
    DisturbedMatrix,
    DisturbedMesh,
    neighbours,
    warmth,
)
from lightloom.photonics.meshes.mesh import Mesh

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Phases to set instead, and how many MZIs could not be corrected."""

    mesh: Mesh
    out_of_reach: int
    """MZIs whose splitting the couplers do not allow."""


def correct(mesh: Mesh, first: ArrayLike, second: ArrayLike, *, real: bool = False) -> Correction:
    """Phases for ``mesh`` when its couplers are known to be off by ``first`` and ``second`` radians, [mzis] each.

    With ``real``, MZIs out of reach are left as drawn. Couplers that are off add light in quadrature, which a real
    matrix whose outputs' real parts are detected meets in second order only; the nearest splitting within reach would
    be off in first order.

    Raises:
        ConfigError: errors of another number than MZIs, or not finite.
    """
    alpha, beta = (np.asarray(each, np.float64) for each in (first, second))
    if alpha.shape != (mesh.mzis,) or beta.shape != (mesh.mzis,):
        raise ConfigError(f"coupler errors of shapes {alpha.shape} and {beta.shape}: expected {mesh.mzis} of each")
    if not (np.isfinite(alpha).all() and np.isfinite(beta).all()):
        raise ConfigError("coupler errors: expected finite angles in radians")
    wanted = np.sin(mesh.theta / 2) ** 2
    half, outside = _within_reach(wanted, alpha, beta)
    straight, across = _elements(half, alpha, beta)
    turned = np.angle(straight), np.angle(across)
    if real:
        half = np.where(outside, mesh.theta / 2, half)
        turned = np.where(outside, 0.0, turned[0]), np.where(outside, 0.0, turned[1])
    phi, pending = _passed_on(mesh, half, *turned)
    return Correction(
        mesh=Mesh(
            kind=mesh.kind,
            inputs=mesh.inputs,
            outputs=mesh.outputs,
            theta=2 * half,
            phi=phi,
            output_phases=(mesh.output_phases + pending[: mesh.outputs]) % (2 * np.pi),
        ),
        out_of_reach=int(outside.sum()),
    )


def cancel_crosstalk(mesh: Mesh, share: float) -> Mesh:
    """Heater settings that give the phases of ``mesh`` when ``share`` of every phase appears in the nearest heaters.

    Crosstalk is linear, so that known crosstalk has settings that cancel it; none is negative, as heaters cannot cool:
    small phases get a turn more. Exact but for rounding by a DAC.

    Raises:
        ConfigError: a share outside [0, 0.1], where a turn more may not be enough.
    """
    theta, phi = cooled(mesh.theta, mesh.phi, neighbours(mesh.layout), share)
    return replace(mesh, theta=theta, phi=phi)


def cooled(
    wanted_theta: NDArray[np.float64], wanted_phi: NDArray[np.float64], beside: NDArray[Any], share: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same for phases of MZIs of which k and k + 1 are neighbours where ``beside[k]`` says so."""
    if not 0 <= share <= 0.1:
        raise ConfigError(f"share={share}: expected 0 to 0.1")
    turn = 2 * np.pi
    most = 6 * share * turn  # at most three heaters are near, none is set above two turns
    theta, phi = (np.where(each % turn < most, each % turn + turn, each % turn) for each in (wanted_theta, wanted_phi))
    set_theta, set_phi = theta, phi
    for _ in range(60):  # a contraction by 3 · share
        warm_theta, warm_phi = warmth(set_theta, set_phi, beside)
        set_theta, set_phi = theta - share * warm_theta, phi - share * warm_phi
    return set_theta, set_phi


def corrected(found: Disturbed, *, real: bool = False) -> Disturbed:
    """Fabricated devices set anew, their couplers and their thermal crosstalk measured and made up for, Σ's included.

    Phase errors, loss, the DAC and detectors remain as they are. ``real`` is that of :func:`correct`.

    Raises:
        ConfigError: a thermal crosstalk above 0.1.
    """
    if isinstance(found, DisturbedMesh):
        made = found.fabrication
        reached = correct(found.mesh, made.first, made.second, real=real).mesh
        return replace(found, mesh=cancel_crosstalk(reached, found.how.thermal_crosstalk))
    if isinstance(found, DisturbedBlocks):
        return replace(found, blocks=tuple(_corrected_matrix(block, real) for block in found.blocks))
    assert isinstance(found, DisturbedMatrix)
    return _corrected_matrix(found, real)


def _corrected_matrix(found: DisturbedMatrix, real: bool) -> DisturbedMatrix:
    made, share = found.attenuators, found.how.thermal_crosstalk
    half, outside = _within_reach(found.mapped.attenuations**2, made.first, made.second)
    turned = np.angle(_elements(half, made.first, made.second)[0])
    if real:
        half, turned = np.where(outside, np.arcsin(found.mapped.attenuations), half), np.where(outside, 0.0, turned)
    theta, phi = 2 * half, (-np.pi / 2 - half - turned) % (2 * np.pi)
    beside = np.ones(max(theta.size - 1, 0), np.bool_)
    input_mesh = corrected(found.input_mesh, real=real)
    output_mesh = found.output_mesh and corrected(found.output_mesh, real=real)
    assert isinstance(input_mesh, DisturbedMesh)
    assert output_mesh is None or isinstance(output_mesh, DisturbedMesh)
    return replace(
        found, input_mesh=input_mesh, output_mesh=output_mesh, attenuator_phases=cooled(theta, phi, beside, share)
    )


def _within_reach(
    wanted: NDArray[np.float64], alpha: NDArray[np.float64], beta: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """θ/2 at which the power that passes comes nearest to ``wanted``, and where couplers keep it from getting there."""
    least, most = np.sin(alpha + beta) ** 2, np.cos(beta - alpha) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(most > least, (wanted - least) / (most - least), 0.0)
    return np.arcsin(np.sqrt(np.clip(share, 0, 1))), (share < -1e-12) | (share > 1 + 1e-12)


def _elements(
    half: NDArray[np.float64], alpha: NDArray[np.float64], beta: NDArray[np.float64]
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """What passes and what crosses, but for common phases."""
    straight = np.sin(half) * np.cos(beta - alpha) + 1j * np.cos(half) * np.sin(alpha + beta)
    across = np.cos(half) * np.cos(alpha + beta) - 1j * np.sin(half) * np.sin(beta - alpha)
    return straight, across


def _passed_on(
    mesh: Mesh, half: NDArray[np.float64], straight: NDArray[np.float64], across: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """φ of every MZI, and the phases left at the outputs, so that column after column agrees with the ideal mesh."""
    place = mesh.layout
    pending = np.zeros(place.size)
    phi = np.empty(place.count)
    ends = np.searchsorted(place.columns, np.arange(place.depth + 1))
    for start, stop in pairwise(ends):
        k, m = slice(start, stop), place.modes[start:stop]
        upper, lower = pending[m], pending[m + 1]
        phi[k] = mesh.phi[k] + upper - lower - straight[k] + across[k]
        rest = lower + mesh.theta[k] / 2 - half[k]
        pending[m], pending[m + 1] = rest - across[k], rest + straight[k]
    return phi % (2 * np.pi), pending
