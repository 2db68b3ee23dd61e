"""A ring of TCP connections: every rank sends to the next one and receives from the one before, at the same time.

    rank − 1 ═ data ═▶ rank ═ data ═▶ rank + 1            only encoded floats; ToS 0x28 while they are compressed
    rank − 1 ◀ control ▶ rank ◀ control ▶ rank + 1        never marked: sizes ahead of the data, farewells, reasons

A network card that compresses what is marked must see nothing but floats on the data sockets, hence the second
connection. Source: INCEPTIONN, section VI (ToS field 0x28 marks compressible traffic).
"""

from __future__ import annotations

import selectors
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any, NoReturn

from lightloom.training.control import ABORT, FAREWELL, FRAME_SIZE, PAYLOAD, Frame
from lightloom.training.errors import TransportError

if sys.platform == "linux":
    import fcntl

MARKED_TOS = 0x28
"""DSCP 10 (AF11), ECN 0."""
DEFAULT_TIMEOUT = 300.0
"""Seconds without any progress before a ring counts as broken; it must outlast the slowest rank's longest pause."""

_CHUNK = 1 << 20
_SIOCOUTQ = 0x5411
"""Linux: how many bytes are not yet sent or not yet acknowledged."""


class Ring:
    """One rank's place in a ring; made by ``lightloom.training.rendezvous``. Used by one thread at a time."""

    def __init__(
        self,
        rank: int,
        size: int,
        *,
        successor: tuple[socket.socket, socket.socket],
        predecessor: tuple[socket.socket, socket.socket],
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Takes over the sockets, each pair as (data, control); ``timeout`` in seconds without progress."""
        self.rank = rank
        self.size = size
        self.timeout = timeout
        self.closed = False
        self._next, self._previous = (rank + 1) % size, (rank - 1) % size
        self._data_out, self._control_out = successor
        self._data_in, self._control_in = predecessor
        self._sockets = (*successor, *predecessor)
        self._sequence = 0
        self._marked = False
        self._reason = "the ring is closed"
        self._heard = {self._control_in: bytearray(), self._control_out: bytearray()}
        self._next_left = False
        self._busy = False
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        for sock in self._sockets:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, payload: Any, *, marked: bool, limit: int) -> bytearray:
        """Send ``payload`` to the next rank while receiving the previous rank's.

        Args:
            payload: bytes-like, contiguous.
            marked: whether it is compressed; both neighbours must agree, message by message.
            limit: the most bytes that the previous rank can rightly send.

        Raises:
            TransportError: a rank died, broke the ring, fell silent for ``timeout`` seconds, or is out of step.
        """
        with self._lock:
            if self.closed:
                raise TransportError(f"rank {self.rank}: {self._reason}")
            self._busy = True
        try:
            self._switch(marked)
            return self._pass(memoryview(payload).cast("B"), marked, limit)
        finally:
            with self._lock:
                self._busy = False
                self._release_if_closed()

    def abort(self, reason: str) -> None:
        """Tell both neighbours in one line why this rank leaves, and close. Does nothing once closed."""
        self._leave(Frame(ABORT, text=reason), reason)

    def close(self) -> None:
        """Say farewell and close. May be called any number of times, from any thread."""
        self._leave(Frame(FAREWELL), self._reason)

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _pass(self, payload: memoryview, marked: bool, limit: int) -> bytearray:
        frame = Frame(PAYLOAD, marked=marked, sequence=self._sequence, nbytes=len(payload))
        sends = {self._control_out: memoryview(frame.pack()), self._data_out: payload}
        if not payload:
            del sends[self._data_out]
        body: bytearray | None = None
        rest = memoryview(b"")
        while sends or rest or body is None:
            if self._next_left and sends:
                self._fail(f"rank {self._next} has left the ring")
            for sock, mask in self._wait(sends, bool(rest), body is None):
                if mask & selectors.EVENT_WRITE:
                    self._send(sock, sends)
                if not mask & selectors.EVENT_READ:
                    continue
                if sock is self._data_in:
                    rest = rest[self._receive(sock, rest) :]
                elif (announced := self._listen(sock)) is not None:
                    body = bytearray(self._check(announced, marked, limit))
                    rest = memoryview(body)
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        return body

    def _wait(
        self, sends: dict[socket.socket, memoryview], data: bool, announcement: bool
    ) -> list[tuple[socket.socket, int]]:
        """The sockets on which something can be done, control ahead of data; fails after ``timeout`` seconds."""
        wanted = dict.fromkeys(sends, selectors.EVENT_WRITE)
        if data:
            wanted[self._data_in] = selectors.EVENT_READ
        if announcement:  # what comes after it belongs to the next exchange
            wanted[self._control_in] = selectors.EVENT_READ
        if not self._next_left:
            wanted[self._control_out] = wanted.get(self._control_out, 0) | selectors.EVENT_READ
        registered = self._selector.get_map()
        for sock in self._sockets:
            if sock in registered and sock not in wanted:
                self._selector.unregister(sock)
            elif sock in registered and registered[sock].events != wanted[sock]:
                self._selector.modify(sock, wanted[sock])
            elif sock in wanted and sock not in registered:
                self._selector.register(sock, wanted[sock])
        ready = self._selector.select(self.timeout)
        if not ready:
            silent = self._previous if data or announcement else self._next
            self._fail(f"no progress with rank {silent} for {self.timeout:g} s (it may itself be waiting)")
        masks = {key.fileobj: mask for key, mask in ready}
        order = (self._control_in, self._control_out, self._data_in, self._data_out)
        return [(sock, masks[sock]) for sock in order if sock in masks]

    def _send(self, sock: socket.socket, sends: dict[socket.socket, memoryview]) -> None:
        try:
            sends[sock] = sends[sock][sock.send(sends[sock][:_CHUNK]) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # reset, timed out, no route: gone in any case
            self._lost(sock)
        if not sends[sock]:
            del sends[sock]

    def _receive(self, sock: socket.socket, target: memoryview) -> int:
        """Bytes received into the head of ``target``, 0 when none are there yet."""
        try:
            count = sock.recv_into(target[:_CHUNK])
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            count = 0
        if count == 0:
            self._lost(sock)
        return count

    def _listen(self, sock: socket.socket) -> Frame | None:
        """Read a control socket; the announcement of a payload if one is complete, farewells and reasons obeyed."""
        heard = self._heard[sock]
        peer = self._previous if sock is self._control_in else self._next
        piece = memoryview(bytearray(FRAME_SIZE - len(heard)))
        heard += piece[: self._receive(sock, piece)]
        if len(heard) < FRAME_SIZE:
            return None
        frame = Frame.unpack(heard)
        heard.clear()
        if frame is None:
            self._fail(f"rank {peer} does not speak our protocol")
        if frame.kind == ABORT:
            self._fail(f"{frame.text} (told by rank {peer})" if "(told" not in frame.text else frame.text)
        if frame.kind == PAYLOAD:
            return frame
        if sock is self._control_in:
            self._fail(f"rank {peer} has left the ring")
        self._next_left = True
        return None

    def _check(self, frame: Frame, marked: bool, limit: int) -> int:
        """The announced bytes, if they are what this rank is waiting for."""
        if frame.sequence != self._sequence:
            self._fail(
                f"rank {self._previous} sends message {frame.sequence}, rank {self.rank} expects {self._sequence}"
            )
        if frame.marked != marked:
            words = {False: "uncompressed", True: "compressed"}
            self._fail(
                f"rank {self._previous} sends {words[frame.marked]} data, rank {self.rank} expects {words[marked]}"
            )
        if frame.nbytes > limit:
            self._fail(f"rank {self._previous} sends {frame.nbytes} bytes, rank {self.rank} expects at most {limit}")
        return frame.nbytes

    def _switch(self, marked: bool) -> None:
        """Set the ToS of what is sent from now on; waits until nothing of the last message can still leave."""
        if marked == self._marked:
            return
        deadline = time.monotonic() + self.timeout
        while self._unacknowledged():
            if time.monotonic() > deadline:
                self._fail(f"no progress with rank {self._next} for {self.timeout:g} s (it may itself be waiting)")
            time.sleep(1e-4)
        self._data_out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, MARKED_TOS if marked else 0)
        self._marked = marked

    def _unacknowledged(self) -> int:
        if sys.platform != "linux":
            return 0
        return int.from_bytes(fcntl.ioctl(self._data_out, _SIOCOUTQ, bytes(4)), sys.byteorder)

    def _lost(self, sock: socket.socket) -> NoReturn:
        """A connection is gone: the peer's last words, if it had any, say why."""
        peer = self._previous if sock in (self._data_in, self._control_in) else self._next
        reason = f"rank {peer} closed its connection"
        control = self._control_in if peer == self._previous and sock is not self._control_out else self._control_out
        if sock is not control:
            with suppress(OSError):
                last = Frame.unpack(bytes(self._heard[control]) + control.recv(FRAME_SIZE - len(self._heard[control])))
                if last is not None and last.kind == ABORT:
                    reason = last.text
        self._fail(reason)

    def _fail(self, reason: str) -> NoReturn:
        self.abort(reason)
        raise TransportError(f"rank {self.rank}: {self._reason}")

    def _leave(self, frame: Frame, reason: str) -> None:
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self._reason = reason
            for sock in (self._control_out, self._control_in):
                with suppress(OSError):
                    sock.send(frame.pack())
            for sock in self._sockets:  # wakes an exchange that waits in another thread
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            self._release_if_closed()

    def _release_if_closed(self) -> None:
        if self.closed and not self._busy:
            for sock in self._sockets:
                sock.close()
            self._selector.close()
