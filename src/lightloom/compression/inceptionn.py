"""INCEPTIONN, a lossy codec for gradients: 0, 8, 16 or 32 bits a value, chosen by its size.

Source: Li et al., "A Network-Centric Hardware/Algorithm Co-Design to Accelerate Distributed Training of Deep Neural
Networks" (MICRO 2018), Algorithms 2 and 3. With bound 2^-k:

    |f| >= 1 (Inf and NaN too)     tag 3   the 32 bits themselves
    2^-⌊k/2⌋ <= |f| < 1            tag 2   sign, trunc(|f| 2^15)
    2^-k <= |f| < 2^-⌊k/2⌋         tag 1   sign, trunc(|f| 2^w)
    |f| < 2^-k                     tag 0   nothing, decoded as +0

As printed w = 7, which loses everything below 2^-7. The windowed form uses w = ⌊k/2⌋ + 7: the class never reaches
2^-⌊k/2⌋, so the top ⌊k/2⌋ bits of the printed code were always zero; tags and sizes are unchanged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from lightloom.compression.arrays import float32_target
from lightloom.compression.kernels import current
from lightloom.compression.stream import FramedCodec, as_bits
from lightloom.core.arrays import Bytes, Float32s
from lightloom.core.errors import ConfigError

LARGEST_EXPONENT = 14
"""Below 2^-14 seven bits of window no longer reach down to the bound."""


@dataclass(frozen=True, repr=False)
class _Inceptionn(FramedCodec):
    """What both forms share; ``bound`` is a power of two from 2^-1 to 2^-14."""

    bound: float = 2.0**-10

    family: ClassVar[str]

    def __post_init__(self) -> None:
        mantissa, exponent = math.frexp(self.bound)
        if mantissa != 0.5 or not 1 <= 1 - exponent <= LARGEST_EXPONENT:
            raise ConfigError(f"bound = {self.bound!r}: expected a power of two from 2^-1 to 2^-{LARGEST_EXPONENT}")

    @property
    def exponent(self) -> int:
        """k of the bound 2^-k."""
        return 1 - math.frexp(self.bound)[1]

    @property
    def parameter(self) -> int:  # type: ignore[override]
        return self.exponent

    @property
    def name(self) -> str:
        return f"{self.family}:2^-{self.exponent}"

    @property
    def width(self) -> int:
        """w: an 8-bit code is the sign and trunc(|f| 2^w)."""
        raise NotImplementedError

    def worst_bytes(self, count: int) -> int:
        return 2 * -(-count // 8) + 4 * count

    def least_bytes(self, count: int) -> int:
        return 2 * -(-count // 8)

    def encode_frames(self, values: Float32s, chunk: int, first: int, out: Bytes) -> int:
        return current().encode_frames(as_bits(values), chunk, first, out, self.exponent, self.width)

    def encode_leaving(self, array: Float32s) -> memoryview:
        def leaving(values: Float32s, chunk: int, first: int, out: Bytes) -> int:
            bits = as_bits(values)
            return current().encode_frames(bits, chunk, first, out, self.exponent, self.width, leave=True)

        return self._encode(float32_target(array, array.size), 1, leaving)

    def decode_adding(self, buffer: object, out: Float32s) -> None:
        def adding(data: Bytes, values: Float32s, chunk: int, first: int) -> int:
            return current().decode_frames(data, as_bits(values), chunk, first, self.width, add=True)

        self._decode(buffer, out, 1, adding)

    def decode_frames(self, data: Bytes, out: Float32s, chunk: int, first: int) -> int:
        return current().decode_frames(data, as_bits(out), chunk, first, self.width)


class Inceptionn(_Inceptionn):
    """The windowed form, the default: no value is off by ``bound`` or more.

    Args:
        bound: absolute error bound, a power of two from 2^-1 to 2^-14.

    Raises:
        ConfigError: any other bound.
    """

    family = "inceptionn"
    codec_id = 1

    @property
    def width(self) -> int:
        return self.exponent // 2 + 7

    @property
    def absolute_error(self) -> float:
        return self.bound


class InceptionnPrinted(_Inceptionn):
    """Algorithms 2 and 3 as printed; kept for reproduction. **Breaks its bound from 2^-8 on**: errors reach 2^-7.

    Two gaps are closed: ``first1_loc_from_MSB`` counts from one, and an all-zero code, for which it is undefined,
    decodes to +0.

    Args:
        bound: the threshold below which values are dropped, a power of two from 2^-1 to 2^-14.

    Raises:
        ConfigError: any other bound.
    """

    family = "inceptionn-printed"
    codec_id = 2

    @property
    def width(self) -> int:
        return 7

    @property
    def absolute_error(self) -> float:
        return max(self.bound, 2.0**-7)
