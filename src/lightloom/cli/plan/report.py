"""The report of a plan: what the search found, as the plain data that the reports layer shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lightloom.cli.plan.algorithms import algorithm_tables, circuit_tables, times_the_bound
from lightloom.cli.plan.assumed import assumptions, built_lines, plan_assumptions, warning_lines
from lightloom.cli.plan.pictures import drawn_schedule, figures
from lightloom.cli.plan.spent import ledger_table, spent_tables
from lightloom.clusters.base import Cluster
from lightloom.core.units import format_bandwidth, format_energy, format_rate, format_size, format_time
from lightloom.exchange.evidence import accuracy_note
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.footprint import Cut
from lightloom.planner.gradients.priced import PricedExchange
from lightloom.planner.pricing.library import carrier
from lightloom.planner.search.document import intervals_basis
from lightloom.planner.search.plans import Plan, PlanSearch
from lightloom.planner.search.verdict import verdict
from lightloom.reports.explore import ExploredPlan, LightMap, explored_plan, light_map
from lightloom.reports.figures.base import to_svg
from lightloom.reports.html import draws
from lightloom.reports.ledger import MARKS
from lightloom.reports.report import (
    ALIKE,
    CollectiveRow,
    MemoryBar,
    Picture,
    RankingRow,
    Report,
    Table,
    collective_row,
    memory_parts,
)

_EXPLORED = 20
"""Plans of a page that a reader may look into, beside the best of each kind."""

_LIBRARY_NOTE = (
    "Exchanges by the library are those of the fabric's collective library: a closed form of what it reaches "
    "(transport), held to measured steps, and no schedule of ours."
)


def ranking_rows(search: PlanSearch, plans: Iterable[Plan] | None = None) -> tuple[RankingRow, ...]:
    """One row for each of ``plans``, without them for each of the ranking."""
    front = {id(plan) for plan in search.front}
    intervals = search.intervals
    return tuple(
        RankingRow(
            place=place,
            strategy=plan.strategy,
            algorithm=plan.algorithm,
            label=plan.short_label,
            site=plan.site,
            exchange=plan.gradient_exchange.label if plan.gradient_exchange else None,
            exchange_effect=str(verdict(plan) or "") if plan.gradient_exchange else "",
            exchange_accuracy=accuracy_note(plan.gradient_exchange.name) if plan.gradient_exchange else "",
            global_batch=plan.global_batch,
            step_time=plan.step_time,
            breakdown=plan.breakdown,
            energy=plan.energy.total_j,
            known_energy=plan.energy.known_j or None,
            energy_mark=MARKS[plan.energy.total.bound],
            memory=plan.memory,
            verified=plan.verified,
            closed_form=not plan.verified,
            runnable=plan.runnable,
            half_width=intervals[id(plan)].half_width if id(plan) in intervals else None,
            like_first=id(plan) in intervals and plan is not search.winner and not intervals[id(plan)].apart,
            lower_bound_ratio=times_the_bound(plan),
            fits=plan.fits,
            on_front=id(plan) in front,
        )
        for place, plan in enumerate(search.ranking if plans is None else plans, start=1)
    )


def utilization(search: PlanSearch) -> str:
    """The winner's shares of the peak rate: of the model's FLOPs, and of all that the hardware computes."""
    if not any(operator.forward_flops for operator in search.graph.operators):
        return "utilization unknown, as the trace states no FLOPs"
    model, hardware = (search.utilization(search.winner, hardware=repeated) for repeated in (False, True))
    return f"{100 * model:.3g} % model-FLOPs, {100 * hardware:.3g} % hardware-FLOPs utilization"


def throughput(search: PlanSearch) -> str:
    """The winner's samples per second, and for models of tokens those of all ranks and of one."""
    winner, tokens = search.winner, search.sequence_length
    rate = f"{format_rate(winner.samples_per_second)} samples/s"
    if tokens is None:
        return rate
    total = winner.samples_per_second * tokens
    return f"{rate}, {format_rate(total)} tokens/s, {format_rate(total / winner.cluster.ranks)} tokens/s a rank"


