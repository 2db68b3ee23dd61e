"""Decompose a unitary matrix to the phases of a mesh, exactly, in O(n³)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lightloom.core.arrays import Effort, Floats
from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.devices import Complex
from lightloom.photonics.meshes import kernels
from lightloom.photonics.meshes.mesh import Kind, Layout, Mesh, layout

_PADDING: Effort = 8  # float64 numbers in a cache line


def decompose(matrix: ArrayLike, kind: Kind = "rectangular", *, tolerance: float = 1e-8) -> Mesh:
    """Return the mesh whose matrix is ``matrix``: ``decompose(u).matrix() = u`` to about 1e-14.

    Rotations of neighbouring modes null elements in the order of Clements et al. (Optica 3, 1460) or Reck et al. (PRL
    73, 58). For a unitary matrix, a diagonal of unit numbers remains, so the result is also the test of unitarity. θ
    lies in [0, π], all other phases in [0, 2π).

    Args:
        matrix: real or complex unitary matrix [outputs, inputs]; for a triangle it may be tall with orthonormal columns
            (fewer inputs than modes) or wide with orthonormal rows.
        kind: layout of the mesh, ``rectangular`` or ``triangular``.
        tolerance: largest absolute value that nulling may leave beside the diagonal, and largest deviation of the
            magnitudes on it from 1.

    Raises:
        ConfigError: the argument is not a finite matrix, or this kind of mesh cannot have its shape.
        UnknownNameError: the kind of mesh does not exist.
        InputError: the matrix deviates from a unitary one by more than ``tolerance``.
    """
    values = checked_matrix(matrix)
    outputs, inputs = values.shape
    mesh_layout = layout(kind, inputs, outputs)
    fan_in = outputs < inputs
    if fan_in:  # light in the reverse direction sees the transpose
        values = values.T
    size, lit = values.shape
    planes = np.zeros((size, 2, lit + _PADDING))
    planes[:, 0, :lit] = values.real
    planes[:, 1, :lit] = values.imag
    rotations = np.zeros((size, size, 4))
    if kind == "rectangular":
        kernels.null_rectangle(planes, size, rotations)
    else:
        kernels.null_triangle(planes, size, lit, rotations)
    diagonal = _unit_diagonal(planes, lit, tolerance)

    sweeps, steps, from_left = _nulling_places(kind, size, lit)
    flat = rotations[sweeps, steps]
    flat[~from_left, 3] *= -1  # rotations from the right are T†, with e^{−iφ}
    forward = layout(kind, lit, size)
    left = flat[from_left]
    kernels.pass_diagonal(left, forward.modes[from_left], diagonal)
    flat[from_left] = left

    outer = np.arctan2(diagonal[:, 1], diagonal[:, 0])
    pending = np.zeros(size)
    if fan_in:
        flat = flat[np.argsort(-forward.columns, kind="stable")]
        pending, outer = outer, pending
    theta, phi = np.empty(mesh_layout.count), np.empty(mesh_layout.count)
    kernels.settle_phases(flat, not fan_in, mesh_layout.modes, pending, theta, phi)
    output_phases = (pending + outer)[:outputs] % (2 * np.pi)
    return Mesh(kind=kind, inputs=inputs, outputs=outputs, theta=theta, phi=phi, output_phases=output_phases)


def checked_matrix(matrix: ArrayLike, name: str = "matrix") -> Floats | Complex:
    """Return ``matrix`` as a finite, non-empty array of two dimensions, complex128 if it is complex and else float64.

    ``name`` is for messages.

    Raises:
        ConfigError: it is not such an array.
    """
    try:
        values = np.asarray(matrix)
        values = values.astype(np.complex128 if np.iscomplexobj(values) else np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name}: expected numbers, {error}") from error
    if values.ndim != 2 or values.size == 0:
        raise ConfigError(f"{name} of shape {values.shape}: expected two dimensions, both at least 1")
    if not np.isfinite(values).all():
        row, column = (int(index) for index in np.argwhere(~np.isfinite(values))[0])
        raise ConfigError(f"{name}[{row}, {column}]={values[row, column]}: expected a finite number")
    return values


def _unit_diagonal(planes: Floats, lit: int, tolerance: float) -> Floats:
    """Return the diagonal after nulling, [modes, real | imaginary], normalised to unit numbers; dark modes have 1.

    Args:
        planes: the nulled matrix, [row, real | imaginary, column]; its diagonal is set to 0 in place.
        lit: number of columns, those of lit modes.
        tolerance: largest deviation of what remains from a unit diagonal.

    Raises:
        InputError: the deviation is larger.
    """
    diagonal = np.zeros((planes.shape[0], 2))
    diagonal[:, 0] = 1.0
    modes = np.arange(lit)
    lengths = np.hypot(planes[modes, 0, modes], planes[modes, 1, modes])
    remainder = planes[:lit, :, :lit]
    on_diagonal = np.array([remainder[modes, 0, modes], remainder[modes, 1, modes]])
    remainder[modes, :, modes] = 0.0
    deviation = max(np.abs(remainder).max(), np.abs(lengths - 1).max())
    if not deviation <= tolerance:
        raise InputError(
            f"matrix: not unitary, it deviates by {deviation:.2g} (limit {tolerance:g}); map_matrix maps any matrix"
        )
    diagonal[modes] = (on_diagonal / lengths).T
    return diagonal


@cache
def _nulling_places(kind: Kind, size: int, lit: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return which rotation of the nulling each MZI of a mesh carries out: three arrays [mzis], in the layout's order.

    These are the sweep and the step, indices from 0 into the ``rotations[sweep, step]`` that `kernels.null_rectangle`
    and `kernels.null_triangle` write (in a triangle the sweep is the column), and whether the rotation was applied from
    the left. ``lit`` of the ``size`` modes have inputs.
    """
    place: Layout = layout(kind, lit, size)
    modes, columns = place.modes, place.columns
    if kind == "triangular":
        return (modes + min(lit - 1, size - 2) - columns) // 2, size - 2 - modes, np.ones(place.count, np.bool_)
    from_left = modes + columns >= size - 1
    sweeps = np.where(from_left, 2 * size - 2 - modes - columns, modes + columns + 1)
    return sweeps, np.where(from_left, size - 1 - columns, columns), from_left


# A mesh as a circuit switch: with every MZI in the cross or bar state, it implements any permutation of ports.
#
# The paper's optical circuit switch (Sec. II-A) is the same array that computes averages.


def switch(destinations: Sequence[int], kind: Kind = "rectangular") -> Mesh:
    """Return the mesh that connects input i to output ``destinations[i]``: every θ is 0 (cross) or π (bar).

    Raises:
        ConfigError: ``destinations`` is not a permutation of 0, 1, ..., n − 1.
        UnknownNameError: the kind of mesh does not exist.
    """
    outputs = list(destinations)
    if sorted(outputs) != list(range(len(outputs))) or not outputs:
        raise ConfigError(f"destinations={outputs}: expected each of 0 to {len(outputs) - 1} once")
    matrix = np.zeros((len(outputs), len(outputs)))
    matrix[outputs, np.arange(len(outputs))] = 1.0
    return decompose(matrix, kind)
