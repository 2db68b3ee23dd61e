"""Choose between compressed and plain exchange: both are timed, and the faster one is used until the next probe.

Plain is what torch itself would do: the all-reduce of DDP, the reduce-scatter of FSDP2.

    warm-up │ C C C C │ P P P P │ C C C C │ P P P P │ the faster kind … │ next probe …

C is a step with compression, P a plain one. A step lasts from one step's last bucket to the next one's,
so that communication hidden behind the backward pass counts as little as it costs. The first step of each block mixes
both kinds and is not counted. Ranks decide from the mean of their medians, so that all decide alike. The time until the
next probe follows from what a probe costs: at most one percent of the steps in between.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from statistics import median

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.core.errors import ConfigError
from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnPrinted
from lightloom.exchange.compression.stream import tag_histogram

WARM_UP = 5
"""Steps before the first probe, in which DDP rebuilds its buckets and caches fill."""
BLOCK = 4
"""Steps of one kind in a row."""
ROUNDS = 2
"""Blocks of each kind in a probe."""
LEAST_STEPS_BETWEEN = 200
"""Least number of steps between two probes."""
PROBE_SHARE = 0.01
"""Largest share of the time that probing may cost."""
HYSTERESIS = 0.05
"""Share of the step time by which the other kind must be faster for a later decision to change."""

_LOG = logging.getLogger("lightloom.exchange")

Agree = Callable[[list[float]], list[float]]
"""Returns the mean over ranks of the numbers that each rank passes; the same on all ranks."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Outcome of one probe; times are means over ranks, in seconds per step."""

    step: int
    compressed: float
    plain: float
    use_plain: bool
    """True if the plain exchange was chosen."""
    plain_name: str = "plain all-reduce"
    """Name of the plain exchange."""

    def __str__(self) -> str:
        """Return step, milliseconds a step of both kinds and the choice in one line."""
        choice = self.plain_name if self.use_plain else "compression"
        return (
            f"step {self.step}: {1e3 * self.compressed:.1f} ms with compression, {1e3 * self.plain:.1f} ms with "
            f"{self.plain_name}; {choice} from now on"
        )


class AdaptiveCompression:
    """Chooses for each step between compression and the plain exchange."""

    def __init__(self, agree: Agree, *, log: bool = False, plain_name: str = "plain all-reduce") -> None:
        """Begin with the warm-up; with ``log``, each decision goes to the logger ``lightloom.exchange`` (INFO)."""
        self.use_plain = False
        """True while the present step uses the plain exchange."""
        self._plain_name = plain_name
        self.decisions: list[Decision] = []
        self._agree = agree
        self._log = log
        self._step = 0
        self._decided_plain = False
        self._until_probe = WARM_UP
        self._probe: list[bool] = []
        """Kinds of the steps that are left of a probe, the present one first: True is plain."""
        self._last_end: float | None = None
        self._seconds: dict[bool, list[float]] = {False: [], True: []}

    def end_step(self, now: float) -> None:
        """Choose whether the next step uses compression or the plain exchange, which ``use_plain`` then says.

        After a warm-up of 5 steps, and at intervals of 200 steps or more, a probe of 16 steps runs both kinds in turn,
        4 steps each, of which the first is not timed. Then the kind whose median step is faster is used; after the
        first decision only a gain of more than 5 % changes it. Every rank must call it after every step: at the end of
        a probe all ranks exchange their times.

        Args:
            now: time in seconds, on a clock of this rank that is the same in all calls, when the last bucket of this
                step came.
        """
        self._step += 1
        if self._probe:
            if len(self._probe) % BLOCK and self._last_end is not None:
                self._seconds[self.use_plain].append(now - self._last_end)
            del self._probe[0]
            if not self._probe:
                self._decide()
        else:
            self._until_probe -= 1
            if self._until_probe <= 0:
                self._probe = ([self._decided_plain] * BLOCK + [not self._decided_plain] * BLOCK) * ROUNDS
                self._seconds = {False: [], True: []}
        self.use_plain = self._probe[0] if self._probe else self._decided_plain
        self._last_end = now

    def state_dict(self) -> dict[str, int]:
        """Return a checkpoint: ``step`` (steps so far), the decision ``use_plain`` (0 or 1), and ``until_probe`` (steps
        until the next probe; 5, so that it is repeated, where one is under way). The times and ``decisions`` are left
        out."""
        return {
            "step": self._step,
            "use_plain": int(self._decided_plain),
            "until_probe": WARM_UP if self._probe else self._until_probe,
        }

    def load_state_dict(self, state_dict: Mapping[str, int]) -> None:
        """Continue from a checkpoint that ``state_dict`` returned, with no probe under way; ``aside``, as version 0.1
        called ``use_plain``, is read in its place."""
        self._step = int(state_dict["step"])
        self._decided_plain = self.use_plain = bool(state_dict["use_plain" if "use_plain" in state_dict else "aside"])
        self._until_probe = int(state_dict["until_probe"])
        self._probe, self._last_end = [], None

    def _decide(self) -> None:
        """Choose the kind of exchange from the medians of the probe's steps, averaged over ranks; all ranks call it.

        The first decision of this object takes the faster kind (the present one where both are equal), a later one
        changes only if the other kind takes less than 95 % of the present one's time. The decision is kept in
        ``decisions``, and logged where that was asked for, and the steps until the next probe are set so that a probe
        costs at most 1 % of the time between, 200 at least.
        """
        compressed, plain = self._agree([median(self._seconds[False]), median(self._seconds[True])])
        present, other = (plain, compressed) if self._decided_plain else (compressed, plain)
        needed = 1 - HYSTERESIS if self.decisions else 1.0
        if other < needed * present:
            self._decided_plain = not self._decided_plain
        slower, faster = max(compressed, plain), max(min(compressed, plain), 1e-9)
        probe = BLOCK * ROUNDS * (slower / faster - 1)
        self._until_probe = max(LEAST_STEPS_BETWEEN, math.ceil(probe / PROBE_SHARE))
        self.decisions.append(Decision(self._step, compressed, plain, self._decided_plain, self._plain_name))
        if self._log:
            _LOG.info("%s", self.decisions[-1])


