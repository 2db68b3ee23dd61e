"""What travels from one rank to another: floats as they are, or as a codec's stream; and what that took away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightloom.compression.base import Codec
from lightloom.training.errors import TransportError

Floats = NDArray[np.float32]


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


def encode(codec: Codec | None, block: Floats, residual: Floats | None = None) -> Any:
    """The bytes to send; ``residual`` is overwritten with what encoding takes away, 0 where a value is not finite."""
    if codec is None or block.size == 0:
        if residual is not None:
            residual[:] = 0
        return np.ascontiguousarray(block).view(np.uint8).data if block.size else b""
    encoded = codec.encode(block)
    if residual is not None:
        np.subtract(block, codec.decode(encoded), out=residual)
        residual[~np.isfinite(residual)] = 0
    return encoded


def decode(codec: Codec | None, buffer: Any, size: int, *, rank: int, peer: int) -> Floats:
    """The ``size`` floats that ``rank`` got from ``peer``.

    Raises:
        TransportError: there are more or fewer.
        CodecError: the stream is damaged.
    """
    if memoryview(buffer).nbytes == 0:
        values = np.empty(0, np.float32)
    elif codec is None:
        whole = memoryview(buffer).nbytes % 4 == 0
        values = np.frombuffer(buffer, np.float32) if whole else np.empty(0, np.float32)
    else:
        values = codec.decode(buffer)
    if values.size != size:
        raise TransportError(f"rank {rank}: rank {peer} sends {values.size} values, expected {size}")
    return values
