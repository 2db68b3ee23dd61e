"""``lightloom sweep``: an experiment over many collectives and plans, computed by several processes, resumed."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lightloom.app.cli.options import Options, Shown
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document
from lightloom.planning.sweeps.experiment import points_of, read_experiment
from lightloom.planning.sweeps.page import sweep_report
from lightloom.planning.sweeps.run import sweep as run
from lightloom.planning.sweeps.workers import DONE, FAILED, REFUSED, Workers
from lightloom.reports.html import write
from lightloom.reports.progress import progress


def sweep(
    experiment: Path,
    *,
    out: Path | None = None,
    spread: Annotated[partial[Workers], Options(Workers)],
) -> Shown:
    """Compute every point of an experiment that its folder lacks; results as Parquet, and one page.

    Args:
        experiment: A YAML file; see docs/sweeps.md.
        out (FOLDER): Folder of the results; out/ and the experiment's name without it.
        jobs: Processes on this machine; one for each core without it.
        dask (ADDRESS): Compute on the Dask cluster of this scheduler instead.
        ray (ADDRESS): Compute on this Ray cluster instead.
    """
    if "jobs" in spread.keywords and len(spread.keywords) > 1:
        raise ConfigError(f"--jobs {spread.keywords['jobs']}: expected without --dask and --ray, whose workers compute")
    workers = spread()
    request = read_experiment(experiment)
    points = points_of(request)
    folder = Path("out") / request.name if out is None else out
    try:
        with progress(request.name, len(points)) as advance:
            result = run(request.name, points, folder, workers, advance)
    except KeyboardInterrupt:
        typer.echo(f"interrupted: {folder} keeps what is finished; the same command resumes", err=True)
        raise typer.Exit(130) from None
    page = write(sweep_report(result, request.description), folder / "report.html")
    document = {
        "schema": "lightloom.sweep/1",
        "name": result.name,
        "points": len(result.rows),
        "computed": result.computed,
        "unused": result.unused,
        **{status: result.statuses[status] for status in (DONE, REFUSED, FAILED)},
        "results": str(result.results),
        "report": str(page),
        "provenance": dict(result.provenance),
    }
    written = {"results": result.results, "report": page}
    return Shown(document, _parts(document), written, code=1 if document["failed"] else 0)


def _parts(document: Document) -> Iterator[str]:
    """Yield lines on how many points were computed now and earlier, what became of them, and rows that are left out."""
    earlier = document["points"] - document["computed"]
    yield f"{document['points']} points: {document['computed']} computed, {earlier} taken from an earlier run"
    yield f"{document['done']} done, {document['refused']} refused, {document['failed']} failed; the rows say why"
    if document["unused"]:
        yield f"{document['unused']} rows in the folder belong to other points or to other code, and are left out"
    yield f"hash of the code that computed them: {document['provenance']['code']}"
