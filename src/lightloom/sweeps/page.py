"""A sweep on one page: who wins where, by how much, and what could not be tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from lightloom.core.units import format_size, format_time
from lightloom.reports.figures import to_svg
from lightloom.reports.numbers import format_ratio
from lightloom.reports.report import Picture, Report, Table
from lightloom.sweeps.compute import DONE, FAILED, REFUSED, Row
from lightloom.sweeps.contests import Contest, contests, entrant
from lightloom.sweeps.curves_figure import curves_figure
from lightloom.sweeps.run import Swept
from lightloom.sweeps.winners_figure import Cell, Colours, colours_of, winners_figure

_CELL_ROWS, _PANELS, _TABLE_ROWS = 32, 6, 200
"""What a page shows of each; results.parquet holds all."""


def sweep_report(found: Swept, description: str) -> Report:
    """The page of a finished sweep."""
    collectives, plans = contests(found.rows, "collective"), contests(found.rows, "plan")
    statuses = found.statuses
    pictures = (*_collective_pictures(collectives), *_plan_pictures(plans))
    tables = (
        _wins(collectives, "Collectives won"),
        _wins(plans, "Training steps won"),
        *_collective_tables(collectives),
        _plan_table(plans),
        _reasons(found),
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
            name, count = _fastest(some).most_common(1)[0]
            parts.append(f"{name} is fastest in {count} of {len(some)} {what}")
    return "; ".join(parts)


def _collective_pictures(found: Sequence[Contest]) -> list[Picture]:
    colours = colours_of([entrant(each.winner) for each in found])
    pictures = []
    for (kind, model), some in _groups(found, "collective", "cost_model"):
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
    by_place = [each for _, each in _groups(found, "site", "ranks", "settings") if len(each) > 1]
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
        for (model,), some in _groups(found, "cost_model")
    ]


def _plan_cell(each: Contest) -> Cell:
    row = each.winner
    return Cell(
        row=_plan_place(each),
        column=row["model"],
        winner=entrant(row),
        text=f"{format_time(row['time_s'])}\n{format_time(_exposed(row))} exposed",
    )


def _plan_place(each: Contest) -> str:
    row = each.winner
    tokens = "" if row["sequence_length"] is None else f", {row['sequence_length']} tokens"
    return f"{each.place}, batch {row['batch_per_rank']}{tokens}{'' if row['overlap'] else ', no overlap'}"


def _exposed(row: Row) -> float:
    return float(row["exposed_communication_s"] + row["exposed_reconfiguration_s"])


def _wins(found: Sequence[Contest], title: str) -> Table:
    alone = Counter(entrant(each.winner) for each in found if not each.equals)
    rows = tuple((name, f"{count:,}", f"{alone[name]:,}") for name, count in _fastest(found).most_common())
    return Table(title=title, columns=("algorithm", "times fastest", "alone"), rows=rows)


def _fastest(found: Sequence[Contest]) -> Counter[str]:
    return Counter(entrant(row) for each in found for row in each.ranking[: each.equals + 1])


def _collective_tables(found: Sequence[Contest]) -> list[Table]:
    return [
        Table(
            title=f"Fastest {kind}, {model} cost",
            columns=("where", "bytes", "fastest", "time", "vs bound", "next", "times as long"),
            rows=tuple(
                (each.place, format_size(each.winner["nbytes"]), _names(each), format_time(each.winner["time_s"]),
                 format_ratio(each.winner["ratio"]), *_next(each))
                for each in some[:_TABLE_ROWS]
            ),
            caption=_rest(some),
        )
        for (kind, model), some in _groups(found, "collective", "cost_model")
    ]  # fmt: skip


def _plan_table(found: Sequence[Contest]) -> Table:
    return Table(
        title="Fastest training steps",
        columns=("model", "where", "fastest", "step", "computation", "exposed", "memory", "next", "times as long"),
        rows=tuple(
            (each.winner["model"], _plan_place(each), _names(each), format_time(each.winner["time_s"]),
             format_time(each.winner["compute_s"]), format_time(_exposed(each.winner)), _memory(each.winner),
             *_next(each))
            for each in found[:_TABLE_ROWS]
        ),
        caption=_rest(found),
    )  # fmt: skip


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


def _reasons(found: Swept) -> Table:
    counts = Counter((row["status"], row["why"]) for row in found.rows if row["status"] != DONE).most_common()
    return Table(
        title="Not computed", columns=("points", "status", "why"),
        rows=tuple((f"{count:,}", status, why) for (status, why), count in counts[:_TABLE_ROWS]),
        caption=_rest(counts),
    )  # fmt: skip


def _rest(rows: Sequence[object]) -> str:
    return f"The first {_TABLE_ROWS} of {len(rows):,}; results.parquet holds all." if len(rows) > _TABLE_ROWS else ""


def _cut(cells: Sequence[Cell]) -> list[Cell]:
    rows = list(dict.fromkeys(cell.row for cell in cells))[:_CELL_ROWS]
    return [cell for cell in cells if cell.row in rows]


def _left_out(cells: Sequence[Cell]) -> str:
    count = len({cell.row for cell in cells})
    return f" The first {_CELL_ROWS} of {count:,} rows; results.parquet holds all." if count > _CELL_ROWS else ""


def _groups(found: Sequence[Contest], *names: str) -> list[tuple[tuple[Any, ...], list[Contest]]]:
    groups: dict[tuple[Any, ...], list[Contest]] = {}
    for each in found:
        groups.setdefault(tuple(each.winner[name] for name in names), []).append(each)
    return list(groups.items())


def _spread(some: list[list[Contest]], most: int) -> list[list[Contest]]:
    """As many as there is room for, the first and the last among them."""
    if len(some) <= most:
        return some
    return [some[round(place * (len(some) - 1) / (most - 1))] for place in range(most)]
