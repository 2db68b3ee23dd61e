"""The tables of a sweep's page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from lightloom.core.units import format_size, format_time
from lightloom.reports.numbers import format_ratio
from lightloom.reports.report import Table
from lightloom.sweeps.compute import DONE, Row
from lightloom.sweeps.contests import Contest, entrant, exposed, fastest, grouped

_TABLE_ROWS = 200
"""Rows of a table on the page; results.parquet holds all rows."""


def wins(group: Sequence[Contest], title: str) -> Table:
    """Return the table of how often each entrant is fastest."""
    alone = Counter(entrant(contest.winner) for contest in group if not contest.equals)
    rows = tuple((name, f"{count:,}", f"{alone[name]:,}") for name, count in fastest(group).most_common())
    return Table(title=title, columns=("algorithm", "times fastest", "alone"), rows=rows)


def collective_tables(collectives: Sequence[Contest]) -> list[Table]:
    """Return a table of winners for each kind of collective."""
    return [
        Table(
            title=f"Fastest {kind}, {model} cost",
            columns=("where", "bytes", "fastest", "time", "vs bound", "next", "times as long"),
            rows=tuple(
                (
                    contest.place,
                    format_size(contest.winner["nbytes"]),
                    _names(contest),
                    format_time(contest.winner["time_s"]),
                    format_ratio(contest.winner["ratio"]),
                    *_next(contest),
                )
                for contest in group[:_TABLE_ROWS]
            ),
            caption=_rest(group),
        )
        for (kind, model), group in grouped(collectives, "collective", "cost_model")
    ]


def plan_table(plans: Sequence[Contest]) -> Table:
    """Return the table of the fastest training steps."""
    return Table(
        title="Fastest training steps",
        columns=("model", "where", "fastest", "step", "computation", "exposed", "memory", "next", "times as long"),
        rows=tuple(
            (
                contest.winner["model"],
                contest.place,
                _names(contest),
                format_time(contest.winner["time_s"]),
                format_time(contest.winner["compute_s"]),
                format_time(exposed(contest.winner)),
                _memory(contest.winner),
                *_next(contest),
            )
            for contest in plans[:_TABLE_ROWS]
        ),
        caption=_rest(plans),
    )


def reasons(rows: Iterable[Row]) -> Table:
    """Return the table of reasons why rows could not be computed, with their counts."""
    counts = Counter((row["status"], row["why"]) for row in rows if row["status"] != DONE).most_common()
    return Table(
        title="Not computed",
        columns=("points", "status", "why"),
        rows=tuple((f"{count:,}", status, why) for (status, why), count in counts[:_TABLE_ROWS]),
        caption=_rest(counts),
    )


def _memory(row: Row) -> str:
    fits = {True: "", False: ", does not fit", None: ", of unknown"}[row["fits_memory"]]
    return format_size(row["memory_bytes"]) + fits


def _names(contest: Contest) -> str:
    return entrant(contest.winner) + (f" and {contest.equals} as fast" if contest.equals else "")


def _next(contest: Contest) -> tuple[str, str]:
    if contest.next is None:
        return "–", "–"
    best = contest.winner["time_s"]
    return entrant(contest.next), format_ratio(contest.next["time_s"] / best if best else None)


def _rest(rows: Sequence[object]) -> str:
    return f"The first {_TABLE_ROWS} of {len(rows):,}; results.parquet holds all." if len(rows) > _TABLE_ROWS else ""
