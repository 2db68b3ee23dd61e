"""Chunks on lightpaths and the distinct sends of each step: as plain loops over the rows say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.cost.kernels import SentRows, distinct_sends, lightpath_chunks
from lightloom.collectives.cost.loads import uneven_sends
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


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_a_lightpath_sends_the_sizes_for_its_first_destination_and_takes_its_longest_way(seed: int) -> None:
    """Step and width are those of its first row; lightpaths that no row names are left out."""
    rng = np.random.default_rng(seed)
    rows, numbers = int(rng.integers(1, 30)), 2 * rng.permutation(6)[: rng.integers(1, 7)]
    schedule: Any = SimpleNamespace(
        lightpath=rng.choice(numbers, rows),
        destination=rng.integers(0, 3, rows),
        step=rng.integers(0, 5, rows),
        wavelength_count=rng.integers(1, 4, rows).astype(np.int16),
    )
    weights, latency = rng.random(rows), rng.random(rows)
    sends = []
    for path in sorted(set(schedule.lightpath.tolist())):
        own = [row for row in range(rows) if schedule.lightpath[row] == path]
        sent = sum(weights[row] for row in own if schedule.destination[row] == schedule.destination[own[0]])
        width = schedule.wavelength_count[own[0]]
        sends.append((schedule.step[own[0]], sent, width, max(latency[row] for row in own)))
    columns = uneven_sends(schedule, weights, latency)
    assert [column.tolist() for column in columns] == [
        pytest.approx(list(column)) for column in zip(*sends, strict=True)
    ]
