"""A buffer as blocks that hold a piece of every tensor each: what goes around a ring, or to the ranks of a node.

    buffer     | weight 0 1 2 3 | bias 0 1 2 3 |           4 blocks: every tensor is cut into 4 pieces
    in blocks  | weight 0, bias 0 | weight 1, bias 1 | ...

As each tensor is cut by itself, what is added up together does not depend on the bucket that a tensor travels in.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lightloom.training.gradients.geometry import Geometry, Piece


class TensorBlocks:
    """The blocks of a buffer; block k has piece k of every tensor."""

    def __init__(self, geometry: Geometry, count: int) -> None:
        """Cut every tensor into ``count`` pieces."""
        self.pieces: list[list[Piece]] = []
        """By block, where its pieces lie in their tensor and, as the offset, in the block."""
        self.sizes: list[int] = []
        """Number of values by block."""
        self._moves: list[list[tuple[slice, slice]]] = []
        for k in range(count):
            pieces, moves, at = [], [], 0
            for piece in geometry.pieces:
                first, end = piece.length * k // count, piece.length * (k + 1) // count
                if end > first:
                    pieces.append(Piece(piece.tensor, piece.start + first, at, end - first))
                    in_buffer = slice(piece.offset + first, piece.offset + end)
                    moves.append((in_buffer, slice(at, at := at + end - first)))
            self.pieces.append(pieces)
            self._moves.append(moves)
            self.sizes.append(at)

    def joined(self) -> Geometry:
        """Where the tensors lie in all blocks, one after the other."""
        pieces, begin = [], 0
        for block, size in zip(self.pieces, self.sizes, strict=True):
            pieces += [Piece(piece.tensor, piece.start, begin + piece.offset, piece.length) for piece in block]
            begin += size
        return Geometry(pieces, begin)

    def split(self, flat: Tensor) -> tuple[Tensor, ...]:
        """Blocks that lie one after the other, not copied."""
        return torch.split(flat, self.sizes)

    def gather(self, buffer: Tensor, blocks: Sequence[Tensor], *, add: bool = False) -> None:
        """Copy a buffer into its blocks, or add it to them."""
        for block, moves in zip(blocks, self._moves, strict=True):
            for in_buffer, in_block in moves:
                if add:
                    block[in_block] += buffer[in_buffer]
                else:
                    block[in_block] = buffer[in_buffer]

    def scatter(self, k: int, block: Tensor, buffer: Tensor, factor: float = 1.0) -> None:
        """Put ``factor`` times block k to the positions of its pieces in a buffer."""
        for in_buffer, in_block in self._moves[k]:
            torch.mul(block[in_block], factor, out=buffer[in_buffer])
