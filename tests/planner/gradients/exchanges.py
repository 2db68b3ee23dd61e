"""Exchanges of gradients at made-up rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lightloom.exchange.method import Gradient, Phase
from lightloom.exchange.methods import InceptionnExchange, find
from lightloom.planning.gradients import CodecEngine, PricedExchange
from lightloom.planning.gradients import bits_by_terms as bits_by_terms

Placement = Literal["host", "nic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioCodec(InceptionnExchange):
    """A codec around a ring that makes every message smaller by the same ratio, headers included."""

    exponent: int = 10
    ratio: float

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        return (Phase(kind="all-reduce", nbytes=4 * gradient.values / self.ratio),)


def engine(placement: Placement = "host", rate: float = 1e30, message: float = 0.0) -> CodecEngine:
    """An engine of one rate both ways."""
    return CodecEngine(
        name="test",
        placement=placement,
        encode=rate,
        decode=rate,
        encode_message=message,
        decode_message=message,
        source="made up",
    )


def coded(ratio: float, placement: Placement = "host", rate: float = 1e30) -> PricedExchange:
    """A codec of one ratio around a ring."""
    method = RatioCodec(ratio=ratio)
    gradient = Gradient.flat(1 << 20)
    return PricedExchange(method=method, gradient=gradient, sizes="made up", engine=engine(placement, rate))


def by_name(
    method: str, shapes: tuple[tuple[int, ...], ...] = ((1024, 1024),), rate: float = 1e30, message: float = 0.0
) -> PricedExchange:
    """A method of one model of these shapes, on a host of one rate."""
    return PricedExchange(
        method=find(method), gradient=Gradient(shapes), sizes="fixed", engine=engine(rate=rate, message=message)
    )
