"""Where the parameters of one DDP bucket lie, and how each is cut into one piece a rank.

    bucket      | weight 0 1 2 3 | bias 0 1 2 3 |      4 ranks: every *parameter* is cut into 4
    block k     | weight k | bias k |                  and block k holds everybody's k-th piece

DDP rebuilds its buckets after the first step. With parameters cut one by one, which rank adds first and which encodes
what does not depend on the bucket a parameter happens to lie in, so that a resumed run continues bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lightloom.core.arrays import Float32s


@dataclass(frozen=True, slots=True)
class Span:
    """One parameter in a flat bucket; offset and length in values."""

    name: str
    offset: int
    length: int

    @property
    def slice(self) -> slice:
        """Its place in the flat bucket."""
        return slice(self.offset, self.offset + self.length)


class BucketLayout:
    """The spans of a bucket, cut for a number of ranks. Compared by identity."""

    def __init__(self, spans: Sequence[Span], ranks: int) -> None:
        self.spans = tuple(spans)
        self.sizes: list[int] = []
        """Values a block."""
        self._pieces: list[list[tuple[slice, slice]]] = []
        """By block: where a piece lies in the bucket, and where in the block."""
        for k in range(ranks):
            pieces, at = [], 0
            for span in self.spans:
                begin, end = span.length * k // ranks, span.length * (k + 1) // ranks
                if end > begin:
                    there = slice(span.offset + begin, span.offset + end)
                    pieces.append((there, slice(at, at := at + end - begin)))
            self._pieces.append(pieces)
            self.sizes.append(at)

    def blocks(self) -> list[Float32s]:
        """New blocks, all zero."""
        return [np.zeros(size, np.float32) for size in self.sizes]

    def gather(self, flat: Float32s, blocks: Sequence[Float32s]) -> None:
        """Copy the bucket into blocks."""
        for block, pieces in zip(blocks, self._pieces, strict=True):
            for there, here in pieces:
                block[here] = flat[there]

    def add(self, flat: Float32s, blocks: Sequence[Float32s]) -> None:
        """Add the bucket to what blocks hold."""
        for block, pieces in zip(blocks, self._pieces, strict=True):
            for there, here in pieces:
                block[here] += flat[there]

    def scatter(self, blocks: Sequence[Float32s], flat: Float32s) -> None:
        """Undo ``gather``."""
        for k, block in enumerate(blocks):
            self.scatter_one(k, block, flat)

    def scatter_one(self, k: int, block: Float32s, flat: Float32s, factor: float = 1.0) -> None:
        """Put ``factor`` times block k back where its pieces lie in ``flat``."""
        for there, here in self._pieces[k]:
            np.multiply(block[here], np.float32(factor), out=flat[there])
