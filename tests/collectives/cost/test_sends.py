"""Chunks on lightpaths and the distinct sends of each step: as plain loops over the rows say."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.cost._cost_kernels import SentRows, distinct_sends, lightpath_chunks
from lightloom.core.arrays import Column, Ints


def column_of(values: Ints, dtype: type) -> Column:
    """As schedules have it, for which the kernels are compiled already."""
    column: Column = values.astype(dtype)
    column.flags.writeable = False
    return column


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_sends_of_a_step_are_its_chunks_and_widths_with_the_longest_latency_of_each(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, steps, paths = int(rng.integers(1, 30)), int(rng.integers(1, 5)), int(rng.integers(1, 9))
    step, lightpath = (column_of(rng.integers(0, most, rows), np.int32) for most in (steps, paths))
    width = column_of(rng.integers(0, 3, rows), np.int16)
    latency, chunks = rng.integers(0, 5, rows).astype(np.float64), rng.integers(1, 4, paths)
    longest: dict[tuple[int, int, int], float] = {}
    for row in range(rows):
        send = int(step[row]), int(chunks[lightpath[row]]), int(width[row])
        longest[send] = max(longest.get(send, 0.0), latency[row])
    columns = distinct_sends(SentRows(step, lightpath, width, latency), chunks, steps)
    *sends, seconds = (column.tolist() for column in columns)
    assert list(zip(*sends, strict=True)) == list(longest) and seconds == list(longest.values())


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_a_chunk_that_many_ranks_tap_counts_once_on_its_lightpath(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, paths = int(rng.integers(0, 30)), int(rng.integers(1, 6))
    lightpath, destination = (column_of(rng.integers(0, most, rows), np.int32) for most in (paths, 3))
    carried = rng.integers(1, 4, rows).astype(np.int32)
    chunks, first_row = np.zeros(paths, np.int64), np.full(paths, -1, np.int64)
    lightpath_chunks(lightpath, destination, carried, chunks, first_row)
    for path in range(paths):
        own = np.flatnonzero(lightpath == path)
        to_first = own[destination[own] == destination[own[:1]]]
        assert first_row[path] == (own[0] if len(own) else -1) and chunks[path] == carried[to_first].sum()
