"""Routes through graphs by trying all ways, leaves link by link, sizes of grids, and tiers as a library sees them."""

from __future__ import annotations

from math import isqrt, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.machines.fabrics.failures import Failure, without
from lightloom.machines.fabrics.graph import Edge, Graph, LinkNetwork
from lightloom.machines.fabrics.lattice import most_square
from lightloom.machines.fabrics.tiers.tier import Tier
from lightloom.machines.fabrics.tiers.tiers import Tiers
from lightloom.machines.reducers.built import BuiltAverager
from tests.collectives.strategies import graphs, tier_fabrics


def fewest_then_quickest(network: LinkNetwork) -> dict[tuple[int, int], tuple[int, float]]:
    """Links of a shortest way between two vertices, and seconds of the quickest of these, by relaxing every link."""
    best = {(vertex, vertex): (0, 0.0) for vertex in range(len(network.names))}
    links = list(zip(network.tail.tolist(), network.head.tolist(), network.latency.tolist(), strict=True))
    for _ in range(len(network.names)):
        for tail, head, seconds in links:
            for to in range(len(network.names)):
                if (head, to) in best:
                    hops, left = best[head, to]
                    best[tail, to] = min(best.get((tail, to), (10**9, 0.0)), (hops + 1, left + seconds))
    return best


@given(graphs(largest=7), st.booleans())
@settings(max_examples=25, deadline=None)
def test_routes_have_the_fewest_links_and_take_turns_among_the_quickest(graph: Graph, one_way: bool) -> None:
    """At every vertex, data for rank d takes the (d mod n)-th of the n links on which a best way begins."""
    if one_way:
        back = [edge._replace(source=edge.target, target=edge.source, latency=2e-7) for edge in graph.edges]
        graph = Graph(ranks=graph.ranks, edges=(*graph.edges, *back), one_way=True, hop_latency=graph.hop_latency)
    network, best = graph._network, fewest_then_quickest(graph._network)
    source, destination = np.nonzero(~np.eye(graph.ranks, dtype=bool))
    route = np.zeros(len(source), np.int64)
    expected = [best[pair] for pair in zip(source.tolist(), destination.tolist(), strict=True)]
    assert graph.hops(source, destination, route).tolist() == [hops for hops, _ in expected]
    assert graph.latency(source, destination, route) == pytest.approx([seconds for _, seconds in expected], abs=1e-18)
    assert graph.diameter() == max(hops for hops, _ in expected)
    paths = network.paths(source, destination).tolist()
    for path, start, end in zip(paths, source.tolist(), destination.tolist(), strict=True):
        place = start
        for link in (link for link in path if link >= 0):
            hops, seconds = best[place, end]
            turns = [
                number
                for number in np.flatnonzero(network.tail == place).tolist()
                if best[int(network.head[number]), end][0] == hops - 1
                and best[int(network.head[number]), end][1] + network.latency[number] <= seconds * (1 + 1e-12)
            ]
            assert link == turns[end % len(turns)]
            place = int(network.head[link])
        assert place == end


