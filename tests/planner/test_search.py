"""The planner ranks verified plans, keeps the laws of its parts, and explains its winner with its own numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from lightloom.app.api import planning
from lightloom.collectives.registry import admitted, algorithms
from lightloom.core.errors import UnknownNameError, UnsupportedError
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.planning.parallelism.plan import make_plan
from lightloom.planning.pricing.schedule_prices import SchedulePrices
from lightloom.planning.search.document import explain
from lightloom.planning.search.plans import Plan, PlanSearch
from lightloom.planning.search.request import DATA_PARALLEL, Pins, SearchRequest
from lightloom.planning.search.search import search


def graph(parameters: int = 5_000_000, layers: int = 8) -> ComputeGraph:
    """A chain of equal linear layers."""
    share = parameters // layers
    operators = [
        Operator(
            name=f"layer{i}",
            kind="linear",
            inputs=(f"layer{i - 1}",) if i else (),
            dimensions={"sample": 13},
            forward_flops=13 * 2 * share,
            backward_flops=13 * 4 * share,
            parameters=share,
            parameter_bytes=4 * share,
            activation_bytes=13 * 4096,
            forward_bytes=4 * share + 13 * 8192,
            shared_bytes=4 * share,
            block="",
        )
        for i in range(layers)
    ]
    return ComputeGraph(name="chain", batch=13, operators=tuple(operators))


def data_parallel(cluster: Cluster, **options: Any) -> PlanSearch:
    """Data parallelism alone, without recomputation, 32 samples a rank."""
    request = {"strategies": DATA_PARALLEL, "global_batches": (32 * cluster.ranks,), **options}
    return search(graph(), cluster, SearchRequest(pins=Pins(recomputation="none"), **request))


def steps(found: PlanSearch) -> dict[tuple[str, tuple[str, ...]], Plan]:
    """Plans by strategy and algorithms."""
    return {(plan.strategy, plan.algorithms): plan for plan in found.ranking}


def test_every_strategy_and_admitted_algorithm_is_ranked_fastest_first() -> None:
    cluster = load_cluster("terarack-64", set={"ranks": 16})
    found = data_parallel(cluster)
    expected = {("ddp", a.name) for a in admitted("all-reduce", cluster.fabric)}
    expected |= {("fsdp", a.name) for a in admitted("all-gather", cluster.fabric)}
    assert {(s, names[0]) for s, names in steps(found) if len(names) == 1} == expected
    times = [plan.step_time for plan in found.ranking]
    assert times == sorted(times)
    assert {(r.strategy, r.algorithm) for r in found.refused} | expected == {
        (s, a) for s in ("ddp", "fsdp") for a in algorithms()
    }


def test_no_two_rows_have_one_label() -> None:
    cluster = load_cluster("inceptionn-4")
    found = planning.plan(graph(), cluster, strategy=["ddp", "fsdp"], exchange="int4", batch=32).search
    labels = [row.label for row in found.ranking]
    assert len(set(labels)) == len(labels) > 20
    assert any("one-stage + ring · int4" in label for label in labels)
    operators = tuple(replace(operator, parameters=0, parameter_bytes=0) for operator in graph().operators)
    silent = planning.plan(replace(graph(), operators=operators), cluster, strategy="ddp", recompute="none", batch=32)
    assert [row.label for row in silent.search.ranking] == ["dp 4 · ddp"]


def test_no_plan_beats_computing_alone_and_none_is_slower_than_everything_in_a_row() -> None:
    cluster = load_cluster("terarack-64", set={"ranks": 16})
    free, serial = steps(data_parallel(cluster)), steps(data_parallel(cluster, overlap=False))
    assert free and set(free) == set(serial)
    for key, plan in free.items():
        assert plan.step_time >= plan.breakdown["compute_s"]
        assert plan.step_time <= serial[key].step_time * (1 + 1e-12)


@pytest.mark.long
def test_faster_wavelengths_never_make_the_winner_slower() -> None:
    times = [
        data_parallel(
            load_cluster("terarack-64", set={"ranks": 16, "fabric.wavelength_bandwidth": f"{g}Gbps"})
        ).winner.step_time
        for g in (1, 8, 64)
    ]
    assert times == sorted(times, reverse=True)


def test_static_circuits_are_free_in_the_steady_state_and_changing_ones_are_not() -> None:
    cluster = load_cluster("terarack-64", set={"ranks": 16})
    found = steps(data_parallel(cluster, strategies=("ddp",)))
    ring, changing = (found["ddp", (name,)].result for name in ("ring-two-way-striped", "optree"))
    assert ring is not None and changing is not None
    assert ring.busy_time["reconfiguration"] == 0
    assert changing.busy_time["reconfiguration"] >= len(ring.plan.exchanges) * cluster.fabric.setup_time


def test_prices_agree_with_the_schedules_they_come_from() -> None:
    cluster = load_cluster("terarack-64", set={"ranks": 16})
    plan = make_plan("ddp", graph(), 16, cluster.training)
    prices = SchedulePrices(algorithms()["optree"], cluster.fabric, "physical")
    for exchange in plan.exchanges:
        priced = prices(exchange.kind, exchange.nbytes)
        assert priced.cost.time >= priced.bound.time
        assert prices.schedule(exchange.kind, exchange.nbytes).collective.nbytes == exchange.nbytes


def test_the_explanation_is_one_sentence_about_the_winner() -> None:
    found = data_parallel(load_cluster("terarack-64", set={"ranks": 16}))
    sentence = explain(found)
    assert found.winner.algorithm in sentence and "lower bound" in sentence
    assert sentence.endswith(".") and not re.search(r"\. [A-Z]", sentence) and "\n" not in sentence


def test_a_model_without_parameters_needs_no_network() -> None:
    idle = ComputeGraph(
        name="idle",
        batch=1,
        operators=(Operator(name="a", kind="elementwise", dimensions={"sample": 1}, forward_flops=5),),
    )
    found = search(idle, load_cluster("terarack-64", set={"ranks": 16}), SearchRequest(strategies=DATA_PARALLEL))
    assert found.winner.exchanges == () and found.winner.communication_time == 0
    assert "wins" in explain(found)


def test_refusals_say_what_would_help() -> None:
    cluster = load_cluster("optinc-16")
    with pytest.raises(UnsupportedError, match=r"no strategy has groups that any algorithm serves"):
        data_parallel(cluster, strategies=("fsdp",))
    with pytest.raises(UnknownNameError, match="did you mean 'optree'"):
        data_parallel(cluster, algorithms=("optee",))
    with pytest.raises(UnknownNameError, match="unknown strategy"):
        data_parallel(cluster, strategies=("zero",))


def test_a_library_that_a_fabric_does_not_have_is_a_refused_row() -> None:
    found = data_parallel(load_cluster("terarack-64", set={"ranks": 16}), algorithms=("library", "ring"))
    refused = {(row.strategy, row.algorithm): row.why for row in found.refused}
    assert set(refused) == {("ddp", "library"), ("fsdp", "library")}
    assert all("transport" in why for why in refused.values())
    assert {plan.algorithm for plan in found.ranking} == {"ring"}
