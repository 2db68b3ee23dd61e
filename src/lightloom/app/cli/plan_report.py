"""The report of a plan: what the search found, as the plain data that the reports layer shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from lightloom.core.answer import Answer
from lightloom.core.results import Document, cells
from lightloom.core.units import format_bandwidth, format_energy, format_rate, format_ratio, format_size, format_time
from lightloom.exchange.method import accuracy_note
from lightloom.machines.fabrics.derived import Cut
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.economics.ledger import MARKS, MOST_PLACES, TITLE, StepLedger, ledger_notes, ledger_rows
from lightloom.planning.figures import group_figure, placement_figure
from lightloom.planning.gradients import PricedExchange
from lightloom.planning.pricing.library_prices import carrier
from lightloom.planning.reconfiguration.in_step import InStep, RegrantedStep
from lightloom.planning.search.assumptions import assumptions, built_lines, plan_assumptions, warning_lines
from lightloom.planning.search.document import intervals_basis, verdict
from lightloom.planning.search.plans import Plan, PlanSearch, plan_words
from lightloom.planning.search.request import DATA_PARALLEL
from lightloom.planning.simulation.engine import StepResult
from lightloom.reports.figures.canvas import to_svg
from lightloom.reports.figures.comparisons import Point, breakdown_figure, pareto_figure
from lightloom.reports.figures.links import wavelength_caption, wavelength_map
from lightloom.reports.figures.timelines import timeline_figure
from lightloom.reports.html import draws
from lightloom.reports.report import (
    ALIKE,
    PAGE_WIDTH,
    CollectiveRow,
    Picture,
    RankingRow,
    Report,
    Table,
    explored_plan,
    light_map,
    table_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lightloom.collectives.schedule.columns import Schedule
    from lightloom.planning.simulation.placed_step import PlacedStep


# Tables of a plan's report: data parallelism with every algorithm, and the circuits of synthesized schedules.

_SAME = 1e-6
"""Steps that differ by less than this share are the same."""


def compared(search: PlanSearch) -> list[Plan]:
    """Return the plans of data parallelism alone that were simulated with gradients as they are (by no method of
    exchange), with every algorithm, fastest step first; empty if there are none. They are all of one strategy, ddp or
    fsdp: that of the first plan of data parallelism alone in the ranking, with or without a method of exchange."""
    plans = [plan for plan in search.ranking if plan.strategy in DATA_PARALLEL and plan.result is not None]
    same = [plan for plan in plans if plan.strategy == plans[0].strategy and plan.gradient_exchange is None]
    return sorted(same, key=lambda plan: plan.step_time)


def algorithm_tables(search: PlanSearch) -> tuple[Table, ...]:
    """Return one table of data parallelism (ddp or fsdp, whichever comes first in the ranking) with gradients as they
    are, a row for each algorithm, fastest first: the step, how much longer it is than the fastest, how long it waits
    for the network or its circuits, how long that is busy (hidden behind computing or not), how long of it circuits
    change, and the time of its collectives, all circuits still to be set up, over the sum of their lower bounds (``–``
    where that is unknown); an empty tuple where none was simulated."""
    plans = compared(search)
    if not plans:
        return ()
    first, rows = plans[0], []
    for plan in plans:
        assert plan.result is not None
        waiting = plan.breakdown["exposed_communication_s"] + plan.breakdown["exposed_reconfiguration_s"]
        row = {"algorithm": " + ".join(plan.algorithms) or "none", "step": format_time(plan.step_time)}
        row["longer"] = _longer(plan.step_time / first.step_time if first.step_time else 1.0)
        row["waits for the network"] = format_time(waiting)
        row["network busy"] = format_time(plan.result.communication_time)
        row["of it circuits"] = format_time(plan.result.busy_time["reconfiguration"])
        rows.append(row | {"vs bound": format_ratio(times_the_bound(plan))})
    caption = (
        "Network busy: all collectives of a step, hidden or not, with the changes of circuits before them. Against the "
        "bound: collectives from dark fibres, over the lower bounds of each."
    )
    return (table_of(f"{first.strategy} with every algorithm", rows, caption),)


def _longer(ratio: float) -> str:
    """Return how much longer a step is than the fastest, by the ratio of both: ``12.3 %`` more below 2, three
    significant digits, else ``2.5×``; ``0 %`` for less than a millionth."""
    return "0 %" if ratio < 1 + _SAME else f"{100 * (ratio - 1):.3g} %" if ratio < 2 else format_ratio(ratio)


def times_the_bound(plan: Plan) -> float | None:
    """Return the seconds of all collectives of the plan's step, whether computing hides them or not, over the sum of
    their lower bounds. Each is priced by itself, with all of its circuits still to be set up. None for others than data
    parallelism alone, for a single rank, and where the bounds are zero."""
    if plan.prices is None or plan.result is None:
        return None
    priced = [plan.prices(exchange.kind, exchange.nbytes) for exchange in plan.result.plan.exchanges]
    least = sum(each.bound.time for each in priced)
    return sum(each.cost.time for each in priced) / least if least else None


def circuit_tables(search: PlanSearch) -> tuple[Table, ...]:
    """Return one table with a row for each kind and size of collective of the fastest data parallelism whose schedules
    are all synthesized for their size, sorted by both: how often it occurs in a step, its time, its ratio to the lower
    bound and notes of its schedule; the caption says how long circuits change in a step, or that packets need none; an
    empty tuple without such a plan."""
    synthesized = (plan for plan in compared(search) if all(carrier(name).by_size for name in plan.algorithms))
    plan = next((plan for plan in synthesized if plan.exchanges), None)
    if plan is None or plan.result is None or plan.prices is None:
        return ()
    times, rows = Counter((exchange.kind, exchange.nbytes) for exchange in plan.result.plan.exchanges), []
    for (kind, nbytes), count in sorted(times.items()):
        priced = plan.prices(kind, nbytes)
        notes = "; ".join(plan.prices.schedule(kind, nbytes).notes)
        timed = format_time(priced.cost.time), format_ratio(priced.bound.ratio(priced.cost))
        rows.append((kind, format_size(nbytes), str(count), *timed, notes))
    circuits = plan.job.fabric.exclusive
    table = Table(
        title=f"{'Circuits' if circuits else 'Messages'} of {plan.algorithm} schedules, {plan.strategy}",
        columns=("collective", "size", "a step", "time", "vs bound", "circuits" if circuits else "schedule"),
        rows=tuple(rows),
        caption=_sets(plan.result) if circuits else "Packets take links as they are free: nothing is set up.",
    )
    return (table,)


def _sets(result: StepResult) -> str:
    """Return a sentence on how long circuits change in a step, and how much of that is waited for; or that one set of
    circuits serves where they never change."""
    spent = result.busy_time["reconfiguration"]
    if not spent:
        return "One set of circuits serves all of them and stays in place."
    exposed = result.breakdown["exposed_reconfiguration_s"]
    hidden = "all of it while computing" if not exposed else f"{format_time(exposed)} of it waited for"
    return f"Changing circuits between them takes {format_time(spent)} a step, {hidden}."


# Pictures of a plan's report: where time and energy go, the step, the schedule, the placement and its circuits.

_BARS, _LANES = 12, 16
"""Plans in the first picture, devices and links in a timeline."""
_LETTERS = 58
"""Letters in a line beside a bar."""


def figures(search: PlanSearch) -> Iterator[tuple[str, str, Figure, str]]:
    """Yield (file name without a suffix, title, figure, caption) of every picture: ``breakdown``
    (:func:`fastest_breakdown`), ``pareto`` (seconds and joules of a sample of the simulated plans) and the winner's
    ``timeline`` always, ``schedule``, a map of the winner's or data parallelism's largest exchange, where there is one
    (:func:`drawn_schedule`); of the fastest placed plan, one that shares a model between devices first,
    ``placed-timeline`` unless it is the winner, ``placement`` where a model is shared between several devices, and
    ``traffic`` where it has several ranks."""
    winner = search.winner
    # The fastest placed plan that shares a model between devices; without one, the fastest.
    shared = (plan for plan in search.ranking if plan.placed is not None and plan.placed.plan.k > 1)
    placed = next(shared, search.best_of("placed"))
    yield "breakdown", "Where the time goes", fastest_breakdown(search), "The fastest plans, and the best of each kind."
    front = "one plan is best in both" if len(search.front) == 1 else f"{len(search.front)} plans are on the front"
    caption = f"Every dot is a plan that was simulated; {front}. Energies are those of the parts that have a source."
    yield "pareto", "Time and energy of a sample", _pareto(search), caption
    drawn = timeline_figure(winner.timeline, _LANES)
    yield "timeline", "The winner's step", drawn, f"{winner.label} on {winner.site}.{_lanes(winner)}"
    schedule = drawn_schedule(search)
    if schedule is not None:
        plan, fabric = schedule[0], schedule[0].cluster.fabric
        title = "The winning schedule" if plan is winner else f"The schedule of {plan.strategy}, {plan.algorithm}"
        yield "schedule", title, wavelength_map(schedule[1], fabric), wavelength_caption(schedule[1], fabric)
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
    """Return (plan, verified schedule of the largest exchange of its step): of the winner, or else of the fastest data
    parallelism alone with gradients as they are; plans that a collective library carries in part, and others than data
    parallelism alone or of a single rank, are passed over. None if no plan is left."""
    for plan in [search.winner, *compared(search)]:
        if plan.exchanges and plan.verified and plan.prices:
            return plan, plan.prices.schedule(plan.exchanges[0].kind, plan.exchanges[0].nbytes)
    return None


def fastest_breakdown(search: PlanSearch) -> Figure:
    """Return a figure of stacked bars: the parts of the time (computing, waiting for the network, waiting for circuits,
    idle) of the twelve first plans of the ranking, of the best of each kind (ddp, fsdp, tensor-pipeline, placed)
    further down, and of the first plan on the electrical reference.

    Times are those of a step, or of a sample where batches or clusters differ; the reference is then left out.
    """
    best = {id(plan) for plan in map(search.best_of, search.request.kinds) if plan is not None}
    shown = [("", plan) for place, plan in enumerate(search.ranking) if place < _BARS or id(plan) in best]
    same = len({(plan.global_batch, plan.site) for plan in search.ranking}) == 1
    shown += [("electrical: ", plan) for plan in search.reference[:1] if same]
    bars = []
    for prefix, plan in shown:
        lines = wrap(plan.label, _LETTERS, break_on_hyphens=False)
        lines += [] if same else [f"{plan.global_batch:,} samples, {plan.site}"]
        samples = 1 if same else plan.global_batch
        bars.append((prefix + "\n".join(lines), {key: time / samples for key, time in plan.breakdown.items()}))
    return breakdown_figure(bars, "step" if same else "sample")


def _pareto(search: PlanSearch) -> Figure:
    """Return a figure of seconds against joules of a sample (of the parts whose power is known), a point for each plan
    that may fit (for all if the winner does not), coloured by kind and shaped by cluster, on logarithmic axes; the
    plans that no other beats in both are joined by a stepped line, and up to ten of them named."""
    points = {
        id(plan): Point(plan.strategy, plan.site, plan.label, plan.sample_time, plan.energy_per_sample)
        for plan in search.ranking
        if plan.fits is not False or search.winner.fits is False
    }
    return pareto_figure(list(points.values()), [points[id(plan)] for plan in search.front if id(plan) in points])


def _lanes(plan: Plan) -> str:
    """Return a sentence for the caption of a timeline, with a blank before it, that only the 16 busiest of the plan's
    devices and links are shown; empty if the plan has no more than 16 of them, all of which are shown."""
    count = len(plan.timeline.resources)
    return f" The busiest {_LANES} of {count} devices and links." if count > _LANES else ""


def _placement_caption(name: str, step: PlacedStep) -> str:
    """Return the caption of a placement: ``name``, words for plan and cluster, then the numbers of sub-operators and
    operators, the method, the number of devices that get nothing, if any, and that the right part of the picture has
    the computing time of each device."""
    balanced, placement = step.plan.balanced, step.plan.placement
    idle = step.plan.k - len(set(placement.device.tolist()))
    unused = f" {idle} of {step.plan.k} devices get nothing." if idle else ""
    return (
        f"{name}: {balanced.size:,} sub-operators of {len(balanced.operators)} operators, placed by {placement.method}."
        f"{unused} Right, how long each device computes in a step."
    )


def _traffic_caption(name: str, step: PlacedStep) -> str:
    """Return the caption of the traffic matrix of a placed step: ``name``, words for plan and cluster, then what the
    picture shows, how many circuits are granted, once for all of the step or anew for every hold, a stretch in which
    they stand (with the number of holds and the duty cycle; or that packets need none), and the bytes of a group that
    are relayed, if any."""
    circuits = step.circuits
    if circuits.assignment is None:
        granted = "Packets: each pair may have its whole port, in turn."
    elif circuits.timing is None:
        granted = f"{len(circuits.assignment.circuits):,} circuits among all ranks, set once and verified."
    else:
        held = f"in {len(circuits.bandwidth)} holds, verified; duty cycle {circuits.timing.duty_cycle:.1%}."
        granted = f"{len(circuits.assignment.circuits):,} circuits among all ranks {held}"
    relayed = f" {format_size(step.relayed_bytes)} of a group are relayed." if step.relayed_bytes else ""
    what = "bytes of a step between the ranks of the first groups, beside what their circuits carry"
    return f"{name}: {what}. {granted}{relayed}"


# Tables of a plan's report that say what is spent: time by stage and by operator, dollars and joules by place.


def spent_lines(search: PlanSearch, document: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on where the winner's time goes: the parts of a rank's step in per cent (the mean over the stages;
    parts of no time are left out), what circuits that are changed within a step gain (also of the best placed plan),
    and its most expensive groups of like operators, at most ten, with their shares of the seconds of computing and what
    bounds them, which ``document``, that of the search, lists under ``costliest_operators``. What is not known of the
    winner is left out."""
    winner = search.winner
    if winner.spent is not None and winner.step_time:
        parts = {_name(part): float(seconds.mean()) / winner.step_time for part, seconds in winner.spent.items()}
        told = ", ".join(f"{name} {100 * share:.3g} %" for name, share in parts.items() if share)
        mean = ", the mean over all stages," if len(winner.spent["compute_s"]) > 1 else ""
        yield f"a rank of the winner{mean} spends: {told}"
    if winner.in_step is not None:
        yield _in_step(winner.in_step)
    placed = search.best_of("placed")
    if placed is not None and placed.regranted is not None:
        yield _regranted("the winner" if placed is winner else "the best placed plan", placed.regranted)
    operators = document["costliest_operators"]
    if operators:
        told = ", ".join(f"{row['name']} {100 * row['share']:.3g} % ({row['bound']})" for row in operators)
        yield f"most of its computing, and what bounds it: {told}"


