"""Gradient codecs: float32 vectors to a checked byte stream and back, within a stated error."""

from lightloom.compression.base import Codec
from lightloom.compression.block_fixed_point import BlockFixedPoint
from lightloom.compression.header import Header
from lightloom.compression.inceptionn import Inceptionn, InceptionnPrinted
from lightloom.compression.inceptionn_scaled import InceptionnScaled
from lightloom.compression.kernels import implementation
from lightloom.compression.registry import Family, codecs, find
from lightloom.compression.stream import FramedCodec, StreamDecoder, tag_histogram
from lightloom.compression.truncation import Truncation

__all__ = [
    "BlockFixedPoint",
    "Codec",
    "Family",
    "FramedCodec",
    "Header",
    "Inceptionn",
    "InceptionnPrinted",
    "InceptionnScaled",
    "StreamDecoder",
    "Truncation",
    "codecs",
    "find",
    "implementation",
    "tag_histogram",
]
