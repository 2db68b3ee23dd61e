"""What callers say to a rank that waits for another one, without being that other one."""

from __future__ import annotations

import socket
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from lightloom.exchange.transport import meeting
from lightloom.exchange.transport.channel import PAYLOAD, Frame
from lightloom.exchange.transport.meeting import CHALLENGE_SIZE, Handshakes, Introduction, Store
from tests.training.transport.rings import PATIENCE


@dataclass(frozen=True, slots=True)
class Target:
    """Rank 0 of a meeting, which waits for ``caller``."""

    address: tuple[str, int]
    meeting: str
    caller: int
    size: int
    secret: bytes
    """The secret of the meeting, which only who recorded a handshake makes use of."""

    def who(self, number: int) -> Introduction:
        """What the attacker with this number pretends to be: the data or the control connection of the caller."""
        return Introduction(self.caller, 0, (meeting.DATA, meeting.CONTROL)[number % 2], self.size)


Attack = Callable[[socket.socket, Introduction, Target], None]


def target_of(store: Store, name: str, *, caller: int, size: int) -> Target:
    """Wait until rank 0 listens, which it does once it knows from where ``caller`` will call."""
    store.set(f"{name}/route {caller}", "127.0.0.1")
    store.wait([f"{name}/address 0"], timedelta(seconds=PATIENCE))
    host, port = store.get(f"{name}/address 0").decode().rsplit(" ", 1)
    secret = bytes.fromhex(store.get(f"{name}/secret").decode())
    return Target((host, int(port)), name, caller, size, secret)


def run_attack(attack: Attack, target: Target, number: int) -> int:
    """Attack, and return how many bytes came before the rank hung up."""
    received = 0
    with suppress(OSError), socket.create_connection(target.address, timeout=PATIENCE) as sock:
        # Where the listener's queue was full, this end alone takes itself for connected: a probe hears that it is not.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
        attack(sock, target.who(number), target)
        while piece := sock.recv(100):
            received += len(piece)
    return received


def _challenge(sock: socket.socket) -> bytes:
    return sock.recv(CHALLENGE_SIZE, socket.MSG_WAITALL)


def _introduction(handshakes: Handshakes, who: Introduction, challenge: bytes) -> bytes:
    """What a caller answers to a challenge."""
    steps = handshakes.calling(who)
    next(steps)
    return steps.send(challenge)[0]


def the_token_of_before(sock: socket.socket, who: Introduction, target: Target) -> None:
    """Version 0.1 let anyone in who knew the name of the ring."""
    token = zlib.crc32(target.meeting.removeprefix("lightloom/").replace("meeting ", "").encode())
    sock.sendall(struct.pack("!4sIIII", b"LLR1", token, who.channel, who.caller, who.size))


def a_guessed_secret(sock: socket.socket, who: Introduction, target: Target) -> None:
    sock.sendall(_introduction(Handshakes(bytes(32), target.meeting), who, _challenge(sock)))


def a_stranger(sock: socket.socket, who: Introduction, target: Target) -> None:
    sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 9)


def silence(sock: socket.socket, who: Introduction, target: Target) -> None:
    pass


def half_an_introduction(sock: socket.socket, who: Introduction, target: Target) -> None:
    sock.sendall(_introduction(Handshakes(bytes(32), target.meeting), who, _challenge(sock))[:50])


def a_length_of_2_to_the_60(sock: socket.socket, who: Introduction, target: Target) -> None:
    sock.sendall(struct.pack("!4sQ", b"LLR2", 1 << 60) * 12 if who.channel else Frame(PAYLOAD, nbytes=1 << 60).pack())


def a_recorded_handshake(sock: socket.socket, who: Introduction, target: Target) -> None:
    """Words with which the caller proved itself to another challenge of this very meeting."""
    genuine = Handshakes(target.secret, target.meeting)
    sock.sendall(_introduction(genuine, who, b"LLR2" + bytes(CHALLENGE_SIZE - 4)))


def a_reset(sock: socket.socket, who: Introduction, target: Target) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


ATTACKS: tuple[Attack, ...] = (
    the_token_of_before,
    a_guessed_secret,
    a_stranger,
    silence,
    half_an_introduction,
    a_length_of_2_to_the_60,
    a_recorded_handshake,
    a_reset,
)
