"""Compiled queues of placed steps: heaps in the rows of a state, the smallest key first, then the smallest item."""

from __future__ import annotations

import numpy as np

from lightloom.core.kernels import njit_without_arrays
from lightloom.simulation.placed_state import State


@njit_without_arrays
def push(state: State, queue: int, key: float, item: int) -> None:
    base, at = state.first_row[queue], state.size[queue]
    state.size[queue] += 1
    while at > 0:
        up = (at - 1) // 2
        above = state.key[base + up]
        if above < key or (above == key and state.item[base + up] < item):
            break
        state.key[base + at], state.item[base + at] = above, state.item[base + up]
        at = up
    state.key[base + at], state.item[base + at] = key, item


@njit_without_arrays
def pop(state: State, queue: int) -> int:
    base = state.first_row[queue]
    state.size[queue] -= 1
    size = state.size[queue]
    top = state.item[base]
    key, item = state.key[base + size], state.item[base + size]
    at = 0
    while 2 * at + 1 < size:
        down = 2 * at + 1
        other = down + 1
        if other < size:
            a, b = state.key[base + down], state.key[base + other]
            if b < a or (b == a and state.item[base + other] < state.item[base + down]):
                down = other
        if key < state.key[base + down] or (key == state.key[base + down] and item < state.item[base + down]):
            break
        state.key[base + at], state.item[base + at] = state.key[base + down], state.item[base + down]
        at = down
    state.key[base + at], state.item[base + at] = key, item
    return int(np.int64(top))
