"""How ranks find each other and connect: through a torch.distributed store, or at given addresses."""

from __future__ import annotations

import socket
import struct
import time
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, Protocol

from lightloom.training.transport.errors import TransportError
from lightloom.training.transport.peers import DEFAULT_TIMEOUT, Ring

Pair = tuple[socket.socket, socket.socket]
"""Data and control."""
Connections = tuple[dict[int, Pair], dict[int, Pair]]

_HELLO = struct.Struct("!4sIIII")
_MAGIC = b"LLR1"
_DATA, _CONTROL = 0, 1
_SETUP_TIMEOUT = 60.0
_HELLO_TIMEOUT = 5.0


class Store(Protocol):
    """The part of ``torch.distributed.Store`` that is needed."""

    def set(self, key: str, value: str) -> Any:
        """Publish."""

    def get(self, key: str) -> bytes:
        """Read what is there."""

    def add(self, key: str, amount: int) -> int:
        """Count up and return the sum."""

    def wait(self, keys: list[str], timeout: timedelta) -> Any:
        """Return when all keys are there, raise after ``timeout``."""


def ring_from_store(
    store: Store,
    rank: int,
    size: int,
    *,
    name: str = "ring",
    host: str = "127.0.0.1",
    timeout: float = DEFAULT_TIMEOUT,
    setup_timeout: float = _SETUP_TIMEOUT,
    names: Sequence[int] | None = None,
) -> Ring:
    """A ring of all ranks, which must all call this, and equally often for each ``name``.

    Args:
        store: e.g. ``torch.distributed.TCPStore``, or a process group's ``get_group_store()``.
        host: this rank's IPv4 address or name; others connect to it. Ports are free ones.
        timeout: seconds without progress before an exchange fails.
        setup_timeout: seconds until all ranks must be there.
        names: what the ranks are called in messages, where this ring is part of something larger.

    Raises:
        TransportError: a neighbour did not come in time, or cannot be reached.
    """
    _check_size(size)
    following, previous = (rank + 1) % size, (rank - 1) % size
    called, answered = connect(
        store, rank, size, (following,), (previous,), name=name, host=host, setup_timeout=setup_timeout, names=names
    )
    return Ring(rank, size, successor=called[following], predecessor=answered[previous], timeout=timeout, names=names)


def ring_from_addresses(
    rank: int,
    addresses: Sequence[tuple[str, int]],
    *,
    timeout: float = DEFAULT_TIMEOUT,
    setup_timeout: float = _SETUP_TIMEOUT,
) -> Ring:
    """A ring in which rank i listens at ``addresses[i]`` (IPv4 host, port).

    Raises:
        TransportError: the address is taken, or a neighbour did not come within ``setup_timeout`` seconds.
    """
    deadline = time.monotonic() + setup_timeout
    size = len(addresses)
    _check_size(size)
    following, previous = (rank + 1) % size, (rank - 1) % size
    with _listener(rank, *addresses[rank], 1) as listener, _Meeting(rank, range(size), 0, deadline) as meeting:
        meeting.call(following, addresses[following])
        meeting.answer(listener, (previous,))
        called, answered = meeting.keep()
    return Ring(rank, size, successor=called[following], predecessor=answered[previous], timeout=timeout)


def connect(
    store: Store,
    rank: int,
    size: int,
    calls: Sequence[int],
    answers: Sequence[int],
    *,
    name: str,
    host: str,
    setup_timeout: float = _SETUP_TIMEOUT,
    names: Sequence[int] | None = None,
) -> Connections:
    """Connect to the ranks ``calls`` and take the calls of the ranks ``answers``; (data, control) by peer, of both.

    All ranks call this, equally often for each ``name``, and agree on who calls whom.

    Raises:
        TransportError: one of them did not come in time, or cannot be reached.
    """
    deadline = time.monotonic() + setup_timeout
    names = names or range(size)
    key = f"lightloom/{name}"
    round_ = store.add(f"{key}/{rank}/meetings", 1)
    token = zlib.crc32(f"{name}/{round_}".encode())
    with _listener(names[rank], host, 0, len(answers)) as listener, _Meeting(rank, names, token, deadline) as meeting:
        store.set(f"{key}/{rank}/{round_}", f"{host}:{listener.getsockname()[1]}")
        for peer in calls:
            published = f"{key}/{peer}/{round_}"
            try:
                store.wait([published], timedelta(seconds=max(deadline - time.monotonic(), 0.01)))
                there, port = store.get(published).decode().rsplit(":", 1)
            except Exception as error:  # each kind of store has exceptions of its own
                raise TransportError(
                    f"rank {names[rank]}: rank {names[peer]} did not come within {setup_timeout:g} s"
                ) from error
            meeting.call(peer, (there, int(port)))
        meeting.answer(listener, answers)
        return meeting.keep()


