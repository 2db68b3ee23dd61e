"""Global block quantisation: every server scales a block of gradients by the same power of two (SwitchML's scheme).

    server i:  largest exponent of each block ──┐
                                                ├── maximum over servers ──▶ one scale a block ──▶ integer codes
    server j:  largest exponent of each block ──┘

Servers agree on scales before they quantise, as only codes of equal scale can be averaged. They exchange one byte of
exponent per block and server: at 8 bits and blocks of 256 that is 1/256 = 0.39 % of the gradient's bytes, the paper's
"less than 0.4 %"; at 16 bits half of that.

With E the largest exponent in the block over all servers (|value| < 2^E), the step is 2^(E - bits + 1). Codes are in
offset binary and rounded half-up, so that values spread evenly over a step have no bias; within half a step of 2^E they
saturate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lightloom.core.arrays import Bytes, Codes, Column, Float32s, Int32s, Ints
from lightloom.core.errors import ConfigError
from lightloom.core.kernels import njit_threaded_numpy
from lightloom.photonics.averaging.function import Rounding as Rounding
from lightloom.photonics.averaging.function import symbols_for

UNFIT = 255
"""Exponent byte of blocks with NaN, infinities or magnitudes of 2^127 or more. It is the largest byte, so the maximum
over servers passes it to all of them."""


def synchronisation_share(values: int, bits: int, block: int = 256) -> float:
    """Return the bytes of exponents that a server sends to agree on scales, as a share of the bytes of its codes, at
    bits / 8 bytes each.

    One byte is sent for each block.

    Args:
        values: number of gradient values, at least 1.
        bits: bits per code.
        block: values per block; the last one may be shorter.
    """
    return -(-values // block) / (values * bits / 8)


@dataclass(frozen=True, slots=True, eq=False)
class CodeBuffers:
    """Quantisation of float32 buffers of several parameters, in one pass over memory; no block spans two parameters."""

    bits: int
    edges: Ints
    """Start of each block, and the end of the last."""

    @classmethod
    def of(cls, sizes: Sequence[int], bits: int = 16, block: int = 256) -> CodeBuffers:
        """Return the quantisation of a buffer that holds parameters one after the other.

        Args:
            sizes: number of values of each parameter.
            bits: bits per code, 2 to 32.
            block: values per block; the last block of each parameter may be shorter.

        Raises:
            ConfigError: bits are outside 2..32, or blocks are empty.
        """
        symbols_for(bits)
        if bits < 2:
            raise ConfigError(f"bits = {bits}: expected at least 2, one of them the sign")
        if block < 1:
            raise ConfigError(f"block = {block}: expected at least one value")
        ends = np.cumsum([0, *sizes], dtype=np.int64)
        begins = [np.arange(low, high, block, dtype=np.int64) for low, high in pairwise(ends)]
        return cls(bits, np.concatenate([*begins, ends[-1:]]))

    @property
    def blocks(self) -> int:
        """Number of blocks, each with a scale of one byte."""
        return self.edges.size - 1

    @property
    def code_type(self) -> type[np.uint16] | type[np.uint32]:
        """Type of the codes: uint16 up to 16 bits, uint32 beyond."""
        return np.uint16 if self.bits <= 16 else np.uint32

    def scales(self, values: Float32s) -> Bytes:
        """Return the scale byte of each block of float32 values, uint8 [blocks]. Servers then agree on the maximum of
        theirs for each block, which is left to the caller.

        It is 127 plus the least exponent E, from −127 on, with all magnitudes below 2^E (so 0 for a block of zeros), or
        `UNFIT`, 255, for blocks with NaN, infinities or magnitudes of 2^127 or more.
        """
        offer = np.empty(self.blocks, np.uint8)
        _largest_exponents(values.view(np.int32), self.edges, offer)
        return offer

    def encode(self, values: Float32s, scales: Bytes, out: Codes) -> None:
        """Write the offset-binary codes of float32 values into ``out`` (of `code_type`), one code for each value.

        ``scales`` [blocks] are the agreed scale bytes, none of which may be `UNFIT`. A value's code is floor(value /
        step + 1/2) + 2^(bits - 1), at most 2^bits - 1, with step = 2^(E - bits + 1) and E the block's scale byte less
        127; a scale must not be below that of the values.
        """
        _encode(values, scales, self.edges, self.bits, out)

    def decode(self, codes: Codes, scales: Bytes, out: Float32s) -> None:
        """Write the values (code - 2^(bits - 1)) * 2^(E - bits + 1) of offset-binary codes into ``out`` as float32, to
        which codes of more than 24 bits are rounded; E is the block's scale byte less 127.

        ``scales`` [blocks] are the scale bytes with which the codes were written.
        """
        _decode(codes, scales, self.edges, self.bits, out)


def mean_codes(rows: Codes, rounding: Rounding, out: Codes) -> None:
    """Write the exact mean of unsigned codes (servers, n), rounded down or half up, into ``out`` (n,).

    It is exact for up to 32 bits and 2^18 servers.
    """
    _mean(rows, len(rows) // 2 if rounding == "half-up" else 0, out)


def averaging_bias(servers: int, rounding: Rounding) -> float:
    """Return the mean error of averaged codes, rounded less exact, in units of the last place.

    Sums are assumed to be spread evenly over residues mod N. floor(T/N): -(N-1)/(2N). Half-up: 0 for odd N, +1/(2N) for
    even N, whose ties all go up.
    """
    if rounding == "floor":
        return -(servers - 1) / (2 * servers)
    return 0.0 if servers % 2 else 1 / (2 * servers)


# Kernels, each in one pass over memory. Block b is ``edges[b]:edges[b + 1]``. All arithmetic is exact: float64 scales
# float32 by powers of two, and holds sums of codes as whole numbers.

_TILE = 2048
"""Number of sums that fit into the first-level cache."""


@njit_threaded_numpy
def _largest_exponents(bits_of_values: Int32s, edges: Ints, out: Column) -> None:
    """Write the scale byte of each block to ``out`` [block]: 127 plus the least E, from -127 on, with 2^E above its
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
def _encode(values: Float32s, scales: Bytes, edges: Ints, bits: int, out: Codes) -> None:
    """Write offset-binary codes of ``bits`` bits to ``out``: each value over its block's step, 2^(scale - bits - 126),
    rounded half up, plus 2^(bits - 1), and at most 2^bits - 1. ``scales`` [block] are exponents plus 127, ``edges``
    [block + 1] where blocks begin."""
    half, top = 2.0 ** (bits - 1), 2.0**bits - 1.0
    for b in range(len(scales)):
        factor = 2.0 ** (bits + 126 - np.int64(scales[b]))
        block, codes = values[edges[b] : edges[b + 1]], out[edges[b] : edges[b + 1]]
        for i in range(len(block)):
            codes[i] = min(np.floor(np.float64(block[i]) * factor + 0.5) + half, top)


