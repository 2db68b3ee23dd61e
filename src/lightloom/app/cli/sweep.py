"""``lightloom sweep``: an experiment over many collectives and plans, computed by several processes, resumed."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import typer

from lightloom.app.cli.options import Shown
from lightloom.core.answer import MOST_ROWS, Answer
from lightloom.core.results import Document
from lightloom.planning.sweeps.experiment import points_of, read_experiment
from lightloom.planning.sweeps.page import contests, headline, sweep_report, wins
from lightloom.planning.sweeps.run import Swept
from lightloom.planning.sweeps.run import sweep as run
from lightloom.planning.sweeps.workers import DONE, FAILED, REFUSED, Row, SearchStopped, Workers
from lightloom.reports.console import answer_parts
from lightloom.reports.html import write
from lightloom.reports.progress import progress
from lightloom.reports.report import PAGE_WIDTH

_KINDS = {"collective": "collectives", "plan": "training steps"}


def sweep(experiment: Path, *, out: Path | None = None, workers: str | None = None) -> Shown:
    """Compute every point of an experiment that its folder lacks; results as Parquet, and one page.

    Example: lightloom sweep examples/sweep.yaml --workers 4

    Args:
        experiment: A YAML file; see docs/sweeps.md.
        out (FOLDER): Folder of the results; out/ and the experiment's name without it.
        workers (N|dask:ADDRESS|ray:ADDRESS): Processes on this machine, or the cluster of a scheduler; a process for
            each core without it.

    Returns:
        The result to print: who is fastest how often; its exit code is 1 where a point failed, and 130 where Ctrl-C
            left points out.

    Raises:
        ConfigError: an experiment that cannot be read, or a folder of another sweep, in use or that cannot be written
            to.
        typer.Exit: Ctrl-C before there was a result (130).
    """
    spread, request = Workers.read(workers), read_experiment(experiment)
    points = points_of(request)
    folder = Path("out") / request.name if out is None else out
    try:
        with progress(request.name, len(points)) as advance:

            def tell(rows: Collection[Row]) -> None:
                """Show who is fastest most often so far beside the progress."""
                advance.tell(lambda: headline(rows))

            result = run(request.name, points, folder, spread, advance, tell)
    except KeyboardInterrupt as stopped:
        typer.echo(f"interrupted: {folder} keeps what is finished; the same command resumes", err=True)
        if not isinstance(stopped, SearchStopped):
            raise typer.Exit(130) from None
        result = stopped.result
    document = {
        "schema": "lightloom.sweep/1",
        "name": result.name,
        "points": len(points),
        "computed": result.computed,
        "unused": result.unused,
        **{status: result.statuses[status] for status in (DONE, REFUSED, FAILED)},
        "provenance": dict(result.provenance),
    }
    answer = _answer(result, document)
    if result.left:
        return Shown(document | {"not_computed": result.left}, answer_parts(answer), code=130)
    report = replace(sweep_report(result, request.description), answer=(*answer.best[1:], *answer.foot(PAGE_WIDTH)))
    written = {"results": result.results, "report": write(report, folder / "report.html")}
    files = {name: str(path) for name, path in written.items()}
    return Shown(document | files, answer_parts(answer), written, code=1 if document["failed"] else 0)


def _answer(result: Swept, document: Document) -> Answer:
    """Return the answer for terminal and page: who is fastest most often among collectives and among training steps; a
    row for each algorithm or plan that is fastest somewhere (the first eight; collectives come first) with how often it
    is, and how often no other is as fast; and how many points were computed, taken from an earlier run, done, refused
    or failed, were left by Ctrl-C, and the most frequent reason of those not done.

    ``document`` has the numbers of ``points`` and of those ``done``, ``refused`` and ``failed``.
    """
    rows = [
        {"fastest": name, "among": words, "times": times, "alone": alone}
        for what, words in _KINDS.items()
        for name, times, alone in wins(contests(result.rows, what), words).rows
    ]
    lines = [
        headline(result.rows) or "nothing could be computed",
        f"{document['points']:,} points: {result.computed:,} computed, {len(result.rows) - result.computed:,} taken "
        f"from an earlier run; {document[DONE]} done, {document[REFUSED]} refused, {document[FAILED]} failed",
    ]
    if result.unused:
        lines.append(f"{result.unused} rows in the folder belong to other points or to other code, and are left out")
    limit = [f"{result.left} points were not computed"] if result.left else []
    reasons = Counter(row["why"] for row in result.rows if row["status"] != DONE)
    limit += [f"most often refused: {why} ({count})" for why, count in reasons.most_common(1)]
    return Answer(
        question=f"Which algorithms and plans are fastest in {result.name}?",
        best=lines,
        rows=rows[:MOST_ROWS],
        legend="alone: no other one is as fast" if rows else "",
        hidden=max(len(rows) - MOST_ROWS, 0),
        everything="report.html",
        limit="; ".join(limit),
    )
