"""Which designs no other one beats, whatever the prices are that nobody states.

A design beats another one if it trains at least as many samples for a dollar, for a joule and, where numbers of ranks
differ, in a second, and if every part of unknown price or power, boards and hosts included, stands in it for at most
as long a share of a sample, spare nodes counted: then it stays ahead whatever that part costs or draws. Parts whose
failure rate is unknown count likewise, by number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from lightloom.designs.worth import Worth

_ROUNDING = 1e-9


class Front:
    """Designs that were evaluated, and the time beyond which another one cannot be on the front beside them."""

    def __init__(self, *, by_speed: bool) -> None:
        """``by_speed``: whether samples per second count as an objective."""
        self._by_speed = by_speed
        self._points: list[tuple[Worth, float, float]] = []

    def add(self, worth: Worth, sample_time: float, sent: float) -> None:
        """Add an evaluated design."""
        self._points.append((worth, sample_time, sent))

    def cutoff(self, worth: Worth) -> float:
        """Return the seconds a sample beyond which a design of this worth is beaten."""
        return min((self._beaten_beyond(worth, *point) for point in self._points), default=inf)

    def _beaten_beyond(self, worth: Worth, other: Worth, sample_time: float, sent: float) -> float:
        """Seconds a sample beyond which ``worth`` is beaten by another design."""
        if any(worth.unknown_rates.get(part, 0.0) < count for part, count in other.unknown_rates.items()):
            return inf
        objectives = other.point(sample_time, sent)[: 3 if self._by_speed else 2]
        rates = (worth.dollar_rate, worth.watts, 1.0)[: len(objectives)]
        kept = (worth.kept, worth.kept, worth.goodput)[: len(objectives)]
        times = [share / (rate * value) for share, rate, value in zip(kept, rates, objectives, strict=True)]
        for part, count in other.variables.items():
            own = worth.variables.get(part, 0.0)
            if own == 0.0:
                return inf
            times.append(count * sample_time / other.kept * worth.kept / own)
        return max(times)

    def on_front(self) -> list[bool]:
        """Return whether each design that was added is beaten by no other; of equal ones all are."""
        return [
            not any(self._beats(other, point) for other in self._points if other is not point) for point in self._points
        ]

    def _beats(self, first: tuple[Worth, float, float], second: tuple[Worth, float, float]) -> bool:
        parts = sorted({*first[0].variables, *second[0].variables})
        rates = sorted({*first[0].unknown_rates, *second[0].unknown_rates})
        pairs = list(zip(self._vector(*first, parts, rates), self._vector(*second, parts, rates), strict=True))
        at_least = all(mine >= other - _ROUNDING * abs(other) for mine, other in pairs)
        return at_least and any(mine > other + _ROUNDING * abs(other) for mine, other in pairs)

    def _vector(
        self, worth: Worth, sample_time: float, sent: float, parts: Sequence[str], rates: Iterable[str]
    ) -> list[float]:
        """Objectives of a point, more is better."""
        return [
            *worth.point(sample_time, sent)[: 3 if self._by_speed else 2],
            *(-worth.variables.get(part, 0.0) * sample_time / worth.kept for part in parts),
            *(-worth.unknown_rates.get(part, 0.0) for part in rates),
        ]
