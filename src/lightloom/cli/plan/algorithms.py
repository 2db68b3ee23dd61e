"""Tables of a plan's report: data parallelism with every algorithm, and the circuits of synthesized schedules."""

from __future__ import annotations

from collections import Counter

from lightloom.collectives.spec import Kind
from lightloom.core.units import format_size, format_time
from lightloom.planner.pricing.library import carrier
from lightloom.planner.search.plans import Plan, PlanSearch
from lightloom.planner.search.request import DATA_PARALLEL
from lightloom.reports.numbers import format_ratio
from lightloom.reports.report import Table
from lightloom.simulation.step import StepResult

_SAME = 1e-6
"""Steps that differ by less than this share are the same."""


def compared(search: PlanSearch) -> list[Plan]:
    """The best strategy of data parallelism alone with every algorithm, gradients as they are; fastest first."""
    plans = [plan for plan in search.ranking if plan.strategy in DATA_PARALLEL and plan.result is not None]
    same = [plan for plan in plans if plan.strategy == plans[0].strategy and plan.gradient_exchange is None]
    return sorted(same, key=lambda plan: plan.step_time)


def algorithm_tables(search: PlanSearch) -> tuple[Table, ...]:
    """Data parallelism, algorithm by algorithm; nothing where it was not searched."""
    plans = compared(search)
    if not plans:
        return ()
    return (
        Table(
            title=f"{plans[0].strategy} with every algorithm",
            columns=(
                "algorithm",
                "step",
                "longer",
                "waits for the network",
                "network busy",
                "of it circuits",
                "vs bound",
            ),
            rows=tuple(_algorithm_row(plan, plan.result, plans[0]) for plan in plans if plan.result is not None),
            caption="Network busy: all collectives of a step, hidden or not, with the changes of circuits before them. "
            "Against the bound: collectives from dark fibres, over the lower bounds of each.",
        ),
    )


def _algorithm_row(plan: Plan, result: StepResult, first: Plan) -> tuple[str, ...]:
    waiting = plan.breakdown["exposed_communication_s"] + plan.breakdown["exposed_reconfiguration_s"]
    return (
        " + ".join(plan.algorithms) or "none",
        format_time(plan.step_time),
        _longer(plan.step_time / first.step_time if first.step_time else 1.0),
        format_time(waiting),
        format_time(result.communication_time),
        format_time(result.busy_time["reconfiguration"]),
        format_ratio(times_the_bound(plan)),
    )


def _longer(ratio: float) -> str:
    if ratio < 1 + _SAME:
        return "0 %"
    return f"{100 * (ratio - 1):.3g} %" if ratio < 2 else format_ratio(ratio)


def times_the_bound(plan: Plan) -> float | None:
    """Seconds of the step's collectives over their lower bounds; None for others than data parallelism alone."""
    if plan.prices is None or plan.result is None:
        return None
    costs = [plan.prices.cost(exchange.kind, exchange.nbytes) for exchange in plan.result.plan.exchanges]
    least = sum(bound.time for _, bound in costs)
    return sum(cost.time for cost, _ in costs) / least if least else None


def circuit_tables(search: PlanSearch) -> tuple[Table, ...]:
    """Circuits of each collective of the fastest plan whose schedules are synthesized; nothing without one."""
    synthesized = (plan for plan in compared(search) if all(carrier(name).by_size for name in plan.algorithms))
    plan = next((plan for plan in synthesized if plan.exchanges), None)
    if plan is None or plan.result is None:
        return ()
    times = Counter((exchange.kind, exchange.nbytes) for exchange in plan.result.plan.exchanges)
    circuits = plan.job.fabric.exclusive
    return (
        Table(
            title=f"{'Circuits' if circuits else 'Messages'} of {plan.algorithm} schedules, {plan.strategy}",
            columns=("collective", "size", "a step", "time", "vs bound", "circuits" if circuits else "schedule"),
            rows=tuple(_circuit_row(plan, kind, nbytes, count) for (kind, nbytes), count in sorted(times.items())),
            caption=_sets(plan.result) if circuits else "Packets take links as they are free: nothing is set up.",
        ),
    )


def _circuit_row(plan: Plan, kind: Kind, nbytes: float, count: int) -> tuple[str, ...]:
    assert plan.prices is not None
    cost, bound = plan.prices.cost(kind, nbytes)
    notes = plan.prices.schedule(kind, nbytes).notes
    ratio = cost.time / bound.time if bound.time else None
    return kind, format_size(nbytes), str(count), format_time(cost.time), format_ratio(ratio), "; ".join(notes)


def _sets(result: StepResult) -> str:
    """How often circuits change in a step, and what that costs."""
    spent = result.busy_time["reconfiguration"]
    if not spent:
        return "One set of circuits serves all of them and stays in place."
    exposed = result.breakdown["exposed_reconfiguration_s"]
    hidden = "all of it while computing" if not exposed else f"{format_time(exposed)} of it waited for"
    return f"Changing circuits between them takes {format_time(spent)} a step, {hidden}."
