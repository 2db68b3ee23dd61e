"""A ring of processes with sockets of its own: send to the next rank while receiving from the one before.

rank − 1 ═ data ═▶ rank ═ data ═▶ rank + 1
rank − 1 ◀ control ▶ rank ◀ control ▶ rank + 1
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

import numpy as np

from lightloom.core.arrays import Float32s
from lightloom.exchange.compression.codec import Codec, float32_values
from lightloom.exchange.transport.channel import Channel, Payload, TransportError
from lightloom.exchange.transport.channel_group import DEFAULT_TIMEOUT, ChannelGroup
from lightloom.exchange.transport.meeting import Store, connect
from lightloom.exchange.transport.ring_all_reduce import all_reduce_in_place


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that one rank sent on its data connections in one exchange."""

    nbytes_raw: int
    """Bytes that the same exchange sends without a codec."""
    nbytes_sent: int
    """Bytes that this exchange sent."""

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.nbytes_raw + other.nbytes_raw, self.nbytes_sent + other.nbytes_sent)


class Ring(ChannelGroup):
    """One rank's place in a ring; made by ``ring_from_store``."""

    def __init__(
        self,
        rank: int,
        size: int,
        *,
        successor: tuple[socket.socket, socket.socket],
        predecessor: tuple[socket.socket, socket.socket],
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Take over the sockets, each pair as (data, control); ``timeout`` is in seconds without progress."""
        self.rank, self.size = rank, size
        self.next = Channel(rank, (rank + 1) % size, *successor)
        self.previous = Channel(rank, (rank - 1) % size, *predecessor)
        super().__init__(rank, (self.previous, self.next), timeout=timeout)

    def exchange(self, payload: Payload, *, marked: bool, limit: int) -> Payload:
        """Send ``payload`` to the next rank while receiving the previous rank's.

        Args:
            payload: bytes-like, contiguous.
            marked: whether it is compressed; both neighbours must agree, message by message.
            limit: the most bytes that the previous rank can rightly send.

        Raises:
            TransportError: a rank died, broke the ring, fell silent for ``timeout`` seconds, or is out of step.
        """
        return self.transfer({self.next: payload}, {self.previous: limit}, marked=marked)[self.previous]


def ring_from_store(
    store: Store,
    rank: int,
    size: int,
    *,
    name: str = "ring",
    host: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    setup_timeout: float = DEFAULT_TIMEOUT,
) -> Ring:
    """Connect a ring of all ranks; all must call this, equally often for each ``name``.

    Args:
        store: for example ``torch.distributed.TCPStore``, or a process group's ``get_group_store()``.
        host: address or name of this rank, IPv4 or IPv6, to which others connect; None takes the address from which
            this rank reaches the store. The system chooses ports.
        timeout: time without progress after which an exchange fails, in seconds.
        setup_timeout: time within which all ranks must connect, in seconds.

    Raises:
        TransportError: a neighbour did not connect in time, or cannot be reached.
    """
    if size < 2:
        raise TransportError(f"a ring needs at least 2 ranks, got {size}")
    following, previous = (rank + 1) % size, (rank - 1) % size
    called, answered = connect(
        store, rank, size, (following,), (previous,), name=name, host=host, setup_timeout=setup_timeout
    )
    return Ring(rank, size, successor=called[following], predecessor=answered[previous], timeout=timeout)


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
        sent = all_reduce_in_place(ring, total, codec, residual)
    blocks = np.array_split(total, ring.size)
    kept = blocks[(ring.rank + 1) % ring.size].nbytes + blocks[(ring.rank + 2) % ring.size].nbytes
    return total, Traffic(2 * total.nbytes - kept, sent)
