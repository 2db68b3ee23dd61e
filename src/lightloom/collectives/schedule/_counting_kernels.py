"""The compiled loop of a counting sort: entries in the order of small whole keys, in linear time."""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.core.kernels import njit_cached


@njit_cached
def counted_order(keys: Ints, order: Ints, most: int) -> Ints:
    """The entries of ``order``, those with the least key first and equal ones as they come.

    Args:
        keys: from 0 to ``most`` − 1, by entry: [n].
        order: some of 0 to n − 1.
    """
    first = np.zeros(most + 1, np.int64)
    for entry in order:
        first[keys[entry] + 1] += 1
    for key in range(most):
        first[key + 1] += first[key]
    placed = np.empty(len(order), np.int64)
    for entry in order:
        placed[first[keys[entry]]] = entry
        first[keys[entry]] += 1
    return placed
