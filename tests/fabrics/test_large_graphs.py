"""What graphs of many ranks answer without looking at every pair of them: bounds, exact on trees of switches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics import graph as graph_module
from lightloom.machines.fabrics.graph import Edge, Graph
from tests.collectives.strategies import graphs

LINE = tuple(Edge(a, b, 1e9, seconds) for a, b, seconds in ((2, 0, 1e-6), (0, 1, 4e-6), (2, 3, 2e-6), (3, 4, 5e-6)))
"""Ranks 4, 3, 2, 0 and 1 in a line: the first is in the middle, and the ends are 12 µs from each other."""
TREE = (
    *(Edge(rank, "a", (rank + 1) * 1e9, 1e-6) for rank in range(3)),
    *(Edge(rank, "b", 4e9, 3e-6) for rank in (3, 4)),
    Edge("a", "b", 2e9, 7e-6),
)


@pytest.mark.parametrize("one_way", [False, True])
def test_links_of_a_rank_add_up(one_way: bool) -> None:
    edges = (Edge(0, 1, 1e9, 1e-6), Edge(1, 2, 2e9, 1e-6), Edge(2, 0, 4e9, 1e-6), Edge(0, 2, 8e9, 1e-6))
    taken = edges if one_way else edges[:3]
    into, out = Graph(ranks=3, edges=taken, one_way=one_way)._network.entering()
    ways = [(edge.source, edge.target, edge.bandwidth) for edge in taken]
    ways += [] if one_way else [(b, a, rate) for a, b, rate in ways]
    assert into.tolist() == [sum(rate for _, b, rate in ways if b == rank) for rank in range(3)]
    assert out.tolist() == [sum(rate for a, _, rate in ways if a == rank) for rank in range(3)]


@settings(max_examples=25, deadline=None)
@given(graphs(largest=10))
def test_what_is_not_counted_pair_by_pair_is_a_bound(graph: Graph) -> None:
    least, network = derived.neighbour_latency(graph), graph._network
    quickest = np.full((len(network.names), len(network.names)), np.inf)
    np.minimum.at(quickest, (network.tail, network.head), network.latency)
    np.fill_diagonal(quickest, 0.0)
    for at in range(len(network.names)):
        quickest = np.minimum(quickest, quickest[:, at, None] + quickest[at])
    most = quickest[: graph.ranks, : graph.ranks].max()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_module, "_EXACT", 0)
        into, out = graph._network.entering()
        assert graph.total_receive_bandwidth() == into.sum()
        assert graph.cuts()[0].capacity == np.maximum(into, out).min()
        assert graph.neighbour_latency() <= least * (1 + 1e-9)
        assert 0.5 * most * (1 - 1e-9) <= graph.diameter_latency() <= most * (1 + 1e-9)


@pytest.mark.parametrize(
    ("graph", "nearest", "farthest"),
    [(Graph(ranks=5, edges=LINE), 1e-6, 12e-6), (Graph(ranks=5, edges=TREE), 2e-6, 11e-6)],
    ids=("line", "tree"),
)
def test_distances_on_trees_are_exact(
    graph: Graph, nearest: float, farthest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for exact in (512, 0):
        monkeypatch.setattr(graph_module, "_EXACT", exact)
        assert graph.neighbour_latency() == pytest.approx(nearest)
        assert graph.diameter_latency() == pytest.approx(farthest)


def test_the_quickest_of_links_between_the_same_two_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_module, "_EXACT", 0)
    edges = (Edge(0, 1, 1e9, 5e-6), Edge(1, 0, 1e9, 2e-6), Edge(0, 1, 1e9, 3e-6), Edge(1, 2, 1e9, 1e-6))
    assert Graph(ranks=3, edges=edges).diameter_latency() == pytest.approx(3e-6)


def test_ranks_of_a_switch_share_what_leads_to_it() -> None:
    cuts = {cut.name: cut for cut in Graph(ranks=5, edges=TREE).cuts()}
    assert [(cut.ranks, cut.capacity) for cut in cuts.values()] == [(1, 1e9), (3, 2e9), (2, 2e9)]


def test_only_links_without_a_latency_take_that_of_a_hop() -> None:
    """Until all are given the same one."""
    stated, open_ended = Edge(0, 1, 1e9, 1e-6), Edge(1, 2, 1e9)
    assert not Graph(ranks=2, edges=(stated,)).takes_hop_latency
    mixed = Graph(ranks=3, edges=(stated, open_ended), hop_latency=3e-6)
    assert mixed.takes_hop_latency and sorted(mixed.link_latency()) == pytest.approx([1e-6, 1e-6, 3e-6, 3e-6])
    assert mixed.library is None  # what is computed once is no field of the copy
    changed = mixed.with_hop_latency(9e-6)
    assert changed.link_latency() == pytest.approx([9e-6] * 4) and changed.ranks == 3
