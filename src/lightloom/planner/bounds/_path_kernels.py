"""Compiled loop of the longest path through a placed graph, forward and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from lightloom.core.kernels import njit_cached


@njit_cached
def longest_paths(start: Any, parent: Any, delay: Any, forward: Any, backward: Any) -> tuple[Any, Any]:
    """Seconds until each sub-operator's forward and backward pass can have ended at the earliest.

    Parents of x are rows ``start[x]`` to ``start[x + 1]`` of ``parent`` and ``delay``; a gradient takes the same way
    back. Sub-operators are in a topological order.
    """
    size = len(forward)
    there, back = forward.copy(), np.zeros(size)
    for x in range(size):
        ready = 0.0
        for e in range(start[x], start[x + 1]):
            ready = max(ready, there[parent[e]] + delay[e])
        there[x] = ready + forward[x]
    for x in range(size - 1, -1, -1):
        back[x] = max(back[x], there[x]) + backward[x]
        for e in range(start[x], start[x + 1]):
            back[parent[e]] = max(back[parent[e]], back[x] + delay[e])
    return there, back
