"""Contests are decided by time alone; the page shows each winner and each reason."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lightloom.planning.sweeps.page import contests, entrant, sweep_report
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


def test_a_long_table_says_that_it_is_cut() -> None:
    rows = [_row(4, float(size), "a", 1.0) for size in range(1, 250)]
    report = sweep_report(_swept(rows), "")
    (table,) = [each for each in report.tables if each.title.startswith("Fastest")]
    assert len(table.rows) == 200
    assert "The first 200 of 249" in table.caption
