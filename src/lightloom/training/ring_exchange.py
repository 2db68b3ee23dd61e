"""Ring all-reduce with compression on every hop: INCEPTIONN's Algorithm 1, corrected.

    reduce-scatter, s = 1 … N−1     send blk[(i−s+1) % N], receive blk[(i−s) % N] and add it
    all-gather,     s = 0 … N−2     send blk[(i−s+1) % N], receive blk[(i−s) % N] and keep it

As printed, the second phase is off by one and no block comes out right. Two more things make it sound: the owner of a
block adopts its own *decoded* block, and the second phase passes on the bytes that came in, so that every rank decodes
the same bytes and replicas stay bit-identical.

Each rank encodes every block exactly once (N − 1 partial sums and its own block). What the encodings take away is
therefore one array per rank, the *residual*, and ``sum + Σ residuals = Σ values`` up to float32 rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightloom.compression.base import Codec
from lightloom.training.errors import TransportError
from lightloom.training.transport import Ring

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one rank put on its data connection in one exchange."""

    nbytes_raw: int
    """Bytes that the same ring sends without a codec."""
    nbytes_sent: int


def ring_all_reduce(
    ring: Ring, values: Floats, codec: Codec | None = None, residual: Floats | None = None
) -> tuple[Floats, Traffic]:
    """The sum of all ranks' ``values``, the same bits on every rank.

    Without a codec this is the uncompressed ring, whose sum of block b starts at rank b and goes round. With one of
    error bound e, each value is within N·e of that sum (N encodings), if e is absolute.

    Args:
        values: any length, the same on every rank; left alone.
        residual: overwritten with what this rank's encodings took away (0 where a value is not finite).

    Raises:
        TransportError: see ``Ring.exchange``; also when ranks bring different lengths.
    """
    total = np.array(values, np.float32).ravel()
    blocks = np.array_split(total, ring.size)
    kept = None if residual is None else np.array_split(residual, ring.size)
    return total, exchange_blocks(ring, blocks, codec, kept)


def exchange_blocks(
    ring: Ring, blocks: Sequence[Floats], codec: Codec | None = None, residuals: Sequence[Floats] | None = None
) -> Traffic:
    """``ring_all_reduce`` in place, on N blocks that the caller cut. The ring is broken for all if this raises."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return _exchange(ring, blocks, codec, residuals)
    except BaseException as error:
        ring.abort(f"rank {ring.rank} failed: {type(error).__name__}: {error}".replace("\n", " "))
        raise


def _exchange(ring: Ring, blocks: Sequence[Floats], codec: Codec | None, residuals: Sequence[Floats] | None) -> Traffic:
    n, i = ring.size, ring.rank
    raw = sent = 0

    def encode(k: int) -> Any:
        return _encode(codec, blocks[k], None if residuals is None else residuals[k])

    def hop(payload: Any, s: int) -> tuple[Any, int]:
        """Send block i − s + 1, receive block i − s."""
        nonlocal raw, sent
        k = (i - s) % n
        raw += blocks[(k + 1) % n].nbytes
        sent += memoryview(payload).nbytes
        # No codec here grows its input much; the limit only keeps a confused peer from filling the memory.
        return ring.exchange(payload, marked=codec is not None, limit=2 * blocks[k].nbytes + 65536), k

    for s in range(1, n):
        incoming, k = hop(encode((i - s + 1) % n), s)
        blocks[k][:] += _decode(codec, incoming, blocks[k].size, ring)
    own = (i + 1) % n
    outgoing = encode(own)
    blocks[own][:] = _decode(codec, outgoing, blocks[own].size, ring)
    for s in range(n - 1):
        outgoing, k = hop(outgoing, s)
        blocks[k][:] = _decode(codec, outgoing, blocks[k].size, ring)
    return Traffic(raw, sent)


def _encode(codec: Codec | None, block: Floats, residual: Floats | None) -> Any:
    if codec is None or block.size == 0:
        if residual is not None:
            residual[:] = 0
        return np.ascontiguousarray(block).view(np.uint8).data if block.size else b""
    encoded = codec.encode(block)
    if residual is not None:
        np.subtract(block, codec.decode(encoded), out=residual)
        residual[~np.isfinite(residual)] = 0
    return encoded


def _decode(codec: Codec | None, buffer: Any, size: int, ring: Ring) -> Floats:
    if memoryview(buffer).nbytes == 0:
        values = np.empty(0, np.float32)
    elif codec is None:
        whole = memoryview(buffer).nbytes % 4 == 0
        values = np.frombuffer(buffer, np.float32) if whole else np.empty(0, np.float32)
    else:
        values = codec.decode(buffer)
    if values.size != size:
        raise TransportError(
            f"rank {ring.rank}: rank {(ring.rank - 1) % ring.size} sends {values.size} values, expected {size}"
        )
    return values
