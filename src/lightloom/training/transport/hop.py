"""What travels from one rank to another: floats as they are, or as a codec's stream; and what that took away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lightloom.compression.base import Codec
from lightloom.core.arrays import Float32s
from lightloom.core.errors import CodecError
from lightloom.training.transport.errors import TransportError

Observer = Callable[[Any], None]
"""Is shown every stream that this rank encodes."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one rank put on its data connections in one exchange."""

    nbytes_raw: int
    """Bytes that the same exchange sends without a codec."""
    nbytes_sent: int

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.nbytes_raw + other.nbytes_raw, self.nbytes_sent + other.nbytes_sent)


def largest(values: int) -> int:
    """The most bytes in which ``values`` floats can rightly come.

    No codec here grows its input much; the limit only keeps a confused peer from filling the memory.
    """
    return 8 * values + 65536


def encode(codec: Codec | None, block: Float32s, *, leave: bool = False, observe: Observer | None = None) -> Any:
    """The bytes to send; with ``leave`` the block becomes what they lack, 0 where a value is not finite."""
    if block.size == 0:
        return b""
    if codec is None:
        payload = block.view(np.uint8).tobytes() if leave else np.ascontiguousarray(block).view(np.uint8).data
        if leave:
            block[:] = 0
        return payload
    stream = codec.encode_leaving(block) if leave else codec.encode(block)
    if observe is not None:
        observe(stream)
    return stream


def encode_keeping(codec: Codec | None, block: Float32s, residual: Float32s | None) -> Any:
    """``encode``, the block left alone; ``residual``, if there is one, becomes what the bytes lack."""
    if residual is None:
        return encode(codec, block)
    residual[:] = block
    return encode(codec, residual, leave=True)


def decode(
    codec: Codec | None, payload: Any, size: int, *, rank: int, peer: int, out: Float32s | None = None
) -> Float32s:
    """The ``size`` floats that ``rank`` got from ``peer``; they may lie in ``out``, or in the payload.

    Raises:
        TransportError: there are more or fewer, or the stream is damaged.
    """
    if codec is None or size == 0:
        nbytes = memoryview(payload).nbytes
        if nbytes != 4 * size:
            raise _confused(rank, peer, f"{nbytes} bytes, expected {4 * size}")
        return np.frombuffer(payload, np.float32)
    try:
        values: Float32s = codec.decode(payload, out=out)
    except CodecError as error:
        raise _confused(rank, peer, error) from error
    if values.size != size:
        raise _confused(rank, peer, f"{values.size} values, expected {size}")
    return values


def decode_adding(codec: Codec | None, payload: Any, target: Float32s, *, rank: int, peer: int) -> None:
    """Add what ``decode`` gives to ``target``, in one pass where there is a codec.

    Raises:
        TransportError: see ``decode``.
    """
    if codec is None or target.size == 0:
        with np.errstate(over="ignore", invalid="ignore"):
            target += decode(codec, payload, target.size, rank=rank, peer=peer)
        return
    try:
        codec.decode_adding(payload, target)
    except CodecError as error:
        raise _confused(rank, peer, error) from error


def _confused(rank: int, peer: int, what: object) -> TransportError:
    return TransportError(f"rank {rank}: rank {peer} sends something else: {what}")
