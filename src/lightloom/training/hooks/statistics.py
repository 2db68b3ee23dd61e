"""What the exchanges of a training run cost, step by step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightloom.compression import Inceptionn, InceptionnPrinted, tag_histogram
from lightloom.compression.base import Codec
from lightloom.core.errors import ConfigError
from lightloom.training.hooks.step_aside import Decision
from lightloom.training.transport.ring_exchange import Traffic


@dataclass(slots=True)
class Counts:
    """Bytes that this rank sent, and seconds it spent encoding, exchanging and decoding."""

    nbytes_raw: int = 0
    """Bytes that the same ring sends as plain float32."""
    nbytes_sent: int = 0
    seconds: float = 0.0
    buckets: int = 0
    buckets_aside: int = 0
    """Buckets left to plain all-reduce; they are in no other number here."""

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
    """The total, and the latest 1000 synchronised steps (``steps[-1]`` is the last one). Printing it sums it up."""

    total: Counts = field(default_factory=Counts)
    steps: deque[Counts] = field(default_factory=lambda: deque(maxlen=1000))
    step_count: int = 0
    aside_count: int = 0
    """Steps left to plain all-reduce."""
    tags: NDArray[np.int64] | None = None
    """Values that this rank sent in 2, 10, 18 and 34 bits (INCEPTIONN, Table III); None when they are not counted."""
    decisions: list[Decision] = field(default_factory=list)
    """When and why the hook stepped aside or came back."""
    _open: Counts | None = None

    @classmethod
    def of(cls, codec: Codec | None, *, tag_histogram: bool) -> Statistics:
        """Fresh statistics, with or without a count of tags.

        Raises:
            ConfigError: the codec has no tags.
        """
        if not tag_histogram:
            return cls()
        if not isinstance(codec, Inceptionn | InceptionnPrinted):
            raise ConfigError(f"tag_histogram counts the tags of INCEPTIONN's codecs, {codec} has none")
        return cls(tags=np.zeros(4, np.int64))

    @property
    def observer(self) -> Callable[[Any], None] | None:
        """What must see every stream that this rank encodes; None when nothing need."""
        return None if self.tags is None else self._count_tags

    def _count_tags(self, stream: Any) -> None:
        self.tags = tag_histogram(stream) + (0 if self.tags is None else self.tags)

    def add(self, traffic: Traffic, seconds: float, *, last: bool) -> None:
        """Count one bucket; ``last`` ends the step."""
        self._current().add(traffic, seconds)
        self.total.add(traffic, seconds)
        self._end(last)

    def add_aside(self, *, last: bool) -> None:
        """Count one bucket that was left to plain all-reduce; ``last`` ends the step."""
        for counts in (self._current(), self.total):
            counts.buckets_aside += 1
        self.aside_count += last
        self._end(last)

    def _current(self) -> Counts:
        if self._open is None:
            self._open = Counts()
            self.steps.append(self._open)
            self.step_count += 1
        return self._open

    def _end(self, last: bool) -> None:
        if last:
            self._open = None

    def __str__(self) -> str:
        total = self.total
        lines = [
            f"{self.step_count} steps, {self.step_count - self.aside_count} of them compressed: "
            f"{_mega(total.nbytes_sent)} sent for {_mega(total.nbytes_raw)}, ratio {total.ratio:.2f}, "
            f"{total.seconds:.1f} s of exchange"
        ]
        if self.tags is not None and self.tags.sum():
            shares = (f"{bits} bits {share:.1%}" for bits, share in zip((2, 10, 18, 34), self._shares(), strict=True))
            lines.append("values sent in " + ", ".join(shares))
        return "\n".join([*lines, *map(str, self.decisions)])

    def _shares(self) -> list[float]:
        assert self.tags is not None
        return [float(count / self.tags.sum()) for count in self.tags]


def _mega(nbytes: int) -> str:
    return f"{nbytes / 1e6:.1f} MB"
