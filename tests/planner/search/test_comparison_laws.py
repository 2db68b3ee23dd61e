"""Data parallelism with each algorithm alone, and what documents tell of plans."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lightloom.collectives.registry import algorithms, build_with_loads
from lightloom.collectives.registry import find as find_algorithm
from lightloom.exchange.methods import find
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.gradients import PricedExchange
from lightloom.planning.pricing import schedule_prices
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.pricing.library_prices import LIBRARY
from lightloom.planning.pricing.placed_space import PlacedChoice
from lightloom.planning.search.bounds import bounds
from lightloom.planning.search.document import (
    compression_json,
    exchange_json,
    exchange_settings,
    intervals_basis,
    plan_document,
    plan_row,
    replicas,
    verdict,
)
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.search.rows import ClusterRows
from lightloom.planning.search.search import _carriers, compared_plans
from tests.planner.gradients.exchanges import by_name, coded
from tests.planner.jobs import space, transformer
from tests.planner.search.test_plans import found

NAMES = ("ring", "one-stage")


def comparison(ranks: int = 4, exchanges: tuple[PricedExchange, ...] = (), **asked: Any) -> ClusterRows:
    """Of a small transformer on rings."""
    on = load_cluster("terarack-64", set={"ranks": ranks})
    prices = GroupPrices(on.fabric, on.training, exchanges=exchanges, choices=NAMES)
    request = SearchRequest(**{"algorithms": NAMES, "strategies": ("ddp", "fsdp"), "exchanges": exchanges} | asked)
    return ClusterRows(transformer(1), on, request, prices)


def test_every_algorithm_is_simulated_at_every_batch_that_divides_without_and_with_each_method(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    methods = by_name("int8"), by_name("topk")
    of = comparison(exchanges=methods)
    told: list[None] = []
    plans, refused = compared_plans(of, (4, 6, 8), lambda: told.append(None))
    assert len(told) == len(NAMES)
    choices: list[Any] = [plan.choice for plan in plans]
    made = [(each.algorithm, each.sharding, each.global_batch, each.exchange) for each in choices]
    served = [*product(NAMES, ("none",), (4, 8), (0, 1, 2)), *product(NAMES, ("zero-3",), (4, 8), (0, 1))]
    why = {(row.strategy, row.algorithm, row.compression): row.why for row in refused}
    assert set(made) | {("", "", 0, 0)} >= {each for each in served if each[3] == 0} and len(set(made)) == len(made)
    for each in plans:
        choice, result = each.choice, each.result
        assert result is not None and not isinstance(choice, PlacedChoice)
        assert (choice.dp, choice.plain, each.bound) == (4, True, result.compute_time)
        assert each.ledger.sent_joules == result.sent_joules and each.ledger.samples == choice.global_batch
        assert each.breakdown == result.breakdown and each.bound <= each.step_time
        method = methods[choice.exchange - 1] if choice.exchange else None
        assert each.gradient_exchange is method
        kept = 0 if method is None else method.state_bytes * of.job.parameters
        assert each.memory == result.plan.memory.total + kept
        if method is None:
            assert each.uncompressed is None
        else:
            assert each.uncompressed is plans[made.index((*made[plans.index(each)][:3], 0))]
    assert any("averages whole gradients" in text for (kind, _, name), text in why.items() if kind == "fsdp" and name)
    assert {(kind, name) for kind, name, _ in why} <= set(product(("ddp", "fsdp"), NAMES))
    assert len(made) + len(refused) == len(served) + len([*product(NAMES, (4, 8))])
    # What bounds need is priced, and the schedules themselves are gone.
    prices: Any = of.prices
    built = [each for (name, _), part in prices._plain.items() if name in NAMES for each in part._built.values()]
    assert built and all(each.schedule is None for each in built)

    def build(*_: object) -> None:
        raise AssertionError("is priced already")

    monkeypatch.setattr("lightloom.collectives.registry.build_with_loads", build)
    for name in NAMES:
        rows = space(of.job, (8,), (name,))
        rows = rows.rows(rows.plain & (rows.exchange == 0))
        assert (bounds(of.job, rows) > 0).all()


def test_only_what_is_pinned_is_compared() -> None:
    def compared(**pins: Any) -> set[tuple[str, int]]:
        plans, _ = compared_plans(comparison(algorithms=NAMES[:1], pins=Pins(**pins)), (4, 8))
        return {(plan.strategy, plan.global_batch) for plan in plans}

    every = {*product(("ddp", "fsdp"), (4, 8))}
    assert compared() == compared(dp=4, tp=1, micro_batches=1, recomputation="none") == every
    assert compared(sharding="ddp") == {("ddp", 4), ("ddp", 8)} and compared(micro_batch=2) == {("ddp", 8), ("fsdp", 8)}
    assert compared(recomputation="full") == compared(dp=2) == compared(micro_batches=2) == set()
    only, _ = compared_plans(comparison(algorithms=NAMES[:1], strategies=("fsdp",)), (4,))
    assert {plan.strategy for plan in only} == {"fsdp"}
    assert compared_plans(comparison(ranks=1), (4,)) == ([], [])


def test_a_row_of_the_document_tells_the_figures_of_its_plan() -> None:
    search, kinds, divided = found(), set(), 0
    bare = tuple(replace(op, kind="activation", forward_flops=0) for op in search.graph.operators)
    without = replace(search, graph=replace(search.graph, operators=bare))
    for plan in search.ranking:
        row, other = plan_row(plan, search), plan_row(plan, without)
        kinds.add(plan.strategy)
        tokens, rate = search.sequence_length, plan.samples_per_second
        assert tokens and row["tokens_per_second"] == tokens * rate
        assert row["tokens_per_second_per_rank"] == tokens * rate / 2
        assert (other["tokens_per_second"], other["tokens_per_second_per_rank"]) == (None, None)
        for name, hardware in (("model", False), ("hardware", True)):
            assert row[f"{name}_flops_utilization"] == search.utilization(plan, hardware=hardware)
            assert other[f"{name}_flops_utilization"] is None
        interval = search.intervals.get(id(plan))
        told = (row["low_s"], row["high_s"], row["told_apart"])
        if interval is None:
            assert told == (None, None, None)
        else:
            apart = None if plan is search.winner else interval.apart
            assert told == (interval.low, interval.high, apart)
        spent = None if plan.spent is None else {name: each.tolist() for name, each in plan.spent.items()}
        assert row["rank_seconds"] == spent and (spent is None) == (plan.strategy != "tensor-pipeline")
        assert (row["placed"] is not None) == (plan.strategy == "placed") and row["in_step"] is None
        division = plan.division
        assert row["channels"] == (None if division is None else division.by_axis())
        divided += division is not None
        assert (row["compression"], row["exchange"]) == (None, None)
        assert (row["fits"], row["fits_memory"]) == (plan.fits is not False, plan.fits)
        assert replicas(plan) == (plan.choice.l if isinstance(plan.choice, PlacedChoice) else plan.choice.replicas)
    assert kinds == {"ddp", "tensor-pipeline", "placed"} and divided
    unknown = replace(
        search.winner,
        cluster=replace(
            search.winner.cluster, accelerator=search.clusters[0].accelerator.model_copy(update={"memory": None})
        ),
    )
    small = replace(search.winner, memory=1e30)
    assert (plan_row(unknown, search)["fits"], plan_row(unknown, search)["fits_memory"]) == (True, None)
    assert (plan_row(small, search)["fits"], plan_row(small, search)["fits_memory"]) == (False, False)


def test_the_document_lists_the_ranking_its_front_and_the_best_of_each_kind() -> None:
    search = found()
    told = plan_document(search, {"made": "now"}, ["sizes"])
    assert [row["rank"] for row in told["ranking"]] == [*range(1, len(search.ranking) + 1)]
    assert told["front"] == [
        place for place, plan in enumerate(search.ranking, 1) if any(plan is each for each in search.front)
    ]
    assert [row["rank"] for row in told["ranking"] if row["on_front"]] == told["front"] != []
    for kind, place in told["best_of_strategy"].items():
        assert search.ranking[place - 1] is search.best_of(kind)
    assert set(told["best_of_strategy"]) == {"ddp", "tensor-pipeline", "placed"} and told["algorithms"] == ["ring"]
    assert (told["batch_per_rank"], type(told["batch_per_rank"])) == (2, int) and told["not_in_trace"] == ["sizes"]
    assert told["pins"] == {} and told["provenance"] == {"made": "now"}
    winner = search.winner
    odd = replace(search, ranking=(replace(winner, choice=winner.choice._replace(global_batch=3)),))
    pinned = replace(odd, request=replace(search.request, pins=Pins(tp=1), algorithms=()))
    again = plan_document(pinned, {})
    assert (again["batch_per_rank"], again["pins"], again["algorithms"]) == (1.5, {"tp": 1}, "all")


def test_documents_tell_what_a_method_sends_and_what_it_saves() -> None:
    methods = by_name("int4", rate=5e9), coded(4.0, rate=5e9)
    plans, _ = compared_plans(comparison(exchanges=methods, algorithms=NAMES[:1]), (4,))
    seen = set()
    for plan in plans:
        method = plan.gradient_exchange
        coding, exchange, effect = compression_json(plan), exchange_json(plan), verdict(plan)
        if method is None:
            assert coding is None is exchange
            continue
        seen.add(method.name)
        assert coding is not None and exchange is not None
        assert coding["ratio"] == method.ratio(4) and coding["codec"] == method.name
        assert ("gradient_bytes" in coding) == (effect is not None)
        phases = method.method.phases(method.gradient, 4)
        assert (exchange["replicas"], len(exchange["phases"])) == (4, len(phases)) and exchange["every"] == method.every
        alone = compression_json(replace(plan, uncompressed=None))
        assert alone is not None and "gradient_bytes" not in alone
        assert exchange_settings(method)["engine"] == method.coder.model_dump(mode="json")
        assert exchange_settings(replace(method, engine=None))["engine"] is None
    assert seen == {method.name for method in methods} and find("int4").name in seen


def test_what_intervals_rest_on_is_said() -> None:
    plan = next(each for each in found().ranking if each.exchanges)
    assert "links taken as they are" in intervals_basis(plan) and plan.verified and plan.exchanges
    silent: Any = SimpleNamespace(job=plan.job, verified=True, exchanges=())
    by_library: Any = SimpleNamespace(job=plan.job, verified=False, exchanges=plan.exchanges)
    for each in (silent, by_library):
        assert "linearised" in intervals_basis(each) and "links" not in intervals_basis(each)
    flat = replace(plan.job, accelerator=plan.job.accelerator.flat())
    assert "no interval is known" in intervals_basis(replace(plan, job=flat))


def test_schedules_whose_loads_are_unknown_are_built_once_for_steps_and_bounds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Their rows are gone once an algorithm is compared; those of sizes of their own are not built for bounds."""
    made = build_with_loads
    built: list[tuple[str, str]] = []

    def building(algorithm: Any, collective: Any, *given: Any) -> Any:
        built.append((algorithm.name, collective.kind))
        return made(algorithm, collective, *given)[0], None

    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    monkeypatch.setattr(schedule_prices, "build_with_loads", building)
    monkeypatch.setattr(schedule_prices, "_of_structures", OrderedDict())
    of: Any = comparison(algorithms=NAMES, strategies=("ddp",))
    compared_plans(of, (4,))
    assert sorted(built) == sorted(product(NAMES, ("all-reduce", "all-gather", "reduce-scatter")))
    for name in NAMES:
        rows = space(of.job, (8,), (name,))
        assert (bounds(of.job, rows.rows(rows.plain & (rows.exchange == 0))) > 0).all()
    assert len(built) == 6 and not any(part._built for (name, _), part in of.prices._plain.items() if name in NAMES)
    by_size = find_algorithm("synthesized")
    assert by_size.by_size
    monkeypatch.setattr(of.prices, "failure", lambda kind, *_: built.append((kind, "")))
    built.clear()
    carried = replace(by_size, name="ring")
    monkeypatch.setattr("lightloom.planning.search.search._carriers", lambda _: [carried])
    monkeypatch.setattr("lightloom.planning.search.search._with_algorithm", lambda *_: [])
    compared_plans(of, (4,))
    assert not built


def test_named_algorithms_are_compared_else_the_library_else_all() -> None:
    of = comparison()
    assert [each.name for each in _carriers(of)] == list(NAMES)
    of.request = SearchRequest()
    assert _carriers(of) == list(algorithms().values())
    nodes = load_cluster("h100-512-two-tier", set={"ranks": 4})
    of.job = replace(of.job, fabric=nodes.fabric)
    assert _carriers(of) == [LIBRARY]
