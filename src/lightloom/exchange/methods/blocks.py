"""Narrow formats, summed in float32: each rank sends its shares to their owners, which add up and send the sums back.

    all-to-all of codes  ->  the owner of a share adds all ranks' values in float32  ->  all-gather of the sum's codes

Each value is encoded twice whatever the number of ranks, unlike around a ring, where every hop encodes a partial sum.
Sources: the quantised all-reduce of torchft; ZeRO++ (Wang et al., 2023), section 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.exchange.family import Family, Find
from lightloom.exchange.method import ExchangeMethod, Gradient, Phase, Work
from lightloom.exchange.spelling import flag, read, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """How a narrow format stores values."""

    name: str
    bits: int
    """Bits for each code."""
    block: int
    """Default number of values that share a scale; 0 where values have no scale."""
    summary: str
    feedback: bool
    """Whether error feedback is the default: without it, the loss grows visibly (docs/exchange.md)."""


WIDTHS = (
    Width(name="bf16", bits=16, block=0, feedback=False, summary="bfloat16"),
    Width(name="fp16", bits=16, block=0, feedback=False, summary="IEEE half precision; overflows at 65,504"),
    Width(name="fp8", bits=8, block=256, feedback=False, summary="8-bit floats (e4m3), a scale a block"),
    Width(name="int8", bits=8, block=256, feedback=False, summary="8-bit integers, a scale a block"),
    Width(name="int4", bits=4, block=128, feedback=True, summary="4-bit integers, a scale a block"),
    Width(name="int3", bits=3, block=128, feedback=True, summary="3-bit integers, a scale a block"),
    Width(name="lloyd2", bits=2, block=64, feedback=True, summary="2 bits at the Lloyd-Max levels of a Gaussian"),
    Width(name="sign", bits=1, block=256, feedback=True, summary="signs and a mean size a block"),
)

SCALE_BYTES = 2
"""Each block begins with its scale, a bfloat16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockExchange(ExchangeMethod):
    """All-to-all and all-gather of a narrow format."""

    width: Width
    block: int
    """Values that share a scale; 0 where values have none."""

    @property
    def name(self) -> str:
        block = [f"block={self.block}"] if self.width.block else []
        off = ["feedback=no"] if self.width.feedback else []
        options = ",".join([*block, *(["feedback"] if self.feedback else off)])
        return f"{self.width.name}:{options}" if options else self.width.name

    @property
    def scale_free(self) -> bool:
        return self.width.name != "fp16"

    @property
    def fused(self) -> bool:
        """Triton kernels take all blocks but fp8."""
        return self.width.name != "fp8"

    def nbytes(self, values: int) -> int:
        """Size of the codes of one tensor, whose last block is padded."""
        if not self.block:
            return values * self.width.bits // 8
        return -(-values // self.block) * (SCALE_BYTES + self.block * self.width.bits // 8)

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        nbytes = float(sum(self.nbytes(Gradient((shape,)).values) for shape in gradient.shapes))
        return (Phase(kind="all-to-all", nbytes=nbytes), Phase(kind="all-gather", nbytes=nbytes))

    def work(self, gradient: Gradient, ranks: int) -> Work:
        values, others = gradient.values, (ranks - 1) / ranks
        return Work(
            encoded_values=values,
            decoded_values=values * (1 + others),
            encoded_messages=ranks,
            decoded_messages=2 * ranks - 1,
        )


def _family(width: Width) -> Family:
    def build(text: str, options: dict[str, str], _find: Find) -> BlockExchange:
        readers = {"feedback": flag} | ({"block": _power_of_two} if width.block else {})
        values = {"block": width.block, "feedback": width.feedback} | read(text, options, readers)
        return BlockExchange(width=width, **values)

    described = (("block", f"values that share a scale, {width.block} by default"),) if width.block else ()
    default = "on" if width.feedback else "off"
    return Family(
        name=width.name,
        summary=f"{width.summary}; sums in float32",
        options=(
            *described,
            ("feedback", f"add the error of each encoding to the next gradient, {default} by default"),
        ),
        build=build,
    )


def _power_of_two(text: str) -> int:
    value = whole(8, 4096)(text)
    if value & (value - 1):
        raise ValueError("expected a power of two from 8 to 4096")
    return value


FAMILIES = tuple(_family(width) for width in WIDTHS)
