"""``lightloom accuracy``: steps and collectives that others measured, predicted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lightloom.app.cli.options import (
    Json,
    arguments,
    check_outputs,
    count_option,
    draw,
    figure_option,
    option,
    print_result,
)
from lightloom.core.errors import ConfigError
from lightloom.core.results import Result
from lightloom.reports.console import rows_table

if TYPE_CHECKING:
    from lightloom.app.api.accuracy import AccuracyReport
    from lightloom.app.api.calibrating import CollectiveAccuracy
    from lightloom.planning.calibration.accuracy import Accuracy


def accuracy(
    *,
    rows: Annotated[
        list[Path],
        typer.Argument(
            metavar="ROWS.csv",
            help="Tables of measured steps or of timed collectives, also names in the folder $LIGHTLOOM_MEASURED; or a "
            "profile of torch.profiler (.json, .json.gz).",
        ),
    ],
    calibration: Annotated[Path | None, option("Parameters that `calibrate` wrote; without it the priors.")] = None,
    cross_validate: Annotated[
        str | None,
        option("rows or models: predict each tenth of the rows, or each model size, calibrated on the others.", "WHAT"),
    ] = None,
    cluster: Annotated[
        str | None, option("What timed collectives, or a profile, were measured on, if the file lacks it.")
    ] = None,
    transport: Annotated[
        str | None, option("Their transport: a name such as nccl-hopper, or a file that `calibrate` wrote.")
    ] = None,
    gpus: Annotated[int | None, count_option("--gpus", "GPUs of the collectives, if the file does not say.")] = None,
    figure: Annotated[Path | None, figure_option("Draw predicted against measured")] = None,
    as_json: Json = False,
) -> None:
    """Predict steps, collectives or a profiled step that were measured, and show how near the predictions are."""
    from lightloom.app.api.accuracy import accuracy as predict
    from lightloom.app.api.accuracy import compare_step
    from lightloom.app.api.calibrating import collective_accuracy
    from lightloom.planning.calibration.collectives import is_collectives

    check_outputs([figure])
    report: CollectiveAccuracy | AccuracyReport
    if any(path.suffix == ".json" or path.suffixes[-2:] == [".json", ".gz"] for path in rows):
        if len(rows) > 1:
            raise ConfigError(f"{rows[0]} and {rows[1]}: expected one profile at a time")
        others: dict[str, object] = {
            "calibration": calibration,
            "cross-validate": cross_validate,
            "transport": transport,
        }
        others |= {"gpus": gpus, "figure": figure}
        for name, value in others.items():
            if value is not None:
                raise ConfigError(f"--{name}: of tables: expected --cluster alone with a profile")
        step = compare_step(rows[0], cluster)
        title = f"a step of {step.profile.name}"
        print_result(step.to_json(), as_json, _table_parts(step, title, ("part", "how"), step.lines()))
        return
    if transport is not None or cluster is not None or gpus is not None or any(map(is_collectives, rows)):
        if calibration is not None or cross_validate is not None:
            raise ConfigError("--calibration and --cross-validate are of steps: expected --transport for collectives")
        report = collective_accuracy(rows, cluster=cluster, transport=transport, gpus=gpus)
        title, left = "collectives, measured and predicted", ("system", "collective")
        parts = _table_parts(report, title, left, report.lines())
    else:
        report = predict(rows, calibration=calibration, cross_validate=cross_validate)  # type: ignore[arg-type]
        parts = _accuracy_parts(report.tables)
    document = report.to_json()
    print_result(document, as_json, parts, {"figure": draw(figure, report.figure, document)})


_SHOWN = 30
"""Rows on the terminal; JSON holds all."""


def _table_parts(result: Result, title: str, left: Sequence[str], remarks: Iterable[str]) -> Iterator[str | Table]:
    """The first rows of a result, and what is to be said about them."""
    rows = result.display_rows()
    yield rows_table(rows[:_SHOWN], title=title, left=left)
    if len(rows) > _SHOWN:
        yield f"... and {len(rows) - _SHOWN} more rows, in --json"
    yield from remarks


def _accuracy_parts(judged: Sequence[Accuracy]) -> Iterator[str | Table]:
    """A table of each file's rows, its scores and its worst rows."""
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
    *,
    rows: Annotated[
        Path | None,
        typer.Argument(
            metavar="ROWS.csv", help="A table of measured steps; also a name in the folder $LIGHTLOOM_MEASURED."
        ),
    ] = None,
    accelerator: Annotated[str | None, option("What was measured on: a name of the catalog, or a YAML file.")] = None,
    collectives: Annotated[
        Path | None, option("Timed collectives instead of steps: a table, or what nccl-tests prints.")
    ] = None,
    profile: Annotated[
        Path | None,
        option("A profile of torch.profiler instead: operators beside predictions, and what they determine."),
    ] = None,
    cluster: Annotated[
        str | None, option("What the collectives were measured on, where they leave a node, instead of --accelerator.")
    ] = None,
    transport: Annotated[
        str | None, option("What carries the collectives (such as nccl-hopper), if not what the accelerator names.")
    ] = None,
    gpus: Annotated[int | None, count_option("--gpus", "GPUs of the collectives, if the file does not say.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the calibration (.yaml).")] = None,
    as_json: Json = False,
) -> None:
    """Fit an accelerator's parameters to measured steps or a profile, or a transport to timed collectives."""
    given = locals()
    from lightloom.app.api.calibrating import calibrate as fit_to

    check_outputs(files=[out])
    fitted = fit_to(**arguments(fit_to, given))
    if out is not None:
        fitted.save(out)
    parts = _table_parts(fitted, fitted.title, fitted.left_columns, fitted.remarks())
    print_result(fitted.to_json(), as_json, parts, {"calibration": out})