def _check_size(size: int) -> None:
    if size < 2:
        raise TransportError(f"a ring needs at least 2 ranks, got {size}")


class _Meeting:
    """Connections being made: (data, control) by peer, all closed at the end unless kept.

    Who calls does not wait to be answered: the listener's backlog takes the call. So all may call first, then answer.
    """

    def __init__(self, rank: int, names: Sequence[int], token: int, deadline: float) -> None:
        """Connections of ``rank`` of ``len(names)``; ``token`` tells this meeting from earlier ones."""
        self.called: dict[int, Pair] = {}
        self.answered: dict[int, Pair] = {}
        self._rank, self._names, self._token, self._deadline = rank, names, token, deadline
        self._opened = ExitStack()

    def call(self, peer: int, address: tuple[str, int]) -> None:
        """Connect to a rank that listens at ``address``."""
        pair = []
        for channel in (_DATA, _CONTROL):
            sock = _connect(self._names[self._rank], self._names[peer], address, self._deadline)
            self._opened.enter_context(sock)
            sock.sendall(_HELLO.pack(_MAGIC, self._token, channel, self._rank, len(self._names)))
            pair.append(sock)
        self.called[peer] = (pair[0], pair[1])

    def answer(self, listener: socket.socket, peers: Sequence[int]) -> None:
        """Wait until all ``peers`` have called; strangers are hung up on."""
        waiting = {(peer, channel): None for peer in peers for channel in (_DATA, _CONTROL)}
        came: dict[tuple[int, int], socket.socket] = {}
        size, names = len(self._names), self._names
        while waiting:
            sock, hello = _accept(listener, names[self._rank], names[next(iter(waiting))[0]], self._deadline)
            self._opened.enter_context(sock)
            _, token, channel, peer, their_size = hello
            if (token, their_size) != (self._token, size) or (peer, channel) not in waiting:
                expected = ", ".join(str(names[peer]) for peer in dict.fromkeys(peer for peer, _ in waiting))
                raise TransportError(
                    f"rank {names[self._rank]} of {size} expects rank {expected} of {size}, "
                    f"rank {peer} of {their_size} called"
                )
            del waiting[peer, channel]
            came[peer, channel] = sock
        self.answered = {peer: (came[peer, _DATA], came[peer, _CONTROL]) for peer in peers}

    def keep(self) -> Connections:
        """The connections called and those answered; whoever takes them closes them."""
        self._opened.pop_all()
        return self.called, self.answered

    def __enter__(self) -> _Meeting:
        return self

    def __exit__(self, *exception: object) -> None:
        self._opened.close()


def _listener(rank: int, host: str, port: int, peers: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(16 + 2 * peers)
    except OSError as error:
        listener.close()
        raise TransportError(f"rank {rank} cannot listen at {host}:{port}: {error.strerror or error}") from error
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


def _accept(
    listener: socket.socket, rank: int, previous: int, deadline: float
) -> tuple[socket.socket, tuple[bytes, int, int, int, int]]:
    """The next caller that introduces itself; callers that are no ranks are hung up on."""
    while (left := deadline - time.monotonic()) > 0:
        listener.settimeout(left)
        try:
            sock, _ = listener.accept()
        except TimeoutError:
            break
        sock.settimeout(min(left, _HELLO_TIMEOUT))
        try:
            hello = sock.recv(_HELLO.size, socket.MSG_WAITALL)
        except OSError:
            hello = b""
        if len(hello) == _HELLO.size and hello.startswith(_MAGIC):
            return sock, _HELLO.unpack(hello)
        sock.close()
    raise TransportError(f"rank {rank}: rank {previous} did not come in time")
