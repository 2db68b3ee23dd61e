"""Block quantisation: float32 values to 1 to 8 bits each and a bfloat16 scale for every block, without headers."""

from lightloom.compression.blocks.coding import (
    decode,
    decode_adding,
    decode_runs,
    encode,
    encode_feedback,
    encode_leaving,
    encode_runs,
)
from lightloom.compression.blocks.format import BlockFormat

__all__ = [
    "BlockFormat",
    "decode",
    "decode_adding",
    "decode_runs",
    "encode",
    "encode_feedback",
    "encode_leaving",
    "encode_runs",
]
