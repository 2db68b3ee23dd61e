"""One search over all kinds of plans: pruning loses nothing, and whatever is left out is counted and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import pytest

from lightloom.core.errors import ConfigError, UnknownNameError, UnsupportedError
from lightloom.core.units import parse
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.parallelism.plan import make_plan
from lightloom.planning.parallelism.strategy_space import KIND_OF_SHARDING
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.pricing.placed_space import PlacedChoice
from lightloom.planning.search import search as searching
from lightloom.planning.search.document import explain
from lightloom.planning.search.plans import Counts, PlanSearch, pareto_front, plan_words
from lightloom.planning.search.request import (
    KINDS,
    STRATEGIES,
    Pins,
    SearchRequest,
)
from lightloom.planning.simulation.engine import simulate_step
from tests.planner.gradients.exchanges import coded
from tests.planner.jobs import SEQUENCE, mixture, transformer

RING: dict[str, Any] = {"base": "sip-ring", "wavelengths": 16}
SWITCH: dict[str, Any] = {"base": "circuit-switch", "degree": 4}
PACKETS: dict[str, Any] = {"base": "ethernet-400g"}
SLOW: dict[str, Any] = {"base": "circuit-switch", "degree": 3, "bandwidth": "5Gbps"}
CASES = [
    *product((RING, SWITCH, PACKETS, SLOW), ((1, 4), (2, 8)), (64, 1024)),
    (RING, (2, 6), 256),
    (SWITCH, (1, 6), 256),
    (PACKETS, (3, 2), 256),
    (SLOW, (3, 4), 2048),
]
NODES: dict[str, Any] = {"base": "two-tier-400g", "tiers": {"domain": {"size": 2}}}
HALVES: dict[str, Any] = {"base": "two-tier-200g", "tiers": {"domain": {"size": 4}}}
DGX: dict[str, Any] = {"base": "dgx-h100", "transport": "nccl-hopper"}
RACK: dict[str, Any] = {"base": "gb200-nvl72", "transport": "nccl-blackwell"}
CARRIED = [
    *product((NODES, HALVES, RACK), ((1, 4), (2, 8)), (64, 1024)),
    *product((DGX,), ((1, 8), (2, 8)), (64, 1024)),
    (NODES, (1, 6), 256),
    (HALVES, (3, 4), 2048),
    (DGX, (3, 8), 256),
    (RACK, (3, 2), 256),
]
"""Twenty more, whose exchanges a collective library carries and whose computing pays for it."""
SMALLER = (RING, (1, 2), 64)
"""One more, which takes the place of the others on circuits in the default tests."""
LARGER = [case for place, case in enumerate(CASES) if place != 18]
"""All but one of the twenty."""
CHEAP = [(RACK, (3, 2), 256)]


def cluster(ranks: int, fabric: dict[str, Any], **settings: Any) -> Cluster:
    """A100s on a fabric, priced by their kernels."""
    fields = {"ranks": ranks, "fabric": fabric, "training.unit_parameters": 300_000, **settings}
    return load_cluster("terarack-64", set=fields)


def search(
    *clusters: Cluster,
    blocks: int = 2,
    hidden: int = 256,
    prices: GroupPrices | None = None,
    advance: Callable[[], None] = lambda: None,
    **options: Any,
) -> PlanSearch:
    """Of a small transformer."""
    request = {"global_batches": (8,), "algorithms": ("ring-two-way-striped",), "compare": False, **options}
    graph = transformer(blocks, hidden)
    return searching.search(graph, clusters, SearchRequest(**request), prices=prices, advance=advance)


@pytest.mark.long
@pytest.mark.parametrize(
    ("fabric", "size", "hidden"),
    [pytest.param(*case, marks=pytest.mark.slow if case in LARGER else ()) for case in (SMALLER, *CASES)],
)
def test_the_winner_is_that_of_a_search_without_pruning(
    fabric: dict[str, Any], size: tuple[int, int], hidden: int
) -> None:
    blocks, ranks = size
    on, batches = cluster(ranks, fabric), {6: (6, 24), 8: (16,)}.get(ranks, (ranks, 4 * ranks))
    everything: dict[str, Any] = {"global_batches": batches, "algorithms": (), "compare": True}
    pruned, whole = (search(on, blocks=blocks, hidden=hidden, prune=prune, **everything) for prune in (True, False))
    assert pruned.winner.choice == whole.winner.choice
    assert pruned.winner.step_time == whole.winner.step_time
    assert whole.counts.simulated >= pruned.counts.simulated
    assert all(each.bound <= each.step_time for each in whole.ranking if each is not whole.winner)
    assert {each.strategy for each in pruned.ranking} == {each.strategy for each in whole.ranking} == set(KINDS)


@pytest.mark.long
@pytest.mark.parametrize(
    "fabric",
    [
        {
            "base": "two-tier-400g",
            "tiers": {"domain": {"size": 2, "latency": "200ns"}},
            "hop_latency": "1us",
            "transport": "ideal",
        },
        pytest.param({"base": "torus", "hop_latency": "1us"}, marks=pytest.mark.slow),
    ],
)
def test_the_winner_is_that_of_a_search_without_pruning_where_ranks_lie_on_axes(fabric: dict[str, Any]) -> None:
    everything: dict[str, Any] = {"global_batches": (4,), "algorithms": (), "compare": True}
    pruned, whole = (
        search(cluster(4, fabric), blocks=1, hidden=64, prune=prune, **everything) for prune in (True, False)
    )
    assert pruned.winner.choice == whole.winner.choice
    assert pruned.winner.step_time == whole.winner.step_time
    assert all(each.bound <= each.step_time for each in whole.ranking if each is not whole.winner)
    assert any(use.algorithm == "hierarchical" for each in whole.ranking for use in each.exchanges)


@pytest.mark.long
@pytest.mark.parametrize(
    ("fabric", "size", "hidden"),
    [pytest.param(*case, marks=() if case in CHEAP else pytest.mark.slow) for case in CARRIED],
)
def test_the_winner_is_that_of_a_search_without_pruning_where_a_library_carries_exchanges(
    fabric: dict[str, Any], size: tuple[int, int], hidden: int
) -> None:
    blocks, ranks = size
    on = cluster(ranks, fabric)
    everything: dict[str, Any] = {"global_batches": (ranks, 4 * ranks), "algorithms": (), "compare": True}
    pruned, whole = (search(on, blocks=blocks, hidden=hidden, prune=prune, **everything) for prune in (True, False))
    assert pruned.winner.choice == whole.winner.choice
    assert pruned.winner.step_time == whole.winner.step_time
    assert all(each.bound <= each.step_time for each in whole.ranking if each is not whole.winner)
    assert {name for each in whole.ranking if each.strategy != "placed" for name in each.algorithms} == {"library"}
    assert on.fabric.arithmetic_share > 0


def test_there_are_twenty_cases_of_each_kind() -> None:
    assert len(CASES) == len(CARRIED) == 20


@pytest.mark.long
def test_experts_are_searched_too() -> None:
    on = cluster(4, PACKETS)
    pruned, whole = (
        searching.search(
            mixture(1),
            on,
            SearchRequest(
                global_batches=(8,),
                algorithms=("one-stage", "ring-two-way"),
                strategies=("tensor-pipeline", "placed"),
                compare=False,
                prune=prune,
            ),
        )
        for prune in (True, False)
    )
    assert pruned.winner.choice == whole.winner.choice and "placed" in {each.strategy for each in whole.ranking}
    shared = [each for each in whole.ranking if " · ep " in each.label]
    assert shared and all(each.strategy == "tensor-pipeline" for each in shared)


@pytest.mark.long
def test_groups_get_verified_schedules_or_are_refused() -> None:
    on = load_cluster("terarack-64", set={"ranks": 6, "training.unit_parameters": 300_000})
    found = search(
        on,
        blocks=1,
        global_batches=(12,),
        algorithms=("neighbour-exchange", "wrht-striped"),
        strategies=STRATEGIES,
        prune=False,
    )
    # WRHT only all-reduces, neighbour exchange needs an even group.
    for each in found.ranking:
        for use in each.exchanges:
            assert use.kind == "all-reduce" if use.algorithm == "wrht-striped" else use.ranks % 2 == 0
    assert {use.algorithm for each in found.ranking for use in each.exchanges} == {"neighbour-exchange", "wrht-striped"}
    assert found.counts.refused and found.counts.refused + found.counts.bounded == found.counts.rows


def test_one_row_of_each_kind_is_simulated_on_each_cluster() -> None:
    found = search(cluster(4, RING), cluster(8, PACKETS))
    kinds = {(each.cluster.ranks, each.strategy) for each in found.ranking}
    assert kinds == set(product((4, 8), KINDS))
    assert found.counts.simulated == len(found.ranking) < found.counts.bounded


@pytest.mark.long
def test_clusters_are_ranked_together_as_each_alone() -> None:
    ring, switch = cluster(4, RING), cluster(8, SWITCH)
    both, alone = search(ring, switch, blocks=1), [search(each, blocks=1) for each in (ring, switch)]
    assert [(not each.runnable, each.sample_time) for each in both.ranking] == sorted(
        (each.strategy == "placed", each.sample_time) for found in alone for each in found.ranking
    )
    assert both.counts == alone[0].counts + alone[1].counts == Counts() + both.counts
    assert both.winner.sample_time == min(found.winner.sample_time for found in alone)


@pytest.fixture(scope="module")
def everything() -> PlanSearch:
    """Every row of a small job, simulated."""
    return search(cluster(4, PACKETS), blocks=1, prune=False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_can_be_asked_for_alone(kind: str, everything: PlanSearch) -> None:
    found, best = search(cluster(4, PACKETS), blocks=1, strategies=(kind,)), everything.best_of(kind)
    assert {each.strategy for each in found.ranking} == {kind}
    assert found.counts.rows == len([each for each in everything.ranking if each.strategy == kind])
    assert best is not None and best.choice == found.winner.choice


def test_fabrics_without_circuits_or_switches_leave_placed_plans_out_and_say_so() -> None:
    found = search(cluster(4, {"base": "ring"}))
    assert found.best_of("placed") is None
    assert any("placed plans on ring: expected wavelengths" in x for x in found.refusals)
    with pytest.raises(UnsupportedError, match="placed plans on ring: expected wavelengths"):
        search(cluster(4, {"base": "ring"}), strategies=("placed",))
    with pytest.raises(UnsupportedError, match="plans is feasible: no strategy has groups that in-network serves"):
        search(cluster(4, {"base": "ring"}), algorithms=("in-network",))


def test_codecs_between_the_hops_are_left_out_of_placed_plans() -> None:
    codecs = coded(3.0, "nic", 3.2e9), coded(5.0, "host", 3.2e9)
    kinds = ("ddp", "fsdp", "placed")
    found = search(cluster(2, PACKETS), blocks=1, hidden=64, exchanges=codecs, prune=False, strategies=kinds)
    tried = {kind: {each.gradient_exchange for each in found.ranking if each.strategy == kind} for kind in kinds}
    assert tried["placed"] == {None, codecs[0]} and tried["ddp"] == tried["fsdp"] == {None, *codecs}
    assert "placed plans take codecs in line with the links only" in found.refusals


def test_too_little_memory_is_refused_with_what_would_do() -> None:
    on = cluster(4, SWITCH)
    small = replace(on, accelerator=on.accelerator.model_copy(update={"memory": 1e5}))
    with pytest.raises(UnsupportedError, match=r"has 97.66 KiB of memory, but the smallest \S+ needs"):
        search(small)
    # What is named is enough for some strategy, and nothing less is.
    with pytest.raises(UnsupportedError) as refused:
        search(small, strategies=STRATEGIES)
    least = parse(str(refused.value).split("needs ")[1].split(" a rank")[0], "size")
    enough, short = (
        replace(on, accelerator=on.accelerator.model_copy(update={"memory": least * by})) for by in (1.001, 0.99)
    )
    assert search(enough, strategies=STRATEGIES).counts.too_large > 0
    with pytest.raises(UnsupportedError):
        search(short, strategies=STRATEGIES)


def test_one_cluster_that_serves_is_enough() -> None:
    on = cluster(4, SWITCH)
    small = replace(on, name="small", accelerator=on.accelerator.model_copy(update={"memory": 1e5}))
    found = search(small, on)
    assert all(each.cluster is on for each in found.ranking)
    assert any("cluster small" in line for line in found.refusals)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"global_batches": ()}, ConfigError, "no global batches: expected at least one"),
        ({"global_batches": (0,)}, ConfigError, "global batch of 0: expected at least 1"),
        ({"global_batches": (7,), "strategies": ("ddp",)}, UnsupportedError, "no global batch divides evenly"),
        ({"quanta": (0.0,)}, ConfigError, "quantum of 0.0 s: expected more than 0"),
        ({"strategies": ("magic",)}, UnknownNameError, "unknown strategy .magic."),
        ({"algorithms": ("magic",)}, UnknownNameError, "magic"),
    ],
)
def test_questions_without_an_answer_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        search(cluster(4, SWITCH), **options)
    with pytest.raises(ConfigError, match="no clusters"):
        search()


def test_prices_can_be_shared_by_models_on_one_cluster() -> None:
    on = cluster(4, SWITCH)
    prices = GroupPrices(on.fabric, on.training, choices=("ring-two-way-striped",))
    for hidden in (256, 64):
        shared, own = (search(on, blocks=1, hidden=hidden, prices=given) for given in (prices, None))
        assert shared.winner.step_time == own.winner.step_time
    with pytest.raises(ConfigError, match="prices for 2 clusters: expected one"):
        search(on, on, prices=prices)


def test_progress_is_told_of_every_look() -> None:
    calls: list[None] = []
    found = search(cluster(4, SWITCH), advance=lambda: calls.append(None))
    assert len(calls) >= found.counts.simulated


def test_the_winner_that_is_placed_is_placed_with_all_effort() -> None:
    found = search(cluster(8, RING), strategies=("placed",), prune=False, quanta=(1e-7,))
    first, *others = found.ranking
    assert isinstance(first.choice, PlacedChoice) and first.placed is not None
    assert first.step_time == pytest.approx(first.timeline.step_time)
    assert all(first.sample_time <= each.sample_time for each in others)


def test_joules_are_those_of_the_parts() -> None:
    fabric = RING | {"energy_per_bit": 1e-12, "power_per_rank": 20.0}
    found = search(cluster(2, fabric), blocks=1, prune=False, pins=Pins(recomputation="none"))
    power = found.winner.cluster.accelerator.power
    assert power is not None
    for each in found.ranking:
        energy = each.energy
        assert energy.known_j == each.energy_per_sample * each.global_batch
        assert energy.compute.value == pytest.approx(power * 2 * each.step_time)
        sent, static = energy.transmission.value, each.ledger.cluster.static_power.value
        assert static is not None and energy.known_j == pytest.approx(static * 2 * each.step_time + (sent or 0.0))
        assert energy.transmission.complete and sent is not None and sent >= 0
        if each.placed is not None:
            assert sent == pytest.approx(8e-12 * each.placed.sent_bytes * each.placed.plan.groups)


def test_joules_of_data_parallelism_are_those_of_its_simulation() -> None:
    on = cluster(4, RING | {"energy_per_bit": 1e-12, "power_per_rank": 20.0})
    graph, prices = transformer(2, 256), GroupPrices(on.fabric, on.training)
    found = search(on, strategies=("ddp", "fsdp"), prune=False)
    for each in found.ranking:
        choice = each.choice
        assert not isinstance(choice, PlacedChoice)
        if choice.recomputation == "none":
            plan = make_plan(
                KIND_OF_SHARDING[choice.sharding], graph, 4, on.training.model_copy(update={"batch_per_rank": 2})
            )
            result = simulate_step(plan, on.accelerator, on.fabric, prices.price(each.algorithm, 4, 0))
            assert each.energy.transmission.value == result.sent_joules
            assert each.memory == pytest.approx(plan.memory.total)


@pytest.mark.parametrize("fabric", [RING, *(pytest.param(each, marks=pytest.mark.slow) for each in (SWITCH, PACKETS))])
def test_joules_of_groups_count_every_group(fabric: dict[str, Any]) -> None:
    """By hand: with tensor groups alone every rank is in one; an all-reduce's joules grow with its bytes."""
    on = cluster(4, fabric | {"energy_per_bit": 1e-12})
    found = search(on, strategies=("tensor-pipeline",), prune=False, pins=Pins(dp=1, tp=4, recomputation="none"))
    prices = GroupPrices(on.fabric, on.training).price("ring-two-way-striped", 4, 0)
    whole = next(each for each in found.ranking if each.label.startswith("dp 1 · tp 4 · ring"))
    # Two blocks with two all-reduces forward and two backward, of 8 samples; embedding and head one each.
    output = 8 * SEQUENCE * 256 * 2
    one = prices("all-reduce", float(output)).cost.energy
    assert one is not None and whole.energy.transmission.value == pytest.approx(one * (4 * 2 + 2), rel=0.01)


