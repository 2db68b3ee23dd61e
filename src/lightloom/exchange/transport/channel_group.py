"""Exchanges of one rank with several peers at once."""

import selectors
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn, Self

from lightloom.exchange.transport.channel import (
    ABORT,
    FAREWELL,
    NO_STAMP,
    Channel,
    Frame,
    Payload,
    Stamp,
    TransportError,
)

DEFAULT_TIMEOUT = 300.0
"""Time without progress after which an exchange fails, in seconds; longer than any pause of a slow rank."""


class ChannelGroup:
    """All channels of one rank, which are closed together. Used by one thread at a time."""

    def __init__(
        self, name: int, channels: Sequence[Channel], *, timeout: float = DEFAULT_TIMEOUT, what: str = "ring"
    ) -> None:
        """Take over the channels, whose sockets the group closes.

        Args:
            name: what this rank is called in messages.
            timeout: seconds without progress.
            what: the word for the whole.
        """
        self.name = name
        self.timeout = timeout
        self.closed = False
        self._what = what
        self._reason = f"the {what} is closed"
        self._channels = tuple(channels)
        self._owners = {channel.control: channel for channel in channels}
        self._owners |= {channel.data: channel for channel in channels}
        self._sockets = tuple(self._owners)
        """Sockets in the order in which they are served: control before data."""
        self._busy = False
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._registered: dict[socket.socket, int] = {}
        """Events registered with the selector; asking the selector itself costs system calls."""

    def transfer(
        self,
        sends: Mapping[Channel, Payload],
        targets: Mapping[Channel, int | memoryview],
        *,
        marked: bool,
        stamp: Stamp = NO_STAMP,
    ) -> dict[Channel, bytearray | memoryview]:
        """Send and receive one message on each of several channels, all at once, and return the received bytes by
        channel of ``targets``, in the memory given there or in new memory.

        Args:
            sends: the payload by the channel to send it on; bytes-like, contiguous.
            targets: by the channel to receive on, the most bytes that can rightly come, or memory that they must fill.
            marked: whether the payloads are compressed; both ends of a channel must agree, message by message.
            stamp: identity of the exchange that the messages belong to; both ends must agree.

        Raises:
            TransportError: the group is closed; or a rank died, broke off, fell silent for ``timeout`` seconds, or is
                out of step. The group is then closed, and all peers are told.
        """
        with self._lock:
            if self.closed:
                raise TransportError(f"rank {self.name}: {self._reason}")
            self._busy = True
        try:
            for channel, payload in sends.items():
                self._mark(channel, marked)
                channel.offer(memoryview(payload).cast("B"), marked, stamp)
            for channel, target in targets.items():
                channel.expect(marked, target, stamp)
            while any(channel.sending or channel.receiving for channel in self._channels):
                for sock, mask in self._wait():
                    self._owners[sock].serve(sock, mask)
            return {channel: channel.body for channel in targets}
        except TransportError as fault:
            self._fail(str(fault))
        finally:
            with self._lock:
                self._busy = False
                self._release_if_closed()

    @contextmanager
    def breaking_off(self, *common: type[Exception]) -> Iterator[None]:
        """Return a context manager: if its body fails, the reason is sent to all peers, all channels are closed, and
        the error passes on; errors of the types ``common``, which all ranks raise in step, pass on and close
        nothing."""
        try:
            yield
        except common:
            raise
        except BaseException as error:
            words = str(error).replace("\n", " ")
            if isinstance(error, TransportError):
                self.abort(words.removeprefix(f"rank {self.name}: "))
            else:
                self.abort(f"rank {self.name} failed: {type(error).__name__}: {words}")
            raise

    def abort(self, reason: str) -> None:
        """Send all peers ``reason``, one line, and close, so that later exchanges raise it. Nothing is done if the
        group is closed already.

        A peer that is behind, and has all that it needs of this rank, ends its exchange before it is told.
        """
        self._leave(Frame(ABORT, text=reason), reason)

    def close(self) -> None:
        """Send all peers a farewell and close the connections. May be called any number of times, from any thread."""
        self._leave(Frame(FAREWELL), self._reason)

    def __enter__(self) -> Self:
        """Return the group itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Send all peers a farewell and close, whether or not the block raised."""
        self.close()

    def _mark(self, channel: Channel, marked: bool) -> None:
        """Set the ToS of a channel's next message, waiting until the last message is acknowledged where it changes;
        raises TransportError after ``timeout`` seconds."""
        deadline = time.monotonic() + self.timeout
        while not channel.may_mark(marked):
            if time.monotonic() > deadline:
                raise TransportError(self._silence(channel))
            time.sleep(1e-4)

    def _wait(self) -> list[tuple[socket.socket, int]]:
        """Wait until sockets are ready, and return them with their selector events, in a fixed order, control sockets
        before data sockets; raises TransportError after ``timeout`` seconds without any, naming a peer from which
        something is awaited, or else to which something is sent."""
        wanted: dict[socket.socket, int] = {}
        for channel in self._channels:
            wanted |= channel.wanted()
        for sock in self._sockets:
            before, now = self._registered.get(sock, 0), wanted.get(sock, 0)
            if before and not now:
                self._selector.unregister(sock)
            elif before and before != now:
                self._selector.modify(sock, now)
            elif now and not before:
                self._selector.register(sock, now)
        self._registered = wanted
        masks = {key.fileobj: mask for key, mask in self._selector.select(self.timeout)}
        if not masks:
            waiting = [channel for channel in self._channels if channel.receiving]
            raise TransportError(self._silence((waiting or [c for c in self._channels if c.sending])[0]))
        return [(sock, masks[sock]) for sock in self._sockets if sock in masks]

    def _silence(self, channel: Channel) -> str:
        """Return the message, for a TransportError, that nothing came from or went to the peer of a channel for
        ``timeout`` seconds."""
        return f"no progress with rank {channel.peer} for {self.timeout:g} s (it may itself be waiting)"

    def _fail(self, reason: str) -> NoReturn:
        """Send all peers the reason, close, and raise TransportError with the first reason for which this rank closed,
        which may be an earlier one."""
        self.abort(reason)
        raise TransportError(f"rank {self.name}: {self._reason}")

    def _leave(self, frame: Frame, reason: str) -> None:
        """Send all peers a last frame and shut the sockets down, once; ``reason`` is what later exchanges raise.
        Nothing is done if the group is closed already."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self._reason = reason
            for channel in self._channels:
                channel.say(frame)
            for sock in self._sockets:  # wakes an exchange that waits in another thread
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            self._release_if_closed()

    def _release_if_closed(self) -> None:
        """Close sockets and selector of a closed group, unless an exchange still uses them; the lock must be held."""
        if self.closed and not self._busy:
            for sock in self._sockets:
                sock.close()
            self._selector.close()
