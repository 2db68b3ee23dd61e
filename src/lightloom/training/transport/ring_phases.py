"""The two phases of a ring all-reduce, each also useful by itself, on blocks that the caller cut.

    reduce-scatter, s = 1 … N−1     send blk[(i−s+1) % N], receive blk[(i−s) % N] and add it
    all-gather,     s = 0 … N−2     send blk[(i−s+1) % N], receive blk[(i−s) % N] and keep it

Between them rank i owns block i + 1. With a codec every hop is compressed. A received block is added while it is
decoded, and the errors of an encoding can stay in its block, which is not needed any more: neither takes another pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from lightloom.compression.base import Codec
from lightloom.core.arrays import Float32s
from lightloom.training.transport.payload import (
    Payload,
    StreamObserver,
    Traffic,
    decode,
    decode_adding,
    encode,
    payload_limit,
)
from lightloom.training.transport.ring import Ring


class RingExchange(Protocol):
    """The methods of a ring that the phases need."""

    @property
    def rank(self) -> int:
        """This rank."""

    @property
    def size(self) -> int:
        """Number of ranks."""

    def exchange(self, payload: Payload, *, marked: bool, limit: int) -> Payload:
        """Send to the next rank and return what the previous one sent."""


def ring_reduce_scatter(
    ring: Ring,
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
        TransportError: see ``Ring.exchange``; also when ranks bring different lengths. The ring is then broken for all.
    """
    blocks = [shards[(k - 1) % ring.size] for k in range(ring.size)]
    with ring.breaking_off():
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
        payload = encode(codec, outgoing, leave=leave, observe=observe)
        raw += outgoing.nbytes
        sent += memoryview(payload).nbytes
        incoming = _hop(ring, payload, codec, target.size)
        decode_adding(codec, incoming, target, rank=i, peer=(i - 1) % n)
    return Traffic(raw, sent)


def all_gather(
    ring: RingExchange,
    payload: Payload,
    codec: Codec | None,
    sizes: Sequence[int],
    put: Callable[[int, Float32s, Payload], None],
) -> Traffic:
    """Run the second phase: ``put(k, values, payload)`` is called for every block, with the same bits on all ranks.

    Args:
        payload: block ``rank + 1``, encoded; received payloads are passed on unchanged.
        sizes: number of values of each block.
        put: function that copies what it needs of the values; it may keep the payload.
    """
    n, i = ring.size, ring.rank
    scratch = np.empty(max(sizes), np.float32)
    raw = sent = 0
    for s in range(n):
        k = (i - s + 1) % n
        put(k, decode(codec, payload, sizes[k], rank=i, peer=(i - 1) % n, out=scratch[: sizes[k]]), payload)
        if s < n - 1:
            raw += 4 * sizes[k]
            sent += memoryview(payload).nbytes
            payload = _hop(ring, payload, codec, sizes[(i - s) % n])
    return Traffic(raw, sent)


def _hop(ring: RingExchange, payload: Payload, codec: Codec | None, values: int) -> Payload:
    return ring.exchange(payload, marked=codec is not None, limit=payload_limit(values))
