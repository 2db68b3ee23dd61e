"""Contests are decided by time alone; the page shows each winner and each reason."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.patches import Rectangle

from lightloom.planning.sweeps.page import (
    Cell,
    Point,
    colours_of,
    contests,
    entrant,
    on_front,
    scatter_figure,
    sweep_report,
    winners_figure,
)
from lightloom.planning.sweeps.run import Swept
from lightloom.planning.sweeps.workers import DONE, REFUSED, Row
from lightloom.reports.html import render

_HEAD = {"what": "collective", "collective": "all-gather", "cost_model": "physical", "site": "ring", "settings": ""}


def _row(ranks: int, nbytes: float, algorithm: str, time: float) -> Row:
    said = {"ranks": ranks, "nbytes": nbytes, "algorithm": algorithm, "status": DONE, "time_s": time}
    return _HEAD | said | {"lower_bound_s": 1.0, "ratio": time, "energy_j": None}


def _swept(rows: list[Row]) -> Swept:
    return Swept(
        name="x", rows=tuple(rows), computed=0, unused=0, results=Path("results.parquet"), provenance={"code": "c0de"}
    )


_ROWS = st.lists(
    st.builds(_row, st.sampled_from([4, 8]), st.sampled_from([1e3, 1e6]), st.sampled_from("abcd"), st.floats(1, 9)),
    max_size=30,
    unique_by=lambda row: (row["ranks"], row["nbytes"], row["algorithm"]),
)


@given(_ROWS)
def test_every_row_enters_one_contest_and_none_beats_its_winner(rows: list[Row]) -> None:
    found = contests(rows, "collective")
    entered = [row for contest in found for row in contest.ranking]
    assert sorted(map(id, entered)) == sorted(map(id, rows))
    for contest in found:
        times = [row["time_s"] for row in contest.ranking]
        best = min(times)
        fastest = [row for row in contest.ranking if row["time_s"] <= best * (1 + 1e-9)]
        assert contest.equals == len(fastest) - 1
        assert entrant(contest.winner) == min(map(entrant, fastest))
        slower = [time for time in times if time > best * (1 + 1e-9)]
        assert (contest.next and contest.next["time_s"]) == min(slower, default=None)
        assert times[len(fastest) :] == sorted(slower)


def test_rows_that_were_refused_enter_no_contest() -> None:
    rows = [_row(4, 1e3, "a", 2.0) | {"status": REFUSED, "why": "no", "time_s": None}, _row(4, 1e3, "b", 3.0)]
    (contest,) = contests(rows, "collective")
    assert [entrant(row) for row in contest.ranking] == ["b"]


def test_the_page_names_every_winner_and_counts_every_reason() -> None:
    rows = [
        _row(ranks, nbytes, each, ranks + "bca".index(each))
        for ranks in (4, 8)
        for nbytes in (1e3, 1e6)
        for each in "abc"
    ]
    why = ["needs <light>", "needs <light>", "odd"]
    rows += [_row(4, 1.0, "d", 1.0) | {"status": REFUSED, "why": each, "time_s": None} for each in why]
    report = sweep_report(_swept(rows), "what it is about")
    assert report.headline == "b is fastest in 4 of 4 collectives"
    (table,) = [each for each in report.tables if each.title == "Not computed"]
    assert {row[2]: int(row[0]) for row in table.rows} == Counter(why)
    page = render(report)
    assert "needs &lt;light&gt;" in page
    assert "c0de" in page
    assert "what it is about" in page


def test_a_sweep_in_which_nothing_could_be_done_has_a_page() -> None:
    rows = [_row(4, 1.0, "d", 1.0) | {"status": REFUSED, "why": "no", "time_s": None}]
    assert "nothing could be computed" in render(sweep_report(_swept(rows), ""))


@pytest.mark.long
def test_a_grid_has_a_cell_for_every_contest_however_many() -> None:
    cells = [
        Cell(f"ring of {row}", f"{column} KiB", "ab"[column % 2], "1 ms") for row in range(50) for column in range(40)
    ]
    (axes,) = winners_figure(cells, colours_of(["a", "b"])).axes
    drawn = Counter(patch.get_xy() for patch in axes.patches if isinstance(patch, Rectangle))
    assert drawn == {(float(column), float(row)): 1 for row in range(50) for column in range(40)}
    assert not axes.texts
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [f"ring of {row}" for row in range(50)]
    (small,) = winners_figure(cells[:3], colours_of(["a", "b"])).axes
    assert [text.get_text() for text in small.texts] == ["1 ms"] * 3


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_the_front_is_what_none_beats(points: list[tuple[int, int]]) -> None:
    def beaten(point: tuple[int, int]) -> bool:
        return any(all(a <= b for a, b in zip(other, point, strict=True)) and other != point for other in points)

    assert on_front(points) == [not beaten(point) for point in points]


def test_the_page_scatters_algorithms_by_small_and_large_messages() -> None:
    rows = [
        _row(4, nbytes, each, time)
        for each, times in (("a", (1.0, 9.0)), ("b", (9.0, 1.0)), ("c", (9.0, 9.0)))
        for nbytes, time in zip((1e3, 1e6), times, strict=True)
    ]
    titles = [picture.title for picture in sweep_report(_swept(rows), "").pictures]
    assert titles[:2] == ["All-gather, physical cost", "All-gather, physical cost: small against large messages"]
    figure = scatter_figure(
        [Point("ring", "a", 1, 9), Point("ring", "b", 9, 1), Point("ring", "c", 9, 9)], {}, ("x", "y")
    )
    filled = {
        tuple(np.asarray(line.get_xydata())[0]) for line in figure.axes[0].lines if line.get_markerfacecolor() != "none"
    }
    assert filled == {(1, 9), (9, 1)}


@pytest.mark.long
def test_a_long_table_says_that_it_is_cut() -> None:
    rows = [_row(4, float(size), "a", 1.0) for size in range(1, 250)]
    report = sweep_report(_swept(rows), "")
    (table,) = [each for each in report.tables if each.title.startswith("Fastest")]
    assert len(table.rows) == 200
    assert "The first 200 of 249" in table.caption
