"""INCEPTIONN frames compiled by Numba: the fallback where the C kernel was not built. The bytes are the same.

Little-endian throughout. A frame is a u32 payload length, a u32 checksum, then groups: 16 bits of tags for
eight values, their codes behind it. ``docs/compression.md`` has the whole format.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Bits, Bytes, Float32s, Ints
from lightloom.core.kernels import njit_inlined, njit_threaded

TRUNCATED, BAD_LENGTH, BAD_CHECKSUM, BAD_PAYLOAD = 1, 2, 3, 4
FRAME_HEADER = 8

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


class Values(NamedTuple):
    """One array of float32 values, seen in two ways."""

    bits: Bits
    """Bit patterns of the values, uint32."""
    reals: Float32s
    """View of the same memory as float32 numbers."""


class Coding(NamedTuple):
    """How values are coded."""

    bound: int
    """k of the bound 2^-k; not used by the decoder."""
    width: int
    """w of the 8-bit code trunc(|f| 2^w)."""
    step: np.float32
    """Value of the lowest bit of the 8-bit code, 2^-w."""
    in_place: bool
    """Encoder: replace values by their errors. Decoder: add to the values that are there."""


@njit_inlined
def _rotate(x: np.uint64, r: int) -> np.uint64:
    """Return the 64 bits of ``x`` rotated to the left by ``r`` places."""
    return (x << np.uint64(r)) | (x >> np.uint64(64 - r))


@njit_inlined
def _load(data: Bytes, at: int, size: int) -> np.uint64:
    """Return the ``size`` bytes (8 at most) of ``data`` from position ``at`` on as an unsigned little-endian number."""
    word = np.uint64(0)
    for i in range(size):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return word


@njit_inlined
def _round(a: np.uint64, word: np.uint64) -> np.uint64:
    """Return the accumulator ``a`` of XXH64 after the 8-byte word ``word``."""
    return np.uint64(_rotate(a + word * _P2, 31) * _P1)


@njit_inlined
def _merge(h: np.uint64, a: np.uint64) -> np.uint64:
    """Return the hash ``h`` of XXH64 after the accumulator ``a``, one of four, has been merged into it."""
    return np.uint64((h ^ _round(np.uint64(0), a)) * _P1 + _P4)


@njit_threaded
def xxh64(data: Bytes, start: int, end: int, seed: np.uint64) -> np.uint64:
    """Return the XXH64 of ``data[start:end]``, a 64-bit hash under ``seed`` (Collet's specification, version 0.1.1)."""
    p = start
    h = seed + _P5
    if end - start >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while end - p >= 32:
            a = _round(a, _load(data, p, 8))
            b = _round(b, _load(data, p + 8, 8))
            c = _round(c, _load(data, p + 16, 8))
            d = _round(d, _load(data, p + 24, 8))
            p += 32
        h = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
        h = _merge(_merge(_merge(_merge(h, a), b), c), d)
    h += np.uint64(end - start)
    while end - p >= 8:
        h = _rotate(h ^ _round(np.uint64(0), _load(data, p, 8)), 27) * _P1 + _P4
        p += 8
    if end - p >= 4:
        h = _rotate(h ^ (_load(data, p, 4) * _P1), 23) * _P2 + _P3
        p += 4
    while p < end:
        h = _rotate(h ^ (np.uint64(data[p]) * _P5), 11) * _P1
        p += 1
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


@njit_inlined
def _frame_checksum(data: Bytes, start: int, end: int, index: int) -> np.uint64:
    """Return the checksum of frame number ``index``: the low 32 bits of the XXH64 of its payload ``data[start:end]``,
    seeded with ``index << 32 | size`` (in bytes)."""
    seed = (np.uint64(index) << np.uint64(32)) | np.uint64(end - start)
    return np.uint64(xxh64(data, start, end, seed) & np.uint64(0xFFFFFFFF))


@njit_inlined
def _put(out: Bytes, at: int, value: int, size: int) -> int:
    """Write the lowest ``size`` bytes of a number to ``out`` at position ``at``, little-endian; return the position
    after them."""
    for i in range(size):
        out[at + i] = np.uint8((value >> (8 * i)) & 255)
    return at + size


@njit_threaded
def _encode_group(values: Values, begin: int, n: int, out: Bytes, at: int, coding: Coding) -> int:
    """Encode ``n`` values, eight at most, by INCEPTIONN's algorithm 2: two bytes of tags, 2 bits a value from the
    lowest on, then the codes, 0, 1, 2 or 4 bytes each for the tags 0 to 3; return the position in ``out`` after the
    group. A value has tag 3 from a magnitude of 1 on, 2 from 2^-floor(k / 2), 1 from 2^-k, else 0.

    Args:
        values: all values, as uint32 bit patterns (``bits``) and as float32 numbers (``reals``) of one memory; with
            ``coding.in_place`` those encoded become their errors (value less decoded value).
        begin: position of the first value.
        n: number of values.
        out: bytes, into which the group is written.
        at: position in ``out``.
        coding: k of the bound 2^-k, w and the step 2^-w of the 8-bit code, and whether to work in place.
    """
    bits, reals = values
    tags = 0
    p = at + 2
    for i in range(n):
        f = np.int64(bits[begin + i])
        sign, e, m = f >> 31, (f >> 23) & 255, (f & 0x7FFFFF) | 0x800000
        if e >= 127:
            tags |= 3 << (2 * i)
            p = _put(out, p, f, 4)
            if coding.in_place:
                bits[begin + i] = np.uint32(0)
        elif e >= 127 - coding.bound // 2:
            tags |= 2 << (2 * i)
            size = m >> (135 - e)
            p = _put(out, p, (sign << 15) | size, 2)
            if coding.in_place:
                reals[begin + i] -= np.float32(-size if sign else size) * np.float32(2.0**-15)
        elif e >= 127 - coding.bound:
            tags |= 1 << (2 * i)
            size = m >> (150 - e - coding.width)
            p = _put(out, p, (sign << 7) | size, 1)
            if coding.in_place:
                reals[begin + i] -= np.float32(-size if sign else size) * coding.step
    _put(out, at, tags, 2)
    return p


@njit_threaded
def encode_frames(values: Values, chunk: int, first: int, out: Bytes, coding: Coding) -> int:
    """Encode all values as frames, and return the number of bytes written.

    Args:
        values: the values, as uint32 bit patterns (``bits``) and as float32 numbers (``reals``) of one memory; with
            ``coding.in_place`` they become their errors (value less decoded value).
        chunk: number of values in each frame, a multiple of 8; the last may have fewer.
        first: number of the first frame in its stream, from 0, with which checksums are seeded.
        out: bytes for the largest frames that so many values can have.
        coding: k of the bound 2^-k, w and the step 2^-w of the 8-bit code, and whether to work in place.
    """
    p, count = 0, len(values.bits)
    for start in range(0, count, chunk):
        stop = min(start + chunk, count)
        payload = p + FRAME_HEADER
        q = payload
        for begin in range(start, stop, 8):
            q = _encode_group(values, begin, min(8, stop - begin), out, q, coding)
        _put(out, p, q - payload, 4)
        _put(out, p + 4, np.int64(_frame_checksum(out, payload, q, first + start // chunk)), 4)
        p = q
    return p


@njit_threaded
def _decode_group(data: Bytes, p: int, end: int, values: Values, begin: int, n: int, coding: Coding) -> int:
    """Decode a group of ``n`` values, eight at most, by INCEPTIONN's algorithm 3: two bytes of tags, then codes of 0,
    1, 2 or 4 bytes for the tags 0 to 3, of which 0 stands for the value 0; return the position in ``data`` after the
    group, −1 if it passes ``end`` or has a tag for a value behind the ``n``.

    Args:
        data: bytes of the stream.
        p: position of the group.
        end: position of the end of the frame.
        values: memory, as uint32 bit patterns (``bits``) and as float32 numbers (``reals``), that is filled, or with
            ``coding.in_place`` added to.
        begin: position of the first value in ``values``.
        n: number of values.
        coding: k of the bound 2^-k, w and the step 2^-w of the 8-bit code, and whether to work in place.
    """
    bits, reals = values
    if end - p < 2:
        return -1
    tags = np.int64(data[p]) | (np.int64(data[p + 1]) << 8)
    if tags >> (2 * n) != 0:
        return -1
    p += 2
    for i in range(begin, begin + n):
        tag = tags & 3
        tags >>= 2
        length = tag + (1 if tag == 3 else 0)
        if end - p < length:
            return -1
        code = np.int64(0)
        for b in range(length):
            code = np.int64(code | (np.int64(data[p + b]) << (8 * b)))
        p += int(length)
        before = reals[i]
        if tag == 3:
            bits[i] = np.uint32(code)
        elif tag == 2:
            size = code & 0x7FFF
            reals[i] = np.float32(-size if code >> 15 else size) * np.float32(2.0**-15)
        elif tag == 1:
            size = code & 0x7F
            reals[i] = np.float32(-size if code >> 7 else size) * coding.step
        elif not coding.in_place:
            reals[i] = np.float32(0.0)
        if coding.in_place and tag != 0:
            reals[i] += before
    return p


@njit_threaded
def _open_frame(data: Bytes, p: int, n: int, index: int) -> int:
    """Check size and checksum of one frame, and return the position of its payload in ``data``, or ``-(8 index +
    reason)`` where it is not valid; reason 1: cut short, 2: a length that so many values cannot take, 3: wrong
    checksum.

    Args:
        data: bytes of the stream.
        p: position of the frame, whose first 8 bytes are its header.
        n: number of its values.
        index: number of the frame in its stream, from 0.
    """
    if len(data) - p < FRAME_HEADER:
        return -(8 * index + TRUNCATED)
    length, checksum = np.int64(_load(data, p, 4)), _load(data, p + 4, 4)
    groups = (n + 7) // 8
    if length < 2 * groups or length > 2 * groups + 4 * n:
        return -(8 * index + BAD_LENGTH)
    p += FRAME_HEADER
    if p + length > len(data):
        return -(8 * index + TRUNCATED)
    if _frame_checksum(data, p, p + length, index) != checksum:
        return -(8 * index + BAD_CHECKSUM)
    return p


@njit_threaded
def decode_frames(data: Bytes, values: Values, chunk: int, first: int, coding: Coding) -> int:
    """Decode frames until all of ``values`` are filled, and return the number of bytes read, or ``-(8 frame + reason)``
    for the first frame that is not valid; reason 1: cut short, 2: impossible length, 3: wrong checksum, 4: malformed
    groups. Nothing outside ``data`` is read.

    Args:
        data: bytes from the beginning of a frame on.
        values: memory, as uint32 bit patterns (``bits``) and as float32 numbers (``reals``), that is filled, or with
            ``coding.in_place`` added to.
        chunk: number of values in each frame, a multiple of 8; the last may have fewer.
        first: number of the first frame in its stream, from 0, which checksums and the result refer to.
        coding: k of the bound 2^-k, w and the step 2^-w of the 8-bit code, and whether to work in place.
    """
    p = np.int64(0)  # a literal would have all that is called with it compiled once more
    count = len(values.bits)
    for start in range(0, count, chunk):
        stop = min(start + chunk, count)
        index = first + start // chunk
        p = _open_frame(data, p, stop - start, index)
        if p < 0:
            return int(p)
        end = p + np.int64(_load(data, p - 8, 4))
        for begin in range(start, stop, 8):
            p = _decode_group(data, p, end, values, begin, min(8, stop - begin), coding)
            if p < 0:
                return -(8 * index + BAD_PAYLOAD)
        if p != end:
            return -(8 * index + BAD_PAYLOAD)
    return int(p)


@njit_threaded
def count_tags(data: Bytes, count: int, chunk: int, counts: Ints) -> int:
    """Add the number of values of each tag, 0 to 3, to ``counts`` [4], in place; return the bytes read, or ``-(8 frame
    + reason)`` for the first frame that is not valid; reason 1: cut short, 2: impossible length, 3: wrong checksum, 4:
    malformed groups.

    Args:
        data: bytes of all frames of a stream, without the stream's header.
        count: number of values in the stream.
        chunk: number of values in each frame, a multiple of 8; the last may have fewer.
        counts: counts so far, int64, of values dropped (tag 0), with codes of 8 and 16 bits (1, 2) and kept whole (3);
            after an error they hold some of the values.
    """
    p = np.int64(0)  # a literal would have all that is called with it compiled once more
    for start in range(0, count, chunk):
        stop = min(start + chunk, count)
        index = start // chunk
        p = _open_frame(data, p, stop - start, index)
        if p < 0:
            return int(p)
        end = p + np.int64(_load(data, p - 8, 4))
        for begin in range(start, stop, 8):
            if end - p < 2:
                return -(8 * index + BAD_PAYLOAD)
            tags, n = np.int64(_load(data, p, 2)), min(8, stop - begin)
            if tags >> (2 * n) != 0:
                return -(8 * index + BAD_PAYLOAD)
            p += 2
            for _ in range(n):
                tag = tags & 3
                tags >>= 2
                counts[tag] += 1
                p += tag + (1 if tag == 3 else 0)
        if p != end:
            return -(8 * index + BAD_PAYLOAD)
    return int(p)
