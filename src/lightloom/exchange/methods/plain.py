"""Gradients as they are: the all-reduce that a framework runs without any hook."""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.exchange.family import Family, Find
from lightloom.exchange.method import ExchangeMethod, Gradient, Phase, Work
from lightloom.exchange.spelling import read


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainExchange(ExchangeMethod):
    """The plain exchange: one all-reduce of float32 values, nothing coded."""

    @property
    def name(self) -> str:
        return "float32"

    @property
    def scale_free(self) -> bool:
        return True

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        return (Phase(kind="all-reduce", nbytes=4.0 * gradient.values),)

    def work(self, gradient: Gradient, ranks: int) -> Work:
        return Work()


def _build(text: str, options: dict[str, str], _find: Find) -> PlainExchange:
    read(text, options, {})
    return PlainExchange()


FAMILIES = (Family(name="float32", summary="all-reduce of float32, as without a hook", options=(), build=_build),)
