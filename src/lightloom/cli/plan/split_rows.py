"""Splits that were found, as the tables of terminals and pages show them."""

from __future__ import annotations

from lightloom.planner.search.plans import SplitPlan, SplitSearch
from lightloom.reports.split_table import SplitRow


def site(plan: SplitPlan) -> str:
    """Where a split runs, in a few words."""
    return f"{plan.cluster.name}, {plan.cluster.ranks:,} ranks"


def rows(found: SplitSearch) -> list[SplitRow]:
    """The ranking as the reports show it."""
    front = {id(plan) for plan in found.front}
    return [
        SplitRow(
            place=place,
            kind=plan.kind,
            label=plan.label,
            site=site(plan),
            global_batch=plan.global_batch,
            step_time=plan.step_time,
            samples_per_second=plan.samples_per_second,
            energy_per_sample=plan.energy_per_sample,
            energy_complete=not plan.energy.missing,
            memory=plan.memory,
            breakdown=plan.breakdown,
            on_front=id(plan) in front,
        )
        for place, plan in enumerate(found.ranking, start=1)
    ]
