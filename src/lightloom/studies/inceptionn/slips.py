"""Statements that do not hold as printed, each with a proof that is run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lightloom.compression import Inceptionn, InceptionnPrinted
from lightloom.core.claims import Claim
from lightloom.studies.inceptionn import PAPER

_STRIDE = 61
"""Stride of the bit patterns that are tried; ``make test-slow`` tries all of them."""


def claims() -> tuple[Claim, ...]:
    """Return the rows on Algorithms 1 to 3."""
    return (*_bounds(), *_algorithm_1(), *_hdc())


def largest_error(codec: Inceptionn | InceptionnPrinted) -> float:
    """Return the largest error as a multiple of the bound, over positive float32 below 1."""
    bits = np.arange(0, 127 << 23, _STRIDE, dtype=np.uint32)
    # The worst value of each binade is its last one.
    bits = np.concatenate([bits, (np.arange(1, 128, dtype=np.uint32) << 23) - 1])
    values = bits.view(np.float32)
    worst = 0.0
    for piece in np.array_split(values, 32):
        worst = max(worst, float(np.max(np.abs(codec.round_trip(piece).astype(np.float64) - piece))))
    return worst / codec.bound


def blocks_right(workers: int, *, corrected: bool) -> int:
    """Return how many of the N² blocks hold the full sum after Algorithm 1, as printed or with phase 2 corrected.

    Each block holds the set of workers in it. Receives come before sends in the printed loop body, which would
    deadlock; sends go first here, which changes no block's content within a step.
    """
    n = workers
    holds = [[frozenset({i}) for _ in range(n)] for i in range(n)]
    for s in range(1, n):
        sent = [holds[i][(i - s + 1) % n] for i in range(n)]
        for i in range(n):
            holds[i][(i - s) % n] |= sent[i - 1]
    for s in range(n, 2 * n - 1):
        shift = 0 if corrected else 1
        sent = [holds[i][(i - s + 1 + shift) % n] for i in range(n)]
        for i in range(n):
            holds[i][(i - s + shift) % n] = sent[i - 1]
    everyone = frozenset(range(n))
    return sum(block == everyone for row in holds for block in row)


def _bounds() -> Iterator[Claim]:
    for k in (6, 8, 10):
        for name, codec in (("printed", InceptionnPrinted(2.0**-k)), ("windowed", Inceptionn(2.0**-k))):
            worst = largest_error(codec)
            ours = "within the bound" if worst < 1 else f"{worst:.3g} times the bound"
            yield PAPER.claim(f"example.{name}_error_bound{{k}}", ours, k=k)


def _algorithm_1() -> Iterator[Claim]:
    for n in (2, 4, 8):
        for name in ("printed", "corrected"):
            ours = blocks_right(n, corrected=name == "corrected")
            yield PAPER.claim(f"example.algorithm1_blocks_{name}_n{{n}}", ours, paper=n * n, n=n)


def _hdc() -> Iterator[Claim]:
    three_layers = 784 * 500 + 500 * 500 + 500 * 10 + 2 * 500 + 10
    yield PAPER.claim("example.hdc_three_layers", round(4 * three_layers / 2**20, 2))
