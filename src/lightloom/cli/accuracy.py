"""``lightloom accuracy``: steps that others measured, predicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lightloom.cli.options import Json, figure_option, option
from lightloom.cli.output import check_outputs, print_result
from lightloom.core.provenance import provenance_line
from lightloom.reports.console import plain_table

if TYPE_CHECKING:
    from lightloom.calibration.accuracy import Accuracy


def accuracy(
    *,
    rows: Annotated[
        list[Path],
        typer.Argument(
            metavar="ROWS.csv",
            help="Tables of measured steps, one row for each; also names in the folder $LIGHTLOOM_MEASURED.",
        ),
    ],
    calibration: Annotated[Path | None, option("Parameters that `calibrate` wrote; without it the priors.")] = None,
    cross_validate: Annotated[
        str | None,
        option("rows or models: predict each tenth of the rows, or each model size, calibrated on the others.", "WHAT"),
    ] = None,
    figure: Annotated[Path | None, figure_option("Draw predicted against measured steps")] = None,
    as_json: Json = False,
) -> None:
    """Predict steps that others measured, and show how near the predictions are."""
    from lightloom.api.accuracy import accuracy as predict

    check_outputs([figure])
    report = predict(rows, calibration=calibration, cross_validate=cross_validate)  # type: ignore[arg-type]
    if figure is not None:
        from lightloom.reports.figures.base import save

        save(report.figure(), figure, provenance_line(report.origin))
    print_result(report.to_json(), as_json, _parts(report.tables), {"figure": figure})


def _parts(judged: Sequence[Accuracy]) -> Iterator[str | Table]:
    """A table of each file's rows, its scores and its worst rows."""
    for entry in judged:
        rows = entry.display_rows()
        columns = [column for column in rows[0] if any(row[column] for row in rows)]
        cells = [[str(row[column]) for column in columns] for row in rows]
        left = [column for column in columns if column in ("row", "assumed")]
        yield plain_table(columns, cells, title=f"{entry.steps.name}, {entry.basis}", left=left)
        yield entry.scores.line()
        worst = ", ".join(f"{row['row']} ({row['error']:+.0%})" for row in entry.worst(3))
        yield f"furthest off: {worst}"
