"""What is asked is what is searched: pins, memory, batches, faulty algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lightloom.collectives import registry
from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.registry import find
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.decoder import TransformerSizes, transformer_graph
from lightloom.models.zoo import load_workload
from lightloom.planning.parallelism.strategy_space import Strategy, strategy_space
from lightloom.planning.pricing import group_prices, library_prices
from lightloom.planning.pricing.group_prices import AUTO, GroupPrices
from lightloom.planning.pricing.strategy_step import StrategyStep
from lightloom.planning.search import rows
from lightloom.planning.search import search as search_module
from lightloom.planning.search.bounds import PriceLines
from lightloom.planning.search.plans import Plan, PlanSearch, RefusedPlan, order
from lightloom.planning.search.published import default_batch
from lightloom.planning.search.request import STRATEGIES, Pins, SearchRequest
from lightloom.planning.search.rows import ClusterRows
from lightloom.planning.search.search import COMPARED, _Search, compared_plans, search
from tests.planner.jobs import transformer


def cluster(ranks: int = 8, memory: float | None = None, **settings: Any) -> Cluster:
    """A100s on a packet switch whose software is free."""
    fabric = {"base": "ethernet-400g", "transport": "ideal"}
    fields = {"ranks": ranks, "fabric": fabric, "training.unit_parameters": 300_000, **settings}
    on = load_cluster("terarack-64", set=fields)
    return on if memory is None else replace(on, accelerator=on.accelerator.model_copy(update={"memory": memory}))


@cache
def prices(ranks: int) -> GroupPrices:
    """Prices on the packet switch, which all tests share."""
    on = cluster(ranks)
    return GroupPrices(on.fabric, on.training)


def searched(on: Cluster, blocks: int = 4, **options: Any) -> PlanSearch:
    """All strategies of a small transformer."""
    request = SearchRequest(**{"strategies": STRATEGIES, "compare": False, **options})
    shared = None if request.compare or request.algorithms else prices(on.ranks)
    return search(transformer(blocks, 256), on, request, prices=shared)


@pytest.fixture(scope="module")
def everything() -> PlanSearch:
    """Every row of four ranks."""
    return searched(cluster(4), blocks=2, global_batches=(6,), prune=False)


def pins_of(choice: Strategy) -> Pins:
    """Everything that a strategy chooses."""
    pins = {name: getattr(choice, name) for name, _ in Pins()}
    return Pins(**pins | {"micro_batch": choice.micro_batch or None})


def test_a_pinned_strategy_equals_its_row_to_the_last_digit(everything: PlanSearch) -> None:
    assert len(everything.ranking) > 30
    for plan in everything.ranking[:: len(everything.ranking) // 8]:
        assert isinstance(plan.choice, Strategy)
        pinned = searched(cluster(4), blocks=2, global_batches=(6,), pins=pins_of(plan.choice)).ranking
        # The fastest is refined with synthesized schedules, and its row stays beside it.
        assert {each.choice for each in pinned} == {plan.choice}
        assert all("synthesized" in each.algorithms for each in pinned[:-1])
        alone = {each.algorithms: each for each in pinned}[plan.algorithms]
        assert (alone.step_time, alone.memory, alone.energy) == (plan.step_time, plan.memory, plan.energy)
        assert (alone.breakdown, alone.exchanges) == (plan.breakdown, plan.exchanges)


@pytest.mark.long
def test_every_pin_keeps_what_it_says_and_all_of_it(everything: PlanSearch) -> None:
    choices = {plan.choice for plan in everything.ranking if isinstance(plan.choice, Strategy)}
    for name, value in {
        "tp": 2,
        "pp": 2,
        "micro_batches": 3,
        "recomputation": "full",
        "sequence_parallel": True,
    }.items():
        found = searched(cluster(4), 2, global_batches=(6,), prune=False, pins=Pins(**{name: value}))  # type: ignore[arg-type]
        assert {plan.choice for plan in found.ranking} == {each for each in choices if getattr(each, name) == value}


def test_any_divisor_of_a_replicas_batch_is_a_number_of_micro_batches() -> None:
    space = strategy_space(8, (1536,), tensor_degree=1, blocks=1, algorithms=("ring",))
    assert set(space.micro_batches.tolist()) == {n for n in range(1, 257) if 192 % n == 0}
    assert 192 in space.micro_batches


def test_more_chunks_than_a_search_tries_can_be_pinned() -> None:
    """Published set-ups of large models have 20 and more chunks a stage; a search tries 4."""
    pins = Pins(dp=2, tp=1, pp=2, virtual_stages=6, micro_batches=4, recomputation="none", sharding="none")
    request = SearchRequest(global_batches=(8,), strategies=STRATEGIES, pins=pins, compare=False)
    (plan,) = search(transformer(12), cluster(4), request).ranking
    assert isinstance(plan.choice, Strategy)
    assert plan.choice.virtual_stages == 6


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        ({"dp": 3}, "--dp 3: 3 ranks in all, expected a divisor of 8"),
        ({"dp": 2, "tp": 2, "pp": 1}, "4 ranks in all, expected 8"),
        ({"tp": 8}, "--tp 8: expected a divisor of 4"),
        ({"pp": 2, "virtual_stages": 4}, "8 stages: the model has 4 blocks"),
        ({"pp": 1, "virtual_stages": 2}, "expected more than one stage to interleave"),
        ({"pp": 2, "virtual_stages": 2, "micro_batches": 3}, "interleaved stages expect a multiple of --pp 2"),
        ({"ep": 2}, "--ep 2: expected a divisor of 1"),
        ({"tp": 1, "sequence_parallel": True}, "--pin sequence_parallel=yes and --tp 1: expected a divisor of"),
        ({"dp": 8, "micro_batches": 5}, "expected a multiple of 40, 8 replicas with 5 micro-batches each"),
    ],
)
def test_pins_that_contradict_each_other_are_refused(pins: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        searched(cluster(), global_batches=(48,), pins=Pins(**pins))  # type: ignore[arg-type]


@pytest.mark.long
def test_plans_that_fit_come_first_then_the_fastest() -> None:
    free = searched(cluster(4), blocks=2, global_batches=(16,), compare=True, prune=False)
    half = float(np.median([plan.memory for plan in free.ranking]))
    found = searched(cluster(4, memory=half), blocks=2, global_batches=(16,), compare=True)
    assert {plan.fits for plan in found.ranking} == {True, False}
    assert [order(plan)[:2] for plan in found.ranking] == sorted(order(plan)[:2] for plan in found.ranking)
    assert found.winner.fits and found.winner.memory <= half
    best = min((plan for plan in free.ranking if plan.memory <= half), key=lambda plan: plan.step_time)
    assert found.winner.step_time == best.step_time
    assert all(plan.fits for plan in found.front)


@pytest.mark.slow
def test_a_plan_that_does_not_fit_never_wins_on_four_titans() -> None:
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    on = load_cluster("inceptionn-4", set={"accelerator.memory": "7GB"})
    request = SearchRequest(global_batches=(4,), strategies=STRATEGIES, algorithms=("ring",))
    found = search(load_workload("gpt2-355m", batch=32), on, request)
    assert found.winner.fits and any(plan.fits is False for plan in found.ranking)


@pytest.mark.slow
def test_a_sharded_llama_fits_five_hundred_accelerators() -> None:
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    on = load_cluster("h100-512-two-tier")
    request = SearchRequest(strategies=STRATEGIES, algorithms=("ring-two-way",))
    found = search(load_workload("llama2-7b", batch=32), on, request)
    assert found.winner.fits and found.winner.memory <= 80e9 and found.global_batches == (512 * 32,)
    assert any(plan.memory > 80e9 and plan.fits is False for plan in found.ranking)


def test_without_a_batch_all_plans_share_the_largest_that_fits() -> None:
    published = default_batch(transformer(2), 8)
    assert published is not None and published.samples % 8 == 0
    assert searched(cluster()).global_batches == (published.samples,)
    # Data parallelism alone cannot split a batch further: memory decides how many samples a rank can hold.
    pins = Pins(micro_batches=1, recomputation="none", tp=1, pp=1, sharding="fsdp")
    held = [searched(cluster(2), global_batches=(batch,), pins=pins).winner.memory for batch in (8, 16)]
    found = searched(cluster(2, memory=(held[0] + held[1]) / 2), pins=pins)
    assert found.global_batches == (8,) and found.winner.fits
    with pytest.raises(UnsupportedError, match=r"no plan fits: accelerator .* expected more memory, more ranks"):
        searched(cluster(2, memory=held[0] / 100), pins=pins)


@pytest.mark.slow
def test_the_largest_batches_are_those_that_fit() -> None:
    pins = Pins(micro_batches=1, recomputation="none")
    on = cluster(memory=searched(cluster(), global_batches=(64,), pins=pins).winner.memory * 1.1)
    found = searched(on, largest_batches=True, pins=pins, prune=False)
    rates = [plan.samples_per_second for plan in found.ranking]
    assert rates == sorted(rates, reverse=True)
    assert len({plan.global_batch for plan in found.ranking}) > 1
    for plan in found.ranking:
        assert plan.fits and isinstance(plan.choice, Strategy)
        twice = searched(on, global_batches=(2 * plan.global_batch,), pins=pins_of(plan.choice), must_fit=False)
        assert twice.winner.fits is False


def test_data_parallelism_is_compared_at_the_largest_batch_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other strategies fit larger batches, at which it does not."""
    pins = Pins(micro_batches=1, recomputation="none", tp=1, pp=1)
    ranking = searched(cluster(2), global_batches=(16,), pins=pins, prune=False).ranking
    on = cluster(2, memory=max(plan.memory for plan in ranking))
    simulated: list[Plan] = []
    advances: list[Sequence[str]] = []

    def backwards(rows: ClusterRows, batches: Sequence[int], _: object = None) -> tuple[list[Plan], list[RefusedPlan]]:
        """In whatever order they are simulated."""
        plans, refused = compared_plans(rows, batches, lambda: advances.append(rows.request.algorithms))
        simulated.extend(plans)
        return plans[::-1], refused

    monkeypatch.setattr("lightloom.planning.search.search.compared_plans", backwards)
    found = searched(on, largest_batches=True, compare=True, algorithms=("ring", "recursive-doubling"))
    assert max(plan.global_batch for plan in found.ranking) > 16
    compared = [plan for plan in found.ranking if plan.strategy in ("ddp", "fsdp")]
    assert compared and all(plan.fits for plan in compared)
    alone = [plan for plan in compared if any(plan is each for each in simulated)]
    assert {plan.algorithm for plan in alone} == {"ring", "recursive-doubling"} == set(advances[0])
    assert advances.count(advances[0]) == 2
    for plan in alone:
        same = [each for each in simulated if (each.strategy, each.algorithm) == (plan.strategy, plan.algorithm)]
        assert plan.global_batch == max(each.global_batch for each in same if each.fits)


