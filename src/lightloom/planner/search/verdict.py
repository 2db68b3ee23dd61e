"""What a method of exchanging gradients does to a plan, in seconds and in words: with and without, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.core.units import format_time
from lightloom.parallelism.plan import Exchange
from lightloom.planner.pricing.cheapest import CheapestPrices
from lightloom.planner.pricing.exchange_prices import CarriedExchange, ExchangePrices
from lightloom.planner.pricing.schedule_prices import SchedulePrices
from lightloom.planner.search.plans import Plan

_SAME = 1e-9
"""Steps that differ by less than this share are called equal."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A plan with a method against the same plan with gradients as they are; seconds of one step, hidden or not.

    Of a method that exchanges every so many steps, a step has its share.
    """

    gained: float
    """Seconds by which the step is shorter; negative where the method loses."""
    saved: float
    """Seconds by which sending is shorter; negative where links wait for an engine behind the port, or nothing became
    smaller."""
    encode: float
    """Seconds of compressing."""
    decode: float
    """Seconds of decompressing."""
    nbytes: float
    """Bytes of the gradient collectives, gradients as they are."""
    compressed_nbytes: float
    """Bytes of the gradient collectives as they are sent."""
    step_time: float
    """Duration of a step with gradients as they are, in seconds."""

    @property
    def outcome(self) -> str:
        """``wins``, ``loses`` or ``even``."""
        if abs(self.gained) <= _SAME * self.step_time:
            return "even"
        return "wins" if self.gained > 0 else "loses"

    def __str__(self) -> str:
        coding = f"coding {format_time(self.encode + self.decode)}"
        if self.outcome == "even":
            return "changes nothing: computing hides the exchange either way"
        if self.outcome == "wins":
            paid = f", {coding}" if self.encode + self.decode else ""
            return f"saves {format_time(self.gained)}: sending −{format_time(self.saved)}{paid}"
        if self.saved < 0:
            paid = coding if self.encode + self.decode else "the link waits for the engine"
            return f"loses {format_time(-self.gained)}: sending +{format_time(-self.saved)}, {paid}"
        return f"loses {format_time(-self.gained)}: {coding} > {format_time(self.saved)} less sending"


def verdict(plan: Plan) -> Verdict | None:
    """The effect of a plan's method; None without one, or where the same plan without it was not simulated."""
    other = plan.uncompressed
    if other is None or other.prices is None or plan.result is None or other.result is None:
        return None
    if not isinstance(plan.prices, CheapestPrices | ExchangePrices):
        return None
    saved = encode = decode = nbytes = compressed = 0.0
    for exchange in other.result.plan.exchanges:
        if _carried(plan.prices, exchange) is not None:
            saved += other.prices.cost(exchange.kind, exchange.nbytes)[0].transmission
            nbytes += exchange.nbytes
    for exchange in plan.result.plan.exchanges:
        prices = _carried(plan.prices, exchange)
        if prices is not None:
            ours = prices.cost(exchange.kind, exchange.nbytes)[0]
            saved -= ours.transmission
            encode, decode = encode + ours.encode, decode + ours.decode
            compressed += prices.sent_nbytes(exchange.kind, exchange.nbytes)
    return Verdict(
        gained=other.step_time - plan.step_time,
        saved=saved,
        encode=encode,
        decode=decode,
        nbytes=nbytes,
        compressed_nbytes=compressed,
        step_time=other.step_time,
    )


def _carried(prices: CheapestPrices | ExchangePrices, exchange: Exchange) -> SchedulePrices | CarriedExchange | None:
    """What carries the gradients of an exchange; None of one that carries none."""
    choice = prices.choice(exchange.kind, exchange.nbytes)
    if not isinstance(choice, SchedulePrices | CarriedExchange):
        return None
    return None if choice.values_nbytes(exchange.kind, exchange.nbytes) is None else choice
