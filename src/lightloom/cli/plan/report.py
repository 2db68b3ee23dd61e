"""The report of a plan: what the search found, as the plain data that the reports layer shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from lightloom.cli.plan.algorithms import algorithm_tables, circuit_tables, compared, times_the_bound
from lightloom.clusters.base import Cluster
from lightloom.collectives.registry import find
from lightloom.core.provenance import provenance_line
from lightloom.core.units import format_bandwidth, format_energy, format_size, format_time
from lightloom.fabrics.base import Fabric
from lightloom.planner.pricing.compression import Compression
from lightloom.planner.search.plans import Plan, PlanSearch
from lightloom.planner.search.verdict import verdict
from lightloom.reports.figures.base import save, to_svg
from lightloom.reports.figures.breakdown_figure import breakdown_figure
from lightloom.reports.figures.pareto_figure import Point, pareto_figure
from lightloom.reports.figures.placement_figure import placement_figure
from lightloom.reports.figures.timeline_figure import timeline_figure
from lightloom.reports.figures.traffic_figure import group_figure
from lightloom.reports.figures.wavelength_map import wavelength_caption, wavelength_map
from lightloom.reports.numbers import format_rate
from lightloom.reports.report import FRONT, CollectiveRow, Picture, RankingRow, Report, memory_bar, plans_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lightloom.simulation.placed_step import PlacedStep

_ASSUMED = "assumption"
_RANKED, _BARS, _LANES = 20, 12, 16
"""Plans in the ranking of a page, plans in its first picture, devices and links in a timeline."""
_LETTERS = 58
"""Letters in a line beside a bar."""


def ranking_rows(search: PlanSearch, plans: Iterable[Plan] | None = None) -> tuple[RankingRow, ...]:
    """One row for each plan, of the ranking without ``plans``."""
    front = {id(plan) for plan in search.front}
    return tuple(
        RankingRow(
            strategy=plan.strategy,
            algorithm=plan.algorithm,
            label=plan.label,
            site=plan.site,
            compression=plan.compression.codec if plan.compression else None,
            compression_effect=str(verdict(plan) or ""),
            global_batch=plan.global_batch,
            step_time=plan.step_time,
            breakdown=plan.breakdown,
            energy=plan.energy.total_j,
            known_energy=plan.energy.known_j or None,
            memory=plan.memory,
            verified=True,
            lower_bound_ratio=times_the_bound(plan),
            fits=plan.fits,
            on_front=id(plan) in front,
        )
        for plan in (search.ranking if plans is None else plans)
    )


def plan_report(search: PlanSearch, document: Mapping[str, Any], origin: Mapping[str, Any]) -> Report:
    """The page of a search."""
    winner, rows = search.winner, ranking_rows(search)
    exchange = winner.exchanges[0] if winner.exchanges and winner.prices else None
    fits = "" if winner.fits is not False else "no plan fits; the fastest: "
    return Report(
        title=f"{search.graph.name} on {'; '.join(dict.fromkeys(plan.site for plan in search.ranking))}",
        headline=f"{fits}{winner.label}: {format_time(winner.step_time)} a step, "
        f"{format_rate(winner.samples_per_second)} samples/s",
        explanation=str(document["explanation"]),
        facts=_facts(search),
        ranking=rows[:_RANKED],
        reference=ranking_rows(search, search.reference[:5]),
        reference_name=f"Electrical reference: {_kind(search.clusters[0].reference)}",
        not_sourced=_not_sourced(search),
        notes=(*_notes(search), *(f"Not in the model's trace: {each}." for each in document["not_in_trace"])),
        pictures=tuple(
            Picture(title=title, svg=to_svg(drawn), caption=caption) for _, title, drawn, caption in figures(search)
        ),
        collectives=_collectives(search, winner),
        collectives_title="" if exchange is None else f"The largest {exchange.kind}, {format_size(exchange.nbytes)}",
        memory=None if winner.memory_use is None else memory_bar(winner.memory_use, winner.cluster.accelerator.memory),
        tables=(
            plans_table(rows, "Plans that were simulated", f"{FRONT} nothing that fits is better in time and energy"),
            *algorithm_tables(search),
            *circuit_tables(search),
        ),
        provenance=origin,
    )


def _facts(search: PlanSearch) -> tuple[tuple[str, str], ...]:
    winner, counts = search.winner, search.counts
    cluster, fabric = winner.cluster, winner.cluster.fabric
    receive = min(cut.capacity for cut in fabric.cuts() if cut.ranks == 1)
    model, hardware = search.utilization(winner), search.utilization(winner, hardware=True)
    repeated = "" if hardware == model else f" ({100 * hardware:.3g} % with recomputation)"
    batches = ", ".join(f"{each:,}" for each in search.global_batches)
    return (
        ("model", f"{search.graph.name}, {search.graph.parameters:,} parameters"),
        ("cluster", f"{cluster.name}: {cluster.ranks} × {cluster.accelerator.name}"),
        ("fabric", f"{_kind(fabric)}, {format_bandwidth(receive)} into each rank"),
        ("circuit set-up", format_time(fabric.setup_time) if fabric.exclusive else "none, packets"),
        ("global batch", "the largest of each plan" if search.request.largest_batches else batches),
        ("a step", f"{format_time(winner.step_time)} for {winner.global_batch:,} samples"),
        ("model-FLOPs utilization", f"{100 * model:.3g} %{repeated}"),
        ("memory of the fullest rank", format_size(winner.memory)),
        ("arithmetic", str(cluster.training.precision)),
        ("cost model", search.request.cost_model),
        *_codec_facts(search),
        ("energy a step", _energy(winner)),
        ("plans", f"{counts.rows:,}, {counts.bounded:,} bounded, {counts.simulated:,} simulated"),
    )


def _codec_facts(search: PlanSearch) -> tuple[tuple[str, str], ...]:
    codec = _codec(search)
    if codec is None:
        return ()
    engine = codec.engine
    rates = f"{format_bandwidth(engine.encode)} in, {format_bandwidth(engine.decode)} out"
    return (
        ("gradients", f"{codec.codec}: {codec.ratio:.3g} times smaller"),
        ("codec's engine", f"{engine.name}, {rates}"),
    )


def _codec(search: PlanSearch) -> Compression | None:
    return next((plan.compression for plan in search.ranking if plan.compression), None)


def _kind(fabric: Fabric | None) -> str:
    return "fabric" if fabric is None else fabric.kind_name


def _energy(winner: Plan) -> str:
    energy = winner.energy
    if energy.total_j is not None:
        return format_energy(energy.total_j)
    return f"at least {format_energy(energy.known_j)}; {len(energy.missing)} parts not sourced"


def _not_sourced(search: PlanSearch) -> tuple[str, ...]:
    missing = dict.fromkeys(name for plan in search.ranking for name in plan.energy.missing)
    # Clusters that differ in their number of ranks only assume the same.
    clusters = {plan.cluster.name: plan.cluster for plan in search.ranking}
    prefix = len(clusters) > 1
    return (
        *(f"{name}: no published value, so energies leave it out" for name in missing),
        *(f"{name}: {line}" if prefix else line for name, on in clusters.items() for line in assumptions(on)),
    )


def assumptions(on: Cluster) -> tuple[str, ...]:
    """Values of a cluster that no publication gives."""
    parts: dict[str, Mapping[str, str]] = {
        "accelerator": on.accelerator.sources,
        "fabric": on.fabric.sources,
        "reference": on.reference.sources if on.reference else {},
        "cluster": on.sources,
    }
    assumed = [
        f"{part}.{field}: {source}"
        for part, sources in parts.items()
        for field, source in sources.items()
        if _ASSUMED in source
    ]
    if "hop_latency" not in on.fabric.sources:
        assumed.append(f"fabric.hop_latency: {format_time(on.fabric.hop_latency)}, not sourced")
    return tuple(assumed)


def _notes(search: PlanSearch) -> tuple[str, ...]:
    winner, codec = search.winner, _codec(search)
    own: tuple[str, ...] = ()
    if winner.exchanges and winner.prices and not find(winner.algorithm).by_size:  # those of every size have a table
        own = winner.prices.schedule(winner.exchanges[0].kind, winner.exchanges[0].nbytes).notes
    refused = list(dict.fromkeys(row.why for row in search.refused))
    codec_notes = (
        ()
        if codec is None
        else (
            f"Ratio of {codec.codec}, to float32: {codec.ratio_source}. Weights are not compressed.",
            f"Rates of the codec's engine, in bytes of float32: {codec.engine.source}.",
        )
    )
    return (
        f"Times follow the {search.request.cost_model} cost model; every schedule was replayed by the verifier.",
        "One step of many equal ones: circuits that the step before left in place are not set up again.",
        "Every plan in the table was simulated; by their bounds, those left out are no faster than the fastest of "
        "their cluster, or of a kind that cannot win. A placed plan's step is that of one group, all being alike.",
        *(f"{winner.algorithm}: {note}" for note in own),
        *codec_notes,
        *(f"Left out: {reason}." for reason in search.refusals),
        *((f"Refused: {'; '.join(refused)}.",) if refused else ()),
    )


def _collectives(search: PlanSearch, winner: Plan) -> tuple[CollectiveRow, ...]:
    """The winner's largest exchange with every algorithm of data parallelism alone."""
    if winner.prices is None or not winner.exchanges:
        return ()
    exchange, rows = winner.exchanges[0], []
    for plan in search.ranking:
        if plan.strategy == winner.strategy and plan.prices is not None and len(plan.algorithms) == 1:
            cost, bound = plan.prices.cost(exchange.kind, exchange.nbytes)
            row = CollectiveRow(
                algorithm=plan.algorithm + (f" · {plan.compression.codec}" if plan.compression else ""),
                steps=cost.steps,
                time=cost.time,
                lower_bound=bound.time,
                bound_by=bound.bound_by,
                energy=cost.energy,
            )
            rows.append(row)
    return tuple(dict.fromkeys(sorted(rows, key=lambda row: row.time)))


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


def _schedules(search: PlanSearch) -> Iterator[tuple[str, str, Figure, str]]:
    """The schedule of the largest exchange of the winner, or else of the fastest data parallelism alone."""
    plan = next((plan for plan in [search.winner, *compared(search)] if plan.prices and plan.exchanges), None)
    if plan is None or plan.prices is None:
        return
    exchange = plan.exchanges[0]
    schedule, fabric = plan.prices.schedule(exchange.kind, exchange.nbytes), plan.cluster.fabric
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
