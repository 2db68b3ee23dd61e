"""Block quantisation in NumPy: the kernel where the C one was not built. The bytes are the same.

Arrays of blocks have the shape [blocks, B]. Runs are taken in pieces of whole blocks that fit a core's caches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lightloom.compression.blocks.format import LLOYD_THRESHOLD, NAN_SCALE, SCALE_BYTES, BlockFormat, decoded_codes
from lightloom.core.arrays import Bits, Bytes, Float32s, Ints

_PIECE = 1 << 15
"""Values of a piece, about."""


class Portable:
    """The kernel in NumPy."""

    name = "fallback"

    def encode(self, fmt: BlockFormat, values: Float32s, residual: Float32s | None, wire: Bytes, leave: bool) -> None:
        """Encode one run: ``values``, which become their errors with ``leave``, or ``residual + values`` likewise."""
        for first, last, blocks in _pieces(fmt, values.size, wire):
            x = np.zeros(blocks.shape[0] * fmt.block, np.float32)
            count = last - first
            x[:count] = values[first:last]
            with np.errstate(over="ignore", invalid="ignore"):
                if residual is not None:
                    x[:count] += residual[first:last]
                decoded = _encode_blocks(fmt, x.reshape(-1, fmt.block), blocks)
                if residual is not None or leave:
                    rest = (values if residual is None else residual)[first:last]
                    np.subtract(x[:count], decoded[:count], out=rest)
                    rest[np.isnan(decoded[:count])] = 0

    def decode(self, fmt: BlockFormat, wire: Bytes, out: Float32s, factor: float, add: bool) -> None:
        """Decode one run: ``out`` becomes, or grows by, ``factor`` times the values."""
        for first, last, blocks in _pieces(fmt, out.size, wire):
            with np.errstate(over="ignore", invalid="ignore"):
                values = decode_blocks(fmt, blocks)[: last - first] * np.float32(factor)
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


def _encode_blocks(fmt: BlockFormat, x: Float32s, blocks: Bytes) -> Float32s:
    """Write the blocks of ``x`` [blocks, B] and return what they decode to, flat; NaN in blocks without a scale."""
    size = np.abs(x)
    scale_bits = _mean_scale(size) if fmt.mean_scale else _linear_scale(size, fmt.largest_code)
    scale = _scales(scale_bits)[:, None]
    if fmt.kind == "linear":
        usable = scale > 0
        inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=usable)
        codes = np.rint(np.where(usable, x, np.float32(0)) * inverse).astype(np.int8).view(np.uint8)
        codes &= np.uint8((1 << fmt.bits) - 1)
    else:
        codes = (x < 0).astype(np.uint8)
        if fmt.kind == "lloyd":
            codes = codes * np.uint8(2) + (size > scale * np.float32(LLOYD_THRESHOLD))
        codes[np.isnan(scale[:, 0])] = 0
    blocks[:, :SCALE_BYTES] = scale_bits.astype("<u2")[:, None].view(np.uint8)
    blocks[:, SCALE_BYTES:] = _pack(codes, fmt.bits)
    return decode_blocks(fmt, blocks)


def decode_blocks(fmt: BlockFormat, blocks: Bytes) -> Float32s:
    """Return the values of blocks [blocks, bytes], flat."""
    scale_bits = np.ascontiguousarray(blocks[:, :SCALE_BYTES]).view("<u2").reshape(-1)
    scale = _scales(scale_bits)[:, None]
    codes = _unpack(np.ascontiguousarray(blocks[:, SCALE_BYTES:]), fmt.bits)
    if fmt.kind == "linear":
        spare = 8 - fmt.bits
        signed = (codes << np.uint8(spare)).view(np.int8) >> np.int8(spare)
        return (signed.astype(np.float32) * scale).reshape(-1)
    table = np.array(decoded_codes(fmt), np.float32) * scale
    values: Float32s = np.take_along_axis(table, codes.astype(np.intp), axis=1).reshape(-1)
    return values


def _linear_scale(size: Float32s, largest_code: int) -> Bits:
    """Bit patterns of the bfloat16 scales of linear blocks of these sizes, [blocks]."""
    largest = size.max(axis=1)
    bits = (largest / np.float32(largest_code)).view(np.uint32)
    rounded = (bits + np.uint32(0xFFFF)) & np.uint32(0xFFFF0000)
    scale = rounded.view(np.float32)
    finite = np.isfinite(largest) & np.isfinite(scale * np.float32(largest_code))
    usable = scale > np.float32(2.0**-128)
    return np.where(finite, np.where(usable, rounded >> np.uint32(16), 0), NAN_SCALE).astype(np.uint32)


def _mean_scale(size: Float32s) -> Bits:
    """Bit patterns of the bfloat16 means of blocks of these sizes, [blocks]."""
    total, block = size, size.shape[1]
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        total = total[:, :half] + total[:, half:]
    mean = (total[:, 0] * np.float32(1 / block)).view(np.uint32)
    rounded = (mean + np.uint32(0x7FFF) + ((mean >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isfinite(total[:, 0]), rounded, NAN_SCALE).astype(np.uint32)


def _scales(bits: NDArray[np.unsignedinteger]) -> Float32s:
    """Values of bfloat16 bit patterns."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _pack(codes: Bytes, bits: int) -> Bytes:
    """Codes [blocks, B] to their bytes, [blocks, B bits / 8]."""
    if bits == 8:
        return codes
    spread = np.unpackbits(codes[:, :, None], axis=2, count=bits, bitorder="little")
    return np.packbits(spread.reshape(len(codes), -1), axis=1, bitorder="little")


def _unpack(data: Bytes, bits: int) -> Bytes:
    """The inverse of :func:`_pack`."""
    if bits == 8:
        return data
    spread = np.unpackbits(data, axis=1, bitorder="little").reshape(len(data), -1, bits)
    return np.packbits(spread, axis=2, bitorder="little")[:, :, 0]
