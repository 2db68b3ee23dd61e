"""Truncation: the low bits of each float32 are dropped; the INCEPTIONN paper's baseline (Figs. 4, 7: 16b-T to 24b-T).

Dropping 16 bits leaves bfloat16 rounded towards zero; 22 bits leave one bit of mantissa; 24 bits take the last bit of
the exponent too, so that every second power of two falls to the one below it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightloom.compression.frames import NumpyCodec
from lightloom.compression.stream import as_bits
from lightloom.core.errors import ConfigError

DROPPED = (16, 22, 24)


@dataclass(frozen=True, repr=False)
class Truncation(NumpyCodec):
    """Keep the top ``32 - dropped`` bits of each value, packed most significant bit first.

    NaN may become Inf where its payload sits in the dropped bits.

    Args:
        dropped: number of low bits to drop: 16, 22 or 24.

    Raises:
        ConfigError: another number of bits.
    """

    dropped: int = 16

    codec_id = 3

    def __post_init__(self) -> None:
        if self.dropped not in DROPPED:
            raise ConfigError(f"dropped = {self.dropped!r} bits: expected one of {', '.join(map(str, DROPPED))}")

    @property
    def parameter(self) -> int:  # type: ignore[override]
        return self.dropped

    @property
    def name(self) -> str:
        return f"truncate:{self.dropped}"

    @property
    def relative_error(self) -> float:
        """Bound of the relative error of values from 2^-125 on: 2^-7, 2^-1, or 3/4 where the exponent loses a bit."""
        return {16: 2.0**-7, 22: 2.0**-1, 24: 0.75}[self.dropped]

    def worst_bytes(self, count: int) -> int:
        return -(-count * (32 - self.dropped) // 8)

    def encode_payload(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        bits = 32 - self.dropped
        if bits % 8:
            return _pack_tens(as_bits(values).view(np.uint32) >> np.uint32(self.dropped))[
                : self.worst_bytes(values.size)
            ]
        in_order: NDArray[np.uint8] = (as_bits(values) >> self.dropped).astype(f">u{bits // 8}").view(np.uint8)
        return in_order

    def decode_payload(self, payload: NDArray[np.uint8], count: int) -> NDArray[np.float32] | None:
        bits = 32 - self.dropped
        if payload.size != self.worst_bytes(count):
            return None
        if bits % 8:
            codes = _unpack_tens(payload)
            return None if codes[count:].any() else (codes[:count] << self.dropped).view(np.float32)
        codes = payload.view(f">u{bits // 8}").astype(np.uint32)
        return (codes << self.dropped).view(np.float32)


_PLACES = np.array([30, 20, 10, 0], np.uint64)
"""Four values of 10 bits are 5 bytes, most significant first."""


def _pack_tens(codes: NDArray[np.uint32]) -> NDArray[np.uint8]:
    fours = np.zeros((-(-codes.size // 4), 4), np.uint64)
    fours.reshape(-1)[: codes.size] = codes
    words = (fours[:, 0] << _PLACES[0]) | (fours[:, 1] << _PLACES[1]) | (fours[:, 2] << _PLACES[2]) | fours[:, 3]
    in_order: NDArray[np.uint8] = words.astype(">u8").view(np.uint8)
    return in_order.reshape(-1, 8)[:, 3:].reshape(-1)


def _unpack_tens(payload: NDArray[np.uint8]) -> NDArray[np.uint32]:
    fives = np.zeros((-(-payload.size // 5), 5), np.uint8)
    fives.reshape(-1)[: payload.size] = payload
    words = np.zeros((len(fives), 8), np.uint8)
    words[:, 3:] = fives
    tens = (words.view(">u8").astype(np.uint64) >> _PLACES) & np.uint64(1023)
    return tens.astype(np.uint32).reshape(-1)
