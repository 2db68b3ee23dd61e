"""``lightloom accuracy``: steps and collectives that others measured, predicted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table

from lightloom.app.api.accuracy import AccuracyReport, compare_step
from lightloom.app.api.accuracy import accuracy as predict_steps
from lightloom.app.api.calibrating import CollectiveAccuracy, Fitted, collective_accuracy
from lightloom.app.api.calibrating import calibrate as fit_parameters
from lightloom.app.cli.options import FigureFile, Options, OutFile, Shown, draw
from lightloom.core.errors import ConfigError
from lightloom.core.results import Result
from lightloom.planning.calibration.collectives import is_collectives
from lightloom.reports.console import rows_table

if TYPE_CHECKING:
    from lightloom.planning.calibration.accuracy import Accuracy


def accuracy(
    rows: list[Path],
    *,
    predict: Annotated[partial[AccuracyReport], Options(predict_steps)],
    collectives: Annotated[partial[CollectiveAccuracy], Options(collective_accuracy)],
    figure: FigureFile = None,
) -> Shown:
    """Predict steps, collectives or a profiled step that were measured, and show how near the predictions are.

    Args:
        rows (ROWS.csv): Tables of measured steps or of timed collectives, also names in the folder
            $LIGHTLOOM_MEASURED; or a profile of torch.profiler (.json, .json.gz).
        cluster: What timed collectives, or a profile, were measured on, if the file lacks it.
        figure: Draw predicted against measured (.svg, .png, .pdf).
    """
    of_steps, of_collectives = predict.keywords, collectives.keywords
    report: CollectiveAccuracy | AccuracyReport
    if any(path.suffix == ".json" or path.suffixes[-2:] == [".json", ".gz"] for path in rows):
        if len(rows) > 1:
            raise ConfigError(f"{rows[0]} and {rows[1]}: expected one profile at a time")
        others = {**of_steps, **of_collectives, **({} if figure is None else {"figure": figure})}
        for name in ("calibration", "cross_validate", "transport", "gpus", "figure"):
            if name in others:
                option = name.replace("_", "-")
                raise ConfigError(f"--{option}: of tables: expected --cluster alone with a profile")
        step = compare_step(rows[0], of_collectives.get("cluster"))
        title = f"a step of {step.profile.name}"
        return Shown(step.to_json(), _table_parts(step, title, ("part", "how"), step.lines()))
    if of_collectives or any(map(is_collectives, rows)):
        if of_steps:
            raise ConfigError("--calibration and --cross-validate are of steps: expected --transport for collectives")
        report = collectives(rows)
        title, left = "collectives, measured and predicted", ("system", "collective")
        parts = _table_parts(report, title, left, report.lines())
    else:
        report = predict(rows)
        parts = _accuracy_parts(report.tables)
    document = report.to_json()
    return Shown(document, parts, {"figure": draw(figure, report.figure, document)})


_SHOWN = 30
"""Rows on the terminal; JSON holds all."""


def _table_parts(result: Result, title: str, left: Sequence[str], remarks: Iterable[str]) -> Iterator[str | Table]:
    """Yield a table of the first 30 rows of a result, how many more there are, and the remarks; ``left`` names the
    columns that hold words."""
    rows = result.display_rows()
    yield rows_table(rows[:_SHOWN], title=title, left=left)
    if len(rows) > _SHOWN:
        yield f"... and {len(rows) - _SHOWN} more rows, in --json"
    yield from remarks


def _accuracy_parts(judged: Sequence[Accuracy]) -> Iterator[str | Table]:
    """Yield for each file a table of all its rows, without columns that are empty throughout, its scores, and its three
    worst rows."""
    for entry in judged:
        rows = entry.display_rows()
        columns = [column for column in rows[0] if any(row[column] for row in rows)]
        shown = [{column: row[column] for column in columns} for row in rows]
        yield rows_table(shown, title=f"{entry.steps.name}, {entry.basis}", left=("row", "assumed"))
        yield entry.scores.line()
        worst = ", ".join(f"{row['row']} ({row['error']:+.0%})" for row in entry.worst(3))
        yield f"furthest off: {worst}"


# ``lightloom calibrate``: an accelerator's parameters, fitted to what was measured on it.


def calibrate(
    rows: Path | None = None,
    *,
    fit: Annotated[partial[Fitted], Options(fit_parameters)],
    out: Annotated[OutFile, "--out", "-o"] = None,
) -> Shown:
    """Fit an accelerator's parameters to measured steps or a profile, or a transport to timed collectives.

    Args:
        rows (ROWS.csv): A table of measured steps; also a name in the folder $LIGHTLOOM_MEASURED.
        out: Write the calibration (.yaml).
    """
    fitted = fit(rows)
    if out is not None:
        fitted.save(out)
    parts = _table_parts(fitted, fitted.title, fitted.left_columns, fitted.remarks())
    return Shown(fitted.to_json(), parts, {"calibration": out})
