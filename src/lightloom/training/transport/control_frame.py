"""Frames of the control connection: 256 bytes each, so that an incomplete frame is never ambiguous.

"LL" | kind (1 byte) | marked (1) | sequence (4) | payload bytes (8) | reason (UTF-8, padded with zeros)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_LAYOUT = struct.Struct("!2sBBIQ240s")
_MAGIC = b"LL"
_LONGEST = 240

FRAME_SIZE = _LAYOUT.size
"""Size of a frame, in bytes."""
PAYLOAD, FAREWELL, ABORT = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Frame:
    """One message: a payload follows on the data connection, the rank leaves, or it fails for a stated reason."""

    kind: int
    marked: bool = False
    sequence: int = 0
    nbytes: int = 0
    text: str = ""

    def pack(self) -> bytes:
        """Return the frame as ``FRAME_SIZE`` bytes; a long reason is cut."""
        reason = self.text.encode()[:_LONGEST]
        return _LAYOUT.pack(_MAGIC, self.kind, self.marked, self.sequence, self.nbytes, reason)

    @staticmethod
    def unpack(data: bytes | bytearray) -> Frame | None:
        """Return the frame in ``data``; None if it is not a frame."""
        if len(data) != FRAME_SIZE:
            return None
        magic, kind, marked, sequence, nbytes, reason = _LAYOUT.unpack(data)
        if magic != _MAGIC or kind not in (PAYLOAD, FAREWELL, ABORT):
            return None
        return Frame(kind, bool(marked), sequence, nbytes, reason.rstrip(b"\0").decode(errors="replace"))