def interval_note(search: PlanSearch) -> str:
    """What the intervals of the step times are, or why there are none."""
    basis = intervals_basis(search.winner)
    if not search.intervals:
        return basis[0].upper() + basis[1:] + "."
    told = "the interval of the difference does not tell the plan apart from the first"
    return f"±: 90 % intervals from {basis}; {ALIKE}: {told}."


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
        ranking=rows,
        reference=ranking_rows(search, search.reference[:5]),
        reference_name=f"Electrical reference: {_kind(search.clusters[0].reference)}",
        not_sourced=_not_sourced(search),
        notes=(
            *_notes(search),
            *(f"Warning: {guess}." for guess in search.graph.uncounted),
            *(f"Warning: {line}." for line in warning_lines(search.clusters)),
            *(f"Measured: {line}." for line in document["measured"]),
            *(f"Of the model's file: {gap}." for gap in document["not_in_trace"]),
        ),
        pictures=tuple(
            Picture(title=title, svg=to_svg(drawn), caption=caption, explored=name == "timeline")
            for name, title, drawn, caption in figures(search)
        ),
        collectives=_collectives(search, winner),
        collectives_title="" if exchange is None else f"The largest {exchange.kind}, {format_size(exchange.nbytes)}",
        memory=MemoryBar(parts=_memory(winner), capacity=winner.cluster.accelerator.memory),
        explored=tuple(_explored(search)) if draws() else (),
        light=_light(search) if draws() else None,
        tables=(
            ledger_table(search),
            *algorithm_tables(search),
            *circuit_tables(search),
            *spent_tables(search, document),
            *_not_tried(search),
        ),
        provenance=origin,
    )


def _memory(plan: Plan) -> dict[str, float]:
    """Bytes of the fullest rank by what they are for, as far as that is known."""
    return {"all together": plan.memory} if plan.memory_use is None else memory_parts(plan.memory_use)


def _explored(search: PlanSearch) -> Iterator[ExploredPlan]:
    """The first plans of the ranking and the best of each kind, as a reader may look into them."""
    best = {id(plan) for plan in map(search.best_of, search.request.kinds) if plan is not None}
    for place, plan in enumerate(search.ranking, start=1):
        if place <= _EXPLORED or id(plan) in best:
            label = f"{plan.label} on {plan.site}"
            exchanges = [
                (use.kind, f"{use.ranks:,}", f"{use.stride:,}", format_size(use.nbytes), use.algorithm)
                for use in plan.exchanges
            ]
            capacity = plan.cluster.accelerator.memory
            yield explored_plan(plan.timeline, place, label, _memory(plan), capacity, exchanges)


def _light(search: PlanSearch) -> LightMap | None:
    """The light of the schedule that the page draws."""
    drawn = drawn_schedule(search)
    return None if drawn is None else light_map(drawn[1], drawn[0].cluster.fabric)


def _not_tried(search: PlanSearch) -> Iterator[Table]:
    """Plans that were left out or refused, and why."""
    rows = [("", "", "", reason) for reason in search.refusals]
    rows += [(row.strategy, row.algorithm, row.compression or "", row.why) for row in search.refused]
    if rows:
        yield Table(
            title="Not tried", columns=("kind", "algorithm", "exchange", "why"), rows=tuple(dict.fromkeys(rows))
        )


def _facts(search: PlanSearch) -> tuple[tuple[str, str], ...]:
    winner, counts = search.winner, search.counts
    cluster, fabric = winner.cluster, winner.cluster.fabric
    batches = ", ".join(f"{samples:,}" for samples in search.global_batches)
    return (
        ("model", f"{search.graph.name}, {search.graph.parameters:,} parameters"),
        ("cluster", f"{cluster.name}: {cluster.ranks} × {cluster.accelerator.name}"),
        *_calibration_facts(cluster),
        ("fabric", _kind(fabric)),
        ("collectives", fabric.software),
        ("bandwidth", bandwidths(fabric)),
        ("circuit set-up", format_time(fabric.setup_time) if fabric.exclusive else "none, packets"),
        ("global batch", "the largest of each plan" if search.request.largest_batches else batches),
        ("a step", f"{format_time(winner.step_time)} for {winner.global_batch:,} samples"),
        ("throughput", throughput(search)),
        ("share of the peak rate", utilization(search)),
        ("memory of the fullest rank", format_size(winner.memory)),
        ("arithmetic", str(cluster.training.precision)),
        ("cost model", search.request.cost_model),
        *(fact for exchange in _exchanges(search) for fact in _exchange_facts(exchange)),
        ("energy a step", _energy(winner)),
        ("plans", f"{counts.rows:,}, {counts.bounded:,} bounded, {counts.simulated:,} simulated"),
    )


def _exchanges(search: PlanSearch) -> list[PricedExchange]:
    """The methods of the ranking, each once."""
    methods = {plan.gradient_exchange.name: plan.gradient_exchange for plan in search.ranking if plan.gradient_exchange}
    return list(methods.values())


