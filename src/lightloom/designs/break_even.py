"""What a design would have to cost or draw to match the best design of the other technology.

Dollars for a sample are linear in the price of the fabric, and joules in its power, so the break-even points have
closed forms (:mod:`lightloom.designs.worth`).
"""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.core.results import Document
from lightloom.designs.explore import Candidate, Exploration
from lightloom.designs.space import Technology


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """At which price and at which power of its fabric a design equals its rivals of the other technology."""

    dollars_rival: Candidate
    """The design of the other technology with the most samples per dollar."""
    joules_rival: Candidate
    """That with the most samples per joule."""
    fabric_dollars: float
    """Dollars of the fabric for each rank at which both train as many samples for a dollar; below 0 where no price
    does."""
    fabric_watts: float
    """Watts of the fabric for each rank at which both train as many samples for a joule, likewise."""
    energy_per_bit: float | None
    """The same as joules for each bit at the fabric's full rate; None where it states no rate."""
    part: str | None
    """The part whose price is unknown, where it is the only one."""
    part_price: float | None
    """Dollars that each of these may cost at the break-even price."""

    def to_json(self) -> Document:
        """Return the break-even points in SI units."""
        return {
            "rival_by_dollars": self.dollars_rival.design.name,
            "rival_by_joules": self.joules_rival.design.name,
            "fabric_dollars_per_rank": self.fabric_dollars,
            "fabric_watts_per_rank": self.fabric_watts,
            "fabric_joules_per_bit": self.energy_per_bit,
            "unknown_part": self.part,
            "unknown_part_dollars": self.part_price,
        }


def rival_break_even(candidate: Candidate, exploration: Exploration) -> BreakEven | None:
    """Return the break-even points of a design beside the best of the other technology; None where nothing of that has
    a plan."""
    other: Technology = "optical" if candidate.design.technology == "electrical" else "electrical"
    dollars, joules = exploration.best(other, 0), exploration.best(other, 1)
    return None if dollars is None or joules is None else break_even(candidate, dollars, joules)


def break_even(candidate: Candidate, dollars: Candidate, joules: Candidate | None = None) -> BreakEven:
    """Return at which price and power a design equals rivals by dollars and by joules, one where only one is given."""
    joules = joules or dollars
    worth, found = candidate.worth, candidate.evaluated
    price = worth.fabric_price(found.sample_time, found.sent, dollars.point[0])
    watts = worth.fabric_power(found.sample_time, found.sent, joules.point[1])
    unpriced = [name for name in worth.unknown if name.startswith("price of ")]
    part = unpriced[0].removeprefix("price of ") if len(unpriced) == 1 else None
    each = None
    if part is not None:
        each = (price - worth.fabric_dollars) * worth.ranks / worth.unknown[unpriced[0]]
    return BreakEven(
        dollars_rival=dollars,
        joules_rival=joules,
        fabric_dollars=price,
        fabric_watts=watts,
        energy_per_bit=worth.energy_per_bit(watts),
        part=part,
        part_price=each,
    )
