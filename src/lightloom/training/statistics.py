"""What the exchanges of a training run cost, step by step."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from lightloom.training.ring_exchange import Traffic


@dataclass(slots=True)
class Counts:
    """Bytes that this rank sent, and seconds it spent encoding, exchanging and decoding."""

    nbytes_raw: int = 0
    """Bytes that the same ring sends as plain float32."""
    nbytes_sent: int = 0
    seconds: float = 0.0
    buckets: int = 0

    @property
    def ratio(self) -> float:
        """Raw bytes for each byte sent; 1 when nothing was sent."""
        return self.nbytes_raw / self.nbytes_sent if self.nbytes_sent else 1.0

    def add(self, traffic: Traffic, seconds: float) -> None:
        """Count one bucket."""
        self.nbytes_raw += traffic.nbytes_raw
        self.nbytes_sent += traffic.nbytes_sent
        self.seconds += seconds
        self.buckets += 1


@dataclass(slots=True)
class Statistics:
    """The total, and the latest 1000 synchronised steps (``steps[-1]`` is the last one)."""

    total: Counts = field(default_factory=Counts)
    steps: deque[Counts] = field(default_factory=lambda: deque(maxlen=1000))
    _open: Counts | None = None

    def add(self, traffic: Traffic, seconds: float, *, last: bool) -> None:
        """Count one bucket; ``last`` ends the step."""
        if self._open is None:
            self._open = Counts()
            self.steps.append(self._open)
        self._open.add(traffic, seconds)
        self.total.add(traffic, seconds)
        if last:
            self._open = None
