"""Which two waveguides each interferometer of a chip joins: one mesh, or V†, Σ and U of a mapped matrix in a row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.photonics.meshes.disturb import neighbours
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh import Mesh


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
    """Whether the next interferometer's heaters are nearest neighbours, [devices - 1]."""
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
        """The interferometers of each column."""
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
    return _matrix_wiring(ideal)


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


def _matrix_wiring(mapped: MappedMatrix) -> Wiring:
    first, count = mapped.input_mesh.layout, mapped.attenuations.size
    dumps = max(first.size, count)
    upper, lower = [first.modes, np.arange(count)], [first.modes + 1, dumps + np.arange(count)]
    columns = [first.columns, np.full(count, first.depth)]
    # With a last one for each mesh, as the first device of the next mesh is no neighbour.
    beside = [np.append(part, False) for part in (neighbours(first), np.ones(count - 1, np.bool_))]
    if not first.count:
        del beside[0]
    size, output_modes = dumps + count, np.arange(count)
    if mapped.output_mesh is not None:
        second = mapped.output_mesh.layout
        dark = second.size - min(mapped.output_mesh.inputs, count)
        modes = np.concatenate([np.arange(second.size - dark), size + np.arange(dark)])
        upper.append(modes[second.modes])
        lower.append(modes[second.modes + 1])
        columns.append(first.depth + 1 + second.columns)
        if second.count:
            beside.append(np.append(neighbours(second), False))
        size, output_modes = size + dark, modes[: mapped.output_mesh.outputs]
    return Wiring(
        inputs=mapped.input_mesh.inputs,
        size=size,
        upper=np.concatenate(upper),
        lower=np.concatenate(lower),
        columns=np.concatenate(columns),
        beside=np.concatenate(beside)[:-1],
        output_modes=output_modes,
    )
