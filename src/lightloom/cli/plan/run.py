"""What ``lightloom plan`` does: rank the plans, write what is asked for, show the ranking."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from inspect import signature
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from lightloom.api.arguments import load_cluster
from lightloom.api.planning import ALL, PlanRanking, plan
from lightloom.cli.output import check_outputs, print_result, read_count, read_settings
from lightloom.cli.plan.assumed import (
    assumed_lines,
    built_lines,
    carried_lines,
    imported_lines,
    plan_assumptions,
    warning_lines,
)
from lightloom.cli.plan.exports import check_exports, exported_files, write_exports
from lightloom.cli.plan.pictures import save_figure, save_pictures
from lightloom.cli.plan.report import exchange_notes, interval_note, plan_report, ranking_rows, throughput, utilization
from lightloom.cli.plan.spent import place_ledgers, spent_lines
from lightloom.cli.site import site_inputs
from lightloom.core.errors import ConfigError
from lightloom.core.files import check_writable
from lightloom.core.units import format_size, format_time
from lightloom.planner.export.counters import counted
from lightloom.planner.pricing.placed_space import DEFAULT_QUANTA
from lightloom.planner.search.sensitivity import latency_sensitivity
from lightloom.reports.console import legend, make_console, plain_table, ranking_table
from lightloom.reports.html import write
from lightloom.reports.ledger import TITLE as LEDGER
from lightloom.reports.ledger import ledger_notes, ledger_rows
from lightloom.reports.perfetto import write_perfetto_trace
from lightloom.reports.report import FRONT

if TYPE_CHECKING:
    from pathlib import Path

    from lightloom.cli.plan.options import PlanOptions
    from lightloom.planner.search.plans import PlanSearch

_CLUSTER = "terarack-64"
_SHOWN = 12
"""Plans on the terminal; pages and JSON hold all."""
_REFUSED = 3
"""Refusals on the terminal."""


def run(options: PlanOptions) -> None:
    """Search, write what is asked for, and show the ranking."""
    ranking = _rank(options)
    document = ranking.to_json()
    sensitivity = _sensitivity(options, ranking.search)
    if sensitivity is not None:
        document["latency_sensitivity"] = sensitivity
    messages = write_exports(options, ranking.search, document)
    written = _write(options, ranking, document)
    print_result(document, options.as_json, _parts(ranking.search, document, messages), written)
    if options.as_json:
        for line in messages:
            print(line, file=sys.stderr)  # noqa: T201


def _rank(options: PlanOptions) -> PlanRanking:
    """Check the files to write, and rank the plans; options that share a name with an argument of the API are one."""
    fields = read_settings(options.settings)
    if options.ranks and "ranks" in fields:
        raise ConfigError(f"--set ranks={fields['ranks']} and --ranks {options.ranks[0]}: expected one of them")
    if options.accelerator is not None:
        if "accelerator" in fields:
            given = f"--set accelerator={fields['accelerator']} and --accelerator {options.accelerator}"
            raise ConfigError(f"{given}: expected one of them")
        fields["accelerator"] = options.accelerator
    site = site_inputs(asdict(options), fields)
    counts: list[int | None] = [*dict.fromkeys(options.ranks or ())] or [None]
    names = dict.fromkeys(options.cluster or [_CLUSTER])
    clusters = [load_cluster(name, ranks, set=fields) for name in names for ranks in counts]
    _check_outputs(options)
    arguments = {name: getattr(options, name) for name in signature(plan).parameters if hasattr(options, name)}
    arguments |= {
        "cluster": clusters,
        "batch": options.batch if options.batch in (None, "max") else read_count(str(options.batch), "--batch"),
        "define": _definitions(options.define),
        "strategy": options.strategy or ALL,
        "algorithm": options.algorithm or ALL,
        "quantum": options.quantum or DEFAULT_QUANTA,
        "exchange": options.exchange or (),
        "site": site,
    }
    return plan(**arguments)


def _definitions(given: Sequence[str] | None) -> dict[str, str]:
    """Return NAME=VALUE pairs as a mapping."""
    for text in given or ():
        if not text.partition("=")[0] or "=" not in text:
            raise ConfigError(f"--define {text}: expected NAME=VALUE")
    return {text.partition("=")[0]: text.partition("=")[2] for text in given or ()}


def _sensitivity(options: PlanOptions, search: PlanSearch) -> dict[str, Any] | None:
    """What the latency of a hop decides, where that is asked for or the winner's fabric states none."""
    if not options.latency_sensitivity and not search.winner.cluster.fabric.latency_unstated:
        return None
    sensitivity = latency_sensitivity(search)
    return sensitivity.to_json() | {"text": str(sensitivity)}


def _check_outputs(options: PlanOptions) -> None:
    check_exports(options)
    check_outputs([options.figure], [options.report, options.trace])
    if options.pictures is not None:
        if options.pictures.exists() and not options.pictures.is_dir():
            raise ConfigError(f"--pictures {options.pictures}: expected a folder")
        check_writable(options.pictures / "placement.png" if options.pictures.exists() else options.pictures)


def _write(options: PlanOptions, ranking: PlanRanking, document: dict[str, Any]) -> dict[str, Path | None]:
    """Write the report, the trace and the pictures that are asked for; returns all files of the command."""
    search, origin = ranking.search, ranking.origin
    if options.report is not None:
        write(plan_report(search, document, origin), options.report)
    if options.trace is not None:
        title = f"{search.graph.name} on {search.winner.site}"
        timeline, counters = counted(search.winner)
        write_perfetto_trace(options.trace, timeline, title=title, provenance=origin, counters=counters)
    if options.figure is not None:
        save_figure(search, options.figure, origin)
    written = {name: getattr(options, name) for name in ("report", "trace", "figure")}
    document |= {name: str(path) for name, path in written.items() if path is not None}
    written |= exported_files(options)
    if options.pictures is not None:
        pictures = save_pictures(search, options.pictures, origin)
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
    yield from (Text(f"priced: {line}") for line in document["priced"])
    yield from (Text(f"measured: {line}") for line in document["measured"])
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
    yield from (Text(line, style="dim") for line in ledger_notes(ledgers))
    yield from (Text(line, style="dim") for line in [*_notes(search, document), *messages])


def _notes(search: PlanSearch, document: Mapping[str, Any]) -> list[str]:
    lines = [f"warning: {guess}" for guess in search.graph.uncounted]
    lines += [f"warning: {line}" for line in warning_lines(search.clusters)]
    lines += assumed_lines(search.clusters)
    lines += built_lines(search.clusters)
    lines += imported_lines(search.clusters)
    lines += carried_lines(search.clusters)
    lines += [f"assumed of the winner: {line}" for line in plan_assumptions(search.winner)]
    lines += [f"exchange {note}" for note in exchange_notes(search)]
    sensitivity = document.get("latency_sensitivity")
    if sensitivity is not None:
        lines.append(f"latency of {format_time(sensitivity['own_hop_latency_s'])} a hop: {sensitivity['text']}")
    lines += [f"of the model's file: {gap}" for gap in document["not_in_trace"]]
    lines += [f"left out: {reason}" for reason in search.refusals]
    reasons = list(dict.fromkeys(row.why for row in search.refused))
    lines += [f"refused: {reason}" for reason in reasons[:_REFUSED]]
    more = len(reasons) - _REFUSED
    return lines + ([f"refused: {more} more reasons, in the report and in --json"] if more > 0 else [])
