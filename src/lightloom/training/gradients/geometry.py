"""Where the tensors of a flat buffer lie, and how their blocks are shared out to the ranks that add them up.

    buffer   | weight, blocks 0 1 2 3 | bias, block 0 |        4 ranks
    share k  | block k of weight      | bias on rank crc32("bias") mod 4 |

Each tensor is cut by itself, at multiples of the block, so that what is encoded together does not depend on the bucket
that a tensor travels in: DDP rebuilds its buckets after the first step, and a resumed run continues bit for bit.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import prod

import numpy as np
import torch
from torch import Tensor

from lightloom.core.arrays import Ints
from lightloom.core.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of one tensor's values in a flat buffer; positions and lengths in values."""

    tensor: str
    """Name of the tensor."""
    start: int
    """Position in the tensor."""
    offset: int
    """Position in the buffer."""
    length: int


class Geometry:
    """The pieces of a flat buffer, which cover it. Compared by identity."""

    def __init__(self, pieces: Sequence[Piece], size: int, shapes: Sequence[tuple[str, tuple[int, ...]]] = ()) -> None:
        """Check that ``pieces`` cover ``size`` values, each once.

        Args:
            pieces: in any order; those of no values are left out.
            size: number of values in the buffer.
            shapes: (name, shape) of the tensors that lie in the buffer whole, for methods that need matrices.

        Raises:
            UnsupportedError: a value of the buffer belongs to no tensor or to two.
        """
        self.pieces = tuple(sorted((piece for piece in pieces if piece.length), key=lambda piece: piece.offset))
        self.size = size
        self.shapes = tuple(shapes)
        end = 0
        for piece in self.pieces:
            if piece.offset != end:
                break
            end += piece.length
        if end != size:
            raise UnsupportedError(
                f"the gradients of the tensors cover {end} of the {size} values of their buffer: value {end} belongs "
                "to no tensor or to two; report this, as replicas would diverge"
            )

    @classmethod
    def whole(cls, tensors: Sequence[tuple[str, int, tuple[int, ...]]], size: int) -> Geometry:
        """Return the geometry of tensors that lie in the buffer whole: (name, offset, shape) each."""
        pieces = [Piece(name, 0, offset, prod(shape)) for name, offset, shape in tensors]
        return cls(pieces, size, [(name, shape) for name, _, shape in tensors])

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the tensors."""
        return frozenset(piece.tensor for piece in self.pieces)

    @cached_property
    def description(self) -> str:
        """Number of values and tensors, for messages."""
        tensors = sorted(self.names)
        return f"{self.size} values of {repr(tensors[0]) if len(tensors) == 1 else f'{len(tensors)} tensors'}"

    @cached_property
    def digest(self) -> bytes:
        """Hash of names, shapes and places of all tensors, by which ranks compare geometries."""
        return blake2b(repr((self.pieces, self.size, self.shapes)).encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive values of one share: position in the buffer, number, and number of the first block on the wire."""

    offset: int
    length: int
    first_block: int


class Shares:
    """The blocks of a buffer in the order of the wire: those that rank 0 adds up, then rank 1, and so on."""

    def __init__(self, shares: Sequence[Sequence[tuple[int, int]]], block: int) -> None:
        """Number the blocks of ``shares``, by rank the (offset, length) of its runs; each run begins a block."""
        self.block = block
        self.runs: list[list[Run]] = []
        self.first_block = [0]
        """By rank, the number of its first block; one more entry for the end."""
        self._tables: dict[int, Ints] = {}
        blocks = 0
        for share in shares:
            runs = []
            for offset, length in share:
                runs.append(Run(offset, length, blocks))
                blocks += -(-length // block)
            self.runs.append(runs)
            self.first_block.append(blocks)

    @property
    def blocks(self) -> list[int]:
        """Number of blocks by rank."""
        return [end - begin for begin, end in zip(self.first_block, self.first_block[1:], strict=False)]

    def table(self, rank: int) -> Ints:
        """Runs of a rank as rows of (position in the buffer, values, first block, counted from the rank's first)."""
        if rank not in self._tables:
            first = self.first_block[rank]
            rows = [(run.offset, run.length, run.first_block - first) for run in self.runs[rank]]
            self._tables[rank] = np.array(rows, np.int64).reshape(-1, 3)
        return self._tables[rank]

    def slots(self, rank: int, padding: int, device: torch.device) -> Tensor:
        """Position in the buffer of each slot of the rank's blocks, ``padding`` for slots that hold no value."""
        slots = np.full(self.blocks[rank] * self.block, padding, np.int64)
        for offset, length, block in self.table(rank):
            slots[block * self.block : block * self.block + length] = np.arange(offset, offset + length)
        return torch.from_numpy(slots).to(device)


def cut(geometry: Geometry, ranks: int, block: int) -> Shares:
    """Cut each tensor into a share a rank, at multiples of ``block``; tensors shorter than that go to one rank."""
    shares: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
    for piece in geometry.pieces:
        blocks = -(-piece.length // block)
        first = zlib.crc32(piece.tensor.encode()) % ranks
        for k in range(ranks):
            begin, end = blocks * k // ranks * block, min(blocks * (k + 1) // ranks * block, piece.length)
            if end > begin:
                # Rotated by the name, so that not all short tensors go to the last rank.
                shares[(first + k) % ranks].append((piece.offset + begin, end - begin))
    return Shares(shares, block)
