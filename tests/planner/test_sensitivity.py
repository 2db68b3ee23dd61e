"""The smallest latency of a hop at which another plan wins."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.machines.clusters.load import cluster_from, load_cluster
from lightloom.machines.fabrics.load import load_fabric
from lightloom.models.graph import ComputeGraph
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.search import search as search_module
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.search.search import LatencySensitivity, latency_sensitivity, search
from tests.planner.jobs import transformer

REQUEST = SearchRequest(strategies=["ddp"], algorithms=["ring", "recursive-doubling"])


@pytest.fixture(scope="module")
def graph() -> ComputeGraph:
    return transformer(2)


def test_the_winner_changes_where_steps_cost_more_than_bytes(graph: ComputeGraph) -> None:
    """A ring of 16 has 30 steps of a sixteenth, recursive doubling four of everything."""
    data = {"ranks": 16, "accelerator": "a100", "fabric": {"kind": "switch", "bandwidth": "400Gbps"}}
    cluster = cluster_from(data, name="mine")
    ranked = search(graph, cluster, REQUEST)
    assert ranked.winner.algorithm == "ring"
    found = latency_sensitivity(ranked)
    assert found.latency is not None and found.winner is not None
    assert found.winner.algorithm == "recursive-doubling"
    again = search(graph, replace(cluster, fabric=cluster.fabric.with_hop_latency(found.latency)), REQUEST)
    assert again.winner.algorithm == "recursive-doubling"
    assert "the winner changes at" in str(found)
    assert latency_sensitivity(ranked, (1e-12,)).latency is None


@given(st.lists(st.integers(1, 20), unique=True).map(sorted), st.integers(0, 21), st.integers(1, 22), st.booleans())
def test_the_least_latency_at_which_another_plan_wins_is_found_with_few_searches(
    latencies: list[int], own: int, limit: int, slower: bool
) -> None:
    """A plan that takes as long as the new winner has not lost; one that was not simulated has."""
    ranked: Any = SimpleNamespace(
        winner=SimpleNamespace(cluster=SimpleNamespace(fabric=SimpleNamespace(hop_latency=own)))
    )
    asked: list[float] = []

    def winner_at(_: object, seconds: float) -> Any:
        asked.append(seconds)
        lost = 1.001 if slower else None
        return f"winner at {seconds}", lost if seconds >= limit else 1 + 1e-12

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "_winner_at", winner_at)
        found = latency_sensitivity(ranked, latencies)
    tried = [seconds for seconds in latencies if seconds > own]
    changed = [seconds for seconds in tried if seconds >= limit]
    assert found.own == own and found.latency == min(changed, default=None)
    if changed:
        winner: Any = found.winner
        assert (winner, found.slower) == (f"winner at {changed[0]}", 1.001 if slower else None)
        assert asked[0] == tried[-1] and len(asked) <= 1 + len(tried).bit_length()
        assert len(set(asked)) == len(asked)
    else:
        assert found == LatencySensitivity(own, None, None, None) and asked == tried[-1:]


def test_the_first_winner_is_compared_with_itself_at_another_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the same cluster but for its reference, at the same batch."""
    on = load_cluster("terarack-64", set={"ranks": 4})

    def plan(dp: int, seconds: float, algorithm: str = "ring", strategy: str = "ddp") -> Any:
        choice = Strategy(dp, 1, 1, 1, 8, "none", "none", "auto", 0)
        given = {"choice": choice, "sample_time": seconds, "algorithm": algorithm, "strategy": strategy}
        return SimpleNamespace(**given, cluster=on, global_batch=8)

    first = plan(4, 1.0)
    ranking: list[Any] = []
    asked: list[Any] = []
    ranked: Any = SimpleNamespace(winner=first, graph="graph", request=SearchRequest(largest_batches=True))

    def search_again(*given: Any) -> Any:
        asked.append(given)
        return SimpleNamespace(winner=ranking[0], ranking=ranking)

    monkeypatch.setattr(search_module, "search", search_again)
    others = [plan(2, 2.0), plan(4, 2.5, "tree"), plan(4, 2.5, strategy="fsdp")]
    for same, slower in (([], None), ([plan(4, 3.5), plan(4, 3.0)], 1.5), ([plan(4, 2.0)], 1.0)):
        ranking[:] = [*others, *same]
        assert search_module._winner_at(ranked, 3e-6) == (others[0], slower)
    graph, cluster, request = asked[-1]
    assert graph == "graph" and cluster == replace(on, fabric=on.fabric.with_hop_latency(3e-6), reference=None)
    assert cluster.fabric.hop_latency == 3e-6 and cluster.reference is None
    assert (request.global_batches, request.largest_batches) == ([8], False)


def test_a_document_tells_what_the_latency_decides() -> None:
    names = ("own_hop_latency_s", "changes_at_hop_latency_s", "winner", "iteration_time_s", "slower")
    winner: Any = SimpleNamespace(label="dp 4", step_time=0.5)
    told = LatencySensitivity(1e-6, 2e-6, winner, 1.25).to_json()
    assert told == dict(zip(names, (1e-6, 2e-6, "dp 4", 0.5, 1.25), strict=True))
    assert LatencySensitivity(1e-6, None, None, None).to_json() == dict.fromkeys(names) | {"own_hop_latency_s": 1e-6}


def test_latencies_inside_a_domain_of_several_tiers_stay() -> None:
    tiers = load_fabric("dgx-h100", 16)
    assert tiers.neighbour_latency() == pytest.approx(50e-9)
    slower = tiers.with_hop_latency(5e-6)
    assert slower.neighbour_latency() == pytest.approx(50e-9)
    assert slower.diameter_latency() == pytest.approx(10e-6 + 50e-9)
    switches = load_fabric("two-tier-400g", 16, set={"hop_latency": 0})
    assert switches.with_hop_latency(5e-6).diameter_latency() == pytest.approx(switches.diameter_latency() + 20e-6)
