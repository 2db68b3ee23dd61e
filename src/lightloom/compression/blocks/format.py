"""The wire format of block quantisation: blocks of one scale and B codes, one after another, nothing else.

    message   block | block | ...            ceil(n / B) blocks for n values; the last is padded with zeros
    block     u16 scale, a bfloat16 | B b / 8 bytes of codes          little-endian; value i at bits [i b, (i + 1) b)

Blocks do not depend on each other: a slice of a message at the boundaries of blocks is a message, and so is one message
behind another. With m the largest size and a the mean size of a block's values x, all in float32:

    kind      scale s                          code                                             decoded
    linear    m / q, rounded up to bfloat16    x (1 / s), to the nearest integer, ties to even  code s
    lloyd     a, rounded to bfloat16           2 (x < 0) + (|x| > t s)                          +-(l0 or l1) s
    sign      a, rounded to bfloat16           x < 0                                            +-s
    fp8       m / 448, rounded up              x (1 / s) as float8 e4m3                         code s

Linear codes are two's complement and q = 2^(b-1) - 1; as s is rounded up, no code exceeds q. Where 1 / s overflows
(s <= 2^-128), s and all codes are 0. The mean is the sum by halves, |x[i]| + |x[i + h]| for h = B/2, B/4 ... 1, times
1 / B, so that every implementation has equal bits. A block with a value that is not finite, or whose sum or largest
decodable value q s overflows, has the scale NaN (0x7FC0) and codes 0, and decodes to NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from lightloom.core.errors import ConfigError

Kind = Literal["linear", "lloyd", "sign", "fp8"]

SCALE_BYTES = 2
NAN_SCALE = 0x7FC0
LARGEST_BLOCK = 4096
FP8_LARGEST = 448
"""The largest finite value of float8 e4m3 without infinities."""

LLOYD_THRESHOLD = 1.2302516802431513
LLOYD_LEVELS = (0.5674756185041173, 1.8930277419821853)
"""Max's quantiser of four levels for a Gaussian (1960), in multiples of the mean size sqrt(2 / pi) sigma.

The threshold is midway between the levels, and each level is the mean of what it stands for.
"""

_BITS = {"lloyd": 2, "sign": 1, "fp8": 8}


@dataclass(frozen=True)
class BlockFormat:
    """One way to write blocks.

    Raises:
        ConfigError: no such kind, bits or block.
    """

    kind: Kind
    bits: int
    """Bits of a code: 2 to 8 for ``linear``; 2 for ``lloyd``, 1 for ``sign`` and 8 for ``fp8``."""
    block: int
    """Values that share a scale: a multiple of 8 from 8 to 4096; a power of two where the scale is a mean."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ConfigError(f"kind of blocks {self.kind!r}: expected one of {', '.join(get_args(Kind))}")
        if self.kind == "linear" and not 2 <= self.bits <= 8:
            raise ConfigError(f"bits = {self.bits!r} of linear blocks: expected a whole number from 2 to 8")
        if self.kind != "linear" and self.bits != _BITS[self.kind]:
            raise ConfigError(f"bits = {self.bits!r}: {self.kind} blocks have {_BITS[self.kind]}")
        if self.block % 8 or not 8 <= self.block <= LARGEST_BLOCK:
            raise ConfigError(f"blocks of {self.block!r} values: expected a multiple of 8 from 8 to {LARGEST_BLOCK}")
        if self.mean_scale and self.block & (self.block - 1):
            raise ConfigError(f"blocks of {self.block!r} values: {self.kind} blocks take a power of two")

    @property
    def mean_scale(self) -> bool:
        """Whether the scale is the mean size of the block's values, not their largest size."""
        return self.kind in ("lloyd", "sign")

    @property
    def largest_mean(self) -> int:
        """Bit pattern of the largest bfloat16 mean whose levels are finite float32."""
        return 0x7F07 if self.kind == "lloyd" else 0x7F7F

    @property
    def largest_code(self) -> int:
        """q: the largest size of a linear code, or of an fp8 code's value."""
        return FP8_LARGEST if self.kind == "fp8" else (1 << (self.bits - 1)) - 1

    @property
    def block_bytes(self) -> int:
        """Size of a block on the wire."""
        return SCALE_BYTES + self.block * self.bits // 8

    def nbytes(self, values: int) -> int:
        """Size of a message of ``values`` values."""
        return -(-values // self.block) * self.block_bytes


def fp8_values() -> list[float]:
    """Values of all codes of float8 e4m3 without infinities: a sign, 4 bits of exponent, 3 of the mantissa."""
    sizes = [(code & 7 | (8 if code >= 8 else 0)) * 2.0 ** (max(code >> 3, 1) - 10) for code in range(127)]
    return [*sizes, math.nan, *(-size for size in sizes), math.nan]


def decoded_codes(fmt: BlockFormat) -> list[float]:
    """What each code stands for, in scales, by code."""
    if fmt.kind == "linear":
        half = 1 << (fmt.bits - 1)
        return [float((code + half) % (2 * half) - half) for code in range(2 * half)]
    levels = (1.0,) if fmt.kind == "sign" else LLOYD_LEVELS
    return [*levels, *(-level for level in levels)]
