"""All ranks connected with each other, and rings over these connections.

Every message carries the stamp of the exchange that it belongs to (``channel.Stamp``): ranks that exchange different
things end with one line before a value is used, whatever sizes they send.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from lightloom.training.transport.channel import NO_STAMP, Channel
from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT, ChannelGroup
from lightloom.training.transport.payload import Payload
from lightloom.training.transport.rendezvous import Store, connect

_WHAT = "exchange"


class Mesh(ChannelGroup):
    """One rank's connections to all others; made by ``mesh_from_store``."""

    def __init__(
        self,
        rank: int,
        pairs: Mapping[int, tuple[socket.socket, socket.socket]],
        *,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Takes over the sockets, by peer, each pair as (data, control)."""
        self._peers = {peer: Channel(rank, peer, *pair, what=_WHAT) for peer, pair in sorted(pairs.items())}
        self.stamp = NO_STAMP
        """What the next messages belong to."""
        super().__init__(rank, tuple(self._peers.values()), timeout=timeout, what=_WHAT)

    def channel(self, peer: int) -> Channel:
        """The connections to a rank."""
        return self._peers[peer]

    def exchange(
        self, sends: Mapping[int, Payload], targets: Mapping[int, int | memoryview], *, marked: bool = False
    ) -> dict[int, Payload]:
        """Send a message to some ranks and receive one from some; see ``ChannelGroup.transfer``.

        Args:
            sends: contiguous bytes by rank.
            targets: by rank, the most bytes that can rightly come, or memory that they must fill.
            marked: whether they are compressed.

        Raises:
            TransportError: a rank died, left, fell silent, or exchanges something else.
        """
        outgoing = {self._peers[peer]: payload for peer, payload in sends.items()}
        incoming = {self._peers[peer]: target for peer, target in targets.items()}
        came = self.transfer(outgoing, incoming, marked=marked, stamp=self.stamp)
        return {peer: came[self._peers[peer]] for peer in targets}

    def compare(self) -> None:
        """Check that all ranks are about to exchange the same; raises as ``exchange``."""
        self.exchange(dict.fromkeys(self._peers, b""), dict.fromkeys(self._peers, 0))


class MeshRing:
    """Some ranks of a mesh as a ring: each sends to the next one while it receives from the one before."""

    def __init__(self, mesh: Mesh, members: Sequence[int]) -> None:
        """Order the ranks ``members``, two or more, of which this rank is one."""
        self.mesh = mesh
        self.rank, self.size = members.index(mesh.name), len(members)
        self.next, self._previous = members[(self.rank + 1) % self.size], members[self.rank - 1]

    def exchange(self, payload: Payload, *, marked: bool, limit: int) -> Payload:
        """Send to the next rank and return what the previous one sent; see ``Ring.exchange``."""
        return self.mesh.exchange({self.next: payload}, {self._previous: limit}, marked=marked)[self._previous]


def mesh_from_store(
    store: Store, rank: int, size: int, *, host: str | None = None, timeout: float, setup_timeout: float
) -> Mesh:
    """Connect all ranks with each other; all must call this, equally often, as ``rendezvous.ring_from_store``.

    Raises:
        TransportError: a rank did not connect in time, or cannot be reached.
    """
    calls, answers = range(rank), range(rank + 1, size)
    called, answered = connect(store, rank, size, calls, answers, name=_WHAT, host=host, setup_timeout=setup_timeout)
    return Mesh(rank, called | answered, timeout=timeout)
