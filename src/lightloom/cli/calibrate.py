"""``lightloom calibrate``: an accelerator's parameters, fitted to measured steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lightloom.cli.options import Json, count_option, option
from lightloom.cli.output import check_outputs, print_result
from lightloom.core.errors import ConfigError
from lightloom.core.files import write_atomically
from lightloom.core.provenance import provenance
from lightloom.core.units import format_bandwidth, format_time
from lightloom.reports.console import plain_table
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from lightloom.accelerators.calibrated import Calibration
    from lightloom.calibration.tiers import TierCalibration

SCHEMA = "lightloom.calibration/1"
COLLECTIVES_SCHEMA = "lightloom.collectives-calibration/1"


def calibrate(
    *,
    rows: Annotated[
        Path | None,
        typer.Argument(
            metavar="ROWS.csv", help="A table of measured steps; also a name in the folder $LIGHTLOOM_MEASURED."
        ),
    ] = None,
    accelerator: Annotated[str, option("What was measured on: a name of the catalog, or a YAML file.")],
    collectives: Annotated[
        Path | None, option("Timed collectives instead of steps: a table, or what nccl-tests prints.")
    ] = None,
    gpus: Annotated[int | None, count_option("--gpus", "GPUs of the collectives, if the file does not say.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the calibration (.yaml).")] = None,
    as_json: Json = False,
) -> None:
    """Fit an accelerator's parameters to steps measured on it, or its links to timed collectives."""
    check_outputs(files=[out])
    if (rows is None) == (collectives is None):
        raise ConfigError("expected a table of measured steps or --collectives, one of the two")
    if collectives is not None:
        _calibrate_collectives(collectives, accelerator, gpus, out, as_json)
    elif rows is not None:
        _calibrate_steps(rows, accelerator, out, as_json)


def _calibrate_steps(rows: Path, accelerator: str, out: Path | None, as_json: bool) -> None:
    from lightloom.calibration.calibrate import calibrate as fit_to
    from lightloom.calibration.calibrate import fits_of
    from lightloom.calibration.document import write_calibration
    from lightloom.calibration.rows import read_steps

    steps = read_steps(rows)
    with progress("Fits", fits_of(len(steps))) as advance:
        calibration = fit_to(steps, accelerator, advance)
    if out is not None:
        write_calibration(calibration, out)
    document = {"schema": SCHEMA, **calibration.model_dump(mode="json")}
    document["provenance"] = provenance([steps.sha256, accelerator], seed=0)
    print_result(document, as_json, _parts(calibration), {"calibration": out})


def _calibrate_collectives(
    collectives: Path, accelerator: str, gpus: int | None, out: Path | None, as_json: bool
) -> None:
    import yaml

    from lightloom.accelerators.load import load_accelerator
    from lightloom.calibration.collective_rows import read_collectives
    from lightloom.calibration.tiers import fit_tiers

    measured = read_collectives(collectives, gpus=gpus)
    tiers = fit_tiers(measured, load_accelerator(accelerator))
    fitted = {"accelerator": accelerator, "tiers": [tier.model_dump(mode="json") for tier in tiers]}
    if out is not None:
        write_atomically(out, yaml.safe_dump(fitted, sort_keys=False, width=120))
    document = {"schema": COLLECTIVES_SCHEMA, **fitted, "provenance": provenance([measured.sha256, accelerator])}
    print_result(document, as_json, _tier_parts(tiers), {"calibration": out})


def _tier_parts(tiers: Sequence[TierCalibration]) -> Iterator[str | Table]:
    """A row for each tier, and what the rows leave open."""
    cells = [
        (
            tier.tier,
            str(tier.rows.count),
            format_time(tier.values.base_latency),
            format_time(tier.values.latency_per_peer),
            format_bandwidth(tier.values.bandwidth),
            format_bandwidth(tier.values.pass_bandwidth),
            f"{tier.mean_error:.1%}",
        )
        for tier in tiers
    ]
    columns = ("tier", "rows", "base latency", "latency per peer", "bandwidth", "pass bandwidth", "mean error")
    yield plain_table(columns, cells, title=f"links fitted to {tiers[0].rows.table}")
    for tier in tiers:
        if undetermined := tier.undetermined():
            yield f"{tier.tier}: the rows say little about {', '.join(undetermined)}: near their priors"


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
