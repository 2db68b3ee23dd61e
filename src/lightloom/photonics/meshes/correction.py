"""Error correction: phases for which MZIs with coupler errors or thermal crosstalk act as ideal ones.

Bandyopadhyay, Hamerly and Englund, Optica 8, 1247 (arXiv 2103.04993). With mixing-angle errors α and β of its couplers
an MZI reaches any sin θ/2 from |sin(α+β)| to |cos(α−β)|. It then equals the ideal one up to phases at its outputs,
which the next column compensates. MZIs closer to the cross or bar state are set to the nearest splitting within
reach. Large Haar-random meshes have more MZIs near the cross state, so their remaining error is larger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.arrays import Floats, Mask
from lightloom.core.errors import ConfigError
from lightloom.photonics.devices import bar_and_cross
from lightloom.photonics.meshes.disturb import (
    Disturbed,
    DisturbedBlocks,
    DisturbedMatrix,
    DisturbedMesh,
    Wiring,
    heat_from_neighbours,
    neighbours,
    wiring_of,
)
from lightloom.photonics.meshes.mesh import Mesh

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Corrected phases, and the number of MZIs that cannot be corrected."""

    mesh: Mesh
    out_of_reach: int
    """Number of MZIs whose splitting the couplers cannot reach."""


def correct(mesh: Mesh, first: ArrayLike, second: ArrayLike, *, real: bool = False) -> Correction:
    """Return phases for ``mesh`` given its coupler errors ``first`` and ``second`` in radians, [mzis] each.

    With ``real``, MZIs out of reach keep their phases. Coupler errors add light in quadrature, which affects a real
    matrix with detected real parts in second order only; the nearest splitting within reach would have an error of
    first order.

    Raises:
        ConfigError: the number of errors is not the number of MZIs, or an error is not finite.
    """
    alpha, beta = (np.asarray(errors, np.float64) for errors in (first, second))
    if alpha.shape != (mesh.mzis,) or beta.shape != (mesh.mzis,):
        raise ConfigError(f"coupler errors of shapes {alpha.shape} and {beta.shape}: expected {mesh.mzis} of each")
    if not (np.isfinite(alpha).all() and np.isfinite(beta).all()):
        raise ConfigError("coupler errors: expected finite angles in radians")
    bar_power = np.sin(mesh.theta / 2) ** 2
    half, outside = within_reach(bar_power, alpha, beta)
    straight, across = bar_and_cross(half, alpha, beta)
    port_phases = np.angle(straight), np.angle(across)
    if real:
        half = np.where(outside, mesh.theta / 2, half)
        port_phases = np.where(outside, 0.0, port_phases[0]), np.where(outside, 0.0, port_phases[1])
    phi, pending = pass_phases_on(wiring_of(mesh), (mesh.theta, mesh.phi), half, *port_phases)
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
    """Return heater settings that give the phases of ``mesh`` if ``share`` of every phase appears in nearest heaters.

    Crosstalk is linear, so there are settings that cancel it exactly (before rounding by a DAC). As heaters cannot
    cool, small phases are increased by 2π to keep all settings non-negative.

    Raises:
        ConfigError: the share is outside [0, 0.1]; beyond, an additional 2π may not suffice.
    """
    theta, phi = without_crosstalk(mesh.theta, mesh.phi, neighbours(mesh.layout), share)
    return replace(mesh, theta=theta, phi=phi)


