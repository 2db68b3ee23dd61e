"""The word error rate of a link: shares of wrong mean codes, over fabrications and words."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from lightloom.core.arrays import Effort, Floats, Ints
from lightloom.core.results import Advance, Document, ignore
from lightloom.photonics.averaging.averagers import IdealAverager
from lightloom.photonics.link.settings import LARGEST_SWING, PARTS, RANGES, Link, erring, only, without
from lightloom.photonics.link.simulate import Chip, FabricatedLink, draw_words

# Intervals of word error rates: Clopper-Pearson over words, bootstrap over fabrications.

RESAMPLES = 2000


def clopper_pearson(wrong: int, words: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the lower and upper end of the exact two-sided confidence interval of a share (Clopper and Pearson), for a
    probability of ``confidence`` that it covers the share.

    ``wrong`` of ``words`` independent words were wrong. The lower end is 0 if none is, the upper end 1 if all are.
    """
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = float(betaincinv(wrong, words - wrong + 1, tail)) if wrong else 0.0
    high = float(betaincinv(wrong + 1, words - wrong, 1 - tail)) if wrong < words else 1.0
    return low, high


def bootstrap(rates: Floats, confidence: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Return the lower and upper end of the bootstrap percentile interval of the mean of ``rates`` [fabrications].

    The interval holds the share ``confidence`` of the means of 2,000 samples, which are drawn from ``rates`` with
    replacement; ``seed`` is that of the draws.
    """
    rng = np.random.default_rng((seed, rates.size))
    means = rates[rng.integers(0, rates.size, (RESAMPLES, rates.size))].mean(axis=1)
    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return float(low), float(high)


def interval(wrong: Ints, words: int) -> tuple[float, float]:
    """Return the lower and upper end of the 95 % interval of the word error rate over several fabrications.

    It reaches from the lower of the lower ends to the higher of the upper ends of two intervals, that of Clopper and
    Pearson over all words and the bootstrap over fabrications: words of one fabrication err together, and a few
    fabrications without a wrong word bound nothing by themselves. For one fabrication it is the first of them.

    Args:
        wrong: number of wrong words of each fabrication, [fabrications].
        words: words tried on each fabrication.
    """
    over_words = clopper_pearson(int(wrong.sum()), words * wrong.size)
    if wrong.size == 1:
        return over_words
    over_chips = bootstrap(wrong / words)
    return min(over_words[0], over_chips[0]), max(over_words[1], over_chips[1])


_AT_ONCE: Effort = 1 << 13
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
        """Share of wrong words, from 0 to 1, over all fabrications."""
        return float(self.wrong.sum() / (self.words * self.wrong.size))

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end of the 95 % interval of the rate of wrong words, over words and fabrications."""
        return interval(self.wrong, self.words)

    @property
    def counts(self) -> Document:
        """Fields of JSON documents: ``word_error_rate`` and ``interval_95`` (shares from 0 to 1), ``wrong_words``,
        ``words`` (tried in all) and ``fabrications``."""
        wrong, count = int(self.wrong.sum()), int(self.wrong.size)
        errors = {"word_error_rate": self.rate, "interval_95": list(self.interval), "wrong_words": wrong}
        return {**errors, "words": self.words * count, "fabrications": count}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WordErrors(WrongWords):
    """Wrong words of several fabrications of a link, and its powers."""

    split: Ints
    """Words that not all servers receive equal, [fabrications]."""
    peaks: dict[str, float]
    """Largest power by place, relative to full scale."""
    raised: float = 1.0
    """Largest factor by which calibration raised the power of a lane or of a unit's output."""

    def to_json(self) -> Document:
        """Return rate, interval and counts as a JSON object: the fields of ``counts`` and three more.

        ``worst_fabrication`` is the largest rate of one fabrication, ``fabrications_all_right`` the number of those
        without a wrong word, and ``words_received_differently`` the number of words that not all servers received
        equal.
        """
        return {
            **self.counts,
            "worst_fabrication": float(self.wrong.max() / self.words),
            "fabrications_all_right": int((self.wrong == 0).sum()),
            "words_received_differently": int(self.split.sum()),
        }


def word_errors(
    chip: Chip, link: Link, *, words: int = 20_000, fabrications: int = 20, seed: int = 0, advance: Advance = ignore
) -> WordErrors:
    """Send words through several fabrications of a link, and return the wrong ones of each.

    A word, one code of each server, is wrong if any server receives another code than the exact rounded mean. Equal
    seeds draw equal words and fabrications, whatever the link: links can be compared in pairs. Beside the number of
    wrong words of each fabrication, ``wrong``, the result has that of words which servers receive differently,
    ``split``, the largest power by place, relative to full scale, ``peaks``, and the largest factor by which
    calibration raised the power of a lane or of a unit's output, ``raised``, at least 1.

    Args:
        chip: the averager's chip as designed.
        link: everything that errs.
        words: number of words for each fabrication; half of them are near-equal (`draw_words`).
        fabrications: number of fabrications.
        seed: seed of fabrications, words and noise.
        advance: called with 1 after every fabrication.
    """
    arguments = chip.mapped.arguments
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
        for place, power in made.peaks.items():
            peaks[place] = max(peaks.get(place, 0.0), power)
        raised = max(raised, made.raised)
        advance(1)
    return WordErrors(wrong=wrong, split=split, words=words, peaks=peaks, raised=raised)


# Which part of a link causes its wrong words: each part made ideal in turn, and each part alone.
#
# Where hardly a word is wrong, all errors are enlarged together until enough are, since a table of zeros names
# nothing.

ENOUGH = 50
"""Wrong words from which parts can be compared."""
FACTORS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)
"""Factors by which errors are enlarged, in turn."""
_SPREADS = {name for settings in PARTS.values() for name, least in settings.items() if isinstance(least, float)} - {
    "noise_density"
}
"""Fields of a link that are spreads or losses, which grow in proportion; noise grows as full scale falls."""