def place_ledgers(search: PlanSearch) -> dict[str, StepLedger]:
    """Return ledgers of a step (its dollars, watts, joules and goodput) by the names of their places (``NAME, 64
    ranks``, ``reference KIND``): of the first plan of each cluster, for the first four clusters in the order of the
    ranking, and of the first plan on the electrical reference, if there is one."""
    first = search.first_of_clusters
    reference = [plan for plan in first if plan in search.reference]
    shown = [plan for plan in first if plan not in reference][:MOST_PLACES]
    places = {plan.site: search.ledger_of(plan) for plan in shown}
    return places | {f"reference {plan.cluster.fabric.kind_name}": search.ledger_of(plan) for plan in reference}


def _in_step(in_step: InStep) -> str:
    """Return a sentence on how often the switch changes its circuits within a step, how much of that is hidden, what it
    gains over circuits that stand for the whole step (or that there are too few planes to stand), and how many of its
    planes each axis gets in each phase of the step; or that circuits stand, where changing them gains nothing."""
    best, standing, time = in_step.best, in_step.standing, format_time(in_step.reconfiguration_time)
    planes = [", ".join(f"{axis} {count}" for axis, count in division.items()) for division in best.settings.values()]
    if not best.turning:
        whole = f"circuits stand for the whole step ({planes[0]} planes)"
        return f"{whole}: setting them anew takes {time} and gains nothing"
    many = "once" if len(best.turning) == 1 else f"{len(best.turning)} times"
    told = f"the switch turns {many} in a step ({time} each, {format_time(in_step.hidden)} of it hidden)"
    shares = "; ".join(f"{phase}: {share}" for phase, share in zip(best.settings, planes, strict=True))
    if standing is None or in_step.gain is None:
        return f"{told}; without, there are more groups than planes; planes by phase: {shares}"
    gain = f"{format_time(in_step.gain)} over circuits that stand ({100 * in_step.gain / standing.step_time:.3g} %)"
    return f"{told} and gains {gain}; planes by phase: {shares}"


