"""Meshes with their phases, and the propagation of light through them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.errors import ConfigError
from lightloom.photonics.devices import mzi
from lightloom.photonics.meshes.layout import Kind, Layout, layout, mzi_count

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Mesh:
    """A mesh with its phases in radians, for MZIs ordered by column, then by mode (:class:`Layout`).

    The matrix is diag(e^{i output_phases}) · (the last column) · ... · (the first column).

    Raises:
        InputError: there is no such mesh, the number of phases is wrong, or a phase is not a finite number.
    """

    kind: Kind
    inputs: int
    outputs: int
    theta: NDArray[np.float64]
    """Phase between the couplers of each MZI."""
    phi: NDArray[np.float64]
    """Phase at the upper input of each MZI."""
    output_phases: NDArray[np.float64]
    """Phase after the last column, for each output."""

    def __post_init__(self) -> None:
        # The closed form comes first, so that forged sizes in a file do not allocate memory.
        mzis = mzi_count(self.kind, self.inputs, self.outputs)
        for name, size in {"theta": mzis, "phi": mzis, "output_phases": self.outputs}.items():
            try:
                phases = np.asarray(getattr(self, name), np.float64)
            except (TypeError, ValueError) as error:
                raise ConfigError(f"{name}: expected a list of numbers") from error
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
        """Positions of the MZIs."""
        return layout(self.kind, self.inputs, self.outputs)

    @property
    def mzis(self) -> int:
        """Number of MZIs in the mesh."""
        return self.layout.count

    @cached_property
    def devices(self) -> NDArray[np.complex128]:
        """Transfer matrices of the MZIs, [mzis, 2, 2]."""
        return mzi(self.theta, self.phi)

    def propagate(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Return the output fields [outputs, ...] of input fields [inputs, ...]."""
        return propagate(self.layout, self.devices, self.output_phases, fields)

    def matrix(self) -> NDArray[np.complex128]:
        """Return the transfer matrix [outputs, inputs] of the mesh."""
        return self.propagate(np.eye(self.inputs))


def propagate(
    mesh_layout: Layout, devices: NDArray[np.complex128], output_phases: NDArray[np.float64], fields: ArrayLike
) -> NDArray[np.complex128]:
    """Propagate fields [inputs, ...] through ``devices`` [mzis, 2, 2], unitary or not, in the given layout.

    For more vectors than inputs, the transfer matrix is computed first and multiplied: propagation costs 16
    multiplications for each MZI and vector, the product 4 for each matrix element and vector.

    Raises:
        ConfigError: the number of fields is not the number of inputs.
    """
    values = np.asarray(fields, np.complex128)
    if values.ndim == 0 or values.shape[0] != mesh_layout.inputs:
        raise ConfigError(f"fields of shape {values.shape}: expected {mesh_layout.inputs} along the first axis")
    flat = values.reshape(mesh_layout.inputs, -1)
    if flat.shape[1] > mesh_layout.inputs:
        out = by_columns(mesh_layout, devices, output_phases, np.eye(mesh_layout.inputs)) @ flat
    else:
        out = by_columns(mesh_layout, devices, output_phases, flat)
    return out.reshape(mesh_layout.outputs, *values.shape[1:])


def by_columns(
    mesh_layout: Layout, devices: NDArray[np.complex128], output_phases: NDArray[np.float64], fields: ArrayLike
) -> NDArray[np.complex128]:
    """Propagate fields [inputs, batch] MZI by MZI, in O(mzis · batch)."""
    from lightloom.photonics.meshes import _propagation_kernels as kernels

    flat = np.ascontiguousarray(fields, np.complex128)
    out = np.empty((mesh_layout.outputs, flat.shape[1]), np.complex128)
    ordered = np.ascontiguousarray(devices[mesh_layout.chains]).view(np.float64).reshape(mesh_layout.count, 8)
    kernels.propagate(
        flat.view(np.float64), mesh_layout.modes[mesh_layout.chains], ordered, mesh_layout.size, out.view(np.float64)
    )
    out *= np.exp(1j * output_phases)[:, None]
    return out
