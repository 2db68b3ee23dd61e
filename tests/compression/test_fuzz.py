"""Corrupted, truncated and random streams: a CodecError or values, never a crash, nor other values in silence."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import CodecError
from lightloom.exchange.compression import kernels
from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnScaled
from lightloom.exchange.compression.registry import codecs, find
from lightloom.exchange.compression.stream import HEADER_BYTES, FramedCodec, StreamDecoder
from lightloom.exchange.distributed.residuals import Geometry
from lightloom.exchange.distributed.ring_exchange import CodecByTensor, TensorBlocks
from tests.compression.strategies import bits, kernel, with_chunks

Random = np.random.Generator


def broken(stream: bytes, random: Random) -> bytearray:
    """Flip bytes, cut, lengthen, or replace everything behind the header."""
    data = bytearray(stream)
    kind = random.integers(5)
    if kind == 0:
        del data[random.integers(len(data)) :]
    elif kind == 1:
        data += random.bytes(int(random.integers(1, 40)))
    elif kind == 2:
        data[HEADER_BYTES:] = random.bytes(int(random.integers(0, len(data))))
    else:
        begin = HEADER_BYTES * int(random.integers(0, 2)) if len(data) > HEADER_BYTES else 0
        for at in random.integers(begin, len(data), random.integers(1, 8)):
            data[at] = random.integers(256)
    return data


def repair(data: bytearray) -> None:
    """Make every checksum right, and every length that would leave the buffer, so that the groups are reached."""
    if len(data) < HEADER_BYTES:
        return
    data[:6] = b"LLGC\x01\x01"
    data[7] = 0
    struct.pack_into("<I", data, 20, zlib.crc32(data[:20]))
    one = kernels.current()
    at, index = HEADER_BYTES, 0
    while len(data) - at >= 8:
        length = min(int.from_bytes(data[at : at + 4], "little"), len(data) - at - 8)
        payload = np.frombuffer(bytes(data[at + 8 : at + 8 + length]), np.uint8)
        checksum = one.xxh64(payload, index << 32 | length) & 0xFFFFFFFF
        struct.pack_into("<II", data, at, length, checksum)
        at, index = at + 8 + length, index + 1


def fuzz(streams: int, seed: int) -> tuple[int, int]:
    """Decode streams, nine in ten with right checksums; returns how many gave values and how many were refused."""
    random = np.random.default_rng(seed)
    decoded = refused = 0
    while decoded + refused < streams:
        codec = with_chunks(Inceptionn(2.0 ** -int(random.integers(1, 15))), int(8 * random.integers(1, 40)))
        values = random.laplace(0, 10.0 ** random.uniform(-5, 1), random.integers(0, 600)).astype(np.float32)
        stream = bytes(codec.encode(values))
        for trial in range(50):
            data = broken(stream, random)
            if trial % 10:
                repair(data)
            target = np.full(values.size + 16, 7.5, np.float32)
            out = target[8 : 8 + values.size] if trial % 2 else None
            try:
                codec.decode(bytes(data), out=out, threads=1 + trial % 16 // 15)
                decoded += 1
            except CodecError:
                refused += 1
            assert (target[:8] == 7.5).all() and (target[-8:] == 7.5).all()
    return decoded, refused


@pytest.mark.parametrize("name", kernels.NAMES)
def test_broken_streams(name: str) -> None:
    with kernel(name):
        decoded, refused = fuzz(2_000, seed=3)
    assert decoded > 140 and refused > 850


@pytest.mark.slow
@pytest.mark.parametrize("name", kernels.NAMES)
def test_a_million_broken_streams(name: str) -> None:
    with kernel(name):
        fuzz(334_000, seed=5)


def test_broken_pieces() -> None:
    random = np.random.default_rng(4)
    codec = with_chunks(Inceptionn(), 64)
    stream = bytes(codec.encode(random.laplace(0, 1e-2, 500).astype(np.float32)))
    for _ in range(500):
        data = broken(stream, random)
        repair(data)
        receiver = StreamDecoder(codec)
        try:
            for at in range(0, len(data), 97):
                receiver.feed(bytes(data[at : at + 97]))
        except CodecError:
            continue


FAMILIES = [name for name in codecs() if codecs()[name].build.__module__.startswith("lightloom.")]
"""Every codec with a stream, those of plug-ins left out; their readers are those of the streams of exchanges, too."""


def drawn_codec(family: str, random: Random) -> Codec:
    """Draw a codec of a family; where frames can be chosen, so small that a short stream has several."""
    if family.startswith("inceptionn"):
        parameter = f"2^-{random.integers(1, 15)}"
    elif family == "truncate":
        parameter = str(random.choice([16, 22, 24]))
    elif family == "block-fixed-point":
        parameter = str(random.choice([4, 8, 12]))
    else:
        parameter = str(8 << random.integers(5))
    codec = find(f"{family}:{parameter}")
    if isinstance(codec, FramedCodec):
        object.__setattr__(codec, "chunk", int(8 * random.integers(1, 24)))
    return codec


def swapped(data: bytearray, random: Random) -> bytearray:
    """Exchange two frames of a stream."""
    frames, at = [], HEADER_BYTES
    while at < len(data):
        end = at + 8 + int.from_bytes(data[at : at + 4], "little")
        frames.append(data[at:end])
        at = end
    if len(frames) > 1:
        one, other = random.integers(len(frames), size=2)
        frames[one], frames[other] = frames[other], frames[one]
    return bytearray(data[:HEADER_BYTES]) + b"".join(frames)


def mutated(stream: bytes, random: Random) -> bytes:
    """Change single bits or bytes, exchange frames, or break the stream as above."""
    kind = random.integers(4)
    if kind == 0:
        return bytes(swapped(bytearray(stream), random))
    if kind == 1:
        data = bytearray(stream)
        for bit in random.integers(8 * len(data), size=random.integers(1, 4)):
            data[bit // 8] ^= 1 << bit % 8
        return bytes(data)
    return bytes(broken(stream, random))


def decoded(codec: Codec, data: bytes, count: int, way: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Decode a stream in one of the ways in which receivers do."""
    if way == 0 or (way == 3 and not isinstance(codec, FramedCodec)):
        return codec.decode(data)
    if way == 1:
        return codec.decode(data, out=np.full(count, 7.5, np.float32), threads=2)
    if way == 2:
        total = np.zeros(count, np.float32)
        codec.decode_adding(data, total)
        return total
    assert isinstance(codec, FramedCodec)
    receiver = StreamDecoder(codec)
    parts = [receiver.feed(data[at : at + 61]) for at in range(0, len(data), 61)]
    if not receiver.finished:
        raise CodecError("the stream ends before its last frame")
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


