"""Corrupted, truncated and random streams: a CodecError or values, never a crash. Nine in ten have right checksums."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from lightloom.compression import Inceptionn, StreamDecoder, kernels
from lightloom.compression.header import HEADER_BYTES
from lightloom.core.errors import CodecError
from tests.compression.strategies import kernel, with_chunks

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
    """Decode broken streams; returns how many gave values and how many were refused."""
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
