"""The word error rate of a link: shares of wrong mean codes, over fabrications and words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.photonics.averaging.averagers import IdealAverager
from lightloom.photonics.link.chip import Chip
from lightloom.photonics.link.intervals import interval
from lightloom.photonics.link.settings import Link
from lightloom.photonics.link.simulate import FabricatedLink
from lightloom.photonics.link.words import draw_words

_AT_ONCE = 1 << 13
"""Words that are simulated together: their signals stay in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WrongWords:
    """Words that at least one server receives wrong, on several fabrications."""

    wrong: Ints
    """Number of wrong words of every fabrication, [fabrications]."""
    words: int
    """Words tried on each fabrication."""

    @property
    def rate(self) -> float:
        """Share of wrong words."""
        return float(self.wrong.sum() / (self.words * self.wrong.size))

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the rate, see `intervals.interval`."""
        return interval(self.wrong, self.words)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WordErrors(WrongWords):
    """Wrong words of several fabrications of a link, and its powers."""

    split: Ints
    """Words that not all servers receive equal, [fabrications]."""
    peaks: dict[str, float]
    """Largest power by place, relative to full scale."""
    raised: float = 1.0
    """Largest factor by which calibration raised the power of a lane or of a unit's output."""

    def to_json(self) -> dict[str, object]:
        """Return rate, interval and counts."""
        low, high = self.interval
        return {
            "word_error_rate": self.rate,
            "interval_95": [low, high],
            "wrong_words": int(self.wrong.sum()),
            "words": self.words * int(self.wrong.size),
            "fabrications": int(self.wrong.size),
            "worst_fabrication": float(self.wrong.max() / self.words),
            "fabrications_all_right": int((self.wrong == 0).sum()),
            "words_received_differently": int(self.split.sum()),
        }


def word_errors(
    chip: Chip,
    link: Link,
    *,
    words: int = 20_000,
    fabrications: int = 20,
    seed: int = 0,
    advance: Callable[[int], object] | None = None,
) -> WordErrors:
    """Fabricate the link ``fabrications`` times and send ``words`` words through each.

    Equal seeds draw equal words and fabrications, whatever the link: links can be compared in pairs.
    """
    arguments = chip.arguments
    mean_of = IdealAverager(arguments.servers, arguments.bits, arguments.rounding)
    wrong, split = np.zeros(fabrications, np.int64), np.zeros(fabrications, np.int64)
    peaks: dict[str, float] = {}
    raised = 1.0
    for number in range(fabrications):
        made = FabricatedLink(chip, link, (seed, number))
        rng, noise = np.random.default_rng((seed, number, 1)), np.random.default_rng((seed, number, 2))
        for start in range(0, words, _AT_ONCE):
            codes = draw_words(arguments.servers, arguments.bits, min(_AT_ONCE, words - start), rng)
            received = made.receive(codes, noise)
            wrong[number] += int((received != mean_of(codes)).any(axis=0).sum())
            split[number] += int((received != received[0]).any(axis=0).sum())
        for place, power in made.peaks.values.items():
            peaks[place] = max(peaks.get(place, 0.0), power)
        raised = max(raised, made.raised)
        if advance is not None:
            advance(1)
    return WordErrors(wrong=wrong, split=split, words=words, peaks=peaks, raised=raised)
