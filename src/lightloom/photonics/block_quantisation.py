"""Global block quantisation: every server scales a block of gradients by the same power of two (SwitchML's scheme).

    server i:  largest exponent of each block ──┐
                                                ├── maximum over servers ──▶ one scale a block ──▶ integer codes
    server j:  largest exponent of each block ──┘

Servers agree on scales before they quantise, as only codes of equal scale can be averaged. They exchange one byte of
exponent per block and server: at 8 bits and blocks of 256 that is 1/256 = 0.39 % of the gradient's bytes, the paper's
"less than 0.4 %"; at 16 bits half of that.

The bias of rounding, for values spread evenly over a step, is -1/2 step for floor and 0 for half-up (only ties are
rounded upwards).

`BlockQuantisation` takes any array and is plain NumPy. `CodeBuffers` rounds half-up, for float32 gradients of several
parameters in one buffer, in one pass over memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lightloom.core.arrays import Codes
from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.pam4 import from_offset_binary, symbols_for, to_offset_binary

Rounding = Literal["floor", "half-up"]
_LEAST, _LARGEST = -127, 127
"""Range of exponents that fit into a byte beside `UNFIT`."""
UNFIT = 255
"""Exponent byte of blocks with NaN, infinities or magnitudes of 2^127 or more. It is the largest byte, so the maximum
over servers passes it to all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockQuantisation:
    """Quantisation to codes of ``bits`` bits in offset binary, with one power-of-two scale per block over all servers.

    With E the largest exponent in the block over all servers (|value| < 2^E), the step is 2^(E - bits + 1).

    Raises:
        ConfigError: bits are outside 2..32, blocks are empty, or the rounding is unknown.
    """

    bits: int = 16
    block: int = 256
    rounding: Rounding = "half-up"

    def __post_init__(self) -> None:
        symbols_for(self.bits)
        if self.bits < 2:
            raise ConfigError(f"bits = {self.bits}: expected at least 2, one of them the sign")
        if self.block < 1:
            raise ConfigError(f"block = {self.block}: expected at least one value")
        if self.rounding not in ("floor", "half-up"):
            raise ConfigError(f"rounding = {self.rounding!r}: expected floor or half-up")

    def blocks(self, count: int) -> int:
        """Return the number of blocks of a gradient of ``count`` values; the last may be shorter."""
        return -(-count // self.block)

    def exponents(self, gradient: ArrayLike) -> NDArray[np.int16]:
        """Return the exponents that one server needs: for each block the least E >= -127 with every |value| < 2^E.

        Raises:
            InputError: a value is NaN, infinite, or 2^127 or more in magnitude.
        """
        values = np.abs(np.asarray(gradient, dtype=np.float64).reshape(-1))
        if not np.isfinite(values).all():
            raise InputError("the gradient holds NaN or Inf: expected finite values")
        starts = np.arange(0, values.size, self.block)
        largest = np.maximum.reduceat(values, starts) if values.size else values
        exponents = np.frexp(largest)[1]
        if exponents.size and exponents.max() > _LARGEST:
            raise InputError(f"the gradient holds {values.max():g}: expected sizes below 2^{_LARGEST}")
        offer: NDArray[np.int16] = np.where(largest > 0, np.maximum(exponents, _LEAST), _LEAST).astype(np.int16)
        return offer

    @staticmethod
    def agree(*offers: NDArray[np.int16]) -> NDArray[np.int16]:
        """Return the exponents that all servers use: the maximum over servers for each block."""
        agreed: NDArray[np.int16] = np.maximum.reduce(offers)
        return agreed

    def encode(self, gradient: ArrayLike, exponents: NDArray[np.int16]) -> NDArray[np.int64]:
        """Return offset-binary codes of a flat gradient. With half-up, values within half a step of 2^E saturate.

        Raises:
            InputError: a value is too large for its block's exponent, or the number of blocks differs.
        """
        values = np.asarray(gradient, dtype=np.float64).reshape(-1)
        steps = self._steps(exponents, values.size)
        scaled = np.ldexp(values, -steps)
        half = 1 << (self.bits - 1)
        if values.size and np.abs(scaled).max() > half:
            raise InputError("a value exceeds its block's scale: expected exponents agreed with every server's offer")
        rounded = np.floor(scaled) if self.rounding == "floor" else np.floor(scaled + 0.5)
        return to_offset_binary(np.clip(rounded, -half, half - 1), self.bits)

    def decode(self, codes: ArrayLike, exponents: NDArray[np.int16]) -> NDArray[np.float64]:
        """Return values of flat codes, within a step of the encoded ones (half-up: half a step, unless saturated)."""
        signed = from_offset_binary(codes, self.bits).reshape(-1)
        return np.ldexp(signed.astype(np.float64), self._steps(exponents, signed.size))

    def _steps(self, exponents: NDArray[np.int16], count: int) -> NDArray[np.int32]:
        if exponents.shape != (self.blocks(count),):
            raise InputError(f"{exponents.size} exponents for {count} values: expected {self.blocks(count)}")
        return np.repeat(exponents.astype(np.int32) - self.bits + 1, self.block)[:count]

    def synchronisation_bytes(self, count: int) -> int:
        """Return the bytes that each server sends to agree on the scales: one per block."""
        return self.blocks(count)

    def synchronisation_share(self, count: int) -> float:
        """Return the synchronisation bytes as a share of the bytes of the codes."""
        return self.synchronisation_bytes(count) / (count * self.bits / 8)


@dataclass(frozen=True, slots=True, eq=False)
class CodeBuffers:
    """Quantisation of float32 buffers in one pass; blocks do not cross the ends of parameters.

    Codes equal those of `BlockQuantisation(bits=bits, block=block)` of each parameter, bit for bit.
    """

    bits: int
    edges: NDArray[np.int64]
    """Start of each block, and the end of the last."""

    @classmethod
    def of(cls, sizes: Sequence[int], bits: int = 16, block: int = 256) -> CodeBuffers:
        """Make buffers for contiguous parameters of these ``sizes``.

        Raises:
            ConfigError: an argument is out of range, see `BlockQuantisation`.
        """
        BlockQuantisation(bits=bits, block=block)
        ends = np.cumsum([0, *sizes], dtype=np.int64)
        begins = [np.arange(low, high, block, dtype=np.int64) for low, high in pairwise(ends)]
        return cls(bits, np.concatenate([*begins, ends[-1:]]))

    @property
    def blocks(self) -> int:
        """Number of blocks, each with a scale of one byte."""
        return self.edges.size - 1

    @property
    def code_type(self) -> type[np.uint16] | type[np.uint32]:
        """Type of the codes."""
        return np.uint16 if self.bits <= 16 else np.uint32

    def scales(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Return the exponent + 127 of each block, or `UNFIT`; servers agree on the maximum."""
        from lightloom.photonics._quantisation_kernels import largest_exponents

        offer = np.empty(self.blocks, np.uint8)
        largest_exponents(values.view(np.int32), self.edges, offer)
        return offer

    def encode(self, values: NDArray[np.float32], scales: NDArray[np.uint8], out: Codes) -> None:
        """Codes of values into ``out`` of `code_type`; scales are agreed, and none of them is `UNFIT`."""
        from lightloom.photonics._quantisation_kernels import encode

        encode(values, scales, self.edges, self.bits, out)

    def decode(self, codes: Codes, scales: NDArray[np.uint8], out: NDArray[np.float32]) -> None:
        """Values of codes into ``out``; those of more than 24 bits are rounded to float32."""
        from lightloom.photonics._quantisation_kernels import decode

        decode(codes, scales, self.edges, self.bits, out)


def mean_codes(rows: Codes, rounding: Rounding, out: Codes) -> None:
    """Write the exact mean of unsigned codes (servers, n) into ``out`` (n,), for up to 32 bits and 2^18 servers."""
    from lightloom.photonics._quantisation_kernels import mean

    mean(rows, len(rows) // 2 if rounding == "half-up" else 0, out)


def averaging_bias(servers: int, rounding: Rounding) -> float:
    """Return the mean error of averaged codes in units of the last place, for sums spread evenly over residues mod N.

    floor(T/N): -(N-1)/(2N). Half-up: 0 for odd N, +1/(2N) for even N, whose ties all go up.
    """
    if rounding == "floor":
        return -(servers - 1) / (2 * servers)
    return 0.0 if servers % 2 else 1 / (2 * servers)
