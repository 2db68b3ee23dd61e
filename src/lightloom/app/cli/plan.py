"""``lightloom plan``: a model on clusters, every plan ranked."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lightloom.app.api.arguments import load_cluster
from lightloom.app.api.planning import ALL, PlanRanking
from lightloom.app.api.planning import plan as rank_plans
from lightloom.app.cli.options import (
    Amortisation,
    BoardPrice,
    Electricity,
    FabricPrice,
    HostPower,
    HostPrice,
    Json,
    Maintenance,
    Prices,
    Pue,
    arguments,
    check_outputs,
    count_option,
    draw,
    option,
    print_result,
    read_count,
    read_settings,
    site_inputs,
)
from lightloom.app.cli.plan_report import (
    assumed_lines,
    built_lines,
    carried_lines,
    exchange_notes,
    fastest_breakdown,
    figures,
    imported_lines,
    interval_note,
    place_ledgers,
    plan_assumptions,
    plan_report,
    ranking_rows,
    spent_lines,
    throughput,
    utilization,
    warning_lines,
)
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance_line
from lightloom.core.units import format_size, format_time
from lightloom.planning.economics.ledger import TITLE as LEDGER
from lightloom.planning.economics.ledger import ledger_notes, ledger_rows
from lightloom.planning.export import frameworks
from lightloom.planning.export.chakra_folder import check_folder, command, write_step
from lightloom.planning.export.chakra_step import step_traces
from lightloom.planning.export.counters import counted
from lightloom.planning.export.frameworks import exported, expressible
from lightloom.planning.pricing.placed_space import DEFAULT_QUANTA
from lightloom.planning.search.search import latency_sensitivity
from lightloom.reports.console import legend, make_console, plain_table, ranking_table
from lightloom.reports.figures.canvas import save
from lightloom.reports.html import write
from lightloom.reports.report import FRONT, write_perfetto_trace

if TYPE_CHECKING:
    from lightloom.planning.search.plans import Plan, PlanSearch


Many = list[str] | None
Counts = list[int] | None


# Files that ``lightloom plan`` writes for other tools: settings of frameworks, and the step for a simulator.

_FRAMEWORKS = {
    "torchtitan": (frameworks.to_toml, frameworks.torchtitan_notes),
    "megatron": (frameworks.to_script, frameworks.megatron_notes),
}


def _exported_files(options: SimpleNamespace) -> dict[str, Path | None]:
    """Return the files and folders of all exports; None for one that was not requested."""
    return {name: getattr(options, f"export_{name}") for name in ("graph", *_FRAMEWORKS, "chakra")}


def _check_outputs(options: SimpleNamespace) -> None:
    """Check before the search that what is to be written can be.

    Raises:
        ConfigError: a place cannot be written to, or only placed plans are searched, which no export takes.
    """
    exports = _exported_files(options)
    graph, folder, pictures = exports.pop("graph"), exports.pop("chakra"), options.pictures
    if set(options.strategy or ()) == {"placed"} and any(path is not None for path in (folder, *exports.values())):
        raise ConfigError(
            "--strategy placed with an export: no framework or trace has placed plans: expected another --strategy too"
        )
    if graph is not None and graph.suffix != ".json":
        raise ConfigError(f"--export-graph {graph}: expected a path that ends in .json")
    check_outputs([options.figure], [options.report, options.trace, graph, *exports.values()])
    if folder is not None:
        check_folder(folder)
    if pictures is not None:
        if pictures.exists() and not pictures.is_dir():
            raise ConfigError(f"--pictures {pictures}: expected a folder")
        check_writable(pictures / "placement.png" if pictures.exists() else pictures)


def _export_settings(options: SimpleNamespace, search: PlanSearch, document: dict[str, Any]) -> Iterator[str]:
    """Write the settings of frameworks that are asked for; yields a message where they are not the winner's."""
    paths = {name: path for name in _FRAMEWORKS if (path := getattr(options, f"export_{name}")) is not None}
    if not paths:
        return
    chosen = expressible(search)
    job, rank = exported(chosen, search.graph), search.ranking.index(chosen) + 1
    entry = document["exported"] = {"rank": rank, "label": chosen.label, "notes": {}}
    if chosen is not search.winner:
        entry["why"] = "the winner is a placed plan, which no framework has settings for"
        yield f"exported: {chosen.label}, rank {rank}: {entry['why']}; {_slower(chosen, search)}"
    for name, path in paths.items():
        form, notes = _FRAMEWORKS[name]
        write_atomically(path, form(job))
        entry[name], entry["notes"][name] = str(path), notes(job)


