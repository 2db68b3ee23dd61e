"""The bytes of a stream, written out by hand: headers, frames, groups, packed codes, and every refusal of a header."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import CodecError, ConfigError, InputError, UnsupportedError
from lightloom.exchange.compression import kernels, kernels_numba
from lightloom.exchange.compression.codec import byte_target
from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.compression.registry import read_bound
from lightloom.exchange.compression.stream import (
    FRAME_HEADER,
    HEADER_BYTES,
    LARGEST_CHUNK,
    VERSION,
    FramedCodec,
    Header,
    StreamDecoder,
)
from lightloom.exchange.compression.truncation import BlockFixedPoint, Truncation
from tests.compression.strategies import kernel, with_chunks

VALUES = np.array([0, 2.0, -0.75, 2.0**-6, -(2.0**-10), 2.0**-11, -np.inf, 0.5, 1.0], np.float32)


def frame(payload: bytes, index: int) -> bytes:
    """A frame with its length and checksum, as docs/compression.md states them."""
    seed = index << 32 | len(payload)
    checksum = kernels.current().xxh64(np.frombuffer(payload, np.uint8), seed) & 0xFFFFFFFF
    return struct.pack("<II", len(payload), checksum) + payload


def header(codec: int, parameter: int, count: int, chunk: int) -> bytes:
    head = struct.pack("<4sBBBBQI", b"LLGC", 1, codec, parameter, 0, count, chunk)
    return head + struct.pack("<I", zlib.crc32(head))


@pytest.mark.parametrize("name", kernels.NAMES)
def test_an_inceptionn_stream_byte_by_byte(name: str) -> None:
    """Bound 2^-10: w = 12; tags 0, 3, 2, 1, 1, 0, 3, 2 in one group, then one value in a group of its own."""
    tags = sum(tag << 2 * i for i, tag in enumerate([0, 3, 2, 1, 1, 0, 3, 2]))
    group = struct.pack("<HfHBBfH", tags, 2.0, 1 << 15 | 24576, 64, 1 << 7 | 4, -np.inf, 16384)
    last = struct.pack("<Hf", 3, 1.0)
    with kernel(name):
        stream = bytes(with_chunks(Inceptionn(), 8).encode(VALUES))
        assert stream == header(1, 10, 9, 8) + frame(group, 0) + frame(last, 1)
        decoded = Inceptionn().decode(stream)
    assert decoded.tolist() == [0, 2.0, -0.75, 2.0**-6, -(2.0**-10), 0, -np.inf, 0.5, 1.0]


def test_a_truncated_stream_byte_by_byte() -> None:
    """16 bits big-endian; 10 bits packed, four values in five bytes."""
    pattern = VALUES.view(np.uint32)
    assert bytes(Truncation(16).encode(VALUES)) == header(3, 16, 9, 65536) + frame(
        b"".join(struct.pack(">H", int(bits) >> 16) for bits in pattern), 0
    )
    packed = "".join(f"{int(bits) >> 22:010b}" for bits in pattern).ljust(96, "0")
    payload = int(packed, 2).to_bytes(12, "big")
    assert bytes(Truncation(22).encode(VALUES)) == header(3, 22, 9, 65536) + frame(payload, 0)
    assert bytes(Truncation(24).encode(VALUES)) == header(3, 24, 9, 65536) + frame(
        bytes(int(bits) >> 24 for bits in pattern), 0
    )


def test_a_block_fixed_point_stream_byte_by_byte() -> None:
    """Largest size 3 lies in [2, 4), so E = 2 and with 4 bits the step is 2^-1; half-way cases round to even."""
    values = np.array([3.0, -3.0, 0.25, 0.75, -0.5, 0.0], np.float32)
    codes = [6, -6, 0, 2, -1, 0, *[0] * 26]
    packed = int("".join(f"{code & 15:04b}" for code in codes), 2).to_bytes(16, "big")
    payload = bytes([127 - 1]) + packed
    codec = BlockFixedPoint(4)
    assert bytes(codec.encode(values)) == header(4, 4, 6, 65536) + frame(payload, 0)
    assert codec.round_trip(values).tolist() == [3.0, -3.0, 0, 1.0, -0.5, 0]
    # Just below a power of two the nearest code would not fit: it is clipped at the largest integer.
    assert codec.round_trip(np.array([3.99], np.float32)).tolist() == [3.5]
    assert codec.round_trip(np.array([2.0**-149], np.float32)).tolist() == [0]


def test_steps_of_blocks_have_limits() -> None:
    codec = BlockFixedPoint(8)
    for exponent, valid in ((128 - 8 + 1, True), (128 - 8 + 2, False)):
        payload = np.array([exponent + 127, *[1] * 32], np.uint8)
        assert (codec.decode_payload(payload, 32) is not None) is valid
    extreme = np.array([np.finfo(np.float32).max, -np.finfo(np.float32).max], np.float32)
    assert np.isfinite(codec.round_trip(extreme)).all()
    for bad in (np.nan, -np.inf):
        with pytest.raises(UnsupportedError):
            codec.encode(np.array([bad], np.float32))


FIELDS = [
    (0, b"X", "not a lightloom stream"),
    (4, bytes([VERSION + 1]), "stream version 2.0"),
    (7, b"\1", r"stream version 1\.1"),
    (20, b"\0\0\0\0", "CRC-32 is wrong"),
]


@pytest.mark.parametrize(("offset", "replacement", "message"), FIELDS)
def test_each_malformed_field_of_a_header_is_refused(offset: int, replacement: bytes, message: str) -> None:
    data = bytearray(header(1, 10, 0, 8))
    data[offset : offset + len(replacement)] = replacement
    with pytest.raises(CodecError, match=message):
        Header.parse(data)


@pytest.mark.parametrize(
    ("chunk", "valid"), [(0, False), (8, True), (12, False), (LARGEST_CHUNK, True), (LARGEST_CHUNK + 8, False)]
)
def test_chunks_are_multiples_of_eight_up_to_a_limit(chunk: int, valid: bool) -> None:
    data = header(1, 10, 5, chunk)
    if valid:
        parsed = Header.parse(data)
        assert parsed == Header(1, 10, 5, chunk) and parsed.pack() == data
    else:
        with pytest.raises(CodecError, match="expected a multiple of 8"):
            Header.parse(data)
    with pytest.raises(CodecError, match="not 23"):
        Header.parse(data[:23])


@pytest.mark.parametrize(("count", "frames"), [(0, 0), (1, 1), (8, 1), (9, 2), (16, 2)])
def test_frames_are_counted(count: int, frames: int) -> None:
    assert Header(1, 10, count, 8).frames == frames


@pytest.mark.parametrize("codec", [Inceptionn(), Truncation(16), Truncation(22), BlockFixedPoint(5)], ids=str)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 33, 100])
def test_payloads_are_as_small_and_as_large_as_stated(codec: FramedCodec, count: int) -> None:
    sizes = [
        len(codec.encode(np.full(count, value, np.float32))) - HEADER_BYTES - FRAME_HEADER * (count > 0)
        for value in (0, 1e3)
    ]
    assert sizes == [codec.least_bytes(count), codec.worst_bytes(count)]


MALFORMED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "shorter than its frame header": (lambda data: data[: HEADER_BYTES + 7], "cannot come from a stream"),
    "shorter than its payload": (lambda data: data[:-1], "it ends early"),
    "a length of no group": (lambda data: _with_length(data, 1), "its length is impossible"),
    "a length of more than the worst": (lambda data: _with_length(data, 2 + 32 + 1), "its length is impossible"),
    "another payload": (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "its checksum is wrong"),
    "tags of values that are not there": (
        lambda data: _sealed(data, struct.pack("<H", 1 << 2)),
        "groups are malformed",
    ),
    "absent codes": (lambda data: _sealed(data, struct.pack("<HH", 3, 0)), "groups are malformed"),
    "bytes behind its groups": (lambda data: _sealed(data, struct.pack("<HH", 0, 0)), "groups are malformed"),
}


def _with_length(data: bytes, length: int) -> bytes:
    return data[:HEADER_BYTES] + struct.pack("<I", length) + data[HEADER_BYTES + 4 :]


def _sealed(data: bytes, payload: bytes) -> bytes:
    return data[:HEADER_BYTES] + frame(payload, 0)


@pytest.mark.parametrize("name", kernels.NAMES)
@pytest.mark.parametrize("fault", MALFORMED)
def test_each_malformed_frame_is_refused_with_its_reason(name: str, fault: str) -> None:
    spoil, message = MALFORMED[fault]
    with kernel(name):
        data = spoil(bytes(Inceptionn().encode(np.ones(1, np.float32))))
        with pytest.raises(CodecError, match=message):
            Inceptionn().decode(data)


@pytest.mark.parametrize("count", [1, 5, 8])
def test_a_group_that_passes_the_end_of_its_frame_is_none(count: int) -> None:
    """Wherever the frame ends before it, though bytes follow; and one with tags of more values than there are."""
    values = np.array([1e-3, 2.0, 0.0, 0.5, 1e-3, 0.0, 3.0, 0.25], np.float32)[:count]
    data = np.frombuffer(Inceptionn().encode(values), np.uint8)[HEADER_BYTES + FRAME_HEADER :]
    size, decoded = data.size, np.zeros(count, np.float32)
    target = kernels_numba.Values(decoded.view(np.uint32), decoded)
    width = Inceptionn().width
    coding = kernels_numba.Coding(0, width, np.float32(2.0**-width), False)
    decode = partial(kernels_numba._decode_group.py_func, data, 0, values=target, begin=0, coding=coding)
    assert [decode(end=end, n=count) for end in range(size + 1)] == [-1] * size + [size]
    assert np.array_equal(decoded, Inceptionn().round_trip(values))
    assert decode(end=size, n=count - 1) == -1


@pytest.mark.parametrize("codec", [Truncation(16), Truncation(22), BlockFixedPoint(5)], ids=str)
def test_frames_of_numpy_codecs_are_refused_with_their_reason(codec: FramedCodec) -> None:
    values = np.ones(40, np.float32)
    data = bytes(with_small_chunks(codec).encode(values))
    first = HEADER_BYTES + FRAME_HEADER + codec.worst_bytes(32)
    for broken, message in (
        (data[:-1], "cannot come from a stream"),
        (data[:first] + struct.pack("<I", 1000) + data[first + 4 :], "frame 1 of 2 is not valid: it ends early"),
        (data[:-1] + bytes([data[-1] ^ 1]), "frame 1 of 2 is not valid: its checksum is wrong"),
        (data[:first] + frame(data[first + 8 :] + b"\0", 1), "frame 1 of 2 is not valid: its groups are malformed"),
        (data[:first] + frame(data[first + 8 :], 0), "frame 1 of 2 is not valid: its checksum is wrong"),
        (data + b"\0", "1 bytes follow the last frame"),
    ):
        with pytest.raises(CodecError, match=message):
            codec.decode(broken)
    receiver = StreamDecoder(codec)
    with pytest.raises(CodecError, match="frame 1 of 2 is not valid: its checksum is wrong"):
        receiver.feed(data[:-1] + bytes([data[-1] ^ 1]))
    receiver = StreamDecoder(codec)
    ends = [(receiver.feed(piece).size, receiver.finished) for piece in (data[: first + 7], data[first + 7 :])]
    assert ends == [(32, False), (8, True)]
    receiver = StreamDecoder(codec)
    with pytest.raises(CodecError, match="frame 0 of 2 is not valid: its length is impossible"):
        receiver.feed(_with_length(data, codec.worst_bytes(32) + 1))


def with_small_chunks(codec: FramedCodec) -> FramedCodec:
    """The codec with 32 values a frame."""
    object.__setattr__(codec, "chunk", 32)
    return codec


def test_padding_of_packed_tens_must_be_zero() -> None:
    """Two values of 10 bits take 20 of 24 bits, which leaves no place for a third: what is left of it is padding."""
    codec = Truncation(22)
    assert codec.decode_payload(np.array([255, 255, 0b11110000], np.uint8), 2) is not None
    assert codec.decode_payload(np.array([255, 255, 0b11110001], np.uint8), 2) is None


def test_memory_must_be_writable_and_contiguous() -> None:
    memory = np.zeros(10, np.uint8)
    assert byte_target(memory, 10) is memory
    for wrong, message in (
        (np.frombuffer(bytes(10), np.uint8), "writable"),
        (np.zeros(20, np.uint8)[::2], "contiguous"),
        (np.zeros(10, np.int8), "a flat uint8 array, not ndarray"),
        (np.zeros((2, 5), np.uint8), "a flat uint8 array, not ndarray"),
        (bytearray(10), "a flat uint8 array, not bytearray"),
    ):
        with pytest.raises(InputError, match=message):
            byte_target(wrong, 10)  # type: ignore[arg-type]


@pytest.mark.parametrize("bits", [1, 17, 8.0])
def test_bits_of_fixed_point_are_a_whole_number_from_two_to_sixteen(bits: Any) -> None:
    with pytest.raises(ConfigError, match=f"bits = {bits}: expected a whole number from 2 to 16"):
        BlockFixedPoint(bits)
    assert [BlockFixedPoint(fine).parameter for fine in (2, 16)] == [2, 16] and BlockFixedPoint().bits == 8


@pytest.mark.parametrize(("text", "bound"), [("2^-3", 0.125), ("2**4", 16.0), ("0.25", 0.25), ("2^-1000", 2.0**-1000)])
def test_bounds_are_read(text: str, bound: float) -> None:
    assert read_bound(text) == bound
    with pytest.raises(ValueError, match="not a float"):
        read_bound("2^1001")