# Counts of what the exchanges of a training run send and how long they take, step by step.


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
    """Number of buckets exchanged compressed."""
    plain_buckets: int = 0
    """Buckets exchanged by plain all-reduce; no other count contains them."""

    @property
    def ratio(self) -> float:
        """Bytes that a ring all-reduce of float32 would have sent, per byte that this rank sent, over the buckets
        exchanged compressed; 1 when nothing was sent."""
        return self.nbytes_raw / self.nbytes_sent if self.nbytes_sent else 1.0


@dataclass(slots=True)
class Statistics:
    """The total, and the latest 1000 synchronised steps; ``steps[-1]`` is the last one. Printing gives a summary."""

    total: Counts = field(default_factory=Counts)
    steps: deque[Counts] = field(default_factory=lambda: deque(maxlen=1000))
    step_count: int = 0
    _step_open: bool = False
    plain_steps: int = 0
    """Steps exchanged by plain all-reduce."""
    tags: Ints | None = None
    """Values that this rank sent in 2, 10, 18 and 34 bits (INCEPTIONN, Table III); None if they are not counted."""
    decisions: list[Decision] = field(default_factory=list)
    """Each decision between compression and plain all-reduce."""

    @classmethod
    def of(cls, codec: Codec | None, *, tag_histogram: bool) -> Statistics:
        """Return new statistics, with a count of the tags of INCEPTIONN's codec if ``tag_histogram``, else without
        (``tags`` is then None).

        Raises:
            ConfigError: tags are to be counted and ``codec`` is None or none of INCEPTIONN's.
        """
        if not tag_histogram:
            return cls()
        if not isinstance(codec, Inceptionn | InceptionnPrinted):
            raise ConfigError(f"tag_histogram counts the tags of INCEPTIONN's codecs, {codec} has none")
        return cls(tags=np.zeros(4, np.int64))

    def observe(self, stream: object) -> None:
        """Add to ``tags`` how many values of an INCEPTIONN stream that this rank encoded have each of the four tags;
        nothing is done where ``tags`` is None."""
        if self.tags is not None:
            self.tags += tag_histogram(stream)

    def add(self, counts: Counts, *, last: bool) -> None:
        """Add the counts of one bucket, field by field, to the present step and to the total; ``last`` says that it is
        the step's last bucket, so that the next one begins a new step."""
        if not self._step_open:
            self.steps.append(type(self.total)())
            self.step_count += 1
        for total in (self.steps[-1], self.total):
            for column in fields(total):
                setattr(total, column.name, getattr(total, column.name) + getattr(counts, column.name))
        self._step_open = not last

    def __str__(self) -> str:
        """Return a summary: steps, megabytes, ratio and seconds, then shares of tags where they are counted, then a
        line a decision."""
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


class OpticalStatistics(Statistics):
    """Statistics of the optical averaging hook. Printing them gives a summary."""

    total: OpticalCounts

    def __init__(self) -> None:
        """Begin with no steps, and a total that counts codes and exponents too."""
        super().__init__(OpticalCounts())

    def __str__(self) -> str:
        """Return a summary in one line: codes up and down, share of exponents, and bytes and seconds of the
        emulation."""
        t = self.total
        share = t.nbytes_exponents / t.nbytes_up if t.nbytes_up else 0.0
        return (
            f"{self.step_count} steps: {_megabytes(t.nbytes_up)} of codes up, {_megabytes(t.nbytes_down)} down, "
            f"exponents {share:.2%}; emulated with {_megabytes(t.nbytes_sent)} instead of "
            f"{_megabytes(t.nbytes_raw)}, {t.seconds:.1f} s"
        )


def _megabytes(nbytes: int) -> str:
    """Return a number of bytes as text in units of 10^6 bytes with one decimal: ``12.3 MB``."""
    return f"{nbytes / 1e6:.1f} MB"