def _regranted(name: str, step: RegrantedStep) -> str:
    """Return a sentence on how often circuits are granted anew within a step at most, and what that gains over those
    granted once: the times of both steps, and the gain in per cent of the longer one; it begins with ``name``, words
    for the plan."""
    hold, dark, gain = format_time(step.timing.hold), format_time(step.timing.reconfiguration), step.gain
    return (
        f"{name} has circuits granted anew from what waits, up to {step.grants} times a step (holds of {hold}, {dark} "
        f"dark): {format_time(step.step_time)} instead of {format_time(step.standing_time)} over circuits granted "
        f"once, {100 * gain / step.standing_time:.3g} % less"
    )


def _name(part: str) -> str:
    """Return the words for a part of a step: its key without the ending ``_s`` of seconds, with spaces for
    underscores."""
    return part.removesuffix("_s").replace("_", " ")


def spent_tables(search: PlanSearch, document: Mapping[str, Any]) -> Iterator[Table]:
    """Yield a table of the seconds that the rank of each stage spends on each part, where these are known, and one of
    the winner's most expensive groups of like operators, at most ten, with kind, number, share of the computing in per
    cent and what bounds them (arithmetic, memory or launch), which ``document`` lists under ``costliest_operators``;
    either may be missing. Stages are counted from 0."""
    spent = search.winner.spent
    if spent is not None:
        stages = range(len(next(iter(spent.values()))))
        parts = {_name(part): column.tolist() for part, column in spent.items()}
        seconds = [
            {"stage": stage, **{name: format_time(column[stage]) for name, column in parts.items()}} for stage in stages
        ]
        caption = "Seconds of a row add up to the step; their mean over the stages is the breakdown."
        yield table_of("What the rank of each stage spends a step on", seconds, caption)
    operators = document["costliest_operators"]
    if operators:
        columns = "operator: {name} | kind: {kind} | operators: {operators} | share of computing: {percent:.3g} % | "
        rows = cells(f"{columns}bound by: {{bound}}", [row | {"percent": 100 * row["share"]} for row in operators])
        yield table_of("Most expensive operators", rows, "A star stands for a block's number.")


