"""Truncation: the low bits of each float32 are dropped; the INCEPTIONN paper's baseline (Figs. 4, 7: 16b-T to 24b-T).

Dropping 16 bits leaves bfloat16 rounded towards zero; 22 bits leave one bit of mantissa; 24 bits take the last bit of
the exponent too, so that every second power of two falls to the one below it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.exchange.compression.stream import NumpyCodec, as_bits

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
        """Raise ConfigError unless 16, 22 or 24 bits are dropped."""
        if self.dropped not in DROPPED:
            raise ConfigError(f"dropped = {self.dropped!r} bits: expected one of {', '.join(map(str, DROPPED))}")

    @property
    def parameter(self) -> int:  # type: ignore[override]
        """Number of low bits that are dropped, as headers hold it."""
        return self.dropped

    @property
    def name(self) -> str:
        """Name of the codec with its dropped bits: ``truncate:16``."""
        return f"truncate:{self.dropped}"

    @property
    def relative_error(self) -> float:
        """Bound on the error of a value of size 2^-125 or more, relative to that size, by the bits dropped: 2^-7 for
        16, 2^-1 for 22, 3/4 for 24, where the exponent loses a bit."""
        return {16: 2.0**-7, 22: 2.0**-1, 24: 0.75}[self.dropped]

    def worst_bytes(self, count: int) -> int:
        """Return the bytes of the payload of ``count`` values: their remaining bits, rounded up to whole bytes; every
        payload of so many values has this size."""
        return -(-count * (32 - self.dropped) // 8)

    def encode_payload(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Return the top ``32 - dropped`` bits of each value, without rounding, packed most significant bit first into
        flat bytes, the last one padded with zeros; NaN may become Inf where its payload sits in the dropped bits."""
        bits = 32 - self.dropped
        codes = as_bits(values) >> np.uint32(self.dropped)
        if bits % 8:
            return _pack_tens(codes)[: self.worst_bytes(values.size)]
        return codes.astype(f">u{bits // 8}").view(np.uint8)

    def decode_payload(self, payload: NDArray[np.uint8], count: int) -> NDArray[np.float32] | None:
        """Return the ``count`` values of a payload, flat float32, their dropped bits 0; None where it has another size
        or padding that is not 0."""
        bits = 32 - self.dropped
        if payload.size != self.worst_bytes(count):
            return None
        codes = _unpack_tens(payload) if bits % 8 else payload.view(f">u{bits // 8}").astype(np.uint32)
        return None if codes[count:].any() else (codes[:count] << self.dropped).view(np.float32)


_PLACES = np.array([30, 20, 10, 0], np.uint64)
"""Four values of 10 bits are 5 bytes, most significant first."""


def _pack_tens(codes: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return codes of 10 bits packed by fours into 5 bytes each, most significant first, as flat bytes; the last four
    are padded with zeros."""
    fours = np.zeros((-(-codes.size // 4), 4), np.uint64)
    fours.reshape(-1)[: codes.size] = codes
    words = (fours[:, 0] << _PLACES[0]) | (fours[:, 1] << _PLACES[1]) | (fours[:, 2] << _PLACES[2]) | fours[:, 3]
    in_order: NDArray[np.uint8] = words.astype(">u8").view(np.uint8)
    return in_order.reshape(-1, 8)[:, 3:].reshape(-1)


def _unpack_tens(payload: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the codes of 10 bits, uint32, that :func:`_pack_tens` packed into these bytes, four for each 5 bytes
    begun: bytes that are missing at the end count as 0, and padding is returned as codes too."""
    fives = np.zeros((-(-payload.size // 5), 5), np.uint8)
    fives.reshape(-1)[: payload.size] = payload
    words = np.zeros((len(fives), 8), np.uint8)
    words[:, 3:] = fives
    tens = (words.view(">u8").astype(np.uint64) >> _PLACES) & np.uint64(1023)
    return tens.astype(np.uint32).reshape(-1)


# Block fixed point: 32 consecutive values share one exponent and keep a few bits each; a baseline for comparison.
#
# The block of 32 is that of the OCP Microscaling formats (version 1.0); the mantissa is a two's complement integer.

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
        """Raise ConfigError unless ``bits`` is a whole number from 2 to 16."""
        if not isinstance(self.bits, int) or not 2 <= self.bits <= 16:
            raise ConfigError(f"bits = {self.bits!r}: expected a whole number from 2 to 16")

    @property
    def parameter(self) -> int:  # type: ignore[override]
        """Number of bits per value, as headers hold it."""
        return self.bits

    @property
    def name(self) -> str:
        """Name of the codec with its bits: ``block-fixed-point:8``."""
        return f"block-fixed-point:{self.bits}"

    def worst_bytes(self, count: int) -> int:
        """Return the bytes of the payload of ``count`` values, in blocks of 32 with a byte of exponent each, the last
        one padded; every payload of so many values has this size."""
        return -(-count // BLOCK) * (1 + BLOCK * self.bits // 8)

    def encode_payload(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Return the blocks of flat float32 values as flat bytes: for each 32 values a byte, 127 more than the exponent
        of their step, and their codes, two's complement in ``bits`` bits, most significant bit first.

        A code is the value over the step, rounded to nearest (ties to even) and clipped at 2^(bits - 1) - 1 either way.
        The step is 2^(E - bits + 1), at least 2^-127, where the block's largest magnitude lies in [2^(E-1), 2^E). The
        last block is padded with zeros. Raises UnsupportedError for NaN or Inf.
        """
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
        """Return the ``count`` values, flat float32, of a payload of blocks: code times the block's step, clipped to
        finite float32. None where the payload has another size than that of ``count`` values, or a step above
        2^(129 - bits), which no finite float32 needs; what stands in the padding is ignored."""
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
