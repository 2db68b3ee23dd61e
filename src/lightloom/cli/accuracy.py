"""``lightloom accuracy``: steps and collectives that others measured, predicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lightloom.cli.options import Json, count_option, figure_option, option
from lightloom.cli.output import check_outputs, print_result
from lightloom.core.errors import ConfigError
from lightloom.core.provenance import provenance_line
from lightloom.reports.console import plain_table

if TYPE_CHECKING:
    from lightloom.api.collective_accuracy import CollectiveAccuracy
    from lightloom.api.step_comparison import StepComparison
    from lightloom.calibration.accuracy import Accuracy


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
    from lightloom.api.accuracy import accuracy as predict
    from lightloom.calibration.systems import is_collectives

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
        from lightloom.reports.figures.base import save

        save(report.figure(), figure, provenance_line(report.origin))
    print_result(report.to_json(), as_json, _parts(report.tables), {"figure": figure})


def is_profile_name(path: Path) -> bool:
    """Return whether a file is called as profiles are."""
    return path.suffix == ".json" or path.suffixes[-2:] == [".json", ".gz"]


def _profile(paths: Sequence[Path], cluster: str | None, others: Sequence[str], as_json: bool) -> None:
    """Compare one profiled step with its prediction."""
    from lightloom.api.step_comparison import compare_step

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
    from lightloom.api.collective_accuracy import collective_accuracy

    report = collective_accuracy(tables, cluster=cluster, transport=transport, gpus=gpus)
    if figure is not None:
        from lightloom.reports.figures.base import save

        save(report.figure(), figure, provenance_line(report.origin))
    print_result(report.to_json(), as_json, _collective_parts(report), {"figure": figure})


def _collective_parts(report: CollectiveAccuracy) -> Iterator[str | Table]:
    rows = report.display_rows()
    cells = [[str(cell) for cell in row.values()] for row in rows[:_SHOWN]]
    yield plain_table(list(rows[0]), cells, title="collectives, measured and predicted", left=("system", "collective"))
    if len(rows) > _SHOWN:
        yield f"... and {len(rows) - _SHOWN} more rows, in --json"
    yield from report.lines()


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
