"""Fabricated meshes: the same phases on non-ideal devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.photonics.devices import LARGEST, Complex, NonIdealities, mzi
from lightloom.photonics.meshes.mapping import MappedBlocks, MappedMatrix
from lightloom.photonics.meshes.mesh import Layout, Mesh, propagate


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabrication:
    """Errors of the devices of a mesh, or of several meshes [..., mzis]; they do not change when phases are set."""

    phase_errors: Floats
    """Errors of each θ and of each φ, in radians, [..., 2, mzis]."""
    output_error: Floats
    """Error of each output phase, in radians, [..., outputs]."""
    couplers: Floats
    """Mixing-angle errors of each MZI's first and second coupler, in radians, [..., 2, mzis]."""
    transmission: Floats
    """Power transmission of each MZI, [..., mzis]."""
    efficiencies: Floats
    """Phases of each θ heater and of each φ heater relative to their commands, [..., 2, mzis]."""


def fabricate(
    shape: int | tuple[int, int], outputs: int, non_idealities: NonIdealities, rng: np.random.Generator
) -> Fabrication:
    """Return devices drawn with the errors of ``non_idealities``, of one mesh or of several.

    ``shape`` is the number of MZIs, or (fabrications, MZIs), which puts an axis of fabrications in front of all arrays;
    ``outputs`` is the number of output phases of a mesh. Errors are Gaussian with the standard deviations of
    ``non_idealities``, about 0 or, of heaters, an efficiency of 1; losses are spread about ``loss_db`` and at least 0
    dB, and are given as power transmissions. Those of θ and φ, and of the first and the second coupler, are rows 0 and
    1 of [..., 2, MZIs].
    """
    sizes = np.atleast_1d(shape)
    drawn = rng.normal(size=(5, *sizes))
    phases, couplers = (np.stack(list(pair), axis=-2) for pair in (drawn[:2], drawn[2:4]))
    loss = np.maximum(non_idealities.loss_db + non_idealities.loss_spread_db * drawn[4], 0.0)
    efficiencies = np.ones_like(phases)
    if non_idealities.heater_spread:
        # From a stream that no other error is drawn from.
        efficiencies += non_idealities.heater_spread * np.moveaxis(rng.spawn(1)[0].normal(size=(2, *sizes)), 0, -2)
    return Fabrication(
        phase_errors=non_idealities.phase_error * phases,
        output_error=non_idealities.phase_error * rng.normal(size=(*sizes[:-1], outputs)),
        couplers=non_idealities.coupler_error * couplers,
        transmission=10 ** (-loss / 10),
        efficiencies=efficiencies,
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
        """Raise ConfigError where the number of devices is not the number of MZIs of the mesh."""
        if self.fabrication.transmission.size != self.mesh.mzis:
            raise ConfigError(f"{self.fabrication.transmission.size} devices for a mesh of {self.mesh.mzis} MZIs")

    @cached_property
    def devices(self) -> Complex:
        """Transfer matrices of the fabricated MZIs, [mzis, 2, 2], ordered by column, then by mode."""
        return disturbed_devices(self.mesh.phases, neighbours(self.mesh.layout), self.non_idealities, self.fabrication)

    def propagate(self, fields: ArrayLike) -> Complex:
        """Return the output fields [outputs, ...] of input fields [inputs, ...] on the fabricated devices, their output
        phases rounded and erring too."""
        phases = quantised(self.mesh.output_phases, self.non_idealities.dac_bits) + self.fabrication.output_error
        return propagate(self.mesh.layout, self.devices, phases, fields)

    def matrix(self) -> Complex:
        """Return the matrix [outputs, inputs] that the fabricated devices implement; with loss it is not unitary."""
        return self.propagate(np.eye(self.mesh.inputs))


@dataclass(frozen=True, kw_only=True, eq=False)
class DisturbedMatrix:
    """A mapped matrix on fabricated devices."""

    mapped: MappedMatrix
    non_idealities: NonIdealities
    input_mesh: DisturbedMesh
    attenuator_phases: Floats
    """Settings of θ and φ of the MZIs of Σ, [2, mzis]."""
    attenuators: Fabrication
    output_mesh: DisturbedMesh | None

    @cached_property
    def column(self) -> Complex:
        """Amplitude transmissions of the fabricated MZIs of Σ, complex, [mzis]."""
        return attenuations(self.attenuator_phases, self.non_idealities, self.attenuators)

    def propagate(self, fields: ArrayLike) -> Complex:
        """Return the output fields [outputs, ...] of input fields [inputs, ...] on the fabricated devices, behind the
        amplifiers."""
        behind = self.output_mesh.propagate if self.output_mesh else None
        return self.mapped.behind(self.input_mesh.propagate(fields), self.column, behind)

    def matrix(self) -> Complex:
        """Return the matrix [outputs, inputs] that the fabricated devices implement, gains of amplifiers included."""
        return self.propagate(np.eye(self.mapped.shape[1]))


@dataclass(frozen=True, kw_only=True, eq=False)
class DisturbedBlocks:
    """The blocks of a matrix on fabricated devices."""

    mapped: MappedBlocks
    non_idealities: NonIdealities
    blocks: tuple[DisturbedMatrix, ...]

    def matrix(self) -> Complex:
        """Return the matrix [outputs, inputs] that the fabricated devices implement: the blocks' matrices, gains
        included, added up at their places."""
        return self.mapped.joined([block.matrix() for block in self.blocks])


Ideal = Mesh | MappedMatrix | MappedBlocks
Fabricate = Callable[[Floats, Floats, int], Fabrication]
"""Returns the devices of one mesh, or of Σ, for its phases, its output phases and its place."""
Disturbed = DisturbedMesh | DisturbedMatrix | DisturbedBlocks
"""A fabricated mesh, or set of meshes, that implements a matrix."""


def disturb(ideal: Ideal, non_idealities: NonIdealities, rng: np.random.Generator) -> Any:
    """Return the phases of a mesh or of mapped meshes on devices drawn with the errors of ``non_idealities``.

    A `Mesh` gives a `DisturbedMesh`, a `MappedMatrix` a `DisturbedMatrix`, `MappedBlocks` give `DisturbedBlocks`.
    """

    def drawn(phases: Floats, output_phases: Floats, _: int) -> Fabrication:
        """Return devices drawn for one mesh, or for Σ, whatever its place."""
        return fabricate(phases.shape[1], output_phases.size, non_idealities, rng)

    return on_devices(ideal, non_idealities, drawn)


def on_devices(ideal: Ideal, non_idealities: NonIdealities, fabrication: Fabricate, place: int = 0) -> Any:
    """Return the phases of a mesh or of mapped meshes on devices that err.

    A `Mesh` gives a `DisturbedMesh`, a `MappedMatrix` a `DisturbedMatrix`, `MappedBlocks` give `DisturbedBlocks`.

    Args:
        ideal: the phases as designed.
        non_idealities: gives crosstalk and the rounding of phases; static errors are those of ``fabrication``.
        fabrication: returns the devices for phases [2, mzis], output phases (none for Σ) and a place, which tells
            meshes apart.
        place: place of V† or of a single mesh; Σ and U have the next two, and every further block starts three later.
    """
    if isinstance(ideal, Mesh):
        devices = fabrication(ideal.phases, ideal.output_phases, place)
        return DisturbedMesh(mesh=ideal, non_idealities=non_idealities, fabrication=devices)
    if isinstance(ideal, MappedBlocks):
        blocks = (on_devices(block, non_idealities, fabrication, place + 3 * n) for n, block in enumerate(ideal.blocks))
        return DisturbedBlocks(mapped=ideal, non_idealities=non_idealities, blocks=tuple(blocks))
    attenuators, output = fabrication(ideal.attenuator_phases, np.zeros(0), place + 1), ideal.output_mesh
    return DisturbedMatrix(
        mapped=ideal,
        non_idealities=non_idealities,
        input_mesh=on_devices(ideal.input_mesh, non_idealities, fabrication, place),
        attenuator_phases=ideal.attenuator_phases,
        attenuators=attenuators,
        output_mesh=None if output is None else on_devices(output, non_idealities, fabrication, place + 2),
    )


def quantised(phases: Floats, bits: int) -> Floats:
    """Return phases in radians rounded to the nearest multiples of 2π/2^bits; 0 bits leave them unchanged. The result
    is not reduced modulo 2π."""
    if bits == 0:
        return phases
    step = 2 * np.pi / 2**bits
    return np.asarray(np.round(phases / step) * step)


def heat_from_neighbours(phases: Floats, beside: Mask) -> Floats:
    """Return the sum of the phases of the nearest heaters, for every θ and every φ, [..., 2, mzis].

    The nearest heaters are the other heater of the same MZI and the same heaters of neighbouring MZIs. Crosstalk adds a
    share of the result.

    Args:
        phases: θ and φ of all heaters in radians, [..., 2, mzis].
        beside: true at k where MZIs k and k + 1 are neighbours in a column, [mzis - 1].
    """
    heat = phases[..., ::-1, :].copy()
    heat[..., 1:] += phases[..., :-1] * beside
    heat[..., :-1] += phases[..., 1:] * beside
    return heat


def neighbours(mesh_layout: Layout) -> NDArray[np.bool_]:
    """Return, for each MZI but the last, whether the next one is directly below it in the same column, [mzis - 1]."""
    return np.asarray((np.diff(mesh_layout.columns) == 0) & (np.diff(mesh_layout.modes) == 2))


def disturbed_devices(phases: Floats, beside: Mask, non_idealities: NonIdealities, fabrication: Fabrication) -> Complex:
    """Return the transfer matrices [..., mzis, 2, 2] of fabricated devices set to ``phases``.

    Settings are ``phases`` rounded to the resolution of the DAC; the phases that act are settings times the heaters'
    efficiencies, plus the share of crosstalk times the settings of the nearest heaters (`heat_from_neighbours`), plus
    phase errors. Coupler errors and losses act too.

    Args:
        phases: θ and φ in radians, [2, mzis].
        beside: which next device is near enough to be heated, [mzis - 1] (:func:`neighbours`).
        non_idealities: gives crosstalk and the resolution.
        fabrication: static errors of the devices, [..., mzis].
    """
    settings = quantised(phases, non_idealities.dac_bits)
    heat = non_idealities.thermal_crosstalk * heat_from_neighbours(settings, beside)
    acting = fabrication.efficiencies * settings + heat + fabrication.phase_errors
    first, second = fabrication.couplers[..., 0, :], fabrication.couplers[..., 1, :]
    return mzi(acting[..., 0, :], acting[..., 1, :], first=first, second=second, transmission=fabrication.transmission)


def attenuations(phases: Floats, non_idealities: NonIdealities, fabrication: Fabrication) -> Complex:
    """Return the complex amplitude transmissions [..., mzis] of the fabricated MZIs of Σ, from upper input to upper
    output.

    ``phases`` [2, mzis] are θ and φ in radians; each MZI is a neighbour of the one before.
    """
    beside = np.ones(max(phases.shape[1] - 1, 0), np.bool_)
    return disturbed_devices(phases, beside, non_idealities, fabrication)[..., 0, 0]


# Many fabrications of a matrix at once: the distributions of `disturb`, drawn in another order.


def fabricated_matrices(part: Ideal, non_idealities: NonIdealities, rng: np.random.Generator, count: int) -> Complex:
    """Return the complex matrices that ``count`` drawn fabrications of a part implement, [count, outputs, inputs].

    Gains of amplifiers are included; there is no detector noise. The distributions are those of `disturb`, drawn in
    another order.
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


def _mesh_matrices(mesh: Mesh, non_idealities: NonIdealities, rng: np.random.Generator, count: int) -> Complex:
    """Return the complex matrices [count, outputs, inputs] of ``count`` drawn fabrications of a mesh."""
    place = mesh.layout
    fabrication = fabricate((count, mesh.mzis), mesh.outputs, non_idealities, rng)
    devices = disturbed_devices(mesh.phases, neighbours(place), non_idealities, fabrication)
    fields = np.zeros((count, place.size, mesh.inputs), np.complex128)
    fields[:, np.arange(mesh.inputs), np.arange(mesh.inputs)] = 1.0
    for start, stop in pairwise(np.searchsorted(place.columns, np.arange(place.depth + 1))):
        modes, settings = place.modes[start:stop], devices[:, start:stop, :, :, None]
        upper, lower = fields[:, modes], fields[:, modes + 1]
        fields[:, modes] = settings[:, :, 0, 0] * upper + settings[:, :, 0, 1] * lower
        fields[:, modes + 1] = settings[:, :, 1, 0] * upper + settings[:, :, 1, 1] * lower
    phases = quantised(mesh.output_phases, non_idealities.dac_bits) + fabrication.output_error
    return np.asarray(fields[:, : mesh.outputs] * np.exp(1j * phases)[:, :, None])


# Which two waveguides each interferometer of a chip joins: one mesh, or V†, Σ and U of a mapped matrix in a row.


@dataclass(frozen=True, eq=False)
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
        """Number of interferometers of the chip, over all columns."""
        return int(self.upper.size)

    @property
    def outputs(self) -> int:
        """Number of waveguides that are detected."""
        return int(self.output_modes.size)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Interferometers of each column, as one slice of their numbers per column, in the order of the light."""
        if not self.devices:
            return ()
        starts = np.flatnonzero(np.diff(self.columns, prepend=-1))
        return tuple(slice(int(a), int(b)) for a, b in pairwise([*starts, self.devices]))


def wiring_of(ideal: Mesh | MappedMatrix) -> Wiring:
    """Return the places of the interferometers of a mesh, or of a mapped matrix with Σ between its meshes.

    Interferometers are in the order of the light, V†, Σ, U, and columns are counted on through all three. An attenuator
    of Σ is an interferometer whose second waveguide begins dark and ends in a dump; these waveguides, and those that
    begin dark at U, are numbered behind the modes.
    """
    if isinstance(ideal, Mesh):
        place, outputs = ideal.layout, np.arange(ideal.outputs)
        lower, beside = place.modes + 1, neighbours(place)
        return Wiring(ideal.inputs, place.size, place.modes, lower, place.columns, beside, outputs)
    first, guides = ideal.input_mesh.layout, np.arange(ideal.attenuations.size)
    dumps = max(first.size, guides.size)
    sigma = (guides, dumps + guides, np.full(guides.size, first.depth), np.ones(guides.size - 1, np.bool_))
    stages = [(first.modes, first.modes + 1, first.columns, neighbours(first)), sigma]
    size, output_modes = dumps + guides.size, guides
    if ideal.output_mesh is not None:
        second = ideal.output_mesh.layout
        dark = second.size - min(ideal.output_mesh.inputs, guides.size)
        modes = np.concatenate([np.arange(second.size - dark), size + np.arange(dark)])
        columns = first.depth + 1 + second.columns
        stages.append((modes[second.modes], modes[second.modes + 1], columns, neighbours(second)))
        size, output_modes = size + dark, modes[: ideal.output_mesh.outputs]
    # The first device of a mesh is no neighbour of the last one before it.
    near = np.concatenate([np.append(stage[3], False)[: stage[0].size] for stage in stages])[:-1]
    upper, lower, column = (np.concatenate([stage[part] for stage in stages]) for part in range(3))
    return Wiring(ideal.input_mesh.inputs, size, upper, lower, column, near, output_modes)


def design(ideal: Mesh | MappedMatrix) -> Floats:
    """Return θ and φ [2, devices] for which ideal devices implement ``ideal`` up to phases at its outputs.

    Devices are ordered as in `wiring_of`: V†, Σ, U. The output phases of V† become part of the phases φ of Σ, which lie
    in series with them.
    """
    if isinstance(ideal, Mesh):
        return ideal.phases
    first, sigma = ideal.input_mesh, ideal.attenuator_phases
    count = min(sigma.shape[1], first.outputs)
    sigma[1, :count] = (sigma[1, :count] + first.output_phases[:count]) % (2 * np.pi)
    return np.concatenate([first.phases, sigma, *([ideal.output_mesh.phases] if ideal.output_mesh else [])], axis=1)


# Monte Carlo over fabrications: from device noise to the error of a matrix or the accuracy of a network.

SCHEMA = "lightloom.disturb/1"
Evaluate = Callable[[Sequence[Disturbed], np.random.Generator], float]
"""Function of one fabrication of all matrices of a network and a generator of detector noise: accuracy, error, ..."""


def spread(values: Floats) -> dict[str, float]:
    """Return ``mean``, ``standard_deviation``, ``least`` and ``largest`` of values [n] by name.

    The standard deviation is that of a sample (divided by n - 1), 0 for a single value.
    """
    return {
        "mean": float(values.mean()),
        "standard_deviation": float(values.std(ddof=1)) if values.size > 1 else 0.0,
        "least": float(values.min()),
        "largest": float(values.max()),
    }


def monte_carlo(
    network: Sequence[Ideal], non_idealities: NonIdealities, evaluate: Evaluate, *, draws: int = 20, seed: int = 0
) -> Floats:
    """Return the values [draws] that ``evaluate`` gives for ``draws`` fabrications of all matrices of ``network``.

    Draw k starts from the same seed for all ``non_idealities``, so that these can be compared in pairs.

    Args:
        network: meshes or mapped matrices, in the order of the light.
        non_idealities: errors with which their devices are drawn.
        evaluate: takes the list of one fabrication of each, in that order, and the generator that drew them, and
            returns a value such as an accuracy.
        draws: number of fabrications.
        seed: seed of the fabrications and of the generators.

    Raises:
        ConfigError: ``draws`` is below 1.
    """
    if draws < 1:
        raise ConfigError(f"draws={draws}: expected at least 1")
    rngs = (np.random.default_rng((seed, k)) for k in range(draws))
    values = [evaluate([disturb(ideal, non_idealities, rng) for ideal in network], rng) for rng in rngs]
    return np.array(values, np.float64)


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
    """Return a JSON document of :func:`monte_carlo` for each of several values of one non-ideality.

    ``{"schema", "parameter", "draws", "seed", "mzis", "rows": [{"value", "mean", "standard_deviation", "least",
    "largest"}]}``, a row for each value in the given order; ``mzis`` counts those of all matrices.

    Args:
        network: meshes or mapped matrices, in the order of the light.
        parameter: field of `NonIdealities` to change.
        values: its values, in the unit of the field.
        evaluate: takes the list of one fabrication of each matrix, in that order, and the generator that drew them, and
            returns a value such as an accuracy.
        base: values of all other fields; None means ideal devices.
        draws: number of fabrications for each value.
        seed: seed of the fabrications, the same for all values.

    Raises:
        UnknownNameError: the field does not exist.
        ConfigError: a value is out of the field's range, or ``draws`` is below 1.
    """
    if parameter not in LARGEST:
        raise UnknownNameError("non-ideality", parameter, LARGEST)
    rows = []
    for value in values:
        setting = int(value) if parameter == "dac_bits" and value == int(value) else value
        non_idealities = replace(base or NonIdealities(), **{parameter: setting})  # type: ignore[arg-type, unused-ignore]
        rows.append({"value": value, **spread(monte_carlo(network, non_idealities, evaluate, draws=draws, seed=seed))})
    head = {"schema": SCHEMA, "parameter": parameter, "draws": draws, "seed": seed}
    return {**head, "mzis": sum(ideal.mzis for ideal in network), "rows": rows}
