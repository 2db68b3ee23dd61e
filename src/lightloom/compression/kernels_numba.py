"""INCEPTIONN frames compiled by Numba: the fallback where the C kernel was not built. The bytes are the same.

Little-endian throughout. A frame is a u32 payload length, a u32 checksum, then groups: 16 bits of tags for
eight values, their codes behind it. ``docs/compression.md`` has the whole format.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

TRUNCATED, BAD_LENGTH, BAD_CHECKSUM, BAD_PAYLOAD = 1, 2, 3, 4
FRAME_HEADER = 8

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


@njit(inline="always")
def _rotate(x: Any, r: int) -> Any:
    return (x << np.uint64(r)) | (x >> np.uint64(64 - r))


@njit(inline="always")
def _load(data: Any, at: int, size: int) -> Any:
    word = np.uint64(0)
    for i in range(size):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return word


@njit(inline="always")
def _round(a: Any, word: Any) -> Any:
    return _rotate(a + word * _P2, 31) * _P1


@njit(inline="always")
def _merge(h: Any, a: Any) -> Any:
    return (h ^ _round(np.uint64(0), a)) * _P1 + _P4


@njit(cache=True, nogil=True)
def xxh64(data: Any, start: int, end: int, seed: Any) -> Any:
    """XXH64 of ``data[start:end]`` (Collet's specification, version 0.1.1)."""
    p = start
    h = seed + _P5
    if end - start >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed + np.uint64(0), seed - _P1
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


@njit(inline="always")
def _frame_checksum(data: Any, start: int, end: int, index: int) -> Any:
    seed = (np.uint64(index) << np.uint64(32)) | np.uint64(end - start)
    return xxh64(data, start, end, seed) & np.uint64(0xFFFFFFFF)


@njit(inline="always")
def _put(out: Any, at: int, value: int, size: int) -> int:
    for i in range(size):
        out[at + i] = np.uint8((value >> (8 * i)) & 255)
    return at + size


@njit(cache=True, nogil=True)
def _encode_group(
    values: Any, reals: Any, begin: int, n: int, out: Any, at: int, bound: int, width: int, leave: bool
) -> int:
    """Algorithm 2 on up to eight values; returns the end of the group."""
    tags = 0
    p = at + 2
    step8, step16 = np.float32(2.0 ** -np.float64(width)), np.float32(2.0**-15)
    for i in range(n):
        f = np.int64(values[begin + i])
        sign, e, m = f >> 31, (f >> 23) & 255, (f & 0x7FFFFF) | 0x800000
        if e >= 127:
            tags |= 3 << (2 * i)
            p = _put(out, p, f, 4)
            if leave:
                values[begin + i] = np.uint32(0)
        elif e >= 127 - bound // 2:
            tags |= 2 << (2 * i)
            size = m >> (135 - e)
            p = _put(out, p, (sign << 15) | size, 2)
            if leave:
                reals[begin + i] -= np.float32(-size if sign else size) * step16
        elif e >= 127 - bound:
            tags |= 1 << (2 * i)
            size = m >> (150 - e - width)
            p = _put(out, p, (sign << 7) | size, 1)
            if leave:
                reals[begin + i] -= np.float32(-size if sign else size) * step8
    _put(out, at, tags, 2)
    return p


@njit(cache=True, nogil=True)
def encode_frames(
    values: Any, reals: Any, chunk: int, first: int, out: Any, bound: int, width: int, leave: bool
) -> int:
    """Encode ``values`` (u32, and ``reals`` the same memory) as frames into ``out``, which holds the worst case.

    With ``leave`` the values become what the frames lack. Returns the bytes written.
    """
    p, count = 0, len(values)
    for start in range(0, count, chunk):
        stop = min(start + chunk, count)
        payload = p + FRAME_HEADER
        q = payload
        for begin in range(start, stop, 8):
            q = _encode_group(values, reals, begin, min(8, stop - begin), out, q, bound, width, leave)
        _put(out, p, q - payload, 4)
        _put(out, p + 4, np.int64(_frame_checksum(out, payload, q, first + start // chunk)), 4)
        p = q
    return p


@njit(cache=True, nogil=True)
def _decode_group(data: Any, p: int, end: int, bits: Any, reals: Any, begin: int, n: int, step8: Any, add: bool) -> Any:
    """Algorithm 3 on up to eight values; returns the end of the group, or -1 where it would pass ``end``."""
    if end - p < 2:
        return -1
    tags: Any = np.int64(data[p]) | (np.int64(data[p + 1]) << 8)
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
            code |= np.int64(data[p + b]) << (8 * b)
        p += length
        before = reals[i]
        if tag == 3:
            bits[i] = np.uint32(code)
        elif tag == 2:
            size = code & 0x7FFF
            reals[i] = np.float32(-size if code >> 15 else size) * np.float32(2.0**-15)
        elif tag == 1:
            size = code & 0x7F
            reals[i] = np.float32(-size if code >> 7 else size) * step8
        elif not add:
            reals[i] = np.float32(0.0)
        if add and tag != 0:
            reals[i] += before
    return p


@njit(cache=True, nogil=True)
def _open_frame(data: Any, p: int, n: int, index: int) -> Any:
    """Check the frame of ``n`` values at ``p``; where its payload begins, or ``-(8 frame + reason)``."""
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


@njit(cache=True, nogil=True)
def decode_frames(data: Any, bits: Any, reals: Any, chunk: int, first: int, width: int, add: bool) -> Any:
    """Decode frames into ``bits`` and ``reals``, two views of the same memory; with ``add``, add them to it.

    Returns the bytes read, or ``-(8 frame + reason)``. Reads nothing outside ``data``.
    """
    p: Any = 0
    count, step8 = len(bits), np.float32(2.0 ** -np.float64(width))
    for start in range(0, count, chunk):
        stop = min(start + chunk, count)
        index = first + start // chunk
        p = _open_frame(data, p, stop - start, index)
        if p < 0:
            return p
        end = p + np.int64(_load(data, p - 8, 4))
        for begin in range(start, stop, 8):
            p = _decode_group(data, p, end, bits, reals, begin, min(8, stop - begin), step8, add)
            if p < 0:
                return -(8 * index + BAD_PAYLOAD)
        if p != end:
            return -(8 * index + BAD_PAYLOAD)
    return p


@njit(cache=True, nogil=True)
def count_tags(data: Any, count: int, chunk: int, counts: Any) -> Any:
    """Add the number of values of each tag to ``counts``; returns as ``decode_frames`` does."""
    p: Any = 0
    for start in range(0, count, chunk):
        stop = min(start + chunk, count)
        index = start // chunk
        p = _open_frame(data, p, stop - start, index)
        if p < 0:
            return p
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
    return p
