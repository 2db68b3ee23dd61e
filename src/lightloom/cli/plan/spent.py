"""Tables of a plan's report that say where the time of the winner goes, by stage and by operator."""

from __future__ import annotations

from collections.abc import Iterator

from lightloom.core.units import format_time
from lightloom.planner.search.costly import costly_operators
from lightloom.planner.search.plans import PlanSearch
from lightloom.reports.report import Table


def spent_tables(search: PlanSearch) -> Iterator[Table]:
    """Seconds of each stage's rank, where the winner has stages, and its most expensive operators."""
    spent = search.winner.spent
    if spent is not None:
        names = [name.removesuffix("_s").replace("_", " ") for name in spent]
        yield Table(
            title="What the rank of each stage spends a step on",
            columns=("stage", *names),
            rows=tuple(
                (str(stage), *map(format_time, seconds))
                for stage, seconds in enumerate(zip(*(column.tolist() for column in spent.values()), strict=True))
            ),
            caption="Seconds of a row add up to the step; the first stage is that of the breakdown.",
        )
    operators = costly_operators(search.graph, search.winner)
    if operators:
        yield Table(
            title="Most expensive operators",
            columns=("operator", "kind", "operators", "share of computing", "bound by"),
            rows=tuple(
                (row.name, row.kind, str(row.operators), f"{100 * row.share:.3g} %", row.bound) for row in operators
            ),
            caption="A star stands for a block's number.",
        )
