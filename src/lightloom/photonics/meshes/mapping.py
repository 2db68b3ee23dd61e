"""Map any matrix to meshes and attenuators: W = gain · U · Σ · V†, with Σ at most 1 and amplifiers at the outputs.

x ──▶ V† mesh ──▶ Σ: a column of MZIs ──▶ U mesh ──▶ amplifiers ──▶ y
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from lightloom.core.arrays import Column
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.photonics.devices import mzi
from lightloom.photonics.meshes.decompose import checked_matrix, decompose
from lightloom.photonics.meshes.layout import Kind
from lightloom.photonics.meshes.mesh import Mesh

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Form = Literal["svd", "economy", "sigma-u"]
FORMS: tuple[str, ...] = get_args(Form)


@dataclass(frozen=True, kw_only=True, eq=False)
class MappedMatrix:
    """The meshes, attenuators and amplifiers that implement a matrix of ``shape`` (outputs, inputs).

    Raises:
        ConfigError: meshes do not fit, an attenuation is outside [0, 1], or the gain is below 1.
    """

    shape: tuple[int, int]
    input_mesh: Mesh
    """Mesh of V†; in the form sigma-u the only mesh, U_a."""
    attenuations: NDArray[np.float64]
    """Amplitude transmissions of the MZIs of Σ, in [0, 1]."""
    output_mesh: Mesh | None
    """Mesh of U; None in the form sigma-u."""
    gain: float
    """Amplitude gain of the amplifiers: the largest singular value if it exceeds 1, else 1."""

    def __post_init__(self) -> None:
        outputs = self.output_mesh.outputs if self.output_mesh else self.attenuations.size
        if (outputs, self.input_mesh.inputs) != self.shape:
            raise ConfigError(f"meshes from {self.input_mesh.inputs} to {outputs} modes for a matrix of {self.shape}")
        reach = self.output_mesh.inputs if self.output_mesh else outputs
        if self.attenuations.ndim != 1 or not min(self.shape) <= self.attenuations.size <= reach:
            raise ConfigError(f"{self.attenuations.size} attenuations for a matrix of {self.shape}")
        if not ((self.attenuations >= 0) & (self.attenuations <= 1)).all():
            raise ConfigError("attenuations: expected amplitudes from 0 to 1")
        if not (np.isfinite(self.gain) and self.gain >= 1):
            raise ConfigError(f"gain={self.gain}: expected a finite number of at least 1")

    @property
    def mzis(self) -> int:
        """Number of MZIs of both meshes and of Σ."""
        return self.input_mesh.mzis + self.attenuations.size + (self.output_mesh.mzis if self.output_mesh else 0)

    @property
    def depth(self) -> int:
        """Number of columns that the light passes, with Σ."""
        return self.input_mesh.layout.depth + 1 + (self.output_mesh.layout.depth if self.output_mesh else 0)

    @property
    def attenuator_phases(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """θ and φ of the MZIs of Σ. Light uses the upper ports, and φ makes T₀₀ = sin θ/2 real."""
        theta = 2 * np.arcsin(self.attenuations)
        return theta, (-np.pi / 2 - theta / 2) % (2 * np.pi)

    def propagate(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Return the output fields [outputs, ...] of input fields [inputs, ...]."""
        inner = self.input_mesh.propagate(fields)
        return self.behind(inner, mzi(*self.attenuator_phases)[:, 0, 0], self.output_mesh)

    def behind(self, inner: Column, column: Column, output_mesh: Any) -> NDArray[np.complex128]:
        """Propagate fields after V† through Σ (transmissions ``column``), ``output_mesh`` and the amplifiers."""
        count = min(len(inner), column.size)
        lit = output_mesh.inputs if output_mesh else self.shape[0]
        passed = np.zeros((lit, *inner.shape[1:]), np.complex128)
        passed[:count] = inner[:count] * column[:count].reshape(-1, *[1] * (inner.ndim - 1))
        return np.asarray(self.gain * (output_mesh.propagate(passed) if output_mesh else passed))

    def matrix(self) -> NDArray[np.complex128]:
        """Return the matrix that is implemented."""
        return self.propagate(np.eye(self.shape[1]))


def map_matrix(matrix: ArrayLike, form: Form = "economy", kind: Kind = "rectangular") -> MappedMatrix:
    """Map ``matrix`` [outputs, inputs], real or complex, to meshes.

    ``svd`` is the paper's form (eq. 1) with both square unitaries and M(M+1)/2 + N(N−1)/2 MZIs. ``economy`` leaves out
    MZIs that no light reaches and has M · N. Both are exact. ``sigma-u`` is the paper's approximation Σ_a · U_a of a
    square matrix (eq. 4 to 6) with N(N+1)/2 MZIs. ``kind`` applies to square meshes; others are triangular.

    Raises:
        ConfigError: the argument is not a finite matrix, or ``sigma-u`` is given one that is not square
            (:func:`blocks.map_blocks` takes it).
        UnknownNameError: the form does not exist.
    """
    if form not in FORMS:
        raise UnknownNameError("form", str(form), FORMS)
    values = checked_matrix(matrix)
    outputs, inputs = values.shape
    if form == "sigma-u":
        if outputs != inputs:
            raise ConfigError(
                f"matrix of {outputs} x {inputs}: sigma-u needs a square one, map_blocks divides it into squares"
            )
        unitary, singular = sigma_u(values)
        return _mapped((outputs, inputs), decompose(unitary, kind), singular, None)
    u, singular, v = np.linalg.svd(values, full_matrices=form == "svd")
    if form == "svd":
        padded = np.zeros(outputs)
        padded[: singular.size] = singular
        return _mapped((outputs, inputs), decompose(v, kind), padded, decompose(u, kind))
    input_mesh = decompose(v, "triangular" if inputs > outputs else kind)
    output_mesh = decompose(u, "triangular" if outputs > inputs else kind)
    return _mapped((outputs, inputs), input_mesh, singular, output_mesh)


def _mapped(
    shape: tuple[int, int], input_mesh: Mesh, singular: NDArray[np.float64], output_mesh: Mesh | None
) -> MappedMatrix:
    gain = max(1.0, float(singular.max()))
    return MappedMatrix(
        shape=shape,
        input_mesh=input_mesh,
        attenuations=np.minimum(singular / gain, 1.0),
        output_mesh=output_mesh,
        gain=gain,
    )


def sigma_u(matrix: ArrayLike) -> tuple[Column, NDArray[np.float64]]:
    """Return U_a and the diagonal of Σ_a, so that Σ_a · U_a approximates a square matrix (eq. 4 to 6).

    U_a = U_s V_sᵀ is the nearest unitary (the polar factor), and d_i = Σ_j W_ij conj(U_a,ij) is the least-squares scale
    of row i; as W U_a† is positive semidefinite, no d_i is negative.

    Raises:
        ConfigError: the argument is not a finite square matrix.
    """
    values = checked_matrix(matrix)
    if values.shape[0] != values.shape[1]:
        raise ConfigError(f"matrix of {values.shape[0]} x {values.shape[1]}: expected a square one")
    u, _, v = np.linalg.svd(values)
    unitary = u @ v
    scales = np.einsum("ij,ij->i", values, unitary.conj()).real
    return unitary, np.maximum(scales, 0.0)
