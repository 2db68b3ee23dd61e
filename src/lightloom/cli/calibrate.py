"""``lightloom calibrate``: an accelerator's parameters, fitted to what was measured on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lightloom.cli.options import Json, count_option, option
from lightloom.cli.output import check_outputs, print_result
from lightloom.reports.console import plain_table

if TYPE_CHECKING:
    from lightloom.api.calibrations import Fitted


_SHOWN = 30
"""Rows on the terminal; JSON holds all."""


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
    from lightloom.api.calibrating import calibrate as fit_to

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
    print_result(fitted.to_json(), as_json, _parts(fitted), {"calibration": out})


def _parts(fitted: Fitted) -> Iterator[str | Table]:
    """The table of fitted values, and what is to be said about them."""
    rows = fitted.display_rows()
    cells = [[str(cell) for cell in row.values()] for row in rows[:_SHOWN]]
    yield plain_table(list(rows[0]), cells, title=fitted.title, left=fitted.left_columns)
    if len(rows) > _SHOWN:
        yield f"... and {len(rows) - _SHOWN} more rows, in --json"
    yield from fitted.remarks()
