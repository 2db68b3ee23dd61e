"""``lightloom plan``: a model on clusters, every plan ranked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from rich.text import Text

from lightloom.app.api.arguments import load_cluster
from lightloom.app.api.planning import PlanRanking
from lightloom.app.api.planning import plan as rank_plans
from lightloom.app.cli.options import (
    SITE_FIELDS,
    FigureFile,
    JsonFile,
    Options,
    OutFile,
    PartPrices,
    Shown,
    SiteFields,
    draw,
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
from lightloom.planning.search.search import latency_sensitivity as find_sensitivity
from lightloom.reports.console import legend, make_console, plain_table, ranking_table
from lightloom.reports.figures.canvas import save
from lightloom.reports.html import write
from lightloom.reports.report import FRONT, write_perfetto_trace

if TYPE_CHECKING:
    from lightloom.planning.search.plans import Plan, PlanSearch


# Files that ``lightloom plan`` writes: pictures and pages, settings of frameworks, and the step for a simulator.

_FRAMEWORKS = {
    "torchtitan": (frameworks.to_toml, frameworks.torchtitan_notes),
    "megatron": (frameworks.to_script, frameworks.megatron_notes),
}


def _check_pictures(folder: Path) -> None:
    """Check before the search that pictures can be written to a folder; raise ConfigError where they cannot."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--pictures {folder}: expected a folder")
    check_writable(folder / "placement.png" if folder.exists() else folder)


@dataclass(kw_only=True)
class _Files:
    """Files and folders to write; None for one that was not requested.

    Args:
        report: Write a self-contained HTML report.
        trace: Write the winner's timeline for ui.perfetto.dev.
        figure: Draw the fastest plans' breakdown (.svg, .png, .pdf).
        pictures (FOLDER): All pictures of the report as .png.
        export_graph: The model's graph as .json, which plans take as a model without PyTorch.
        export_torchtitan: The first plan that torchtitan can run as its job configuration (.toml).
        export_megatron: The first plan that Megatron-LM can run as its arguments (.sh).
        export_chakra (FOLDER): The winner's step as Chakra traces, with the files of ASTRA-sim beside them.
    """

    report: OutFile = None
    trace: OutFile = None
    figure: FigureFile = None
    pictures: Annotated[Path | None, _check_pictures] = None
    export_graph: JsonFile = None
    export_torchtitan: OutFile = None
    export_megatron: OutFile = None
    export_chakra: Annotated[Path | None, check_folder] = None

    @property
    def settings(self) -> dict[str, Path]:
        """Files of frameworks' settings that were requested, by the framework."""
        paths = {name: getattr(self, f"export_{name}") for name in _FRAMEWORKS}
        return {name: path for name, path in paths.items() if path is not None}


def _export_settings(files: _Files, search: PlanSearch, document: dict[str, Any]) -> Iterator[str]:
    """Write the settings of frameworks that are asked for, those of the first plan that a framework can express, and
    note them in ``document``; yield a message where that plan is not the winner."""
    if not files.settings:
        return
    chosen = expressible(search)
    job, rank = exported(chosen, search.graph), search.ranking.index(chosen) + 1
    entry = document["exported"] = {"rank": rank, "label": chosen.label, "notes": {}}
    if chosen is not search.winner:
        entry["why"] = "the winner is a placed plan, which no framework has settings for"
        yield f"exported: {chosen.label}, rank {rank}: {entry['why']}; {_slower(chosen, search)}"
    for name, path in files.settings.items():
        form, notes = _FRAMEWORKS[name]
        write_atomically(path, form(job))
        entry[name], entry["notes"][name] = str(path), notes(job)


def _export_step(files: _Files, search: PlanSearch, document: dict[str, Any]) -> Iterator[str]:
    """Write the step of the first plan that traces can hold, and note it in ``document``; yield messages about it, none
    where no folder is asked for.

    Raises:
        UnsupportedError: traces can hold no plan; why the first one is not.
    """
    folder, why = files.export_chakra, None
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
    """Return in words how many times as long a sample of a plan takes as one of the winner."""
    return f"a sample takes {plan.sample_time / search.winner.sample_time:.3g} times as long"


# What ``lightloom plan`` does: rank the plans, write what is asked for, show the ranking.

_CLUSTER = "terarack-64"
_SHOWN = 12
"""Plans on the terminal; pages and JSON hold all."""
_REFUSED = 3
"""Refusals on the terminal."""


def _definitions(given: Sequence[str] | None) -> dict[str, str]:
    """Return NAME=VALUE texts as a mapping of texts; ConfigError for a text without a name or "="."""
    pairs = {}
    for text in given or ():
        name, equals, pairs[name] = text.partition("=")
        if not name or not equals:
            raise ConfigError(f"--define {text}: expected NAME=VALUE")
    return pairs


