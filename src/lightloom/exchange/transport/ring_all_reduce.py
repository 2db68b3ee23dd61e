"""Ring all-reduce with compression on every hop, and its two phases: INCEPTIONN's Algorithm 1, corrected.

    reduce-scatter, s = 1 … N−1     send blk[(i−s+1) % N], receive blk[(i−s) % N] and add it
    all-gather,     s = 0 … N−2     send blk[(i−s+1) % N], receive blk[(i−s) % N] and keep it

Between the phases rank i owns block i + 1. As printed, the second phase is off by one and no block comes out right. Two
more things make it sound: the owner of a block adopts its own *decoded* block, and the second phase passes on the bytes
that came in, so that every rank decodes the same bytes and replicas stay bit-identical.

Each rank encodes every block exactly once (N − 1 partial sums and its own block). What the encodings take away is
therefore one array per rank, the *residual*, and ``sum + Σ residuals = Σ values`` up to float32 rounding. A received
block is added while it is decoded, and the errors of an encoding can stay in its block, which is not needed any more:
neither takes another pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from lightloom.core.arrays import Float32s
from lightloom.exchange.compression.codec import Codec, float32_values
from lightloom.exchange.transport.channel import (
    Payload,
    StreamObserver,
    Traffic,
    add_decoded,
    decode_block,
    encode_block,
    payload_limit,
)
from lightloom.exchange.transport.channel_group import Ring


class RingExchange(Protocol):
    """The methods of a ring that the phases need."""

    rank: int
    size: int
    """Number of ranks in the ring."""

    def exchange(self, payload: Payload, *, marked: bool, limit: int) -> Payload:
        """Send to the next rank and return what the previous one sent."""


def ring_all_reduce(
    ring: Ring, values: Float32s, codec: Codec | None = None, residual: Float32s | None = None
) -> tuple[Float32s, Traffic]:
    """Return the sum of all ranks' ``values``, the same bits on every rank, and the bytes sent.

    Without a codec this is the uncompressed ring, whose sum of block b starts at rank b and goes round. With one of
    error bound e, each value is within N·e of that sum (N encodings), if e is absolute.

    Args:
        values: any length, the same on every rank; left alone.
        residual: overwritten with what this rank's encodings took away (0 where a value is not finite).

    Raises:
        InputError: the values are not float32.
        TransportError: see ``Ring.exchange``; also when ranks bring different lengths.
    """
    total = float32_values(values).copy()
    with ring.breaking_off():
        return total, all_reduce_in_place(ring, total, codec, residual)


def all_reduce_in_place(
    ring: RingExchange, total: Float32s, codec: Codec | None = None, residual: Float32s | None = None
) -> Traffic:
    """Replace flat values by their sum over ranks, as ``ring_all_reduce`` does. Break a ``Ring`` off if this raises."""
    blocks, leave = np.array_split(total, ring.size), residual is not None

    def put(k: int, values: Float32s) -> None:
        blocks[k][:] = values

    traffic = reduce_scatter(ring, blocks, codec, leave=leave)
    own = encode_block(codec, blocks[(ring.rank + 1) % ring.size], leave=leave)
    if residual is not None:
        residual[:] = total
    return traffic + all_gather(ring, own, codec, [block.size for block in blocks], put)


def ring_reduce_scatter(
    ring: RingExchange,
    shards: Sequence[Float32s],
    codec: Codec | None = None,
    *,
    leave: bool = False,
    observe: StreamObserver | None = None,
) -> Traffic:
    """Sum over ranks, in place: afterwards ``shards[rank]`` is the sum of all ranks' shards of that number.

    The other shards are overwritten; with ``leave`` they are the errors of this rank's encodings, so that the sums and
    the errors of all ranks add up to the input. The owner's shard is not encoded: with a codec of absolute error e the
    sum is off by at most (N − 1)·e.

    Args:
        shards: N flat float32 arrays, their lengths the same on every rank.

    Raises:
        TransportError: see ``Ring.exchange``; also when ranks bring different lengths. A ring is to be broken off then.
    """
    blocks = [shards[(k - 1) % ring.size] for k in range(ring.size)]
    return reduce_scatter(ring, blocks, codec, leave=leave, observe=observe)


def reduce_scatter(
    ring: RingExchange,
    blocks: Sequence[Float32s],
    codec: Codec | None,
    *,
    leave: bool = False,
    observe: StreamObserver | None = None,
) -> Traffic:
    """Run the first phase; block ``rank + 1`` becomes the sum, the others are overwritten, with errors if ``leave``."""
    n, i = ring.size, ring.rank
    raw = sent = 0
    for s in range(1, n):
        outgoing, target = blocks[(i - s + 1) % n], blocks[(i - s) % n]
        payload = encode_block(codec, outgoing, leave=leave, observe=observe)
        raw += outgoing.nbytes
        sent += memoryview(payload).nbytes
        incoming = _hop(ring, payload, codec, target.size)
        add_decoded(codec, incoming, target, rank=i, peer=(i - 1) % n)
    return Traffic(raw, sent)


def all_gather(
    ring: RingExchange,
    payload: Payload,
    codec: Codec | None,
    sizes: Sequence[int],
    put: Callable[[int, Float32s], None],
) -> Traffic:
    """Run the second phase: ``put(k, values)`` is called for every block, with the same bits on all ranks.

    Args:
        payload: block ``rank + 1``, encoded; received payloads are passed on unchanged.
        sizes: number of values of each block.
        put: function that copies what it needs of the values.
    """
    n, i = ring.size, ring.rank
    scratch = np.empty(max(sizes), np.float32)
    raw = sent = 0
    for s in range(n):
        k = (i - s + 1) % n
        put(k, decode_block(codec, payload, sizes[k], rank=i, peer=(i - 1) % n, out=scratch[: sizes[k]]))
        if s < n - 1:
            raw += 4 * sizes[k]
            sent += memoryview(payload).nbytes
            payload = _hop(ring, payload, codec, sizes[(i - s) % n])
    return Traffic(raw, sent)


def _hop(ring: RingExchange, payload: Payload, codec: Codec | None, values: int) -> Payload:
    return ring.exchange(payload, marked=codec is not None, limit=payload_limit(values))