def without_crosstalk(
    wanted_theta: NDArray[np.float64],
    wanted_phi: NDArray[np.float64],
    beside: Mask,
    share: float,
    efficiencies: tuple[Floats | float, Floats | float] = (1.0, 1.0),
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return settings of θ and φ that cancel crosstalk; MZIs k and k + 1 are neighbours where ``beside[k]`` is true.

    ``efficiencies`` are the phases of the heaters of θ and φ relative to their commands. ``share`` of every phase
    appears in each nearest heater.

    Raises:
        ConfigError: the share is outside [0, 0.1].
    """
    if not 0 <= share <= 0.1:
        raise ConfigError(f"share={share}: expected 0 to 0.1")
    turn = 2 * np.pi
    most = 6 * share * turn  # at most three heaters are near, and no setting exceeds two turns
    theta, phi = (
        np.where(phases % turn < most, phases % turn + turn, phases % turn) for phases in (wanted_theta, wanted_phi)
    )
    of_theta, of_phi = efficiencies
    theta_settings, phi_settings = theta / of_theta, phi / of_phi
    for _ in range(60):  # a contraction by 3 · share
        theta_heat, phi_heat = heat_from_neighbours(theta_settings, phi_settings, beside)
        theta_settings, phi_settings = (theta - share * theta_heat) / of_theta, (phi - share * phi_heat) / of_phi
    return theta_settings, phi_settings


def corrected(disturbed: Disturbed, *, real: bool = False) -> Disturbed:
    """Correct the phases of fabricated devices, those of Σ included, for coupler errors and thermal crosstalk.

    Phase errors, loss, rounding by the DAC and detector noise remain. ``real`` is that of :func:`correct`.

    Raises:
        ConfigError: the thermal crosstalk exceeds 0.1.
    """
    if isinstance(disturbed, DisturbedMesh):
        fabrication = disturbed.fabrication
        corrected_mesh = correct(disturbed.mesh, fabrication.first, fabrication.second, real=real).mesh
        return replace(disturbed, mesh=cancel_crosstalk(corrected_mesh, disturbed.non_idealities.thermal_crosstalk))
    if isinstance(disturbed, DisturbedBlocks):
        return replace(disturbed, blocks=tuple(_corrected_matrix(block, real) for block in disturbed.blocks))
    return _corrected_matrix(disturbed, real)


def _corrected_matrix(disturbed: DisturbedMatrix, real: bool) -> DisturbedMatrix:
    """Return a matrix on fabricated devices with the phases of both meshes and of Σ corrected, see `corrected`."""
    fabrication, share = disturbed.attenuators, disturbed.non_idealities.thermal_crosstalk
    half, outside = within_reach(disturbed.mapped.attenuations**2, fabrication.first, fabrication.second)
    port_phase = np.angle(bar_and_cross(half, fabrication.first, fabrication.second)[0])
    if real:
        half, port_phase = (
            np.where(outside, np.arcsin(disturbed.mapped.attenuations), half),
            np.where(outside, 0.0, port_phase),
        )
    theta, phi = 2 * half, (-np.pi / 2 - half - port_phase) % (2 * np.pi)
    beside = np.ones(max(theta.size - 1, 0), np.bool_)
    input_mesh = corrected(disturbed.input_mesh, real=real)
    output_mesh = disturbed.output_mesh and corrected(disturbed.output_mesh, real=real)
    assert isinstance(input_mesh, DisturbedMesh)
    assert output_mesh is None or isinstance(output_mesh, DisturbedMesh)
    return replace(
        disturbed,
        input_mesh=input_mesh,
        output_mesh=output_mesh,
        attenuator_phases=without_crosstalk(theta, phi, beside, share),
    )


def within_reach(
    bar_power: NDArray[np.float64], alpha: NDArray[np.float64], beta: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return θ/2 for the bar power nearest to ``bar_power``, and where the couplers cannot reach it.

    Bar powers are shares from 0 to 1; θ/2 lies in [0, π/2]. ``alpha`` and ``beta`` are the errors of the two couplers
    in radians.
    """
    least, most = np.sin(alpha + beta) ** 2, np.cos(beta - alpha) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(most > least, (bar_power - least) / (most - least), 0.0)
    return np.arcsin(np.sqrt(np.clip(share, 0, 1))), (share < -1e-12) | (share > 1 + 1e-12)


def pass_phases_on(
    wiring: Wiring,
    wanted: tuple[NDArray[np.float64], NDArray[np.float64]],
    half: NDArray[np.float64],
    straight: NDArray[np.float64],
    across: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return φ of every MZI and the phases left on every waveguide, so that every column agrees with the ideal one.

    ``wanted`` are θ and φ of ideal devices, ``half`` is θ/2 as set, ``straight`` and ``across`` are the phases that
    unequal couplers add to the bar and cross amplitudes.
    """
    theta, ideal_phi = wanted
    pending = np.zeros(wiring.size)
    phi = np.empty(wiring.devices)
    for k in wiring.slices:
        m, n = wiring.upper[k], wiring.lower[k]
        upper, lower = pending[m], pending[n]
        phi[k] = ideal_phi[k] + upper - lower - straight[k] + across[k]
        common = lower + theta[k] / 2 - half[k]
        pending[m], pending[n] = common - across[k], common + straight[k]
    return phi % (2 * np.pi), pending
