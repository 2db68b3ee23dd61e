"""Runs of links are those that their four numbers say, one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lightloom.machines.fabrics.derived import (
    CellOrder,
    Footprint,
    links_of,
    ordered_links,
)
from tests.collectives.strategies import two_tiers

Run = tuple[int, int, int, int]
runs = st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 4), st.integers(4, 7))


def links(run: Run) -> list[int]:
    base, start, length, period = run
    return [base + (start + place) % period for place in range(length)]


@given(
    st.integers(1, 3).flatmap(
        lambda size: st.lists(st.tuples(*[runs] * size, *[st.booleans()] * size), min_size=1, max_size=4)
    )
)
def test_links_of_runs_one_after_the_other(rows: list[tuple[Run | bool, ...]]) -> None:
    size = len(rows[0]) // 2
    columns = [np.array([row[place] for row in rows]) for place in range(2 * size)]
    of_runs = [tuple(column.T) for column in columns[:size]]
    expected: list[list[int]] = []
    for row in rows:
        ways = [(links(run), back) for run, back in zip(row[:size], row[size:], strict=True)]  # type: ignore[arg-type]
        expected.append([link for way, back in ways for link in (way[::-1] if back else way)])
    found = ordered_links(of_runs, columns[size:])
    assert [[link for link in row if link >= 0] for row in found.tolist()] == expected
    footprint = Footprint.of(of_runs)
    transfer, link = links_of(footprint)
    forward = [(number, each) for number, row in enumerate(rows) for run in row[:size] for each in links(run)]  # type: ignore[arg-type]
    assert list(zip(transfer.tolist(), link.tolist(), strict=True)) == forward
    for width in (1, 3):
        wide = width * len(rows) > len(forward)
        order = CellOrder.of(50, 7, footprint, np.full(len(rows), width))
        assert order == ((7, 1) if wide else (1, 50))


def test_nothing_occupies_nothing() -> None:
    nothing = Footprint(*np.zeros((4, 0, 2), np.int64))
    assert ordered_links([tuple(np.zeros((4, 0), np.int64))], [False]).shape == (0, 0)  # type: ignore[list-item]
    assert links_of(nothing)[0].size == 0 and CellOrder.of(5, 3, nothing, np.zeros(0)) == (1, 5)


def test_a_single_rank_is_near_itself() -> None:
    single = two_tiers(ranks=1, hop_latency=1e-6)
    assert (single.diameter(), single.neighbour_latency(), single.diameter_latency()) == (0, 0.0, 0.0)
