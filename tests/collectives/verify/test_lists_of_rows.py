"""Rows by the chunks that they carry, and the first one over a channel that must stay dark: as plain loops say."""

from __future__ import annotations

from itertools import chain, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.verify.kernels import (
    Lists,
    by_chunk,
    by_listed_chunk,
    count_listed,
    first_blocked,
)
from lightloom.machines.fabrics.derived import Footprint, links_of

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS)
@settings(deadline=None, max_examples=25)
def test_rows_of_a_chunk_follow_each_other_as_they_did(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chunks, rows = int(rng.integers(1, 6)), rng.permutation(12)[: rng.integers(0, 13)]
    chunk = rng.integers(0, chunks, 12).astype(np.int32)
    chunk.flags.writeable = False  # as in schedules, for which the kernel is compiled already
    found, first = by_chunk(chunk, rows, chunks)
    expected = [[row for row in rows.tolist() if chunk[row] == of] for of in range(chunks)]
    assert found.tolist() == list(chain.from_iterable(expected))
    assert np.diff(first).tolist() == [len(own) for own in expected] and first[0] == 0


@given(SEEDS)
@settings(deadline=None, max_examples=25)
def test_rows_of_lists_are_rows_of_each_chunk_in_them(seed: int) -> None:
    """Of all chunks, and of some of them from any one on; lists may lie anywhere and overlap."""
    rng = np.random.default_rng(seed)
    chunks, size = int(rng.integers(2, 7)), rng.integers(0, 4, 5).astype(np.int32)
    lists = Lists(rng.integers(0, chunks, 12).astype(np.int32), rng.integers(0, 13 - size).astype(np.int32), size)
    number, rows = rng.integers(0, 5, 12).astype(np.int32), rng.permutation(12)
    carried = [lists.chunks[first : first + own].tolist() for first, own in zip(lists.first, lists.size, strict=True)]
    times = count_listed(number, lists, chunks)
    assert times.tolist() == [sum(carried[i].count(chunk) for i in number) for chunk in range(chunks)]
    from_chunk = int(rng.integers(0, chunks))
    some = range(from_chunk, int(rng.integers(from_chunk, chunks)) + 1)
    begins = np.append(0, np.cumsum(times[some]))
    found = by_listed_chunk(number, rows, lists, from_chunk, begins)
    expected = [[row] * carried[number[row]].count(chunk) for chunk, row in product(some, rows.tolist())]
    assert found.tolist() == list(chain.from_iterable(expected))


@given(SEEDS)
@settings(deadline=None, max_examples=25)
def test_the_first_transfer_over_a_dark_channel_is_named(seed: int) -> None:
    rng = np.random.default_rng(seed)
    base, period = rng.choice([0, 4], (4, 2)), np.full((4, 2), 4)
    runs = Footprint(base, rng.integers(0, 9, (4, 2)), rng.integers(0, 4, (4, 2)), period)
    channel, count = rng.integers(0, 4, 4), rng.integers(0, 3, 4)
    blocked = rng.random((8, 6)) < 0.1
    crossed = [
        (transfer, link, c)
        for transfer, link in zip(*(part.tolist() for part in links_of(runs)), strict=True)
        for c in range(channel[transfer], channel[transfer] + count[transfer])
        if blocked[link, c]
    ]
    assert first_blocked(runs, channel, count, blocked) == (crossed[0] if crossed else (-1, -1, -1))