_EXPLORED = 20
"""Plans of a page that a reader may look into, beside the best of each kind."""

_LIBRARY_NOTE = (
    "Exchanges by the library are those of the fabric's collective library: a closed form of what it reaches "
    "(transport), held to measured steps, and no schedule of ours."
)


_COPIED = ("strategy", "site", "global_batch", "step_time", "breakdown", "memory", "verified", "runnable", "fits")
"""Fields of a ranking's row that are the plan's."""


def ranking_rows(search: PlanSearch, plans: Iterable[Plan] | None = None) -> Iterator[RankingRow]:
    """Yield one row for each of ``plans``, or of the whole ranking for None, with places numbered from 1 in that order.

    A row has seconds of the step and its ``breakdown``, samples of a step, joules of a step over all ranks (None where
    a part lacks a source; ``known_energy`` has those with one), bytes of the fullest rank, the method of exchange with
    what it saves, and communication over its lower bound (None but for data parallelism alone). Its ``interval`` is
    that of 90 %, as ``±3 %``, followed by ≈ where it does not tell the plan apart from the winner; empty where none is
    known.
    """
    front = {id(plan) for plan in search.front}
    for place, plan in enumerate(search.ranking if plans is None else plans, start=1):
        exchange, interval = plan.gradient_exchange, search.intervals.get(id(plan))
        alike = f" {ALIKE}" if interval and plan is not search.winner and not interval.apart else ""
        yield RankingRow(
            **{name: getattr(plan, name) for name in _COPIED},
            place=place,
            label=" · ".join([plan_words(plan.choice), *plan.algorithms[:2]]),
            exchange=exchange.label if exchange else None,
            exchange_effect=str(verdict(plan) or "") if exchange else "",
            exchange_accuracy=accuracy_note(exchange.name) if exchange else "",
            energy=plan.energy.total_j,
            known_energy=plan.energy.known_j or None,
            energy_mark=MARKS[plan.energy.total.bound],
            interval=f"±{100 * interval.half_width:.0f} %{alike}" if interval else "",
            lower_bound_ratio=times_the_bound(plan),
            on_front=id(plan) in front,
        )


