"""Graphs keep the contract, and every list of tiers is one: same hops, latencies, loads and prices."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import OF_SIZE, Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import build, find
from lightloom.core.errors import ConfigError
from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics.conformance import check_fabric
from lightloom.machines.fabrics.derived import links_of
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.graph import Edge, Graph
from lightloom.machines.fabrics.load import fabric_from, load_fabric
from lightloom.machines.fabrics.tiers.tier import Tier
from lightloom.machines.fabrics.tiers.tiers import Tiers
from tests.collectives.strategies import graphs, tier_fabrics
from tests.fabrics.tiers_as_graph import to_graph
from tests.fabrics.topologies import dragonfly, hypercube

RING = tuple(Edge(rank, (rank + 1) % 6, 1e9, 1e-6) for rank in range(6))


@pytest.mark.parametrize(
    "fabric",
    [
        Graph(ranks=6, edges=RING),
        Graph(ranks=8, edges=hypercube(3, 5e9, 1e-7)),
        Graph(ranks=12, edges=dragonfly(3, 2, 2, 5e9), hop_latency=1e-7),
        Graph(ranks=6, edges=RING, given_routes=((0, 5, 4, 3), (3, 4, 5, 0)), packet_payload=900, packet_header=100),
        Graph(ranks=3, edges=(Edge(0, "a", 1e9), Edge(1, "a", 2e9), Edge("a", "b", 1e9), Edge(2, "b", 1e9))),
    ],
    ids=("ring", "hypercube", "dragonfly", "given", "tree"),
)
def test_graphs_keep_the_contract(fabric: Graph) -> None:
    check_fabric(fabric)


@given(graphs(largest=12))
@settings(max_examples=25, deadline=None)
def test_any_graph_keeps_the_contract(fabric: Graph) -> None:
    check_fabric(fabric)


def _all_pairs(ranks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    source, destination = np.indices((ranks, ranks)).reshape(2, -1)
    different = source != destination
    return source[different], destination[different], np.zeros(different.sum(), np.int64)


def _slowest(fabric: Fabric, ends: tuple[np.ndarray, np.ndarray, np.ndarray]) -> float:
    """Seconds of the busiest link when all these transfers carry a byte each."""
    _, link = links_of(fabric.footprint(*ends))
    return float((np.bincount(link, minlength=fabric.links) / fabric.link_bandwidth()).max())


_NODE = Tier(shape="switch", size=2, bandwidth=8e9)
_BLOCK = Tier(shape="torus", dims=(2, 2, 2), bandwidth=1e9)
_CIRCUITS = Tier(shape="circuit-switch", dims=(1, 1, 2), twisted=True, bandwidth=1e9)
_TWISTED = (
    Tiers(ranks=8, tiers=(Tier(shape="torus", dims=(4, 2), twisted=True, bandwidth=1e9),), hop_latency=1e-6),
    Tiers(ranks=18, tiers=(Tier(shape="torus", dims=(3, 6), twisted=True, bandwidth=1e9),), hop_latency=1e-6),
    Tiers(ranks=16, tiers=(_BLOCK, _CIRCUITS)),
    Tiers(
        ranks=16,
        tiers=(_NODE, Tier(shape="torus", dims=(2, 4), twisted=True, bandwidth=1e9, ports=2)),
        hop_latency=1e-6,
    ),
)


@given(tier_fabrics(largest=16) | st.sampled_from(_TWISTED), st.data())
@example(_TWISTED[2], None)
@settings(max_examples=25, deadline=None)
def test_tiers_are_a_graph(tiers: Tiers, data: st.DataObject | None) -> None:
    graph, ends = to_graph(tiers), _all_pairs(tiers.ranks)
    shared = any(level.sharing > 1 for level in tiers.levels)
    assert graph.latency(*ends) == pytest.approx(tiers.latency(*ends), rel=1e-9, abs=0)
    if not shared:
        assert (graph.hops(*ends) == tiers.hops(*ends)).all()
        assert graph.diameter() == tiers.diameter()
    ranks = np.arange(tiers.ranks)
    for stride in range(1, tiers.ranks):
        pattern = ranks, (ranks + stride) % tiers.ranks, 0 * ranks
        assert _slowest(graph, pattern) == pytest.approx(_slowest(tiers, pattern), rel=1e-9)
    assert _slowest(graph, ends) == pytest.approx(_slowest(tiers, ends), rel=1e-9)
    assert graph.diameter_latency() == pytest.approx(derived.diameter_latency(tiers), rel=1e-9, abs=0)
    if data is None:
        return
    kind = data.draw(st.sampled_from(OF_SIZE))
    algorithm = find(data.draw(st.sampled_from(["ring", "one-stage", "recursive-doubling", "binomial-tree"])))
    if algorithm.refusal(kind, tiers) is None:
        schedule = build(algorithm, Collective(kind, tiers.ranks, 1e6), tiers)
        assert cost(schedule, graph).time == pytest.approx(cost(schedule, tiers).time, rel=1e-9)


@given(tier_fabrics(largest=16) | st.sampled_from(_TWISTED))
@settings(max_examples=25, deadline=None)
def test_routes_of_tiers_are_shortest(tiers: Tiers) -> None:
    """A graph that chooses its own routes needs as many links, unless a slower tier would be a short cut."""
    if any(level.sharing > 1 for level in tiers.levels):
        return
    graph, ends = to_graph(tiers), _all_pairs(tiers.ranks)
    free = graph.model_copy(update={"given_routes": ()})
    free = Graph.model_validate(free.model_dump())
    assert (free.hops(*ends) <= tiers.hops(*ends)).all()
    if len(tiers.levels) == 1:
        assert (free.hops(*ends) == tiers.hops(*ends)).all()


def test_equal_ways_are_taken_in_turn() -> None:
    """Two leaves of four ranks and four spines: each rank of the other leaf is reached over a spine of its own."""
    edges = [Edge(rank, f"leaf {rank // 4}", 1e9) for rank in range(8)]
    edges += [Edge(f"leaf {leaf}", f"spine {spine}", 1e9) for leaf in range(2) for spine in range(4)]
    tree = Graph(ranks=8, edges=tuple(edges))
    assert tree.pair(4)[0] == pytest.approx(1e9)
    assert [(cut.ranks, cut.capacity) for cut in tree.cuts()] == [(1, 1e9), (4, 4e9), (4, 4e9)]


@given(st.integers(1, 5))
def test_a_hypercube_joins_numbers_that_differ_in_one_bit(dimensions: int) -> None:
    edges = hypercube(dimensions, 5e9, 1e-7)
    joined = {(edge.source, edge.target) for edge in edges}
    assert len(joined) == len(edges) and all(edge[2:] == (5e9, 1e-7) for edge in edges)
    ranks = range(1 << dimensions)
    assert joined == {(a, b) for a in ranks for b in ranks if a < b and (a ^ b).bit_count() == 1}


@given(st.integers(2, 5), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_a_dragonfly_joins_all_routers_of_a_group_and_all_groups(
    groups: int, routers: int, ranks: int, links: int
) -> None:
    """Routers take turns with the links between groups, so that each has as many as another, or one less."""
    edges = dragonfly(groups, routers, ranks, 5e9, links, 1e-7)
    assert all(edge[2:] == (5e9, 1e-7) for edge in edges)
    attached = {edge.source: edge.target for edge in edges if isinstance(edge.source, int)}
    assert attached == {
        rank: f"router {rank // ranks // routers}.{rank // ranks % routers}" for rank in range(groups * routers * ranks)
    }
    between = [(edge.source, str(edge.target)) for edge in edges if isinstance(edge.source, str)]
    inside, outside, ends = Counter[str](), Counter[tuple[str, str]](), Counter[str]()
    for one, other in between:
        here, there = (name.split()[1].split(".")[0] for name in (one, other))
        if here == there:
            inside[here] += 1
            assert one != other and between.count((one, other)) + between.count((other, one)) == 1
        else:
            outside[here, there] += 1
            ends.update([one, other])
    assert set(inside.values()) <= {routers * (routers - 1) // 2} and len(inside) == (groups if routers > 1 else 0)
    assert set(outside.values()) == {links} and len(outside) == groups * (groups - 1) // 2
    for group in range(groups):
        load = [ends[f"router {group}.{router}"] for router in range(routers)]
        assert sum(load) == links * (groups - 1) and max(load) - min(load) <= 1


def test_csv_and_yaml_hold_the_same_graph(tmp_path: Path) -> None:
    rows = ["source,target,bandwidth,latency", *(f"{rank},hub,400Gbps,{'1us' if rank else ''}" for rank in range(4))]
    (tmp_path / "star.csv").write_text("\n".join(rows))
    (tmp_path / "star.yaml").write_text("kind: graph\nedges: star.csv\nhop_latency: 2us\n")
    plain = load_fabric(str(tmp_path / "star.csv"), 4, set={"hop_latency": "2us"})
    assert isinstance(plain, Graph)
    assert plain == load_fabric(str(tmp_path / "star.yaml"), 4)
    assert plain.edges[1] == Edge(1, "hub", 50e9, 1e-6)
    assert plain.latency(*(np.array([end]) for end in (0, 1, 0))) == pytest.approx([3e-6])


def test_links_are_numbered_where_several_join_two_vertices() -> None:
    graph = Graph(ranks=2, edges=(Edge(0, "a", 1e9), Edge(0, 1, 1e9), Edge("a", 1, 1e9), Edge(0, 1, 2e9)))
    one_way = ["link 0→a", "link 0→1 number 1", "link a→1", "link 0→1 number 2"]
    back = ["link a→0", "link 1→0 number 1", "link 1→a", "link 1→0 number 2"]
    assert [graph.link_name(link) for link in range(graph.links)] == one_way + back


_EDGES = [[0, "a", "1GB/s"], [1, "a", "1GB/s"]]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"edges": _EDGES}, "no route leads from rank 0 to rank 2 and back"),
        ({"edges": [*_EDGES, [2, "a", "1GB/s"]], "one_way": True}, "no route leads from rank 0 to rank 1"),
        ({"edges": [*_EDGES, [7, "a", "1GB/s"]]}, "edge 7→a: expected ranks from 0 to 2"),
        ({"edges": [*_EDGES, [2, 2, "1GB/s"]]}, "edge 2→2 joins a vertex to itself"),
        ({"edges": [*_EDGES, [2, "a", "0"]]}, "edges.2.2.: 0.0"),
        ({"edges": [*_EDGES, [2, "a"]]}, "edges.2"),
        ({"edges": []}, "at least 1 item"),
        ({"edges": "nowhere.csv"}, "cannot read 'nowhere.csv': No such file"),
        (
            {"edges": [*_EDGES, [2, "a", 1e9]], "given_routes": [[0, 1]]},
            "route 0→1: no link joins two of its neighbours",
        ),
        (
            {"edges": [*_EDGES, [2, "a", 1e9]], "given_routes": [[0, "a", 2, 1]]},
            "route 0→a→2→1: no link joins two of its neighbours",
        ),
        *(
            (
                {"edges": [*_EDGES, [2, "a", 1e9]], "given_routes": [[0, "a", 1], route]},
                "expected a way from one rank to another",
            )
            for route in ([0, "a"], ["a", 0], [0], [0, "a", 0])
        ),
        (
            {"edges": [*_EDGES, [2, "a", 1e9]], "given_routes": [[0, "a", 1, "a", 0, "a", 2]]},
            "route 0→a→1→a→0→a→2 takes a link twice: expected each once",
        ),
    ],
)
def test_graphs_that_cannot_be_are_named_in_one_line(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as error:
        fabric_from({"kind": "graph", **fields}, 3, where="mine.yaml")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1: '': expected the columns source,target,bandwidth,latency"),
        ("source,target,rate\n0,1,1", "line 1"),
        ("source,target,bandwidth,bandwidth\n0,1,1,1", "line 1"),
        ("source,target,bandwidth,colour\n0,1,1,red", "line 1"),
        ("source,target,bandwidth\n0,1,1GB/s\n1,,1GB/s", "line 3: no target"),
        ("\nsource,target,rate\n0,1,1", "line 2: 'source,target,rate'"),
        ("\nsource,target,bandwidth\n\n0,1,1GB/s\n \n1,,1GB/s", "line 6: no target"),
    ],
)
def test_a_malformed_edge_list_names_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "net.csv").write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        load_fabric(str(tmp_path / "net.csv"), 2)


@pytest.mark.parametrize("attached", [512, pytest.param(4096, marks=pytest.mark.slow)])
def test_many_ranks_are_routed(attached: int) -> None:
    leaf = Tier(shape="switch", size=32, bandwidth=50e9, latency=1e-6)
    tree = Tiers(ranks=attached, tiers=(leaf, Tier(shape="switch", through_switch=True, bandwidth=50e9, latency=1e-6)))
    graph = to_graph(tree)
    ranks = np.arange(attached)
    ends = ranks, (ranks + 32) % attached, 0 * ranks
    assert graph.latency(*ends) == pytest.approx(tree.latency(*ends))
    assert graph.pair(32)[0] == pytest.approx(tree.pair(32)[0])
