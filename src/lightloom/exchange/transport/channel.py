"""The two connections between a pair of ranks, and the state of the messages on them.

    rank ◀═ data ═▶ peer            only encoded values; ToS 0x28 while they are compressed
    rank ◀ control ▶ peer           never marked: sizes, farewells, errors

A network card that compresses marked packets must see only values on the data connection, hence the second connection.
Source: INCEPTIONN, section VI (ToS field 0x28 marks compressible traffic).

Frames of the control connection have 512 bytes each, so that an incomplete frame is never ambiguous:

"LL" | kind (1 byte) | marked (1) | sequence (4) | payload bytes (8) | digest (16) | words (UTF-8, padded with zeros)

The digest, of what the message belongs to, must be the same at both ends; the words say the same to people, or why a
rank breaks off.
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, NoReturn

import numpy as np

from lightloom.core.arrays import Float32s
from lightloom.core.errors import CodecError, InputError, LightloomError
from lightloom.exchange.compression.codec import Codec

# Errors of communication between processes.
#
# LightloomError
# ├── InputError
# │   └── AgreedError  all ranks refuse alike
# ├── TransportError   connections between ranks failed: names the rank at fault
# └── LaunchError      a worker process ended without a result


class AgreedError(InputError):
    """All ranks of an exchange raise this together, in step: connections stay, and the next exchange works."""


class TransportError(LightloomError):
    """Connections between ranks could not be made, or failed; the message names this rank and the one at fault."""


class LaunchError(LightloomError):
    """A worker process failed, died or ran out of time; the message names its rank and quotes its output."""


if sys.platform == "linux":
    import fcntl

MARKED_TOS = 0x28
"""DSCP 10 (AF11), ECN 0."""

_CHUNK = 1 << 20
_SIOCOUTQ = 0x5411
"""Linux: how many bytes are not yet sent or not yet acknowledged."""

_LAYOUT = struct.Struct("!2sBBIQ16s480s")
_MAGIC = b"LL"
_LONGEST = 480
_LONGEST_STAMP = 200
"""Words of two stamps fit in a frame beside what is said about them."""

FRAME_SIZE = _LAYOUT.size
"""Size of a frame, in bytes."""
PAYLOAD, FAREWELL, ABORT = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Stamp:
    """Identity of the exchange that a message belongs to: both ends of a channel must have the same digest."""

    digest: bytes = bytes(16)
    """At most 16 bytes."""
    words: str = "nothing in particular"
    """Description of the exchange for error messages."""

    @classmethod
    def of(cls, words: str, *details: object) -> Stamp:
        """Return the stamp of an exchange: the digest is the BLAKE2b, 16 bytes, of ``words`` and ``details`` (by their
        ``repr``), the text is ``words``, cut to 200 bytes and marked with `` ...`` where they are longer."""
        digest = blake2b(repr((words, *details)).encode(), digest_size=16).digest()
        short = words.encode()[:_LONGEST_STAMP].decode(errors="ignore")
        return cls(digest, short if short == words else f"{short} ...")


NO_STAMP = Stamp()
"""Stamp of messages that belong to nothing that ranks could disagree about."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message: a payload follows on the data connection, the rank leaves, or it fails for a stated reason."""

    kind: int
    marked: bool = False
    sequence: int = 0
    nbytes: int = 0
    text: str = ""
    digest: bytes = NO_STAMP.digest

    def pack(self) -> bytes:
        """Return the frame as bytes, always ``FRAME_SIZE`` = 512 many; a text of more than 480 bytes in UTF-8 is cut
        there, a shorter one padded with zeros."""
        reason = self.text.encode()[:_LONGEST]
        return _LAYOUT.pack(_MAGIC, self.kind, self.marked, self.sequence, self.nbytes, self.digest, reason)

    @staticmethod
    def unpack(data: bytes | bytearray) -> Frame | None:
        """Return the frame in ``data``; None if that has another size, or does not begin as frames do, or has an
        unknown kind."""
        if len(data) != FRAME_SIZE:
            return None
        magic, kind, marked, sequence, nbytes, digest, reason = _LAYOUT.unpack(data)
        if magic != _MAGIC or kind not in (PAYLOAD, FAREWELL, ABORT):
            return None
        return Frame(kind, bool(marked), sequence, nbytes, reason.rstrip(b"\0").decode(errors="replace"), digest)


def _difference(words: Mapping[int, str]) -> str:
    """Return a sentence that says what two ranks exchange that should exchange the same; both ranks make the same
    sentence, the lower rank first. Where the descriptions are equal, it says that names, shapes or places of tensors
    differ.

    Args:
        words: the description of each rank's exchange, by rank; two entries.
    """
    (a, first), (b, second) = sorted(words.items())
    if first == second:
        return f"ranks {a} and {b} both exchange {first}, but with tensors of other names, shapes or places"
    return f"rank {a} exchanges {first}, rank {b} {second}: expected the same on all ranks"