def utilization(search: PlanSearch) -> str:
    """Return as text the winner's shares of the peak rate, of the model's FLOPs and of all that the hardware computes,
    repeated forward passes too: ``41.2 % model-FLOPs, 50.1 % hardware-FLOPs utilization``. Where a trace states no
    FLOPs, the text says that the utilization is unknown."""
    if not any(operator.forward_flops for operator in search.graph.operators):
        return "utilization unknown, as the trace states no FLOPs"
    model, hardware = (search.utilization(search.winner, hardware=repeated) for repeated in (False, True))
    return f"{100 * model:.3g} % model-FLOPs, {100 * hardware:.3g} % hardware-FLOPs utilization"


def throughput(search: PlanSearch) -> str:
    """Return as text the winner's samples per second of all ranks, with four significant digits, and for models of
    tokens the tokens per second of all ranks and of one rank: ``1,024 samples/s, 2,097,000 tokens/s, 32,770 tokens/s a
    rank``."""
    winner, tokens = search.winner, search.sequence_length
    rate = f"{format_rate(winner.samples_per_second)} samples/s"
    if tokens is None:
        return rate
    total = winner.samples_per_second * tokens
    return f"{rate}, {format_rate(total)} tokens/s, {format_rate(total / winner.cluster.ranks)} tokens/s a rank"


