"""``lightloom compare``: two saved plans side by side, what changed and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as TerminalTable
from rich.text import Text

from lightloom.app.api.comparison import PlanComparison
from lightloom.app.api.comparison import compare as compare_plans
from lightloom.app.cli.options import Json, check_outputs, figure_option, option, print_result
from lightloom.core.results import provenance_line
from lightloom.reports.figures.canvas import save, to_svg
from lightloom.reports.html import write
from lightloom.reports.report import Picture, Report, Table

_SHOWN = 15
"""Plans and inputs on the terminal; pages and JSON hold all."""


def compare(
    before: Annotated[Path, typer.Argument(help="What lightloom plan --json printed.", show_default=False)],
    after: Annotated[Path, typer.Argument(help="The same, later or with other options.", show_default=False)],
    *,
    report: Annotated[Path | None, option("Write an HTML page.", name="--report")] = None,
    figure: Annotated[Path | None, figure_option("Draw where the time of both winners goes")] = None,
    as_json: Json = False,
) -> None:
    """Compare two saved plans: what was asked differently, which plans changed, and by which part of the step."""
    check_outputs([figure], [report])
    result = compare_plans(before, after)
    document = result.to_json()
    if figure is not None:
        save(result.figure(), figure, provenance_line(document["provenance"]))
    if report is not None:
        write(_page(result, before.name, after.name), report)
    print_result(document, as_json, _parts(result), {"drawn": figure, "report": report})


def _parts(result: PlanComparison) -> Iterator[str | Text | TerminalTable]:
    yield Text(result.summary(), style="bold")
    yield result.explanation
    yield _terminal("asked differently", ("field", "before", "after"), _input_rows(result)[:_SHOWN], ())
    if len(result.inputs) > _SHOWN:
        yield f"... and {len(result.inputs) - _SHOWN} other values, in the report and in --json"
    rows = [tuple(str(value) for value in row.values()) for row in result.display_rows()[:_SHOWN]]
    if rows:
        columns = tuple(result.display_rows()[0])
        yield _terminal("plans in both", columns, rows, ("step before", "after", "a sample"))
    if len(result.changes) > _SHOWN:
        yield f"... and {len(result.changes) - _SHOWN} other plans, in the report and in --json"
    for words, count in (("only before", len(result.gone)), ("only after", len(result.new))):
        if count:
            yield Text(f"{count} plans {words}; --json and the report say why", style="dim")


def _terminal(
    title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]], right: tuple[str, ...]
) -> TerminalTable:
    table = TerminalTable(title=title, title_justify="left", box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _input_rows(result: PlanComparison) -> list[tuple[str, ...]]:
    return [(each.field, _text(each.before), _text(each.after)) for each in result.inputs]


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return "–" if value is None else str(value)


def _page(result: PlanComparison, before: str, after: str) -> Report:
    first = result.display_rows()
    tables = [Table(title="Asked differently", columns=("field", before, after), rows=tuple(_input_rows(result)))]
    if first:
        rows = tuple(tuple(str(value) for value in row.values()) for row in first)
        tables.append(Table(title="Plans in both", columns=tuple(first[0]), rows=rows))
    for title, gone, other in (
        (f"Only in {before}", result.gone, result.after),
        (f"Only in {after}", result.new, result.before),
    ):
        if gone:
            absent = tuple((str(row["label"]), result.absence(row, other)) for row in gone)
            tables.append(
                Table(
                    title=title,
                    columns=("plan", f"why not in {after if other is result.after else before}"),
                    rows=absent,
                )
            )
    return Report(
        title=f"{before} and {after}",
        headline=result.summary(),
        explanation=result.explanation,
        pictures=(Picture(title="Both winners", svg=to_svg(result.figure())),),
        tables=tuple(tables),
        provenance=result.to_json()["provenance"],
    )
