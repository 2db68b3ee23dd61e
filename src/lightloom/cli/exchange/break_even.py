"""``lightloom exchange break-even``: when an exchange of gradients shortens a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from rich.table import Table

from lightloom.cli.options import Json, count_option, figure_option, option
from lightloom.cli.output import check_outputs, print_result
from lightloom.clusters.base import Cluster
from lightloom.clusters.load import load_cluster
from lightloom.core.provenance import provenance, provenance_line
from lightloom.core.units import format_bandwidth, format_time, parse
from lightloom.exchange.evidence import accuracy_note
from lightloom.exchange.registry import find
from lightloom.planner.gradients.sized import sized
from lightloom.planner.search.break_even import SetUp, Trial, break_even_bandwidth, set_ups
from lightloom.reports.console import plain_table
from lightloom.reports.progress import progress
from lightloom.workloads.load import load_workload

MODELS = ("alexnet", "vgg16", "resnet50", "densenet121", "inception-v3", "transformer-big", "gpt2-355m")
METHODS = ("bf16", "int8", "int4", "lloyd2", "topk", "powersgd")
LINKS = ("1Gbps", "10Gbps", "25Gbps", "50Gbps", "100Gbps", "200Gbps", "400Gbps")
RANKS = (8, 32, 128, 512)
SCHEMA = "lightloom.exchange-break-even/1"
_SLOWEST, _FASTEST = 1e7, 1e12
"""Bytes per second between which lines are searched."""
_CLEAR = 1.1
"""Speed-ups from here on are called clear: less is within what the assumptions decide."""


def break_even(
    *,
    model: Annotated[list[str] | None, option(f"{len(MODELS)} of the zoo without it; repeatable.")] = None,
    exchange: Annotated[list[str] | None, option("Synchronous methods; repeatable.", "METHOD")] = None,
    link: Annotated[list[str] | None, option("Speeds of a rank's link, e.g. 10Gbps; repeatable.")] = None,
    ranks: Annotated[list[int] | None, count_option("--ranks", "Numbers of ranks; repeatable.", least=2)] = None,
    batch: Annotated[int, count_option("--batch", "Samples of a rank.", least=1)] = 32,
    cluster: Annotated[
        str, option("Accelerator and library; its ranks have one link each, in domains of one.")
    ] = "h100-512-two-tier",
    engine: Annotated[str, option("What codes, as plan --exchange-engine.")] = "accelerator",
    figure: Annotated[Path | None, figure_option("Draw the break-even lines of the first model")] = None,
    as_json: Json = False,
) -> None:
    """Say in how many set-ups of models, link speeds and ranks a method shortens the step of data parallelism."""
    check_outputs([figure])
    names, methods = model or list(MODELS), [find(name) for name in exchange or METHODS]
    on = partial(_cluster, cluster)
    speeds = [parse(speed, "bandwidth") for speed in link or LINKS]
    trials = []
    for name in names:
        graph = load_workload(name, batch=1)
        exchanges = tuple(sized(method, name, graph, None, None, engine) for method in methods)
        trials.append(Trial(graph, exchanges, batch))
    counts = ranks or list(RANKS)
    with progress("Set-ups", len(trials) * len(counts) * len(speeds)) as advance:
        rows = set_ups(trials, counts, speeds, on, lambda: advance(1))
    coders = [exchange.on(on(2, speeds[0]).accelerator).coder for exchange in trials[0].exchanges]
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "cluster": cluster,
        "batch_per_rank": batch,
        "engine": coders[0].name,
        "engine_source": _sources([method.name for method in methods], [coder.source for coder in coders]),
        "set_ups": [asdict(row) | {"methods": dict(row.methods)} for row in rows],
        "counts": _counts(rows),
        "accuracy": {method.name: accuracy_note(method.name) for method in methods},
    }
    document["provenance"] = provenance([names, [method.name for method in methods], speeds, counts, batch, cluster])
    if figure is not None:
        from lightloom.reports.figures.base import save
        from lightloom.reports.figures.break_even_figure import break_even_figure

        lines = _lines(trials[0], counts, on)
        document["lines"] = lines
        title = f"{trials[0].graph.name}, {batch} samples a rank, {cluster}: an exchange pays below its line"
        save(break_even_figure(lines, title), figure, provenance_line(document["provenance"]))
    print_result(document, as_json, _parts(rows, document), {"figure": figure})


def _sources(methods: Sequence[str], sources: Sequence[str]) -> str:
    """Where rates come from, with the methods that each is of where they differ."""
    by_source: dict[str, list[str]] = {}
    for method, source in zip(methods, sources, strict=True):
        by_source.setdefault(source, []).append(method)
    if len(by_source) == 1:
        return sources[0]
    return "; ".join(f"{', '.join(names)}: {source}" for source, names in by_source.items())


def _cluster(name: str, ranks: int, bandwidth: float) -> Cluster:
    """A cluster of so many ranks, each with a link of its own."""
    settings = {"ranks": ranks, "fabric.domain_size": 1, "fabric.bandwidth": f"{bandwidth}B/s"}
    return load_cluster(name, settings)


def _counts(rows: Sequence[SetUp]) -> dict[str, Any]:
    """Set-ups in which methods shorten the step, each and the best of all."""
    methods = [name for name, _ in rows[0].methods]
    speedups = {name: [row.speedup(name) for row in rows] for name in methods}
    speedups["best"] = [row.best(methods)[1] for row in rows]
    return {
        name: {
            "set_ups": len(values),
            "shorter": sum(value > 1 for value in values),
            f"at_least_{_CLEAR:g}": sum(value >= _CLEAR for value in values),
            "most": max(values),
        }
        for name, values in speedups.items()
    }


def _lines(trial: Trial, ranks: Sequence[int], on: Any) -> dict[str, list[tuple[int, float | None]]]:
    """Break-even speeds of links, in bytes per second, of each method by the number of ranks."""
    found: dict[str, list[tuple[int, float | None]]] = {}
    with progress("Lines", len(trial.exchanges) * len(ranks)) as advance:
        for exchange in trial.exchanges:
            alone = Trial(trial.graph, (exchange,), trial.samples)
            for count in ranks:
                speed = break_even_bandwidth(alone, count, on, (_SLOWEST, _FASTEST))
                found.setdefault(exchange.name, []).append((count, speed))
                advance(1)
    return found


def _parts(rows: Sequence[SetUp], document: dict[str, Any]) -> Iterator[str | Table]:
    counts, clear = document["counts"], f"at_least_{_CLEAR:g}"
    total = counts["best"]["set_ups"]
    cells = [
        [name, f"{row['shorter']} of {total}", f"{row[clear]} of {total}", f"{row['most']:.3g} x"]
        for name, row in counts.items()
    ]
    title = f"{total} set-ups of data parallelism, {document['batch_per_rank']} samples a rank, {document['cluster']}"
    yield plain_table(["method", "shorter step", f"{_CLEAR:g} times or more", "most"], cells, title=title)
    links = sorted({row.bandwidth for row in rows})
    methods = [name for name, _ in rows[0].methods]
    table = []
    for name in dict.fromkeys(row.model for row in rows):
        own = [row for row in rows if row.model == name]
        best = []
        for link in links:
            ups = [row.best(methods)[1] for row in own if row.bandwidth == link]
            best.append(f"{min(ups):.3g} to {max(ups):.3g}")
        table.append([name, format_time(min(row.plain for row in own)), *best])
    columns = ["model", "shortest step", *(format_bandwidth(link) for link in links)]
    yield plain_table(columns, table, title="speed-up by the best method, over ranks")
    yield (
        "Agarwal et al. (MLSys 2022) measured a shorter step in 6 of more than 200 set-ups, on V100s and 10 Gb/s, with "
        "the kernels of their day; this is a model of "
        f"{document['engine_source']}"
    )
    for name, note in document["accuracy"].items():
        yield f"accuracy of {name}: {note}"
    yield "a shorter step is no shorter training unless the loss stays"
