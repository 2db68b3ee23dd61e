"""Fabricated meshes: the same phases on non-ideal devices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, overload

import numpy as np

from lightloom.core.arrays import Mask
from lightloom.core.errors import ConfigError
from lightloom.photonics.devices import NonIdealities, mzi
from lightloom.photonics.meshes.blocks import MappedBlocks
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh import Mesh, propagate

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from lightloom.photonics.meshes.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabrication:
    """Errors of the devices of a mesh; they do not change when phases are set."""

    theta_error: NDArray[np.float64]
    """Error of each θ, in radians."""
    phi_error: NDArray[np.float64]
    """Error of each φ, in radians."""
    output_error: NDArray[np.float64]
    """Error of each output phase, in radians."""
    first: NDArray[np.float64]
    """Mixing-angle error of each MZI's first coupler, in radians."""
    second: NDArray[np.float64]
    """Mixing-angle error of each MZI's second coupler, in radians."""
    transmission: NDArray[np.float64]
    """Power transmission of each MZI."""
    theta_efficiency: NDArray[np.float64]
    """Phase of each θ heater relative to its command."""
    phi_efficiency: NDArray[np.float64]
    """Phase of each φ heater relative to its command."""


def fabricate(mzis: int, outputs: int, non_idealities: NonIdealities, rng: np.random.Generator) -> Fabrication:
    """Draw the devices of one mesh."""
    theta, phi, first, second, spread = rng.normal(size=(5, mzis))
    loss = np.maximum(non_idealities.loss_db + non_idealities.loss_spread_db * spread, 0.0)
    theta_efficiency, phi_efficiency = heater_efficiencies((mzis,), non_idealities, rng)
    return Fabrication(
        theta_error=non_idealities.phase_error * theta,
        phi_error=non_idealities.phase_error * phi,
        output_error=non_idealities.phase_error * rng.normal(size=outputs),
        first=non_idealities.coupler_error * first,
        second=non_idealities.coupler_error * second,
        transmission=10 ** (-loss / 10),
        theta_efficiency=theta_efficiency,
        phi_efficiency=phi_efficiency,
    )


