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
from typing import Any

import numpy as np

from lightloom.compression.base import Codec
from lightloom.training.hop import Floats as Floats
from lightloom.training.hop import Traffic as Traffic
from lightloom.training.hop import decode, encode, largest
from lightloom.training.transport import Ring


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
    return exchange_and_keep(ring, blocks, codec, residuals)[0]


def exchange_and_keep(
    ring: Ring, blocks: Sequence[Floats], codec: Codec | None = None, residuals: Sequence[Floats] | None = None
) -> tuple[Traffic, list[Any]]:
    """``exchange_blocks``, and the bytes that each finished block was decoded from, the same on every rank."""
    with ring.breaking_off(), np.errstate(over="ignore", invalid="ignore"):
        return _exchange(ring, blocks, codec, residuals)


def _exchange(
    ring: Ring, blocks: Sequence[Floats], codec: Codec | None, residuals: Sequence[Floats] | None
) -> tuple[Traffic, list[Any]]:
    n, i = ring.size, ring.rank
    raw = sent = 0
    finished: list[Any] = [b""] * n

    def encoded(k: int) -> Any:
        return encode(codec, blocks[k], None if residuals is None else residuals[k])

    def decoded(k: int, payload: Any) -> Floats:
        return decode(codec, payload, blocks[k].size, rank=ring.name, peer=ring.previous.peer)

    def hop(payload: Any, s: int) -> tuple[Any, int]:
        """Send block i − s + 1, receive block i − s."""
        nonlocal raw, sent
        k = (i - s) % n
        raw += blocks[(k + 1) % n].nbytes
        sent += memoryview(payload).nbytes
        return ring.exchange(payload, marked=codec is not None, limit=largest(blocks[k].size)), k

    for s in range(1, n):
        incoming, k = hop(encoded((i - s + 1) % n), s)
        blocks[k][:] += decoded(k, incoming)
    own = (i + 1) % n
    outgoing = finished[own] = encoded(own)
    if codec is not None:
        blocks[own][:] = decoded(own, outgoing)
    for s in range(n - 1):
        outgoing, k = hop(outgoing, s)
        blocks[k][:] = decoded(k, outgoing)
        finished[k] = outgoing
    return Traffic(raw, sent), finished
