"""``lightloom collective``: one collective on one fabric, every algorithm beside its lower bound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from rich.table import Table
from rich.text import Text

from lightloom.api.collectives import ALL, CollectiveRanking
from lightloom.api.collectives import collective as rank
from lightloom.cli.options import (
    FabricName,
    Json,
    Kind,
    Nbytes,
    NbytesPerRank,
    Permutation,
    Ranks,
    Settings,
    Sizes,
    Wavelengths,
    figure_option,
    option,
)
from lightloom.cli.output import check_outputs, print_result, read_settings
from lightloom.cli.site import Amortisation, Electricity, Maintenance, Pue
from lightloom.core.provenance import provenance_line
from lightloom.core.units import format_time
from lightloom.reports.console import collective_table, make_console, plain_table
from lightloom.reports.figures.base import save
from lightloom.reports.ledger import TITLE, ledger_notes, ledger_rows

_CostModel = Annotated[str, option("physical (change circuits when needed) or paper (every step costs d/B + a).")]


def collective(
    *,
    kind: Kind,
    fabric: FabricName,
    ranks: Ranks,
    wavelengths: Wavelengths = None,
    nbytes: Nbytes = None,
    nbytes_per_rank: NbytesPerRank = None,
    permutation: Permutation = None,
    sizes: Sizes = None,
    settings: Settings = None,
    algorithm: Annotated[str, option("One algorithm, or all that the fabric admits.")] = ALL,
    cost_model: _CostModel = "physical",
    pue: Pue = None,
    electricity: Electricity = None,
    amortisation: Amortisation = None,
    maintenance: Maintenance = None,
    figure: Annotated[Path | None, figure_option("Draw the fastest schedule: wavelength, link, time")] = None,
    as_json: Json = False,
) -> None:
    """Build, verify and cost schedules of one collective."""
    check_outputs([figure])
    ranking = rank(
        kind,
        fabric,
        ranks,
        nbytes,
        nbytes_per_rank=nbytes_per_rank,
        permutation=permutation,
        sizes=sizes,
        algorithm=algorithm,
        cost_model=cost_model,
        site={"pue": pue, "electricity": electricity, "amortisation": amortisation, "maintenance": maintenance},
        set=read_settings(settings, wavelengths),
    )
    document = ranking.to_json()
    if figure is not None:
        save(ranking.winner.figure(), figure, provenance_line(document["provenance"]))
    print_result(document, as_json, _parts(ranking), {"drawn": figure})


def _parts(ranking: CollectiveRanking) -> Iterator[str | Text | Table]:
    """The table of algorithms, the bound, and the algorithms that failed."""
    bound = ranking.winner.lower_bound
    rows = [schedule.report_row() for schedule in ranking]
    yield collective_table(rows, make_console().width, title=ranking.title)
    yield f"every schedule verified; lower bound {format_time(bound.time)}, set by {bound.bound_by}"
    if any(row.times_repeated for row in rows):
        setup = ranking.winner.cost.setup
        yield (
            f"steady: times the bound of {format_time(bound.time - setup)} without the first set-up of circuits, which "
            f"takes {format_time(setup)}"
        )
    if (seconds := ranking.library_time) is not None:
        yield f"the fabric's collective library takes {format_time(seconds)}, by a closed form that is no schedule"
    elif not ranking.fabric.exclusive and ranking.fabric.library is None:
        yield "software adds nothing: the fabric states no transport"
    ledger = {f"{ranking.fabric.kind_name}, {ranking.winner.algorithm}": ranking.ledger_of(ranking.winner)}
    yield plain_table(
        ("", *ledger), ledger_rows(ledger, "run"), title=f"{TITLE.lower()} of the fabric", left=("", *ledger)
    )
    yield from (Text(line, style="dim") for line in ledger_notes(ledger))
    yield from (f"warning: {line}" for line in ranking.fabric.warnings)
    for refusal in ranking.refused:
        if refusal.failed:
            yield f"refused {refusal.algorithm}: {refusal.why}"
