"""INCEPTIONN with a bound relative to the values: each message is scaled by a power of two before it is coded.

    power = the p for which the root mean square of 2^p values lies in [2^-5.5, 2^-4.5)
    message = INCEPTIONN's stream of 2^p values; p is in its header, in a byte that other codecs leave 0

Values times a power of two give the same bytes but for p, so that no scale of the loss matters. Errors stay below
2^-p times the bound: at 2^-10, below about 1/23 to 1/45 of the root mean square.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import overload

import numpy as np

from lightloom.compression.arrays import float32_target, float32_values, stream_bytes
from lightloom.compression.base import Codec, T
from lightloom.compression.header import LARGEST_POWER, Header
from lightloom.compression.inceptionn import Inceptionn
from lightloom.core.arrays import Float32s

TARGET = -5
"""Binary logarithm that the scaled root mean square is near: most gradients are then below 1 and above 2^-10."""


@dataclass(frozen=True, repr=False)
class _AtPower(Inceptionn):
    """INCEPTIONN's codec of values that were multiplied by ``2**power``, which its headers state."""

    power: int = 0

    family = "inceptionn-scaled"
    codec_id = 5

    def _header(self, count: int) -> Header:
        return Header(self.codec_id, self.parameter, count, self.chunk, self.power)


@dataclass(frozen=True, repr=False)
class InceptionnScaled(Codec):
    """INCEPTIONN of messages scaled by a power of two; scaled down to 2^-126, powers of two do not matter.

    Encoding decoded values again may take another power of two, and change them.

    Args:
        bound: error bound of scaled values, a power of two from 2^-1 to 2^-14.

    Raises:
        ConfigError: any other bound.
    """

    bound: float = 2.0**-10

    def __post_init__(self) -> None:
        Inceptionn(self.bound)  # checks the bound

    @property
    def name(self) -> str:
        return _AtPower(self.bound).name

    @property
    def largest_ratio(self) -> float | None:
        return Inceptionn(self.bound).largest_ratio

    def encode(self, array: object, *, threads: int = 1) -> memoryview:
        values = float32_values(array)
        power = power_of(values)
        return _AtPower(self.bound, power).encode(_scaled(values, power), threads=threads)

    @overload
    def decode(self, buffer: object, out: None = None, *, threads: int = 1) -> Float32s: ...

    @overload
    def decode(self, buffer: object, out: T, *, threads: int = 1) -> T: ...

    def decode(self, buffer: object, out: object = None, *, threads: int = 1) -> object:
        data = stream_bytes(buffer)
        header = Header.parse(data)
        decoded = _AtPower(self.bound, header.power).decode(data, out, threads=threads)
        values = float32_target(decoded, header.count)
        _scaled(values, -header.power, out=values)
        return decoded

    def encode_leaving(self, array: Float32s) -> memoryview:
        power = power_of(array)
        _scaled(array, power, out=array)
        stream = _AtPower(self.bound, power).encode_leaving(array)
        _scaled(array, -power, out=array)
        return stream


def _scaled(values: Float32s, power: int, out: Float32s | None = None) -> Float32s:
    """Return ``values`` times ``2**power``; NaN stay NaN, signalling ones without a warning."""
    with np.errstate(invalid="ignore"):
        return np.multiply(values, np.float32(2.0**power), out=out)


def power_of(values: Float32s) -> int:
    """The power of two that brings the root mean square of ``values`` near 2^-5; infinite values and NaN do not count.

    Values times 2^k have a power smaller by k.
    """
    if not values.size:
        return 0
    with np.errstate(over="ignore", invalid="ignore"):
        mean_square = float(np.dot(values, values)) / values.size
        if not 2.0**-60 < mean_square < 2.0**60:  # squares in float32 may have vanished or overflowed
            squares = np.square(values[np.isfinite(values)], dtype=np.float64)
            mean_square = float(squares.sum()) / values.size
    if mean_square == 0:
        return 0
    power = TARGET - math.frexp(mean_square)[1] // 2
    return max(-LARGEST_POWER, min(power, LARGEST_POWER))
