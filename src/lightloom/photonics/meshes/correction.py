"""Error correction: phases for which MZIs with coupler errors or thermal crosstalk act as ideal ones.

Bandyopadhyay, Hamerly and Englund, Optica 8, 1247 (arXiv 2103.04993). With mixing-angle errors α and β of its couplers
an MZI reaches any sin θ/2 from |sin(α+β)| to |cos(α−β)|. It then equals the ideal one up to phases at its outputs,
which the next column compensates. MZIs closer to the cross or bar state are set to the nearest splitting within
reach. Large Haar-random meshes have more MZIs near the cross state, so their remaining error is larger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.core.arrays import Floats, Mask
from lightloom.core.errors import ConfigError
from lightloom.photonics.devices import bar_and_cross
from lightloom.photonics.meshes import disturb
from lightloom.photonics.meshes.mesh import Mesh

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Corrected phases, and the number of MZIs that cannot be corrected."""

    mesh: Mesh
    out_of_reach: int
    """Number of MZIs whose splitting the couplers cannot reach."""


def correct(mesh: Mesh, first: ArrayLike, second: ArrayLike, *, real: bool = False) -> Correction:
    """Return phases for ``mesh`` that make up for errors of its couplers, with the number of MZIs out of reach.

    Args:
        mesh: the mesh with the phases of ideal devices.
        first: mixing-angle errors of the first couplers in radians, [mzis].
        second: those of the second couplers.
        real: whether MZIs out of reach keep their θ. Coupler errors add light in quadrature, which affects a real
            matrix with detected real parts in second order only; the nearest splitting within reach, which is set
            otherwise, would have an error of first order.

    Returns:
        The mesh with corrected θ, φ and output phases (``mesh``), and the number of MZIs whose couplers cannot reach
        the splitting (``out_of_reach``).

    Raises:
        ConfigError: the number of errors is not the number of MZIs, or an error is not finite.
    """
    alpha, beta = (np.asarray(errors, np.float64) for errors in (first, second))
    if alpha.shape != (mesh.mzis,) or beta.shape != (mesh.mzis,):
        raise ConfigError(f"coupler errors of shapes {alpha.shape} and {beta.shape}: expected {mesh.mzis} of each")
    if not (np.isfinite(alpha).all() and np.isfinite(beta).all()):
        raise ConfigError("coupler errors: expected finite angles in radians")
    half, added, outside = splittings(mesh.theta / 2, np.sin(mesh.theta / 2) ** 2, np.stack([alpha, beta]), real)
    phi, pending = pass_phases_on(disturb.wiring_of(mesh), mesh.phases, half, added)
    output_phases = (mesh.output_phases + pending[: mesh.outputs]) % (2 * np.pi)
    settings = replace(mesh, theta=2 * half, phi=phi, output_phases=output_phases)
    return Correction(mesh=settings, out_of_reach=int(outside.sum()))


def cancel_crosstalk(mesh: Mesh, share: float) -> Mesh:
    """Return the mesh with settings of θ and φ that give its phases in spite of thermal crosstalk.

    ``share`` of every setting appears as a phase in each of the nearest heaters. Crosstalk is linear, so there are
    settings that cancel it exactly (before rounding by a DAC). As heaters cannot cool, small phases are increased by 2π
    to keep all settings non-negative. Output phases stay.

    Raises:
        ConfigError: the share is outside [0, 0.1]; beyond, an additional 2π may not suffice.
    """
    theta, phi = without_crosstalk(mesh.phases, disturb.neighbours(mesh.layout), share)
    return replace(mesh, theta=theta, phi=phi)


def without_crosstalk(wanted: Floats, beside: Mask, share: float, efficiencies: Floats | float = 1.0) -> Floats:
    """Return settings of θ and φ, [2, mzis], for which ``wanted`` phases act (modulo 2π) in spite of crosstalk. Phases
    too small for heat from neighbours are raised by 2π, so that no setting is negative where efficiencies are 1.

    Args:
        wanted: phases θ and φ in radians, [2, mzis].
        beside: true at k where MZIs k and k + 1 are neighbours in a column, [mzis - 1].
        share: share of every setting that appears as a phase in each nearest heater.
        efficiencies: phases of the heaters relative to their commands, [2, mzis], or one number for all.

    Raises:
        ConfigError: the share is outside [0, 0.1].
    """
    if not 0 <= share <= 0.1:
        raise ConfigError(f"share={share}: expected 0 to 0.1")
    turn = 2 * np.pi
    most = 6 * share * turn  # at most three heaters are near, and no setting exceeds two turns
    phases = wanted % turn
    phases = np.where(phases < most, phases + turn, phases)
    settings = phases / efficiencies
    for _ in range(60):  # a contraction by 3 · share
        settings = (phases - share * disturb.heat_from_neighbours(settings, beside)) / efficiencies
    return settings