def interval_note(search: PlanSearch) -> str:
    """Return a sentence that explains the marks of step times, ± (90 % intervals) and ≈ (the interval of the difference
    does not tell the plan apart from the first), and says from which uncertain parameters and measured steps the
    intervals come; or why there are none."""
    basis = intervals_basis(search.winner)
    if not search.intervals:
        return basis[0].upper() + basis[1:] + "."
    told = "the interval of the difference does not tell the plan apart from the first"
    return f"±: 90 % intervals from {basis}; {ALIKE}: {told}."


def plan_report(search: PlanSearch, document: Mapping[str, Any], origin: Mapping[str, Any], answer: Answer) -> Report:
    """Return the page of a search: the answer, facts, ranking, the first five plans on the electrical reference,
    pictures, collectives, memory, tables, what was not tried and why, and notes; with Bokeh installed also the plans
    and lightpaths that a reader can look into.

    Args:
        search: the search, with at least one simulated plan.
        document: the document of ``plan --json``, of which explanation, measurements, costliest operators and what a
            trace lacks are read.
        origin: provenance of the search.
        answer: the answer as the terminal shows it.
    """
    winner, rows = search.winner, tuple(ranking_rows(search))
    exchange, drawn = winner.exchanges[0] if winner.exchanges and winner.prices else None, drawn_schedule(search)
    compared_with, ledgers = search.clusters[0].reference, place_ledgers(search)
    refused = ((row.strategy, row.algorithm, row.compression or "", row.why) for row in search.refused)
    absent = tuple(dict.fromkeys([*(("", "", "", reason) for reason in search.refusals), *refused]))
    return Report(
        title=f"{search.graph.name} on {'; '.join(dict.fromkeys(plan.site for plan in search.ranking))}",
        headline=answer.best[0],
        answer=tuple(answer.lines(PAGE_WIDTH))[1:],
        explanation=str(document["explanation"]),
        facts=_facts(search),
        ranking=rows,
        reference=tuple(ranking_rows(search, search.reference[:5])),
        reference_name=f"Electrical reference: {'fabric' if compared_with is None else compared_with.kind_name}",
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
        memory=_memory(winner),
        memory_capacity=winner.cluster.accelerator.memory,
        explored=_explored(search) if draws() else {},
        light=light_map(drawn[1], drawn[0].cluster.fabric) if drawn is not None and draws() else None,
        tables=(
            Table(
                title=TITLE,
                columns=("of the first plan", *ledgers),
                rows=tuple(ledger_rows(ledgers)),
                caption=" ".join(f"{line[0].upper()}{line[1:]}." for line in ledger_notes(ledgers)),
            ),
            *algorithm_tables(search),
            *circuit_tables(search),
            *spent_tables(search, document),
            *(
                [Table(title="Not tried", columns=("kind", "algorithm", "exchange", "why"), rows=absent)]
                if absent
                else []
            ),
        ),
        provenance=origin,
    )


