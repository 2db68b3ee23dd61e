"""Intervals of word error rates: Clopper-Pearson over words, bootstrap over fabrications."""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Floats, Ints

RESAMPLES = 2000


def clopper_pearson(wrong: int, words: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact two-sided interval of a share, for ``wrong`` of ``words`` independent words."""
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = float(betaincinv(wrong, words - wrong + 1, tail)) if wrong else 0.0
    high = float(betaincinv(wrong + 1, words - wrong, 1 - tail)) if wrong < words else 1.0
    return low, high


def bootstrap(rates: Floats, confidence: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Return the percentile interval of the mean of ``rates`` [fabrications], which are drawn anew with replacement."""
    rng = np.random.default_rng((seed, rates.size))
    means = rates[rng.integers(0, rates.size, (RESAMPLES, rates.size))].mean(axis=1)
    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return float(low), float(high)


def interval(wrong: Ints, words: int) -> tuple[float, float]:
    """Return the 95 % interval of the word error rate for wrong words [fabrications] of ``words`` each.

    It reaches from the lower of the lower ends to the higher of the upper ends of both intervals: words of one
    fabrication err together, and a few fabrications without a wrong word bound nothing by themselves.
    """
    over_words = clopper_pearson(int(wrong.sum()), words * wrong.size)
    if wrong.size == 1:
        return over_words
    over_chips = bootstrap(wrong / words)
    return min(over_words[0], over_chips[0]), max(over_words[1], over_chips[1])
