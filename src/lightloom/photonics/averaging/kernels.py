"""Block quantisation and averaging of codes, compiled by Numba, each in one pass over memory.

Block b is ``edges[b]:edges[b + 1]``; its scale is one byte, exponent + 127, or 255 if a value has no code.
All arithmetic is exact: float64 scales float32 by powers of two, and holds sums of codes as whole numbers.
"""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Bytes, Codes, Column, Float32s, Int32s, Ints
from lightloom.core.kernels import njit_threaded_numpy

_TILE = 2048
"""Number of sums that fit into the first-level cache."""


@njit_threaded_numpy
def largest_exponents(bits_of_values: Int32s, edges: Ints, out: Column) -> None:
    """Write the scale byte of each block to ``out`` [block]: 127 plus the least exponent of two that exceeds its
    largest magnitude; 255 from 2^127 on and for values that are not finite. ``bits_of_values`` are float32 values seen
    as int32, ``edges`` [block + 1] where blocks begin."""
    for b in range(len(out)):
        values = bits_of_values[edges[b] : edges[b + 1]]
        largest = np.int32(0)
        for i in range(len(values)):
            largest = max(largest, np.int32(values[i] & np.int32(0x7FFFFFFF)))
        exponent = largest >> 23
        # A subnormal is below 2^-126, and below 2^-127 where its leading bit is 0.
        out[b] = min(exponent + 1, 255) if exponent else largest >> 22


@njit_threaded_numpy
def encode(values: Float32s, scales: Bytes, edges: Ints, bits: int, out: Codes) -> None:
    """Write offset-binary codes of ``bits`` bits to ``out``: each value over its block's scale, rounded half up, plus
    half of the range, and saturated at the top. ``scales`` [block] are exponents plus 127, ``edges`` [block + 1] where
    blocks begin."""
    half, top = 2.0 ** (bits - 1), 2.0**bits - 1.0
    for b in range(len(scales)):
        factor = 2.0 ** (bits + 126 - np.int64(scales[b]))
        block, codes = values[edges[b] : edges[b + 1]], out[edges[b] : edges[b + 1]]
        for i in range(len(block)):
            codes[i] = min(np.floor(np.float64(block[i]) * factor + 0.5) + half, top)


@njit_threaded_numpy
def decode(codes: Codes, scales: Bytes, edges: Ints, bits: int, out: Float32s) -> None:
    """Write the float32 values of offset-binary codes of ``bits`` bits to ``out``: each code less half of the range,
    times the step of its block, which follows from ``scales`` [block], exponents plus 127. ``edges`` [block + 1] are
    where blocks begin."""
    half = 2.0 ** (bits - 1)
    for b in range(len(scales)):
        step = 2.0 ** (np.int64(scales[b]) - bits - 126)
        block, values = codes[edges[b] : edges[b + 1]], out[edges[b] : edges[b + 1]]
        for i in range(len(block)):
            values[i] = np.float32((np.float64(block[i]) - half) * step)


@njit_threaded_numpy
def mean(rows: Codes, offset: int, out: Codes) -> None:
    """Write floor((sum of rows + offset) / rows) of unsigned codes [rows, n].

    (T + 1/2) / N lies at least 1/(2N) from the next whole number, far more than the roundings of a product with 1/N can
    bridge for sums below 2^50, so that cutting off its decimals floors T / N.
    """
    count = len(rows)
    start, factor = offset + 0.5, 1.0 / count
    sums = np.empty(_TILE)
    for at in range(0, rows.shape[1], _TILE):
        results = out[at : at + _TILE]
        tile = sums[: len(results)]
        tile[:] = start
        for r in range(count):
            row = rows[r, at : at + _TILE]
            for i in range(len(row)):
                tile[i] += row[i]
        for i in range(len(results)):
            results[i] = np.floor(tile[i] * factor)
