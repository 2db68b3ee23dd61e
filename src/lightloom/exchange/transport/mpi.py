"""Collectives over an mpi4py communicator whose messages are compressed: ``MPI_collective_communication_comp``.

    from lightloom.exchange.transport import mpi
    total = mpi.allreduce(gradient, Inceptionn())          # all ranks of MPI.COMM_WORLD, or communicator=...

Source: INCEPTIONN, section VII (OpenMPI with compressing collectives) and Algorithm 1, corrected: every hop is encoded
anew, and all ranks, the owner too, take the *decoded* values, so that results are the same bits everywhere. The paper
marks such messages with ToS 0x28 for its network card; Open MPI has no parameter for it, so that here the codec runs in
software, and messages are not marked (``transport.channel`` marks its own).

All functions raise ``InputError``, on all ranks, where ranks bring different shapes or codecs, or one of them no
float32, and ``UnsupportedError`` where mpi4py is not installed.

Error, with a codec of absolute error e on N ranks: N·e for ``allreduce`` and ``reduce``, e for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from lightloom.core.arrays import Float32s
from lightloom.core.errors import InputError, UnsupportedError
from lightloom.exchange.compression.codec import float32_values
from lightloom.exchange.transport.channel import Payload, add_decoded, decode_block, encode_block
from lightloom.exchange.transport.ring_all_reduce import all_reduce_in_place

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm as Communicator

    from lightloom.exchange.compression.codec import Codec


def allreduce(
    values: ArrayLike,
    codec: Codec | None = None,
    *,
    communicator: Communicator | None = None,
    residual: Float32s | None = None,
) -> Float32s:
    """Return the sum of all ranks' ``values`` in their shape, the same bits on every rank, by a ring whose hops are
    encoded; with a single rank a copy, nothing encoded.

    Args:
        values: float32 array, the same shape on every rank; left alone.
        codec: the same on every rank; None sends plain float32.
        communicator: communicator of mpi4py; ``MPI.COMM_WORLD`` unless given.
        residual: flat, as long as ``values``; overwritten with the errors of this rank's encodings, so that sum + Σ
            residuals = Σ values (up to rounding); what is not finite leaves 0.

    Raises:
        InputError: ranks bring different shapes or codecs, or a rank no float32 (raised on all of them).
        UnsupportedError: no communicator is given and mpi4py cannot be used.
    """
    ring = _Ring(communicator)
    total = _agreed(ring.communicator, values, codec).copy()
    if ring.size > 1:
        all_reduce_in_place(ring, total, codec, residual)
    elif residual is not None:
        residual[:] = 0
    return total.reshape(np.shape(values))


def bcast(
    values: ArrayLike, codec: Codec | None = None, *, communicator: Communicator | None = None, root: int = 0
) -> Float32s:
    """Return the root's ``values``, encoded once and decoded, on every rank, the root included.

    Args:
        values: float32 array, the same shape on every rank; on other ranks than the root only its shape is used.
        codec: the same on every rank; None sends plain float32.
        communicator: communicator of mpi4py; ``MPI.COMM_WORLD`` unless given.
        root: rank whose values are sent.

    Raises:
        InputError: ranks bring different shapes or codecs, or a rank no float32 (raised on all of them).
        UnsupportedError: no communicator is given and mpi4py cannot be used.
    """
    communicator = _communicator(communicator)
    flat = _agreed(communicator, values, codec)
    payload = encode_block(codec, flat) if communicator.rank == root else b""
    size = np.array([memoryview(payload).nbytes], np.int64)
    communicator.Bcast(size, root)
    buffer = np.frombuffer(payload, np.uint8).copy() if communicator.rank == root else np.empty(size[0], np.uint8)
    communicator.Bcast(buffer, root)
    decoded = decode_block(codec, buffer.data, flat.size, rank=communicator.rank, peer=root)
    return decoded.reshape(np.shape(values))


def gather(
    values: ArrayLike, codec: Codec | None = None, *, communicator: Communicator | None = None, root: int = 0
) -> Float32s | None:
    """Return, at the root, all ranks' ``values``, encoded and decoded (its own too), along a new first axis, in the
    order of ranks; None on the other ranks.

    Args:
        values: float32 array, the same shape on every rank.
        codec: the same on every rank; None sends plain float32.
        communicator: communicator of mpi4py; ``MPI.COMM_WORLD`` unless given.
        root: rank that receives.

    Raises:
        InputError: ranks bring different shapes or codecs, or a rank no float32 (raised on all of them).
        UnsupportedError: no communicator is given and mpi4py cannot be used.
    """
    if (payloads := _gathered(values, codec, communicator, root)) is None:
        return None
    rows = [decode_block(codec, one, np.size(values), rank=root, peer=peer) for peer, one in enumerate(payloads)]
    return np.stack(rows).reshape(len(rows), *np.shape(values))


def reduce(
    values: ArrayLike, codec: Codec | None = None, *, communicator: Communicator | None = None, root: int = 0
) -> Float32s | None:
    """Return, at the root, the sum of all ranks' ``values``, each encoded, decoded (the root's own too) and added in
    the order of ranks; None on the other ranks.

    Every rank sends to the root, as workers do to an aggregator: each value is encoded once.

    Args:
        values: float32 array, the same shape on every rank.
        codec: the same on every rank; None sends plain float32.
        communicator: communicator of mpi4py; ``MPI.COMM_WORLD`` unless given.
        root: rank that receives.

    Raises:
        InputError: ranks bring different shapes or codecs, or a rank no float32 (raised on all of them).
        UnsupportedError: no communicator is given and mpi4py cannot be used.
    """
    if (payloads := _gathered(values, codec, communicator, root)) is None:
        return None
    total = np.zeros(np.size(values), np.float32)
    for peer, payload in enumerate(payloads):
        add_decoded(codec, payload, total, rank=root, peer=peer)
    return total.reshape(np.shape(values))


class _Ring:
    """A communicator as a ring; the size of each message is sent before it."""

    def __init__(self, communicator: Communicator | None) -> None:
        """Order the ranks of a communicator, ``MPI.COMM_WORLD`` unless given, as a ring; raises UnsupportedError
        without mpi4py."""
        self.communicator = _communicator(communicator)
        self.rank: int = self.communicator.rank
        self.size: int = self.communicator.size

    def exchange(self, payload: Payload, *, marked: bool, limit: int) -> Payload:
        """Send bytes to the next rank, (rank + 1) % size, of the communicator, and return those that the previous one
        sent; ``marked`` and ``limit`` are not used."""
        following, previous = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        outgoing = np.frombuffer(payload, np.uint8)
        counts = np.array([outgoing.size, 0], np.int64)
        self.communicator.Sendrecv(counts[:1], following, recvbuf=counts[1:], source=previous)
        incoming = np.empty(counts[1], np.uint8)
        self.communicator.Sendrecv(outgoing, following, recvbuf=incoming, source=previous)
        return incoming.data


def _communicator(communicator: Communicator | None) -> Communicator:
    """Return the communicator, or ``MPI.COMM_WORLD``; raises UnsupportedError where mpi4py cannot be used."""
    if communicator is not None:
        return communicator
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise UnsupportedError(
            "mpi4py cannot be used here: install lightloom[mpi] and an MPI library such as Open MPI "
            f"({str(error).splitlines()[0]})"
        ) from error
    return MPI.COMM_WORLD


def _agreed(communicator: Communicator, values: ArrayLike, codec: Codec | None) -> Float32s:
    """Return the flat float32 values of this rank after checking, by a collective, that all ranks of the communicator
    bring float32 of the same shape and the same codec (its full name).

    Without the check one rank would fail and the others would wait forever.

    Raises:
        InputError: shapes or codecs differ, or a rank brings no float32 (raised on all ranks).
    """
    refused, flat = None, np.empty(0, np.float32)
    try:
        flat = float32_values(values)
        words = f"shape {tuple(np.shape(values))} and {'no codec' if codec is None else codec.name}"
    except InputError as error:
        refused, words = error, f"what cannot be sent ({error})"
    own = np.frombuffer(words.encode(), np.uint8)
    sizes = np.empty(communicator.size, np.int64)
    communicator.Allgather(np.array([own.size], np.int64), sizes)
    brought = np.empty(sizes.sum(), np.uint8)
    communicator.Allgatherv(own, (brought, sizes))
    others = [piece.tobytes().decode() for piece in np.split(brought, np.cumsum(sizes)[:-1])]
    for rank, other in enumerate(others):
        if other != others[0]:
            raise InputError(f"rank {rank} brings {other}, rank 0 {others[0]}: expected the same")
    if refused is not None:
        raise refused
    return flat


def _gathered(
    values: ArrayLike, codec: Codec | None, communicator: Communicator | None, root: int
) -> list[Payload] | None:
    """Return, at the root, the encoded payloads of all ranks' values, in the order of ranks, its own too; None on the
    other ranks. Raises InputError on all ranks where shapes or codecs differ, or a rank brings no float32;
    UnsupportedError without mpi4py."""
    communicator = _communicator(communicator)
    outgoing = np.frombuffer(encode_block(codec, _agreed(communicator, values, codec)), np.uint8)
    sizes = np.empty(communicator.size, np.int64) if communicator.rank == root else None
    communicator.Gather(np.array([outgoing.size], np.int64), sizes, root)
    if sizes is None:
        communicator.Gatherv(outgoing, None, root)
        return None
    incoming = np.empty(sizes.sum(), np.uint8)
    communicator.Gatherv(outgoing, (incoming, sizes), root)
    return [piece.data for piece in np.split(incoming, np.cumsum(sizes)[:-1])]
