"""A sweep on one page: who wins where, by how much, and what could not be tried."""

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
"""What a page shows of each; results.parquet holds all."""


def sweep_report(found: Swept, description: str) -> Report:
    """The page of a finished sweep."""
    collectives, plans = contests(found.rows, "collective"), contests(found.rows, "plan")
    statuses = found.statuses
    pictures = (*_collective_pictures(collectives), *_plan_pictures(plans))
    tables = (
        wins(collectives, "Collectives won"),
        wins(plans, "Training steps won"),
        *collective_tables(collectives),
        plan_table(plans),
        reasons(found.rows),
    )
    return Report(
        title=f"sweep {found.name}",
        headline=_headline(collectives, plans) or "nothing could be computed",
        explanation=description,
        facts=(
            ("points", f"{len(found.rows):,}"),
            *((name, f"{statuses[name]:,}") for name in (DONE, REFUSED, FAILED)),
            ("collectives compared", f"{len(collectives):,}"),
            ("training steps compared", f"{len(plans):,}"),
        ),
        notes=("Every schedule was replayed by the verifier; no time lies below its lower bound.",) if pictures else (),
        pictures=pictures,
        tables=tuple(each for each in tables if each.rows),
        provenance=found.provenance,
    )


def _headline(collectives: Sequence[Contest], plans: Sequence[Contest]) -> str:
    parts = []
    for some, what in ((collectives, "collectives"), (plans, "training steps")):
        if some:
            name, count = fastest(some).most_common(1)[0]
            parts.append(f"{name} is fastest in {count} of {len(some)} {what}")
    return "; ".join(parts)


def _collective_pictures(found: Sequence[Contest]) -> list[Picture]:
    colours = colours_of([entrant(each.winner) for each in found])
    pictures = []
    for (kind, model), some in grouped(found, "collective", "cost_model"):
        title = f"{kind[0].upper()}{kind[1:]}, {model} cost"
        cells = _size_cells(some)
        pictures.append(
            Picture(
                title=title,
                svg=to_svg(winners_figure(_cut(cells), colours)),
                caption="Colour: the fastest, of equals the first by name; its time, and that over the lower bound."
                + _left_out(cells),
            )
        )
        pictures += _curves(some, colours, title)
    return pictures


def _size_cells(found: Sequence[Contest]) -> list[Cell]:
    """Columns are bytes in all or bytes of a rank, whichever are fewer; rows are places."""
    totals, shares = {_size(each, of_rank=False) for each in found}, {_size(each, of_rank=True) for each in found}
    of_rank = len(shares) < len(totals)
    places = list(dict.fromkeys(each.place for each in found))
    return [
        Cell(
            row=each.place,
            column=format_size(_size(each, of_rank)) + (" a rank" if of_rank else ""),
            winner=entrant(each.winner),
            text=f"{format_time(each.winner['time_s'])}\n{format_ratio(each.winner['ratio'])}",
        )
        for each in sorted(found, key=lambda each: (_size(each, of_rank), places.index(each.place)))
    ]


def _size(contest: Contest, of_rank: bool) -> float:
    row = contest.winner
    return float(row["nbytes"] / (row["ranks"] if of_rank else 1))


def _curves(found: Sequence[Contest], colours: Colours, title: str) -> list[Picture]:
    by_place = [each for _, each in grouped(found, "site", "ranks", "settings") if len(each) > 1]
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


def _plan_pictures(found: Sequence[Contest]) -> list[Picture]:
    colours = colours_of([entrant(each.winner) for each in found])
    return [
        Picture(
            title=f"Training steps, {model} cost",
            svg=to_svg(winners_figure(_cut([_plan_cell(each) for each in some]), colours)),
            caption="Colour: the fastest strategy and algorithm, of equals the first by name; time of a step."
            + _left_out([_plan_cell(each) for each in some]),
        )
        for (model,), some in grouped(found, "cost_model")
    ]


def _plan_cell(each: Contest) -> Cell:
    row = each.winner
    return Cell(
        row=each.place,
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


def _spread(some: list[T], most: int) -> list[T]:
    """As many as there is room for, the first and the last among them."""
    if len(some) <= most:
        return some
    return [some[round(place * (len(some) - 1) / (most - 1))] for place in range(most)]