def _memory(plan: Plan) -> dict[str, float]:
    """Return the bytes of memory that the fullest rank of a plan holds, by what they are for; all under the name ``all
    together`` where that is not known."""
    return {"all together": plan.memory} if plan.memory_use is None else plan.memory_use.parts()


def _explored(search: PlanSearch) -> dict[int, Document]:
    """Return documents (timeline of the step in ``lanes`` and ``stretches``, ``tasks``, bytes of ``memory`` of the
    fullest rank and its ``capacity``, ``exchanges`` as rows of text) of the first twenty plans of the ranking and of
    the best of each kind, which a reader may look into, by their places from 1."""
    best = {id(plan) for plan in map(search.best_of, search.request.kinds) if plan is not None}
    explored = {}
    for place, plan in enumerate(search.ranking, start=1):
        if place <= _EXPLORED or id(plan) in best:
            exchanges = [
                (use.kind, f"{use.ranks:,}", f"{use.stride:,}", format_size(use.nbytes), use.algorithm)
                for use in plan.exchanges
            ]
            label, capacity = f"{plan.label} on {plan.site}", plan.cluster.accelerator.memory
            explored[place] = explored_plan(plan.timeline, label, _memory(plan), capacity, exchanges)
    return explored


def _facts(search: PlanSearch) -> tuple[tuple[str, str], ...]:
    """Return what the page says first: (label, text) of each fact about the model, the winner's cluster and its
    calibration if it has one, fabric, batch, step, throughput, memory and energy, the methods of exchange, and how many
    plans were searched."""
    winner, counts = search.winner, search.counts
    cluster, fabric, calibration = winner.cluster, winner.cluster.fabric, winner.cluster.accelerator.calibration
    batches = ", ".join(f"{samples:,}" for samples in search.global_batches)
    energy, exchanges = winner.energy, list[tuple[str, str]]()
    joules = f"{format_energy(energy.known_j)}; {len(energy.missing)} parts not sourced"
    joules = joules if energy.total_j is None else format_energy(energy.total_j)
    for exchange in _exchanges(search):
        engine = exchange.coder
        rates = f"{format_bandwidth(engine.encode)} in, {format_bandwidth(engine.decode)} out"
        exchanges += [("gradients", exchange.label), (f"engine of {exchange.label}", f"{engine.name}, {rates}")]
    return (
        ("model", f"{search.graph.name}, {search.graph.parameters:,} parameters"),
        ("cluster", f"{cluster.name}: {cluster.ranks} × {cluster.accelerator.name}"),
        *([] if calibration is None else [("calibration", str(calibration))]),
        ("fabric", fabric.kind_name),
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
        *exchanges,
        ("energy a step", f"{energy.total.bound} {joules}".strip()),
        ("plans", f"{counts.rows:,}, {counts.bounded:,} bounded, {counts.simulated:,} simulated"),
    )


