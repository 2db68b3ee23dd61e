"""``lightloom accuracy``: steps and collectives that others measured, predicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lightloom.app.cli.options import Json, check_outputs, count_option, figure_option, option, print_result
from lightloom.core.errors import ConfigError
from lightloom.core.results import provenance_line
from lightloom.reports.console import plain_table

if TYPE_CHECKING:
    from lightloom.app.api.accuracy import StepComparison
    from lightloom.app.api.calibrating import CollectiveAccuracy, Fitted
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
    from lightloom.planning.calibration.collectives import is_collectives

    check_outputs([figure])
    if any(is_profile_name(path) for path in rows):
        others: dict[str, object] = {
            "--calibration": calibration,
            "--cross-validate": cross_validate,
            "--transport": transport,
        }
        others |= {"--gpus": gpus, "--figure": figure}
        _profile(rows, cluster, [name for name, value in others.items() if value is not None], as_json)
        return
    if transport is not None or cluster is not None or gpus is not None or any(is_collectives(name) for name in rows):
        if calibration is not None or cross_validate is not None:
            raise ConfigError("--calibration and --cross-validate are of steps: expected --transport for collectives")
        _collectives(rows, cluster, transport, gpus, figure, as_json)
        return
    report = predict(rows, calibration=calibration, cross_validate=cross_validate)  # type: ignore[arg-type]
    if figure is not None:
        from lightloom.reports.figures.canvas import save

        save(report.figure(), figure, provenance_line(report.origin))
    print_result(report.to_json(), as_json, _accuracy_parts(report.tables), {"figure": figure})


def is_profile_name(path: Path) -> bool:
    """Return whether a file is called as profiles are."""
    return path.suffix == ".json" or path.suffixes[-2:] == [".json", ".gz"]


def _profile(paths: Sequence[Path], cluster: str | None, others: Sequence[str], as_json: bool) -> None:
    """Compare one profiled step with its prediction."""
    from lightloom.app.api.accuracy import compare_step

    if len(paths) > 1:
        raise ConfigError(f"{paths[0]} and {paths[1]}: expected one profile at a time")
    if others:
        raise ConfigError(f"{others[0]}: of tables: expected --cluster alone with a profile")
    comparison = compare_step(paths[0], cluster)
    print_result(comparison.to_json(), as_json, _profile_parts(comparison), {})


def _profile_parts(comparison: StepComparison) -> Iterator[str | Table]:
    rows = comparison.display_rows()
    cells = [[str(cell) for cell in row.values()] for row in rows]
    yield plain_table(list(rows[0]), cells, title=f"a step of {comparison.profile.name}", left=("part", "how"))
    yield from comparison.lines()


_SHOWN = 30
"""Timed collectives on the terminal; JSON holds all."""


def _collectives(
    tables: Sequence[Path],
    cluster: str | None,
    transport: str | None,
    gpus: int | None,
    figure: Path | None,
    as_json: bool,
) -> None:
    from lightloom.app.api.calibrating import collective_accuracy

    report = collective_accuracy(tables, cluster=cluster, transport=transport, gpus=gpus)
    if figure is not None:
        from lightloom.reports.figures.canvas import save

        save(report.figure(), figure, provenance_line(report.origin))
    print_result(report.to_json(), as_json, _collective_parts(report), {"figure": figure})


def _collective_parts(report: CollectiveAccuracy) -> Iterator[str | Table]:
    rows = report.display_rows()
    cells = [[str(cell) for cell in row.values()] for row in rows[:_SHOWN]]
    yield plain_table(list(rows[0]), cells, title="collectives, measured and predicted", left=("system", "collective"))
    if len(rows) > _SHOWN:
        yield f"... and {len(rows) - _SHOWN} more rows, in --json"
    yield from report.lines()


def _accuracy_parts(judged: Sequence[Accuracy]) -> Iterator[str | Table]:
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
    from lightloom.app.api.calibrating import calibrate as fit_to

    check_outputs(files=[out])
    fitted = fit_to(
        rows,
        accelerator=accelerator,
        collectives=collectives,
        profile=profile,
        cluster=cluster,
        transport=transport,
        gpus=gpus,
    )
    if out is not None:
        fitted.save(out)
    print_result(fitted.to_json(), as_json, _calibrate_parts(fitted), {"calibration": out})


def _calibrate_parts(fitted: Fitted) -> Iterator[str | Table]:
    """The table of fitted values, and what is to be said about them."""
    rows = fitted.display_rows()
    cells = [[str(cell) for cell in row.values()] for row in rows[:_SHOWN]]
    yield plain_table(list(rows[0]), cells, title=fitted.title, left=fitted.left_columns)
    if len(rows) > _SHOWN:
        yield f"... and {len(rows) - _SHOWN} more rows, in --json"
    yield from fitted.remarks()