def enlarged(link: Link, factor: float) -> Link:
    """Return the link with every error and all noise larger by ``factor``.

    Spreads, losses and the swing of modulators are multiplied. Full scale falls by the square of the factor, noise of
    lasers rises by 20 log10(factor) dB, and phase settings lose the bits that this takes, to one at least. What would
    be out of its range stops at the range's end.
    """
    changed: dict[str, Any] = {name: min(getattr(link, name) * factor, RANGES[name][1]) for name in _SPREADS}
    changed["full_scale"] = max(link.full_scale / factor**2, RANGES["full_scale"][0])
    changed["dac_bits"] = max(link.dac_bits - round(math.log2(factor)), 1) if link.dac_bits else 0
    changed["swing"] = min(link.swing * factor, LARGEST_SWING)
    if link.rin_db is not None:
        changed["rin_db"] = min(link.rin_db + 20 * math.log10(factor), -80.0)
    return replace(link, **changed)


def contributions(chip: Chip, link: Link, together: WordErrors, *, advance: Advance = ignore, **tried: Any) -> Document:
    """Return, as a JSON object, the word errors without each part of a link and with each part alone.

    Parts are those of `PARTS` that err in the link. Rows in ``parts``, each with ``part``, and word errors ``without``
    it and of it ``alone``, begin with the part without which fewest words are wrong, which is also ``weakest_part``.
    Errors are enlarged by the first of `FACTORS` (1 to 10) at which 50 words are wrong, else by the last
    (``errors_enlarged_by``); ``together``, the word errors of all parts, is at that factor, and ``weakest_part`` is
    None if fewer words are wrong even so. All word errors are documents of `WordErrors.to_json`.

    Args:
        chip: the averager's chip as designed.
        link: everything that errs.
        together: word errors of the link, not enlarged.
        advance: called with 1 after every fabrication.
        tried: ``words`` (for each fabrication), ``fabrications`` and ``seed`` of every comparison.
    """
    judge: Callable[[Link], WordErrors] = partial(word_errors, chip, advance=advance, **tried)
    factor, errors = FACTORS[0], together
    for factor in FACTORS:
        errors = together if factor == 1 else judge(enlarged(link, factor))
        if errors.wrong.sum() >= ENOUGH:
            break
    larger = enlarged(link, factor)
    rows = [(part, judge(without(larger, part)), judge(only(larger, part))) for part in erring(larger)]
    rows.sort(key=lambda row: (int(row[1].wrong.sum()), -int(row[2].wrong.sum())))
    return {
        "errors_enlarged_by": factor,
        "together": errors.to_json(),
        # None if too few words are wrong to tell.
        "weakest_part": rows[0][0] if rows and errors.wrong.sum() >= ENOUGH else None,
        "parts": [{"part": part, "without": ideal.to_json(), "alone": alone.to_json()} for part, ideal, alone in rows],
    }
