"""Data parallelism ranked: every strategy and collective algorithm on one cluster, at one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from lightloom.clusters.base import Cluster
    from lightloom.planner.pricing.compression import Compression
    from lightloom.planner.search.ranked import Candidate, PlanSearch
    from lightloom.workloads.graph import ComputeGraph


_SHOWN = 12
"""Plans on the terminal; pages and JSON hold all."""


class DataOptions(NamedTuple):
    """What the command line says."""

    model: str
    cluster: str
    batch: str | None
    sequence_length: str | None
    strategy: str
    algorithm: str
    cost_model: str
    settings: Sequence[str]
    overlap: bool
    compression: str | None
    compression_profile: Path | None
    compression_ratio: str | None
    compression_engine: str | None
    report: Path | None
    trace: Path | None
    figure: Path | None
    as_json: bool


def plan_data(options: DataOptions) -> None:
    """Rank, write what is asked for, and show it."""
    from lightloom.cli.output import print_json, read_count, read_settings
    from lightloom.cli.plan.compression import check_options, codec_json, read_compression
    from lightloom.cli.plan.model import load_model
    from lightloom.clusters.load import load_cluster
    from lightloom.core.provenance import provenance

    chosen = read_settings(options.settings)
    if options.batch is not None:
        chosen["training.batch_per_rank"] = read_count(options.batch, "--batch")
    on = load_cluster(options.cluster, chosen)
    _check_outputs(options.report, options.trace, options.figure)
    strategies = _strategies(options.strategy)
    _check_names(options.algorithm, options.cost_model)
    check_options(
        options.compression, options.compression_profile, options.compression_ratio, options.compression_engine
    )
    tokens = None if options.sequence_length is None else read_count(options.sequence_length, "--sequence-length")
    graph, lost = load_model(options.model, batch=on.training.batch_per_rank, sequence_length=tokens)
    codec = None
    if options.compression is not None:
        codec = read_compression(
            options.compression,
            options.model,
            graph,
            options.compression_profile,
            options.compression_ratio,
            options.compression_engine,
        )
    found = _search(graph, on, strategies, options.algorithm, options.cost_model, options.overlap, codec)
    configuration: list[Any] = [
        on.to_json(),
        graph.to_json(),
        strategies,
        options.algorithm,
        options.cost_model,
        options.overlap,
    ]
    origin = provenance(configuration if codec is None else [*configuration, codec_json(codec)])
    document = _document(found, graph, on, options.cost_model, origin) | {"not_in_trace": list(lost)}
    if options.report is not None:
        from lightloom.cli.plan.report import plan_report
        from lightloom.reports.html import write

        write(plan_report(found, graph, on, options.cost_model, origin, lost), options.report)
        document["report"] = str(options.report)
    if options.trace is not None:
        from lightloom.reports.perfetto import write_perfetto_trace

        write_perfetto_trace(
            options.trace, found.winner.result.timeline, title=f"{graph.name} on {on.name}", provenance=origin
        )
        document["trace"] = str(options.trace)
    if options.figure is not None:
        _draw(found, options.figure, origin)
        document["figure"] = str(options.figure)
    if options.as_json:
        print_json(document)
    else:
        _print(found, graph, on, document)


def _check_outputs(report: Path | None, trace: Path | None, figure: Path | None) -> None:
    from lightloom.core.files import check_writable
    from lightloom.reports.figures.base import check_format

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
    from lightloom.collectives.cost.stepped import known_cost_model
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
    from lightloom.planner.search.ranked import count, search
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
    from lightloom.planner.search.explain import explain

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
    from lightloom.cli.plan.compression import compression_json

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
    from lightloom.cli.plan.report import ranking_rows
    from lightloom.core.provenance import provenance_line
    from lightloom.reports.figures.base import save
    from lightloom.reports.figures.breakdown_figure import breakdown_figure

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
    from lightloom.cli.plan.report import ranking_rows
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
    for each in document["not_in_trace"]:
        console.print(f"not in the trace: {each}", style="dim")
    console.print(provenance_line(document["provenance"]), style="dim")
    for what in ("report", "trace", "figure"):
        if what in document:
            console.print(f"{what}: {document[what]}", soft_wrap=True)