def _type_of_service(sock: socket.socket) -> tuple[int, int]:
    """Return the (level, option) for ``setsockopt`` that mark the packets of a socket: ToS in IPv4, traffic class in
    IPv6."""
    if sock.family == socket.AF_INET6:
        return socket.IPPROTO_IPV6, socket.IPV6_TCLASS
    return socket.IPPROTO_IP, socket.IP_TOS


class _Expected(NamedTuple):
    """The message that is awaited."""

    marked: bool
    target: int | memoryview
    """The most bytes that may come, or where they go."""
    stamp: Stamp


class Channel:
    """One rank's end of the connections to one peer; ``ChannelGroup`` waits for the sockets and calls ``serve``.

    Faults are raised as ``TransportError`` with the reason alone.
    """

    def __init__(
        self, rank: int, peer: int, data: socket.socket, control: socket.socket, *, what: str = "ring"
    ) -> None:
        """Take over both sockets; ``what`` is the word in messages for the whole that they are part of."""
        self.rank, self.peer = rank, peer
        self.data, self.control = data, control
        self.body: bytearray | memoryview = bytearray()
        """The last message received; complete when ``receiving`` is false."""
        self._what = what
        self._sends: dict[socket.socket, memoryview] = {}
        self._expected: _Expected | None = None
        self._rest = memoryview(b"")
        self._announced: Frame | None = None
        self._heard = bytearray()
        self._absence = ""
        self._marked = False
        self._sequence_out = self._sequence_in = 0
        for sock in (data, control):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def sending(self) -> bool:
        """True while part of the offered message is not yet sent, its announcement included."""
        return bool(self._sends)

    @property
    def receiving(self) -> bool:
        """True while part of the expected message has not arrived."""
        return self._expected is not None

    def may_mark(self, marked: bool) -> bool:
        """Set whether packets of the next message are marked as compressed, by their ToS (DSCP 10; 0 for others), and
        return True; return False, and set nothing, while this is to change and bytes of the last message are not yet
        acknowledged."""
        if marked != self._marked:
            if self._unacknowledged():
                return False
            self.data.setsockopt(*_type_of_service(self.data), MARKED_TOS if marked else 0)
            self._marked = marked
        return True

    def offer(self, payload: memoryview, marked: bool, stamp: Stamp = NO_STAMP) -> None:
        """Begin to send a message; ``serve`` sends it, an announcement on the control connection and ``payload`` on the
        data connection. The last message must be sent already.

        Args:
            payload: bytes to send.
            marked: whether they are compressed, as the peer must expect.
            stamp: identity of the exchange, which the peer must expect too.

        Raises:
            TransportError: the peer is already known to be gone.
        """
        frame = Frame(PAYLOAD, marked, self._sequence_out, len(payload), stamp.words, stamp.digest)
        self._sequence_out = (self._sequence_out + 1) & 0xFFFFFFFF
        self._sends = {self.control: memoryview(frame.pack())}
        if payload:
            self._sends[self.data] = payload
        self._check_presence()

    def expect(self, marked: bool, target: int | memoryview, stamp: Stamp = NO_STAMP) -> None:
        """Begin to receive a message, whose announcement may have arrived already; ``serve`` receives it into ``body``,
        which is ``target`` itself where that is memory, else new memory of the announced size.

        Args:
            marked: whether it must be compressed.
            target: the most bytes that it may have, or memory that it must fill exactly.
            stamp: identity of the exchange, which must be the sender's.

        Raises:
            TransportError: the peer is already known to be gone, or has announced another message.
        """
        self._expected = _Expected(marked, target, stamp)
        if self._announced is not None:
            self._begin_body(self._announced)
        self._check_presence()

    def wanted(self) -> dict[socket.socket, int]:
        """Return the selector events to wait for, by socket: those of unsent and of awaited bytes; sockets with nothing
        to wait for are left out. The control connection is read unless a message's data is arriving, a message is
        announced that is not expected yet, or the peer is known to be gone."""
        wanted = dict.fromkeys(self._sends, selectors.EVENT_WRITE)
        if self._rest:
            wanted[self.data] = wanted.get(self.data, 0) | selectors.EVENT_READ
        # During a message nothing is read that follows it. Otherwise a peer that gives up is heard at once.
        if self._announced is None and not self._absence and not self._rest:
            wanted[self.control] = wanted.get(self.control, 0) | selectors.EVENT_READ
        return wanted

    def serve(self, sock: socket.socket, mask: int) -> None:
        """Send and receive on one of the channel's sockets what it allows without waiting.

        Args:
            sock: the data or the control socket.
            mask: selector events that are ready.

        Raises:
            TransportError: the peer died, left, failed or sends another message than expected.
        """
        if mask & selectors.EVENT_WRITE:
            self._send(sock)
        if mask & selectors.EVENT_READ:
            if sock is self.data:
                self._rest = self._rest[self._receive(sock, self._rest) :]
                if not self._rest:
                    self._expected = None
            else:
                self._listen()

    def say(self, frame: Frame) -> None:
        """Send a last frame on the control connection, as far as the socket takes it at once; errors are ignored."""
        with suppress(OSError):
            self.control.send(frame.pack())

    def _send(self, sock: socket.socket) -> None:
        """Send what a socket takes at once, 1 MiB at most, of what is left to send on it; raises TransportError for a
        lost connection."""
        try:
            self._sends[sock] = self._sends[sock][sock.send(self._sends[sock][:_CHUNK]) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # reset, timed out, no route: gone in any case
            self._lost()
        if not self._sends[sock]:
            del self._sends[sock]

    def _receive(self, sock: socket.socket, target: memoryview) -> int:
        """Receive what waits in a socket, 1 MiB at most, into the beginning of ``target``; return the number of bytes,
        0 if none have arrived. Raises TransportError for a lost connection."""
        try:
            count = sock.recv_into(target[:_CHUNK])
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            count = 0
        if count == 0:
            self._lost()
        return count

    def _listen(self) -> None:
        """Read the control connection and, once a frame is whole, act on it: begin the message that it announces, keep
        it until a message is expected, or note why the peer ends.

        Raises:
            TransportError: what comes is no frame, announces another message than expected, or the peer is gone while
                something is still to be exchanged with it.
        """
        piece = memoryview(bytearray(FRAME_SIZE - len(self._heard)))
        try:
            self._heard += piece[: self._receive(self.control, piece)]
        except TransportError as gone:
            self._absence = str(gone)  # no matter, as long as nothing is left to exchange with it
            self._check_presence()
        if len(self._heard) < FRAME_SIZE:
            return
        frame = Frame.unpack(self._heard)
        self._heard.clear()
        if frame is None:
            raise TransportError(f"rank {self.peer} does not speak our protocol")
        if frame.kind != PAYLOAD:
            # No matter either, as long as nothing is left to exchange with it: it may be ahead of this rank.
            self._absence = self._reason_of(frame)
            self._check_presence()
        elif self._expected is None:
            self._announced = frame  # of the next exchange: the peer is ahead of us
        else:
            self._begin_body(frame)

    def _check_presence(self) -> None:
        """Raise TransportError where the peer is already known to be gone and something is still to be sent to it, or
        the data of an expected message has not begun; nothing is probed."""
        if self._absence and (self._sends or (self._expected is not None and not self._rest)):
            raise TransportError(self._absence)

    def _begin_body(self, frame: Frame) -> None:
        """Begin to receive the message that ``frame`` announces, in new memory or in that given to ``expect``; raises
        TransportError unless its stamp, sequence number, compression and size are those expected."""
        assert self._expected is not None
        marked, target, stamp = self._expected
        if frame.digest != stamp.digest:
            raise TransportError(_difference({self.rank: stamp.words, self.peer: frame.text}))
        if frame.sequence != self._sequence_in:
            raise TransportError(
                f"rank {self.peer} sends message {frame.sequence}, rank {self.rank} expects {self._sequence_in}"
            )
        if frame.marked != marked:
            words = {False: "uncompressed", True: "compressed"}
            raise TransportError(
                f"rank {self.peer} sends {words[frame.marked]} data, rank {self.rank} expects {words[marked]}"
            )
        limit = target if isinstance(target, int) else len(target)
        if frame.nbytes > limit or (frame.nbytes < limit and target is not limit):
            most = "at most " if target is limit else ""
            raise TransportError(f"rank {self.peer} sends {frame.nbytes} bytes, rank {self.rank} expects {most}{limit}")
        self._announced = None
        self._sequence_in = (self._sequence_in + 1) & 0xFFFFFFFF
        self.body = bytearray(frame.nbytes) if isinstance(target, int) else target
        self._rest = memoryview(self.body)
        if not self._rest:
            self._expected = None

    def _unacknowledged(self) -> int:
        """Return the bytes that the data connection has not sent or not had acknowledged; 0 on other systems than
        Linux."""
        if sys.platform != "linux":
            return 0
        return int.from_bytes(fcntl.ioctl(self.data, _SIOCOUTQ, bytes(4)), sys.byteorder)

    def _lost(self) -> NoReturn:
        """Raise TransportError for a closed connection, with the reason that the peer gave, if one has arrived."""
        reason = self._absence or f"rank {self.peer} closed its connection"
        with suppress(OSError):  # the reason may wait to be read although nothing can be sent any more
            while (last := self._overheard()) is not None:
                if last.kind == ABORT:
                    reason = self._reason_of(last)
        raise TransportError(reason)

    def _reason_of(self, last: Frame) -> str:
        """Return a sentence that says why a peer ends, from its last frame: that it left, or the reason that it gives,
        with the rank that told it."""
        if last.kind == FAREWELL:
            return f"rank {self.peer} has left the {self._what}"
        return last.text if "(told" in last.text else f"{last.text} (told by rank {self.peer})"

    def _overheard(self) -> Frame | None:
        """Receive once from the control connection, and return the frame that this completes, together with the bytes
        that came before; None if it is not whole or no frame, and those bytes are dropped. Raises OSError where nothing
        waits."""
        frame = Frame.unpack(bytes(self._heard) + self.control.recv(FRAME_SIZE - len(self._heard)))
        self._heard.clear()
        return frame


# Payloads of messages between ranks: float32 values as they are or encoded, and the errors of encoding them.

Payload = bytes | bytearray | memoryview
"""Contiguous bytes of one message."""
StreamObserver = Callable[[Payload], None]
"""Function that is called with every stream that a rank encodes."""


def payload_limit(values: int) -> int:
    """Return the largest size in bytes of a valid payload of ``values`` float32 values: 8 a value and 64 KiB.

    No codec makes its input much longer; the limit keeps a faulty peer from filling the memory.
    """
    return 8 * values + 65536


def encode_block(
    codec: Codec | None, block: Float32s, *, leave: bool = False, observe: StreamObserver | None = None
) -> Payload:
    """Return the payload of a block of float32 values: its stream, or its bytes as they are without a codec, which may
    then be the block's own memory; empty for an empty block.

    Args:
        codec: encoder of the values; None sends them as they are.
        block: values, of one dimension.
        leave: replace the block, in place, by the errors of encoding its values: 0 without a codec, and where a value
            is not finite.
        observe: called with the stream, if a codec made one.
    """
    if block.size == 0:
        return b""
    if codec is None:
        payload = block.view(np.uint8).tobytes() if leave else np.ascontiguousarray(block).view(np.uint8).data
        if leave:
            block[:] = 0
        return payload
    stream = codec.encode_leaving(block) if leave else codec.encode(block)
    if observe is not None:
        observe(stream)
    return stream


def decode_block(
    codec: Codec | None, payload: Payload, size: int, *, rank: int, peer: int, out: Float32s | None = None
) -> Float32s:
    """Return the ``size`` float32 values of a payload that ``rank`` received from ``peer``.

    Args:
        codec: decoder; None takes the payload as float32 values, which share its memory.
        payload: the message.
        size: number of values expected; where it is 0, the payload must be empty, whatever the codec.
        rank, peer: receiver and sender, for messages.
        out: memory into which a codec decodes; the result may be this array.

    Raises:
        TransportError: the payload holds another number of values, or is malformed.
    """
    if codec is None or size == 0:
        if (nbytes := memoryview(payload).nbytes) != 4 * size:
            raise _malformed(rank, peer, f"{nbytes} bytes, expected {4 * size}")
        return np.frombuffer(payload, np.float32)
    try:
        values = codec.decode(payload) if out is None else codec.decode(payload, out=out)
    except CodecError as error:
        raise _malformed(rank, peer, error) from error
    if values.size != size:
        raise _malformed(rank, peer, f"{values.size} values, expected {size}")
    return values


def add_decoded(codec: Codec | None, payload: Payload, target: Float32s, *, rank: int, peer: int) -> None:
    """Add the values of a payload to ``target``, in place, in one pass of the codec if there is one. An empty
    ``target`` needs an empty payload.

    Args:
        codec: decoder; None takes the payload as float32 values.
        payload: the message that ``rank`` received from ``peer``.
        target: as many values as the payload must hold.
        rank, peer: receiver and sender, for messages.

    Raises:
        TransportError: the payload holds another number of values, or is malformed; ``target`` may then hold part of
            the sum.
    """
    if codec is None or target.size == 0:
        with np.errstate(over="ignore", invalid="ignore"):
            target += decode_block(codec, payload, target.size, rank=rank, peer=peer)
        return
    try:
        codec.decode_adding(payload, target)
    except CodecError as error:
        raise _malformed(rank, peer, error) from error


def _malformed(rank: int, peer: int, fault: object) -> TransportError:
    """Return, without raising it, the error of a message of ``peer`` that ``rank`` cannot use; ``fault`` says why."""
    return TransportError(f"rank {rank}: the message of rank {peer} is malformed: {fault}")