def _exchanges(search: PlanSearch) -> list[PricedExchange]:
    """Return the methods by which plans of the ranking exchange gradients otherwise than as they are, each once, in the
    ranking's order."""
    methods = {plan.gradient_exchange.name: plan.gradient_exchange for plan in search.ranking if plan.gradient_exchange}
    return list(methods.values())


def exchange_notes(search: PlanSearch) -> list[str]:
    """Return a line for each method of the ranking, none for float32 as it is, on where its bytes, the rates of its
    engine and its accuracy come from; assumptions say so. Where only every n-th step exchanges, the line says that a
    step pays 1/n."""
    return [
        f"{exchange.label}: bytes {exchange.sizes}; rates: {exchange.coder.source}; accuracy: "
        f"{accuracy_note(exchange.name)}"
        + ("" if exchange.every == 1 else f"; a step pays 1/{exchange.every} of an exchange")
        for exchange in _exchanges(search)
    ]


def bandwidths(fabric: Fabric) -> str:
    """Return as text the bandwidth into each cut of a fabric, a set of ranks, divided by the ranks of the set, the
    smallest sets first and of equal sizes only the narrowest: ``450 Gb/s a rank: NAME OF THE CUT``, joined by
    semicolons."""
    narrowest: dict[int, Cut] = {}
    for cut in fabric.cuts():
        if cut.ranks not in narrowest or cut.capacity < narrowest[cut.ranks].capacity:
            narrowest[cut.ranks] = cut
    return "; ".join(
        f"{format_bandwidth(cut.capacity / ranks)} a rank: {cut.name}" for ranks, cut in sorted(narrowest.items())
    )


def _not_sourced(search: PlanSearch) -> tuple[str, ...]:
    """Return sentences on what lacks a source: parts that energies of plans leave out, for each cluster the values
    whose source says "assumption" and latencies that are not stated (with its name before them where there are
    several), and what averagers are built of."""
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
    """Return the notes beneath the ranking: cost model, intervals, what prices of a library rest on where some plan has
    no verified schedule, what a step and the table hold, the winner's assumptions, the notes of the schedule of its
    largest exchange where that was verified, and where exchanges of gradients come from."""
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
    """Return rows (algorithm, cost and lower bound with their seconds) of the winner's largest exchange as the
    algorithms of plans of its strategy carry it, fastest first and alike ones once; plans of several algorithms are
    left out. A method of exchange stands behind the algorithm. Empty where the winner is not data parallelism alone, or
    exchanges nothing."""
    if winner.prices is None or not winner.exchanges:
        return ()
    exchange, rows = winner.exchanges[0], []
    for plan in search.ranking:
        if plan.strategy == winner.strategy and plan.prices is not None and len(plan.algorithms) == 1:
            priced = plan.prices(exchange.kind, exchange.nbytes)
            algorithm = plan.algorithm + (f" · {plan.gradient_exchange.label}" if plan.gradient_exchange else "")
            rows.append(CollectiveRow(algorithm, priced.cost, priced.bound))
    return tuple(dict.fromkeys(sorted(rows, key=lambda row: row.cost.time)))
