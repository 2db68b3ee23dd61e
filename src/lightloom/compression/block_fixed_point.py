"""Block fixed point: 32 consecutive values share one exponent and keep a few bits each; a baseline for comparison.

The block of 32 is that of the OCP Microscaling formats (version 1.0); the mantissa is a two's complement integer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightloom.compression.frames import NumpyCodec
from lightloom.core.errors import ConfigError, UnsupportedError

BLOCK = 32
_BIAS = 127
"""Added to the exponent of a block's step so that it fits one byte."""


@dataclass(frozen=True, repr=False)
class BlockFixedPoint(NumpyCodec):
    """Codec whose blocks are one byte of exponent and ``bits`` for each value, most significant bit first.

    With E the exponent of the block's largest size (in [2^(E-1), 2^E)), the step is 2^(E - bits + 1), at least
    2^-127. Rounding is to nearest, clipped at the largest integer: the error of a value is at most one step.

    Args:
        bits: bits per value, sign included, from 2 to 16.

    Raises:
        ConfigError: another number of bits.
        UnsupportedError: (on encoding) NaN or Inf, which a shared exponent cannot hold.
    """

    bits: int = 8

    codec_id = 4

    def __post_init__(self) -> None:
        if not isinstance(self.bits, int) or not 2 <= self.bits <= 16:
            raise ConfigError(f"bits = {self.bits!r}: expected a whole number from 2 to 16")

    @property
    def parameter(self) -> int:  # type: ignore[override]
        return self.bits

    @property
    def name(self) -> str:
        return f"block-fixed-point:{self.bits}"

    def worst_bytes(self, count: int) -> int:
        return -(-count // BLOCK) * (1 + BLOCK * self.bits // 8)

    def encode_payload(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        if not np.isfinite(values).all():
            raise UnsupportedError(f"{self.name} cannot hold NaN or Inf")
        blocks = np.zeros((-(-values.size // BLOCK), BLOCK), np.float32)
        blocks.reshape(-1)[: values.size] = values
        _, exponent = np.frexp(np.abs(blocks).max(axis=1))
        step = np.maximum(exponent - self.bits + 1, -_BIAS)
        largest = (1 << (self.bits - 1)) - 1
        scaled = np.rint(np.ldexp(blocks.astype(np.float64), -step[:, None]))
        codes = np.clip(scaled, -largest, largest).astype(np.int16)
        low_bits = np.unpackbits(codes.astype(">i2").view(np.uint8).reshape(-1, 2), axis=1)[:, 16 - self.bits :]
        packed = np.packbits(low_bits.reshape(len(blocks), -1), axis=1)
        return np.column_stack([(step + _BIAS).astype(np.uint8), packed]).reshape(-1)

    def decode_payload(self, payload: NDArray[np.uint8], count: int) -> NDArray[np.float32] | None:
        if payload.size != self.worst_bytes(count):
            return None
        rows = payload.reshape(-(-count // BLOCK), -1)
        step = rows[:, :1].astype(np.int32) - _BIAS
        if (step > 128 - self.bits + 1).any():
            return None
        bits = np.unpackbits(rows[:, 1:]).reshape(-1, self.bits)
        wide = np.concatenate([np.repeat(bits[:, :1], 16 - self.bits, axis=1), bits], axis=1)
        codes = np.packbits(wide).view(">i2").reshape(len(rows), BLOCK)
        values = np.ldexp(codes.astype(np.float64), step)
        limit = float(np.finfo(np.float32).max)
        return np.clip(values, -limit, limit).astype(np.float32).reshape(-1)[:count]
