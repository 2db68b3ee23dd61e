"""Sorting and numbering of small integers in linear time: schedules have millions of rows, but few ranks and links."""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Ints

_SPARSE = 8
"""Possible values for each given one, above which a table of all of them costs more than sorting."""
_SMALL = 1 << 16
"""Possible values up to which a table is cheap in any case."""


def sorted_by(*keys: Ints) -> Ints:
    """As ``np.lexsort``: the order by the last key, then the one before it; keys of 0 and more, [n] each.

    Time: linear in n and the largest key; as ``np.lexsort`` where keys are much larger than n.
    """
    from lightloom.collectives.schedule import _counting_kernels as kernels

    order = np.arange(len(keys[0]))
    most = [int(key.max(initial=0)) + 1 for key in keys]
    if max(most) > max(_SMALL, _SPARSE * len(order)):
        return np.lexsort(keys)
    for key, number in zip(keys, most, strict=True):
        order = kernels.counted_order(np.ascontiguousarray(key, np.int64), order, number)
    return order


def distinct(values: Ints, most: int) -> tuple[Ints, Ints]:
    """As ``np.unique`` with ``return_inverse``, of values from 0 to ``most`` − 1: [distinct] and [n].

    Time: linear in n and ``most``; as ``np.unique`` where ``most`` is much larger than n.
    """
    if most > max(_SMALL, _SPARSE * len(values)):
        numbers, inverse = np.unique(values, return_inverse=True)
        return numbers, inverse
    given = np.zeros(most, np.bool_)
    given[values] = True
    numbers = np.flatnonzero(given)
    place = np.empty(most, np.int64)
    place[numbers] = np.arange(len(numbers))
    return numbers, place[values]
