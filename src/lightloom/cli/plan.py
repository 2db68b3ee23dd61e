"""``lightloom plan``: a model on a cluster, every plan ranked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lightloom.clusters.base import Cluster
    from lightloom.planner.compression import Compression
    from lightloom.planner.search import Candidate, PlanSearch
    from lightloom.workloads.graph import ComputeGraph


_SHOWN = 12
"""Plans on the terminal; pages and JSON hold all."""


def plan(
    model: Annotated[str, typer.Argument(help="A zoo name, package.module:factory, or file.py:factory.")],
    cluster: Annotated[str, typer.Option(help="A cluster of the catalog, or a YAML file.")] = "terarack-64",
    batch: Annotated[
        str | None, typer.Option(metavar="N", help="Samples per rank; the cluster's default without it.")
    ] = None,
    sequence_length: Annotated[
        str | None, typer.Option(metavar="N", help="Tokens per sample, for models that take tokens.")
    ] = None,
    strategy: Annotated[str, typer.Option(help="ddp, fsdp, or all.")] = "all",
    algorithm: Annotated[str, typer.Option(help="One algorithm, or all that the fabric admits.")] = "all",
    cost_model: Annotated[
        str, typer.Option(help="physical (change circuits when needed) or paper (every step costs d/B + a).")
    ] = "physical",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="field=value of the cluster, e.g. fabric.wavelengths=128 or ranks=32; repeatable."),
    ] = None,
    overlap: Annotated[bool, typer.Option(help="Communicate while computing.")] = True,
    compression: Annotated[
        str | None, typer.Option(metavar="CODEC", help="Compress gradients, e.g. inceptionn:2^-10; both are ranked.")
    ] = None,
    compression_profile: Annotated[
        Path | None, typer.Option(help="The model's profile; else the one that `compress profile` has kept.")
    ] = None,
    compression_ratio: Annotated[
        str | None, typer.Option(metavar="X", help="A ratio of your own instead of a measured one.")
    ] = None,
    compression_engine: Annotated[
        str | None,
        typer.Option(
            help="local (this host's kernel, measured; the default), nic (the paper's engines), or a .yaml file."
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a self-contained HTML report.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write the winner's timeline for ui.perfetto.dev.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the fastest plans' breakdown (.svg, .png, .pdf).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Rank every strategy and collective algorithm for training this model on this cluster."""
    from lightloom.cli.output import print_json, read_count, read_settings
    from lightloom.cli.plan_compression import check_options, codec_json, read_compression
    from lightloom.clusters.load import load_cluster
    from lightloom.core.provenance import provenance
    from lightloom.workloads.load import load_workload

    chosen = read_settings(settings or [])
    if batch is not None:
        chosen["training.batch_per_rank"] = read_count(batch, "--batch")
    on = load_cluster(cluster, chosen)
    _check_outputs(report, trace, figure)
    strategies = _strategies(strategy)
    _check_names(algorithm, cost_model)
    check_options(compression, compression_profile, compression_ratio, compression_engine)
    tokens = None if sequence_length is None else read_count(sequence_length, "--sequence-length")
    graph = load_workload(model, batch=on.training.batch_per_rank, sequence_length=tokens)
    codec = None
    if compression is not None:
        codec = read_compression(compression, model, graph, compression_profile, compression_ratio, compression_engine)
    found = _search(graph, on, strategies, algorithm, cost_model, overlap, codec)
    configuration: list[Any] = [on.to_json(), graph.to_json(), strategies, algorithm, cost_model, overlap]
    origin = provenance(configuration if codec is None else [*configuration, codec_json(codec)])
    document = _document(found, graph, on, cost_model, origin)
    if report is not None:
        from lightloom.cli.plan_report import plan_report
        from lightloom.reports.html import write

        write(plan_report(found, graph, on, cost_model, origin), report)
        document["report"] = str(report)
    if trace is not None:
        from lightloom.reports.perfetto import write_perfetto_trace

        write_perfetto_trace(trace, found.winner.result.timeline, title=f"{graph.name} on {on.name}", provenance=origin)
        document["trace"] = str(trace)
    if figure is not None:
        _draw(found, figure, origin)
        document["figure"] = str(figure)
    if as_json:
        print_json(document)
    else:
        _print(found, graph, on, document)


def _check_outputs(report: Path | None, trace: Path | None, figure: Path | None) -> None:
    from lightloom.core.files import check_writable
    from lightloom.reports.figures import check_format

    for path in filter(None, (report, trace, figure)):
        check_writable(path)
    if figure is not None:
        check_format(figure)