def _export_step(options: SimpleNamespace, search: PlanSearch, document: dict[str, Any]) -> Iterator[str]:
    """Write the step of the first plan that traces can hold; yields messages about it.

    Raises:
        UnsupportedError: traces can hold no plan; why the first one is not.
    """
    folder, why = options.export_chakra, None
    if folder is None:
        return
    for plan in search.ranking:
        try:
            traces = step_traces(plan.job, plan.choice, plan.step)
            break
        except UnsupportedError as error:
            why = why or str(error)
    else:
        raise UnsupportedError(f"--export-chakra: none of the plans can be written as traces; of the first, {why}")
    rank = search.ranking.index(plan) + 1
    about = {"model": search.graph.name, "cluster": plan.site, "label": plan.label, "step_time_s": plan.step_time}
    entry = write_step(folder, traces, about)
    document["exported_step"] = {"folder": str(folder), "rank": rank, "why": why, **entry}
    if why is not None:
        yield f"exported to {folder}: {plan.label}, rank {rank}; of the winner, {why}; {_slower(plan, search)}"
    yield from (f"traces: {note}" for note in traces.notes)
    yield f"in the folder: {command(traces)}"


def _slower(plan: Plan, search: PlanSearch) -> str:
    return f"a sample takes {plan.sample_time / search.winner.sample_time:.3g} times as long"


# What ``lightloom plan`` does: rank the plans, write what is asked for, show the ranking.

_CLUSTER = "terarack-64"
_SHOWN = 12
"""Plans on the terminal; pages and JSON hold all."""
_REFUSED = 3
"""Refusals on the terminal."""


def run(options: SimpleNamespace) -> None:
    """Search, write what is asked for, and show the ranking."""
    ranking = _rank(options)
    search, document = ranking.search, ranking.to_json()
    if options.latency_sensitivity or search.winner.cluster.fabric.latency_unstated:
        sensitivity = latency_sensitivity(search)
        document["latency_sensitivity"] = sensitivity.to_json() | {"text": str(sensitivity)}
    if options.export_graph is not None:
        search.graph.save(options.export_graph)
        document["exported_graph"] = str(options.export_graph)
    messages = [*_export_settings(options, search, document), *_export_step(options, search, document)]
    written = _write(options, ranking, document)
    print_result(document, options.as_json, _parts(search, document, messages), written)
    if options.as_json:
        for line in messages:
            print(line, file=sys.stderr)  # noqa: T201


def _rank(options: SimpleNamespace) -> PlanRanking:
    """Check the files to write, and rank the plans; options that share a name with an argument of the API are one."""
    fields = read_settings(options.settings)
    if options.ranks and "ranks" in fields:
        raise ConfigError(f"--set ranks={fields['ranks']} and --ranks {options.ranks[0]}: expected one of them")
    if options.accelerator is not None:
        if "accelerator" in fields:
            given = f"--set accelerator={fields['accelerator']} and --accelerator {options.accelerator}"
            raise ConfigError(f"{given}: expected one of them")
        fields["accelerator"] = options.accelerator
    site = site_inputs(vars(options), fields)
    counts: list[int | None] = [*dict.fromkeys(options.ranks or ())] or [None]
    names = dict.fromkeys(options.cluster or [_CLUSTER])
    clusters = [load_cluster(name, ranks, set=fields) for name in names for ranks in counts]
    _check_outputs(options)
    own = {
        "cluster": clusters,
        "batch": options.batch if options.batch in (None, "max") else read_count(options.batch, "--batch"),
        "define": _definitions(options.define),
        "strategy": options.strategy or ALL,
        "algorithm": options.algorithm or ALL,
        "quantum": options.quantum or DEFAULT_QUANTA,
        "exchange": options.exchange or (),
        "site": site,
    }
    return rank_plans(**arguments(rank_plans, vars(options) | own))


