"""Map any matrix to meshes and attenuators: W = diag(gains) · U · Σ · V†, with Σ at most 1 and amplifiers behind.

x ──▶ V† mesh ──▶ Σ: a column of MZIs ──▶ U mesh ──▶ an amplifier for each output ──▶ y

A passive mesh H has singular values up to 1. With r_i = |row i| and s, the largest singular value of diag(1/r) W, it is
H = diag(1/r) W / s, and output i is amplified by r_i s. An error of a device reaches output i in proportion to r_i,
but with one gain for all outputs it reaches each of them in proportion to the largest singular value of W.
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

Form = Literal["svd", "economy", "compact", "sigma-u"]
FORMS: tuple[str, ...] = get_args(Form)
Gains = Literal["rows", "common"]
"""A gain for each row, or the largest singular value (if it exceeds 1) for all of them."""
GAINS: tuple[str, ...] = get_args(Gains)
_RANK_TOLERANCE = 1e-12
"""Singular values below this share of the largest one are rounding errors of the matrix's elements."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MappedMatrix:
    """The meshes, attenuators and amplifiers that implement a matrix of ``shape`` (outputs, inputs).

    Raises:
        ConfigError: meshes do not fit, an attenuation is outside [0, 1], or a gain is not positive and finite.
    """

    shape: tuple[int, int]
    input_mesh: Mesh
    """Mesh of V†; in the form sigma-u the only mesh, U_a."""
    attenuations: NDArray[np.float64]
    """Amplitude transmissions of the MZIs of Σ, in [0, 1]."""
    output_mesh: Mesh | None
    """Mesh of U; None in the form sigma-u."""
    gains: NDArray[np.float64]
    """Amplitude gain of the amplifier behind each output, [outputs]; below 1 it weakens."""

    def __post_init__(self) -> None:
        outputs = self.output_mesh.outputs if self.output_mesh else self.attenuations.size
        if (outputs, self.input_mesh.inputs) != self.shape:
            raise ConfigError(f"meshes from {self.input_mesh.inputs} to {outputs} modes for a matrix of {self.shape}")
        reach = self.output_mesh.inputs if self.output_mesh else outputs
        if self.attenuations.ndim != 1 or not min(self.input_mesh.outputs, reach) <= self.attenuations.size <= reach:
            raise ConfigError(f"{self.attenuations.size} attenuations for a matrix of {self.shape}")
        if not ((self.attenuations >= 0) & (self.attenuations <= 1)).all():
            raise ConfigError("attenuations: expected amplitudes from 0 to 1")
        if self.gains.shape != (self.shape[0],):
            raise ConfigError(f"gains of shape {self.gains.shape}: expected {self.shape[0]}, one for each output")
        if not ((self.gains > 0) & np.isfinite(self.gains)).all():
            at = int(np.flatnonzero(~((self.gains > 0) & np.isfinite(self.gains)))[0])
            raise ConfigError(f"gains[{at}]={self.gains[at]}: expected a finite amplitude above 0")

    @property
    def mzis(self) -> int:
        """Number of MZIs of both meshes and of Σ."""
        return self.input_mesh.mzis + self.attenuations.size + (self.output_mesh.mzis if self.output_mesh else 0)

    @property
    def gain(self) -> float:
        """Largest amplitude gain of an amplifier."""
        return float(self.gains.max())

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
        gains = self.gains.reshape(-1, *[1] * (inner.ndim - 1))
        return np.asarray(gains * (output_mesh.propagate(passed) if output_mesh else passed))

    def matrix(self) -> NDArray[np.complex128]:
        """Return the matrix that is implemented."""
        return self.propagate(np.eye(self.shape[1]))


def map_matrix(
    matrix: ArrayLike, form: Form = "economy", kind: Kind = "rectangular", gains: Gains = "rows"
) -> MappedMatrix:
    """Map ``matrix`` [outputs, inputs], real or complex, to meshes.

    ``svd`` is the paper's form (eq. 1) with both square unitaries and M(M+1)/2 + N(N−1)/2 MZIs. ``economy`` leaves out
    MZIs that no light reaches and has M · N. ``compact`` also leaves out modes beyond the rank r of the matrix and has
    r(M + N) − r². All three are exact; paths of light through the square meshes of ``svd`` are the most alike, so it
    bears loss best. ``sigma-u`` is the paper's approximation Σ_a · U_a of a
    square matrix (eq. 4 to 6) with N(N+1)/2 MZIs. ``kind`` applies to square meshes, others are triangular. ``gains``
    is ``rows``, or ``common`` for amplification of every output by the largest singular value.

    Raises:
        ConfigError: the argument is not a finite matrix, or ``sigma-u`` is given one that is not square
            (:func:`blocks.map_blocks` takes it).
        UnknownNameError: the form does not exist, or the kind of gains.
    """
    if form not in FORMS:
        raise UnknownNameError("form", str(form), FORMS)
    if gains not in GAINS:
        raise UnknownNameError("gains", str(gains), GAINS)
    values = checked_matrix(matrix)
    outputs, inputs = values.shape
    if form == "sigma-u":
        if outputs != inputs:
            raise ConfigError(
                f"matrix of {outputs} x {inputs}: sigma-u needs a square one, map_blocks divides it into squares"
            )
        unitary, scales = sigma_u(values)
        factors = _positive(scales) if gains == "rows" else np.full(outputs, max(1.0, float(scales.max())))
        return MappedMatrix(
            shape=(outputs, inputs),
            input_mesh=decompose(unitary, kind),
            attenuations=np.minimum(scales / factors, 1.0),
            output_mesh=None,
            gains=factors,
        )
    factors = row_gains(values) if gains == "rows" else common_gains(values)
    u, singular, v = np.linalg.svd(values / factors[:, None], full_matrices=form == "svd")
    if form == "compact":
        rank = max(1, int((singular > _RANK_TOLERANCE * singular[0]).sum()))
        u, singular, v = u[:, :rank], singular[:rank], v[:rank]
    attenuations = np.minimum(singular, 1.0)
    if form == "svd":
        attenuations = np.concatenate([attenuations, np.zeros(outputs - attenuations.size)])
        input_mesh, output_mesh = decompose(v, kind), decompose(u, kind)
    else:
        input_mesh = decompose(v, "triangular" if inputs > singular.size else kind)
        output_mesh = decompose(u, "triangular" if outputs > singular.size else kind)
    return MappedMatrix(
        shape=(outputs, inputs),
        input_mesh=input_mesh,
        attenuations=attenuations,
        output_mesh=output_mesh,
        gains=factors,
    )


def row_gains(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return r_i s for each row: r_i = |row i| (1 for a row of zeros), s = largest singular value of diag(1/r) W.

    Raises:
        ConfigError: the argument is not a finite matrix.
    """
    values = checked_matrix(matrix)
    lengths = _positive(np.linalg.norm(values, axis=1))
    largest = float(np.linalg.norm(values / lengths[:, None], 2))
    return lengths * (largest or 1.0)


def common_gains(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return the largest singular value, or 1 if it is smaller, for each row."""
    values = checked_matrix(matrix)
    return np.full(values.shape[0], max(1.0, float(np.linalg.norm(values, 2))))


def decibels(gain: float) -> float:
    """Return an amplitude gain in dB."""
    return float(20 * np.log10(gain))


def _positive(lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(lengths > 0, lengths, 1.0)


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
