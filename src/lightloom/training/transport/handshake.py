"""How two ranks prove to each other that they belong to the same job, before anything else passes between them.

    caller                                                answerer
           ◀── challenge: magic, nonce a ─────────────────
           ─── introduction: who, nonce c, proof ────────▶    proof  = HMAC(secret, "calls", who, a, c)
           ◀── acceptance: proof ─────────────────────────    proof' = HMAC(secret, "answers", who, a, c)

The secret belongs to one meeting of one job: rank 0 draws it and the store carries it. Both nonces are drawn anew for
every connection, so that a recorded handshake proves nothing later, in either direction. All messages have a fixed
length, so that no caller can make this rank wait for, or allocate, what it announces. Nothing here touches a socket.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from collections.abc import Generator
from dataclasses import dataclass

_MAGIC = b"LLR2"
_NONCE = 32
_PROOF = 32
_WHO = struct.Struct("!IIII")

CHALLENGE_SIZE = len(_MAGIC) + _NONCE
"""Size of a challenge, in bytes."""
INTRODUCTION_SIZE = len(_MAGIC) + _WHO.size + _NONCE + _PROOF
"""Size of an introduction, in bytes."""
ACCEPTANCE_SIZE = _PROOF
"""Size of an acceptance, in bytes."""

Steps = Generator[tuple[bytes, int], bytes, "Introduction"]
"""Yields what to send and how many bytes to receive then; is sent these bytes; returns who called."""


class RefusedError(Exception):
    """The other end does not know the secret, or does not speak this protocol."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a caller says of itself: its rank, the rank it calls, and which of their connections this is."""

    caller: int
    """Rank of the caller."""
    answerer: int
    """Rank that is called."""
    channel: int
    """Which of the connections between the two this is."""
    size: int
    """Number of ranks in the meeting, as the caller knows it."""

    def pack(self) -> bytes:
        """Return the introduction as bytes of a fixed length."""
        return _WHO.pack(self.caller, self.answerer, self.channel, self.size)


@dataclass(frozen=True, slots=True)
class Handshakes:
    """The handshakes of one meeting."""

    secret: bytes
    """What only the ranks of this job know."""
    meeting: str
    """Name of the meeting; part of every proof."""

    def calling(self, who: Introduction) -> Steps:
        """Run the caller's side.

        Raises:
            RefusedError: the answerer does not know the secret.
        """
        challenge = yield b"", CHALLENGE_SIZE
        if not challenge.startswith(_MAGIC):
            raise RefusedError("the answer is not a challenge")
        theirs, own = challenge[len(_MAGIC) :], secrets.token_bytes(_NONCE)
        introduction = _MAGIC + who.pack() + own + self._proof(b"calls", who, theirs, own)
        acceptance = yield introduction, ACCEPTANCE_SIZE
        if not hmac.compare_digest(acceptance, self._proof(b"answers", who, theirs, own)):
            raise RefusedError("whoever answers does not know the secret of this job")
        return who

    def answering(self) -> Steps:
        """Run the answerer's side; what it returns is proved.

        Raises:
            RefusedError: the caller does not know the secret.
        """
        own = secrets.token_bytes(_NONCE)
        introduction = yield _MAGIC + own, INTRODUCTION_SIZE
        magic, rest = introduction[: len(_MAGIC)], introduction[len(_MAGIC) :]
        if magic != _MAGIC:
            raise RefusedError("the caller does not introduce itself")
        who = Introduction(*_WHO.unpack(rest[: _WHO.size]))
        theirs, proof = rest[_WHO.size : _WHO.size + _NONCE], rest[_WHO.size + _NONCE :]
        if not hmac.compare_digest(proof, self._proof(b"calls", who, own, theirs)):
            raise RefusedError("the caller does not know the secret of this job")
        yield self._proof(b"answers", who, own, theirs), 0
        return who

    def _proof(self, side: bytes, who: Introduction, challenge: bytes, nonce: bytes) -> bytes:
        """Return the HMAC-SHA256 of one side; all parts but the last have a fixed length."""
        content = side.ljust(8, b"\0") + who.pack() + challenge + nonce + self.meeting.encode()
        return hmac.digest(self.secret, content, "sha256")
