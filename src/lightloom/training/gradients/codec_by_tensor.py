"""A codec whose messages depend on the values as a whole, applied to each tensor's piece of a block by itself.

DDP rebuilds its buckets after the first step; what a message scales together must not depend on them, or a resumed run
would continue with other bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from lightloom.compression.base import Codec
from lightloom.core.arrays import Float32s
from lightloom.core.errors import CodecError
from lightloom.training.gradients.tensor_blocks import TensorBlocks


class CodecByTensor(Codec):
    """Codes the pieces of a block one after the other.

    message = for each piece: u32 bytes of its stream, the stream
    """

    def __init__(self, codec: Codec, cut: TensorBlocks) -> None:
        """Code the blocks of ``cut``, in order: block k is that of ``lengths[k]``."""
        self._codec = codec
        self._lengths = [[piece.length for piece in pieces] for pieces in cut.pieces]
        self._at: dict[int, list[int]] = {}
        """Lengths of the pieces of the block at an address."""

    @property
    def name(self) -> str:
        return self._codec.name

    def place(self, blocks: Sequence[Float32s]) -> None:
        """Say where the blocks lie in memory."""
        self._at = {block.ctypes.data: lengths for block, lengths in zip(blocks, self._lengths, strict=True)}

    def encode(self, array: object, *, threads: int = 1) -> memoryview:
        return self._join(array, self._codec.encode)

    def encode_leaving(self, array: Float32s) -> memoryview:
        return self._join(array, self._codec.encode_leaving)

    def decode(self, buffer: object, out: object = None, *, threads: int = 1) -> Any:
        parts = [self._codec.decode(stream) for stream in _streams(buffer)]
        values = np.concatenate(parts) if parts else np.empty(0, np.float32)
        if out is None:
            return values
        target = np.asarray(out)
        if values.size != target.size:
            raise CodecError(f"{values.size} values, expected {target.size}")
        target[:] = values
        return target

    def decode_adding(self, buffer: object, out: Float32s) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            out += self.decode(buffer, out=np.empty_like(out))

    def _join(self, array: Any, encode_piece: Callable[[Float32s], memoryview]) -> memoryview:
        message, at = bytearray(), 0
        for length in self._at[array.ctypes.data]:
            stream = encode_piece(array[at : at + length])
            message += len(stream).to_bytes(4, "little") + stream
            at += length
        return memoryview(message)


def _streams(buffer: Any) -> Iterator[memoryview]:
    """The streams in a message.

    Raises:
        CodecError: it ends within one.
    """
    message, at = memoryview(buffer).cast("B"), 0
    while at < len(message):
        end = at + 4 + int.from_bytes(message[at : at + 4], "little")
        if end > len(message) or end <= at + 4:
            raise CodecError(f"a stream of {end - at - 4} bytes in a message of {len(message)} bytes, from byte {at}")
        yield message[at + 4 : end]
        at = end