def _write(files: _Files, ranking: PlanRanking, document: dict[str, Any]) -> dict[str, Path | None]:
    """Write the report, the trace and the pictures that are asked for, and note them in ``document``; return all files
    of the command by what they hold, None for one that was not requested."""
    search, origin = ranking.search, ranking.origin
    if files.report is not None:
        write(plan_report(search, document, origin), files.report)
    if files.trace is not None:
        title = f"{search.graph.name} on {search.winner.site}"
        timeline, counters = counted(search.winner)
        write_perfetto_trace(files.trace, timeline, title=title, provenance=origin, counters=counters)
    draw(files.figure, partial(fastest_breakdown, search), document)
    written = {name: getattr(files, name) for name in ("report", "trace", "figure")}
    document |= {name: str(path) for name, path in written.items() if path is not None}
    written |= {"graph": files.export_graph, **files.settings, "chakra": files.export_chakra}
    if files.pictures is not None:
        line = provenance_line(origin)
        pictures = [save(drawn, files.pictures / f"{name}.png", line) for name, _, drawn, _ in figures(search)]
        document["pictures"] = [str(path) for path in pictures]
        written |= {f"picture {path.stem}": path for path in pictures}
    return written


def _header(search: PlanSearch) -> str:
    """Return batch, throughput, utilisation and memory of the winner, in a line."""
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
    """Yield the winner's figures, the table of the first plans and the best of each kind, why the winner wins, dollars
    and joules, and notes on what was left out."""
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
    """Return lines on what is guessed, assumed, left out and refused, the first three refusals in full and the others
    as a number."""
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


_Rank = Annotated[
    partial[PlanRanking],
    Options(rank_plans, hidden=[f"compression{end}" for end in ("", "_ratio", "_profile", "_engine")]),
]


def plan(
    model: str,
    *,
    cluster: list[str] | None = None,
    ranks: list[int] | None = None,
    accelerator: str | None = None,
    set: list[str] | None = None,
    batch: str | None = None,
    define: list[str] | None = None,
    rank: _Rank,
    latency_sensitivity: Annotated[bool, "--latency-sensitivity/--no-latency-sensitivity"] = False,
    site: SiteFields = None,
    price: PartPrices = None,
    files: Annotated[partial[_Files], Options(_Files)],
) -> Shown:
    """Rank every plan for training this model on these clusters.

    Plans are data, tensor, pipeline and expert parallelism and placed operators, with every collective algorithm, with
    and without a codec. Those that fit the memory come first, then the fastest.

    Args:
        model: A zoo name, package.module:factory, file.py:factory, a file (a message lists the forms), or a shell line
            of Megatron-LM in quotes.
        cluster: A cluster of the catalog, or a YAML file; terarack-64 without it. Repeatable: ranked together.
        ranks: Ranks of each cluster to use; repeatable.
        accelerator: Instead of the cluster's: an accelerator of the catalog, a YAML file, or one that `calibrate`
            wrote.
        set: field=value of the cluster, e.g. fabric.wavelengths=128 or ranks=32; repeatable.
        batch (N): Samples per rank, or max: each plan's own largest. Up to 32, as many as fit, without it.
        define (NAME=VALUE): Of what a model's file leaves open: a variable of a script, a dimension of a graph.
        latency_sensitivity: Search the latency of a hop at which another plan wins; done anyway where a fabric states
            none.
    """
    fields = read_settings(set)
    for name, given in (("ranks", ranks and ranks[0]), ("accelerator", accelerator)):
        if given is not None and name in fields:
            raise ConfigError(f"--set {name}={fields[name]} and --{name} {given}: expected one of them")
    fields |= {} if accelerator is None else {"accelerator": accelerator}
    inputs, written = site_inputs(fields, site, price, (*SITE_FIELDS, "fabric_price")), files()
    counts: list[int | None] = [*dict.fromkeys(ranks or ())] or [None]
    clusters = [
        load_cluster(name, count, set=fields) for name in dict.fromkeys(cluster or [_CLUSTER]) for count in counts
    ]
    if {*rank.keywords.get("strategy", ())} == {"placed"} and (written.settings or written.export_chakra is not None):
        raise ConfigError(
            "--strategy placed with an export: no framework or trace has placed plans: expected another --strategy too"
        )
    samples = batch if batch in (None, "max") else read_count(batch, "--batch")
    ranking = rank(model, clusters, batch=samples, define=_definitions(define), site=inputs)
    search, document = ranking.search, ranking.to_json()
    if latency_sensitivity or search.winner.cluster.fabric.latency_unstated:
        sensitivity = find_sensitivity(search)
        document["latency_sensitivity"] = sensitivity.to_json() | {"text": str(sensitivity)}
    if written.export_graph is not None:
        search.graph.save(written.export_graph)
        document["exported_graph"] = str(written.export_graph)
    messages = [*_export_settings(written, search, document), *_export_step(written, search, document)]
    paths = _write(written, ranking, document)
    return Shown(document, _parts(search, document, messages), paths, messages=messages)
