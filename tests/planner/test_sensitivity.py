"""The smallest latency of a hop at which another plan wins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lightloom.clusters.load import cluster_from
from lightloom.fabrics.load import load_fabric
from lightloom.planner.search.request import SearchRequest
from lightloom.planner.search.search import search
from lightloom.planner.search.sensitivity import latency_sensitivity
from lightloom.workloads.graph import ComputeGraph
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
    sensitivity = latency_sensitivity(ranked)
    assert sensitivity.latency is not None and sensitivity.winner is not None
    assert sensitivity.winner.algorithm == "recursive-doubling"
    again = search(graph, replace(cluster, fabric=cluster.fabric.with_hop_latency(sensitivity.latency)), REQUEST)
    assert again.winner.algorithm == "recursive-doubling"
    assert "the winner changes at" in str(sensitivity)
    assert latency_sensitivity(ranked, (1e-12,)).latency is None


def test_latencies_inside_a_domain_of_several_tiers_stay() -> None:
    tiers = load_fabric("dgx-h100", 16)
    assert tiers.neighbour_latency() == pytest.approx(50e-9)
    slower = tiers.with_hop_latency(5e-6)
    assert slower.neighbour_latency() == pytest.approx(50e-9)
    assert slower.diameter_latency() == pytest.approx(10e-6 + 50e-9)
    switches = load_fabric("two-tier-400g", 16, {"hop_latency": 0})
    assert switches.with_hop_latency(5e-6).diameter_latency() == pytest.approx(switches.diameter_latency() + 20e-6)
