"""The report of a sweep on one page: the winners, their margins, and the points that could not be computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from lightloom.core.units import format_size, format_time
from lightloom.reports.figures.base import to_svg
from lightloom.reports.numbers import format_ratio
from lightloom.reports.report import Picture, Report
from lightloom.sweeps.compute import DONE, FAILED, REFUSED
from lightloom.sweeps.contests import Contest, contests, entrant, exposed, fastest, grouped
from lightloom.sweeps.curves_figure import curves_figure
from lightloom.sweeps.run import Swept
from lightloom.sweeps.tables import collective_tables, plan_table, reasons, wins
from lightloom.sweeps.winners_figure import Cell, Colours, colours_of, winners_figure

T = TypeVar("T")
_CELL_ROWS, _CELL_COLUMNS, _PANELS = 32, 10, 6
"""Largest numbers of rows, columns and panels on a page; results.parquet holds everything."""


def sweep_report(result: Swept, description: str) -> Report:
    """Return the page of a finished sweep."""
    collectives, plans = contests(result.rows, "collective"), contests(result.rows, "plan")
    statuses = result.statuses
    pictures = (*_collective_pictures(collectives), *_plan_pictures(plans))
    tables = (
        wins(collectives, "Collectives won"),
        wins(plans, "Training steps won"),
        *collective_tables(collectives),
        plan_table(plans),
        reasons(result.rows),
    )
    return Report(
        title=f"sweep {result.name}",
        headline=_headline(collectives, plans) or "nothing could be computed",
        explanation=description,
        facts=(
            ("points", f"{len(result.rows):,}"),
            *((name, f"{statuses[name]:,}") for name in (DONE, REFUSED, FAILED)),
            ("collectives compared", f"{len(collectives):,}"),
            ("training steps compared", f"{len(plans):,}"),
        ),
        notes=("Every schedule was replayed by the verifier; no time lies below its lower bound.",) if pictures else (),
        pictures=pictures,
        tables=tuple(table for table in tables if table.rows),
        provenance=result.provenance,
    )


def _headline(collectives: Sequence[Contest], plans: Sequence[Contest]) -> str:
    parts = []
    for group, what in ((collectives, "collectives"), (plans, "training steps")):
        if group:
            name, count = fastest(group).most_common(1)[0]
            parts.append(f"{name} is fastest in {count} of {len(group)} {what}")
    return "; ".join(parts)


def _collective_pictures(collectives: Sequence[Contest]) -> list[Picture]:
    colours = colours_of([entrant(contest.winner) for contest in collectives])
    pictures = []
    for (kind, model), group in grouped(collectives, "collective", "cost_model"):
        title = f"{kind[0].upper()}{kind[1:]}, {model} cost"
        cells = _size_cells(group)
        pictures.append(
            Picture(
                title=title,
                svg=to_svg(winners_figure(_cut(cells), colours)),
                caption="Colour: the fastest, of equals the first by name; its time, and that over the lower bound."
                + _left_out(cells),
            )
        )
        pictures += _curves(group, colours, title)
    return pictures


def _size_cells(group: Sequence[Contest]) -> list[Cell]:
    """Return cells with a row for each place; columns are total bytes or bytes per rank, whichever are fewer."""
    totals, shares = (
        {_size(contest, of_rank=False) for contest in group},
        {_size(contest, of_rank=True) for contest in group},
    )
    of_rank = len(shares) < len(totals)
    places = list(dict.fromkeys(contest.place for contest in group))
    return [
        Cell(
            row=contest.place,
            column=format_size(_size(contest, of_rank)) + (" a rank" if of_rank else ""),
            winner=entrant(contest.winner),
            text=f"{format_time(contest.winner['time_s'])}\n{format_ratio(contest.winner['ratio'])}",
        )
        for contest in sorted(group, key=lambda contest: (_size(contest, of_rank), places.index(contest.place)))
    ]


def _size(contest: Contest, of_rank: bool) -> float:
    row = contest.winner
    return float(row["nbytes"] / (row["ranks"] if of_rank else 1))


def _curves(group: Sequence[Contest], colours: Colours, title: str) -> list[Picture]:
    by_place = [place for _, place in grouped(group, "site", "ranks", "settings") if len(place) > 1]
    if not by_place:
        return []
    shown = _spread(by_place, _PANELS)
    left_out = f" {len(shown)} of {len(by_place)} places." if len(shown) < len(by_place) else ""
    return [
        Picture(
            title=f"{title}: time over bytes",
            svg=to_svg(curves_figure(shown, colours)),
            caption="What every rank holds in the end (all-gather) or at the start (all others)." + left_out,
        )
    ]


def _plan_pictures(plans: Sequence[Contest]) -> list[Picture]:
    colours = colours_of([entrant(contest.winner) for contest in plans])
    return [
        Picture(
            title=f"Training steps, {model} cost",
            svg=to_svg(winners_figure(_cut([_plan_cell(contest) for contest in group]), colours)),
            caption="Colour: the fastest strategy and algorithm, of equals the first by name; time of a step."
            + _left_out([_plan_cell(contest) for contest in group]),
        )
        for (model,), group in grouped(plans, "cost_model")
    ]


def _plan_cell(contest: Contest) -> Cell:
    row = contest.winner
    return Cell(
        row=contest.place,
        column=row["model"],
        winner=entrant(row),
        text=f"{format_time(row['time_s'])}\n{format_time(exposed(row))} exposed",
    )


def _cut(cells: Sequence[Cell]) -> list[Cell]:
    rows = _spread(list(dict.fromkeys(cell.row for cell in cells)), _CELL_ROWS)
    columns = _spread(list(dict.fromkeys(cell.column for cell in cells)), _CELL_COLUMNS)
    return [cell for cell in cells if cell.row in rows and cell.column in columns]


def _left_out(cells: Sequence[Cell]) -> str:
    shown = len(_cut(cells))
    return f" {shown} of {len(cells):,} cells; results.parquet holds all." if shown < len(cells) else ""


def _spread(items: list[T], most: int) -> list[T]:
    """Return at most ``most`` items, evenly spaced, the first and the last included."""
    if len(items) <= most:
        return items
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]
