"""The tables of a plan's page add up to the plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lightloom.app.cli.plan_report import algorithm_tables, circuit_tables, compared, plan_report
from lightloom.core.answer import Answer
from lightloom.core.results import provenance
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.search.assumptions import assumptions
from lightloom.planning.search.document import plan_document
from lightloom.planning.search.plans import PlanSearch
from lightloom.planning.search.request import DATA_PARALLEL, SearchRequest
from lightloom.planning.search.search import search
from lightloom.reports.html import render
from tests.planner.jobs import transformer

CLUSTER = load_cluster(
    "terarack-64", set={"ranks": 8, "fabric.wavelengths": 4, "fabric.fibres": 1, "fabric.conversion_time": "1us"}
)


def searched(*algorithms: str) -> PlanSearch:
    return search(transformer(2), CLUSTER, SearchRequest(strategies=DATA_PARALLEL, algorithms=algorithms))


@pytest.fixture(scope="module")
def found() -> PlanSearch:
    return searched()


def test_every_algorithm_of_the_best_strategy_has_a_row_the_fastest_first(found: PlanSearch) -> None:
    (table,) = algorithm_tables(found)
    assert [row[0] for row in table.rows] == [" + ".join(plan.algorithms) for plan in compared(found)]
    assert "synthesized" in {row[0] for row in table.rows}
    assert table.rows[0][2] == "0 %"


def test_the_circuits_of_every_collective_of_a_step_are_listed_once(found: PlanSearch) -> None:
    (table,) = circuit_tables(found)
    ours = next(plan for plan in compared(found) if plan.algorithms == ("synthesized",))
    assert ours.result is not None
    assert sum(int(row[2]) for row in table.rows) == len(ours.result.plan.exchanges)
    assert all(row[5] for row in table.rows)
    changed = ours.result.busy_time["reconfiguration"] > 0
    assert table.caption.startswith("Changing circuits" if changed else "One set of circuits")


def test_without_synthesized_schedules_there_are_no_circuits_to_list() -> None:
    assert circuit_tables(searched("ring-striped")) == ()


@pytest.mark.long
def test_the_page_shows_both(found: PlanSearch) -> None:
    origin = provenance({})
    page = render(plan_report(found, plan_document(found, origin), origin, Answer(question="?", best=["the winner"])))
    assert f"{compared(found)[0].strategy} with every algorithm" in page
    assert "Circuits of synthesized schedules" in page and "the winner" in page


def test_assumptions_are_those_that_price_the_operators() -> None:
    """The kernel model's where there is one, otherwise the efficiency of the roofline."""
    kernels = assumptions(CLUSTER)
    flat = assumptions(replace(CLUSTER, accelerator=CLUSTER.accelerator.flat()))
    assert any(line.startswith("accelerator.kernels.dispatch: assumption") for line in kernels)
    assert not any(line.startswith("accelerator.kernels.flash_forward") for line in kernels)
    assert [line.split(":")[0] for line in flat if line.startswith("accelerator.")] == ["accelerator.efficiency"]
    assert not any(line.startswith("accelerator.efficiency") for line in kernels)
