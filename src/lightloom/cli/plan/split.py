"""``lightloom plan --split``: how to split a model over clusters, ranked by seconds a sample."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightloom.cli.plan.split_options import Asked, SplitOptions
    from lightloom.planner.search.plans import SplitSearch

_SHOWN = 10
"""Splits on the terminal; pages and JSON hold all."""


def plan_split(options: SplitOptions) -> None:
    """Search, write what is asked for, and show the ranking."""
    from lightloom.cli.output import print_json
    from lightloom.cli.plan.split_document import split_document
    from lightloom.cli.plan.split_options import configuration, read_options
    from lightloom.core.provenance import provenance

    asked = read_options(options)
    found = _search(asked)
    origin = provenance(configuration(asked))
    document = split_document(found, asked, origin)
    said = _write(options, found, asked, document, origin)
    if options.as_json:
        print_json(document)
        for line in said:
            print(line, file=sys.stderr)  # noqa: T201
    else:
        _print(found, asked, document, said)


def _search(asked: Asked) -> SplitSearch:
    from lightloom.planner.pricing.placed_space import DEFAULT_QUANTA
    from lightloom.planner.search.search import split_search
    from lightloom.reports.progress import progress

    with progress("Splits", None) as advance:
        return split_search(
            asked.graph,
            asked.clusters,
            global_batches=asked.batches,
            quanta=asked.quanta or DEFAULT_QUANTA,
            algorithms=asked.algorithms,
            kinds=asked.kinds,
            compressions=asked.compressions,
            advance=lambda: advance(1),
        )


def _write(
    options: SplitOptions, found: SplitSearch, asked: Asked, document: dict[str, Any], origin: Mapping[str, Any]
) -> list[str]:
    """All files that are asked for; returns what is worth a line to people."""
    from lightloom.cli.plan.split_report import save_figure, save_pictures, split_report
    from lightloom.cli.plan.split_rows import site

    said = []
    if options.export_torchtitan is not None or options.export_megatron is not None:
        said += _export(options, found, asked, document)
    if options.report is not None:
        from lightloom.reports.html import write

        write(split_report(found, asked.graph, document, origin), options.report)
        document["report"] = str(options.report)
    if options.trace is not None:
        from lightloom.reports.perfetto import write_perfetto_trace

        title = f"{asked.graph.name} on {site(found.winner)}"
        write_perfetto_trace(options.trace, found.winner.timeline, title=title, provenance=origin)
        document["trace"] = str(options.trace)
    if options.figure is not None:
        save_figure(found, options.figure, origin)
        document["figure"] = str(options.figure)
    if options.pictures is not None:
        document["pictures"] = [str(path) for path in save_pictures(found, options.pictures, origin)]
    return said


def _export(options: SplitOptions, found: SplitSearch, asked: Asked, document: dict[str, Any]) -> list[str]:
    from lightloom.core.files import write_atomically
    from lightloom.planner.export import megatron, torchtitan
    from lightloom.planner.export.job import exported, expressible

    plan = expressible(found)
    job = exported(plan, asked.graph)
    document["exported"] = {"rank": found.ranking.index(plan) + 1, "label": plan.label, "notes": {}}
    said = []
    if plan is not found.winner:
        document["exported"]["why"] = "the winner is a placed split, which no framework has settings for"
        said.append(
            f"exported: {plan.label}, rank {document['exported']['rank']}: {document['exported']['why']}; a sample "
            f"takes {plan.sample_time / found.winner.sample_time:.3g} times as long"
        )
    if options.export_torchtitan is not None:
        write_atomically(options.export_torchtitan, torchtitan.to_toml(job))
        document["exported"]["torchtitan"] = str(options.export_torchtitan)
        document["exported"]["notes"]["torchtitan"] = torchtitan.notes(job)
    if options.export_megatron is not None:
        write_atomically(options.export_megatron, megatron.to_script(job))
        document["exported"]["megatron"] = str(options.export_megatron)
        document["exported"]["notes"]["megatron"] = megatron.notes(job)
    return said


def _print(found: SplitSearch, asked: Asked, document: Mapping[str, Any], said: Sequence[str]) -> None:
    from lightloom.cli.plan.split_rows import rows
    from lightloom.core.provenance import provenance_line
    from lightloom.reports.console import legend, make_console
    from lightloom.reports.split_table import FRONT, split_table

    console = make_console()
    ranked = rows(found)
    best = [ranked[place - 1] for place in document["best_of_kind"].values()]
    shown = sorted({row.place: row for row in [*ranked[:_SHOWN], *best]}.values(), key=lambda row: row.place)
    sites = {row.site for row in ranked}
    title = asked.graph.name + (f" on {sites.pop()}" if len(sites) == 1 else f" on {len(sites)} clusters")
    console.print(split_table(shown, console.width, title=title))
    if len(ranked) > len(shown):
        console.print(f"... and {len(ranked) - len(shown)} slower splits, in the report and in --json")
    console.print(
        legend().append(f"  {FRONT} ", style="green").append("nothing is better in time and energy", style="dim")
    )
    console.print(str(document["explanation"]))
    missing = [f"not in the trace: {each}" for each in document["not_in_trace"]]
    for line in [*missing, *(f"left out: {why}" for why in found.refusals), *said]:
        console.print(line, style="dim")
    console.print(provenance_line(document["provenance"]), style="dim")
    written = {name: document[name] for name in ("report", "trace", "figure") if name in document}
    written |= {name: path for name, path in document.get("exported", {}).items() if name in ("torchtitan", "megatron")}
    for name, path in written.items():
        console.print(f"{name}: {path}", soft_wrap=True)
    for path in document.get("pictures", ()):
        console.print(f"picture: {path}", soft_wrap=True)
