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
"""What a page shows; results.parquet holds all."""


def wins(found: Sequence[Contest], title: str) -> Table:
    """How often each was fastest."""
    alone = Counter(entrant(each.winner) for each in found if not each.equals)
    rows = tuple((name, f"{count:,}", f"{alone[name]:,}") for name, count in fastest(found).most_common())
    return Table(title=title, columns=("algorithm", "times fastest", "alone"), rows=rows)


def collective_tables(found: Sequence[Contest]) -> list[Table]:
    """The winners of each kind of collective."""
    return [
        Table(
            title=f"Fastest {kind}, {model} cost",
            columns=("where", "bytes", "fastest", "time", "vs bound", "next", "times as long"),
            rows=tuple(
                (
                    each.place,
                    format_size(each.winner["nbytes"]),
                    _names(each),
                    format_time(each.winner["time_s"]),
                    format_ratio(each.winner["ratio"]),
                    *_next(each),
                )
                for each in some[:_TABLE_ROWS]
            ),
            caption=_rest(some),
        )
        for (kind, model), some in grouped(found, "collective", "cost_model")
    ]


def plan_table(found: Sequence[Contest]) -> Table:
    """The winners among training steps."""
    return Table(
        title="Fastest training steps",
        columns=("model", "where", "fastest", "step", "computation", "exposed", "memory", "next", "times as long"),
        rows=tuple(
            (
                each.winner["model"],
                each.place,
                _names(each),
                format_time(each.winner["time_s"]),
                format_time(each.winner["compute_s"]),
                format_time(exposed(each.winner)),
                _memory(each.winner),
                *_next(each),
            )
            for each in found[:_TABLE_ROWS]
        ),
        caption=_rest(found),
    )


def reasons(rows: Iterable[Row]) -> Table:
    """Why rows could not be computed, and how many."""
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


def _names(each: Contest) -> str:
    return entrant(each.winner) + (f" and {each.equals} as fast" if each.equals else "")


def _next(each: Contest) -> tuple[str, str]:
    if each.next is None:
        return "–", "–"
    best = each.winner["time_s"]
    return entrant(each.next), format_ratio(each.next["time_s"] / best if best else None)


def _rest(rows: Sequence[object]) -> str:
    return f"The first {_TABLE_ROWS} of {len(rows):,}; results.parquet holds all." if len(rows) > _TABLE_ROWS else ""