@given(st.lists(st.integers(1, 9), max_size=9), st.integers(0, 10))
@example([5] * COMPARED, 0)
@example([5] * (COMPARED - 1), 0)
def test_a_kind_that_cannot_win_is_known_once_no_bound_is_below_its_best(times: list[int], bound: int) -> None:
    kind: Any = SimpleNamespace(kind=0, per_sample=float(bound))
    others: Any = SimpleNamespace(kind=1)
    found: Any = [(SimpleNamespace(sample_time=0.0), others)] * COMPARED
    found += [(SimpleNamespace(sample_time=float(time)), kind) for time in times]
    request = SearchRequest(compare=True)
    state: Any = SimpleNamespace(_found=found, _refined=0, _request=request)
    enough = len(times) >= COMPARED
    assert _Search._known_best(state, kind) == (bool(times) and (enough or bound >= sorted(times)[0]))


def test_plans_that_do_not_fit_are_ranked_on_demand() -> None:
    with pytest.raises(UnsupportedError, match="no plan fits"):
        searched(cluster(memory=1e5), global_batches=(8,))
    assert searched(cluster(memory=1e5), global_batches=(8,), must_fit=False).winner.fits is False


def test_each_exchange_takes_its_cheapest_algorithm() -> None:
    on = cluster()
    prices = GroupPrices(on.fabric, on.training)
    names = [each for each in registry.algorithms().values() if not each.by_size]
    for kind, nbytes in (("all-reduce", 1e3), ("all-reduce", 1e9), ("all-gather", 1e6), ("all-to-all", 1e8)):
        served = [each for each in names if each.refusal(kind, on.fabric) is None]
        times = {each.name: prices.price(each.name, 8, 0)(kind, nbytes).cost.repeated_time for each in served}  # type: ignore[arg-type]
        chosen = prices.price(AUTO, 8, 0)(kind, nbytes).algorithm  # type: ignore[arg-type]
        assert times[chosen] == min(times.values()) == prices.price(AUTO, 8, 0)(kind, nbytes).cost.repeated_time  # type: ignore[arg-type]
        bound = PriceLines(prices, (AUTO,), hidden_setup=False)
        one = np.ones(1, np.int64)
        least = bound(kind, 0 * one, 8 * one, one, 0 * one, np.array([[nbytes]]))[0, 0]  # type: ignore[arg-type]
        assert 0 < least <= times[chosen] * (1 + 1e-9)


