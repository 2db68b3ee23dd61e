"""A compiled stable sort: NumPy's takes numba seconds to compile, wherever it is used."""

from __future__ import annotations

from lightloom.core.arrays import Floats, Ints
from lightloom.core.kernels import njit_without_arrays


@njit_without_arrays
def sort_stably(keys: Floats, order: Ints, scratch: Ints) -> None:
    """The places of keys, the least first and equal ones in their order: merges of ever longer runs, O(n log n).

    Args:
        keys: [n] or longer.
        order: out: [n].
        scratch: [n] or longer.
    """
    count = len(order)
    for place in range(count):
        order[place] = place
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            left, right = low, middle
            for place in range(low, high):
                if left < middle and (right >= high or keys[order[left]] <= keys[order[right]]):
                    scratch[place] = order[left]
                    left += 1
                else:
                    scratch[place] = order[right]
                    right += 1
        for place in range(count):
            order[place] = scratch[place]
        width *= 2
