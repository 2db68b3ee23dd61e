"""``lightloom calibrate``: an accelerator's parameters, fitted to measured steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lightloom.cli.options import Json, option
from lightloom.cli.output import check_outputs, print_result
from lightloom.core.provenance import provenance
from lightloom.reports.console import plain_table
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from lightloom.calibration.document import Calibration

SCHEMA = "lightloom.calibration/1"


def calibrate(
    *,
    rows: Annotated[
        Path,
        typer.Argument(
            metavar="ROWS.csv", help="A table of measured steps; also a name in the folder $LIGHTLOOM_MEASURED."
        ),
    ],
    accelerator: Annotated[str, option("What the steps were measured on: a name of the catalog, or a YAML file.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the calibration (.yaml).")] = None,
    as_json: Json = False,
) -> None:
    """Fit an accelerator's parameters to steps measured on it."""
    from lightloom.calibration.calibrate import calibrate as fit_to
    from lightloom.calibration.calibrate import fits_of
    from lightloom.calibration.document import write_calibration
    from lightloom.calibration.rows import read_steps

    check_outputs(files=[out])
    steps = read_steps(rows)
    with progress("Fits", fits_of(len(steps))) as advance:
        calibration = fit_to(steps, accelerator, advance)
    if out is not None:
        write_calibration(calibration, out)
    document = {"schema": SCHEMA, **calibration.model_dump(mode="json")}
    document["provenance"] = provenance([steps.sha256, accelerator], seed=0)
    print_result(document, as_json, _parts(calibration), {"calibration": out})


def _parts(calibration: Calibration) -> Iterator[str | Table]:
    """The parameters before and after, and how well held-out rows are predicted."""
    rows = [
        (
            name,
            f"{parameter.prior:.4g} {parameter.unit}".strip(),
            f"{parameter.prior_spread:.0%}",
            f"{parameter.value:.4g} {parameter.unit}".strip(),
            f"{parameter.spread:.0%}",
            "rows" if parameter.determined else "prior",
            parameter.meaning,
        )
        for name, parameter in calibration.parameters.items()
    ]
    columns = ("parameter", "prior", "spread", "fitted", "left open", "rests on", "meaning")
    yield plain_table(columns, rows, title=calibration.description, left=("parameter", "rests on", "meaning"))
    error = calibration.cross_validated
    yield (
        f"held out in {error.folds} folds: mean error {error.mean:.1%}, median {error.median:.1%}, bias "
        f"{error.bias:+.1%}, nine of ten below {error.percentile_90:.1%}; 90 % intervals hold {error.coverage:.0%}"
    )
    if undetermined := calibration.undetermined():
        yield f"the rows say little about {', '.join(undetermined)}: near their priors"
