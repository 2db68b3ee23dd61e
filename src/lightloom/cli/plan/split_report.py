"""The report of ``plan --split``: ranking, front, placement, traffic beside circuits, timelines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from lightloom.cli.plan.report import assumptions
from lightloom.cli.plan.split_rows import rows, site
from lightloom.core.provenance import provenance_line
from lightloom.core.units import format_size, format_time
from lightloom.planner.search.plans import SplitPlan, SplitSearch
from lightloom.reports.figures.base import save, to_svg
from lightloom.reports.figures.breakdown_figure import breakdown_figure
from lightloom.reports.figures.pareto_figure import Point, pareto_figure
from lightloom.reports.figures.timeline_figure import timeline_figure
from lightloom.reports.numbers import format_rate
from lightloom.reports.report import Picture, Report
from lightloom.reports.split_table import FRONT, page_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lightloom.simulation.placed_step import PlacedStep
    from lightloom.workloads.graph import ComputeGraph

_BARS = 12
_LANES = 16
_LETTERS = 58
"""Of a line beside a bar."""


def split_report(
    found: SplitSearch, graph: ComputeGraph, document: Mapping[str, Any], origin: Mapping[str, Any]
) -> Report:
    """The page."""
    winner = found.winner
    return Report(
        title=f"{graph.name}: how to split it",
        headline=f"{winner.label}: {format_rate(winner.samples_per_second)} samples/s",
        explanation=str(document["explanation"]),
        facts=_facts(found, graph, document),
        not_sourced=_not_sourced(found),
        notes=(
            "Every split in the table was simulated; by their bounds, those left out are no faster than the fastest of "
            "their cluster, or of a kind that cannot win.",
            "A step of placed splits is that of one group, all groups being alike.",
            *(f"Left out: {why}" for why in found.refusals),
            *(f"Not in the model's trace: {each}." for each in document["not_in_trace"]),
        ),
        pictures=tuple(
            Picture(title=title, svg=to_svg(drawn), caption=caption) for _, title, drawn, caption in figures(found)
        ),
        tables=(
            page_table(rows(found), "Splits that were simulated", f"{FRONT} nothing is better in time and energy"),
        ),
        provenance=origin,
    )


def figures(found: SplitSearch) -> Iterator[tuple[str, str, Figure, str]]:
    """File name, title, figure and caption of every picture."""
    from lightloom.reports.figures.placement_figure import placement_figure
    from lightloom.reports.figures.traffic_figure import group_figure

    yield "breakdown", "Where the time goes", _breakdown(found), "The fastest splits, and the best of each kind."
    front = "one split is best in both" if len(found.front) == 1 else f"{len(found.front)} splits are on the front"
    caption = f"Every dot is a split that was simulated; {front}. Energies are those of the parts that have a source."
    yield "pareto", "Time and energy of a sample", _pareto(found), caption
    winner, placed = found.winner, _best_placed(found)
    drawn = timeline_figure(winner.timeline, _LANES)
    yield "timeline", "The winner's step", drawn, f"{winner.label} on {site(winner)}.{_lanes(winner)}"
    if placed is None or placed.placed is None:
        return
    step, name = placed.placed, f"{placed.label} on {site(placed)}"
    if placed is not winner:
        drawn = timeline_figure(placed.timeline, _LANES)
        yield "placed-timeline", "The best placed step", drawn, f"{name}.{_lanes(placed)}"
    if step.plan.k > 1:
        yield "placement", "Placement", placement_figure(step.plan), _placement_caption(name, step)
    if step.plan.ranks > 1:
        yield "traffic", "Traffic and circuits", group_figure(step.plan, step.circuits), _traffic_caption(name, step)


def _best_placed(found: SplitSearch) -> SplitPlan | None:
    """The fastest placed split that shares a model between devices; without one, the fastest."""
    shared = (plan for plan in found.ranking if plan.placed is not None and plan.placed.plan.k > 1)
    return next(shared, found.best_of("placed"))


def save_figure(found: SplitSearch, path: Path, origin: Mapping[str, Any]) -> Path:
    """Where the time of the fastest splits goes."""
    return save(_breakdown(found), path, provenance_line(origin))


def save_pictures(found: SplitSearch, folder: Path, origin: Mapping[str, Any]) -> list[Path]:
    """Every picture of the page as a file."""
    line = provenance_line(origin)
    return [save(drawn, folder / f"{name}.png", line) for name, _, drawn, _ in figures(found)]


def _facts(found: SplitSearch, graph: ComputeGraph, document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    winner, counts = found.winner, document["counts"]
    sites = dict.fromkeys(site(plan) for plan in found.ranking)
    return (
        ("model", f"{graph.name}, {graph.parameters:,} parameters"),
        ("clusters", "; ".join(sites)),
        ("global batches", ", ".join(f"{each:,}" for each in document["global_batches"])),
        ("a step", f"{format_time(winner.step_time)} for {winner.global_batch:,} samples"),
        ("memory of the fullest rank", format_size(winner.memory)),
        ("rows", f"{counts['rows']:,}, {counts['bounded']:,} bounded, {counts['simulated']:,} simulated"),
    )


def _not_sourced(found: SplitSearch) -> tuple[str, ...]:
    missing = dict.fromkeys(name for plan in found.ranking for name in plan.energy.missing)
    # Clusters that differ in their number of ranks only assume the same.
    clusters = {plan.cluster.name: plan.cluster for plan in found.ranking}
    return (
        *(f"{name}: no published value, so energies leave it out" for name in missing),
        *(f"{name}: {assumed}" for name, on in clusters.items() for assumed in assumptions(on)),
    )


def _shown(found: SplitSearch) -> list[SplitPlan]:
    best = {id(plan) for kind in dict.fromkeys(plan.kind for plan in found.ranking) if (plan := found.best_of(kind))}
    return [plan for place, plan in enumerate(found.ranking) if place < _BARS or id(plan) in best]


def _breakdown(found: SplitSearch) -> Figure:
    bars = [
        (
            "\n".join(
                [*wrap(plan.label, _LETTERS, break_on_hyphens=False), f"{plan.global_batch:,} samples, {site(plan)}"]
            ),
            {key: seconds / plan.global_batch for key, seconds in plan.breakdown.items()},
        )
        for plan in _shown(found)
    ]
    return breakdown_figure(bars, per="sample")


def _pareto(found: SplitSearch) -> Figure:
    points = {
        id(plan): Point(plan.kind, site(plan), plan.label, plan.sample_time, plan.energy_per_sample)
        for plan in found.ranking
    }
    return pareto_figure(list(points.values()), [points[id(plan)] for plan in found.front])


def _lanes(plan: SplitPlan) -> str:
    count = len(plan.timeline.resources)
    return f" The busiest {_LANES} of {count} devices and links." if count > _LANES else ""


def _placement_caption(name: str, step: PlacedStep) -> str:
    balanced, placement = step.plan.balanced, step.plan.placement
    idle = step.plan.k - len(set(placement.device.tolist()))
    unused = f" {idle} of {step.plan.k} devices get nothing." if idle else ""
    return (
        f"{name}: {balanced.size:,} sub-operators of {len(balanced.operators)} operators, placed by {placement.method}."
        f"{unused} Right, how long each device computes in a step."
    )


def _traffic_caption(name: str, step: PlacedStep) -> str:
    circuits = step.circuits
    if circuits.assignment is None:
        granted = "Packets: each pair may have its whole port, in turn."
    elif circuits.timing is None:
        granted = f"{len(circuits.assignment.circuits):,} circuits among all ranks, set once and verified."
    else:
        granted = (
            f"{len(circuits.assignment.circuits):,} circuits among all ranks in {len(circuits.bandwidth)} holds, "
            f"verified; duty cycle {circuits.timing.duty_cycle:.1%}."
        )
    relayed = f" {format_size(step.relayed_bytes)} of a group are relayed." if step.relayed_bytes else ""
    what = "bytes of a step between the ranks of the first groups, beside what their circuits carry"
    return f"{name}: {what}. {granted}{relayed}"
