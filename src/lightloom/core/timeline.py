"""Intervals on resources, from which every figure, trace and joule of a simulated step comes.

compute   │ forward ████████│ backward ████████████│        ·        │ update ██│
network   │                 │      reconfigure ░░░ transmit ▓▓▓▓▓▓▓▓▓│
counts as │ compute                                │ communication   │ compute  │
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal, NamedTuple

Share = Literal["compute", "communication", "reconfiguration", "idle"]

SHARES: Mapping[str, Share] = {
    "forward": "compute",
    "backward": "compute",
    "update": "compute",
    "codec": "communication",
    "transmission": "communication",
    "reconfiguration": "reconfiguration",
}
"""Category of an interval, and the share of the step that it counts to."""
_REST = 1e-9
"""Share of the largest value of a counter below which one is what rounding leaves."""
_PRECEDENCE: tuple[Share, ...] = ("compute", "communication", "reconfiguration")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """One task on its resource, from ``start`` to ``end`` in seconds."""

    resource: str
    category: str
    """A key of :data:`SHARES`."""
    name: str
    start: float
    end: float
    details: Mapping[str, Any] = field(default_factory=dict)
    task: int | None = None
    """Number of the task that it shows, where it shows one."""
    after: tuple[int, ...] = ()
    """Numbers of the tasks that had to end before."""

    @property
    def duration(self) -> float:
        """Seconds from start to end."""
        return self.end - self.start


class Counter(NamedTuple):
    """A quantity over a step, which holds from each moment to the next."""

    name: str
    """Name of the quantity with its unit."""
    moments: tuple[float, ...]
    """Moments at which the value changes, in seconds, increasing."""
    values: tuple[float, ...]

    @classmethod
    def of_changes(cls, name: str, changes: Iterable[tuple[float, float]], base: float = 0.0) -> Counter:
        """Return the counter ``name`` whose value is ``base`` plus all changes so far, that of the moment included.

        Args:
            name: name of the quantity with its unit.
            changes: (moment in seconds, difference) in any order; those of one moment count together.
            base: value before the first change, for which the counter has no moment.

        Returns:
            A value for each different moment of a change, in order of time, equal to the one before or not; values
            below a billionth of the largest magnitude, which rounding leaves of 0, are 0.
        """
        sums: dict[float, float] = {}
        for moment, difference in changes:
            sums[moment] = sums.get(moment, 0.0) + difference
        moments = sorted(sums)
        values = [base + value for value in accumulate(sums[moment] for moment in moments)]
        largest = max(map(abs, values), default=0.0)
        return cls(name, tuple(moments), tuple(0.0 if abs(value) < _REST * largest else value for value in values))


@dataclass(frozen=True, slots=True)
class Timeline:
    """Intervals in order of their start.

    Raises:
        AssertionError: an interval ends before it starts, begins before 0 or is of no known category, or two overlap on
            a resource.
    """

    intervals: tuple[Interval, ...]

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> Timeline:
        """Return a timeline of intervals in any order, sorted by start, then end, so that an interval of no length
        comes before what follows it.

        Raises:
            AssertionError: an interval ends before it starts, begins before 0 or is of no category in :data:`SHARES`,
                or two overlap on a resource (by any amount; one may start as another ends).
        """
        return cls(tuple(sorted(intervals, key=lambda interval: (interval.start, interval.end))))

    def __post_init__(self) -> None:
        """Raise AssertionError for an interval that ends before it starts, begins before 0 or is of no known category,
        or for two that overlap on a resource."""
        latest: dict[str, Interval] = {}
        for interval in self.intervals:
            if interval.category not in SHARES:
                raise AssertionError(f"{interval.name!r}: no such category as {interval.category!r}")
            if not 0 <= interval.start <= interval.end:
                raise AssertionError(f"{interval.name!r} runs from {interval.start} s to {interval.end} s")
            before = latest.get(interval.resource)
            if before is not None and interval.start < before.end:
                raise AssertionError(f"{before.name!r} and {interval.name!r} overlap on {interval.resource!r}")
            latest[interval.resource] = interval

    @property
    def step_time(self) -> float:
        """Seconds from 0 until the last of all intervals, on any resource, ends; 0 without intervals."""
        return max((interval.end for interval in self.intervals), default=0.0)

    @property
    def resources(self) -> list[str]:
        """Names of the resources that have intervals, each once, in order of their first interval's start."""
        return list(dict.fromkeys(interval.resource for interval in self.intervals))

    def on(self, resource: str) -> list[Interval]:
        """Return the intervals of one resource, in order of their start; none for an unknown one."""
        return [interval for interval in self.intervals if interval.resource == resource]

    def load(self) -> Counter:
        """Return a counter, ``load (bytes/s)``, of the bytes per second that all transmissions together carry over
        time, each spread evenly from its start to its end. Transmissions whose details do not state ``bytes``, or 0, or
        that have no length are left out."""
        changes = []
        for interval in self.intervals:
            nbytes = interval.details.get("bytes")
            if nbytes and interval.category == "transmission" and interval.duration > 0:
                rate = nbytes / interval.duration
                changes += [(interval.start, rate), (interval.end, -rate)]
        return Counter.of_changes("load (bytes/s)", changes)

    def busy_time(self) -> dict[str, float]:
        """Return the seconds spent in each category (``forward``, ``backward``, ``update``, ``codec``, ``transmission``
        and ``reconfiguration``, 0 where there is none), by category, added up over intervals and resources even where
        they run at once."""
        seconds = dict.fromkeys(SHARES, 0.0)
        for interval in self.intervals:
            seconds[interval.category] += interval.duration
        return seconds

    def breakdown(self) -> dict[str, float]:
        """Return the seconds of the step by what it waits for: ``compute_s``, ``exposed_communication_s``,
        ``exposed_reconfiguration_s`` and ``idle_s``, which add up to ``step_time``.

        A moment counts as compute when any computing (forward, backward or update) runs on any resource, else as
        communication (transmission or codec), else as reconfiguration, else as idle, from 0 until the last interval
        ends: what the network does beside computing is hidden, the rest is *exposed*.
        """
        seconds: dict[Share, float] = dict.fromkeys((*_PRECEDENCE, "idle"), 0.0)
        changes: list[tuple[float, int, Share]] = []
        for interval in self.intervals:
            share = SHARES[interval.category]
            changes += [(interval.start, 1, share), (interval.end, -1, share)]
        active: dict[Share, int] = dict.fromkeys(_PRECEDENCE, 0)
        now = 0.0
        for moment, change, share in sorted(changes):
            current: Share = next((name for name in _PRECEDENCE if active[name]), "idle")
            seconds[current] += moment - now
            now = moment
            active[share] += change
        return {
            "compute_s": seconds["compute"],
            "exposed_communication_s": seconds["communication"],
            "exposed_reconfiguration_s": seconds["reconfiguration"],
            "idle_s": seconds["idle"],
        }
