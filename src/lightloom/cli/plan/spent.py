"""Tables of a plan's report that say what is spent: time by stage and by operator, dollars and joules by place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lightloom.core.units import format_time
from lightloom.economics.step import StepLedger
from lightloom.planner.circuits.in_step import InStep
from lightloom.planner.circuits.regranted import RegrantedStep
from lightloom.planner.search.plans import PlanSearch
from lightloom.reports.ledger import MOST_PLACES, TITLE, ledger_notes, ledger_rows
from lightloom.reports.report import Table


def spent_lines(search: PlanSearch, document: Mapping[str, Any]) -> Iterator[str]:
    """Where the time of the winner goes, a line each: of its ranks, and of its operators."""
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
    """What a step of the first plan costs on each of the first clusters, and on the electrical reference, by place."""
    first = search.first_of_clusters
    reference = [plan for plan in first if plan in search.reference]
    shown = [plan for plan in first if plan not in reference][:MOST_PLACES]
    places = {plan.site: search.ledger_of(plan) for plan in shown}
    return places | {f"reference {plan.cluster.fabric.kind_name}": search.ledger_of(plan) for plan in reference}


def ledger_table(search: PlanSearch) -> Table:
    """Dollars, watts and joules of every place, with what they leave out and assume."""
    ledgers = place_ledgers(search)
    return Table(
        title=TITLE,
        columns=("of the first plan", *ledgers),
        rows=tuple(ledger_rows(ledgers)),
        caption=" ".join(f"{line[0].upper()}{line[1:]}." for line in ledger_notes(ledgers)),
    )


def _in_step(in_step: InStep) -> str:
    """How often the switch turns within a step, how much of that is hidden, and what it gains."""
    best, standing, time = in_step.best, in_step.standing, format_time(in_step.reconfiguration_time)
    planes = [", ".join(f"{axis} {count}" for axis, count in division.items()) for division in best.settings.values()]
    if not best.turning:
        return (
            f"circuits stand for the whole step ({planes[0]} planes): setting them anew takes {time} and gains nothing"
        )
    many = "once" if len(best.turning) == 1 else f"{len(best.turning)} times"
    told = f"the switch turns {many} in a step ({time} each, {format_time(in_step.hidden)} of it hidden)"
    shares = "; ".join(f"{phase}: {share}" for phase, share in zip(best.settings, planes, strict=True))
    if standing is None or in_step.gain is None:
        return f"{told}; without, there are more groups than planes; planes by phase: {shares}"
    gain = (
        f"gains {format_time(in_step.gain)} over circuits that stand ({100 * in_step.gain / standing.step_time:.3g} %)"
    )
    return f"{told} and {gain}; planes by phase: {shares}"


def _regranted(name: str, step: RegrantedStep) -> str:
    """How often circuits are granted anew within a step, and what that gains."""
    hold, dark, gain = format_time(step.timing.hold), format_time(step.timing.reconfiguration), step.gain
    return (
        f"{name} has circuits granted anew from what waits, up to {step.grants} times a step (holds of {hold}, {dark} "
        f"dark): {format_time(step.step_time)} instead of {format_time(step.standing_time)} over circuits granted "
        f"once, {100 * gain / step.standing_time:.3g} % less"
    )


def _name(part: str) -> str:
    return part.removesuffix("_s").replace("_", " ")


def spent_tables(search: PlanSearch, document: Mapping[str, Any]) -> Iterator[Table]:
    """Seconds of each stage's rank, where the winner has stages, and its most expensive operators."""
    spent = search.winner.spent
    if spent is not None:
        names = [_name(part) for part in spent]
        yield Table(
            title="What the rank of each stage spends a step on",
            columns=("stage", *names),
            rows=tuple(
                (str(stage), *map(format_time, seconds))
                for stage, seconds in enumerate(zip(*(column.tolist() for column in spent.values()), strict=True))
            ),
            caption="Seconds of a row add up to the step; their mean over the stages is the breakdown.",
        )
    operators = document["costliest_operators"]
    if operators:
        yield Table(
            title="Most expensive operators",
            columns=("operator", "kind", "operators", "share of computing", "bound by"),
            rows=tuple(
                (row["name"], row["kind"], str(row["operators"]), f"{100 * row['share']:.3g} %", row["bound"])
                for row in operators
            ),
            caption="A star stands for a block's number.",
        )
