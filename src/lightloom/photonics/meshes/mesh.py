"""A programmed mesh: its layout and its phases, and what they do to light."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.errors import ConfigError
from lightloom.photonics.devices import mzi
from lightloom.photonics.meshes.layout import Kind, Layout, layout

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Mesh:
    """Phases in radians, for MZIs ordered by column, then by mode (:class:`Layout`).

    The matrix is diag(e^{i output_phases}) · (the last column) · ... · (the first column).

    Raises:
        ConfigError: a wrong number of phases, or one that is not finite.
    """

    kind: Kind
    inputs: int
    outputs: int
    theta: NDArray[np.float64]
    """Between the couplers, one for each MZI."""
    phi: NDArray[np.float64]
    """At the upper input, one for each MZI."""
    output_phases: NDArray[np.float64]
    """Behind the last column, one for each output."""

    def __post_init__(self) -> None:
        sizes = {"theta": self.layout.count, "phi": self.layout.count, "output_phases": self.outputs}
        for name, size in sizes.items():
            phases = np.asarray(getattr(self, name), np.float64)
            if phases.shape != (size,):
                raise ConfigError(
                    f"{name} of shape {phases.shape}: a {self.kind} mesh from {self.inputs} to {self.outputs} modes "
                    f"has {size}"
                )
            if not np.isfinite(phases).all():
                at = int(np.flatnonzero(~np.isfinite(phases))[0])
                raise ConfigError(f"{name}[{at}]={phases[at]}: expected a finite phase in radians")
            object.__setattr__(self, name, phases)

    @property
    def layout(self) -> Layout:
        """Where the MZIs stand."""
        return layout(self.kind, self.inputs, self.outputs)

    @property
    def mzis(self) -> int:
        """Number of MZIs."""
        return self.layout.count

    @cached_property
    def devices(self) -> NDArray[np.complex128]:
        """Transfer matrices of the MZIs, [mzis, 2, 2]."""
        return mzi(self.theta, self.phi)

    def propagate(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Output fields [outputs, ...] of input fields [inputs, ...], through every column in turn."""
        return propagate(self.layout, self.devices, self.output_phases, fields)

    def matrix(self) -> NDArray[np.complex128]:
        """The matrix [outputs, inputs] that the mesh carries out."""
        return self.propagate(np.eye(self.inputs))


def propagate(
    place: Layout, devices: NDArray[np.complex128], output_phases: NDArray[np.float64], fields: ArrayLike
) -> NDArray[np.complex128]:
    """Fields [inputs, ...] through ``devices`` [mzis, 2, 2], unitary or not, standing as ``place`` says.

    More vectors than inputs pass as one product with the matrix of the mesh, found first: a mesh is linear, and columns
    cost 16 multiplications for each MZI and vector, a product 4 for each matrix element and vector.

    Raises:
        ConfigError: the wrong number of fields.
    """
    values = np.asarray(fields, np.complex128)
    if values.ndim == 0 or values.shape[0] != place.inputs:
        raise ConfigError(f"fields of shape {values.shape}: expected {place.inputs} along the first axis")
    flat = values.reshape(place.inputs, -1)
    if flat.shape[1] > place.inputs:
        out = by_columns(place, devices, output_phases, np.eye(place.inputs)) @ flat
    else:
        out = by_columns(place, devices, output_phases, flat)
    return out.reshape(place.outputs, *values.shape[1:])


def by_columns(
    place: Layout, devices: NDArray[np.complex128], output_phases: NDArray[np.float64], fields: ArrayLike
) -> NDArray[np.complex128]:
    """The same for fields [inputs, batch], always MZI by MZI: O(mzis · batch)."""
    from lightloom.photonics.meshes import _propagation_kernels as kernels

    flat = np.ascontiguousarray(fields, np.complex128)
    out = np.empty((place.outputs, flat.shape[1]), np.complex128)
    ordered = np.ascontiguousarray(devices[place.chains]).view(np.float64).reshape(place.count, 8)
    kernels.propagate(flat.view(np.float64), place.modes[place.chains], ordered, place.size, out.view(np.float64))
    out *= np.exp(1j * output_phases)[:, None]
    return out
