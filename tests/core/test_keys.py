"""Keys of rows with several columns."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.arrays import packed


@settings(max_examples=50)
@given(
    rows=st.lists(st.tuples(*[st.integers(0, 3) | st.sampled_from([2**31, 2**40])] * 4), min_size=1, max_size=8),
    columns=st.integers(1, 4),
)
def test_keys_compare_as_rows_do(rows: list[tuple[int, ...]], columns: int) -> None:
    key = packed([np.array([row[column] for row in rows]) for column in range(columns)]).tolist()
    cut = [row[:columns] for row in rows]
    for first, its_key in zip(cut, key, strict=True):
        assert [first < other for other in cut] == [its_key < other for other in key]
        assert [first == other for other in cut] == [its_key == other for other in key]


def test_no_rows_have_no_keys() -> None:
    assert len(packed([np.array([], np.int64)] * 2)) == 0
