"""What ranks say on the control connection: fixed frames of 256 bytes, so that half a frame is never ambiguous.

"LL" | kind (1 byte) | marked (1) | sequence (4) | payload bytes (8) | reason (UTF-8, padded with zeros)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_LAYOUT = struct.Struct("!2sBBIQ240s")
_MAGIC = b"LL"
_LONGEST = 240

FRAME_SIZE = _LAYOUT.size
"""Bytes."""
PAYLOAD, FAREWELL, ABORT = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Frame:
    """One message: a payload follows on the data connection, a rank is done, or a rank gives up and says why."""

    kind: int
    marked: bool = False
    sequence: int = 0
    nbytes: int = 0
    text: str = ""

    def pack(self) -> bytes:
        """The frame as ``FRAME_SIZE`` bytes; a long reason is cut."""
        reason = self.text.encode()[:_LONGEST]
        return _LAYOUT.pack(_MAGIC, self.kind, self.marked, self.sequence, self.nbytes, reason)

    @staticmethod
    def unpack(data: bytes | bytearray) -> Frame | None:
        """The frame in ``data``, None when it is not one."""
        if len(data) != FRAME_SIZE:
            return None
        magic, kind, marked, sequence, nbytes, reason = _LAYOUT.unpack(data)
        if magic != _MAGIC or kind not in (PAYLOAD, FAREWELL, ABORT):
            return None
        return Frame(kind, bool(marked), sequence, nbytes, reason.rstrip(b"\0").decode(errors="replace"))
