"""How ranks find each other and connect: through a torch.distributed store.

The store carries each rank's address and a secret that rank 0 draws for every meeting; ranks prove to each other that
they know it (``training.transport.handshake``). Whoever can read the store belongs to the job; nobody else does.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT
from lightloom.training.transport.errors import TransportError
from lightloom.training.transport.handshake import Handshakes
from lightloom.training.transport.meeting import MOST_CALLERS, Address, Meeting, Pair
from lightloom.training.transport.own_address import address_for, is_unspecified, route_to_store
from lightloom.training.transport.ring import Ring


class Store(Protocol):
    """The methods of ``torch.distributed.Store`` that connecting needs."""

    def set(self, key: str, value: str) -> object:
        """Store a value under a key."""

    def get(self, key: str) -> bytes:
        """Return the value of a key."""

    def add(self, key: str, amount: int) -> int:
        """Increase the counter of a key and return it."""

    def wait(self, keys: list[str], timeout: timedelta) -> object:
        """Return when all keys have values; raise after ``timeout``."""


def ring_from_store(
    store: Store,
    rank: int,
    size: int,
    *,
    name: str = "ring",
    host: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    setup_timeout: float = DEFAULT_TIMEOUT,
    names: Sequence[int] | None = None,
) -> Ring:
    """Connect a ring of all ranks; all must call this, equally often for each ``name``.

    Args:
        store: for example ``torch.distributed.TCPStore``, or a process group's ``get_group_store()``.
        host: address or name of this rank, IPv4 or IPv6, to which others connect; None takes the address from which
            this rank reaches the store. The system chooses ports.
        timeout: time without progress after which an exchange fails, in seconds.
        setup_timeout: time within which all ranks must connect, in seconds.
        names: names of the ranks in messages, if the ring is part of a larger group.

    Raises:
        TransportError: a neighbour did not connect in time, or cannot be reached.
    """
    if size < 2:
        raise TransportError(f"a ring needs at least 2 ranks, got {size}")
    following, previous = (rank + 1) % size, (rank - 1) % size
    called, answered = connect(
        store, rank, size, (following,), (previous,), name=name, host=host, setup_timeout=setup_timeout, names=names
    )
    return Ring(rank, size, successor=called[following], predecessor=answered[previous], timeout=timeout, names=names)


def connect(
    store: Store,
    rank: int,
    size: int,
    calls: Sequence[int],
    answers: Sequence[int],
    *,
    name: str,
    host: str | None = None,
    setup_timeout: float = DEFAULT_TIMEOUT,
    names: Sequence[int] | None = None,
) -> tuple[dict[int, Pair], dict[int, Pair]]:
    """Connect to the ranks ``calls`` and accept the ranks ``answers``; return the sockets of both by peer.

    All ranks call this, equally often for each ``name``, and agree on who calls whom. Callers that do not know the
    secret of this meeting are hung up on.

    Raises:
        TransportError: a rank did not connect in time, or cannot be reached.
    """
    deadline = time.monotonic() + setup_timeout
    names = names or range(size)
    round_ = store.add(f"lightloom/{name}/{rank}/meetings", 1)
    board = _Board(store, f"lightloom/{name}/meeting {round_}", rank, names, deadline, setup_timeout)
    if rank == 0:
        board.publish("secret", secrets.token_hex(32))
    with _listener(names[rank], board.own_address(host, answers), len(answers)) as listener:
        address, port = socket.getnameinfo(listener.getsockname(), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
        board.publish(f"address {rank}", f"{address} {port}")
        addresses = {peer: board.address(peer) for peer in calls}
        handshakes = Handshakes(bytes.fromhex(board.read("secret", 0)), board.key)
        return Meeting(rank, names, handshakes, deadline).connect(listener, addresses, answers)


class _Board:
    """What the ranks of one meeting publish in the store."""

    def __init__(
        self, store: Store, key: str, rank: int, names: Sequence[int], deadline: float, setup_timeout: float
    ) -> None:
        self.key = key
        self._store, self._rank, self._names = store, rank, names
        self._deadline, self._setup_timeout = deadline, setup_timeout

    def publish(self, what: str, value: str) -> None:
        self._store.set(f"{self.key}/{what}", value)

    def read(self, what: str, peer: int) -> str:
        """Wait for what ``peer`` publishes.

        Raises:
            TransportError: it does not come in time.
        """
        key, left = f"{self.key}/{what}", max(self._deadline - time.monotonic(), 0.01)
        try:
            self._store.wait([key], timedelta(seconds=left))
            return self._store.get(key).decode()
        except Exception as error:  # each kind of store has exceptions of its own
            own, other = self._names[self._rank], self._names[peer]
            raise TransportError(f"rank {own}: rank {other} did not come within {self._setup_timeout:g} s") from error

    def address(self, peer: int) -> Address:
        """Return where a rank listens."""
        host, port = self.read(f"address {peer}", peer).rsplit(" ", 1)
        return host, int(port)

    def own_address(self, host: str | None, callers: Sequence[int]) -> str:
        """Return the address at which this rank listens, and tell the others from where it comes."""
        route = host or route_to_store(self._store)
        self.publish(f"route {self._rank}", route)
        if host is None:
            return address_for(route, (self.read(f"route {caller}", caller) for caller in callers))
        if is_unspecified(host):
            raise TransportError(
                f"rank {self._names[self._rank]} cannot be called at {host!r}, which stands for all addresses of a "
                "host: expected one that the other ranks reach"
            )
        return host


def _listener(rank: int, host: str, peers: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _cannot_listen(rank, host, error) from error
    try:
        listener.bind(address)
        listener.listen(MOST_CALLERS + 2 * peers)
    except OSError as error:
        listener.close()
        raise _cannot_listen(rank, host, error) from error
    return listener


def _cannot_listen(rank: int, host: str, error: OSError) -> TransportError:
    return TransportError(
        f"rank {rank} cannot listen at {host}: {error.strerror or error}; host= must be an address of this rank's own "
        "host"
    )
