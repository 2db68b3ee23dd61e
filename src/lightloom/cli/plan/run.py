"""What ``lightloom plan`` does: read, search, write what is asked for, show the ranking."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lightloom.cli.output import print_json
from lightloom.cli.plan.read import read_options
from lightloom.cli.plan.report import plan_report, ranking_rows, save_figure, save_pictures
from lightloom.core.files import write_atomically
from lightloom.core.provenance import provenance_line
from lightloom.core.units import format_size
from lightloom.planner.export import megatron, torchtitan
from lightloom.planner.export.job import exported, expressible
from lightloom.reports.console import legend, make_console, ranking_table
from lightloom.reports.html import write
from lightloom.reports.numbers import format_rate
from lightloom.reports.perfetto import write_perfetto_trace
from lightloom.reports.report import FRONT

if TYPE_CHECKING:
    from lightloom.cli.plan.options import PlanOptions
    from lightloom.planner.search.plans import Plan, PlanSearch

_SHOWN = 12
"""Plans on the terminal; pages and JSON hold all."""
_REFUSED = 3
"""Refusals on the terminal."""


def run(options: PlanOptions) -> None:
    """Search, write what is asked for, and show the ranking."""
    ranking = read_options(options).answer()
    found, origin, document = ranking.search, ranking.origin, ranking.to_json()
    messages = _write(options, found, document, origin)
    if options.as_json:
        print_json(document)
        for line in messages:
            print(line, file=sys.stderr)  # noqa: T201
    else:
        _print(found, document, messages)


def _write(options: PlanOptions, found: PlanSearch, document: dict[str, Any], origin: Mapping[str, Any]) -> list[str]:
    """Write the files that are asked for; returns messages about them."""
    messages = []
    if options.export_torchtitan is not None or options.export_megatron is not None:
        messages += _export(options, found, document)
    if options.report is not None:
        write(plan_report(found, document, origin), options.report)
        document["report"] = str(options.report)
    if options.trace is not None:
        title = f"{found.graph.name} on {found.winner.site}"
        write_perfetto_trace(options.trace, found.winner.timeline, title=title, provenance=origin)
        document["trace"] = str(options.trace)
    if options.figure is not None:
        save_figure(found, options.figure, origin)
        document["figure"] = str(options.figure)
    if options.pictures is not None:
        document["pictures"] = [str(path) for path in save_pictures(found, options.pictures, origin)]
    return messages


def _export(options: PlanOptions, found: PlanSearch, document: dict[str, Any]) -> list[str]:
    plan = expressible(found)
    job = exported(plan, found.graph)
    entry: dict[str, Any] = {"rank": found.ranking.index(plan) + 1, "label": plan.label, "notes": {}}
    document["exported"], messages = entry, []
    if plan is not found.winner:
        entry["why"] = "the winner is a placed plan, which no framework has settings for"
        messages.append(
            f"exported: {plan.label}, rank {entry['rank']}: {entry['why']}; a sample takes "
            f"{plan.sample_time / found.winner.sample_time:.3g} times as long"
        )
    if options.export_torchtitan is not None:
        write_atomically(options.export_torchtitan, torchtitan.to_toml(job))
        entry["torchtitan"], entry["notes"]["torchtitan"] = str(options.export_torchtitan), torchtitan.notes(job)
    if options.export_megatron is not None:
        write_atomically(options.export_megatron, megatron.to_script(job))
        entry["megatron"], entry["notes"]["megatron"] = str(options.export_megatron), megatron.notes(job)
    return messages


def header(found: PlanSearch) -> str:
    """Batch, throughput, utilisation and memory of the winner, in a line."""
    winner, batches = found.winner, found.global_batches
    if found.request.largest_batches:
        batch = f"each plan's largest batch, the winner's {winner.global_batch:,} samples"
    else:
        batch = f"global batch {' or '.join(f'{each:,}' for each in batches)}"
        if len(batches) == 1 and found.request.global_batches is None:
            batch += f" ({winner.global_batch / winner.cluster.ranks:g} a rank, the largest up to 32 that a plan fits)"
    tokens = found.sequence_length
    rate = f"{format_rate(winner.samples_per_second)} samples/s"
    rate += "" if tokens is None else f", {format_rate(winner.samples_per_second * tokens)} tokens/s"
    return f"{batch} · {rate} · {_utilization(found, winner)} · {memory_line(winner)}"


def _utilization(found: PlanSearch, plan: Plan) -> str:
    model, hardware = found.utilization(plan), found.utilization(plan, hardware=True)
    text = f"{100 * model:.3g} % model-FLOPs utilization"
    return text if hardware == model else f"{text} ({100 * hardware:.3g} % with recomputation)"


def memory_line(plan: Plan) -> str:
    """Memory of the fullest rank beside what there is."""
    capacity = plan.cluster.accelerator.memory
    return f"{format_size(plan.memory)} a rank" + ("" if capacity is None else f" of {format_size(capacity)}")


def _print(found: PlanSearch, document: Mapping[str, Any], messages: Sequence[str]) -> None:
    console = make_console()
    rows = ranking_rows(found)
    best = [place - 1 for place in document["best_of_strategy"].values()]
    shown = sorted({*range(min(_SHOWN, len(rows))), *best})
    sites = {row.site for row in rows}
    title = found.graph.name + (f" on {sites.pop()}" if len(sites) == 1 else f" on {len(sites)} clusters")
    console.print(f"{title}: {header(found)}", soft_wrap=True, style="bold")
    console.print(ranking_table([rows[place] for place in shown], console.width, places=[place + 1 for place in shown]))
    if len(rows) > len(shown):
        console.print(f"... and {len(rows) - len(shown)} other plans, in the report and in --json")
    if found.reference and found.clusters[0].reference is not None:
        name = f"the same on the electrical reference, {found.clusters[0].reference.kind_name}"
        console.print(ranking_table(ranking_rows(found, found.reference[:3]), console.width, title=name))
    console.print(
        legend().append(f"  {FRONT} ", style="green").append("nothing is better in time and energy", style="dim")
    )
    console.print(str(document["explanation"]))
    for line in [*_notes(found, document), *messages]:
        console.print(line, style="dim")
    console.print(provenance_line(document["provenance"]), style="dim")
    written = {name: document[name] for name in ("report", "trace", "figure") if name in document}
    written |= {name: path for name, path in document.get("exported", {}).items() if name in ("torchtitan", "megatron")}
    for name, path in [*written.items(), *(("picture", path) for path in document.get("pictures", ()))]:
        console.print(f"{name}: {path}", soft_wrap=True)


def _notes(found: PlanSearch, document: Mapping[str, Any]) -> list[str]:
    lines = [f"not in the trace: {each}" for each in document["not_in_trace"]]
    lines += [f"left out: {reason}" for reason in found.refusals]
    reasons = list(dict.fromkeys(row.why for row in found.refused))
    lines += [f"refused: {reason}" for reason in reasons[:_REFUSED]]
    more = len(reasons) - _REFUSED
    return lines + ([f"refused: {more} more reasons, in the report and in --json"] if more > 0 else [])
