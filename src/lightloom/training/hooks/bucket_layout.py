"""The layout of one DDP bucket: where its parameters lie, and how each is cut into one piece for each rank.

    bucket      | weight 0 1 2 3 | bias 0 1 2 3 |      4 ranks: every *parameter* is cut into 4 pieces
    block k     | weight k | bias k |                  and block k holds piece k of all parameters

DDP rebuilds its buckets after the first step. As each parameter is cut by itself, the order of additions and the values
encoded together do not depend on the bucket of a parameter, so that a resumed run continues bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lightloom.core.arrays import Float32s
from lightloom.core.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class Span:
    """A parameter in a flat bucket; offset and length in values."""

    name: str
    offset: int
    length: int

    @property
    def slice(self) -> slice:
        """Position in the flat bucket."""
        return slice(self.offset, self.offset + self.length)


class BucketLayout:
    """The spans of a bucket and the blocks that they are cut into, one for each rank. Compared by identity."""

    def __init__(self, spans: Sequence[Span], ranks: int, *, size: int) -> None:
        """Cut a bucket of ``size`` values.

        Raises:
            UnsupportedError: the spans do not cover the bucket, each value once: what they lack would never be
                exchanged, and replicas would diverge.
        """
        self.spans = tuple(spans)
        check_cover(self.spans, size)
        self.sizes: list[int] = []
        """Number of values in each block."""
        self._pieces: list[list[tuple[slice, slice]]] = []
        """By block, the position of each of its pieces in the bucket and in the block."""
        for k in range(ranks):
            pieces, at = [], 0
            for span in self.spans:
                begin, end = span.length * k // ranks, span.length * (k + 1) // ranks
                if end > begin:
                    in_bucket = slice(span.offset + begin, span.offset + end)
                    pieces.append((in_bucket, slice(at, at := at + end - begin)))
            self._pieces.append(pieces)
            self.sizes.append(at)

    def blocks(self) -> list[Float32s]:
        """Allocate blocks of zeros."""
        return [np.zeros(size, np.float32) for size in self.sizes]

    def bucket(self, blocks: Sequence[Float32s] = ()) -> Float32s:
        """Allocate a bucket of zeros, and copy blocks into it."""
        flat = np.zeros(max((span.offset + span.length for span in self.spans), default=0), np.float32)
        for k, block in enumerate(blocks):
            self.scatter(k, block, flat)
        return flat

    def gather(self, flat: Float32s, blocks: Sequence[Float32s]) -> None:
        """Copy a bucket into its blocks."""
        for block, pieces in zip(blocks, self._pieces, strict=True):
            for in_bucket, in_block in pieces:
                block[in_block] = flat[in_bucket]

    def add(self, flat: Float32s, blocks: Sequence[Float32s]) -> None:
        """Add a bucket to its blocks."""
        for block, pieces in zip(blocks, self._pieces, strict=True):
            for in_bucket, in_block in pieces:
                block[in_block] += flat[in_bucket]

    def scatter(self, k: int, block: Float32s, flat: Float32s, factor: float = 1.0) -> None:
        """Copy ``factor`` times block k to the positions of its pieces in ``flat``."""
        for in_bucket, in_block in self._pieces[k]:
            np.multiply(block[in_block], np.float32(factor), out=flat[in_bucket])


def check_cover(spans: Sequence[Span], size: int) -> None:
    """Check that consecutive spans cover a buffer of ``size`` values, each value once.

    Raises:
        UnsupportedError: they do not; the message names the parameter.
    """
    at = 0
    for span in spans:
        if span.offset != at:
            raise UnsupportedError(
                f"parameter {span.name!r} begins at value {span.offset} of a bucket of gradients, expected {at}: this "
                "torch lays buckets out in an unknown way"
            )
        at += span.length
    if at != size:
        raise UnsupportedError(
            f"the parameters {', '.join(repr(span.name) for span in spans)} cover {at} of {size} values of a bucket of "
            "gradients: this torch lays buckets out in an unknown way"
        )
