"""Terminal, page and document tell where the time of a plan with stages goes, and how much of the peak it uses."""

from __future__ import annotations

import pytest
from rich.text import Text

from lightloom.app.cli.plan import _explained
from lightloom.app.cli.plan_report import plan_report
from lightloom.core.results import provenance
from lightloom.core.units import format_rate
from lightloom.planning.search.answer import plan_answer
from lightloom.planning.search.document import plan_document
from lightloom.planning.search.plans import PlanSearch
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.search.search import search
from lightloom.reports.html import render
from tests.planner.jobs import cluster, transformer


@pytest.fixture(scope="module")
def staged() -> PlanSearch:
    """Two stages of a transformer whose head shares the embedding's table."""
    pins = Pins(pp=2, tp=1, micro_batches=4, recomputation="full")
    request = SearchRequest(global_batches=(32,), strategies=("tensor-pipeline",), pins=pins)
    return search(transformer(4), cluster(4), request)


def test_terminal_and_page_tell_what_the_document_does(staged: PlanSearch) -> None:
    document = plan_document(staged, {"version": "0"}) | {"not_in_trace": []}
    row, operators = document["ranking"][0], document["costliest_operators"]
    terminal = "\n".join(str(part) for part in _explained(staged, document) if isinstance(part, str | Text))
    page = render(plan_report(staged, document, provenance({}), plan_answer(staged, (), 1.0, 0)))
    shares = [row[f"{kind}_flops_utilization"] for kind in ("model", "hardware")]
    told = [
        f"{format_rate(row['tokens_per_second_per_rank'])} tokens/s a rank",
        f"{100 * shares[0]:.3g} % model-FLOPs, {100 * shares[1]:.3g} % hardware-FLOPs utilization",
    ]
    assert shares[1] > shares[0]
    assert all(line in page for line in told)
    of_stages = row["rank_seconds"]["bubble_s"]
    bubble = sum(of_stages) / len(of_stages) / row["iteration_time_s"]
    assert (
        "a rank of the winner, the mean over all stages, spends: compute" in terminal
        and f"bubble {100 * bubble:.3g} %" in terminal
    )
    assert len(operators) == 10
    for operator in operators:
        assert f"{operator['name']} {100 * operator['share']:.3g} % ({operator['bound']})" in terminal
        assert operator["name"] in page
    assert "Assumption: gradients" in page
