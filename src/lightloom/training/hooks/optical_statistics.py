"""What averaging by light would carry, and what standing in for it costs here, step by step."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class OpticalCounts:
    """Of one rank."""

    nbytes_up: int = 0
    """Codes that a server sends to the averager."""
    nbytes_down: int = 0
    """Mean codes that it receives."""
    nbytes_exponents: int = 0
    """What servers send to agree on scales: one byte a block."""
    nbytes_sent: int = 0
    """What this rank sent through the process group in place of all that."""
    nbytes_raw: int = 0
    """What it sends where a ring all-reduces float32."""
    seconds: float = 0.0
    """Quantising, exchanging, averaging and restoring."""
    buckets: int = 0

    @property
    def ratio(self) -> float:
        """Raw bytes for each byte sent here; 1 when nothing was sent."""
        return self.nbytes_raw / self.nbytes_sent if self.nbytes_sent else 1.0

    @property
    def exponent_share(self) -> float:
        """Exponents relative to the codes sent; the paper says less than 0.4 % (at 8 bits)."""
        return self.nbytes_exponents / self.nbytes_up if self.nbytes_up else 0.0

    def add(self, other: OpticalCounts) -> None:
        """Count something more."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass(slots=True)
class OpticalStatistics:
    """The total, and the latest 1000 steps (``steps[-1]`` is the last one). Printing it sums it up."""

    total: OpticalCounts = field(default_factory=OpticalCounts)
    steps: deque[OpticalCounts] = field(default_factory=lambda: deque(maxlen=1000))
    step_count: int = 0
    _open: bool = False

    def add(self, counts: OpticalCounts, *, last: bool) -> None:
        """Count one bucket; ``last`` ends the step."""
        if not self._open:
            self.steps.append(OpticalCounts())
            self.step_count += 1
        self.steps[-1].add(counts)
        self.total.add(counts)
        self._open = not last

    def __str__(self) -> str:
        t = self.total
        return (
            f"{self.step_count} steps: {_mega(t.nbytes_up)} of codes up, {_mega(t.nbytes_down)} down, exponents "
            f"{t.exponent_share:.2%}; here {_mega(t.nbytes_sent)} sent for {_mega(t.nbytes_raw)}, {t.seconds:.1f} s"
        )


def _mega(nbytes: int) -> str:
    return f"{nbytes / 1e6:.1f} MB"
