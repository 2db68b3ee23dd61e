"""Pictures of a plan's report: where time and energy go, the step, the schedule, the placement and its circuits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from lightloom.cli.plan.algorithms import compared
from lightloom.core.provenance import provenance_line
from lightloom.core.units import format_size
from lightloom.planner.search.plans import Plan, PlanSearch
from lightloom.reports.figures.base import save
from lightloom.reports.figures.breakdown_figure import breakdown_figure
from lightloom.reports.figures.pareto_figure import Point, pareto_figure
from lightloom.reports.figures.placement_figure import placement_figure
from lightloom.reports.figures.timeline_figure import timeline_figure
from lightloom.reports.figures.traffic_figure import group_figure
from lightloom.reports.figures.wavelength_map import wavelength_caption, wavelength_map

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lightloom.collectives.schedule.columns import Schedule
    from lightloom.simulation.placed_step import PlacedStep

_BARS, _LANES = 12, 16
"""Plans in the first picture, devices and links in a timeline."""
_LETTERS = 58
"""Letters in a line beside a bar."""


def figures(search: PlanSearch) -> Iterator[tuple[str, str, Figure, str]]:
    """File name, title, figure and caption of every picture."""
    winner, placed = search.winner, _best_placed(search)
    yield "breakdown", "Where the time goes", _breakdown(search), "The fastest plans, and the best of each kind."
    front = "one plan is best in both" if len(search.front) == 1 else f"{len(search.front)} plans are on the front"
    caption = f"Every dot is a plan that was simulated; {front}. Energies are those of the parts that have a source."
    yield "pareto", "Time and energy of a sample", _pareto(search), caption
    drawn = timeline_figure(winner.timeline, _LANES)
    yield "timeline", "The winner's step", drawn, f"{winner.label} on {winner.site}.{_lanes(winner)}"
    yield from _schedules(search)
    if placed is None or placed.placed is None:
        return
    step, name = placed.placed, f"{placed.label} on {placed.site}"
    if placed is not winner:
        drawn = timeline_figure(placed.timeline, _LANES)
        yield "placed-timeline", "The best placed step", drawn, f"{name}.{_lanes(placed)}"
    if step.plan.k > 1:
        yield "placement", "Placement", placement_figure(step.plan), _placement_caption(name, step)
    if step.plan.ranks > 1:
        yield "traffic", "Traffic and circuits", group_figure(step.plan, step.circuits), _traffic_caption(name, step)


def drawn_schedule(search: PlanSearch) -> tuple[Plan, Schedule] | None:
    """The schedule of the largest exchange of the winner, or else of the fastest data parallelism alone, with its
    plan."""
    plans = [plan for plan in [search.winner, *compared(search)] if plan.exchanges and plan.verified]
    plan = next((plan for plan in plans if plan.prices), None)
    if plan is None or plan.prices is None:
        return None
    exchange = plan.exchanges[0]
    return plan, plan.prices.schedule(exchange.kind, exchange.nbytes)


def _schedules(search: PlanSearch) -> Iterator[tuple[str, str, Figure, str]]:
    drawn = drawn_schedule(search)
    if drawn is None:
        return
    plan, schedule = drawn
    fabric = plan.cluster.fabric
    title = "The winning schedule" if plan is search.winner else f"The schedule of {plan.strategy}, {plan.algorithm}"
    yield "schedule", title, wavelength_map(schedule, fabric), wavelength_caption(schedule, fabric)


def _best_placed(search: PlanSearch) -> Plan | None:
    """The fastest placed plan that shares a model between devices; without one, the fastest."""
    shared = (plan for plan in search.ranking if plan.placed is not None and plan.placed.plan.k > 1)
    return next(shared, search.best_of("placed"))


def save_figure(search: PlanSearch, path: Path, origin: Mapping[str, Any]) -> Path:
    """Draw where the time of the fastest plans goes."""
    return save(_breakdown(search), path, provenance_line(origin))


def save_pictures(search: PlanSearch, folder: Path, origin: Mapping[str, Any]) -> list[Path]:
    """Draw every picture of the page as a file."""
    line = provenance_line(origin)
    return [save(drawn, folder / f"{name}.png", line) for name, _, drawn, _ in figures(search)]


def _breakdown(search: PlanSearch) -> Figure:
    best = {id(plan) for plan in map(search.best_of, search.request.kinds) if plan is not None}
    shown = [plan for place, plan in enumerate(search.ranking) if place < _BARS or id(plan) in best]
    same = len({(plan.global_batch, plan.site) for plan in search.ranking}) == 1
    bars = [(_bar(plan, same), _seconds(plan, same)) for plan in shown]
    if same:
        bars += [(f"electrical: {_bar(plan, same)}", _seconds(plan, same)) for plan in search.reference[:1]]
    return breakdown_figure(bars, **({} if same else {"per": "sample"}))


def _bar(plan: Plan, same: bool) -> str:
    lines = wrap(plan.label, _LETTERS, break_on_hyphens=False)
    return "\n".join(lines if same else [*lines, f"{plan.global_batch:,} samples, {plan.site}"])


def _seconds(plan: Plan, same: bool) -> dict[str, float]:
    return {key: seconds if same else seconds / plan.global_batch for key, seconds in plan.breakdown.items()}


def _pareto(search: PlanSearch) -> Figure:
    points = {
        id(plan): Point(plan.strategy, plan.site, plan.label, plan.sample_time, plan.energy_per_sample)
        for plan in search.ranking
        if plan.fits is not False or search.winner.fits is False
    }
    return pareto_figure(list(points.values()), [points[id(plan)] for plan in search.front if id(plan) in points])


def _lanes(plan: Plan) -> str:
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
