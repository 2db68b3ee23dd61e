"""``lightloom collective``: one collective on one fabric, every algorithm beside its lower bound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from lightloom.collectives.evaluate import Evaluation
    from lightloom.collectives.spec import Collective
    from lightloom.fabrics.base import Fabric


def collective(
    kind: Annotated[
        str, typer.Argument(help="all-gather, all-reduce, all-to-all, broadcast, reduce or reduce-scatter.")
    ],
    fabric: Annotated[str, typer.Option(help="A fabric of the catalog, or a YAML file.")],
    ranks: Annotated[str, typer.Option(metavar="N", help="Number of ranks.")],
    wavelengths: Annotated[str | None, typer.Option(metavar="W", help="Wavelengths of a fibre.")] = None,
    nbytes: Annotated[
        str | None,
        typer.Option(help="What every rank holds in the end (all-gather) or at the start (all others)."),
    ] = None,
    nbytes_per_rank: Annotated[str | None, typer.Option(help="The same, divided by the number of ranks.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="field=value of the fabric; repeatable.")] = None,
    algorithm: Annotated[str, typer.Option(help="One algorithm, or all that the fabric admits.")] = "all",
    cost_model: Annotated[
        str, typer.Option(help="physical (change circuits when needed) or paper (every step costs d/B + a).")
    ] = "physical",
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw the fastest schedule: wavelength, link, time (.svg, .png, .pdf)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Build, verify and cost schedules of one collective."""
    from lightloom.cli.output import print_json, read_count, read_settings
    from lightloom.collectives.cost.stepped import known_cost_model
    from lightloom.collectives.spec import Collective
    from lightloom.core.files import check_writable
    from lightloom.core.provenance import provenance, provenance_line
    from lightloom.fabrics.load import load_fabric
    from lightloom.reports.figures.base import check_format, save

    chosen = read_settings(settings or [])
    if wavelengths is not None:
        chosen["wavelengths"] = read_count(wavelengths, "--wavelengths")
    members = read_count(ranks, "--ranks")
    on = load_fabric(fabric, members, chosen)
    wanted = Collective(cast(Any, kind), members, _total(nbytes, nbytes_per_rank, members))
    if figure is not None:
        check_format(figure)
        check_writable(figure)
    found, refused = _evaluate(wanted, on, algorithm, known_cost_model(cost_model))
    origin = provenance([kind, wanted.nbytes, on.model_dump(mode="json"), algorithm, cost_model])
    if figure is not None:
        from lightloom.reports.figures.wavelength_map import wavelength_map

        save(wavelength_map(found[0].schedule, on), figure, provenance_line(origin))
    document = {
        "schema": "lightloom.collective/1",
        "kind": kind,
        "ranks": members,
        "nbytes": wanted.nbytes,
        "cost_model": cost_model,
        "fabric": on.model_dump(mode="json"),
        "rows": [_row(each) for each in found],
        "refused": refused,
        "provenance": origin,
    }
    if as_json:
        print_json(document)
    else:
        _print_table(found, wanted, cost_model, figure, provenance_line(origin))


def _total(nbytes: str | None, nbytes_per_rank: str | None, ranks: int) -> float:
    from lightloom.core.errors import ConfigError
    from lightloom.core.units import parse

    if (nbytes is None) == (nbytes_per_rank is None):
        raise ConfigError("give either --nbytes TOTAL or --nbytes-per-rank SIZE")
    return parse(nbytes, "size") if nbytes is not None else parse(str(nbytes_per_rank), "size") * ranks


def _evaluate(
    wanted: Collective, on: Fabric, algorithm: str, cost_model: Any
) -> tuple[list[Evaluation], list[dict[str, str]]]:
    from lightloom.collectives.evaluate import evaluate, fastest_first
    from lightloom.collectives.registry import admitted, algorithms, find
    from lightloom.core.errors import UnsupportedError
    from lightloom.reports.progress import progress

    tried = admitted(wanted.kind, on, cost_model) if algorithm == "all" else [find(algorithm)]
    if not tried:
        raise UnsupportedError(f"no algorithm serves {wanted.kind} on a {getattr(on, 'kind', 'fabric')}")
    refused = []
    if algorithm == "all":
        reasons = [(each.name, each.refusal(wanted.kind, on, cost_model)) for each in algorithms().values()]
        refused = [{"algorithm": name, "why": why} for name, why in reasons if why]
    found = []
    with progress("Schedules", len(tried)) as advance:
        for each in tried:
            found.append(evaluate(each, wanted, on, cost_model))
            advance(1)
    return fastest_first(found), refused


def _row(each: Evaluation) -> dict[str, Any]:
    cost = each.cost
    return {
        "algorithm": each.algorithm.name,
        "steps": cost.steps,
        "time_s": cost.time,
        "lower_bound_s": each.bound.time,
        "bound_by": each.bound.bound_by,
        "energy_j": cost.energy,
        "verified": True,
        "transmission_s": cost.transmission,
        "conversion_s": cost.conversion,
        "reconfiguration_s": cost.reconfiguration,
        "static_circuits": cost.static,
        "notes": list(each.schedule.notes),
    }


def _print_table(
    found: list[Evaluation], wanted: Collective, cost_model: str, figure: Path | None, origin: str
) -> None:
    from lightloom.core.units import format_size, format_time
    from lightloom.reports.console import collective_table, make_console
    from lightloom.reports.report import collective_rows

    console = make_console()
    title = f"{wanted.kind} of {format_size(wanted.nbytes)} over {wanted.ranks} ranks, {cost_model} cost"
    console.print(collective_table(collective_rows(found), console.width, title=title))
    bound = found[0].bound
    console.print(f"every schedule verified; lower bound {format_time(bound.time)}, set by {bound.bound_by}")
    console.print(origin, style="dim")
    if figure is not None:
        console.print(f"drawn: {figure}", soft_wrap=True)
