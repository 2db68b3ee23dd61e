"""Meshes as they come out of a fab: the same phases on devices that are not ideal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np

from lightloom.core.errors import ConfigError
from lightloom.photonics.devices import NonIdealities, mzi
from lightloom.photonics.meshes.blocks import MappedBlocks, joined
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh import Mesh, propagate

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from lightloom.photonics.meshes.layout import Layout


class Disturbed(Protocol):
    """Anything fabricated that carries out a matrix."""

    @property
    def how(self) -> NonIdealities:
        """What it was fabricated with."""

    def matrix(self) -> NDArray[np.complex128]:
        """The matrix that is carried out."""

    def propagate(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Output fields [outputs, ...] of input fields [inputs, ...], before detection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabrication:
    """What fabrication left in each MZI; it does not change when phases are set anew."""

    theta_error: NDArray[np.float64]
    phi_error: NDArray[np.float64]
    output_error: NDArray[np.float64]
    """Radians, as the two above."""
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    """Mixing-angle errors of the two couplers, rad."""
    transmission: NDArray[np.float64]
    """Share of the power that is let through."""


def fabricate(mzis: int, outputs: int, how: NonIdealities, rng: np.random.Generator) -> Fabrication:
    """Draw the devices of one mesh."""
    theta, phi, first, second, spread = rng.normal(size=(5, mzis))
    loss = np.maximum(how.loss_db + how.loss_spread_db * spread, 0.0)
    return Fabrication(
        theta_error=how.phase_error * theta,
        phi_error=how.phase_error * phi,
        output_error=how.phase_error * rng.normal(size=outputs),
        first=how.coupler_error * first,
        second=how.coupler_error * second,
        transmission=10 ** (-loss / 10),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class DisturbedMesh:
    """A mesh on fabricated devices: phases are rounded by the DAC, then disturbed by neighbours and by fabrication.

    Raises:
        ConfigError: devices of another number than the mesh has MZIs.
    """

    mesh: Mesh
    how: NonIdealities
    fabrication: Fabrication

    def __post_init__(self) -> None:
        if self.fabrication.first.size != self.mesh.mzis:
            raise ConfigError(f"{self.fabrication.first.size} devices for a mesh of {self.mesh.mzis} MZIs")

    @property
    def inputs(self) -> int:
        """Input modes."""
        return self.mesh.inputs

    @cached_property
    def devices(self) -> NDArray[np.complex128]:
        """Transfer matrices of the MZIs, [mzis, 2, 2]."""
        beside = neighbours(self.mesh.layout)
        return _disturbed_devices(self.mesh.theta, self.mesh.phi, beside, self.how, self.fabrication)

    def propagate(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Output fields [outputs, ...] of input fields [inputs, ...]."""
        phases = quantised(self.mesh.output_phases, self.how.dac_bits) + self.fabrication.output_error
        return propagate(self.mesh.layout, self.devices, phases, fields)

    def matrix(self) -> NDArray[np.complex128]:
        """The matrix that is carried out, no longer unitary where there is loss."""
        return self.propagate(np.eye(self.inputs))