def test_no_link_is_taken_where_there_is_no_way() -> None:
    """At the rank itself, and from a switch that nothing leaves."""
    ring = [Edge(rank, (rank + 1) % 3, 1e9) for rank in range(3)]
    routes = Graph(ranks=3, edges=(*ring, Edge(0, "sink", 1e9)), one_way=True)._network.routes
    assert (routes.link < 0).tolist() == [*np.eye(3, dtype=bool).tolist(), [True] * 3]
    assert routes.distance[:3].tolist() == [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
    none = np.zeros(0, np.int64)
    assert (routes.walk(none, none, none) < 0).all()


@given(graphs(largest=8))
@settings(max_examples=25, deadline=None)
def test_a_leaf_and_the_ranks_that_only_it_reaches_are_entered_over_links_from_elsewhere(graph: Graph) -> None:
    edges = [(edge.source, edge.target, edge.bandwidth) for edge in graph.edges]
    edges += [(target, source, bandwidth) for source, target, bandwidth in edges]
    expected = []
    for leaf in sorted({source for source, _, _ in edges if isinstance(source, str)}):
        alone = [r for r in range(graph.ranks) if {source for source, target, _ in edges if target == r} == {leaf}]
        entering = sum(rate for a, b, rate in edges if b in (*alone, leaf) and a not in (*alone, leaf))
        expected += [(leaf, len(alone), entering)] if alone else []
    assert sorted(graph._network.leaves()) == expected
    cuts = [(cut.name, cut.ranks, cut.capacity) for cut in graph.cuts()[1:]]
    assert sorted(cuts) == [
        (f"the links into {leaf} and its {inside} ranks", inside, rate)
        for leaf, inside, rate in expected
        if 1 < inside < graph.ranks
    ]


@given(st.integers(1, 5000), st.integers(1, 4))
def test_sizes_of_a_grid_are_as_equal_as_divisors_allow(ranks: int, dimensions: int) -> None:
    dims = most_square(ranks, dimensions)
    assert len(dims) == dimensions and prod(dims) == ranks
    left = ranks
    for place, size in enumerate(dims[:-1]):
        fitting = [n for n in range(1, isqrt(left) + 1) if left % n == 0 and n ** (dimensions - place) <= left]
        assert size == max(fitting)
        left //= size


@given(tier_fabrics(largest=32))
@settings(max_examples=40, deadline=None)
def test_a_library_sees_what_pairs_of_ranks_get_over_the_slowest_tier(fabric: Tiers) -> None:
    tiers = fabric.library_tiers()
    assert (tiers is None) == any(tier.shape != "switch" for tier in fabric.tiers)
    if tiers is None:
        return
    first, *others = fabric.levels
    inside = fabric.of_tiers(first.size, fabric.tiers[:1]).pair(1)[0]
    # Ranks on leaves of a fat tree are nodes of their own: all of their links are the network.
    leaves = len(fabric.tiers) > 1 and fabric.tiers[1].through_switch
    assert tiers.domain == (1 if leaves else first.size) and tiers.bandwidth == pytest.approx(inside)
    slowest = min([fabric.pair(level.child)[0] for level in others], default=np.inf)
    assert min(tiers.network, tiers.bandwidth) == pytest.approx(min(slowest, tiers.bandwidth))


def test_what_is_left_of_tiers_with_packets_sends_as_fast_and_spends_as_much() -> None:
    """Rates of its links are those of data, and a bit of data costs the bits of its header too."""
    ring = Tier(shape="ring", size=6, bandwidth=1e9, latency=1e-6)
    whole = Tiers(ranks=6, tiers=(ring,), packet_payload=900, packet_header=100, energy_per_bit=9e-12)
    left = without(whole, [Failure.parse("link:0:1")])
    assert set(left.link_bandwidth()) == set(whole.link_bandwidth()) == {0.9e9}
    assert left.wire_bytes(1.0) == 1 and left.energy_per_bit == pytest.approx(9e-12 * whole.wire_bytes(1.0))
    assert without(Graph(ranks=3, edges=(Edge(0, 1, 1e9), Edge(1, 2, 1e9), Edge(2, 0, 1e9))), []).energy_per_bit is None


@pytest.mark.parametrize(("meshes", "shown"), [(0, False), (2, True), (3, True), (4, False)])
def test_watts_of_an_averager_are_shown_once_by_what_draws_them(meshes: int, shown: bool) -> None:
    watts = {"lasers": 1.0, "local oscillators": 2.0, "carriers of units": 4.0, "heaters": 8.0, "receivers": 16.0}
    fields = {"reducer": "any", "instances": 4, "meshes": meshes, "instance_bandwidth": 1e9, "lanes": 4}
    text = BuiltAverager.model_validate({**fields, "watts": watts}).text()
    assert text.startswith("any, 4 instances of 8 Gb/s a rank" + f" on {meshes} meshes" * shown)
    assert text.endswith("; lasers 7 W, heaters 8 W, electronics 16 W")
    without_heat = BuiltAverager.model_validate({**fields, "watts": {"lasers": 3.0}, "low": 1.0, "needs": ("light",)})
    assert without_heat.text().endswith("; lasers 3 W (1 W to no limit in 90 % of draws); needs light")
    much = without_heat.model_copy(update={"high": 5.0, "area": 2e-6, "unknown": ("lasers",), "needs": ()})
    assert much.text().endswith("(1 W to 5 W in 90 % of draws); 2 mm2 of meshes; not known: lasers")
