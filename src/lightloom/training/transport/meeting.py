"""How one rank connects to several others at once: it calls some and answers others, all handshakes side by side.

A caller that is silent, speaks another protocol or does not know the job's secret is hung up on and delays nobody. A
rank that was hung up on, because the machine was busy for longer than a handshake may take, calls again until the
deadline.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lightloom.training.transport.errors import TransportError
from lightloom.training.transport.handshake import Handshakes, Introduction, RefusedError, Steps

DATA, CONTROL = 0, 1
"""The two connections between a pair of ranks."""
HANDSHAKE_SECONDS = 10.0
"""Time after which a caller that has not proved who it is is hung up on, in seconds."""
MOST_CALLERS = 128
"""Unproved callers that are listened to at the same time; for one more, the oldest is hung up on."""
_RETRY_SECONDS = 0.05

Pair = tuple[socket.socket, socket.socket]
"""Sockets of the data and the control connection."""
Address = tuple[str, int]
_REMEDY = (
    "check that the hosts reach each other's TCP ports; host= sets the address at which a rank listens, by default the "
    "one from which it reaches the store"
)


@dataclass(slots=True, eq=False)
class _Conversation:
    """One connection on which a handshake is under way."""

    sock: socket.socket
    steps: Steps
    deadline: float
    call: Introduction | None
    """What this rank calls; None where it answers."""
    connecting: bool = False
    wanted: int = 0
    received: bytearray = field(default_factory=bytearray)


class Meeting:
    """The connections of one rank while they are made."""

    def __init__(self, rank: int, names: Sequence[int], handshakes: Handshakes, deadline: float) -> None:
        """Prepare; ``names`` are the ranks' names in messages, ``deadline`` is on ``time.monotonic``."""
        self._rank, self._names, self._handshakes, self._deadline = rank, names, handshakes, deadline
        self._selector = selectors.DefaultSelector()
        self._conversations: dict[socket.socket, _Conversation] = {}
        self._connected: dict[Introduction, socket.socket] = {}
        self._due: dict[Introduction, float] = {}
        """When each missing call is to be made."""
        self._addresses: Mapping[int, Address] = {}
        self._faults: dict[int, str] = {}
        self._refused = 0

    def connect(
        self, listener: socket.socket, calls: Mapping[int, Address], answers: Sequence[int]
    ) -> tuple[dict[int, Pair], dict[int, Pair]]:
        """Call the ranks ``calls`` at their addresses and be called by ``answers``; return the sockets of both by peer.

        Raises:
            TransportError: a rank did not call in time, cannot be reached, or disagrees about who calls whom.
        """
        size, own = len(self._names), self._rank
        outgoing = [Introduction(own, peer, channel, size) for peer in calls for channel in (DATA, CONTROL)]
        incoming = [Introduction(peer, own, channel, size) for peer in answers for channel in (DATA, CONTROL)]
        self._addresses = calls
        self._due = dict.fromkeys(outgoing, time.monotonic())
        try:
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ)
            while len(self._connected) < len(outgoing) + len(incoming):
                self._turn(listener, incoming)
        except BaseException:
            for sock in self._connected.values():
                sock.close()
            raise
        finally:
            for conversation in list(self._conversations.values()):
                self._hang_up(conversation)
            self._selector.close()
        return self._pairs(calls, outgoing, lambda who: who.answerer), self._pairs(
            answers, incoming, lambda who: who.caller
        )

    def _pairs(
        self,
        peers: Sequence[int] | Mapping[int, Address],
        whos: Sequence[Introduction],
        peer_of: Callable[[Introduction], int],
    ) -> dict[int, Pair]:
        sockets = {(peer_of(who), who.channel): self._connected[who] for who in whos}
        return {peer: (sockets[peer, DATA], sockets[peer, CONTROL]) for peer in peers}

    def _turn(self, listener: socket.socket, incoming: Sequence[Introduction]) -> None:
        """Make the calls that are due, wait for what comes next, and act on it."""
        now = time.monotonic()
        if now >= self._deadline:
            raise TransportError(self._absence(incoming))
        for who in [who for who, due in self._due.items() if due <= now]:
            del self._due[who]
            self._call(who)
        for conversation in [c for c in self._conversations.values() if c.deadline <= now]:
            self._hang_up(conversation)
            self._refused += 1
        times = [self._deadline, *self._due.values(), *(c.deadline for c in self._conversations.values())]
        for key, _ in self._selector.select(max(min(times) - now, 0.0)):
            if key.fileobj is listener:
                self._accept(listener)
            elif (conversation := self._conversations.get(key.fileobj)) is not None:  # type: ignore[call-overload]
                self._serve(conversation, incoming)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(BlockingIOError, InterruptedError, ConnectionError):
            sock, _ = listener.accept()
            unproved = [c for c in self._conversations.values() if c.call is None]
            if len(unproved) >= MOST_CALLERS:
                self._hang_up(unproved[0])
                self._refused += 1
            deadline = time.monotonic() + HANDSHAKE_SECONDS
            self._begin(_Conversation(sock, self._handshakes.answering(), deadline, None))

    def _call(self, who: Introduction) -> None:
        host, port = self._addresses[who.answerer]
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            sock = socket.socket(family, kind, protocol)
        except OSError as error:
            raise self._unreachable(who.answerer, error.strerror or str(error)) from error
        sock.setblocking(False)
        fault = sock.connect_ex(address)
        if fault not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            sock.close()
            self._call_again(who, OSError(fault, os.strerror(fault)))
            return
        conversation = _Conversation(sock, self._handshakes.calling(who), self._deadline, who, connecting=True)
        self._conversations[sock] = conversation
        self._selector.register(sock, selectors.EVENT_WRITE)

    def _call_again(self, who: Introduction, fault: Exception) -> None:
        """Repeat a call that failed.

        Raises:
            TransportError: no later call can succeed.
        """
        words = getattr(fault, "strerror", None) or str(fault)
        if not isinstance(fault, ConnectionError | TimeoutError | RefusedError):
            raise self._unreachable(who.answerer, words) from fault
        self._faults[who.answerer] = words
        self._due[who] = time.monotonic() + _RETRY_SECONDS

    def _serve(self, conversation: _Conversation, incoming: Sequence[Introduction]) -> None:
        """Go on with a handshake; one that fails is ended, and repeated if this rank called."""
        sock = conversation.sock
        try:
            if conversation.connecting:
                if fault := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise OSError(fault, os.strerror(fault))
                self._selector.unregister(sock)
                conversation.connecting = False
                self._begin(conversation)
                return
            piece = sock.recv(conversation.wanted - len(conversation.received))
            if not piece:
                raise ConnectionResetError("it hung up during the handshake")
            conversation.received += piece
            if len(conversation.received) == conversation.wanted:
                self._advance(conversation, bytes(conversation.received), incoming)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, RefusedError) as fault:
            self._hang_up(conversation)
            if conversation.call is None:
                self._refused += 1
            else:
                self._call_again(conversation.call, fault)

    def _begin(self, conversation: _Conversation) -> None:
        """Listen to a connection on which the handshake starts."""
        conversation.sock.setblocking(False)
        self._conversations[conversation.sock] = conversation
        self._selector.register(conversation.sock, selectors.EVENT_READ)
        try:
            outgoing, conversation.wanted = next(conversation.steps)
            _send(conversation.sock, outgoing)
        except ConnectionError:
            self._hang_up(conversation)

    def _advance(self, conversation: _Conversation, message: bytes, incoming: Sequence[Introduction]) -> None:
        """Pass a whole message to the handshake, send what it answers, and keep the socket after the last step."""
        conversation.received.clear()
        try:
            outgoing, conversation.wanted = conversation.steps.send(message)
            _send(conversation.sock, outgoing)
            if conversation.wanted == 0:
                conversation.steps.send(b"")
        except StopIteration as ended:
            who: Introduction = ended.value
            if conversation.call is None and who not in incoming:
                raise self._disagreement(who, incoming) from None
            self._keep(conversation, who)

    def _keep(self, conversation: _Conversation, who: Introduction) -> None:
        self._selector.unregister(conversation.sock)
        del self._conversations[conversation.sock]
        if (earlier := self._connected.pop(who, None)) is not None:
            earlier.close()  # the rank called again: it has not heard that this rank accepted
        self._connected[who] = conversation.sock

    def _hang_up(self, conversation: _Conversation) -> None:
        self._selector.unregister(conversation.sock)
        del self._conversations[conversation.sock]
        conversation.sock.close()

    def _unreachable(self, peer: int, reason: str) -> TransportError:
        host, port = self._addresses[peer]
        names = self._names
        return TransportError(
            f"rank {names[self._rank]} cannot reach rank {names[peer]} at {host} port {port}: {reason}; {_REMEDY}"
        )

    def _absence(self, incoming: Sequence[Introduction]) -> str:
        """What is missing at the deadline, in words."""
        missing = {c.call for c in self._conversations.values() if c.call is not None} | set(self._due)
        if missing:
            peer = min(who.answerer for who in missing)
            return str(self._unreachable(peer, self._faults.get(peer, "no answer in time")))
        peer = min(who.caller for who in incoming if who not in self._connected)
        strangers = (
            f" ({self._refused} callers that did not know the secret of this job were hung up on)"
            if self._refused
            else ""
        )
        return f"rank {self._names[self._rank]}: rank {self._names[peer]} did not come in time{strangers}; {_REMEDY}"

    def _disagreement(self, who: Introduction, incoming: Sequence[Introduction]) -> TransportError:
        names, size = self._names, len(self._names)
        expected = ", ".join(str(names[peer]) for peer in sorted({other.caller for other in incoming}))
        return TransportError(
            f"rank {names[self._rank]} of {size} expects rank {expected} of {size}, rank {who.caller} of {who.size} "
            "called"
        )


def _send(sock: socket.socket, message: bytes) -> None:
    """Send a short message, which the empty buffer of a new connection holds."""
    if message and sock.send(message) != len(message):
        raise ConnectionResetError("a handshake does not fit the socket's buffer")
