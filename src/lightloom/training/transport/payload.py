"""Payloads of messages between ranks: float32 values as they are or encoded, and the errors of encoding them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lightloom.compression.base import Codec
from lightloom.core.arrays import Float32s
from lightloom.core.errors import CodecError
from lightloom.training.transport.errors import TransportError

Payload = bytes | bytearray | memoryview
"""Contiguous bytes of one message."""
StreamObserver = Callable[[Payload], None]
"""Function that is called with every stream that a rank encodes."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that one rank sent on its data connections in one exchange."""

    nbytes_raw: int
    """Bytes that the same exchange sends without a codec."""
    nbytes_sent: int
    """Bytes that this exchange sent."""

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.nbytes_raw + other.nbytes_raw, self.nbytes_sent + other.nbytes_sent)


def payload_limit(values: int) -> int:
    """Largest size in bytes of a valid payload of ``values`` float32 values.

    No codec makes its input much longer; the limit keeps a faulty peer from filling the memory.
    """
    return 8 * values + 65536


def encode(
    codec: Codec | None, block: Float32s, *, leave: bool = False, observe: StreamObserver | None = None
) -> Payload:
    """Encode a block; with ``leave`` it is replaced by the errors of its values, 0 where a value is not finite."""
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


def encode_with_residual(codec: Codec | None, block: Float32s, residual: Float32s | None) -> Payload:
    """Encode a block, which is not changed; ``residual``, if given, is overwritten with the errors of its values."""
    if residual is None:
        return encode(codec, block)
    residual[:] = block
    return encode(codec, residual, leave=True)


def decode(
    codec: Codec | None, payload: Payload, size: int, *, rank: int, peer: int, out: Float32s | None = None
) -> Float32s:
    """Return the ``size`` values that ``rank`` received from ``peer``; their memory may be ``out`` or the payload.

    Raises:
        TransportError: the payload holds another number of values, or is malformed.
    """
    if codec is None or size == 0:
        nbytes = memoryview(payload).nbytes
        if nbytes != 4 * size:
            raise _malformed(rank, peer, f"{nbytes} bytes, expected {4 * size}")
        return np.frombuffer(payload, np.float32)
    try:
        values = codec.decode(payload) if out is None else codec.decode(payload, out=out)
    except CodecError as error:
        raise _malformed(rank, peer, error) from error
    if values.size != size:
        raise _malformed(rank, peer, f"{values.size} values, expected {size}")
    return values


def decode_adding(codec: Codec | None, payload: Payload, target: Float32s, *, rank: int, peer: int) -> None:
    """Add the values of a payload to ``target``, in one pass if there is a codec.

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
        raise _malformed(rank, peer, error) from error


def _malformed(rank: int, peer: int, fault: object) -> TransportError:
    return TransportError(f"rank {rank}: the message of rank {peer} is malformed: {fault}")
