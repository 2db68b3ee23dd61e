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

from lightloom.core.arrays import Bytes, Codes, Float32s, Ints
from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.function import Rounding as Rounding
from lightloom.photonics.averaging.function import symbols_for

UNFIT = 255
"""Exponent byte of blocks with NaN, infinities or magnitudes of 2^127 or more. It is the largest byte, so the maximum
over servers passes it to all of them."""


def synchronisation_share(values: int, bits: int, block: int = 256) -> float:
    """Return the bytes that a server sends to agree on scales, one per block, as a share of the bytes of its codes."""
    return -(-values // block) / (values * bits / 8)


@dataclass(frozen=True, slots=True, eq=False)
class CodeBuffers:
    """Quantisation of float32 buffers of several parameters, in one pass over memory; no block spans two parameters."""

    bits: int
    edges: Ints
    """Start of each block, and the end of the last."""

    @classmethod
    def of(cls, sizes: Sequence[int], bits: int = 16, block: int = 256) -> CodeBuffers:
        """Return the quantisation of contiguous parameters of these ``sizes``, each in blocks of ``block`` values, the
        last one shorter.

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
        """Return the byte of each block, its exponent + 127 or `UNFIT`, [blocks]; servers agree on the maximum."""
        from lightloom.photonics.averaging.kernels import largest_exponents

        offer = np.empty(self.blocks, np.uint8)
        largest_exponents(values.view(np.int32), self.edges, offer)
        return offer

    def encode(self, values: Float32s, scales: Bytes, out: Codes) -> None:
        """Write codes of values into ``out`` of `code_type`; scales are agreed, and none of them is `UNFIT`."""
        from lightloom.photonics.averaging.kernels import encode

        encode(values, scales, self.edges, self.bits, out)

    def decode(self, codes: Codes, scales: Bytes, out: Float32s) -> None:
        """Write values of codes into ``out``; those of more than 24 bits are rounded to float32."""
        from lightloom.photonics.averaging.kernels import decode

        decode(codes, scales, self.edges, self.bits, out)


def mean_codes(rows: Codes, rounding: Rounding, out: Codes) -> None:
    """Write the exact mean of unsigned codes (servers, n) into ``out`` (n,), for up to 32 bits and 2^18 servers."""
    from lightloom.photonics.averaging.kernels import mean

    mean(rows, len(rows) // 2 if rounding == "half-up" else 0, out)


def averaging_bias(servers: int, rounding: Rounding) -> float:
    """Return the mean error of averaged codes in units of the last place, for sums spread evenly over residues mod N.

    floor(T/N): -(N-1)/(2N). Half-up: 0 for odd N, +1/(2N) for even N, whose ties all go up.
    """
    if rounding == "floor":
        return -(servers - 1) / (2 * servers)
    return 0.0 if servers % 2 else 1 / (2 * servers)