def _exchange_facts(exchange: PricedExchange) -> tuple[tuple[str, str], ...]:
    engine = exchange.coder
    rates = f"{format_bandwidth(engine.encode)} in, {format_bandwidth(engine.decode)} out"
    return ("gradients", exchange.label), (f"engine of {exchange.label}", f"{engine.name}, {rates}")


def exchange_notes(search: PlanSearch) -> list[str]:
    """Where the bytes, the rates and the accuracy of every method of the ranking come from; assumptions say so."""
    lines = []
    for exchange in _exchanges(search):
        often = "" if exchange.every == 1 else f"; a step pays 1/{exchange.every} of an exchange"
        lines.append(
            f"{exchange.label}: bytes {exchange.sizes}; rates: {exchange.coder.source}; accuracy: "
            f"{accuracy_note(exchange.name)}{often}"
        )
    return lines


def _calibration_facts(cluster: Cluster) -> tuple[tuple[str, str], ...]:
    calibration = cluster.accelerator.calibration
    return () if calibration is None else (("calibration", str(calibration)),)


def bandwidths(fabric: Fabric) -> str:
    """What a rank can receive, and its share of what every larger part of the fabric can, the narrowest of its size."""
    narrowest: dict[int, Cut] = {}
    for cut in fabric.cuts():
        if cut.ranks not in narrowest or cut.capacity < narrowest[cut.ranks].capacity:
            narrowest[cut.ranks] = cut
    return "; ".join(
        f"{format_bandwidth(cut.capacity / ranks)} a rank: {cut.name}" for ranks, cut in sorted(narrowest.items())
    )


def _kind(fabric: Fabric | None) -> str:
    return "fabric" if fabric is None else fabric.kind_name


def _energy(winner: Plan) -> str:
    energy = winner.energy
    if energy.total_j is not None:
        return f"{energy.total.bound} {format_energy(energy.total_j)}".strip()
    return f"{energy.total.bound} {format_energy(energy.known_j)}; {len(energy.missing)} parts not sourced"


def _not_sourced(search: PlanSearch) -> tuple[str, ...]:
    missing = dict.fromkeys(name for plan in search.ranking for name in plan.energy.missing)
    # Clusters that differ in their number of ranks only assume the same.
    clusters = {plan.cluster.name: plan.cluster for plan in search.ranking}
    prefix = len(clusters) > 1
    return (
        *(f"{name}: no published value, so energies leave it out" for name in missing),
        *(f"{name}: {line}" if prefix else line for name, on in clusters.items() for line in assumptions(on)),
        *built_lines(list(clusters.values())),
    )


def _notes(search: PlanSearch) -> tuple[str, ...]:
    winner = search.winner
    own: tuple[str, ...] = ()
    tabled = winner.exchanges and carrier(winner.algorithm).by_size  # schedules of every size have a table
    phased = winner.gradient_exchange is not None and not winner.gradient_exchange.in_schedule
    if winner.exchanges and winner.prices and winner.verified and not tabled and not phased:
        own = winner.prices.schedule(winner.exchanges[0].kind, winner.exchanges[0].nbytes).notes
    return (
        f"Times follow the {search.request.cost_model} cost model; every schedule was replayed by the verifier.",
        interval_note(search),
        *((_LIBRARY_NOTE,) if not all(plan.verified for plan in search.ranking) else ()),
        "One step of many equal ones: circuits that the step before left in place are not set up again.",
        "Every plan in the table was simulated; by their bounds, those left out are no faster than the fastest of "
        "their cluster, or of a kind that cannot win. A placed plan's step is that of one group, all being alike.",
        *(f"Assumption: {line}." for line in plan_assumptions(winner)),
        *(f"{winner.algorithm}: {note}" for note in own),
        *(f"Exchange of gradients by {note}." for note in exchange_notes(search)),
    )


def _collectives(search: PlanSearch, winner: Plan) -> tuple[CollectiveRow, ...]:
    """The winner's largest exchange with every algorithm of data parallelism alone."""
    if winner.prices is None or not winner.exchanges:
        return ()
    exchange, rows = winner.exchanges[0], []
    for plan in search.ranking:
        if plan.strategy == winner.strategy and plan.prices is not None and len(plan.algorithms) == 1:
            cost, bound = plan.prices.cost(exchange.kind, exchange.nbytes)
            algorithm = plan.algorithm + (f" · {plan.gradient_exchange.label}" if plan.gradient_exchange else "")
            rows.append(collective_row(algorithm, cost, bound))
    return tuple(dict.fromkeys(sorted(rows, key=lambda row: row.time)))