def heater_efficiencies(
    shape: tuple[int, ...], non_idealities: NonIdealities, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw the efficiencies of the heaters of θ and φ, [2, *shape], from a stream that no other error is drawn from."""
    if not non_idealities.heater_spread:
        return np.ones((2, *shape))
    return 1 + non_idealities.heater_spread * rng.spawn(1)[0].normal(size=(2, *shape))


@dataclass(frozen=True, kw_only=True, eq=False)
class DisturbedMesh:
    """A mesh on fabricated devices: phases are rounded by the DAC, then disturbed by crosstalk and fabrication errors.

    Raises:
        ConfigError: the number of devices is not the number of MZIs of the mesh.
    """

    mesh: Mesh
    non_idealities: NonIdealities
    fabrication: Fabrication

    def __post_init__(self) -> None:
        if self.fabrication.first.size != self.mesh.mzis:
            raise ConfigError(f"{self.fabrication.first.size} devices for a mesh of {self.mesh.mzis} MZIs")

    @property
    def inputs(self) -> int:
        """Number of input modes."""
        return self.mesh.inputs

    @cached_property
    def devices(self) -> NDArray[np.complex128]:
        """Transfer matrices of the MZIs, [mzis, 2, 2]."""
        beside = neighbours(self.mesh.layout)
        return disturbed_devices(self.mesh.theta, self.mesh.phi, beside, self.non_idealities, self.fabrication)

    def propagate(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Return the output fields [outputs, ...] of input fields [inputs, ...]."""
        phases = quantised(self.mesh.output_phases, self.non_idealities.dac_bits) + self.fabrication.output_error
        return propagate(self.mesh.layout, self.devices, phases, fields)

    def matrix(self) -> NDArray[np.complex128]:
        """Return the matrix that is implemented; with loss it is not unitary."""
        return self.propagate(np.eye(self.inputs))


@dataclass(frozen=True, kw_only=True, eq=False)
class DisturbedMatrix:
    """A mapped matrix on fabricated devices."""

    mapped: MappedMatrix
    non_idealities: NonIdealities
    input_mesh: DisturbedMesh
    attenuator_phases: tuple[NDArray[np.float64], NDArray[np.float64]]
    """Settings of θ and φ of the MZIs of Σ."""
    attenuators: Fabrication
    output_mesh: DisturbedMesh | None

    @cached_property
    def column(self) -> NDArray[np.complex128]:
        """Amplitude transmissions of the MZIs of Σ."""
        beside = np.ones(max(self.attenuators.first.size - 1, 0), np.bool_)
        return disturbed_devices(*self.attenuator_phases, beside, self.non_idealities, self.attenuators)[:, 0, 0]

    def propagate(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Return the output fields [outputs, ...] of input fields [inputs, ...]."""
        return self.mapped.behind(self.input_mesh.propagate(fields), self.column, self.output_mesh)

    def matrix(self) -> NDArray[np.complex128]:
        """Return the matrix that is implemented."""
        return self.propagate(np.eye(self.mapped.shape[1]))


@dataclass(frozen=True, kw_only=True, eq=False)
class DisturbedBlocks:
    """The blocks of a matrix on fabricated devices."""

    mapped: MappedBlocks
    non_idealities: NonIdealities
    blocks: tuple[DisturbedMatrix, ...]

    def matrix(self) -> NDArray[np.complex128]:
        """Return the matrix that is implemented."""
        return self.mapped.joined([block.matrix() for block in self.blocks])

    def propagate(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Return the output fields [outputs, ...] of input fields [inputs, ...]."""
        return np.asarray(np.tensordot(self.matrix(), np.asarray(fields), 1))


Disturbed = DisturbedMesh | DisturbedMatrix | DisturbedBlocks
"""A fabricated mesh, or set of meshes, that implements a matrix."""


@overload
def disturb(ideal: Mesh, non_idealities: NonIdealities, rng: np.random.Generator) -> DisturbedMesh: ...
@overload
def disturb(ideal: MappedMatrix, non_idealities: NonIdealities, rng: np.random.Generator) -> DisturbedMatrix: ...
@overload
def disturb(ideal: MappedBlocks, non_idealities: NonIdealities, rng: np.random.Generator) -> DisturbedBlocks: ...
def disturb(
    ideal: Mesh | MappedMatrix | MappedBlocks, non_idealities: NonIdealities, rng: np.random.Generator
) -> Disturbed:
    """Draw the devices of a mesh or of mapped meshes."""
    if isinstance(ideal, Mesh):
        return DisturbedMesh(
            mesh=ideal,
            non_idealities=non_idealities,
            fabrication=fabricate(ideal.mzis, ideal.outputs, non_idealities, rng),
        )
    if isinstance(ideal, MappedBlocks):
        return DisturbedBlocks(
            mapped=ideal,
            non_idealities=non_idealities,
            blocks=tuple(disturb(block, non_idealities, rng) for block in ideal.blocks),
        )
    attenuators = fabricate(ideal.attenuations.size, 0, non_idealities, rng)
    return DisturbedMatrix(
        mapped=ideal,
        non_idealities=non_idealities,
        input_mesh=disturb(ideal.input_mesh, non_idealities, rng),
        attenuator_phases=ideal.attenuator_phases,
        attenuators=attenuators,
        output_mesh=disturb(ideal.output_mesh, non_idealities, rng) if ideal.output_mesh else None,
    )


def detect(
    fields: ArrayLike, non_idealities: NonIdealities, rng: np.random.Generator, full_scale: float | None = None
) -> NDArray[np.float64]:
    """Return coherently detected fields: their real parts with detector noise.

    The noise is relative to the amplitude ``full_scale``, by default the largest of these fields.
    """
    real_parts = np.real(np.asarray(fields))
    scale = float(np.abs(real_parts).max(initial=0.0)) if full_scale is None else full_scale
    return np.asarray(real_parts + non_idealities.detector_noise * scale * rng.normal(size=real_parts.shape))


def quantised(phases: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """Round phases to multiples of 2π/2^bits; 0 bits leave them unchanged."""
    if bits == 0:
        return phases
    step = 2 * np.pi / 2**bits
    return np.asarray(np.round(phases / step) * step)


def heat_from_neighbours(
    theta: NDArray[np.float64], phi: NDArray[np.float64], beside: Mask
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum of the phases of the nearest heaters, for every θ and every φ, [..., mzis].

    These are the other heater of the same MZI and the same heaters of neighbouring MZIs. MZIs k and k + 1 are
    neighbours in a column where ``beside[k]`` is true.
    """
    theta_heat, phi_heat = phi.copy(), theta.copy()
    for own, warm in ((theta, theta_heat), (phi, phi_heat)):
        warm[..., 1:] += own[..., :-1] * beside
        warm[..., :-1] += own[..., 1:] * beside
    return theta_heat, phi_heat


def neighbours(mesh_layout: Layout) -> NDArray[np.bool_]:
    """Return, for each MZI but the last, whether the next one is below it in the same column."""
    return np.asarray((np.diff(mesh_layout.columns) == 0) & (np.diff(mesh_layout.modes) == 2))


def disturbed_devices(
    theta: NDArray[np.float64],
    phi: NDArray[np.float64],
    beside: Mask,
    non_idealities: NonIdealities,
    fabrication: Fabrication,
) -> NDArray[np.complex128]:
    """Return the transfer matrices [mzis, 2, 2] of devices with settings ``theta`` and ``phi`` in radians.

    ``beside`` [mzis - 1] says which next device is near enough to be heated (:func:`neighbours`).
    """
    theta, phi = quantised(theta, non_idealities.dac_bits), quantised(phi, non_idealities.dac_bits)
    theta_heat, phi_heat = heat_from_neighbours(theta, phi, beside)
    return mzi(
        fabrication.theta_efficiency * theta + non_idealities.thermal_crosstalk * theta_heat + fabrication.theta_error,
        fabrication.phi_efficiency * phi + non_idealities.thermal_crosstalk * phi_heat + fabrication.phi_error,
        first=fabrication.first,
        second=fabrication.second,
        transmission=fabrication.transmission,
    )
