"""Chunks whose sends lead up a tree: what is seen without a replay is what a replay finds."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from lightloom.collectives.verify import kernels

Row = tuple[int, int, int, bool]
"""Step, source, destination, and whether the row adds."""


def climbs(ranks: int, rows: list[Row], reader: int) -> bool:
    sends = sends_of(rows)
    return bool(
        kernels._climb.py_func(sends, 0, len(rows), reader, np.empty(ranks, np.bool_), np.empty(ranks, np.int64))
    )


def replayed(ranks: int, rows: list[Row], reader: int, *, at_once: bool) -> tuple[int, int, int]:
    """What the replay finds, with steps that follow each other, or with the same order as dependencies, where nothing
    is seen without a replay."""
    steps = 1 + max((row[0] for row in rows), default=0)
    reach = np.zeros((0, 0), np.uint8) if at_once else np.triu(np.ones((steps, steps), np.uint8), 1)
    found: tuple[int, int, int] = kernels.replay_reduce(sends_of(rows), np.array([reader]), ranks, reach, -1)
    return found


def sends_of(rows: list[Row]) -> Any:
    step, source, destination = (np.array([row[at] for row in rows], np.int32) for at in range(3))
    reduces = np.array([row[3] for row in rows], np.bool_)
    numbers, first = np.arange(len(rows), dtype=np.int32), np.array([0, len(rows)])
    return kernels.Sends(numbers, first, step, source, destination, reduces)


@st.composite
def trees(draw: st.DrawFn) -> tuple[int, list[Row], int]:
    """Ranks, the rows of a tree up to a reader, each after all that come to its source, and the reader."""
    order = draw(st.permutations(range(draw(st.integers(2, 7)))))
    step = dict.fromkeys(order, 0)
    rows = []
    for place, rank in enumerate(order[:-1]):
        to = draw(st.sampled_from(order[place + 1 :]))
        now = step[rank] + draw(st.integers(0, 2))
        rows.append((now, rank, to, True))
        step[to] = max(step[to], now + 1)
    return len(order), sorted(rows), order[-1]


@given(trees())
def test_sends_up_a_tree_need_no_replay(tree: tuple[int, list[Row], int]) -> None:
    ranks, rows, reader = tree
    assert climbs(ranks, rows, reader)
    assert replayed(ranks, rows, reader, at_once=False) == (kernels.OK, 0, 0)
    # Every rank is to end with all: it does not.
    assert not climbs(ranks, rows, -1)


@given(trees(), st.data())
def test_what_needs_no_replay_is_what_a_replay_finds(tree: tuple[int, list[Row], int], data: st.DataObject) -> None:
    """Rows are changed, left out and doubled, and the reader is any rank, or all."""
    ranks, rows, reader = tree
    one = st.tuples(st.integers(0, 8), st.integers(0, ranks - 1), st.integers(0, ranks - 1), st.booleans())
    changed = [*rows]
    for at in data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=2)):
        keep = data.draw(st.sampled_from([[], [rows[at]] * 2, [data.draw(one)]]))
        changed[min(at, len(changed)) : at + 1] = keep
    changed = sorted(row for row in changed if row[1] != row[2])
    reader = data.draw(st.sampled_from([reader, -1, *range(ranks)]))
    found = replayed(ranks, changed, reader, at_once=False) if changed else None
    event("a tree" if climbs(ranks, changed, reader) else "none")
    if found is None:
        assert not climbs(ranks, changed, reader)
        return
    assert not climbs(ranks, changed, reader) or found == (kernels.OK, 0, 0)
    assert replayed(ranks, changed, reader, at_once=True) == found
