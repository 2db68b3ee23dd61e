"""Meshes with their phases, and the propagation of light through them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.photonics.devices import Complex, mzi
from lightloom.photonics.meshes import kernels

# Layouts of meshes: each MZI joins two neighbouring modes in a column; light passes the columns from left to right.
#
# rectangular, 4 modes            triangular, 4 modes             triangular, 2 inputs fan out to 4
#
# 0 ──█──────█──────              0 ──────────────█──────         0 ──────█──────────────
# 1 ──█──█───█──█───              1 ──────────█───█───█──         1 ──█───█───█──────────
# 2 ──█──█───█──█───              2 ──────█───█───█───█──   ...   2 ──█───█───█───█──────
# 3 ──█──────█──────                                              3 ──────█───────█──────
#
# The rectangle is the interleaving array of the OptINC paper's Fig. 2 (Clements et al., Optica 3, 1460), the triangle
# that of Reck et al., PRL 73, 58. A triangle may have fewer inputs or fewer outputs than modes: MZIs that no light
# reaches, or whose light reaches no output, are then left out.

Kind = Literal["rectangular", "triangular"]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Positions of MZIs, ordered by column, then by mode. MZI k joins modes ``modes[k]`` and ``modes[k] + 1``."""

    kind: Kind
    inputs: int
    outputs: int
    modes: NDArray[np.int64]
    columns: NDArray[np.int64]
    chains: NDArray[np.int64]
    """Indices of the MZIs along diagonals, another valid order of propagation."""

    @property
    def size(self) -> int:
        """Number of modes, including dark ones."""
        return max(self.inputs, self.outputs)

    @property
    def count(self) -> int:
        """Number of MZIs in the mesh."""
        return int(self.modes.size)

    @property
    def depth(self) -> int:
        """Number of columns of MZIs that light passes."""
        return int(self.columns[-1]) + 1 if self.count else 0


def mzi_count(kind: Kind, inputs: int, outputs: int) -> int:
    """Return the number of MZIs of a mesh, s (2 m − s − 1) / 2 for m = max and s = min of inputs and outputs.

    Raises:
        ConfigError: a number of modes is not a whole number of at least 1, or a rectangular mesh has unequal ones.
        UnknownNameError: the kind does not exist.
    """
    if kind not in KINDS:
        raise UnknownNameError("mesh", str(kind), KINDS)
    if type(inputs) is not int or type(outputs) is not int or inputs < 1 or outputs < 1:
        raise ConfigError(f"mesh with {inputs} inputs and {outputs} outputs: expected whole numbers of at least 1")
    if kind == "rectangular" and inputs != outputs:
        raise ConfigError(
            f"rectangular mesh with {inputs} inputs, {outputs} outputs: they may differ in triangular meshes only"
        )
    size, lit = max(inputs, outputs), min(inputs, outputs)
    return lit * (2 * size - lit - 1) // 2


@cache
def layout(kind: Kind, inputs: int, outputs: int) -> Layout:
    """Return the positions of the MZIs of a mesh of that kind, ordered by column, then by mode: ``columns``, upper
    ``modes``, and ``chains``, the indices of all MZIs by diagonal, from that of the smallest column less mode on, along
    each with the light.

    Results are cached, and their arrays shared and read-only.

    Raises:
        ConfigError: a number of modes is below 1, or a rectangular mesh has unequal ones.
        UnknownNameError: the kind does not exist.
    """
    mzi_count(kind, inputs, outputs)
    if kind == "rectangular":
        columns, modes = _rectangle(inputs)
    else:
        columns, modes = _triangle(max(inputs, outputs), min(inputs, outputs))
        if outputs < inputs and columns.size:
            columns = columns.max() - columns
    # Stable sorts: in a column modes ascend as they are made, and along a diagonal columns ascend from here on.
    order = np.argsort(columns, kind="stable")
    columns, modes = columns[order], modes[order]
    chains = np.argsort(columns - modes, kind="stable")
    for array in (columns, modes, chains):
        array.setflags(write=False)
    return Layout(kind=kind, inputs=inputs, outputs=outputs, modes=modes, columns=columns, chains=chains)


