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

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from lightloom.core.arrays import Float32s
from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.transport import channel


class RingExchange(Protocol):
    """The methods of a ring that the phases need."""

    rank: int
    size: int
    """Number of ranks in the ring."""

    def exchange(self, payload: channel.Payload, *, marked: bool, limit: int) -> channel.Payload:
        """Send ``payload`` to the next rank and return what the previous one sent, at most ``limit`` bytes; ``marked``
        says whether both are compressed. Raises TransportError where a rank is gone or silent."""


def all_reduce_in_place(
    ring: RingExchange, total: Float32s, codec: Codec | None = None, residual: Float32s | None = None
) -> int:
    """Replace flat values by their sum over ranks, the same bits on every rank, and return the bytes of the payloads
    that this rank sent.

    Values are cut into N blocks, the first ones a value longer where N does not divide them. Without a codec the sum of
    block b starts at rank b and goes round to rank b - 1. With one of absolute error e, each value is within N·e of
    that sum (N encodings).

    Args:
        ring: this rank's place in a ring of N ranks.
        total: values of this rank, of any length, which is the same on every rank; overwritten.
        codec: encodes every message; None sends plain float32.
        residual: flat, as long as ``total``; overwritten with what this rank's encodings took away (0 where a value is
            not finite).

    Raises:
        TransportError: a rank died, left or fell silent, or brings another length.
    """
    blocks, leave = np.array_split(total, ring.size), residual is not None

    def put(k: int, values: Float32s) -> None:
        """Copy the values of block k to its place in ``total``."""
        blocks[k][:] = values

    sent = reduce_scatter(ring, blocks, codec, leave=leave)
    own = channel.encode_block(codec, blocks[(ring.rank + 1) % ring.size], leave=leave)
    if residual is not None:
        residual[:] = total
    return sent + all_gather(ring, own, codec, [block.size for block in blocks], put)


def reduce_scatter(
    ring: RingExchange,
    blocks: Sequence[Float32s],
    codec: Codec | None,
    *,
    leave: bool = False,
    observe: channel.StreamObserver | None = None,
) -> int:
    """Run the first phase of a ring all-reduce, in place, and return the bytes of the payloads that this rank sent.

    Block ``(rank + 1) % N`` becomes the sum over the N ranks; the others are overwritten by partial sums, or with
    ``leave`` by the errors of encoding them. The sum is not encoded by its owner: with a codec of absolute error e it
    is off by at most (N − 1)·e.

    Args:
        ring: this rank's place in a ring.
        blocks: N flat arrays, each of the same length on every rank.
        codec: encodes every message; None sends plain float32.
        leave: whether errors are left in the blocks that are sent, 0 without a codec.
        observe: called with every stream that this rank encodes.

    Raises:
        TransportError: a rank died, left or fell silent, or a message is malformed or holds another number of values.
    """
    n, i, sent = ring.size, ring.rank, 0
    for s in range(1, n):
        outgoing, target = blocks[(i - s + 1) % n], blocks[(i - s) % n]
        payload = channel.encode_block(codec, outgoing, leave=leave, observe=observe)
        sent += memoryview(payload).nbytes
        incoming = ring.exchange(payload, marked=codec is not None, limit=channel.payload_limit(target.size))
        channel.add_decoded(codec, incoming, target, rank=i, peer=(i - 1) % n)
    return sent


def all_gather(
    ring: RingExchange,
    payload: channel.Payload,
    codec: Codec | None,
    sizes: Sequence[int],
    put: Callable[[int, Float32s], None],
) -> int:
    """Run the second phase of a ring all-reduce: ``put(k, values)`` is called for every block k, beginning with that of
    ``payload``, with the same bits on all ranks; return the bytes of the payloads that this rank sent.

    Args:
        ring: this rank's place in a ring of N ranks.
        payload: block ``(rank + 1) % N``, encoded; received payloads are passed on unchanged.
        codec: decodes the payloads; None takes them as plain float32.
        sizes: number of values of each of the N blocks.
        put: called with the number of a block and its values, which it must copy: their memory is used again.

    Raises:
        TransportError: a rank died, left or fell silent, or a payload is malformed.
    """
    n, i, sent = ring.size, ring.rank, 0
    scratch = np.empty(max(sizes), np.float32)
    for s in range(n):
        k = (i - s + 1) % n
        put(k, channel.decode_block(codec, payload, sizes[k], rank=i, peer=(i - 1) % n, out=scratch[: sizes[k]]))
        if s < n - 1:
            sent += memoryview(payload).nbytes
            payload = ring.exchange(payload, marked=codec is not None, limit=channel.payload_limit(sizes[(i - s) % n]))
    return sent
