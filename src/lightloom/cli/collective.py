"""``lightloom collective``: one collective on one fabric, every algorithm beside its lower bound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from lightloom.collectives.cost.price import CostModel
    from lightloom.collectives.evaluate import Evaluation, Refusal
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
    count = read_count(ranks, "--ranks")
    network = load_fabric(fabric, count, chosen)
    exchange = Collective(cast(Any, kind), count, _total(nbytes, nbytes_per_rank, count))
    if figure is not None:
        check_format(figure)
        check_writable(figure)
    evaluations, refusals = _evaluate(exchange, network, algorithm, known_cost_model(cost_model))
    origin = provenance([kind, exchange.nbytes, network.model_dump(mode="json"), algorithm, cost_model])
    if figure is not None:
        from lightloom.reports.figures.wavelength_map import wavelength_map

        save(wavelength_map(evaluations[0].schedule, network), figure, provenance_line(origin))
    document = {
        "schema": "lightloom.collective/1",
        "kind": kind,
        "ranks": count,
        "nbytes": exchange.nbytes,
        "cost_model": cost_model,
        "fabric": network.model_dump(mode="json"),
        "rows": [_row(evaluation) for evaluation in evaluations],
        "refused": [refusal.to_json() for refusal in refusals],
        "provenance": origin,
    }
    if as_json:
        print_json(document)
    else:
        _print_table(evaluations, refusals, exchange, cost_model, figure, provenance_line(origin))


def _total(nbytes: str | None, nbytes_per_rank: str | None, ranks: int) -> float:
    from lightloom.core.errors import ConfigError
    from lightloom.core.units import parse

    if (nbytes is None) == (nbytes_per_rank is None):
        raise ConfigError("give either --nbytes TOTAL or --nbytes-per-rank SIZE")
    return parse(nbytes, "size") if nbytes is not None else parse(str(nbytes_per_rank), "size") * ranks


def _evaluate(
    collective: Collective, fabric: Fabric, algorithm: str, cost_model: CostModel
) -> tuple[list[Evaluation], list[Refusal]]:
    from lightloom.collectives.evaluate import evaluate_all
    from lightloom.collectives.registry import algorithms, find
    from lightloom.core.errors import UnsupportedError
    from lightloom.reports.progress import progress

    candidates = list(algorithms().values()) if algorithm == "all" else [find(algorithm)]
    with progress("Schedules", len(candidates)) as advance:
        evaluations, refusals = evaluate_all(collective, fabric, cost_model, candidates, advance=lambda: advance(1))
    if not evaluations and algorithm != "all":
        raise UnsupportedError(refusals[0].why)
    if not evaluations:
        failures = "".join(f"; {refusal.algorithm}: {refusal.why}" for refusal in refusals if refusal.failed)
        raise UnsupportedError(
            f"no algorithm serves {collective.kind} on a {getattr(fabric, 'kind', 'fabric')}{failures}"
        )
    return evaluations, refusals


def _row(evaluation: Evaluation) -> dict[str, Any]:
    cost = evaluation.cost
    return {
        "algorithm": evaluation.algorithm.name,
        "steps": cost.steps,
        "time_s": cost.time,
        "lower_bound_s": evaluation.bound.time,
        "bound_by": evaluation.bound.bound_by,
        "energy_j": cost.energy,
        "verified": True,
        "transmission_s": cost.transmission,
        "conversion_s": cost.conversion,
        "reconfiguration_s": cost.reconfiguration,
        "static_circuits": cost.static,
        "notes": list(evaluation.schedule.notes),
    }


def _print_table(
    evaluations: list[Evaluation],
    refusals: list[Refusal],
    exchange: Collective,
    cost_model: str,
    figure: Path | None,
    origin: str,
) -> None:
    from lightloom.core.units import format_size, format_time
    from lightloom.reports.console import collective_table, make_console
    from lightloom.reports.report import collective_rows

    console = make_console()
    title = f"{exchange.kind} of {format_size(exchange.nbytes)} over {exchange.ranks} ranks, {cost_model} cost"
    console.print(collective_table(collective_rows(evaluations), console.width, title=title))
    bound = evaluations[0].bound
    console.print(f"every schedule verified; lower bound {format_time(bound.time)}, set by {bound.bound_by}")
    for refusal in refusals:
        if refusal.failed:
            console.print(f"refused {refusal.algorithm}: {refusal.why}", markup=False, soft_wrap=True)
    console.print(origin, style="dim")
    if figure is not None:
        console.print(f"drawn: {figure}", soft_wrap=True)
