"""Averaging in plain integers, slow and obvious: what everything else is checked against (OptINC, eq. 2, 3, 8 to 10).

Python integers, no arrays, no shortcuts, and nothing shared with the rest of the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def average(gradients: Sequence[int], half_up: bool = False) -> int:
    """Q(mean) of the servers' codes (eq. 3): floor, or nearest with ties upwards."""
    mean = Fraction(sum(gradients), len(gradients))
    return (mean + Fraction(1, 2)).__floor__() if half_up else mean.__floor__()


def symbols(gradient: int, bits: int) -> list[int]:
    """PAM4 levels, most significant first (eq. 2)."""
    count = (bits + 1) // 2
    return [gradient // 4 ** (count - i) % 4 for i in range(1, count + 1)]


def preprocessed(gradients: Sequence[int], bits: int, inputs: int) -> list[Fraction]:
    """A_k: groups of ceil(M/K) signals, read as base-4 numbers, averaged over the servers; most significant first.

    Where K does not divide M, the most significant group is the shorter one, and ceil(M / ceil(M/K)) inputs remain.
    """
    count = (bits + 1) // 2
    group = -(-count // inputs)
    kept = -(-count // group)
    result = []
    for k in range(kept):
        low = 4 ** (group * (kept - 1 - k))
        high = 4 ** min(group * (kept - k), count)
        result.append(Fraction(sum(g % high // low for g in gradients), len(gradients)))
    return result


def cascade_basic(groups: Sequence[Sequence[int]]) -> int:
    """Eq. 9: both levels drop their decimals."""
    return average([average(group) for group in groups])


def cascade_carried(groups: Sequence[Sequence[int]]) -> int:
    """Eq. 10: level 1 keeps its decimals d, so that level 2 floors the true mean; groups of equal size."""
    means = []
    for group in groups:
        quantised = average(group)
        decimals = Fraction(sum(group), len(group)) - quantised
        means.append(quantised + decimals)
    return (sum(means, Fraction(0)) / len(means)).__floor__()
