"""Compiled interval programme of :mod:`lightloom.collectives.schedule.link_use`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lightloom.core.kernels import njit_cached

_NEVER = 1 << 50


@njit_cached
def least_uses(ranks: int, most_hops: int) -> Any:
    """Least link uses within 1, 2, ..., ``most_hops`` hops: [hops]; O(ranks² · hops).

    ``between[m]``: m ranks between two that already have the data, ``beyond[m]``: m ranks on one side of the last.
    ``reached[p]``: everything up to rank p, p served from where the line begins.
    """
    between = np.full(ranks, _NEVER, np.int64)
    between[0] = 0
    beyond = between.copy()
    uses = np.empty(most_hops, np.int64)
    for hops in range(most_hops):
        reached = np.full(ranks, _NEVER, np.int64)
        reached[0] = 0
        for place in range(1, ranks):
            least = _NEVER
            for gap in range(place):
                if between[gap] >= _NEVER:
                    break
                least = min(least, reached[place - 1 - gap] + between[gap])
            if least < _NEVER:
                reached[place] = least + place
        right = np.full(ranks, _NEVER, np.int64)
        further = np.full(ranks, _NEVER, np.int64)
        for length in range(ranks):
            for rest in range(length + 1):
                if between[rest] >= _NEVER and beyond[rest] >= _NEVER:
                    break
                right[length] = min(right[length], reached[length - rest] + between[rest])
                further[length] = min(further[length], reached[length - rest] + beyond[rest])
        either_side = np.full(ranks, _NEVER, np.int64)
        for length in range(ranks):
            for rest in range(length + 1):
                either_side[length] = min(either_side[length], reached[length - rest] + right[rest])
        between, beyond = either_side, further
        least = _NEVER
        for left in range(ranks):
            least = min(least, beyond[left] + beyond[ranks - 1 - left])
        uses[hops] = least
    return uses
