"""Sorting and numbering in linear time say what NumPy's comparisons say."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lightloom.collectives.schedule.columns import distinct, sorted_by

_VALUES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 200_000)), max_size=60)


@given(_VALUES)
def test_orders_are_those_of_lexsort(values: list[tuple[int, int]]) -> None:
    small, large = np.array(values, np.int64).reshape(-1, 2).T
    for keys in ((small,), (small, large), (large, small)):
        assert sorted_by(*keys).tolist() == np.lexsort(keys).tolist()


@given(_VALUES)
def test_numbers_are_those_of_unique(values: list[tuple[int, int]]) -> None:
    for column in np.array(values, np.int64).reshape(-1, 2).T:
        for most in (200_001, 50_000):
            numbers, inverse = distinct(column % most, most)
            expected = np.unique(column % most, return_inverse=True)
            assert numbers.tolist() == expected[0].tolist()
            assert inverse.tolist() == expected[1].tolist()
