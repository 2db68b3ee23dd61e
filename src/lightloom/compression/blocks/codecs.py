"""Block quantisation as checked streams: ``int8:256``, ``int4:128``, ``int3:128``, ``lloyd2:64``, ``sign:256``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lightloom.compression.blocks.coding import decode, encode
from lightloom.compression.blocks.format import LARGEST_BLOCK, BlockFormat, Kind
from lightloom.compression.frames import NumpyCodec
from lightloom.core.arrays import Bytes, Float32s
from lightloom.core.errors import ConfigError


@dataclass(frozen=True, repr=False)
class BlockCodec(NumpyCodec):
    """Codec whose frames hold messages of blocks. Encoding decoded values again may change them: scales are rounded.

    Args:
        block: values that share a scale, a power of two from 8 to 4096.

    Raises:
        ConfigError: another number of values.
    """

    block: int

    family: ClassVar[str]
    kind: ClassVar[Kind] = "linear"
    bits: ClassVar[int]

    def __post_init__(self) -> None:
        if not isinstance(self.block, int) or not 8 <= self.block <= LARGEST_BLOCK or self.block & (self.block - 1):
            raise ConfigError(f"blocks of {self.block!r} values: expected a power of two from 8 to {LARGEST_BLOCK}")

    @property
    def format(self) -> BlockFormat:
        """The format of the blocks."""
        return BlockFormat(self.kind, self.bits, self.block)

    @property
    def parameter(self) -> int:  # type: ignore[override]
        return self.block.bit_length() - 1

    @property
    def name(self) -> str:
        return f"{self.family}:{self.block}"

    def worst_bytes(self, count: int) -> int:
        return self.format.nbytes(count)

    def encode_payload(self, values: Float32s) -> Bytes:
        payload = np.empty(self.format.nbytes(values.size), np.uint8)
        encode(self.format, values, payload)
        return payload

    def decode_payload(self, payload: Bytes, count: int) -> Float32s | None:
        if payload.size != self.format.nbytes(count):
            return None
        values = np.empty(count, np.float32)
        decode(self.format, payload, values)
        return values


class Int8(BlockCodec):
    """Eight bits a value, in multiples of a 127th of the block's largest size."""

    family, codec_id, bits = "int8", 6, 8


class Int4(BlockCodec):
    """Four bits a value, in multiples of a seventh of the block's largest size."""

    family, codec_id, bits = "int4", 7, 4


class Int3(BlockCodec):
    """Three bits a value, in multiples of a third of the block's largest size."""

    family, codec_id, bits = "int3", 8, 3


class Lloyd2(BlockCodec):
    """Two bits a value: the four levels of Lloyd and Max for a Gaussian of the block's mean size."""

    family, codec_id, kind, bits = "lloyd2", 9, "lloyd", 2


class Sign(BlockCodec):
    """One bit a value: its sign, at the block's mean size."""

    family, codec_id, kind, bits = "sign", 10, "sign", 1
