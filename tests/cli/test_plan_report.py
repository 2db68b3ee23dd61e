"""The tables of a plan's page add up to the plan."""

from __future__ import annotations

import pytest

from lightloom.cli.plan.algorithms import algorithm_table, circuit_tables
from lightloom.cli.plan.report import plan_report
from lightloom.clusters.load import load_cluster
from lightloom.core.provenance import provenance
from lightloom.planner.search.ranked import PlanSearch, search
from lightloom.reports.html import render
from tests.planner.jobs import transformer

CLUSTER = load_cluster(
    "terarack-64", {"ranks": 8, "fabric.wavelengths": 4, "fabric.fibres": 1, "fabric.conversion_time": "1us"}
)


@pytest.fixture(scope="module")
def found() -> PlanSearch:
    return search(transformer(2), CLUSTER)


def test_every_algorithm_of_the_winning_strategy_has_a_row_the_fastest_first(found: PlanSearch) -> None:
    table = algorithm_table(found)
    same = [each for each in found.ranking if each.strategy == found.winner.strategy]
    assert [row[0] for row in table.rows] == [each.algorithm.name for each in same]
    assert "synthesized" in {row[0] for row in table.rows}
    assert table.rows[0][2] == "0 %"


def test_the_circuits_of_every_collective_of_a_step_are_told_once(found: PlanSearch) -> None:
    (table,) = circuit_tables(found)
    ours = next(each for each in found.ranking if each.algorithm.name == "synthesized")
    assert sum(int(row[2]) for row in table.rows) == len(ours.result.plan.exchanges)
    assert all(row[5] for row in table.rows)
    changed = ours.result.busy_time["reconfiguration"] > 0
    assert table.caption.startswith("Changing circuits" if changed else "One set of circuits")


def test_without_synthesized_schedules_there_are_no_circuits_to_tell() -> None:
    assert circuit_tables(search(transformer(2), CLUSTER, algorithm="ring-striped")) == ()


def test_the_page_shows_both(found: PlanSearch) -> None:
    page = render(plan_report(found, transformer(2), CLUSTER, "physical", provenance({})))
    assert f"{found.winner.strategy} with every algorithm" in page and "Circuits of synthesized schedules" in page
