"""What a design would have to cost or draw to match the best design of the other technology.

Dollars for a sample are linear in the price of the fabric, and joules in its power, so the break-even points have
closed forms (:mod:`lightloom.designs.worth`). They are linear in prices and powers of boards and hosts that nothing
states, too: these are paid for longer by the slower of two designs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lightloom.core.results import Document
from lightloom.designs.explore import Candidate, Exploration
from lightloom.designs.space import Technology
from lightloom.designs.worth import PRICE


class Ratio(NamedTuple):
    """How many times as many samples one design trains as another one for a dollar or a joule."""

    least: float
    """While what is unknown of boards and hosts is nothing."""
    limit: float | None
    """The higher that is, the nearer the ratio comes to this; None where nothing is unknown."""
    equal_at: float | None
    """Dollars or watts of a rank at which both train as many; None where none do, or several figures are unknown."""


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """At which price and at which power of its fabric a design equals its rivals of the other technology."""

    dollars_rival: Candidate
    """The design of the other technology with the most samples per dollar."""
    joules_rival: Candidate
    """That with the most samples per joule."""
    fabric_dollars: float
    """Dollars of the fabric for each rank at which both train as many samples for a dollar, while what is unknown of
    boards and hosts is nothing; below 0 where no price does."""
    fabric_watts: float
    """Watts of the fabric for each rank at which both train as many samples for a joule, likewise."""
    dollars_more: Mapping[str, float]
    """What is added to ``fabric_dollars`` for each dollar or watt of a rank, by what is unknown of boards and hosts."""
    watts_more: Mapping[str, float]
    """What is added to ``fabric_watts``, likewise."""
    energy_per_bit: float | None
    """``fabric_watts`` as joules for each bit at the fabric's full rate; None where it states no rate."""
    part: str | None
    """The part of the fabric whose price is unknown, where it is the only one."""
    part_price: float | None
    """Dollars that each of these may cost at the break-even price."""
    part_count: float | None
    """How many of these a rank has."""

    def to_json(self) -> Document:
        """Return the break-even points in SI units."""
        return {
            "rival_by_dollars": self.dollars_rival.design.name,
            "rival_by_joules": self.joules_rival.design.name,
            "fabric_dollars_per_rank": self.fabric_dollars,
            "fabric_watts_per_rank": self.fabric_watts,
            "fabric_dollars_more": dict(self.dollars_more),
            "fabric_watts_more": dict(self.watts_more),
            "fabric_joules_per_bit": self.energy_per_bit,
            "unknown_part": self.part,
            "unknown_part_dollars": self.part_price,
            "unknown_parts_per_rank": self.part_count,
        }


def ratio(first: Candidate, second: Candidate, objective: int) -> Ratio:
    """Return how many times as many samples the first design trains as the second one."""
    least = first.point[objective] / second.point[objective]
    unknown = first.worth.unknown_of(objective, first.worth.alike)
    if not unknown:
        return Ratio(least, None, None)
    equal = None
    if len(unknown) == 1:
        # What one sample takes is linear in the unknown figure.
        (name,) = unknown
        now = [1 / each.point[objective] for each in (first, second)]
        slopes = [
            1 / each.assuming({name: 1.0}).point[objective] - before
            for each, before in zip((first, second), now, strict=True)
        ]
        crossing = (now[1] - now[0]) / (slopes[0] - slopes[1]) if slopes[0] != slopes[1] else -1.0
        equal = crossing if crossing > 0 else None
    return Ratio(least, second.share / first.share, equal)


def rival_break_even(candidate: Candidate, exploration: Exploration) -> BreakEven | None:
    """Return the break-even points of a design beside the best of the other technology; None where nothing of that has
    a plan."""
    other: Technology = "optical" if candidate.design.technology == "electrical" else "electrical"
    dollars, joules = exploration.best(other, 0), exploration.best(other, 1)
    return None if dollars is None or joules is None else break_even(candidate, dollars, joules)


def break_even(candidate: Candidate, dollars: Candidate, joules: Candidate | None = None) -> BreakEven:
    """Return at which price and power a design equals rivals by dollars and by joules, one where only one is given."""
    joules = joules or dollars
    price, watts = _points(candidate, dollars, joules, {})
    more = {name: _points(candidate, dollars, joules, {name: 1.0}) for name in candidate.worth.alike}
    worth = candidate.worth
    unpriced = [name for name in worth.unknown if name.startswith(PRICE)]
    part = count = each = None
    if len(unpriced) == 1:
        part, count = unpriced[0].removeprefix(PRICE), worth.unknown[unpriced[0]] / worth.ranks
        each = (price - worth.fabric_dollars) / count
    return BreakEven(
        dollars_rival=dollars,
        joules_rival=joules,
        fabric_dollars=price,
        fabric_watts=watts,
        dollars_more={name: points[0] - price for name, points in more.items()},
        watts_more={name: points[1] - watts for name, points in more.items() if not name.startswith(PRICE)},
        energy_per_bit=worth.energy_per_bit(watts),
        part=part,
        part_price=each,
        part_count=count,
    )


def _points(
    candidate: Candidate, dollars: Candidate, joules: Candidate, figures: Mapping[str, float]
) -> tuple[float, float]:
    """Return the break-even price and power of the fabric if boards and hosts had these figures."""
    own, found = candidate.assuming(figures).worth, candidate.evaluated
    price = own.fabric_price(found.sample_time, found.sent, dollars.assuming(figures).point[0])
    watts = own.fabric_power(found.sample_time, found.sent, joules.assuming(figures).point[1])
    return price, watts
