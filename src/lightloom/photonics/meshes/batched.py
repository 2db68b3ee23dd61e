"""Many fabrications of a matrix at once, for statistics: matrices [fabrications, outputs, inputs].

The devices follow the same distributions as those of :func:`disturb.disturb`, drawn in another order.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.arrays import Mask
from lightloom.photonics.devices import NonIdealities, mzi
from lightloom.photonics.meshes.blocks import MappedBlocks
from lightloom.photonics.meshes.disturb import heat_from_neighbours, heater_efficiencies, neighbours, quantised
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh import Mesh

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Devices = NDArray[np.complex128]


def fabricated_matrices(
    part: Mesh | MappedMatrix | MappedBlocks, non_idealities: NonIdealities, rng: np.random.Generator, count: int
) -> NDArray[np.complex128]:
    """Return the matrices that ``count`` fabrications implement, [count, outputs, inputs]."""
    if isinstance(part, MappedBlocks):
        return part.joined([fabricated_matrices(block, non_idealities, rng, count) for block in part.blocks])
    if isinstance(part, Mesh):
        return _mesh_matrices(part, non_idealities, rng, count)
    inner = _mesh_matrices(part.input_mesh, non_idealities, rng, count)
    size = part.attenuations.size
    beside = np.ones(max(size - 1, 0), np.bool_)
    column = _devices(part.attenuator_phases, beside, non_idealities, rng, count)[:, :, 0, 0]
    lit = min(inner.shape[1], size)
    passed = column[:, :lit, None] * inner[:, :lit]
    if part.output_mesh is not None:
        passed = _mesh_matrices(part.output_mesh, non_idealities, rng, count)[:, :, :lit] @ passed
    return np.asarray(part.gains[:, None] * passed)


def _mesh_matrices(
    mesh: Mesh, non_idealities: NonIdealities, rng: np.random.Generator, count: int
) -> NDArray[np.complex128]:
    """Return matrices [count, outputs, inputs], column by column of MZIs."""
    place = mesh.layout
    devices = _devices((mesh.theta, mesh.phi), neighbours(place), non_idealities, rng, count)
    fields = np.zeros((count, place.size, mesh.inputs), np.complex128)
    fields[:, np.arange(mesh.inputs), np.arange(mesh.inputs)] = 1.0
    ends = np.searchsorted(place.columns, np.arange(place.depth + 1))
    for start, stop in pairwise(ends):
        modes, settings = place.modes[start:stop], devices[:, start:stop, :, :, None]
        upper, lower = fields[:, modes], fields[:, modes + 1]
        fields[:, modes] = settings[:, :, 0, 0] * upper + settings[:, :, 0, 1] * lower
        fields[:, modes + 1] = settings[:, :, 1, 0] * upper + settings[:, :, 1, 1] * lower
    phases = quantised(mesh.output_phases, non_idealities.dac_bits)
    errors = non_idealities.phase_error * rng.standard_normal((count, mesh.outputs))
    return np.asarray(fields[:, : mesh.outputs] * np.exp(1j * (phases + errors))[:, :, None])


def _devices(
    phases: tuple[NDArray[np.float64], NDArray[np.float64]],
    beside: Mask,
    non_idealities: NonIdealities,
    rng: np.random.Generator,
    count: int,
) -> Devices:
    """Return transfer matrices of MZIs [count, mzis, 2, 2] for settings of θ and φ [mzis]."""
    theta, phi = (quantised(setting, non_idealities.dac_bits) for setting in phases)
    theta_heat, phi_heat = heat_from_neighbours(theta, phi, beside)
    errors = rng.standard_normal((5, count, theta.size))
    loss = np.maximum(non_idealities.loss_db + non_idealities.loss_spread_db * errors[4], 0.0)
    efficiencies = heater_efficiencies((count, theta.size), non_idealities, rng)
    return mzi(
        efficiencies[0] * theta
        + non_idealities.thermal_crosstalk * theta_heat
        + non_idealities.phase_error * errors[0],
        efficiencies[1] * phi + non_idealities.thermal_crosstalk * phi_heat + non_idealities.phase_error * errors[1],
        first=non_idealities.coupler_error * errors[2],
        second=non_idealities.coupler_error * errors[3],
        transmission=10 ** (-loss / 10),
    )
