"""Plans that a framework can run lead a ranking; each placed plan is one row of it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.search.document import explain, plan_document
from lightloom.planning.search.plans import PlanSearch, plan_words
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.search.search import search
from tests.planner.jobs import transformer

SLOW: dict[str, Any] = {"base": "circuit-switch", "degree": 5, "bandwidth": "2Gbps"}


@cache
def found(*strategies: str, prune: bool = True) -> PlanSearch:
    """Of a small transformer whose few samples and slow links make placed plans the fastest."""
    on = load_cluster("terarack-64", set={"ranks": 8, "fabric": dict(SLOW), "training.unit_parameters": 300_000})
    request = SearchRequest(
        global_batches=(8,), algorithms=("ring",), strategies=strategies, compare=False, prune=prune
    )
    return search(transformer(2, 256), on, request)


def test_a_faster_plan_that_no_framework_runs_stands_behind_those_that_one_runs() -> None:
    ranking = found("ddp", "fsdp", "placed").ranking
    placed = [plan.strategy == "placed" for plan in ranking]
    assert placed == sorted(placed) and not placed[0] and placed[-1]
    first = ranking[placed.index(True)]
    assert first.step_time < ranking[0].step_time, "the order of times alone would show nothing"
    for kind in (True, False):
        times = [plan.sample_time for plan in ranking if (plan.strategy == "placed") is kind]
        assert times == sorted(times)
    rows = plan_document(found("ddp", "fsdp", "placed"), {})["ranking"]
    assert [row["runnable"] for row in rows] == [not each for each in placed]
    words = explain(found("ddp", "fsdp", "placed"))
    assert f"{plan_words(first.choice)} with 8 samples is " in words and "faster, but no framework runs it" in words


def test_without_another_kind_a_placed_plan_wins_and_says_what_it_is() -> None:
    only = found("placed")
    assert only.winner.strategy == "placed" and "wins, though no framework runs it" in explain(only)


@pytest.mark.long
def test_what_placed_plans_take_changes_no_winner() -> None:
    """Pruning by them loses no runnable plan, and what is runnable prunes no faster placed one."""
    for prune in (True, False):
        both, alone = (
            found("ddp", "tensor-pipeline", "placed", prune=prune),
            found("ddp", "tensor-pipeline", prune=prune),
        )
        assert both.winner.choice == alone.winner.choice
        assert both.winner.step_time == pytest.approx(alone.winner.step_time)
    best = [found("ddp", "tensor-pipeline", "placed", prune=prune).best_of("placed") for prune in (True, False)]
    assert best[0] is not None and best[1] is not None and best[0].step_time == best[1].step_time


def test_plans_that_cut_and_place_alike_are_one_row() -> None:
    """Whatever limits and quanta name them."""
    ranking = found("placed", prune=False).ranking
    assert len(ranking) > 5
    plans = [
        (plan.choice._replace(quantum=0.0, most_exchanging=0), graph.dimensions, graph.first.tobytes())  # type: ignore[call-arg]
        for plan in ranking
        if plan.placed is not None
        for graph in [plan.placed.plan.balanced]
    ]
    assert len(plans) == len(set(plans)) == len(ranking)