def test_joules_of_stages_count_what_every_rank_sends() -> None:
    """By hand: a send is once a lightpath from every rank of a stage, there and back for every micro-batch; gradients
    of the tied table once each way."""
    fabric = SWITCH | {"energy_per_bit": 1e-12}
    found = search(cluster(2, fabric), strategies=("tensor-pipeline",), prune=False)
    graph = transformer(2, 256).with_element_bytes(2)
    crossing = next(each for each in graph.operators if each.name == "layers.0.add2").activation_bytes / graph.batch
    stages = [each for each in found.ranking if each.label.startswith("dp 1 · pp 2")]
    assert stages
    tied = graph.operators[0].parameters * 4
    for each in stages:
        sent = 2 * crossing * each.global_batch + 2 * tied
        assert each.energy.transmission.value == pytest.approx(8e-12 * sent)


@pytest.mark.long
def test_the_front_holds_what_nothing_beats_in_both() -> None:
    found = search(cluster(2, RING), cluster(2, PACKETS), blocks=1, prune=False)
    front = found.front
    assert front[0] is found.winner
    for before, after in pairwise(front):
        assert before.sample_time < after.sample_time and before.energy_per_sample > after.energy_per_sample
    for each in found.ranking:
        assert any(
            best.sample_time <= each.sample_time and best.energy_per_sample <= each.energy_per_sample for best in front
        )
    assert pareto_front([]) == ()


def test_the_explanation_names_the_winner_the_others_and_what_was_left_out() -> None:
    found = search(cluster(4, SWITCH))
    text = explain(found)
    assert text.count(".") >= 1 and text.endswith(".") and "\n" not in text
    assert plan_words(found.winner.choice) in text and "wins" in text
    for kind in KINDS:
        best = found.best_of(kind)
        assert best is not None and plan_words(best.choice) in text
    assert f"of {found.counts.rows:,} plans" in text and f"{found.counts.simulated:,} simulated" in text


def test_labels_tell_rows_apart(everything: PlanSearch) -> None:
    labels = [each.label for each in everything.ranking]
    assert len(set(labels)) == len(labels)
