"""Block quantisation in NumPy: the kernel where the C one was not built. The bytes are the same.

Arrays of blocks have the shape [blocks, B]. Runs are taken in pieces of whole blocks that fit a core's caches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lightloom.compression.blocks.format import (
    LLOYD_LEVELS,
    LLOYD_THRESHOLD,
    NAN_SCALE,
    SCALE_BYTES,
    BlockFormat,
    fp8_values,
)
from lightloom.core.arrays import Bits, Bytes, Float32s, Ints
from lightloom.core.effort import Effort

_PIECE: Effort = 1 << 15
"""Values of a piece, about."""


_FP8_VALUES = np.array(fp8_values(), np.float32)
"""By code."""


class Portable:
    """The kernel in NumPy."""

    name = "fallback"

    def encode(self, fmt: BlockFormat, values: Float32s, residual: Float32s | None, wire: Bytes, leave: bool) -> None:
        """Encode one run: ``values``, which become their errors with ``leave``, or ``residual + values`` likewise."""
        rest = residual if residual is not None else values if leave else None
        for first, last, blocks in _pieces(fmt, values.size, wire):
            x = np.zeros((len(blocks), fmt.block), np.float32)
            flat = x.reshape(-1)[: last - first]
            flat[:] = values[first:last]
            with np.errstate(over="ignore", invalid="ignore"):
                if residual is not None:
                    flat += residual[first:last]
                scale_bits, codes = _quantise(fmt, x)
                blocks[:, :SCALE_BYTES] = scale_bits.astype("<u2")[:, None].view(np.uint8)
                blocks[:, SCALE_BYTES:] = _pack(codes, fmt.bits)
                if rest is not None:
                    x -= _values(fmt, scale_bits, codes)
                    x[scale_bits == NAN_SCALE] = 0
                    rest[first:last] = flat

    def decode(self, fmt: BlockFormat, wire: Bytes, out: Float32s, factor: float, add: bool) -> None:
        """Decode one run: ``out`` becomes, or grows by, ``factor`` times the values."""
        for first, last, blocks in _pieces(fmt, out.size, wire):
            with np.errstate(over="ignore", invalid="ignore"):
                scale_bits = np.ascontiguousarray(blocks[:, :SCALE_BYTES]).view("<u2").reshape(-1)
                codes = _unpack(np.ascontiguousarray(blocks[:, SCALE_BYTES:]), fmt.bits)
                values = _values(fmt, scale_bits, codes).reshape(-1)[: last - first] * np.float32(factor)
                if add:
                    out[first:last] += values
                else:
                    out[first:last] = values

    def encode_runs(
        self, fmt: BlockFormat, values: Float32s, residual: Float32s | None, runs: Ints, wire: Bytes
    ) -> None:
        """Encode every run of a table."""
        for first, count, at in runs.tolist():
            part = slice(first, first + count)
            rest = None if residual is None else residual[part]
            self.encode(fmt, values[part], rest, wire[at : at + fmt.nbytes(count)], False)

    def decode_runs(self, fmt: BlockFormat, wire: Bytes, runs: Ints, out: Float32s, factor: float, add: bool) -> None:
        """Decode every run of a table."""
        for first, count, at in runs.tolist():
            self.decode(fmt, wire[at : at + fmt.nbytes(count)], out[first : first + count], factor, add)


def _pieces(fmt: BlockFormat, count: int, wire: Bytes) -> Iterator[tuple[int, int, Bytes]]:
    """Yield the first value of each piece, the end of its values, and its blocks on the wire, [blocks, bytes]."""
    blocks = wire.reshape(-1, fmt.block_bytes)
    step = max(1, _PIECE // fmt.block)
    for begin in range(0, len(blocks), step):
        end = min(begin + step, len(blocks))
        yield begin * fmt.block, min(end * fmt.block, count), blocks[begin:end]


def _quantise(fmt: BlockFormat, x: Float32s) -> tuple[Bits, Bytes]:
    """Bit patterns of the bfloat16 scales of blocks ``x`` [blocks, B], and codes in the low bits of bytes."""
    size = np.abs(x)
    scale_bits = _mean_scale(size, fmt.largest_mean) if fmt.mean_scale else _linear_scale(size, fmt.largest_code)
    scale = _scales(scale_bits)[:, None]
    if not fmt.mean_scale:
        usable = scale > 0
        inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=usable)
        scaled = np.multiply(x, inverse, out=size)
        scaled[~usable[:, 0]] = 0
        codes = _fp8_codes(scaled) if fmt.kind == "fp8" else np.rint(scaled, out=scaled).astype(np.int8).view(np.uint8)
    else:
        codes = (x < 0).view(np.uint8)
        if fmt.kind == "lloyd":
            codes = codes + codes + (size > scale * np.float32(LLOYD_THRESHOLD))
        codes[np.isnan(scale[:, 0])] = 0
    return scale_bits, codes


def _values(fmt: BlockFormat, scale_bits: NDArray[np.unsignedinteger], codes: Bytes) -> Float32s:
    """Values of codes [blocks, B] in the low bits of bytes; only linear codes may have others above."""
    scale = _scales(scale_bits)[:, None]
    if fmt.kind == "linear":
        spare = np.uint8(8 - fmt.bits)
        return ((codes << spare).view(np.int8) >> spare.view(np.int8)).astype(np.float32) * scale
    if fmt.kind == "fp8":
        return _FP8_VALUES[codes] * scale
    level = scale
    if fmt.kind == "lloyd":
        inner, outer = (scale * np.float32(level) for level in LLOYD_LEVELS)
        level = np.where((codes & np.uint8(1)).view(np.bool_), outer, inner)
    sign = np.int8(1) - ((codes >> np.uint8(fmt.bits - 1)) << np.uint8(1)).view(np.int8)
    return sign.astype(np.float32) * level


def _fp8_codes(scaled: Float32s) -> Bytes:
    """Codes of values of at most 448 as float8 e4m3, to the nearest, ties to even."""
    bits = scaled.view(np.uint32)
    size = bits & np.uint32(0x7FFFFFFF)
    rounded = ((size + np.uint32(0x7FFFF) + ((size >> np.uint32(20)) & np.uint32(1))) >> np.uint32(20)) - np.uint32(960)
    small = np.rint(size.view(np.float32) * np.float32(2.0**9))  # below 2^-6, multiples of 2^-9
    codes = np.where(size < np.uint32(0x3C800000), small, rounded).astype(np.uint8)
    return codes | (bits >> np.uint32(24)).astype(np.uint8) & np.uint8(128)


def _linear_scale(size: Float32s, largest_code: int) -> Bits:
    """Bit patterns of the bfloat16 scales of linear blocks of these sizes, [blocks]."""
    largest = size.max(axis=1)
    bits = (largest / np.float32(largest_code)).view(np.uint32)
    rounded = (bits + np.uint32(0xFFFF)) & np.uint32(0xFFFF0000)
    scale = rounded.view(np.float32)
    finite = np.isfinite(largest) & np.isfinite(scale * np.float32(largest_code))
    usable = scale > np.float32(2.0**-128)
    return np.where(finite, np.where(usable, rounded >> np.uint32(16), 0), NAN_SCALE).astype(np.uint32)


def _mean_scale(size: Float32s, most: int) -> Bits:
    """Bit patterns of the bfloat16 means of blocks of these sizes, [blocks], at most ``most``."""
    total = size * np.float32(1 / size.shape[1])
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        total = total[:, :half] + total[:, half:]
    mean = np.ascontiguousarray(total[:, 0]).view(np.uint32)
    rounded = (mean + np.uint32(0x7FFF) + ((mean >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isfinite(total[:, 0]), np.minimum(rounded, np.uint32(most)), NAN_SCALE).astype(np.uint32)


def _scales(bits: NDArray[np.unsignedinteger]) -> Float32s:
    """Values of bfloat16 bit patterns."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _pack(codes: Bytes, bits: int) -> Bytes:
    """The low bits of codes [blocks, B] in a row, [blocks, B bits / 8].

    Eight codes are a word of 64 bits, in which they move next to each other: by twos, then by fours, then all.
    """
    if bits == 8:
        return codes
    words = codes.view("<u8") & _ones(bits, 8)
    for width in (8, 16, 32):
        used = bits * width // 8
        low = _ones(used, 2 * width)
        words = (words & low) | ((words >> np.uint64(width - used)) & (low << np.uint64(used)))
    return words.view(np.uint8).reshape(len(codes), -1, 8)[:, :, :bits].reshape(len(codes), -1)


def _unpack(data: Bytes, bits: int) -> Bytes:
    """The inverse of :func:`_pack`."""
    if bits == 8:
        return data
    groups = np.zeros((len(data), data.shape[1] // bits, 8), np.uint8)
    groups[:, :, :bits] = data.reshape(len(data), -1, bits)
    words = groups.reshape(len(data), -1).view("<u8")
    for width in (32, 16, 8):
        used = bits * width // 8
        low = _ones(used, 2 * width)
        words = (words & low) | ((words & (low << np.uint64(used))) << np.uint64(width - used))
    return words.view(np.uint8)


def _ones(count: int, stride: int) -> np.uint64:
    """A word with ``count`` ones at the low end of every ``stride`` bits."""
    return np.uint64(sum(((1 << count) - 1) << at for at in range(0, 64, stride)))
