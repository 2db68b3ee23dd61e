"""Averages of integer codes by an averager of light: OptINC's servers around a chip.

    all-gather of block exponents  ->  largest over ranks  ->  codes  ->  the averager's mean codes on every rank

Where no light adds codes up, hooks send each share of the codes to one rank and gather the means: the same bytes as an
all-reduce of codes. Sources: ``lightloom.photonics.block_quantisation``, ``lightloom.photonics.registry``.
"""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.exchange.family import Family, Find
from lightloom.exchange.method import ExchangeMethod, Gradient, Phase, Work
from lightloom.exchange.spelling import read, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class OpticalExchange(ExchangeMethod):
    """All-reduce of codes that share a power-of-two scale in each block."""

    averager: str
    """Name of the averager, as :func:`lightloom.photonics.registry.find_averager` reads it."""
    bits: int
    """Bits of a code."""
    block: int
    """Values that share a scale; no block spans two tensors."""

    @property
    def name(self) -> str:
        averager = f"({self.averager})" if any(mark in self.averager for mark in ",:=") else self.averager
        return f"optical:averager={averager},bits={self.bits},block={self.block}"

    @property
    def scale_free(self) -> bool:
        """Whether the averager gives equal codes the same mean: without noise or errors of its own."""
        return self.averager == "ideal"

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        blocks = sum(-(-Gradient((shape,)).values // self.block) for shape in gradient.shapes)
        return (
            Phase(kind="all-gather", nbytes=float(ranks * blocks)),
            Phase(kind="all-reduce", nbytes=gradient.values * self.bits / 8),
        )

    def work(self, gradient: Gradient, ranks: int) -> Work:
        return Work(
            encoded_values=gradient.values,
            decoded_values=gradient.values,
            encoded_messages=1,
            decoded_messages=1,
        )


def _read_averager(text: str) -> str:
    from lightloom.core.errors import UnknownNameError
    from lightloom.photonics.registry import KNOWN

    if text.partition(":")[0] not in KNOWN:
        raise UnknownNameError("averager", text, KNOWN)
    return text


def _build(text: str, options: dict[str, str], _find: Find) -> OpticalExchange:
    readers = {"averager": _read_averager, "bits": whole(2, 32), "block": whole(1, 1 << 20)}
    values = read(text, options, readers)
    return OpticalExchange(
        averager=values.get("averager", "ideal"), bits=values.get("bits", 16), block=values.get("block", 256)
    )


FAMILIES = (
    Family(
        name="optical",
        compared=(),
        summary="integer codes with a scale a block, averaged by light",
        options=(
            ("averager", "ideal (the default) or another averager, in parentheses; see docs/photonics/averaging.md"),
            ("bits", "bits of a code, from 2 to 32; 16 by default"),
            ("block", "values that share a scale; 256 by default"),
        ),
        build=_build,
    ),
)
