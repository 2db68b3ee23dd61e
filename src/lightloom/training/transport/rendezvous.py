"""How ranks find each other and connect: through a torch.distributed store."""

from __future__ import annotations

import selectors
import socket
import struct
import time
import zlib
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, cast

from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT
from lightloom.training.transport.errors import TransportError
from lightloom.training.transport.ring import Ring

Pair = tuple[socket.socket, socket.socket]
"""Sockets of the data and the control connection."""

_HELLO = struct.Struct("!4sIIII")
_MAGIC = b"LLR1"
_DATA, _CONTROL = 0, 1


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
    host: str = "127.0.0.1",
    timeout: float = DEFAULT_TIMEOUT,
    setup_timeout: float = DEFAULT_TIMEOUT,
    names: Sequence[int] | None = None,
) -> Ring:
    """Connect a ring of all ranks; all must call this, equally often for each ``name``.

    Args:
        store: for example ``torch.distributed.TCPStore``, or a process group's ``get_group_store()``.
        host: IPv4 address or name of this rank, to which others connect; the system chooses ports.
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
    host: str,
    setup_timeout: float = DEFAULT_TIMEOUT,
    names: Sequence[int] | None = None,
) -> tuple[dict[int, Pair], dict[int, Pair]]:
    """Connect to the ranks ``calls`` and accept the ranks ``answers``; return the sockets of both by peer.

    All ranks call this, equally often for each ``name``, and agree on who calls whom.

    Raises:
        TransportError: a rank did not connect in time, or cannot be reached.
    """
    deadline = time.monotonic() + setup_timeout
    names = names or range(size)
    key = f"lightloom/{name}"
    round_ = store.add(f"{key}/{rank}/meetings", 1)
    token = zlib.crc32(f"{name}/{round_}".encode())
    called: dict[int, Pair] = {}
    with _listener(names[rank], host, len(answers)) as listener, ExitStack() as opened:
        meeting = _Meeting(rank, names, token, deadline, opened)
        store.set(f"{key}/{rank}/{round_}", f"{host}:{listener.getsockname()[1]}")
        for peer in calls:
            published = f"{key}/{peer}/{round_}"
            try:
                store.wait([published], timedelta(seconds=max(deadline - time.monotonic(), 0.01)))
                address, port = store.get(published).decode().rsplit(":", 1)
            except Exception as error:  # each kind of store has exceptions of its own
                raise TransportError(
                    f"rank {names[rank]}: rank {names[peer]} did not come within {setup_timeout:g} s"
                ) from error
            called[peer] = meeting.call(peer, (address, int(port)))
        answered = meeting.answer(listener, answers)
        opened.pop_all()
    return called, answered


def wait_for_all(store: Store, size: int, key: str, timeout: float) -> None:
    """Return once ``size`` ranks have called this with the same ``key``, which may be used once.

    A gloo group needs this after it is made: a rank leaves its constructor once its own connections stand. If it then
    left the group at once, the constructors of slower ranks would fail with "Connection closed by peer".

    Raises:
        Exception: a rank did not call within ``timeout`` seconds; each kind of store has an exception of its own.
    """
    if store.add(f"{key}/arrived", 1) == size:
        store.set(f"{key}/complete", "")
    store.wait([f"{key}/complete"], timedelta(seconds=timeout))


@dataclass(frozen=True, slots=True)
class _Meeting:
    """How one rank connects to others.

    Who calls does not wait to be answered: the listener's backlog takes the call. So all may call first, then answer.
    """

    rank: int
    names: Sequence[int]
    token: int
    """Tells this meeting from earlier ones."""
    deadline: float
    opened: ExitStack
    """Holds every socket of the meeting."""

    def call(self, peer: int, address: tuple[str, int]) -> Pair:
        """Connect to a rank that listens at ``address``."""
        return self._call(peer, address, _DATA), self._call(peer, address, _CONTROL)

    def _call(self, peer: int, address: tuple[str, int], channel: int) -> socket.socket:
        sock = _connect(self.names[self.rank], self.names[peer], address, self.deadline)
        self.opened.enter_context(sock)
        sock.sendall(_HELLO.pack(_MAGIC, self.token, channel, self.rank, len(self.names)))
        return sock

    def answer(self, listener: socket.socket, peers: Sequence[int]) -> dict[int, Pair]:
        """Wait until all ``peers`` have called; connections of callers that are not ranks are closed."""
        waiting = {(peer, channel) for peer in peers for channel in (_DATA, _CONTROL)}
        answered: dict[tuple[int, int], socket.socket] = {}
        size, names = len(self.names), self.names
        with closing(self._introductions(listener)) as callers:
            while waiting and (caller := next(callers, None)) is not None:
                sock, (token, channel, peer, their_size) = caller
                if (token, their_size) != (self.token, size) or (peer, channel) not in waiting:
                    expected = ", ".join(str(names[peer]) for peer in peers if (peer, _CONTROL) in waiting)
                    raise TransportError(
                        f"rank {names[self.rank]} of {size} expects rank {expected} of {size}, "
                        f"rank {peer} of {their_size} called"
                    )
                waiting.remove((peer, channel))
                answered[peer, channel] = sock
        if waiting:
            raise TransportError(f"rank {names[self.rank]}: rank {names[min(waiting)[0]]} did not come in time")
        return {peer: (answered[peer, _DATA], answered[peer, _CONTROL]) for peer in peers}

    def _introductions(
        self, listener: socket.socket
    ) -> Generator[tuple[socket.socket, tuple[int, int, int, int]], None, None]:
        """Yield each caller once it has introduced itself, until the deadline; a slow caller delays no other."""
        listener.setblocking(False)
        with selectors.DefaultSelector() as selector, ExitStack() as strangers:
            selector.register(listener, selectors.EVENT_READ)
            while (left := self.deadline - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    with suppress(BlockingIOError, InterruptedError):
                        if key.fileobj is listener:
                            sock = strangers.enter_context(listener.accept()[0])
                            sock.setblocking(False)
                            selector.register(sock, selectors.EVENT_READ, bytearray())
                        elif (hello := _read_hello(sock := cast(socket.socket, key.fileobj), key.data)) is not None:
                            selector.unregister(sock)
                            if hello.startswith(_MAGIC):
                                # A duplicate, as the stack closes every caller in the end.
                                yield self.opened.enter_context(sock.dup()), _HELLO.unpack(hello)[1:]


def _listener(rank: int, host: str, peers: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((host, 0))
        listener.listen(16 + 2 * peers)
    except OSError as error:
        listener.close()
        raise TransportError(f"rank {rank} cannot listen at {host}: {error.strerror or error}") from error
    return listener


def _connect(rank: int, peer: int, address: tuple[str, int], deadline: float) -> socket.socket:
    while True:
        left = deadline - time.monotonic()
        try:
            return socket.create_connection(address, timeout=max(left, 0.01))
        except OSError as error:
            if left <= 0 or not isinstance(error, ConnectionError):
                raise TransportError(
                    f"rank {rank} cannot reach rank {peer} at {address[0]}:{address[1]}: {error.strerror or error}"
                ) from error
        time.sleep(0.02)


def _read_hello(caller: socket.socket, received: bytearray) -> bytearray | None:
    """Read more of an introduction into ``received``; None while it is incomplete, empty if it is a stranger's."""
    try:
        piece = caller.recv(_HELLO.size - len(received))
    except ConnectionError:
        piece = b""
    received += piece
    if len(received) == _HELLO.size:
        return received
    return None if piece and received.startswith(_MAGIC[: len(received)]) else bytearray()
