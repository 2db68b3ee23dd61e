"""The most expensive operators are named with what bounds them, like ones of all blocks together."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.search.costly import costly_operators
from lightloom.planner.search.document import plan_document
from lightloom.planner.search.plans import PlanSearch, sequence_length
from lightloom.planner.search.request import Pins, SearchRequest
from lightloom.planner.search.search import search
from tests.planner.jobs import cluster, transformer


@pytest.fixture(scope="module")
def staged() -> PlanSearch:
    """Two stages of a transformer."""
    pins = Pins(pp=2, tp=1, micro_batches=4, recomputation="full")
    request = SearchRequest(global_batches=(32,), strategies=("tensor-pipeline",), pins=pins)
    return search(transformer(4), cluster(4), request)


def test_blocks_count_together(staged: PlanSearch) -> None:
    rows = costly_operators(staged.graph, staged.winner)
    named = {row.name: row for row in rows}
    assert named["layers.*.up"].operators == 4 and named["tokens"].operators == 1
    assert [row.share for row in rows] == sorted((row.share for row in rows), reverse=True)
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert {row.bound for row in rows} <= {"arithmetic", "memory", "launch"}
    # Blocks run forward twice, the head once: products of as many FLOPs.
    assert named["layers.*.up"].share > named["head"].share


def test_equally_expensive_operators_go_by_name(staged: PlanSearch) -> None:
    """Blocks are alike, and the first ones get the last names."""

    def renamed(name: str) -> str:
        return re.sub(r"layers\.(\d)", lambda found: "zyxw"[int(found[1])], name)

    operators = tuple(
        replace(operator, name=renamed(operator.name), inputs=tuple(map(renamed, operator.inputs)))
        for operator in staged.graph.operators
    )
    rows = costly_operators(replace(staged.graph, operators=operators), staged.winner)
    alike = [row.name for row in rows if row.share == rows[0].share]
    assert len(alike) > 1 and alike == sorted(alike)


def test_what_tensor_groups_do_not_share_takes_more_of_a_rank(staged: PlanSearch) -> None:
    """Sums are computed whole by every rank of a tensor group, products at their share."""
    on = staged.winner.cluster
    plan = replace(staged.winner, cluster=replace(on, accelerator=on.accelerator.flat()))
    assert isinstance(plan.choice, Strategy)
    shared = replace(plan, choice=plan.choice._replace(tp=4, pp=1))
    alone, beside = ({row.name: row.share for row in costly_operators(staged.graph, each)} for each in (plan, shared))
    assert beside["layers.*.add"] > 2 * alone["layers.*.add"]
    sliced = replace(plan, choice=plan.choice._replace(tp=4, pp=1, sequence_parallel=True))
    shares = {row.name: row.share for row in costly_operators(staged.graph, sliced)}
    assert shares["layers.*.add"] < beside["layers.*.add"]


def test_the_document_tells_time_by_rank(staged: PlanSearch) -> None:
    document = plan_document(staged, {})
    row, tokens = document["ranking"][0], staged.sequence_length
    assert all(len(seconds) == 2 for seconds in row["rank_seconds"].values())
    for stage in range(2):
        spent = sum(seconds[stage] for seconds in row["rank_seconds"].values())
        assert spent == pytest.approx(row["iteration_time_s"])
    assert tokens is not None
    assert row["tokens_per_second_per_rank"] == pytest.approx(row["samples_per_second"] * tokens / 4)
    assert row["hardware_flops_utilization"] > row["model_flops_utilization"]
    assert len(document["costliest_operators"]) == 10


def test_tokens_of_a_sample_are_those_of_the_longest_sequence_that_attends() -> None:
    """An encoder and a decoder may see sequences of two lengths."""
    plain = transformer(1)
    sizes = [{"sequence": 5}, {"sequence": 9}, {"sequence": 2}, {}]
    (attention,) = (operator for operator in plain.operators if operator.kind == "attention")
    several = tuple(replace(attention, name=f"a{n}", inputs=(), dimensions=each) for n, each in enumerate(sizes))
    assert sequence_length(replace(plain, operators=several)) == 9
    assert sequence_length(replace(plain, operators=several[3:])) is None
