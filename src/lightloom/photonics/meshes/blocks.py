"""Approximation of a matrix by square blocks Σ_a · U_a along its longer side (OptINC, Fig. 4, eq. 4 to 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.arrays import Column
from lightloom.photonics.meshes.decompose import checked_matrix
from lightloom.photonics.meshes.layout import Kind
from lightloom.photonics.meshes.mapping import Gains, MappedMatrix, map_matrix, sigma_u

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedBlocks:
    """Square blocks of a matrix of ``shape``; the last one is padded with zeros if the sides do not divide.

    The blocks of a tall matrix share their inputs, which are split; those of a wide one combine their outputs.
    """

    shape: tuple[int, int]
    blocks: tuple[MappedMatrix, ...]

    @property
    def mzis(self) -> int:
        """Number of MZIs of all blocks, in the paper's count without splitters and combiners."""
        return sum(block.mzis for block in self.blocks)

    @property
    def depth(self) -> int:
        """Number of columns of the deepest block."""
        return max(block.depth for block in self.blocks)

    @property
    def gain(self) -> float:
        """Largest amplitude gain of an amplifier."""
        return max(block.gain for block in self.blocks)

    def matrix(self) -> NDArray[np.complex128]:
        """Return the matrix that is implemented."""
        return joined([block.matrix() for block in self.blocks], self.shape)

    def propagate(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Return the output fields [outputs, ...] of input fields [inputs, ...]."""
        return np.asarray(np.tensordot(self.matrix(), np.asarray(fields), 1))


def map_blocks(matrix: ArrayLike, kind: Kind = "rectangular", gains: Gains = "rows") -> MappedBlocks:
    """Map ``matrix`` [outputs, inputs] to approximated square blocks, each with one mesh.

    Raises:
        ConfigError: the argument is not a finite matrix.
    """
    values = checked_matrix(matrix)
    return MappedBlocks(
        shape=(values.shape[0], values.shape[1]),
        blocks=tuple(map_matrix(block, "sigma-u", kind, gains) for block in _squares(values)),
    )


def approximate(matrix: ArrayLike) -> Column:
    """Return the matrix that `map_blocks` implements; hardware-aware training projects its weights to it.

    Raises:
        ConfigError: the argument is not a finite matrix.
    """
    values = checked_matrix(matrix)
    parts = []
    for block in _squares(values):
        unitary, scales = sigma_u(block)
        parts.append(scales[:, None] * unitary)
    return joined(parts, values.shape)


def _squares(values: Column) -> list[Column]:
    side = min(values.shape)
    count = -(-max(values.shape) // side)
    tall = values.shape[0] >= values.shape[1]
    filled = np.zeros((count * side, side) if tall else (side, count * side), values.dtype)
    filled[: values.shape[0], : values.shape[1]] = values
    return np.split(filled, count, axis=0 if tall else 1)


def joined(parts: list[Column], shape: tuple[int, ...]) -> Column:
    """Join square blocks to a matrix of ``shape``, without the padding."""
    return np.concatenate(parts, axis=0 if shape[0] >= shape[1] else 1)[: shape[0], : shape[1]]
