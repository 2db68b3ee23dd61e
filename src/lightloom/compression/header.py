"""The 24 bytes with which every stream begins; ``compression.stream`` describes the whole stream."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from lightloom.core.arrays import Bytes
from lightloom.core.errors import CodecError

MAGIC = b"LLGC"
VERSION = 1
CHUNK = 1 << 16
"""Values per frame: 256 KiB, small enough for the cache of a core, large enough for 8 bytes not to matter."""
LARGEST_CHUNK = 1 << 24
"""Largest number of values per frame that is read."""
FRAME_HEADER = 8
"""Size of the length and checksum before each payload, in bytes."""
TAGGED = (1, 2, 5)
"""Codecs whose frames hold two tag bits for each value: all forms of INCEPTIONN."""
SCALED = (5,)
"""Codecs whose values were multiplied by a power of two."""
LARGEST_POWER = 126
"""Largest size of that power, so that it and its inverse are normal float32 numbers."""

_HEADER = struct.Struct("<4sBBBbQI")
_CRC = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CRC.size


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a stream."""

    codec: int
    """Family of codecs: 1 windowed INCEPTIONN, 2 as printed, 3 truncation, 4 block fixed point, 5 scaled INCEPTIONN,
    6 int8, 7 int4, 8 int3, 9 Lloyd-Max of 2 bits, 10 signs."""
    parameter: int
    """INCEPTIONN: k of the bound 2^-k; truncation: bits dropped; block fixed point: bits per value; 6 to
    10: log2 of the values of a block."""
    count: int
    """Number of values in the stream."""
    chunk: int
    """Values per frame; the last frame may hold fewer."""
    power: int = 0
    """p of the power of two 2^p that values were multiplied by."""

    @property
    def frames(self) -> int:
        """Number of frames."""
        return -(-self.count // self.chunk)

    def pack(self) -> bytes:
        """Return the 24 header bytes."""
        head = _HEADER.pack(MAGIC, VERSION, self.codec, self.parameter, self.power, self.count, self.chunk)
        return head + _CRC.pack(zlib.crc32(head))

    @classmethod
    def parse(cls, data: Bytes | bytes | bytearray) -> Header:
        """Read the header at the start of ``data``.

        Raises:
            CodecError: too short, another magic or version, a wrong checksum, an impossible chunk or power.
        """
        head = bytes(data[:HEADER_BYTES])
        if len(head) < HEADER_BYTES:
            raise CodecError(f"a stream begins with {HEADER_BYTES} bytes of header, not {len(head)}")
        magic, version, codec, parameter, power, count, chunk = _HEADER.unpack_from(head)
        if magic != MAGIC:
            raise CodecError(f"not a lightloom stream: it begins with {magic!r}, not {MAGIC!r}")
        if version != VERSION or (power and codec not in SCALED):
            raise CodecError(f"stream version {version}.{power}: this release reads version {VERSION}.0")
        if zlib.crc32(head[: _HEADER.size]) != _CRC.unpack_from(head, _HEADER.size)[0]:
            raise CodecError("the stream's header is corrupted: its CRC-32 is wrong")
        if abs(power) > LARGEST_POWER:
            raise CodecError(f"values times 2^{power}: expected a power of at most {LARGEST_POWER} either way")
        if chunk % 8 or not 8 <= chunk <= LARGEST_CHUNK:
            raise CodecError(f"chunks of {chunk} values: expected a multiple of 8 up to {LARGEST_CHUNK}")
        return cls(codec, parameter, count, chunk, power)