def _rectangle(size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the columns and the modes of all MZIs of a rectangular mesh of ``size`` modes, two arrays [mzis].

    It has ``size`` columns; an MZI is where column and mode are both even or both odd.
    """
    column, mode = np.meshgrid(np.arange(size), np.arange(size - 1), indexing="ij")
    used = (column - mode) % 2 == 0
    return column[used], mode[used]


def _triangle(size: int, lit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the columns and the modes of all MZIs of a triangular mesh, two arrays [mzis].

    ``lit`` of its ``size`` modes have light at the inputs. Chain k of MZIs runs from mode k to the last, one column
    further with every mode, and passes each mode two columns before chain k − 1 does; the chain of the last lit mode
    begins in column 0. MZIs are listed chain by chain, by rising k, not by column.
    """
    last = min(lit - 1, size - 2)
    chain, mode = np.meshgrid(np.arange(last + 1), np.arange(size - 1), indexing="ij")
    used = mode >= chain
    return (mode - 2 * chain + last)[used], mode[used]


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
    theta: Floats
    """Phase between the couplers of each MZI."""
    phi: Floats
    """Phase at the upper input of each MZI."""
    output_phases: Floats
    """Phase after the last column, for each output."""

    def __post_init__(self) -> None:
        """Make the phases float64 arrays.

        Raises:
            ConfigError: phases are no numbers, not finite, or of another number than the mesh has; or see `mzi_count`.
        """
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
        """Positions of the mesh's MZIs: modes and columns."""
        return layout(self.kind, self.inputs, self.outputs)

    @property
    def mzis(self) -> int:
        """Number of MZIs in the mesh."""
        return self.layout.count

    @property
    def phases(self) -> Floats:
        """θ and φ of the MZIs in radians, [2, mzis], ordered by column, then by mode; output phases are left out."""
        return np.stack([self.theta, self.phi])

    @cached_property
    def devices(self) -> Complex:
        """Transfer matrices of the MZIs as ideal devices, [mzis, 2, 2], ordered by column, then by mode."""
        return mzi(self.theta, self.phi)

    def propagate(self, fields: ArrayLike) -> Complex:
        """Return the output fields [outputs, ...] of input fields [inputs, ...] on ideal devices.

        Raises:
            ConfigError: the number of fields is not the number of inputs.
        """
        return propagate(self.layout, self.devices, self.output_phases, fields)

    def matrix(self) -> Complex:
        """Return the transfer matrix [outputs, inputs] of the mesh on ideal devices."""
        return self.propagate(np.eye(self.inputs))


def propagate(mesh_layout: Layout, devices: Complex, output_phases: Floats, fields: ArrayLike) -> Complex:
    """Return the output fields [outputs, ...] of input fields [inputs, ...] through a mesh of given devices.

    For more vectors than inputs, the transfer matrix is computed first and multiplied: propagation costs 16
    multiplications for each MZI and vector, the product 4 for each matrix element and vector.

    Args:
        mesh_layout: positions of the MZIs.
        devices: transfer matrices of the MZIs, unitary or not, ordered by column, then by mode: [mzis, 2, 2].
        output_phases: phases behind the last column, in radians, [outputs].
        fields: input fields, [inputs, ...].

    Raises:
        ConfigError: the number of fields is not the number of inputs.
    """
    values = np.asarray(fields, np.complex128)
    if values.ndim == 0 or values.shape[0] != mesh_layout.inputs:
        raise ConfigError(f"fields of shape {values.shape}: expected {mesh_layout.inputs} along the first axis")
    flat = values.reshape(mesh_layout.inputs, -1)
    wide = flat.shape[1] > mesh_layout.inputs
    out = by_columns(mesh_layout, devices, output_phases, np.eye(mesh_layout.inputs) if wide else flat)
    return (out @ flat if wide else out).reshape(mesh_layout.outputs, *values.shape[1:])


def by_columns(mesh_layout: Layout, devices: Complex, output_phases: Floats, fields: ArrayLike) -> Complex:
    """Return the output fields [outputs, batch] of input fields [inputs, batch], MZI by MZI in O(mzis · batch).

    ``devices`` [mzis, 2, 2] are the transfer matrices of the MZIs, ordered by column, then by mode, ``output_phases``
    [outputs] are in radians.
    """
    flat = np.ascontiguousarray(fields, np.complex128)
    out = np.empty((mesh_layout.outputs, flat.shape[1]), np.complex128)
    ordered = np.ascontiguousarray(devices[mesh_layout.chains]).view(np.float64).reshape(mesh_layout.count, 8)
    kernels.propagate(
        flat.view(np.float64), mesh_layout.modes[mesh_layout.chains], ordered, mesh_layout.size, out.view(np.float64)
    )
    out *= np.exp(1j * output_phases)[:, None]
    return out