@dataclass(frozen=True, kw_only=True, eq=False)
class DisturbedMatrix:
    """A mapped matrix on fabricated devices."""

    mapped: MappedMatrix
    how: NonIdealities
    input_mesh: DisturbedMesh
    attenuator_phases: tuple[NDArray[np.float64], NDArray[np.float64]]
    """θ and φ that the MZIs of Σ are set to."""
    attenuators: Fabrication
    output_mesh: DisturbedMesh | None

    @cached_property
    def column(self) -> NDArray[np.complex128]:
        """Field transmissions of the MZIs of Σ."""
        beside = np.ones(max(self.attenuators.first.size - 1, 0), np.bool_)
        return _disturbed_devices(*self.attenuator_phases, beside, self.how, self.attenuators)[:, 0, 0]

    def propagate(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Output fields [outputs, ...] of input fields [inputs, ...]."""
        return self.mapped.behind(self.input_mesh.propagate(fields), self.column, self.output_mesh)

    def matrix(self) -> NDArray[np.complex128]:
        """The matrix that is carried out."""
        return self.propagate(np.eye(self.mapped.shape[1]))


@dataclass(frozen=True, kw_only=True, eq=False)
class DisturbedBlocks:
    """An approximated matrix on fabricated devices, block by block."""

    shape: tuple[int, int]
    how: NonIdealities
    blocks: tuple[DisturbedMatrix, ...]

    def matrix(self) -> NDArray[np.complex128]:
        """The matrix that is carried out."""
        return joined([block.matrix() for block in self.blocks], self.shape)

    def propagate(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Output fields [outputs, ...] of input fields [inputs, ...]."""
        return np.asarray(np.tensordot(self.matrix(), np.asarray(fields), 1))


@overload
def disturb(ideal: Mesh, how: NonIdealities, rng: np.random.Generator) -> DisturbedMesh: ...
@overload
def disturb(ideal: MappedMatrix, how: NonIdealities, rng: np.random.Generator) -> DisturbedMatrix: ...
@overload
def disturb(ideal: MappedBlocks, how: NonIdealities, rng: np.random.Generator) -> DisturbedBlocks: ...
def disturb(ideal: Mesh | MappedMatrix | MappedBlocks, how: NonIdealities, rng: np.random.Generator) -> Disturbed:
    """The same on freshly drawn devices."""
    if isinstance(ideal, Mesh):
        return DisturbedMesh(mesh=ideal, how=how, fabrication=fabricate(ideal.mzis, ideal.outputs, how, rng))
    if isinstance(ideal, MappedBlocks):
        return DisturbedBlocks(
            shape=ideal.shape, how=how, blocks=tuple(disturb(block, how, rng) for block in ideal.blocks)
        )
    attenuators = fabricate(ideal.attenuations.size, 0, how, rng)
    return DisturbedMatrix(
        mapped=ideal,
        how=how,
        input_mesh=disturb(ideal.input_mesh, how, rng),
        attenuator_phases=ideal.attenuator_phases,
        attenuators=attenuators,
        output_mesh=disturb(ideal.output_mesh, how, rng) if ideal.output_mesh else None,
    )


def detect(
    fields: ArrayLike, how: NonIdealities, rng: np.random.Generator, full_scale: float | None = None
) -> NDArray[np.float64]:
    """Coherently detected fields: their real parts, with the detectors' noise.

    ``full_scale`` is the amplitude that the noise is relative to; without it the largest that is found here.
    """
    found = np.real(np.asarray(fields))
    scale = float(np.abs(found).max(initial=0.0)) if full_scale is None else full_scale
    return np.asarray(found + how.detector_noise * scale * rng.normal(size=found.shape))


def quantised(phases: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """Phases rounded to multiples of 2π/2^bits; as they are for 0 bits."""
    if bits == 0:
        return phases
    step = 2 * np.pi / 2**bits
    return np.asarray(np.round(phases / step) * step)


def warmth(
    theta: NDArray[np.float64], phi: NDArray[np.float64], beside: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Phases of the nearest heaters of every θ and of every φ, added up: the other of the same MZI, and its like in
    neighbouring MZIs; ``beside[k]`` says that MZIs k and k + 1 are neighbours in a column."""
    warm_theta, warm_phi = phi.copy(), theta.copy()
    for own, warm in ((theta, warm_theta), (phi, warm_phi)):
        warm[1:] += own[:-1] * beside
        warm[:-1] += own[1:] * beside
    return warm_theta, warm_phi


def neighbours(place: Layout) -> NDArray[np.bool_]:
    """For each MZI but the last, whether the next one stands below it in the same column."""
    return np.asarray((np.diff(place.columns) == 0) & (np.diff(place.modes) == 2))


def _disturbed_devices(
    theta: NDArray[np.float64], phi: NDArray[np.float64], beside: NDArray[Any], how: NonIdealities, made: Fabrication
) -> NDArray[np.complex128]:
    theta, phi = quantised(theta, how.dac_bits), quantised(phi, how.dac_bits)
    warm_theta, warm_phi = warmth(theta, phi, beside)
    return mzi(
        theta + how.thermal_crosstalk * warm_theta + made.theta_error,
        phi + how.thermal_crosstalk * warm_phi + made.phi_error,
        first=made.first,
        second=made.second,
        transmission=made.transmission,
    )
