"""Codecs of floats around a ring: every hop encodes a partial sum anew, the finished sum goes round as it is.

    reduce-scatter   hop h carries sums of h gradients, h = 1 ... ranks - 1
    all-gather       sums of all ranks' gradients

INCEPTIONN's bound is absolute, so that larger sums take more bits; scaled, each tensor's part of a message is
multiplied by a power of two that brings its root mean square near 2^-5, which a free byte of its header holds.
Truncation is what the INCEPTIONN paper compares with.
Sources: Li et al., MICRO 2018, Algorithms 1 to 3; ``lightloom.training.transport.ring_all_reduce``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lightloom.compression.registry import find as find_codec
from lightloom.compression.registry import read_bound
from lightloom.exchange.family import Family, Find
from lightloom.exchange.method import ExchangeMethod, Gradient, Phase, Work
from lightloom.exchange.spelling import flag, read

STREAM_BYTES = 32
"""Header of a coded message and of its first frame (``compression.header``); a frame more every 65,536 values."""
FRAME_BYTES, FRAME_VALUES = 8, 1 << 16
LENGTH_BYTES = 4
"""Scaled, a message is a stream for each tensor, behind its length, so that scales do not depend on DDP's buckets."""
_LARGEST_BITS = 34.0
"""Bits of a value that INCEPTIONN sends as it is, tag included."""
_MOST_EXPONENT = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class RingCodecExchange(ExchangeMethod):
    """All-reduce around a ring whose hops carry coded partial sums."""

    scaled: bool = False
    """Whether every message is scaled by a power of two of its own before it is coded."""

    @property
    def codec(self) -> str:
        """Name of the codec, as :func:`lightloom.compression.find` reads it."""
        raise NotImplementedError

    def value_bits(self, gradient: Gradient) -> tuple[tuple[int, float], ...]:
        """(number of summed gradients, bits of a value on average, tags included)."""
        raise NotImplementedError

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        values = gradient.values
        # Of the frames behind the first of a message, as if the last one could be cut short.
        frames = max(values / FRAME_VALUES - ranks, 0.0) * FRAME_BYTES
        streams = ranks * STREAM_BYTES
        if self.scaled:
            streams = ranks * len(gradient.shapes) * (STREAM_BYTES + LENGTH_BYTES)
        headers = streams + frames
        sizes = tuple((terms, values * bits / 8 + headers) for terms, bits in self.value_bits(gradient))
        return (Phase(kind="all-reduce", nbytes=sizes[0][1], nbytes_by_terms=sizes if len(sizes) > 1 else ()),)

    def work(self, gradient: Gradient, ranks: int) -> Work:
        """Each share is encoded once by each rank, and decoded at every hop but for the sum that a rank itself made."""
        return Work(
            encoded_values=gradient.values,
            decoded_values=gradient.values * (2 * ranks - 1) / ranks,
            encoded_messages=ranks,
            decoded_messages=2 * ranks - 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InceptionnExchange(RingCodecExchange):
    """INCEPTIONN's codec around its ring; scaled, its bound is relative to the root mean square of each message."""

    exponent: int
    """k of the bound 2^-k."""

    @property
    def name(self) -> str:
        flags = ["scaled"] * self.scaled + ["feedback" if self.feedback else "feedback=no"]
        return f"inceptionn:bound=2^-{self.exponent},{','.join(flags)}"

    @property
    def codec(self) -> str:
        return f"inceptionn{'-scaled' if self.scaled else ''}:2^-{self.exponent}"

    @property
    def scale_free(self) -> bool:
        return self.scaled

    @property
    def needs_values(self) -> bool:
        return True

    def value_bits(self, gradient: Gradient) -> tuple[tuple[int, float], ...]:
        return gradient.bits_by_terms(self.codec) or ((1, _LARGEST_BITS),)


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedExchange(RingCodecExchange):
    """Float32 without its low bits, around a ring."""

    bits: int
    """Low bits that are cut off each value, as the paper counts them: 16b-T, 22b-T, 24b-T."""

    @property
    def name(self) -> str:
        return f"truncate:bits={self.bits}" + (",feedback" if self.feedback else "")

    @property
    def codec(self) -> str:
        return f"truncate:{self.bits}"

    @property
    def scale_free(self) -> bool:
        """24 bits cut off the last bit of the exponent too, so that every second power of two is another value."""
        return self.bits < 24

    def value_bits(self, gradient: Gradient) -> tuple[tuple[int, float], ...]:
        return ((1, 32.0 - self.bits),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecExchange(RingCodecExchange):
    """Any registered codec around a ring, those of plug-ins too."""

    coder: str
    """Full name of the codec."""

    @property
    def name(self) -> str:
        return f"codec:name={self.coder}" + (",feedback" if self.feedback else "")

    @property
    def codec(self) -> str:
        return self.coder

    @property
    def scale_free(self) -> bool:
        """Nothing is known of other people's codecs."""
        return False

    @property
    def needs_values(self) -> bool:
        return True

    def value_bits(self, gradient: Gradient) -> tuple[tuple[int, float], ...]:
        return gradient.bits_by_terms(self.codec) or ((1, 32.0),)


def _read_bound(text: str) -> int:
    """Return k of ``2^-k``, ``2**-k`` or the same as a number."""
    try:
        mantissa, exponent = math.frexp(read_bound(text))
    except (ValueError, OverflowError):
        mantissa, exponent = 0.0, 0
    if mantissa != 0.5 or not 1 <= 1 - exponent <= _MOST_EXPONENT:
        raise ValueError(f"expected a power of two from 2^-1 to 2^-{_MOST_EXPONENT}")
    return 1 - exponent


def _read_dropped(text: str) -> int:
    if text not in ("16", "22", "24"):
        raise ValueError("expected 16, 22 or 24")
    return int(text)


def _inceptionn(text: str, options: dict[str, str], _find: Find) -> InceptionnExchange:
    values = read(text, options, {"bound": _read_bound, "scaled": flag, "feedback": flag})
    return InceptionnExchange(
        exponent=values.get("bound", 10), scaled=values.get("scaled", False), feedback=values.get("feedback", True)
    )


def _truncate(text: str, options: dict[str, str], _find: Find) -> TruncatedExchange:
    return TruncatedExchange(**{"bits": 16} | read(text, options, {"bits": _read_dropped, "feedback": flag}))


def _codec(text: str, options: dict[str, str], _find: Find) -> CodecExchange:
    values = read(text, options, {"name": lambda name: find_codec(name).name, "feedback": flag})
    return CodecExchange(coder=values.get("name", "block-fixed-point:8"), feedback=values.get("feedback", False))


FAMILIES = (
    Family(
        name="codec",
        compared=(),
        summary="any codec that `lightloom catalog` lists, plug-ins too, around a ring",
        options=(
            ("name", "the codec, block-fixed-point:8 by default"),
            ("feedback", "add the error of each encoding to the next gradient, off by default"),
        ),
        build=_codec,
    ),
    Family(
        name="inceptionn",
        compared=("inceptionn", "inceptionn:scaled"),
        summary="INCEPTIONN around a ring: 0, 8, 16 or 32 bits a value, more for larger gradients and sums",
        options=(
            ("bound", "largest error of an encoding, a power of two from 2^-1 to 2^-14; 2^-10 by default"),
            ("scaled", "scale each message by a power of two first; off by default: an absolute bound"),
            ("feedback", "add the error of each encoding to the next gradient, on by default"),
        ),
        build=_inceptionn,
    ),
    Family(
        name="truncate",
        summary="float32 without its low bits, around a ring",
        options=(
            ("bits", "low bits that are cut off: 16 (the default), 22 or 24"),
            ("feedback", "add the error of each encoding to the next gradient, off by default"),
        ),
        build=_truncate,
    ),
)
