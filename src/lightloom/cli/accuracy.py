"""``lightloom accuracy``: steps that others measured, predicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lightloom.cli.options import Json, figure_option, option
from lightloom.cli.output import check_outputs, print_result
from lightloom.core.errors import ConfigError
from lightloom.core.provenance import provenance, provenance_line
from lightloom.reports.console import plain_table
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from lightloom.calibration.accuracy import Accuracy

SCHEMA = "lightloom.accuracy/1"


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
    if cross_validate not in (None, "rows", "models"):
        raise ConfigError(f"--cross-validate {cross_validate!r}: expected rows or models")
    if calibration is not None and cross_validate is not None:
        raise ConfigError("--calibration and --cross-validate exclude one another: choose one")
    check_outputs([figure])
    judged = _judge(rows, calibration, cross_validate)
    origin = provenance([[entry.steps.sha256, entry.basis] for entry in judged])
    if figure is not None:
        from lightloom.calibration.pictures import draw_accuracy
        from lightloom.reports.figures.base import save

        save(draw_accuracy(judged), figure, provenance_line(origin))
    tables = [entry.to_json() for entry in judged]
    document = {
        "schema": SCHEMA,
        "tables": [{key: value for key, value in table.items() if key != "rows"} for table in tables],
        "rows": [{"table": table["table"], **row} for table in tables for row in table["rows"]],
        "provenance": origin,
    }
    print_result(document, as_json, _parts(judged), {"figure": figure})


def _judge(rows: Sequence[Path], calibration: Path | None, cross_validate: str | None) -> list[Accuracy]:
    from lightloom.calibration.accuracy import accuracy as predict
    from lightloom.calibration.accuracy import cross_validated
    from lightloom.calibration.document import read_calibration
    from lightloom.calibration.rows import read_steps

    tables = [read_steps(path) for path in rows]
    if cross_validate is None:
        fitted = None if calibration is None else read_calibration(calibration)
        return [predict(steps, fitted) for steps in tables]
    with progress("Fits", None) as advance:
        return [cross_validated(steps, "models" if cross_validate == "models" else "rows", advance) for steps in tables]


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
