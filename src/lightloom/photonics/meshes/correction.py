"""Error correction: phases that make MZIs with imperfect couplers, or warm neighbours, do what ideal ones would.

Bandyopadhyay, Hamerly and Englund, Optica 8, 1247 (arXiv 2103.04993). With mixing-angle errors α and β of its couplers
an MZI reaches any sin θ/2 from |sin(α+β)| to |cos(α−β)|, and does then exactly what the ideal one does, but for phases
at its outputs, which the next column takes back. Beyond, in nearly crossing (or passing) MZIs, it gets as close as
it can. A Haar-random mesh crosses more often the larger it is, so what remains grows with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.errors import ConfigError
from lightloom.photonics.meshes.disturb import neighbours, warmth
from lightloom.photonics.meshes.mesh import Mesh

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Phases to set instead, and how many MZIs could not be corrected."""

    mesh: Mesh
    out_of_reach: int
    """MZIs whose splitting the couplers do not allow."""


def correct(mesh: Mesh, first: ArrayLike, second: ArrayLike) -> Correction:
    """Phases for ``mesh`` when its couplers are known to be off by ``first`` and ``second`` radians, [mzis] each.

    Raises:
        ConfigError: errors of another number than MZIs, or not finite.
    """
    alpha, beta = (np.asarray(each, np.float64) for each in (first, second))
    if alpha.shape != (mesh.mzis,) or beta.shape != (mesh.mzis,):
        raise ConfigError(f"coupler errors of shapes {alpha.shape} and {beta.shape}: expected {mesh.mzis} of each")
    if not (np.isfinite(alpha).all() and np.isfinite(beta).all()):
        raise ConfigError("coupler errors: expected finite angles in radians")
    wanted = np.sin(mesh.theta / 2) ** 2
    least, most = np.sin(alpha + beta) ** 2, np.cos(beta - alpha) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(most > least, (wanted - least) / (most - least), 0.0)
    half = np.arcsin(np.sqrt(np.clip(share, 0, 1)))
    straight = np.sin(half) * np.cos(beta - alpha) + 1j * np.cos(half) * np.sin(alpha + beta)
    across = np.cos(half) * np.cos(alpha + beta) - 1j * np.sin(half) * np.sin(beta - alpha)
    phi, pending = _passed_on(mesh, half, np.angle(straight), np.angle(across))
    outside = (share < -1e-12) | (share > 1 + 1e-12)
    return Correction(
        mesh=Mesh(
            kind=mesh.kind, inputs=mesh.inputs, outputs=mesh.outputs, theta=2 * half, phi=phi,
            output_phases=(mesh.output_phases + pending[: mesh.outputs]) % (2 * np.pi),
        ),
        out_of_reach=int(outside.sum()),
    )  # fmt: skip


def cancel_crosstalk(mesh: Mesh, share: float) -> Mesh:
    """Heater settings that give the phases of ``mesh`` when ``share`` of every phase appears in the nearest heaters.

    Crosstalk is linear, so that known crosstalk has settings that cancel it; none is negative, as heaters cannot cool:
    small phases get a turn more. Exact but for rounding by a DAC.

    Raises:
        ConfigError: a share outside [0, 0.1], where a turn more may not be enough.
    """
    if not 0 <= share <= 0.1:
        raise ConfigError(f"share={share}: expected 0 to 0.1")
    beside = neighbours(mesh.layout)
    turn = 2 * np.pi
    most = 6 * share * turn  # at most three heaters are near, none is set above two turns
    theta, phi = (np.where(each % turn < most, each % turn + turn, each % turn) for each in (mesh.theta, mesh.phi))
    set_theta, set_phi = theta, phi
    for _ in range(60):  # a contraction by 3 · share
        warm_theta, warm_phi = warmth(set_theta, set_phi, beside)
        set_theta, set_phi = theta - share * warm_theta, phi - share * warm_phi
    return replace(mesh, theta=set_theta, phi=set_phi)


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
