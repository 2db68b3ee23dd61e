"""How ranks find each other and become a ring: through a torch.distributed store, or at given addresses."""

from __future__ import annotations

import socket
import struct
import time
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, Protocol

from lightloom.training.errors import TransportError
from lightloom.training.transport import DEFAULT_TIMEOUT, Ring

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
) -> Ring:
    """A ring of all ranks, which must all call this, and equally often for each ``name``.

    Args:
        store: e.g. ``torch.distributed.TCPStore``, or a process group's ``get_group_store()``.
        host: this rank's IPv4 address or name; others connect to it. Ports are free ones.
        timeout: seconds without progress before an exchange fails.
        setup_timeout: seconds until all ranks must be there.

    Raises:
        TransportError: a neighbour did not come in time, or cannot be reached.
    """
    deadline = time.monotonic() + setup_timeout
    key = f"lightloom/{name}"
    round_ = store.add(f"{key}/{rank}/rings", 1)
    following = f"{key}/{(rank + 1) % size}/{round_}"
    with _listener(rank, host, 0) as listener:
        store.set(f"{key}/{rank}/{round_}", f"{host}:{listener.getsockname()[1]}")
        try:
            store.wait([following], timedelta(seconds=setup_timeout))
            there, port = store.get(following).decode().rsplit(":", 1)
        except Exception as error:  # each kind of store has exceptions of its own
            raise TransportError(
                f"rank {rank}: rank {(rank + 1) % size} did not come within {setup_timeout:g} s"
            ) from error
        token = zlib.crc32(f"{name}/{round_}".encode())
        return _join(listener, (there, int(port)), rank, size, token, timeout, deadline)


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
    with _listener(rank, *addresses[rank]) as listener:
        return _join(listener, addresses[(rank + 1) % size], rank, size, 0, timeout, deadline)


def _listener(rank: int, host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(16)
    except OSError as error:
        listener.close()
        raise TransportError(f"rank {rank} cannot listen at {host}:{port}: {error.strerror or error}") from error
    return listener


def _join(
    listener: socket.socket,
    following: tuple[str, int],
    rank: int,
    size: int,
    token: int,
    timeout: float,
    deadline: float,
) -> Ring:
    """Connect to the next rank first (its backlog takes the call), then take the previous rank's calls."""
    if size < 2:
        raise TransportError(f"a ring needs at least 2 ranks, got {size}")
    with ExitStack() as opened:
        outgoing = []
        for channel in (_DATA, _CONTROL):
            sock = opened.enter_context(_connect(rank, (rank + 1) % size, following, deadline))
            sock.sendall(_HELLO.pack(_MAGIC, token, channel, rank, size))
            outgoing.append(sock)
        incoming: dict[int, socket.socket] = {}
        previous = (rank - 1) % size
        while len(incoming) < 2:
            sock, hello = _accept(listener, rank, previous, deadline)
            opened.enter_context(sock)
            if hello[1:] in ((token, _DATA, previous, size), (token, _CONTROL, previous, size)):
                incoming[hello[2]] = sock
            elif hello[0] == _MAGIC:
                raise TransportError(
                    f"rank {rank} of {size} expects rank {previous} of {size}, rank {hello[3]} of {hello[4]} called"
                )
        ring = Ring(
            rank,
            size,
            successor=(outgoing[0], outgoing[1]),
            predecessor=(incoming[_DATA], incoming[_CONTROL]),
            timeout=timeout,
        )
        opened.pop_all()
        return ring


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