def _definitions(given: Sequence[str] | None) -> dict[str, str]:
    """Return NAME=VALUE pairs as a mapping."""
    pairs = {}
    for text in given or ():
        name, equals, pairs[name] = text.partition("=")
        if not name or not equals:
            raise ConfigError(f"--define {text}: expected NAME=VALUE")
    return pairs


def _write(options: SimpleNamespace, ranking: PlanRanking, document: dict[str, Any]) -> dict[str, Path | None]:
    """Write the report, the trace and the pictures that are asked for; returns all files of the command."""
    search, origin = ranking.search, ranking.origin
    if options.report is not None:
        write(plan_report(search, document, origin), options.report)
    if options.trace is not None:
        title = f"{search.graph.name} on {search.winner.site}"
        timeline, counters = counted(search.winner)
        write_perfetto_trace(options.trace, timeline, title=title, provenance=origin, counters=counters)
    draw(options.figure, partial(fastest_breakdown, search), document)
    written = {name: getattr(options, name) for name in ("report", "trace", "figure")}
    document |= {name: str(path) for name, path in written.items() if path is not None}
    written |= _exported_files(options)
    if options.pictures is not None:
        line = provenance_line(origin)
        pictures = [save(drawn, options.pictures / f"{name}.png", line) for name, _, drawn, _ in figures(search)]
        document["pictures"] = [str(path) for path in pictures]
        written |= {f"picture {path.stem}": path for path in pictures}
    return written


def _header(search: PlanSearch) -> str:
    """Batch, throughput, utilisation and memory of the winner, in a line."""
    winner, batches = search.winner, search.global_batches
    if search.request.largest_batches:
        batch = f"each plan's largest batch, the winner's {winner.global_batch:,} samples"
    else:
        batch = f"global batch {' or '.join(f'{samples:,}' for samples in batches)}"
        if len(batches) == 1 and search.request.global_batches is None:
            batch += f" ({winner.global_batch / winner.cluster.ranks:g} a rank, the largest up to 32 that a plan fits)"
    capacity = winner.cluster.accelerator.memory
    memory = f"{format_size(winner.memory)} a rank" + ("" if capacity is None else f" of {format_size(capacity)}")
    return f"{batch} · {throughput(search)} · {utilization(search)} · {memory}"


def _parts(search: PlanSearch, document: Mapping[str, Any], messages: Sequence[str]) -> Iterator[str | Text | Table]:
    """The winner's figures, the ranking, why the winner wins, and what was left out."""
    rows, width = ranking_rows(search), make_console().width
    best = set(document["best_of_strategy"].values())
    shown = [row for number, row in enumerate(rows) if number < _SHOWN or row.place in best]
    sites = {row.site for row in rows}
    title = search.graph.name + (f" on {sites.pop()}" if len(sites) == 1 else f" on {len(sites)} clusters")
    yield Text(f"{title}: {_header(search)}", style="bold")
    yield from (Text(f"{basis}: {line}") for basis in ("priced", "measured") for line in document[basis])
    yield ranking_table(shown, width)
    if len(rows) > len(shown):
        yield f"... and {len(rows) - len(shown)} other plans, in the report and in --json"
    if search.reference and search.clusters[0].reference is not None:
        name = f"the same on the electrical reference, {search.clusters[0].reference.kind_name}"
        yield ranking_table(ranking_rows(search, search.reference[:3]), width, title=name)
    yield legend().append(f"  {FRONT} ", style="green").append("nothing is better in time and energy", style="dim")
    yield Text(interval_note(search), "dim")
    yield str(document["explanation"])
    yield from spent_lines(search, document)
    ledgers = place_ledgers(search)
    yield plain_table(("", *ledgers), ledger_rows(ledgers), title=LEDGER.lower(), left=("", *ledgers))
    yield from (Text(line, style="dim") for line in [*ledger_notes(ledgers), *_notes(search, document), *messages])


