"""``lightloom compare``: two saved plans side by side, what changed and why."""

from collections.abc import Iterator
from pathlib import Path

from rich.table import Table as TerminalTable
from rich.text import Text

from lightloom.app.api.comparison import PlanComparison
from lightloom.app.api.comparison import compare as compare_plans
from lightloom.app.cli.options import FigureFile, OutFile, Shown, draw
from lightloom.reports.console import plain_table, rows_table
from lightloom.reports.figures.canvas import to_svg
from lightloom.reports.html import write
from lightloom.reports.report import Picture, Report, Table

_SHOWN = 15
"""Plans and inputs on the terminal; pages and JSON hold all."""


def compare(before: Path, after: Path, *, report: OutFile = None, figure: FigureFile = None) -> Shown:
    """Compare two saved plans: what was asked differently, which plans changed, and by which part of the step.

    Args:
        before: What lightloom plan --json printed.
        after: The same, later or with other options.
        report: Write an HTML page.
        figure: Draw where the time of both winners goes (.svg, .png, .pdf).
    """
    result = compare_plans(before, after)
    document = result.to_json()
    if report is not None:
        write(_page(result, before.name, after.name), report)
    written = {"drawn": draw(figure, result.figure, document), "report": report}
    return Shown(document, _parts(result), written)


def _parts(result: PlanComparison) -> Iterator[str | Text | TerminalTable]:
    """Yield the summary, and tables of the inputs and the plans that differ, each cut to what a terminal shows, and how
    many plans are in one ranking alone."""
    yield Text(result.summary(), style="bold")
    yield result.explanation
    columns = ("field", "before", "after")
    yield plain_table(columns, _input_rows(result)[:_SHOWN], title="asked differently", left=columns)
    if len(result.inputs) > _SHOWN:
        yield f"... and {len(result.inputs) - _SHOWN} other values, in the report and in --json"
    rows = result.display_rows()
    if rows:
        left = [name for name in rows[0] if name not in ("step before", "after", "a sample")]
        yield rows_table(rows[:_SHOWN], title="plans in both", left=left)
    if len(result.changes) > _SHOWN:
        yield f"... and {len(result.changes) - _SHOWN} other plans, in the report and in --json"
    for words, count in (("only before", len(result.gone)), ("only after", len(result.new))):
        if count:
            yield Text(f"{count} plans {words}; --json and the report say why", style="dim")


def _input_rows(result: PlanComparison) -> list[tuple[str, ...]]:
    """Return (field, before, after) as texts for each input that differs."""
    return [(each.field, _text(each.before), _text(each.after)) for each in result.inputs]


def _text(value: object) -> str:
    """Return a value as text: six digits of a float, entries of a list joined by commas, a dash for None."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return "–" if value is None else str(value)


def _page(result: PlanComparison, before: str, after: str) -> Report:
    """Return the HTML page of the result."""
    inputs, rows = tuple(_input_rows(result)), result.display_rows()
    tables = [Table(title="Asked differently", columns=("field", before, after), rows=inputs)]
    if rows:
        cells = tuple(tuple(map(str, row.values())) for row in rows)
        tables.append(Table(title="Plans in both", columns=tuple(rows[0]), rows=cells))
    for place, gone, other, ranking in (
        (before, result.gone, after, result.after),
        (after, result.new, before, result.before),
    ):
        if gone:
            absent = tuple((str(row["label"]), result.absence(row, ranking)) for row in gone)
            tables.append(Table(title=f"Only in {place}", columns=("plan", f"why not in {other}"), rows=absent))
    return Report(
        title=f"{before} and {after}",
        headline=result.summary(),
        explanation=result.explanation,
        pictures=(Picture(title="Both winners", svg=to_svg(result.figure())),),
        tables=tuple(tables),
        provenance=result.to_json()["provenance"],
    )
