"""Counts of what the exchanges of a training run send and how long they take, step by step."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, fields
from typing import Generic, TypeVar

import numpy as np

from lightloom.compression import Inceptionn, InceptionnPrinted, tag_histogram
from lightloom.compression.base import Codec
from lightloom.core.arrays import Ints
from lightloom.core.errors import ConfigError
from lightloom.training.gradients.adaptive import Decision
from lightloom.training.transport.payload import StreamObserver, Traffic


@dataclass(slots=True)
class Counts:
    """Bytes, seconds and buckets of one rank."""

    nbytes_raw: int = 0
    """Bytes that a ring all-reduce of plain float32 sends."""
    nbytes_sent: int = 0
    """Bytes that this rank sent."""
    seconds: float = 0.0
    """Time spent encoding, exchanging and decoding, in seconds."""
    buckets: int = 0
    """Buckets exchanged."""

    @property
    def ratio(self) -> float:
        """Raw bytes for each byte sent; 1 when nothing was sent."""
        return self.nbytes_raw / self.nbytes_sent if self.nbytes_sent else 1.0

    def add(self, other: Counts) -> None:
        """Add counts of the same class."""
        for column in fields(self):
            setattr(self, column.name, getattr(self, column.name) + getattr(other, column.name))


C = TypeVar("C", bound=Counts)


@dataclass(slots=True)
class StepStatistics(Generic[C]):
    """The total, and the latest 1000 synchronised steps; ``steps[-1]`` is the last one."""

    total: C
    steps: deque[C] = field(default_factory=lambda: deque(maxlen=1000))
    step_count: int = 0
    _step_open: bool = False

    def add(self, counts: C, *, last: bool) -> None:
        """Count one bucket; ``last`` ends the step."""
        if not self._step_open:
            self.steps.append(type(self.total)())
            self.step_count += 1
        for total in (self.steps[-1], self.total):
            total.add(counts)
        self._step_open = not last


@dataclass(slots=True)
class ExchangeCounts(Counts):
    """Counts of an exchange that may use plain all-reduce instead."""

    plain_buckets: int = 0
    """Buckets exchanged by plain all-reduce; no other count contains them."""


@dataclass(slots=True)
class Statistics(StepStatistics[ExchangeCounts]):
    """Statistics of the INCEPTIONN hooks. Printing them gives a summary."""

    total: ExchangeCounts = field(default_factory=ExchangeCounts)
    plain_steps: int = 0
    """Steps exchanged by plain all-reduce."""
    tags: Ints | None = None
    """Values that this rank sent in 2, 10, 18 and 34 bits (INCEPTIONN, Table III); None if they are not counted."""
    decisions: list[Decision] = field(default_factory=list)
    """Each decision between compression and plain all-reduce."""

    @classmethod
    def of(cls, codec: Codec | None, *, tag_histogram: bool) -> Statistics:
        """Return new statistics, with or without a count of tags.

        Raises:
            ConfigError: tags are to be counted and the codec has none.
        """
        if not tag_histogram:
            return cls()
        if not isinstance(codec, Inceptionn | InceptionnPrinted):
            raise ConfigError(f"tag_histogram counts the tags of INCEPTIONN's codecs, {codec} has none")
        return cls(tags=np.zeros(4, np.int64))

    @property
    def observer(self) -> StreamObserver | None:
        """Function to call with every stream that this rank encodes; None if tags are not counted."""
        return None if self.tags is None else self._count_tags

    def _count_tags(self, stream: object) -> None:
        self.tags = tag_histogram(stream) + (0 if self.tags is None else self.tags)

    def add_exchange(self, traffic: Traffic, seconds: float, *, last: bool) -> None:
        """Count one bucket exchanged by the hook; ``last`` ends the step."""
        self.add(ExchangeCounts(traffic.nbytes_raw, traffic.nbytes_sent, seconds, buckets=1), last=last)

    def add_plain(self, *, last: bool) -> None:
        """Count one bucket exchanged by plain all-reduce; ``last`` ends the step."""
        self.plain_steps += last
        self.add(ExchangeCounts(plain_buckets=1), last=last)

    def __str__(self) -> str:
        total = self.total
        lines = [
            f"{self.step_count} steps, {self.step_count - self.plain_steps} of them compressed: "
            f"{_megabytes(total.nbytes_sent)} sent instead of {_megabytes(total.nbytes_raw)}, ratio {total.ratio:.2f}, "
            f"{total.seconds:.1f} s of exchange"
        ]
        if self.tags is not None and self.tags.sum():
            shares = self.tags / self.tags.sum()
            words = (f"{bits} bits {share:.1%}" for bits, share in zip((2, 10, 18, 34), shares, strict=True))
            lines.append("values sent in " + ", ".join(words))
        return "\n".join([*lines, *map(str, self.decisions)])


@dataclass(slots=True)
class OpticalCounts(Counts):
    """Counts of one rank; ``nbytes_sent`` is what it sent through the process group to emulate the averager."""

    nbytes_up: int = 0
    """Bytes of the codes that a server sends to the averager."""
    nbytes_down: int = 0
    """Bytes of the mean codes that a server receives."""
    nbytes_exponents: int = 0
    """Bytes that a server sends to agree on scales: one for each block."""

    @property
    def exponent_share(self) -> float:
        """Exponents relative to the codes sent; the paper says less than 0.4 % (at 8 bits)."""
        return self.nbytes_exponents / self.nbytes_up if self.nbytes_up else 0.0


@dataclass(slots=True)
class OpticalStatistics(StepStatistics[OpticalCounts]):
    """Statistics of the optical averaging hook. Printing them gives a summary."""

    total: OpticalCounts = field(default_factory=OpticalCounts)

    def __str__(self) -> str:
        t = self.total
        return (
            f"{self.step_count} steps: {_megabytes(t.nbytes_up)} of codes up, {_megabytes(t.nbytes_down)} down, "
            f"exponents {t.exponent_share:.2%}; emulated with {_megabytes(t.nbytes_sent)} instead of "
            f"{_megabytes(t.nbytes_raw)}, {t.seconds:.1f} s"
        )


def _megabytes(nbytes: int) -> str:
    """Format a number of bytes."""
    return f"{nbytes / 1e6:.1f} MB"
