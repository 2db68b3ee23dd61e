"""Gradient codecs: float32 vectors to a checked byte stream and back, within a stated error."""

from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnPrinted, InceptionnScaled
from lightloom.exchange.compression.kernels import implementation
from lightloom.exchange.compression.registry import Family, codecs, find
from lightloom.exchange.compression.stream import FramedCodec, Header, StreamDecoder, tag_histogram
from lightloom.exchange.compression.truncation import BlockFixedPoint, Truncation

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
