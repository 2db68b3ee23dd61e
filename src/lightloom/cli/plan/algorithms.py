"""Tables of a plan's report: the winning strategy with every algorithm, and the circuits of synthesized schedules."""

from __future__ import annotations

from collections import Counter

from lightloom.collectives.spec import Kind
from lightloom.core.units import format_size, format_time
from lightloom.planner.search.ranked import Candidate, PlanSearch
from lightloom.reports.numbers import format_ratio
from lightloom.reports.report import Table

_SAME = 1e-6
"""Steps that differ by less than this share are the same."""


def algorithm_table(found: PlanSearch) -> Table:
    """The winning strategy, algorithm by algorithm, without compression; fastest first."""
    winner = found.winner
    shown = [each for each in found.ranking if each.strategy == winner.strategy and each.compression is None]
    return Table(
        title=f"{winner.strategy} with every algorithm",
        columns=("algorithm", "step", "longer", "waits for the network", "network busy", "of it circuits", "vs bound"),
        rows=tuple(_algorithm_row(each, shown[0]) for each in shown),
        caption="Network busy: all collectives of a step, hidden or not, with the changes of circuits before them. "
        "Against the bound: collectives from dark fibres, over the lower bounds of each.",
    )


def _algorithm_row(each: Candidate, first: Candidate) -> tuple[str, ...]:
    result = each.result
    parts = result.breakdown
    waiting = parts["exposed_communication_s"] + parts["exposed_reconfiguration_s"]
    return (
        each.algorithm.name,
        format_time(result.step_time),
        _longer(result.step_time / first.result.step_time),
        format_time(waiting),
        format_time(result.communication_time),
        format_time(result.busy_time["reconfiguration"]),
        format_ratio(times_the_bound(each)),
    )


def _longer(ratio: float) -> str:
    if ratio < 1 + _SAME:
        return "0 %"
    return f"{100 * (ratio - 1):.3g} %" if ratio < 2 else format_ratio(ratio)


def times_the_bound(each: Candidate) -> float | None:
    """What the step's collectives cost together, over what they must."""
    costs = [each.prices.cost(exchange.kind, exchange.nbytes) for exchange in each.result.plan.exchanges]
    least = sum(bound.time for _, bound in costs)
    return sum(cost.time for cost, _ in costs) / least if least else None


def circuit_tables(found: PlanSearch) -> tuple[Table, ...]:
    """What was found for each collective of the fastest plan whose schedules depend on their size; nothing without."""
    each = next((one for one in found.ranking if one.algorithm.by_size and one.compression is None), None)
    if each is None or not each.result.plan.exchanges:
        return ()
    times = Counter((exchange.kind, exchange.nbytes) for exchange in each.result.plan.exchanges)
    return (
        Table(
            title=f"Circuits of {each.algorithm.name} schedules, {each.strategy}",
            columns=("collective", "size", "a step", "time", "vs bound", "circuits"),
            rows=tuple(_circuit_row(each, kind, nbytes, count) for (kind, nbytes), count in sorted(times.items())),
            caption=_sets(each),
        ),
    )


def _circuit_row(each: Candidate, kind: Kind, nbytes: float, count: int) -> tuple[str, ...]:
    cost, bound = each.prices.cost(kind, nbytes)
    notes = each.prices.schedule(kind, nbytes).notes
    ratio = cost.time / bound.time if bound.time else None
    return kind, format_size(nbytes), str(count), format_time(cost.time), format_ratio(ratio), "; ".join(notes)


def _sets(each: Candidate) -> str:
    """How often circuits change in a step, and what that costs."""
    spent = each.result.busy_time["reconfiguration"]
    if not spent:
        return "One set of circuits serves all of them and stays in place."
    exposed = each.result.breakdown["exposed_reconfiguration_s"]
    hidden = "all of it while computing" if not exposed else f"{format_time(exposed)} of it waited for"
    return f"Changing circuits between them takes {format_time(spent)} a step, {hidden}."
