"""``lightloom reproduce``: a paper's tables and figures, ours beside theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    study: Annotated[str | None, typer.Argument(help="One study, e.g. optree; without it all of them.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write the rows and figures as a self-contained HTML page.")
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(
            help="Repeat the study's long measurements here (inceptionn, optinc: training runs, hours) and use them; a "
            "folder that already holds some of them is gone on with.",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the data sets, for --work; $LIGHTLOOM_DATA unless given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Regenerate what a paper printed and set it beside the paper; rows that deviate stay and say why."""
    from lightloom.cli.output import print_json
    from lightloom.core.claims import SCHEMA
    from lightloom.core.errors import ConfigError
    from lightloom.core.files import check_writable
    from lightloom.core.provenance import provenance, provenance_line
    from lightloom.reports.progress import progress
    from lightloom.studies.load import find, names

    if work is not None and study is None:
        raise ConfigError("--work needs one study, e.g. lightloom reproduce inceptionn --work runs")
    chosen = [study] if study is not None else list(names())
    runs = [find(name) for name in chosen]
    if report is not None:
        check_writable(report)
    results = []
    if work is not None and (measurements := runs[0].measurements) is not None:
        with progress("Training runs", measurements.job_count()) as advance:
            measurements.run(work, data, advance)
    with progress("Studies", len(runs)) as advance:
        for run in runs:
            results.append(run(work))
            advance(1)
    rows = [claim.to_json() for each in results for claim in each.claims]
    origin = provenance(["reproduce", *chosen])
    if report is not None:
        from lightloom.studies.page import write_page

        write_page(results, report, origin)
    if as_json:
        assumptions = {each.name: list(each.assumptions) for each in results}
        print_json({"schema": SCHEMA, "rows": rows, "assumptions": assumptions, "provenance": origin})
        return
    from lightloom.reports.console import claims_table, make_console

    console = make_console()
    for each in results:
        console.print(claims_table(each.claims, console.width, title=f"{each.name}: {each.paper}"))
        for assumption in each.assumptions:
            console.print(f"assumed: {assumption}")
    console.print(provenance_line(origin), style="dim")
    if report is not None:
        console.print(f"report: {report}", soft_wrap=True)