def silent_differences(family: str, streams: int, seed: int) -> int:
    """Decode mutated streams; returns how many gave other values than the streams that they were made of."""
    random = np.random.default_rng(seed)
    tried = wrong = 0
    while tried < streams:
        codec = drawn_codec(family, random)
        values = random.laplace(0, 10.0 ** random.uniform(-5, 1), random.integers(1, 200)).astype(np.float32)
        stream = bytes(codec.encode(values))
        expected = [decoded(codec, stream, values.size, way) for way in range(4)]
        for trial in range(50):
            data = mutated(stream, random)
            way = trial % 4 if trial < 48 else 1  # a second thread takes longer
            tried += 1
            try:
                got = decoded(codec, data, values.size, way)
            except CodecError:
                continue
            wrong += not np.array_equal(bits(got), bits(expected[way]))
    return wrong


@pytest.mark.parametrize("family", FAMILIES)
def test_no_mutated_stream_decodes_to_other_values(family: str) -> None:
    assert silent_differences(family, 1_000, seed=7) == 0


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_none_of_a_million_mutated_streams_decodes_to_other_values(family: str) -> None:
    """A checksum of 32 bits lets one in four thousand million pass by chance: none is expected among these."""
    assert silent_differences(family, -(-1_000_000 // len(FAMILIES)), seed=8) == 0


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_payloads_with_right_checksums_decode_or_are_refused(family: str) -> None:
    """As a faulty sender would write them."""
    random = np.random.default_rng(9)
    decodes = 0
    for _ in range(40):
        codec = drawn_codec(family, random)
        values = random.laplace(0, 1e-2, random.integers(1, 200)).astype(np.float32)
        stream = bytes(codec.encode(values))
        for trial in range(50):
            data = bytearray(mutated(stream, random).ljust(HEADER_BYTES, b"\0"))
            codec_and_power = data[5], data[7]
            repair(data)
            data[5], data[7] = codec_and_power
            struct.pack_into("<I", data, 20, zlib.crc32(data[:20]))
            try:
                decoded(codec, bytes(data), values.size, trial % 4)
                decodes += 1
            except CodecError:
                continue
    assert decodes


def test_no_mutated_message_of_tensors_decodes_to_other_values() -> None:
    """Streams of the tensors of a bucket one after the other, as a ring sends them."""
    random = np.random.default_rng(10)
    for _ in range(40):
        codec = InceptionnScaled(2.0 ** -int(random.integers(1, 15)))
        lengths = [int(length) for length in random.integers(1, 80, random.integers(1, 4))]
        values = random.laplace(0, 1e-2, sum(lengths)).astype(np.float32)
        geometry = Geometry.joined([(str(i), (length,)) for i, length in enumerate(lengths)])
        message = CodecByTensor(codec, TensorBlocks(geometry, 1))
        message.place([values])
        stream = bytes(message.encode(values))
        expected = message.decode(stream)
        for _ in range(50):
            data = bytes(broken(stream, random))
            try:
                got = message.decode(data, out=np.full_like(values, 7.5))
            except CodecError:
                continue
            assert np.array_equal(bits(got), bits(expected))


@pytest.mark.parametrize("power", [-128, -127, 127])
def test_a_power_that_float32_cannot_undo_is_refused(power: int) -> None:
    codec = find("inceptionn-scaled")
    data = bytearray(codec.encode(np.ones(10, np.float32)))
    struct.pack_into("<b", data, 7, power)
    struct.pack_into("<I", data, 20, zlib.crc32(data[:20]))
    with pytest.raises(CodecError, match=rf"values times 2\^{power}"):
        codec.decode(bytes(data))
