"""The most expensive operators are named with what bounds them, like ones of all blocks together."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lightloom.planning.parallelism.operators import times_and_launches
from lightloom.planning.parallelism.plan import local_graph
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.placed_space import PlacedChoice
from lightloom.planning.search.document import _bound, costly_operators, plan_document
from lightloom.planning.search.plans import PlanSearch, sequence_length
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.search.search import search
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


@pytest.mark.parametrize("recomputation", ["none", "full"])
def test_shares_are_those_of_the_seconds_of_the_operators_of_a_rank(staged: PlanSearch, recomputation: str) -> None:
    """Forward passes that are repeated count again; what bounds an operator is what its figures alone would take."""
    graph, plan = staged.graph, staged.winner
    assert isinstance(plan.choice, Strategy)
    choice = plan.choice._replace(tp=1, recomputation=recomputation)
    plan = replace(plan, choice=choice)
    chip, settings = plan.cluster.accelerator, plan.cluster.training
    local = local_graph(graph, settings.model_copy(update={"batch_per_rank": choice.samples}))
    (forward, backward), _ = times_and_launches(local, chip, settings.precision)
    names = [re.sub(r"\d+", "*", each.name) for each in graph.operators]
    seconds = dict.fromkeys(names, 0.0)
    for x, operator in enumerate(graph.operators):
        again = 2 if recomputation == "full" and operator.block else 1
        seconds[names[x]] += again * float(forward[x]) + float(backward[x])
    found = {row.name: row for row in costly_operators(graph, plan)}
    assert len(found) == min(len(seconds), 10)
    for name, row in found.items():
        assert row.share == pytest.approx(seconds[name] / sum(seconds.values()))
        assert row.operators == names.count(name)
        assert row.kind == graph.operators[names.index(name)].kind
    flat = chip.flat()
    for bandwidth, rate, bound in ((1e30, 1.0, "arithmetic"), (1.0, 1e30, "memory")):
        update = {"memory_bandwidth": bandwidth, "peak": dict.fromkeys(flat.peak, rate), "kernel_launch": 0.0}
        on = replace(plan.cluster, accelerator=flat.model_copy(update=update))
        products = [row for row in costly_operators(graph, replace(plan, cluster=on)) if row.kind == "linear"]
        assert products and {row.bound for row in products} == {bound}


def test_launching_bounds_what_neither_arithmetic_nor_memory_explains_half_of() -> None:
    for seconds, arithmetic, memory, launched, bound in (
        (1.0, 0.49, 0.3, True, "launch"),
        (1.0, 0.3, 0.49, True, "launch"),
        (1.0, 0.3, 0.49, False, "memory"),
        (1.0, 0.5, 0.3, True, "arithmetic"),
        (1.0, 0.3, 0.5, True, "memory"),
        (1.0, 0.7, 0.7, True, "arithmetic"),
    ):
        assert _bound(seconds, arithmetic, memory, launched=launched) == bound


def test_nothing_is_costly_where_nothing_takes_time_or_operators_are_cut(staged: PlanSearch) -> None:
    plan = replace(staged.winner, choice=PlacedChoice(2, 2, 1e-6, 32, 1, 1.0))
    assert costly_operators(staged.graph, plan) == ()
    idle = replace(staged.graph.operators[0], forward_flops=0, backward_flops=0, forward_bytes=0, shared_bytes=0)
    idle = replace(idle, kind="activation", parameters=0, parameter_bytes=0, activation_bytes=0)
    (row,) = costly_operators(replace(staged.graph, operators=(idle,)), staged.winner)
    assert row.share == 0 and row.operators == 1
    beside = replace(staged.graph, operators=(idle, *staged.graph.operators[1:]))
    assert sum(each.share for each in costly_operators(beside, staged.winner)) == pytest.approx(1)


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
