"""What compression does to a plan, in seconds and in words: the same plan with and without, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.core.units import format_time
from lightloom.planner.search.ranked import Candidate

_SAME = 1e-9
"""Steps that differ by less than this share are called equal."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A compressing plan against the same plan without; seconds of one step, hidden or not."""

    gained: float
    """Shorter step; negative where compression loses."""
    saved: float
    """Shorter sending; negative where links wait for an engine behind the port, or nothing became smaller."""
    encode: float
    decode: float
    nbytes: float
    """Sizes of the gradient collectives, uncompressed."""
    compressed_nbytes: float
    step_time: float
    """Of the plan without."""

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


def verdict(candidate: Candidate) -> Verdict | None:
    """None for a plan that does not compress."""
    plain = candidate.plain
    if plain is None:
        return None
    saved = encode = decode = nbytes = compressed = 0.0
    for exchange in candidate.result.plan.exchanges:
        if candidate.prices.values_nbytes(exchange.kind, exchange.nbytes) is None:
            continue
        ours, theirs = (each.prices.cost(exchange.kind, exchange.nbytes)[0] for each in (candidate, plain))
        saved += theirs.transmission - ours.transmission
        encode, decode = encode + ours.encode, decode + ours.decode
        nbytes += exchange.nbytes
        compressed += candidate.prices.sent_nbytes(exchange.kind, exchange.nbytes)
    return Verdict(
        gained=plain.result.step_time - candidate.result.step_time,
        saved=saved,
        encode=encode,
        decode=decode,
        nbytes=nbytes,
        compressed_nbytes=compressed,
        step_time=plain.result.step_time,
    )