def corrected(disturbed: disturb.Disturbed, *, real: bool = False) -> Any:
    """Return fabricated devices with phases, those of Σ included, corrected for coupler errors and thermal crosstalk.

    Phase errors, loss, rounding by the DAC and detector noise remain. With ``real``, MZIs whose couplers cannot reach
    the splitting keep their θ, as real parts are detected (:func:`correct`). The result is of the type of
    ``disturbed``, on the same devices.

    Raises:
        ConfigError: the thermal crosstalk exceeds 0.1.
    """
    share = disturbed.non_idealities.thermal_crosstalk
    if isinstance(disturbed, disturb.DisturbedBlocks):
        return replace(disturbed, blocks=tuple(corrected(block, real=real) for block in disturbed.blocks))
    if isinstance(disturbed, disturb.DisturbedMesh):
        corrected_mesh = correct(disturbed.mesh, *disturbed.fabrication.couplers, real=real).mesh
        return replace(disturbed, mesh=cancel_crosstalk(corrected_mesh, share))
    sigma = disturbed.mapped.attenuations
    half, added, _ = splittings(np.arcsin(sigma), sigma**2, disturbed.attenuators.couplers, real)
    phases = np.stack([2 * half, (-np.pi / 2 - half - added[0]) % (2 * np.pi)])
    return replace(
        disturbed,
        input_mesh=corrected(disturbed.input_mesh, real=real),
        output_mesh=disturbed.output_mesh and corrected(disturbed.output_mesh, real=real),
        attenuator_phases=without_crosstalk(phases, np.ones(max(half.size - 1, 0), np.bool_), share),
    )


def splittings(wanted: Floats, bar_power: Floats, couplers: Floats, real: bool) -> tuple[Floats, Floats, Mask]:
    """Return the splittings that MZIs with unequal couplers can have in place of ``wanted`` ones.

    Args:
        wanted: θ/2 of ideal devices in radians, [mzis].
        bar_power: bar powers of ideal devices, 0 to 1, [mzis].
        couplers: mixing-angle errors of both couplers in radians, [2, mzis].
        real: whether MZIs out of reach keep their θ, with no phases added.

    Returns:
        θ/2 to set [mzis], the phases in radians that these and the couplers add to the bar and to the cross amplitude
        of ideal devices [2, mzis], and where the splitting is out of reach [mzis].
    """
    half, outside = within_reach(bar_power, couplers)
    # θ/2 is set in [0, π/2], where amplitudes are positive; of ideal devices one may be negative.
    ideal = bar_and_cross(wanted, *np.zeros_like(couplers))
    added = np.asarray(np.angle(bar_and_cross(half, *couplers)) - np.angle(ideal), np.float64)
    if real:
        half, added = np.where(outside, wanted, half), np.where(outside, 0.0, added)
    return half, added, outside


def within_reach(bar_power: Floats, couplers: Floats) -> tuple[Floats, Mask]:
    """Return θ/2 for the bar power nearest to ``bar_power`` within reach, and where the couplers cannot reach it:
    [mzis] both.

    Bar powers are shares from 0 to 1; θ/2 lies in [0, π/2]. ``couplers`` [2, mzis] are the mixing-angle errors of the
    two couplers in radians.
    """
    alpha, beta = couplers
    least, most = np.sin(alpha + beta) ** 2, np.cos(beta - alpha) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(most > least, (bar_power - least) / (most - least), 0.0)
    return np.arcsin(np.sqrt(np.clip(share, 0, 1))), (share < -1e-12) | (share > 1 + 1e-12)


def pass_phases_on(wiring: disturb.Wiring, wanted: Floats, half: Floats, added: Floats) -> tuple[Floats, Floats]:
    """Return φ of every MZI, from 0 to 2π, [devices] and the phases to add to those at the end of every waveguide
    [waveguides], in radians, so that each column agrees with the ideal one.

    Args:
        wiring: places of the interferometers.
        wanted: θ and φ of ideal devices, [2, devices].
        half: θ/2 as set, [devices].
        added: phases that unequal couplers add to the bar and to the cross amplitudes, [2, devices].
    """
    (theta, ideal_phi), (straight, across) = wanted, added
    pending = np.zeros(wiring.size)
    phi = np.empty(wiring.devices)
    for k in wiring.slices:
        m, n = wiring.upper[k], wiring.lower[k]
        upper, lower = pending[m], pending[n]
        phi[k] = ideal_phi[k] + upper - lower - straight[k] + across[k]
        common = lower + theta[k] / 2 - half[k]
        pending[m], pending[n] = common - across[k], common + straight[k]
    return phi % (2 * np.pi), pending