def _strategies(text: str) -> tuple[str, ...]:
    from lightloom.core.errors import UnknownNameError
    from lightloom.parallelism.load import STRATEGIES

    if text == "all":
        return tuple(STRATEGIES)
    if text not in STRATEGIES:
        raise UnknownNameError("strategy", text, [*STRATEGIES, "all"])
    return (text,)


def _check_names(algorithm: str, cost_model: str) -> None:
    from lightloom.collectives.cost import known_cost_model
    from lightloom.collectives.registry import find

    if algorithm != "all":
        find(algorithm)
    known_cost_model(cost_model)


def _search(
    graph: ComputeGraph,
    on: Cluster,
    strategies: tuple[str, ...],
    algorithm: str,
    cost_model: Any,
    overlap: bool,
    codec: Compression | None,
) -> PlanSearch:
    from lightloom.planner.search import count, search
    from lightloom.reports.progress import progress

    with progress("Plans", count(on, strategies)) as advance:
        return search(
            graph,
            on,
            strategies=strategies,
            algorithm=algorithm,
            model=cost_model,
            overlap=overlap,
            compression=codec,
            advance=lambda: advance(1),
        )


def _document(
    found: PlanSearch, graph: ComputeGraph, on: Cluster, cost_model: str, origin: Mapping[str, Any]
) -> dict[str, Any]:
    from lightloom.planner.explain import explain

    return {
        "schema": "lightloom.plan/1",
        "model": graph.name,
        "parameters": graph.parameters,
        "batch_per_rank": on.training.batch_per_rank,
        "cost_model": cost_model,
        "cluster": on.to_json(),
        "explanation": explain(found),
        "ranking": [_row(each) for each in found.ranking],
        "reference": [_row(each) for each in found.reference],
        "refused": [
            {"strategy": r.strategy, "algorithm": r.algorithm, "compression": r.compression, "why": r.why}
            for r in found.refused
        ],
        "provenance": dict(origin),
    }


def _row(each: Candidate) -> dict[str, Any]:
    from lightloom.cli.plan_compression import compression_json

    result = each.result
    return {
        "iteration_time_s": result.step_time,
        "energy_j": result.energy.total_j,
        "energy": result.energy.to_json(),
        "algorithm": each.algorithm.name,
        "strategy": each.strategy,
        "compression": compression_json(each),
        "breakdown": result.breakdown,
        "communication_time_s": result.communication_time,
        "samples_per_second": result.samples_per_second,
        "memory_bytes": result.memory.total,
        "fits_memory": result.fits,
        "verified": True,
    }


def _draw(found: PlanSearch, figure: Path, origin: Mapping[str, Any]) -> None:
    from lightloom.cli.plan_report import ranking_rows
    from lightloom.core.provenance import provenance_line
    from lightloom.reports.breakdown_figure import breakdown_figure
    from lightloom.reports.figures import save

    shown = [*found.ranking[:_SHOWN], *found.reference[:1]]
    rows = ranking_rows(shown)
    names = [row.name for row in rows[: len(shown) - len(found.reference[:1])]]
    names += [f"electrical: {row.name}" for row in rows[len(names) :]]
    save(
        breakdown_figure([(n, each.result.breakdown) for n, each in zip(names, shown, strict=True)]),
        figure,
        provenance_line(origin),
    )


def _print(found: PlanSearch, graph: ComputeGraph, on: Cluster, document: Mapping[str, Any]) -> None:
    from lightloom.cli.plan_report import ranking_rows
    from lightloom.core.provenance import provenance_line
    from lightloom.reports.console import legend, make_console, ranking_table

    console = make_console()
    title = f"{graph.name} on {on.name}, {on.ranks} ranks"
    console.print(ranking_table(ranking_rows(found.ranking[:_SHOWN]), console.width, title=title))
    if len(found.ranking) > _SHOWN:
        console.print(f"... and {len(found.ranking) - _SHOWN} slower plans, in the report and in --json")
    if found.reference:
        title = f"the same on its electrical reference, {getattr(on.reference, 'kind', 'fabric')}"
        console.print(ranking_table(ranking_rows(found.reference[:3]), console.width, title=title))
    console.print(legend())
    console.print(str(document["explanation"]))
    console.print(provenance_line(document["provenance"]), style="dim")
    for what in ("report", "trace", "figure"):
        if what in document:
            console.print(f"{what}: {document[what]}", soft_wrap=True)
