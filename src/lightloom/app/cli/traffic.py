"""``lightloom traffic``: several jobs on one cluster, each alone and beside the others."""

from collections.abc import Iterator
from typing import Annotated

from rich.table import Table

from lightloom.app.api.traffic import TrafficResult
from lightloom.app.api.traffic import traffic as compare
from lightloom.app.cli.options import FigureFile, Shown, draw, read_settings
from lightloom.core.units import format_time
from lightloom.reports.console import rows_table


def traffic(
    *,
    jobs: Annotated[list[str] | None, "--job"] = None,
    cluster: str = "dgx-h100-64",
    set: list[str] | None = None,
    figure: FigureFile = None,
) -> Shown:
    """Place several jobs on one cluster: each one's step alone, and while the others use the same links.

    Args:
        jobs (JOB): A job: MODEL@RANKS:tp=4,global-batch=64 or KIND@RANKS:nbytes=64MiB; RANKS is first-last or
            first-last/step. Repeatable, at least two.
        cluster: A cluster of the catalog, or a YAML file.
        set: field=value of the cluster; repeatable.
        figure: Draw what of each link every job takes (.svg, .png, .pdf).
    """
    result = compare(jobs or (), cluster, set=read_settings(set))
    document = result.to_json()
    return Shown(document, _parts(result), {"drawn": draw(figure, result.figure, document)})


def _parts(result: TrafficResult) -> Iterator[str | Table]:
    """Yield a table of the jobs, a line for each exchange that others slow by more than 0.05 %, and how the fabric is
    shared."""
    yield rows_table(result.display_rows(), title=result.title, left=("job", "ranks", "plan"))
    for each in result.jobs:
        for exchange in each.alone.exchanges:
            longer = each.slowdowns.get(exchange.sort, 1.0)
            if longer > 1.0005:
                yield (
                    f"{each.alone.job.label}: {exchange.sort}, {format_time(exchange.busy)} of a step alone, take "
                    f"{longer:.3f} times as long"
                )
    yield result.shared