@njit_threaded_numpy
def _decode(codes: Codes, scales: Bytes, edges: Ints, bits: int, out: Float32s) -> None:
    """Write the float32 values of offset-binary codes of ``bits`` bits to ``out``: each code less 2^(bits - 1), times
    the step of its block, 2^(scale - bits - 126). ``scales`` [block] are exponents plus 127. ``edges`` [block + 1] are
    where blocks begin."""
    half = 2.0 ** (bits - 1)
    for b in range(len(scales)):
        step = 2.0 ** (np.int64(scales[b]) - bits - 126)
        block, values = codes[edges[b] : edges[b + 1]], out[edges[b] : edges[b + 1]]
        for i in range(len(block)):
            values[i] = np.float32((np.float64(block[i]) - half) * step)


@njit_threaded_numpy
def _mean(rows: Codes, offset: int, out: Codes) -> None:
    """Write floor((sum of the rows + offset) / number of rows) of unsigned codes ``rows`` [servers, n] into ``out``
    [n]: ``offset`` 0 rounds the mean down, half the number of rows (rounded down) rounds it half up.

    For T, the sum with the offset, and N rows, (T + 1/2) / N lies at least 1/(2N) from the next whole number, far more
    than the roundings of a product with 1/N can bridge for sums below 2^50, so that cutting off its decimals floors T /
    N.
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