def _notes(search: PlanSearch, document: Mapping[str, Any]) -> list[str]:
    """Return what is guessed, assumed, left out and refused, a line each."""
    reasons, clusters = list(dict.fromkeys(row.why for row in search.refused)), search.clusters
    more, sensitivity = len(reasons) - _REFUSED, document.get("latency_sensitivity")
    return [
        *(f"warning: {line}" for line in (*search.graph.uncounted, *warning_lines(clusters))),
        *(*assumed_lines(clusters), *built_lines(clusters), *imported_lines(clusters), *carried_lines(clusters)),
        *(f"assumed of the winner: {line}" for line in plan_assumptions(search.winner)),
        *(f"exchange {note}" for note in exchange_notes(search)),
        *(
            [f"latency of {format_time(sensitivity['own_hop_latency_s'])} a hop: {sensitivity['text']}"]
            if sensitivity is not None
            else []
        ),
        *(f"of the model's file: {gap}" for gap in document["not_in_trace"]),
        *(f"left out: {reason}" for reason in search.refusals),
        *(f"refused: {reason}" for reason in reasons[:_REFUSED]),
        *([f"refused: {more} more reasons, in the report and in --json"] if more > 0 else []),
    ]


def plan(
    model: Annotated[
        str,
        typer.Argument(
            help="A zoo name, package.module:factory, file.py:factory, a file (a message lists the forms), or a shell "
            "line of Megatron-LM in quotes."
        ),
    ],
    *,
    cluster: Annotated[
        Many, option("A cluster of the catalog, or a YAML file; terarack-64 without it. Repeatable: ranked together.")
    ] = None,
    ranks: Annotated[Counts, count_option("--ranks", "Ranks of each cluster to use; repeatable.")] = None,
    accelerator: Annotated[
        str | None,
        option("Instead of the cluster's: an accelerator of the catalog, a YAML file, or one that `calibrate` wrote."),
    ] = None,
    settings: Annotated[
        Many, option("field=value of the cluster, e.g. fabric.wavelengths=128 or ranks=32; repeatable.", name="--set")
    ] = None,
    batch: Annotated[
        str | None,
        option("Samples per rank, or max: each plan's own largest. Up to 32, as many as fit, without it.", "N"),
    ] = None,
    global_batch: Annotated[Counts, count_option("--global-batch", "Samples of a step on all ranks; repeatable.")] = (
        None
    ),
    sequence_length: Annotated[
        int | None, count_option("--sequence-length", "Tokens per sample, for models that take tokens.")
    ] = None,
    step: Annotated[
        int | None, count_option("--step", "Step of an execution trace, as its profiler counts.", least=0)
    ] = None,
    define: Annotated[
        Many,
        option("Of what a model's file leaves open: a variable of a script, a dimension of a graph.", "NAME=VALUE"),
    ] = None,
    model_only: Annotated[
        bool, typer.Option("--model-only", help="Take the model of a file and not the strategy that it states.")
    ] = False,
    measured_on: Annotated[
        str | None,
        option(
            "What the durations of a trace were measured on, if it does not say: an accelerator, unscaled (as on the "
            "cluster's), or none (price all operators)."
        ),
    ] = None,
    strategy: Annotated[Many, option("Only ddp, fsdp, tensor-pipeline or placed; repeatable.")] = None,
    algorithm: Annotated[
        Many, option("Algorithms that exchanges choose among, all that the fabric admits without it; repeatable.")
    ] = None,
    dp: Annotated[int | None, count_option("--dp", "Pin the data-parallel degree.", least=1)] = None,
    tp: Annotated[int | None, count_option("--tp", "Pin the tensor-parallel degree.", least=1)] = None,
    pp: Annotated[int | None, count_option("--pp", "Pin the number of pipeline stages.", least=1)] = None,
    ep: Annotated[int | None, count_option("--ep", "Pin the expert-parallel degree.", least=1)] = None,
    cp: Annotated[int | None, count_option("--cp", "Pin the slices of a sample's tokens.", least=1)] = None,
    micro_batches: Annotated[
        int | None,
        count_option("--micro-batches", "Pin the micro-batches of a step: divisors of a replica's batch.", least=1),
    ] = None,
    micro_batch: Annotated[
        int | None, count_option("--micro-batch", "Pin the samples of a micro-batch; the last may be smaller.", least=1)
    ] = None,
    virtual_stages: Annotated[
        int | None, count_option("--virtual-stages", "Pin the chunks of the model that a stage holds.", least=1)
    ] = None,
    recompute: Annotated[str | None, option("Pin activation recomputation: full, selective or none.")] = None,
    sharding: Annotated[
        str | None, option("Pin what replicas shard: none, zero-1, zero-2, zero-3 (also: fsdp) or hybrid.")
    ] = None,
    sequence_parallel: Annotated[
        bool | None,
        typer.Option("--sequence-parallel/--no-sequence-parallel", help="Pin slices of the sequence in tensor groups."),
    ] = None,
    quantum: Annotated[Many, option("Placed operators are cut no finer, e.g. 10us; repeatable.")] = None,
    cost_model: Annotated[
        str, option("physical (circuits change when needed) or paper (every step costs d/B + a; ddp and fsdp only).")
    ] = "physical",
    overlap: Annotated[bool, option("Communicate while computing; without it ddp and fsdp only.")] = True,
    exchange: Annotated[
        Many,
        option(
            "How replicas exchange gradients, e.g. int4:block=128 (`exchange list`); ranked beside gradients as they "
            "are. Repeatable.",
            "METHOD",
        ),
    ] = None,
    exchange_engine: Annotated[
        str | None,
        option(
            "What codes: accelerator (an assumed rate; the default), local (this host's kernels as measured), nic (the "
            "INCEPTIONN paper's), or a .yaml file."
        ),
    ] = None,
    exchange_profile: Annotated[
        Path | None, option("The model's profile, for inceptionn; else the one that `compress profile` has kept.")
    ] = None,
    exchange_ratio: Annotated[
        str | None, option("A ratio of your own, for inceptionn, instead of a profile's.", "X")
    ] = None,
    compression: Annotated[str | None, typer.Option(hidden=True)] = None,
    compression_profile: Annotated[str | None, typer.Option(hidden=True)] = None,
    compression_ratio: Annotated[str | None, typer.Option(hidden=True)] = None,
    compression_engine: Annotated[str | None, typer.Option(hidden=True)] = None,
    reconfigure_in_step: Annotated[
        bool,
        typer.Option(
            "--reconfigure-in-step",
            help="Share out the planes of a circuit switch among the groups of a plan, and set them anew between the "
            "phases of a step where that is faster; grant placed plans circuits anew from what waits.",
        ),
    ] = False,
    latency_sensitivity: Annotated[
        bool, option("Search the latency of a hop at which another plan wins; done anyway where a fabric states none.")
    ] = False,
    pue: Pue = None,
    electricity: Electricity = None,
    amortisation: Amortisation = None,
    maintenance: Maintenance = None,
    board_price: BoardPrice = None,
    host_power: HostPower = None,
    host_price: HostPrice = None,
    fabric_price: FabricPrice = None,
    prices: Prices = None,
    report: Annotated[Path | None, option("Write a self-contained HTML report.")] = None,
    trace: Annotated[Path | None, option("Write the winner's timeline for ui.perfetto.dev.")] = None,
    figure: Annotated[Path | None, option("Draw the fastest plans' breakdown (.svg, .png, .pdf).")] = None,
    pictures: Annotated[Path | None, option("All pictures of the report as .png.", "FOLDER")] = None,
    export_graph: Annotated[
        Path | None, option("The model's graph as .json, which plans take as a model without PyTorch.")
    ] = None,
    export_torchtitan: Annotated[
        Path | None, option("The first plan that torchtitan can run as its job configuration (.toml).")
    ] = None,
    export_megatron: Annotated[
        Path | None, option("The first plan that Megatron-LM can run as its arguments (.sh).")
    ] = None,
    export_chakra: Annotated[
        Path | None, option("The winner's step as Chakra traces, with the files of ASTRA-sim beside them.", "FOLDER")
    ] = None,
    as_json: Json = False,
) -> None:
    """Rank every plan for training this model on these clusters.

    Plans are data, tensor, pipeline and expert parallelism and placed operators, with every collective algorithm, with
    and without a codec. Those that fit the memory come first, then the fastest.
    """
    run(SimpleNamespace(**locals()))
