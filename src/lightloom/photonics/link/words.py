"""Words that are tried: half of them uniform, half near-equal, as the gradients of similar batches are."""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Ints

NEAR = 2
"""Largest difference of a server's code from the common one in near-equal words."""


def draw_words(servers: int, bits: int, count: int, rng: np.random.Generator) -> Ints:
    """Return codes [servers, count]; near-equal and uniform words alternate at random."""
    largest = (1 << bits) - 1
    codes = rng.integers(0, largest + 1, (servers, count))
    near = rng.random(count) < 0.5
    common = codes[0, near]
    codes[:, near] = np.clip(common + rng.integers(-NEAR, NEAR + 1, (servers, common.size)), 0, largest)
    return codes
