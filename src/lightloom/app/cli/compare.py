"""``lightloom compare``: two saved plans side by side, what changed and why."""

from pathlib import Path

from lightloom.app.api.comparison import PlanComparison
from lightloom.app.api.comparison import compare as compare_plans
from lightloom.app.cli.options import FigureFile, ReportFile, Shown, draw
from lightloom.core.answer import MOST_ROWS
from lightloom.reports.console import Parts, screen
from lightloom.reports.figures.canvas import to_svg
from lightloom.reports.html import write
from lightloom.reports.report import Picture, Report, Table, table_of

_COLUMNS = ("plan", "place", "step before", "after", "a sample")
"""Columns of the table on the terminal; pages show all."""


def compare(before: Path, after: Path, *, report: ReportFile = None, figure: FigureFile = None) -> Shown:
    """Compare two saved plans: what was asked differently, which plans changed, and by which part of the step.

    For example: lightloom compare before.json after.json --report page.html

    Args:
        before: What lightloom plan --json printed.
        after: The same, later or with other options.
        report: Write an HTML page.
        figure: Draw where the time of both winners goes (.svg, .png, .pdf).

    Returns:
        The result to print: what changed and why; files that are asked for are written.

    Raises:
        ConfigError: a file that cannot be read, or another document.
    """
    result = compare_plans(before, after)
    document = result.to_json()
    if report is not None:
        write(_page(result, before.name, after.name), report)
    return Shown(document, _answer(result), {"drawn": draw(figure, result.figure, document), "report": report})


def _answer(result: PlanComparison) -> Parts:
    """Return what the terminal shows: the first eight inputs that differ, with the number of others; whether the same
    plan wins, the ratio of both winners' seconds a sample, where the first winner is now and why; and the first eight
    plans in both rankings, with their places, times of a step and ratio of seconds a sample. How many plans are in one
    ranking alone is told."""
    changed, _, ratio = result.summary().rpartition(": ")
    rows, inputs = result.display_rows(), _input_rows(result)
    asked = [f"{field} {before} → {after}" for field, before, after in inputs[:MOST_ROWS]]
    apart = [
        f"{len(only)} plans {words}"
        for words, only in (("only before", result.gone), ("only after", result.new))
        if only
    ]
    return screen(
        "; ".join(asked) + (f"; {len(inputs) - len(asked)} other changes" if len(inputs) > len(asked) else "")
        or "nothing was asked differently",
        [ratio, changed, result.explanation],
        [{name: row[name] for name in _COLUMNS} for row in rows],
        legend="; ".join(["a sample: times as long as before; →: from before to after", *apart]),
        everything="--report FILE.html",
        more=["--report FILE.html says why each plan changed", "--figure FILE.png draws both winners"],
    )


def _input_rows(result: PlanComparison) -> list[tuple[str, ...]]:
    """Return (field, before, after) as texts for each input that differs."""
    return [(each.field, _text(each.before), _text(each.after)) for each in result.inputs]


def _text(value: object) -> str:
    """Return a value as text: six significant digits of a float, entries of a list joined by commas, "–" for None."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return "–" if value is None else str(value)


def _page(result: PlanComparison, before: str, after: str) -> Report:
    """Return the HTML page of the result: what was asked differently, the plans in both rankings, those in one alone
    with why the other lacks them, and the times of both winners as a picture. ``before`` and ``after`` are the names of
    both files, which head its columns."""
    inputs, rows = tuple(_input_rows(result)), result.display_rows()
    tables = [Table(title="Asked differently", columns=("field", before, after), rows=inputs)]
    if rows:
        tables.append(table_of("Plans in both", rows))
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
