"""Matrices of several meshes: the paper's square approximations, and connected components.

squares       blocks Σ_a · U_a along the longer side (OptINC, Fig. 4, eq. 4 to 6), an approximation
components    rows and columns that no element joins to the others: exact, fewer MZIs, and waveguides that cross
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.arrays import Column, Ints
from lightloom.core.errors import ConfigError
from lightloom.photonics.meshes.decompose import checked_matrix
from lightloom.photonics.meshes.layout import Kind
from lightloom.photonics.meshes.mapping import Form, Gains, MappedMatrix, map_matrix, sigma_u

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MappedBlocks:
    """Blocks of a matrix of ``shape`` (outputs, inputs), each with meshes of its own.

    Inputs that several blocks read are split, and outputs that several blocks give are combined. A block may have more
    modes than waveguides; the others are dark. Outputs of no block carry no light.

    Raises:
        ConfigError: a block has no waveguide, more of them than modes, or one that does not exist or appears twice.
    """

    shape: tuple[int, int]
    blocks: tuple[MappedMatrix, ...]
    outputs: tuple[Ints, ...]
    """Output of the matrix that each output of a block is, for every block."""
    inputs: tuple[Ints, ...]
    """Input of the matrix that each input of a block is, for every block."""

    def __post_init__(self) -> None:
        if not len(self.blocks) == len(self.outputs) == len(self.inputs):
            raise ConfigError(f"{len(self.blocks)} blocks, waveguides of {len(self.outputs)} and {len(self.inputs)}")
        for number, block in enumerate(self.blocks, 1):
            ends = zip(("outputs", "inputs"), (self.outputs[number - 1], self.inputs[number - 1]), strict=True)
            for (name, guides), modes, count in zip(ends, block.shape, self.shape, strict=True):
                if not 1 <= guides.size <= modes or guides.min() < 0 or guides.max() >= count:
                    raise ConfigError(f"block {number}: {name} {guides.tolist()}, expected up to {modes} below {count}")
                if np.unique(guides).size < guides.size:
                    raise ConfigError(f"block {number}: {name} {guides.tolist()}, expected each one once")

    @property
    def mzis(self) -> int:
        """Number of MZIs of all blocks, without splitters and combiners."""
        return sum(block.mzis for block in self.blocks)

    @property
    def depth(self) -> int:
        """Number of columns of the deepest block."""
        return max((block.depth for block in self.blocks), default=0)

    @property
    def gain(self) -> float:
        """Largest amplitude gain of an amplifier."""
        return float(self.gains.max())

    @property
    def gains(self) -> NDArray[np.float64]:
        """Largest amplitude gain of the amplifiers behind each output, [outputs]; 1 for dark outputs.

        A gain makes up for splitters and combiners too: light for k blocks, or from k blocks, loses a factor of √k.
        """
        split = np.bincount(np.concatenate([*self.inputs, [0]]).astype(np.int64))
        combined = np.bincount(np.concatenate([*self.outputs, [0]]).astype(np.int64), minlength=self.shape[0])
        split[0] -= 1
        combined[0] -= 1
        gains = np.zeros(self.shape[0])
        for block, rows, columns in zip(self.blocks, self.outputs, self.inputs, strict=True):
            shared = np.sqrt(split[columns].max() * combined[rows])
            gains[rows] = np.maximum(gains[rows], block.gains[: rows.size] * shared)
        return np.where(gains > 0, gains, 1.0)

    def matrix(self) -> NDArray[np.complex128]:
        """Return the matrix that is implemented."""
        return self.joined([block.matrix() for block in self.blocks])

    def joined(self, matrices: Sequence[Column]) -> NDArray[np.complex128]:
        """Return the matrix of ``shape`` from those of the blocks; with leading axes, [..., outputs, inputs]."""
        leading = matrices[0].shape[:-2] if matrices else ()
        total = np.zeros((*leading, *self.shape), np.complex128)
        for matrix, rows, columns in zip(matrices, self.outputs, self.inputs, strict=True):
            total[..., rows[:, None], columns] += matrix[..., : rows.size, : columns.size]
        return total

    def propagate(self, fields: ArrayLike) -> NDArray[np.complex128]:
        """Return the output fields [outputs, ...] of input fields [inputs, ...]."""
        return np.asarray(np.tensordot(self.matrix(), np.asarray(fields), 1))


def map_blocks(matrix: ArrayLike, kind: Kind = "rectangular", gains: Gains = "rows") -> MappedBlocks:
    """Map ``matrix`` [outputs, inputs] to approximated square blocks, each with one mesh.

    Raises:
        ConfigError: the argument is not a finite matrix.
    """
    values = checked_matrix(matrix)
    blocks = tuple(map_matrix(block, "sigma-u", kind, gains) for block in _squares(values))
    return square_blocks((values.shape[0], values.shape[1]), blocks)


def square_blocks(shape: tuple[int, int], blocks: Sequence[MappedMatrix]) -> MappedBlocks:
    """Return square blocks along the longer side of a matrix of ``shape``; the last one may be partly dark."""
    side, most = sorted(shape)
    along = [np.arange(start, min(start + side, most)) for start in range(0, most, side)]
    across = [np.arange(side)] * len(along)
    outputs, inputs = (along, across) if shape[0] >= shape[1] else (across, along)
    return MappedBlocks(shape=shape, blocks=tuple(blocks), outputs=tuple(outputs), inputs=tuple(inputs))


def map_components(
    matrix: ArrayLike, form: Form = "compact", kind: Kind = "rectangular", gains: Gains = "rows"
) -> MappedBlocks:
    """Map every connected component of ``matrix`` [outputs, inputs] to meshes of its own, exactly.

    Raises:
        ConfigError: the argument is not a finite matrix, or ``form`` is the approximation sigma-u.
    """
    values = checked_matrix(matrix)
    if form == "sigma-u":
        raise ConfigError("sigma-u: the approximation has square blocks, components need svd, economy or compact")
    parts = connected_components(values)
    return MappedBlocks(
        shape=(values.shape[0], values.shape[1]),
        blocks=tuple(map_matrix(values[np.ix_(rows, columns)], form, kind, gains) for rows, columns in parts),
        outputs=tuple(rows for rows, _ in parts),
        inputs=tuple(columns for _, columns in parts),
    )


def connected_components(matrix: ArrayLike) -> list[tuple[Ints, Ints]]:
    """Return outputs and inputs of every component, in the order of their mean places; dark ones are in none.

    Outputs and inputs are joined where the element of ``matrix`` [outputs, inputs] is not 0.
    """
    lit = checked_matrix(matrix) != 0
    outputs, inputs = lit.shape
    free, parts = lit.any(axis=1), []
    while free.any():
        rows, columns = np.zeros(outputs, np.bool_), np.zeros(inputs, np.bool_)
        rows[int(free.argmax())] = True
        while True:
            columns = lit[rows].any(axis=0)
            reached = lit[:, columns].any(axis=1)
            if (reached == rows).all():
                break
            rows = reached
        parts.append((np.flatnonzero(rows), np.flatnonzero(columns)))
        free &= ~rows
    return sorted(parts, key=lambda part: float(part[0].mean() / outputs + part[1].mean() / inputs))


def crossings(places: Sequence[int] | Ints) -> Ints:
    """Return how many others each waveguide crosses, if they leave in ascending order and arrive as ``places``."""
    order = np.asarray(places)
    exchanged = np.triu(order[:, None] > order, 1)
    return np.asarray(exchanged.sum(axis=0) + exchanged.sum(axis=1))


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
    return np.concatenate(parts, axis=0 if _is_tall(values) else 1)[: values.shape[0], : values.shape[1]]


def _is_tall(values: Column) -> bool:
    return bool(values.shape[0] >= values.shape[1])


def _squares(values: Column) -> list[Column]:
    side = min(values.shape)
    count = -(-max(values.shape) // side)
    tall = _is_tall(values)
    filled = np.zeros((count * side, side) if tall else (side, count * side), values.dtype)
    filled[: values.shape[0], : values.shape[1]] = values
    return np.split(filled, count, axis=0 if tall else 1)
