"""Rows of strategies that are told apart, or brought together, by some of their columns."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing.step import combinations, unique_groups
from lightloom.planning.search.bounds import _by_stages
from lightloom.planning.search.rows import with_largest_batch

FEW = st.sampled_from([1, 2])
ROWS = st.lists(
    st.builds(
        Strategy,
        FEW,
        FEW,
        FEW,
        FEW,
        st.sampled_from([8, 16, 32]),
        st.sampled_from(["none", "zero-3"]),
        st.sampled_from(["none", "full"]),
        st.sampled_from(["ring", "auto"]),
        st.sampled_from([0, 1]),
        st.booleans(),
        FEW,
        FEW,
        micro_batch=st.just(0),
        cp=FEW,
    ),
    min_size=1,
    max_size=6,
)


@given(ROWS, st.data())
def test_the_largest_batch_that_fits_is_kept_of_rows_that_differ_in_nothing_else(
    rows: list[Strategy], data: st.DataObject
) -> None:
    fits = np.array([data.draw(st.booleans()) for _ in rows])
    kept = fits & with_largest_batch(Strategies.of(*rows), fits)
    for row, stays, fit in zip(rows, kept, fits, strict=True):
        alike = zip(rows, fits, strict=True)
        batches = [
            other.global_batch
            for other, fit in alike
            if fit and other._replace(global_batch=0) == row._replace(global_batch=0)
        ]
        assert stays == (fit and row.global_batch == max(batches))


@given(ROWS)
def test_micro_batches_are_priced_once_for_each_combination_that_matters(rows: list[Strategy]) -> None:
    every = Strategies.of(*rows)
    once, place = combinations(every)

    def matters(row: Strategy) -> tuple[object, ...]:
        return row.samples, row.tp, row.ep, row.cp, row.recomputation, row.sequence_parallel, row.algorithm

    keys = [matters(once[number]) for number in range(len(once))]
    assert len(set(keys)) == len(keys)
    assert [keys[number] for number in place] == [matters(row) for row in rows]


@given(ROWS)
def test_blocks_of_rows_have_the_same_stages_and_hold_every_row_once(rows: list[Strategy]) -> None:
    blocks = _by_stages(Strategies.of(*rows))
    kinds = [{(rows[row].pp, rows[row].virtual_stages) for row in block} for block in blocks]
    assert all(len(kind) == 1 for kind in kinds)
    assert len({kind.pop() for kind in kinds}) == len(blocks)
    assert sorted(int(row) for block in blocks for row in block) == list(range(len(rows)))


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 4), min_size=1, max_size=8))
def test_groups_of_ranks_are_found_by_all_that_tells_them_apart(rows: list[tuple[int, ...]]) -> None:
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    algorithm, ranks, stride, exchange = columns
    groups, place = unique_groups(algorithm, ranks, stride, exchange)
    assert len(set(groups)) == len(groups)
    assert [groups[number] for number in place] == rows
