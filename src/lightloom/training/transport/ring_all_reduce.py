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

import numpy as np

from lightloom.compression.base import Codec
from lightloom.core.arrays import Float32s
from lightloom.training.transport.payload import Payload, encode
from lightloom.training.transport.payload import Traffic as Traffic
from lightloom.training.transport.ring import Ring
from lightloom.training.transport.ring_phases import RingExchange, all_gather, reduce_scatter


def ring_all_reduce(
    ring: Ring, values: Float32s, codec: Codec | None = None, residual: Float32s | None = None
) -> tuple[Float32s, Traffic]:
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
    residuals = None if residual is None else np.array_split(residual, ring.size)
    with ring.breaking_off():
        return total, all_reduce_blocks(ring, blocks, codec, residuals)[0]


def all_reduce_blocks(
    ring: RingExchange,
    blocks: Sequence[Float32s],
    codec: Codec | None = None,
    residuals: Sequence[Float32s] | None = None,
) -> tuple[Traffic, list[Payload]]:
    """Replace N blocks, which the caller cut, by their sums; return also the bytes from which each was decoded.

    The bytes are the same on every rank. A ``Ring`` is to be broken off if this raises.
    """
    finished: list[Payload] = [b""] * ring.size

    def put(k: int, values: Float32s, payload: Payload) -> None:
        blocks[k][:] = values
        finished[k] = payload

    leave = residuals is not None
    traffic = reduce_scatter(ring, blocks, codec, leave=leave)
    own = encode(codec, blocks[(ring.rank + 1) % ring.size], leave=leave)
    for residual, block in zip(residuals or (), blocks, strict=leave):
        residual[:] = block
    return traffic + all_gather(ring, own, codec, [block.size for block in blocks], put), finished