def test_a_faulty_algorithm_is_one_refused_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(collective: Any, fabric: Any, *, striped: bool) -> Any:
        schedule = find("ring").build(collective, fabric, striped=striped)
        return replace(schedule, step=np.zeros_like(schedule.step))

    wrong = Algorithm(name="wrong", build=build, summary="sends everything at once")
    known = {"ring": find("ring"), "wrong": wrong}
    for module in (group_prices, search_module, rows, library_prices):
        monkeypatch.setattr(module, "algorithms", lambda: known, raising=False)
        monkeypatch.setattr(module, "find", known.__getitem__, raising=False)
    found = searched(cluster(), global_batches=(64,), compare=True)
    refused = {(row.strategy, row.algorithm): row.why for row in found.refused}
    assert set(refused) == {("ddp", "wrong"), ("fsdp", "wrong")}
    assert all("step 0" in why for why in refused.values())
    assert {name for plan in found.ranking for name in plan.algorithms} == {"ring"}


@pytest.mark.parametrize("traced", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_megatrons_plan_of_gpt3_is_priced(traced: bool) -> None:
    """Narayanan et al., SC 2021: 1,024 A100, 1,536 sequences, tp 8, pp 16, one sequence a micro-batch."""
    sizes = TransformerSizes(hidden=12288, layers=96, heads=96, ffn=49152, vocabulary=51200, sequence_length=2048)
    if traced:
        pytest.importorskip("torch", reason="needs lightloom[torch]")
    degrees = {"dp": 8, "tp": 8, "pp": 16, "micro_batches": 192, "virtual_stages": 1}
    pins = Pins(**degrees, recomputation="full", sharding="ddp", sequence_parallel=False)
    request = SearchRequest(global_batches=(1536,), pins=pins, algorithms=("ring",))
    found = search(
        load_workload("gpt3-175b", batch=32) if traced else transformer_graph(sizes, 32),
        load_cluster("a100-1024-two-tier", set={"training.attention": "unfused"}),
        request,
    )
    (plan,) = found.ranking
    assert isinstance(plan, Plan) and plan.fits and plan.global_batch == 1536
    assert 0.25 < found.utilization(plan) < found.utilization(plan, hardware=True) < 0.5
    assert found.utilization(plan, hardware=True) == pytest.approx(4 / 3 * found.utilization(plan), rel=0.01)


def test_a_micro_batch_that_does_not_divide_leaves_a_smaller_last_one() -> None:
    """Ten samples a replica in micro-batches of four: 4, 4 and 2."""
    graph, on = transformer(4, 256), cluster(2)
    pins = Pins(dp=2, tp=1, pp=1, recomputation="none", sharding="none")
    request = SearchRequest(global_batches=(20,), strategies=("tensor-pipeline",), algorithms=("ring-two-way",))
    uneven = search(graph, on, replace(request, pins=replace(pins, micro_batch=4))).winner
    assert isinstance(uneven.choice, Strategy)
    assert (uneven.choice.micro_batches, uneven.choice.samples, uneven.choice.last_samples) == (3, 4, 2)
    assert "3 micro-batches of 4" in uneven.label and uneven.bound <= uneven.step_time
    assert isinstance(uneven.step, StrategyStep) and uneven.step.stages is not None
    last = uneven.step.stages.last
    assert last is not None and (last.forward <= uneven.step.stages.times.forward).all()
    assert uneven.timeline.step_time == pytest.approx(uneven.step_time, rel=1e-12)
    even = search(graph, on, replace(request, pins=replace(pins, micro_batch=5))).winner
    assert even.choice == search(graph, on, replace(request, pins=replace(pins, micro_batches=2))).winner.choice
    with pytest.raises(ConfigError, match=r"--pin micro_batch=4 and --pin micro_batches=2: expected one of them"):
        search(graph, on, replace(request, pins=replace(pins, micro_batch=4, micro_batches=2)))
    with pytest.raises(ConfigError, match=r"--pin micro_batch=11: expected at most a replica's batch, 10"):
        search(graph, on, replace(request, pins=replace(pins, micro_batch=11)))
