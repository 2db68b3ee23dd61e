"""``lightloom collective``: one collective on one fabric, every algorithm beside its lower bound."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lightloom.api.collectives import ALL, CollectiveRanking
from lightloom.api.collectives import collective as rank
from lightloom.cli.options import FabricName, Json, Kind, NbytesPerRank, Ranks, Settings, Wavelengths, figure_option
from lightloom.cli.output import check_outputs, print_json, read_count, read_settings
from lightloom.core.provenance import provenance_line
from lightloom.core.units import format_time
from lightloom.reports.console import collective_table, make_console
from lightloom.reports.figures.base import save
from lightloom.reports.report import CollectiveRow

_Nbytes = Annotated[
    str | None,
    typer.Option(help="What every rank holds in the end (all-gather) or at the start (all others)."),
]
_CostModel = Annotated[
    str, typer.Option(help="physical (change circuits when needed) or paper (every step costs d/B + a).")
]


def collective(
    *,
    kind: Kind,
    fabric: FabricName,
    ranks: Ranks,
    wavelengths: Wavelengths = None,
    nbytes: _Nbytes = None,
    nbytes_per_rank: NbytesPerRank = None,
    settings: Settings = None,
    algorithm: Annotated[str, typer.Option(help="One algorithm, or all that the fabric admits.")] = ALL,
    cost_model: _CostModel = "physical",
    figure: Annotated[Path | None, figure_option("Draw the fastest schedule: wavelength, link, time")] = None,
    as_json: Json = False,
) -> None:
    """Build, verify and cost schedules of one collective."""
    check_outputs([figure])
    ranking = rank(
        kind,
        fabric,
        read_count(ranks, "--ranks"),
        nbytes,
        nbytes_per_rank=nbytes_per_rank,
        algorithm=algorithm,
        cost_model=cost_model,
        set=read_settings(settings, wavelengths),
    )
    document = ranking.to_json()
    if figure is not None:
        save(ranking.winner.figure(), figure, provenance_line(document["provenance"]))
    if as_json:
        print_json(document)
    else:
        _print(ranking, figure, provenance_line(document["provenance"]))


def _print(ranking: CollectiveRanking, figure: Path | None, origin: str) -> None:
    console, bound = make_console(), ranking.winner.lower_bound
    rows = [
        CollectiveRow(
            algorithm=schedule.algorithm,
            steps=schedule.cost.steps,
            time=schedule.time,
            lower_bound=schedule.lower_bound.time,
            bound_by=schedule.lower_bound.bound_by,
            energy=schedule.cost.energy,
        )
        for schedule in ranking
    ]
    console.print(collective_table(rows, console.width, title=ranking.title))
    console.print(f"every schedule verified; lower bound {format_time(bound.time)}, set by {bound.bound_by}")
    for refusal in ranking.refused:
        if refusal.failed:
            console.print(f"refused {refusal.algorithm}: {refusal.why}", markup=False, soft_wrap=True)
    console.print(origin, style="dim")
    if figure is not None:
        console.print(f"drawn: {figure}", soft_wrap=True)
