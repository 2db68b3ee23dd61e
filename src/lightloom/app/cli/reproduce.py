"""``lightloom reproduce``: a paper's tables and figures, ours beside theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from lightloom.app.cli.options import OutFile, Shown
from lightloom.core.claims import SCHEMA, counts_in_words, status_counts
from lightloom.core.errors import ConfigError
from lightloom.core.results import content_hash, provenance
from lightloom.reports.console import claims_table, make_console
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from lightloom.papers.study import Study


def reproduce(
    study: str | None = None,
    *,
    report: OutFile = None,
    work: Path | None = None,
    data: Path | None = None,
) -> Shown:
    """Regenerate what a paper printed and set it beside the paper; rows that deviate stay and say why.

    Args:
        study: One study, e.g. optree; without it all of them.
        report: Write the rows and figures as a self-contained HTML page.
        work: Repeat the study's long measurements here (inceptionn, optinc: training runs, hours) and use them; a
            folder that already holds some of them is resumed.
        data: Folder with the data sets, for --work; $LIGHTLOOM_DATA unless given.
    """
    from lightloom.papers.study import find, names

    if work is not None and study is None:
        raise ConfigError("--work needs one study, e.g. lightloom reproduce inceptionn --work runs")
    chosen = [study] if study is not None else list(names())
    runs = [find(name) for name in chosen]
    if work is not None and runs[0].measures:
        with progress("Training runs", runs[0].job_count()) as advance:
            runs[0].measure(work, data, advance)
    results = []
    with progress("Studies", len(runs)) as advance:
        for run in runs:
            results.append(run(work))
            advance(1)
    rows = [claim.to_json() for result in results for claim in result.claims]
    origin = provenance(["reproduce", *chosen, *([] if work is None else [content_hash(rows)])])
    if report is not None:
        from lightloom.papers.page import write_page

        write_page(results, report, origin)
    assumptions = {result.name: list(result.assumptions) for result in results}
    counts = {result.name: status_counts(result.claims) for result in results}
    document = {"schema": SCHEMA, "rows": rows, "counts": counts, "assumptions": assumptions, "provenance": origin}
    return Shown(document, _parts(results), {"report": report})


def _parts(results: Iterable[Study]) -> Iterator[str | Table]:
    """Yield for each study a table of its claims, how many agree and deviate, and what it assumes."""
    console = make_console()
    width = console.width if console.is_terminal else None
    for result in results:
        yield claims_table(result.claims, width, title=f"{result.name}: {result.paper}")
        yield f"{result.name}: {counts_in_words(result.claims)}"
        yield from (f"assumed: {assumption}" for assumption in result.assumptions)
