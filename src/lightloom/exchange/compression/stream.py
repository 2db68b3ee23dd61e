"""The byte stream: a 24-byte header, then one frame for every chunk of values, each with its own checksum.

    header   magic "LLGC" | u8 version | u8 codec | u8 parameter | i8 power
             u64 values | u32 values a chunk | u32 crc32
    frame    u32 payload bytes | u32 checksum | payload

Little-endian. The power is 0, but for codecs that scale values by a power of two. The header's CRC-32 covers the 20
bytes before it. A frame's checksum is the low half of XXH64 over its payload, seeded with ``frame index << 32 | payload
bytes``, so that frames cannot be swapped or resized unnoticed. Frames stand alone: several threads encode and decode
them, and a receiver decodes each as it arrives.
"""

from __future__ import annotations

import struct
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import overload

import numpy as np

from lightloom.core.arrays import Bits, Bytes, Float32s, Ints
from lightloom.core.errors import CodecError, ConfigError
from lightloom.exchange.compression.codec import Codec, T, byte_target, float32_target, float32_values, stream_bytes
from lightloom.exchange.compression.kernels import REASONS, SLACK, current

# The 24 bytes with which every stream begins.

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
        """Number of frames in the stream, the last one perhaps shorter."""
        return -(-self.count // self.chunk)

    def pack(self) -> bytes:
        """Return the 24 header bytes, little-endian: the magic ``LLGC``, version, codec, parameter and power (a byte
        each), number of values (8 bytes), values per frame (4), and the CRC-32 of these 20 bytes."""
        head = _HEADER.pack(MAGIC, VERSION, self.codec, self.parameter, self.power, self.count, self.chunk)
        return head + _CRC.pack(zlib.crc32(head))

    @classmethod
    def parse(cls, data: Bytes | bytes | bytearray) -> Header:
        """Return the header in the first 24 bytes of ``data``, which may go on behind them.

        Raises:
            CodecError: too short, another magic or version, a wrong checksum, a chunk that is no multiple of 8 from 8
                to 2^24, a power beyond 126 in size, or one in a stream of a codec that does not scale.
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


EncodeFrames = Callable[[Float32s, int, int, Bytes], int]
DecodeFrames = Callable[[Bytes, Float32s, int, int], int]


class FramedCodec(Codec):
    """A codec whose values become frames; a subclass codes runs of whole frames and says how small they can be."""

    codec_id: int
    parameter: int
    chunk: int = CHUNK

    @abstractmethod
    def worst_bytes(self, count: int) -> int:
        """Return the bytes of the largest payload that a frame of ``count`` values can have, the 8 bytes
        of the frame's header excluded."""

    @abstractmethod
    def least_bytes(self, count: int) -> int:
        """Return the bytes of the smallest payload that a frame of ``count`` values can have, the 8 bytes
        of the frame's header excluded; streams too small for all their frames are refused before any is decoded."""

    @property
    def largest_ratio(self) -> float | None:
        """Largest compression ratio of a full frame, in bytes of float32 values for each byte of its payload (headers
        excluded), by the codec's ``least_bytes``."""
        return 4 * self.chunk / max(self.least_bytes(self.chunk), 1)

    @abstractmethod
    def encode_frames(self, values: Float32s, chunk: int, first: int, out: Bytes) -> int:
        """Write the frames of ``values`` to ``out``, and return the bytes written.

        Args:
            values: flat float32 values.
            chunk: number of values in each frame, a multiple of 8; the last may have fewer.
            first: number of the first frame in its stream, from 0, with which checksums are seeded.
            out: memory for the largest frames and ``SLACK`` (64) bytes.
        """

    @abstractmethod
    def decode_frames(self, data: Bytes, out: Float32s, chunk: int, first: int) -> int:
        """Fill ``out`` from the frames in ``data``, and return the bytes read, or ``-(8 frame + reason)`` for a frame
        that is not valid; reason 1: cut short, 2: impossible length, 3: wrong checksum, 4: malformed groups.

        Args:
            data: bytes from the beginning of a frame on; those behind the last frame wanted are not read.
            out: flat float32 values, as many as are to be decoded.
            chunk: number of values in each frame, a multiple of 8; the last may have fewer.
            first: number of the first frame in its stream, from 0, which checksums and the result refer to.
        """

    def encode(self, array: object, *, threads: int = 1, out: Bytes | None = None) -> memoryview:
        """Compress a float32 array of any shape, in C order, and return the stream, read-only.

        Args:
            array: NumPy array or CPU torch tensor.
            threads: number of threads that encode frames; the bytes do not depend on it.
            out: memory of at least :meth:`room` bytes, into whose beginning the stream is written; new memory unless
                given.

        Raises:
            InputError: not float32 or not in CPU memory; ``out`` is no flat, writable uint8 array, or too small.
            ConfigError: fewer than one thread.
        """
        return self._encode(float32_values(array), threads, self.encode_frames, out)

    def room(self, count: int, threads: int = 1) -> int:
        """Return the bytes of memory in which any ``count`` values can be encoded by ``threads`` threads: the stream's
        header (24 bytes), and for each thread its largest frames and 64 bytes more. Raises ConfigError for fewer than
        one thread."""
        return HEADER_BYTES + self._starts(_frame_runs(self._header(count), threads))[-1]

    def _header(self, count: int) -> Header:
        """Return the header of a stream of ``count`` values of this codec, in frames of ``chunk`` values; its power is
        0."""
        return Header(self.codec_id, self.parameter, count, self.chunk)

    def _starts(self, shares: list[tuple[int, int]]) -> list[int]:
        """Return where the frames of each run may begin, in bytes behind the stream's header, by the largest sizes of
        the runs before (64 bytes more each), and at the end the sum of all: one number more than there are runs.

        Args:
            shares: (begin, end) of the values of each thread's run of frames.
        """
        return [0, *accumulate(self._worst_frames(end - begin) for begin, end in shares)]

    def _encode(
        self, values: Float32s, threads: int, encode_frames: EncodeFrames, out: Bytes | None = None
    ) -> memoryview:
        """Return the stream of flat values, read-only; threads write runs of frames, which are then moved together.

        Args:
            values: the values, float32.
            threads: number of threads.
            encode_frames: writes the frames of one run, as the method of that name does.
            out: memory of at least :meth:`room` bytes, into whose beginning the stream is written; new memory unless
                given.

        Raises:
            InputError: ``out`` is no flat, writable uint8 array, or too small.
            ConfigError: fewer than one thread.
        """
        header = self._header(values.size)
        shares = _frame_runs(header, threads)
        starts = self._starts(shares)
        room = HEADER_BYTES + starts[-1]
        buffer = np.empty(room, np.uint8) if out is None else byte_target(out, room)
        buffer[:HEADER_BYTES] = np.frombuffer(header.pack(), np.uint8)
        body = buffer[HEADER_BYTES:]

        def work(i: int) -> int:
            """Write the frames of run i to its own part of the body, and return their bytes."""
            begin, end = shares[i]
            return encode_frames(values[begin:end], self.chunk, begin // self.chunk, body[starts[i] : starts[i + 1]])

        used = _in_threads(work, len(shares))
        at = 0
        for start, size in zip(starts, used, strict=False):
            if at != start:
                body[at : at + size] = body[start : start + size]
            at += size
        return buffer[: HEADER_BYTES + at].data.toreadonly()

    def iter_encode(self, array: object) -> Iterator[memoryview]:
        """Yield the bytes that :meth:`encode` returns, piece by piece: the header, then each frame as soon as it is
        encoded; raises InputError, with the first piece, for what is not float32 in CPU memory."""
        values = float32_values(array)
        header = self._header(values.size)
        yield memoryview(header.pack())
        for index in range(header.frames):
            part = values[index * self.chunk : (index + 1) * self.chunk]
            buffer = np.empty(self._worst_frames(part.size), np.uint8)
            used = self.encode_frames(part, self.chunk, index, buffer)
            yield buffer[:used].data.toreadonly()

    @overload
    def decode(self, buffer: object, out: None = None, *, threads: int = 1) -> Float32s: ...

    @overload
    def decode(self, buffer: object, out: T, *, threads: int = 1) -> T: ...

    def decode(self, buffer: object, out: object = None, *, threads: int = 1) -> object:
        """Return the values of a stream, in ``out`` (contiguous float32 of the right size, returned as given) or in a
        new flat array, decoded by ``threads`` threads.

        Raises:
            CodecError: the stream is malformed, truncated, corrupted, of another codec or parameter, followed by other
                bytes, or does not fit ``out``, which may then hold part of the values.
            InputError: ``out`` is not a writable contiguous float32 array in CPU memory, or ``buffer`` no contiguous
                bytes.
            ConfigError: fewer than one thread.
        """
        return self._decode(buffer, out, threads, self.decode_frames)

    def _decode(self, buffer: object, out: object, threads: int, decode_frames: DecodeFrames) -> object:
        """Decode a stream into ``out``, or a new flat array where it is None, and return that.

        Args:
            buffer: the stream.
            out: contiguous float32 of the right size.
            threads: number of threads.
            decode_frames: reads the frames of one run, as the method of that name does.

        Raises:
            CodecError: the stream is malformed, not whole, corrupted, of another codec or parameter, followed by other
                bytes, or does not fit ``out``, which may then hold part of the values.
            InputError: ``out`` is not a writable contiguous float32 array in CPU memory, or ``buffer`` no contiguous
                bytes.
            ConfigError: fewer than one thread.
        """
        data = stream_bytes(buffer)
        header = self.read_header(data)
        body = data[HEADER_BYTES:]
        if _frames_bytes(header.count, header.chunk, self.least_bytes) > body.size:
            raise CodecError(f"{header.count} values cannot come from a stream of {data.size} bytes")
        target = np.empty(header.count, np.float32) if out is None else float32_target(out, header.count)
        shares = _frame_runs(header, threads)
        starts = _frame_starts(body, header, [begin // header.chunk for begin, _ in shares])

        def work(i: int) -> int:
            """Decode the frames of run i, and return where they end in the body; raises CodecError."""
            begin, end = shares[i]
            stop = starts[i + 1] if i + 1 < len(shares) else body.size
            used = decode_frames(body[starts[i] : stop], target[begin:end], header.chunk, begin // header.chunk)
            if used < 0:
                raise _invalid(header, *divmod(-used, 8))
            return starts[i] + used

        ends = _in_threads(work, len(shares))
        end = ends[-1] if ends else 0
        if end != body.size:
            raise CodecError(f"{body.size - end} bytes follow the last frame")
        return target if out is None else out

    def read_header(self, data: Bytes | bytes | bytearray) -> Header:
        """Return the header at the beginning of a stream, which must be of this codec with this parameter.

        Raises:
            CodecError: malformed, or another codec's or parameter's stream.
        """
        header = Header.parse(data)
        if (header.codec, header.parameter) != (self.codec_id, self.parameter):
            raise CodecError(
                f"the stream is of codec {header.codec} with parameter {header.parameter}; "
                f"{self.name} is codec {self.codec_id} with parameter {self.parameter}"
            )
        return header

    def _worst_frames(self, count: int) -> int:
        """Return the most bytes that all frames of ``count`` values may take, their headers included, and 64
        bytes behind them, which kernels may overwrite."""
        return _frames_bytes(count, self.chunk, self.worst_bytes) + SLACK


class StreamDecoder:
    """Decodes a stream that arrives in pieces: :meth:`feed` returns the values of the frames completed so far.

    Memory stays within one frame's worst case and the piece just fed.
    """

    def __init__(self, codec: FramedCodec) -> None:
        """Begin before the header of a stream of ``codec``."""
        self._codec = codec
        self._header: Header | None = None
        self._pending = bytearray()
        self._frame = 0

    @property
    def finished(self) -> bool:
        """True once every value has been returned; False before the stream's header has come whole."""
        return self._header is not None and self._frame == self._header.frames

    def feed(self, piece: bytes | bytearray | memoryview) -> Float32s:
        """Take the next bytes of the stream, any number of them, and return the values of the frames that they
        complete, flat float32 (possibly none).

        Raises:
            CodecError: malformed or corrupted so far, of another codec or parameter, or bytes after the last frame.
                Values of frames that this piece completed before the fault are lost.
        """
        self._pending += memoryview(piece).cast("B")
        if self._header is None:
            if len(self._pending) < HEADER_BYTES:
                return np.empty(0, np.float32)
            self._header = self._codec.read_header(self._pending)
            del self._pending[:HEADER_BYTES]
        done = []
        while not self.finished and (part := self._next_frame(self._header)) is not None:
            done.append(part)
        if self.finished and self._pending:
            raise CodecError(f"{len(self._pending)} bytes follow the last frame")
        return np.concatenate(done) if done else np.empty(0, np.float32)

    def _next_frame(self, header: Header) -> Float32s | None:
        """Return the values of the next frame, flat, and drop its bytes; None, and nothing dropped, where it has not
        come whole. Raises CodecError for a frame that is not valid."""
        if len(self._pending) < FRAME_HEADER:
            return None
        count = min(header.chunk, header.count - self._frame * header.chunk)
        length = int.from_bytes(self._pending[:4], "little")
        if not self._codec.least_bytes(count) <= length <= self._codec.worst_bytes(count):
            raise _invalid(header, self._frame, 2)
        if len(self._pending) < FRAME_HEADER + length:
            return None
        data = np.frombuffer(bytes(self._pending[: FRAME_HEADER + length]), np.uint8)
        out = np.empty(count, np.float32)
        if (used := self._codec.decode_frames(data, out, header.chunk, self._frame)) < 0:
            raise _invalid(header, self._frame, -used % 8)
        del self._pending[: FRAME_HEADER + length]
        self._frame += 1
        return out


def tag_histogram(buffer: object) -> Ints:
    """Return how many values of a stream of INCEPTIONN (windowed, printed or scaled form) take 2, 10, 18 and 34 bits,
    tag included, int64 [4], in this order; checksums are verified, values are not decoded.

    Source: INCEPTIONN, Table III.

    Raises:
        CodecError: malformed or corrupted, or a stream of another codec.
        InputError: ``buffer`` is no contiguous bytes.
    """
    data = stream_bytes(buffer)
    header = Header.parse(data)
    if header.codec not in TAGGED:
        tagged = " or ".join(map(str, TAGGED))
        raise CodecError(f"a stream of codec {header.codec} has no tags: expected codec {tagged}")
    counts = np.zeros(4, np.int64)
    body = data[HEADER_BYTES:]
    if (used := current().count_tags(body, header.count, header.chunk, counts)) < 0:
        raise _invalid(header, *divmod(-used, 8))
    if used != body.size:
        raise CodecError(f"{body.size - used} bytes follow the last frame")
    return counts


def as_bits(values: Float32s) -> Bits:
    """Return a view of the same memory as 32-bit patterns, uint32."""
    return values.view(np.uint32)


def _invalid(header: Header, frame: int, reason: int) -> CodecError:
    """Return, without raising it, the error of frame number ``frame`` that cannot be decoded; ``reason`` is 1 (cut
    short), 2 (impossible length), 3 (wrong checksum) or 4 (malformed groups)."""
    return CodecError(f"frame {frame} of {header.frames} is not valid: {REASONS[reason]}")


def _frames_bytes(count: int, chunk: int, payload_bytes: Callable[[int], int]) -> int:
    """Return the size of all frames of ``count`` values, ``chunk`` in each but the last: for every frame a header of 8
    bytes and the payload that ``payload_bytes`` gives for its number of values."""
    full, rest = divmod(count, chunk)
    return full * (FRAME_HEADER + payload_bytes(chunk)) + (FRAME_HEADER + payload_bytes(rest) if rest else 0)


def _frame_runs(header: Header, threads: int) -> list[tuple[int, int]]:
    """Return (begin, end) of the values of each thread's run of whole frames, in order and about equally long; there
    are at most ``threads`` runs, and no more than frames. Raises ConfigError for fewer than one thread."""
    if threads < 1:
        raise ConfigError(f"threads = {threads}: expected at least 1")
    workers = min(threads, header.frames)
    edges = [header.frames * i // workers * header.chunk for i in range(workers)] if workers else []
    return list(zip(edges, [*edges[1:], header.count], strict=False))


def _in_threads(work: Callable[[int], int], parts: int) -> list[int]:
    """Return the results of ``work(i)`` for i from 0 to ``parts`` - 1, in order, each called in a thread of its own if
    there are several; the first error among them, in that order, is raised."""
    if parts <= 1:
        return [work(i) for i in range(parts)]
    with ThreadPoolExecutor(parts) as pool:
        return list(pool.map(work, range(parts)))


def _frame_starts(body: Bytes, header: Header, frames: list[int]) -> list[int]:
    """Return the byte offset of each of the frames numbered in ``frames``, by following the lengths of all frames
    before.

    Args:
        body: bytes of the stream behind its header.
        header: the stream's header, for the words of errors.
        frames: numbers of frames, from 0, ascending. If there is only one, it must be 0.

    Returns:
        Offsets in ``body``; its size instead of one beyond it.

    Raises:
        CodecError: the body ends within or before the header of an earlier frame.
    """
    if len(frames) <= 1:
        return [0] * len(frames)
    starts, at, frame = [], 0, 0
    for target in frames:
        while frame < target:
            if body.size - at < FRAME_HEADER:
                raise _invalid(header, frame, 1)
            at += FRAME_HEADER + int.from_bytes(body[at : at + 4].tobytes(), "little")
            frame += 1
        starts.append(min(at, body.size))
    return starts


# Frames of codecs written in NumPy: one payload for each chunk, with length and checksum.


class NumpyCodec(FramedCodec):
    """A codec that turns one chunk into one payload and back; the size depends on the number of values alone."""

    def least_bytes(self, count: int) -> int:
        """Return the bytes of a payload of ``count`` values, equal for all payloads of so many values:
        ``worst_bytes``."""
        return self.worst_bytes(count)

    @abstractmethod
    def encode_payload(self, values: Float32s) -> Bytes:
        """Return the payload of one chunk of flat float32 values, as bytes without a frame's header."""

    @abstractmethod
    def decode_payload(self, payload: Bytes, count: int) -> Float32s | None:
        """Return the ``count`` values of the payload of one chunk, flat float32; None if it is malformed."""

    def encode_frames(self, values: Float32s, chunk: int, first: int, out: Bytes) -> int:
        """Write a frame of each ``chunk`` values to ``out``, and return the bytes written.

        Args:
            values: flat float32 values.
            chunk: number of values in each frame; the last may have fewer.
            first: number of the first frame in its stream, from 0, with which checksums are seeded.
            out: memory for all frames: a header of 8 bytes and a payload each.
        """
        at = 0
        for begin in range(0, values.size, chunk):
            payload = np.ascontiguousarray(self.encode_payload(values[begin : begin + chunk]))
            head = np.array([payload.size, _checksum(payload, first + begin // chunk)], "<u4")
            out[at : at + FRAME_HEADER] = head.view(np.uint8)
            at += FRAME_HEADER
            out[at : at + payload.size] = payload
            at += payload.size
        return at

    def decode_frames(self, data: Bytes, out: Float32s, chunk: int, first: int) -> int:
        """Fill ``out``, flat float32, from the frames in ``data``, ``chunk`` values in each but the last, numbered in
        their stream from ``first`` on, and return the bytes read, or ``-(8 frame + reason)`` for the first frame that
        is not valid, reason 1: cut short, 3: wrong checksum, 4: malformed payload. Frames before it have been decoded;
        bytes behind the last frame wanted are not read."""
        at = 0
        for begin in range(0, out.size, chunk):
            index = first + begin // chunk
            if data.size - at < FRAME_HEADER:
                return -(8 * index + 1)
            length, checksum = (int(word) for word in data[at : at + FRAME_HEADER].copy().view("<u4"))
            at += FRAME_HEADER
            if data.size - at < length:
                return -(8 * index + 1)
            payload = np.ascontiguousarray(data[at : at + length])
            if _checksum(payload, index) != checksum:
                return -(8 * index + 3)
            part = out[begin : begin + chunk]
            if (values := self.decode_payload(payload, part.size)) is None:
                return -(8 * index + 4)
            part[:] = values
            at += length
        return at


def _checksum(payload: Bytes, index: int) -> int:
    """Return the checksum of the frame numbered ``index``: the low 32 bits of the XXH64 of its payload, seeded with
    ``index << 32 | size`` (in bytes)."""
    return current().xxh64(payload, index << 32 | payload.size) & 0xFFFFFFFF
