"""The blocks of the paper's engines as Algorithms 2 and 3 state them, shift by shift, independent of the kernels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnPrinted

_CODE_BYTES = (0, 1, 2, 4)


def compress(codec: Inceptionn | InceptionnPrinted, values: NDArray[np.float32]) -> bytes:
    """Return the payload of one frame of the codec's stream."""
    patterns = values.view(np.uint32).tolist()
    groups = [
        _group([_compression_block(f, codec.exponent, codec.width) for f in patterns[i : i + 8]])
        for i in range(0, len(patterns), 8)
    ]
    return b"".join(groups)


def decompress(codec: Inceptionn | InceptionnPrinted, payload: bytes, count: int) -> bytes:
    """Return the ``count`` float32 of a frame's payload, in little-endian order."""
    out = bytearray()
    for tags, codes in _groups(payload, count):
        for tag, code in zip(tags, codes, strict=True):
            bits = _decompression_block(tag, int.from_bytes(code, "little"), codec.width)
            out += bits.to_bytes(4, "little")
    return bytes(out)


def _compression_block(f: int, k: int, width: int) -> tuple[int, int]:
    """Algorithm 2: (tag, v). ``shifted_m`` has 24 bits; the window of the printed form begins at bit 22."""
    s, e, m = f >> 31, (f >> 23) & 0xFF, f & 0x7FFFFF
    error_bound = 127 - k
    if e >= 127:
        return 3, f
    if e < error_bound:
        return 0, 0
    shifted_m = ((1 << 23) | m) >> (127 - e)
    if e >= error_bound + -(-(127 - error_bound) // 2):
        return 2, s << 15 | (shifted_m >> 8) & 0x7FFF
    below = width - 7
    # A window `below` bits lower would lose bits that the shift to the right has dropped; hence the shift by less.
    window = ((1 << 23) | m) << below >> (127 - e)
    return 1, s << 7 | (window >> 16) & 0x7F


def _decompression_block(tag: int, v: int, width: int) -> int:
    """Algorithm 3, with ``first1_loc`` counted from one and an all-zero code decoded to +0."""
    if tag in (0, 3):
        return v
    bits = 7 if tag == 1 else 15
    s, magnitude = v >> bits, v & ((1 << bits) - 1)
    if not magnitude:
        return 0
    n_shift = bits - magnitude.bit_length() + 1
    m = (magnitude << n_shift) & ((1 << bits) - 1)
    e = 127 - n_shift - (width - 7 if tag == 1 else 0)
    return s << 31 | e << 23 | m << (23 - bits)


def _group(coded: list[tuple[int, int]]) -> bytes:
    """The shifter tree: tags in front, the codes in a row behind them."""
    tags = sum(tag << (2 * i) for i, (tag, _) in enumerate(coded))
    return tags.to_bytes(2, "little") + b"".join(v.to_bytes(_CODE_BYTES[tag], "little") for tag, v in coded)


def _groups(payload: bytes, count: int) -> Iterator[tuple[list[int], list[bytes]]]:
    at = 0
    for begin in range(0, count, 8):
        word = int.from_bytes(payload[at : at + 2], "little")
        at += 2
        tags = [word >> (2 * i) & 3 for i in range(min(8, count - begin))]
        codes = []
        for tag in tags:
            codes.append(payload[at : at + _CODE_BYTES[tag]])
            at += _CODE_BYTES[tag]
        yield tags, codes
    assert at == len(payload)
