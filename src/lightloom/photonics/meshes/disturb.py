"""Fabricated meshes: the same phases on non-ideal devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.photonics.devices import NonIdealities, mzi
from lightloom.photonics.meshes.mapping import MappedBlocks, MappedMatrix
from lightloom.photonics.meshes.mesh import Mesh, propagate

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from lightloom.photonics.meshes.mesh import Layout


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


def fabricate(
    shape: int | tuple[int, int], outputs: int, non_idealities: NonIdealities, rng: np.random.Generator
) -> Fabrication:
    """Draw the devices of one mesh of ``shape`` MZIs, or of [fabrications, MZIs].

    Errors of the ``outputs`` output phases are [outputs], or [fabrications, outputs]; all others have the shape of the
    MZIs.
    """
    sizes = np.atleast_1d(shape)
    theta, phi, first, second, spread = rng.normal(size=(5, *sizes))
    loss = np.maximum(non_idealities.loss_db + non_idealities.loss_spread_db * spread, 0.0)
    efficiencies = np.ones((2, *sizes))
    if non_idealities.heater_spread:
        # From a stream that no other error is drawn from.
        efficiencies += non_idealities.heater_spread * rng.spawn(1)[0].normal(size=efficiencies.shape)
    return Fabrication(
        theta_error=non_idealities.phase_error * theta,
        phi_error=non_idealities.phase_error * phi,
        output_error=non_idealities.phase_error * rng.normal(size=(*sizes[:-1], outputs)),
        first=non_idealities.coupler_error * first,
        second=non_idealities.coupler_error * second,
        transmission=10 ** (-loss / 10),
        theta_efficiency=efficiencies[0],
        phi_efficiency=efficiencies[1],
    )


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
        return attenuations(self.attenuator_phases, self.non_idealities, self.attenuators)

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
    """Draw the devices of a mesh or of mapped meshes, and return the same phases on them.

    A `Mesh` gives a `DisturbedMesh`, a `MappedMatrix` a `DisturbedMatrix`, `MappedBlocks` give `DisturbedBlocks`.
    """
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
    """Return phases rounded to multiples of 2π/2^bits; 0 bits leave them unchanged."""
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
    """Return, for each MZI but the last, whether the next one is below it in the same column, [mzis - 1]."""
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


def attenuations(
    phases: tuple[NDArray[np.float64], NDArray[np.float64]], non_idealities: NonIdealities, fabrication: Fabrication
) -> NDArray[np.complex128]:
    """Return the amplitude transmissions [..., mzis] of the MZIs of Σ, each next to the one before, set to θ and φ."""
    beside = np.ones(max(phases[0].size - 1, 0), np.bool_)
    return disturbed_devices(*phases, beside, non_idealities, fabrication)[..., 0, 0]


# Many fabrications of a matrix at once: the distributions of `disturb`, drawn in another order.


def fabricated_matrices(
    part: Mesh | MappedMatrix | MappedBlocks, non_idealities: NonIdealities, rng: np.random.Generator, count: int
) -> NDArray[np.complex128]:
    """Return the matrices that ``count`` fabrications implement, [count, outputs, inputs].

    Gains of amplifiers are included; there is no detector noise.
    """
    if isinstance(part, MappedBlocks):
        return part.joined([fabricated_matrices(block, non_idealities, rng, count) for block in part.blocks])
    if isinstance(part, Mesh):
        return _mesh_matrices(part, non_idealities, rng, count)
    inner = _mesh_matrices(part.input_mesh, non_idealities, rng, count)
    fabrication = fabricate((count, part.attenuations.size), 0, non_idealities, rng)
    column = attenuations(part.attenuator_phases, non_idealities, fabrication)
    lit = min(inner.shape[1], part.attenuations.size)
    passed = column[:, :lit, None] * inner[:, :lit]
    if part.output_mesh is not None:
        passed = _mesh_matrices(part.output_mesh, non_idealities, rng, count)[:, :, :lit] @ passed
    return np.asarray(part.gains[:, None] * passed)


def _mesh_matrices(
    mesh: Mesh, non_idealities: NonIdealities, rng: np.random.Generator, count: int
) -> NDArray[np.complex128]:
    """Return matrices [count, outputs, inputs], column by column of MZIs."""
    place = mesh.layout
    fabrication = fabricate((count, mesh.mzis), mesh.outputs, non_idealities, rng)
    devices = disturbed_devices(mesh.theta, mesh.phi, neighbours(place), non_idealities, fabrication)
    fields = np.zeros((count, place.size, mesh.inputs), np.complex128)
    fields[:, np.arange(mesh.inputs), np.arange(mesh.inputs)] = 1.0
    ends = np.searchsorted(place.columns, np.arange(place.depth + 1))
    for start, stop in pairwise(ends):
        modes, settings = place.modes[start:stop], devices[:, start:stop, :, :, None]
        upper, lower = fields[:, modes], fields[:, modes + 1]
        fields[:, modes] = settings[:, :, 0, 0] * upper + settings[:, :, 0, 1] * lower
        fields[:, modes + 1] = settings[:, :, 1, 0] * upper + settings[:, :, 1, 1] * lower
    phases = quantised(mesh.output_phases, non_idealities.dac_bits)
    phases = phases + fabrication.output_error
    return np.asarray(fields[:, : mesh.outputs] * np.exp(1j * phases)[:, :, None])


# Which two waveguides each interferometer of a chip joins: one mesh, or V†, Σ and U of a mapped matrix in a row.


@dataclass(frozen=True, kw_only=True, eq=False)
class Wiring:
    """Places of the interferometers of a chip, ordered by column; light enters the first ``inputs`` waveguides."""

    inputs: int
    size: int
    """Number of waveguides, those included that begin dark or end in a dump."""
    upper: Ints
    """Upper waveguide of each interferometer, [devices]."""
    lower: Ints
    """Lower waveguide of each interferometer, [devices]."""
    columns: Ints
    """Column of each interferometer, ascending, [devices]."""
    beside: Mask
    """True where the next interferometer's heaters are nearest neighbours, [devices - 1]."""
    output_modes: Ints
    """Waveguide of each output, [outputs]."""

    @property
    def devices(self) -> int:
        """Number of interferometers of all columns."""
        return int(self.upper.size)

    @property
    def outputs(self) -> int:
        """Number of modes that are detected."""
        return int(self.output_modes.size)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Interferometers of each column, as one slice per column in the order of the light."""
        if not self.devices:
            return ()
        starts = np.flatnonzero(np.diff(self.columns, prepend=-1))
        return tuple(slice(int(a), int(b)) for a, b in pairwise([*starts, self.devices]))


def wiring_of(ideal: Mesh | MappedMatrix) -> Wiring:
    """Return the places of the interferometers of a mesh, or of a mapped matrix with Σ between its meshes.

    An attenuator of Σ is an interferometer whose second waveguide begins dark and ends in a dump.
    """
    if isinstance(ideal, Mesh):
        place = ideal.layout
        return Wiring(
            inputs=ideal.inputs,
            size=place.size,
            upper=place.modes,
            lower=place.modes + 1,
            columns=place.columns,
            beside=neighbours(place),
            output_modes=np.arange(ideal.outputs),
        )
    first, count = ideal.input_mesh.layout, ideal.attenuations.size
    dumps = max(first.size, count)
    upper, lower = [first.modes, np.arange(count)], [first.modes + 1, dumps + np.arange(count)]
    columns = [first.columns, np.full(count, first.depth)]
    # With a last one for each mesh, as the first device of the next mesh is no neighbour.
    beside = [np.append(part, False) for part in (neighbours(first), np.ones(count - 1, np.bool_))]
    if not first.count:
        del beside[0]
    size, output_modes = dumps + count, np.arange(count)
    if ideal.output_mesh is not None:
        second = ideal.output_mesh.layout
        dark = second.size - min(ideal.output_mesh.inputs, count)
        modes = np.concatenate([np.arange(second.size - dark), size + np.arange(dark)])
        upper.append(modes[second.modes])
        lower.append(modes[second.modes + 1])
        columns.append(first.depth + 1 + second.columns)
        if second.count:
            beside.append(np.append(neighbours(second), False))
        size, output_modes = size + dark, modes[: ideal.output_mesh.outputs]
    return Wiring(
        inputs=ideal.input_mesh.inputs,
        size=size,
        upper=np.concatenate(upper),
        lower=np.concatenate(lower),
        columns=np.concatenate(columns),
        beside=np.concatenate(beside)[:-1],
        output_modes=output_modes,
    )


def design(ideal: Mesh | MappedMatrix) -> tuple[Floats, Floats]:
    """Return θ and φ [devices] for which ideal devices implement ``ideal`` up to phases at its outputs.

    The output phases of V† become part of the phases φ of Σ, which lie in series with them.
    """
    if isinstance(ideal, Mesh):
        return ideal.theta, ideal.phi
    theta, phi = ideal.attenuator_phases
    pending = np.zeros(phi.size)
    count = min(phi.size, ideal.input_mesh.outputs)
    pending[:count] = ideal.input_mesh.output_phases[:count]
    thetas, phis = [ideal.input_mesh.theta, theta], [ideal.input_mesh.phi, (phi + pending) % (2 * np.pi)]
    if ideal.output_mesh is not None:
        thetas.append(ideal.output_mesh.theta)
        phis.append(ideal.output_mesh.phi)
    return np.concatenate(thetas), np.concatenate(phis)


# Monte Carlo over fabrications: from device noise to the error of a matrix or the accuracy of a network.

SCHEMA = "lightloom.disturb/1"
Ideal = Mesh | MappedMatrix | MappedBlocks
Evaluate = Callable[[Sequence[Disturbed], np.random.Generator], float]
"""Function of one fabrication of all matrices of a network and a generator of detector noise: accuracy, error, ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Values of an evaluation over several draws of the devices."""

    values: NDArray[np.float64]

    @property
    def row(self) -> dict[str, float]:
        """Mean, sample standard deviation (0 of a single draw), minimum and maximum, by name."""
        deviation = float(self.values.std(ddof=1)) if self.values.size > 1 else 0.0
        return {
            "mean": float(self.values.mean()),
            "standard_deviation": deviation,
            "least": float(self.values.min()),
            "largest": float(self.values.max()),
        }


def monte_carlo(
    network: Sequence[Ideal], non_idealities: NonIdealities, evaluate: Evaluate, *, draws: int = 20, seed: int = 0
) -> Spread:
    """Evaluate ``draws`` fabrications of all matrices of ``network``, and return their values [draws].

    Draw k starts from the same seed for all ``non_idealities``.

    Raises:
        ConfigError: ``draws`` is below 1.
    """
    if draws < 1:
        raise ConfigError(f"draws={draws}: expected at least 1")
    values = []
    for k in range(draws):
        rng = np.random.default_rng((seed, k))
        values.append(evaluate([disturb(ideal, non_idealities, rng) for ideal in network], rng))
    return Spread(values=np.array(values, np.float64))


def sweep(
    network: Sequence[Ideal],
    parameter: str,
    values: Sequence[float],
    evaluate: Evaluate,
    *,
    base: NonIdealities | None = None,
    draws: int = 20,
    seed: int = 0,
) -> dict[str, Any]:
    """Run :func:`monte_carlo` for each value of one field of ``base`` (default ideal), and return a JSON document.

    ``{"schema", "parameter", "draws", "seed", "mzis", "rows": [{"value", "mean", "standard_deviation", "least",
    "largest"}]}``

    Raises:
        UnknownNameError: the field does not exist.
        ConfigError: a value is out of the field's range.
    """
    known = [field.name for field in fields(NonIdealities)]
    if parameter not in known:
        raise UnknownNameError("non-ideality", parameter, known)
    rows = []
    for value in values:
        setting = int(value) if parameter == "dac_bits" and value == int(value) else value
        non_idealities = replace(base or NonIdealities(), **{parameter: setting})  # type: ignore[arg-type, unused-ignore]
        rows.append({"value": value, **monte_carlo(network, non_idealities, evaluate, draws=draws, seed=seed).row})
    return {
        "schema": SCHEMA,
        "parameter": parameter,
        "draws": draws,
        "seed": seed,
        "mzis": sum(ideal.mzis for ideal in network),
        "rows": rows,
    }


def matrix_error(wanted: Sequence[ArrayLike], *, calibrated: bool = False) -> Evaluate:
    """Return the evaluation ε = ‖W' − W‖ / ‖W‖ (Frobenius norm over all matrices) for :func:`monte_carlo`.

    W' is measured column by column, with detector noise relative to the largest element of W. With ``calibrated``,
    receivers apply the real factor to each matrix that minimises its error, so uniform loss causes no error.
    """
    targets = [np.asarray(matrix) for matrix in wanted]

    def evaluate(fabricated: Sequence[Disturbed], rng: np.random.Generator) -> float:
        missed = total = 0.0
        for target, device in zip(targets, fabricated, strict=True):
            matrix = device.matrix()
            noise = rng.normal(size=matrix.shape) + 1j * rng.normal(size=matrix.shape)
            measured = matrix + device.non_idealities.detector_noise * np.abs(target).max() * noise / np.sqrt(2)
            if calibrated:
                measured *= np.vdot(measured, target).real / np.vdot(measured, measured).real
            missed += float(np.linalg.norm(measured - target) ** 2)
            total += float(np.linalg.norm(target) ** 2)
        return float(np.sqrt(missed / total))

    return evaluate
