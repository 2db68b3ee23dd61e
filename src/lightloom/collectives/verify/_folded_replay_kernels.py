"""Compiled loops of the verifier of folded schedules of steps: the ranks of one period stand for all.

A set of contributions is held as bits, bit r for rank r. What a rank of the first period sends to a rank ``shift``
further on reaches, in the copy that the first period stands for, a rank of the first period; in that copy every
contribution comes from a rank ``shift`` earlier, so the set is rotated down by ``shift``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lightloom.core.arrays import Column, Ints, Mask
from lightloom.core.kernels import njit_cached, njit_without_arrays

OK, NOT_HELD, TWICE, RACE, LOST, WRONG_END, EMPTY, INCOMPLETE = range(8)


class FoldedRows(NamedTuple):
    """Rows in the order of their steps: arrays [row]."""

    step: Column
    origin: Ints
    """Cell that a row reads; a cell is a rank of the first period and a chunk."""
    target: Ints
    """Cell that a row writes."""
    shift: Ints
    """Ranks from the copy that sends to the copy that receives."""
    reduces: Mask


@njit_cached
def replay_copies(rows: FoldedRows, held: Mask, ends: Ints) -> tuple[int, int]:
    """Replay what only stores; (code, row or place in ``ends``).

    Args:
        held: whether a cell holds its chunk at the start: [cell].
        ends: cells that must hold their chunk in the end.
    """
    since = np.full(len(held), -2, np.int64)
    for cell in range(len(held)):
        if held[cell]:
            since[cell] = -1
    for row in range(len(rows.step)):
        now = rows.step[row]
        if since[rows.origin[row]] == -2 or since[rows.origin[row]] >= now:
            return NOT_HELD, row
        if since[rows.target[row]] != -2:
            return TWICE, row
        since[rows.target[row]] = now
    for i in range(len(ends)):
        if since[ends[i]] == -2:
            return WRONG_END, i
    return OK, -1


@njit_cached
def replay_sums(rows: FoldedRows, state: Column, complete: Column, ranks: int, ends: Ints) -> tuple[int, int]:
    """Replay any kind with sets of contributions; (code, row or place in ``ends``).

    Args:
        state: in and out, contributions that each cell holds: [cell, word].
        complete: contributions of all ranks: [word].
        ranks: ranks of the whole collective.
        ends: cells that must hold all contributions in the end.
    """
    cells, words = state.shape
    last_write, last_copy = np.full(cells, -1, np.int64), np.full(cells, -1, np.int64)
    carried = np.empty((_most_of_a_step(rows.step), words), np.uint64)
    begin = 0
    while begin < len(rows.step):
        end, now = begin, rows.step[begin]
        while end < len(rows.step) and rows.step[end] == now:
            if not _rotate(state[rows.origin[end]], rows.shift[end], ranks, carried[end - begin]):
                return EMPTY, end
            end += 1
        for row in range(begin, end):
            code = _write(state[rows.target[row]], carried[row - begin], rows.reduces[row], complete)
            cell = rows.target[row]
            if last_write[cell] == now and (last_copy[cell] == now or not rows.reduces[row]):
                return RACE, row
            if code != OK:
                return code, row
            last_write[cell] = now
            if not rows.reduces[row]:
                last_copy[cell] = now
        begin = end
    for i in range(len(ends)):
        for word in range(words):
            if state[ends[i], word] != complete[word]:
                return WRONG_END, i
    return OK, -1


@njit_without_arrays
def _most_of_a_step(step: Column) -> int:
    most = run = 0
    for row in range(len(step)):
        run = run + 1 if row > 0 and step[row] == step[row - 1] else 1
        most = max(most, run)
    return most


@njit_without_arrays
def _write(held: Column, come: Column, adds: bool, complete: Column) -> int:
    same, overwritten, whole, empty = True, False, True, True
    for word in range(len(held)):
        have, new = held[word], come[word]
        same = same and have == new
        overwritten = overwritten or (have & ~new) != 0
        whole = whole and new == complete[word]
        empty = empty and have == 0
        if adds and have & new:
            return TWICE
        held[word] = have | new if adds else new
    if adds:
        return OK
    if same:
        return TWICE
    if overwritten:
        return LOST
    return OK if whole or empty else INCOMPLETE


@njit_without_arrays
def _rotate(members: Column, shift: int, ranks: int, rotated: Column) -> bool:
    """Write the set whose ranks lie ``shift`` before those of ``members``, around the ring; whether it has any."""
    some = False
    for word in range(len(rotated)):
        count = min(64, ranks - 64 * word)
        begin = (64 * word + shift) % ranks
        first = min(count, ranks - begin)
        bits = _bits(members, begin, first)
        if first < count:
            bits |= _bits(members, 0, count - first) << np.uint64(first)
        rotated[word] = bits
        some = some or bits != 0
    return some


@njit_without_arrays
def _bits(members: Column, begin: int, count: int) -> Any:
    """So many bits of a set, from rank ``begin`` on, the first one lowest."""
    word, place = begin // 64, begin % 64
    bits = members[word] >> np.uint64(place)
    if place + count > 64:
        bits |= members[word + 1] << np.uint64(64 - place)
    if count < 64:
        bits &= (np.uint64(1) << np.uint64(count)) - np.uint64(1)
    return bits
