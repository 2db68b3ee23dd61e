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
from numpy.typing import NDArray

Floats = NDArray[np.float32]


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


@dataclass(frozen=True, slots=True)
class BucketLayout:
    """The spans of a bucket, cut for a number of ranks."""

    spans: tuple[Span, ...]
    ranks: int

    def gather(self, flat: Floats) -> list[Floats]:
        """The blocks of ``flat``, copied, one a rank."""
        return [np.concatenate([flat[piece] for piece in self._pieces(k)]) for k in range(self.ranks)]

    def scatter(self, blocks: Sequence[Floats], flat: Floats) -> None:
        """Undo ``gather``: put the blocks back where their pieces lie in ``flat``."""
        for k, block in enumerate(blocks):
            position = 0
            for piece in self._pieces(k):
                length = piece.stop - piece.start
                flat[piece] = block[position : position + length]
                position += length

    def _pieces(self, k: int) -> list[slice]:
        n = self.ranks
        return [slice(s.offset + s.length * k // n, s.offset + s.length * (k + 1) // n) for s in self.spans]
