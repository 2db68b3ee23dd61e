"""A ring of ranks: each sends to the next rank while it receives from the previous one.

rank − 1 ═ data ═▶ rank ═ data ═▶ rank + 1
rank − 1 ◀ control ▶ rank ◀ control ▶ rank + 1
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from lightloom.training.transport.channel import Channel
from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT, ChannelGroup
from lightloom.training.transport.payload import Payload


class Ring(ChannelGroup):
    """One rank's place in a ring; made by ``lightloom.training.transport.rendezvous``."""

    def __init__(
        self,
        rank: int,
        size: int,
        *,
        successor: tuple[socket.socket, socket.socket],
        predecessor: tuple[socket.socket, socket.socket],
        timeout: float = DEFAULT_TIMEOUT,
        names: Sequence[int] | None = None,
    ) -> None:
        """Takes over the sockets, each pair as (data, control).

        Args:
            timeout: seconds without progress.
            names: what the ranks of this ring are called in messages, where it is part of something larger.
        """
        names = names or range(size)
        self.rank = rank
        self.size = size
        self.next = Channel(names[rank], names[(rank + 1) % size], *successor)
        self.previous = Channel(names[rank], names[(rank - 1) % size], *predecessor)
        super().__init__(names[rank], (self.previous, self.next), timeout=timeout)

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
