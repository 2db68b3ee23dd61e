"""Top-k: of each tensor the values of largest size, with their indices; all ranks gather all ranks' and add them up.

What is sent grows with the ranks: (ranks - 1) · share · 8 bytes a value, more than float32 from about 1 / share ranks
on. Source: Lin et al., Deep Gradient Compression (ICLR 2018); its momentum correction is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from lightloom.exchange.family import Family, Find
from lightloom.exchange.method import ExchangeMethod, Gradient, Phase, Work
from lightloom.exchange.spelling import flag, read, real

PAIR_BYTES = 8
"""An index (int32, from the start of its tensor) and a value (float32)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKExchange(ExchangeMethod):
    """All-gather of the largest values and their indices."""

    share: float
    """Values of each tensor that are sent, as a share of all; at least one."""

    @property
    def name(self) -> str:
        return f"topk:share={self.share!r},{'feedback' if self.feedback else 'feedback=no'}"

    @property
    def scale_free(self) -> bool:
        return True

    @property
    def fused(self) -> bool:
        return False

    def kept(self, values: int) -> int:
        """Values that are sent of a tensor of so many."""
        return min(max(ceil(self.share * values), 1), values)

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        kept = sum(self.kept(Gradient((shape,)).values) for shape in gradient.shapes)
        return (Phase(kind="all-gather", nbytes=float(ranks * PAIR_BYTES * kept)),)

    def work(self, gradient: Gradient, ranks: int) -> Work:
        """Every value is looked at once; what all ranks sent is added up."""
        kept = sum(self.kept(Gradient((shape,)).values) for shape in gradient.shapes)
        return Work(
            encoded_values=gradient.values,
            decoded_values=ranks * kept,
            encoded_messages=1,
            decoded_messages=ranks,
        )


def _build(text: str, options: dict[str, str], _find: Find) -> TopKExchange:
    values = read(text, options, {"share": real(1e-6, 1.0), "feedback": flag})
    return TopKExchange(**{"share": 0.01, "feedback": True} | values)


FAMILIES = (
    Family(
        name="topk",
        summary="the largest values of each tensor with their indices, gathered from all ranks",
        options=(
            ("share", "values that are sent, from 1e-6 to 1; 0.01 by default"),
            ("feedback", "keep what is not sent for the next gradient, on by default"),
        ),
        build=_build,
    ),
)
