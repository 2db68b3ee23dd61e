"""``lightloom reproduce``: a paper's tables and figures, ours beside theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from lightloom.app.cli.options import ReportFile, Shown
from lightloom.core.answer import MOST_ROWS
from lightloom.core.claims import SCHEMA, STATUSES, Claim, Status, status_counts
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document, attributes, cells, content_hash, provenance
from lightloom.papers.study import Study
from lightloom.reports.console import Parts, claims_table, make_console, rows_table, screen
from lightloom.reports.progress import progress


def reproduce(
    study: str | None = None,
    *,
    report: ReportFile = None,
    run: str | None = None,
    work: Path | None = None,
    data: Path | None = None,
    all: bool = False,
) -> Shown:
    """Regenerate what a paper printed and set it beside the paper; rows that deviate stay and say why.

    `lightloom reproduce optree --report optree.html` writes every row and figure of one paper.

    Args:
        study: One study, e.g. optree; all of them if not given.
        report: Write the rows and figures as a self-contained HTML page.
        run: Repeat one long experiment of the study, e.g. comparison of sipml, and use its measurements; an unknown
            name lists them.
        work: Folder of the measurements, runs/STUDY unless given: what it holds already is not repeated. Without --run
            all long experiments are repeated there (inceptionn, optinc: hours of training).
        data: Folder with the data sets of experiments; $LIGHTLOOM_DATA unless given.
        all: Show every row with the reason for its deviation, and what the studies assume.

    Returns:
        The result to print: the printed numbers beside ours.

    Raises:
        ConfigError: ``run`` or ``work`` without a study.
        UnknownNameError: no such study or experiment.
    """
    from lightloom.exchange.datasets import data_folder
    from lightloom.papers.study import find, names

    repeats = run is not None or work is not None
    if repeats and study is None:
        raise ConfigError("--run and --work need one study, e.g. lightloom reproduce sipml --run comparison")
    chosen = [study] if study is not None else list(names())
    studies = [find(name) for name in chosen]
    if repeats:
        experiments = studies[0].experiments(run)
        work = work or Path("runs", chosen[0])
        with progress("Experiments", sum(each.jobs() for each in experiments)) as advance:
            for each in experiments:
                each.measure(work, data_folder(data) if each.data else work, advance)
    with progress("Studies", len(studies)) as advance:
        results = [entry(work) for entry in advance.over(studies)]
    rows = [claim.to_json() for result in results for claim in result.settling]
    rows += [claim.to_json() | {"status": None} for result in results for claim in result.findings]
    numbers = {result.name: [asdict(number) for number in result.numbers] for result in results}
    origin = provenance(["reproduce", *chosen, *([] if work is None else [content_hash(rows)])])
    if report is not None:
        from lightloom.papers.page import write_page

        write_page(results, report, origin)
    assumptions = {result.name: list(result.assumptions) for result in results}
    counts = {result.name: status_counts(result.numbers) | {"findings": len(result.findings)} for result in results}
    document = {"schema": SCHEMA, "rows": rows, "numbers": numbers, "counts": counts, "assumptions": assumptions}
    parts = _every_row(results) if all else _answer(results)
    return Shown(document | {"provenance": origin}, parts, {"report": report})


_SHORT: dict[Status, str] = {"by construction": "constructed", "not reproducible": "absent"}
"""Headings of columns that are shorter than the status."""


def _answer(results: Sequence[Study]) -> Parts:
    """Return what the terminal shows: how many printed numbers agree, with a row for each study, or of one study the up
    to eight deviating rows that deviate most, with paper, ours and the difference in per cent of the larger number.
    Where nothing printed is listed, it says how many findings are ours. Of numbers that deviate or cannot be reproduced
    none agrees; all others count as agreeing."""
    numbers = [number for result in results for number in result.numbers]
    findings = sum(len(result.findings) for result in results)
    counts = status_counts(numbers)
    agree = len(numbers) - counts.get("deviates", 0) - counts.get("not reproducible", 0)
    own = counts.get("derived", 0) + counts.get("by construction", 0)
    best = [
        f"{agree} of {len(numbers)} printed numbers agree, {counts.get('deviates', 0)} deviate",
        f"{counts.get('match', 0)} reproduce an experiment, {counts.get('stand-in', 0)} hold in another one, {own} are "
        f"inputs or follow from printed figures; {findings} findings are ours",
    ]
    if not numbers:
        best = [f"{findings} findings of ours"]
    assumed = sum(len(result.assumptions) for result in results)
    more = ["--all: every row, and why", "--report page.html"]
    if len(results) > 1:
        rows = []
        for result in results:
            of_study = status_counts(result.numbers)
            rows.append({"study": result.name, "printed": str(len(result.numbers))})
            rows[-1] |= {_SHORT.get(status, status): str(of_study.get(status, 0)) for status in STATUSES}
            rows[-1]["findings"] = str(len(result.findings))
        question = f"What {len(results)} papers printed, beside ours"
        legend = "constructed: inputs, and the papers' own formulas, which show nothing; absent: nothing to compare"
        more = ["lightloom reproduce STUDY", *more]
        return screen(question, best, rows, all=True, legend=legend, limit=f"{assumed} assumptions: --all", more=more)
    compared = results[0].settling or results[0].findings
    deviating = [(claim, _deviation(claim)) for claim in compared if claim.status == "deviates"]
    worst = sorted(deviating, key=lambda entry: -entry[1])[:MOST_ROWS]
    shown: list[Document] = [
        {"name": claim.id.partition(".")[2], "off": None if off < 0 else off, **attributes(claim, "paper ours unit")}
        for claim, off in worst
    ]
    return screen(
        f"{results[0].paper}: what it printed, beside ours",
        best,
        cells("deviates: {name} | paper: {paper:claim} | ours: {ours:claim} | unit: {unit} | off by: {off:.1%}", shown),
        hidden=len(results[0].claims) - len(worst),
        legend="off by: as a share of the larger number",
        limit=f"{assumed} assumptions where the paper leaves something open: --all",
        more=more,
    )


def _deviation(claim: Claim) -> float:
    """Return how far ours is from the paper's number, as a share (0 to 1, or up to 2 of opposite signs) of the larger
    magnitude; -1 where either is no number. At least one of two numbers must differ from 0."""
    paper, ours = claim.paper, claim.ours
    if isinstance(paper, str) or isinstance(ours, str) or paper is None or ours is None:
        return -1.0
    return abs(ours - paper) / max(abs(ours), abs(paper))


def _every_row(results: Iterable[Study]) -> Iterator[str | Table]:
    """Yield for each study a table of its claims, printed numbers that were settled without a row, findings of ours, a
    line of how many printed numbers have each status, and a line for each assumption."""
    console = make_console()
    width = console.width if console.is_terminal else None
    for result in results:
        yield claims_table(result.settling, width, title=f"{result.name}: {result.paper}")
        if stated := result.stated():
            yield rows_table(stated, title="printed, and settled without a row", left=list(stated[0]))
        yield claims_table(result.findings, width, title="findings of ours", judged=False)
        yield f"{result.name}: {result.counts()}"
        yield from (f"assumed: {assumption}" for assumption in result.assumptions)
