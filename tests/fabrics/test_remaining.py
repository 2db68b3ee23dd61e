"""What failures leave of grids, graphs and switches."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import OF_SIZE, Collective
from lightloom.collectives.registry import evaluate, find
from lightloom.core.errors import ConfigError, InputError, UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.failures import Failure, damaged, links_between_ranks
from lightloom.machines.fabrics.graph import Edge, Graph
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from lightloom.machines.fabrics.tiers.tier import Tier
from lightloom.machines.fabrics.tiers.tiers import Tiers
from lightloom.machines.fabrics.wdm_ring import Ring

GRIDS = (
    Mesh(ranks=12),
    Mesh(ranks=2),
    Torus(ranks=12),
    Torus(ranks=27, dims=(3, 3, 3)),
    Torus(ranks=18, dims=(3, 3, 2), hop_latency=2e-6),
    Ring(ranks=7),
    Tiers(
        ranks=16,
        tiers=(Tier(shape="full-mesh", size=4, bandwidth=4e9), Tier(shape="ring", size=4, bandwidth=1e9, latency=5e-6)),
    ),
    Graph(ranks=4, edges=tuple(Edge(a, (a + 1) % 4, 1e9 * (a + 1)) for a in range(4)), energy_per_bit=1e-12),
)


def without(fabric: Fabric, *failures: str) -> Fabric:
    return damaged(fabric, [Failure.parse(text) for text in failures])


@pytest.mark.parametrize("fabric", GRIDS, ids=lambda fabric: f"{fabric.kind_name}-{fabric.ranks}")
def test_links_are_those_of_the_fabric(fabric: Fabric) -> None:
    """Ways over them are as long, and carry as much into every rank."""
    edges = tuple(links_between_ranks(fabric))
    graph = Graph(ranks=fabric.ranks, edges=edges, one_way=True)
    source, destination = np.nonzero(~np.eye(fabric.ranks, dtype=bool))
    zero = np.zeros_like(source)
    longest = fabric.route(source, destination)
    assert graph.hops(source, destination, zero).max() == fabric.diameter()
    assert (graph.latency(source, destination, zero) <= fabric.latency(source, destination, longest) + 1e-15).all()
    assert graph.total_receive_bandwidth() == pytest.approx(fabric.total_receive_bandwidth())


@given(st.lists(st.sampled_from([1e9, 2e9, 3e9]), min_size=20, max_size=20), st.lists(st.permutations(range(5))))
@settings(max_examples=60)
def test_links_that_no_transfer_takes_alone_are_found_by_those_before_and_after(
    rates: list[float], ways: list[list[int]]
) -> None:
    """Of ranks that are all joined, with routes over some others; refused where nothing begins or ends at a rank."""
    edges = [Edge(*pair, rate, 1e-6) for pair, rate in zip(permutations(range(5), 2), rates, strict=True)]
    given = [tuple(way[: 2 + n % 4]) for n, way in enumerate(ways)]
    routes = {(way[0], way[-1]): way for way in given}
    graph = Graph(ranks=5, edges=tuple(edges), one_way=True, given_routes=tuple(routes.values()))
    taken = [routes.get(pair, pair) for pair in permutations(range(5), 2)]
    used = {pair for way in taken for pair in pairwise(way)}
    try:
        found = links_between_ranks(graph)
    except UnsupportedError:
        assert used - {way for way in taken if len(way) == 2}
    else:
        assert sorted(found) == sorted(edge for edge in edges if (edge.source, edge.target) in used)


def test_a_cut_link_and_a_dead_node_leave_what_they_should() -> None:
    torus = Torus(ranks=16)
    cut = without(torus, "link:1:0")
    assert (cut.ranks, cut.links) == (16, torus.links - 2)
    dark = without(torus, "dark-node:5")
    assert (dark.ranks, dark.links) == (15, torus.links - 8)
    passing = without(torus, "node:5")
    assert (passing.ranks, passing.links) == (15, torus.links)
    # Ranks 3 and 4 of what is left were nodes 3 and 5, to either side of the dead one in the middle.
    ends = np.array([3]), np.array([4]), np.array([0])
    assert without(Mesh(ranks=9), "node:4").hops(*ends)[0] == 2
    assert without(Mesh(ranks=9), "dark-node:4").hops(*ends)[0] == 4
    switch = without(PacketSwitch(ranks=8), "node:3")
    assert switch == PacketSwitch(ranks=7)
    assert without(CircuitSwitch(ranks=8, degree=3), "plane:1", "node:2") == CircuitSwitch(ranks=7, degree=2)
    assert without(torus) is torus
    assert without(torus, "node:5", "dark-node:5") == dark


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([*GRIDS, PacketSwitch(ranks=6), CircuitSwitch(ranks=6, degree=3)]),
    st.lists(
        st.one_of(
            st.builds("{}:{}".format, st.sampled_from(["node", "dark-node", "plane"]), st.integers(0, 8)),
            st.builds("link:{}:{}".format, st.integers(0, 8), st.integers(0, 8)),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(OF_SIZE),
)
def test_what_is_left_is_served_or_refused_in_a_line(fabric: Fabric, failures: list[str], kind: str) -> None:
    try:
        left = without(fabric, *failures)
        done = evaluate(find("synthesized"), Collective(kind, left.ranks, 1e6), left)  # type: ignore[arg-type]
    except InputError as refusal:
        assert "\n" not in str(refusal).strip()
    else:
        assert done.cost.time >= done.bound.time * (1 - 1e-9)


def test_more_damage_never_raises_a_bound_that_holds_of_less() -> None:
    """Failures take links away, so that what bounds the sound torus bounds what is left with as many ranks."""
    torus = Torus(ranks=16)
    request = Collective("all-gather", 16, 16e6)
    times = [
        evaluate(find("synthesized"), request, without(torus, *cut)).cost.time
        for cut in ([], ["link:0:1"], ["link:0:1", "link:0:4"], ["link:0:1", "link:0:4", "link:0:12"])
    ]
    sound = evaluate(find("synthesized"), request, torus).bound.time
    assert min(times) >= sound * (1 - 1e-9) and times[3] > 3.5 * times[0]


@pytest.mark.parametrize(
    ("fabric", "failures", "says"),
    [
        (Torus(ranks=16), ["link:0:7"], "link:0:7: no link joins these nodes"),
        (Torus(ranks=16), ["link:0:1", "link:5:5"], "link:5:5: no link joins these nodes"),
        (Torus(ranks=16), ["node:16"], "node:16: expected one of 16 nodes"),
        (Torus(ranks=16), ["wavelength:1"], "wavelength:1 on a torus: expected one of link:NODE:NODE"),
        (Mesh(ranks=4, rows=1), ["dark-node:1"], "no route leads from rank 0"),
        (Mesh(ranks=2), ["link:0:1"], "no link is left"),
        (CircuitSwitch(ranks=8, degree=2), ["plane:2"], "plane:2: expected one of 2 planes"),
        (CircuitSwitch(ranks=8, degree=1), ["plane:0"], "all 1 planes have failed"),
        (PacketSwitch(ranks=2), ["node:1"], "failures leave 1 of 2 ranks"),
        (Torus(ranks=8, dims=(2, 2, 2)), ["node:1"], "several links from rank 2 to rank 0"),
        (Ring(ranks=2), ["link:0:1"], "several links from rank"),
        (
            Tiers(
                ranks=16,
                tiers=(Tier(shape="torus", size=4, bandwidth=1e9), Tier(shape="switch", size=4, bandwidth=1e9)),
            ),
            ["node:1"],
            "joins no two ranks",
        ),
    ],
)
def test_what_is_not_there_or_not_modelled_is_refused(fabric: Fabric, failures: list[str], says: str) -> None:
    with pytest.raises((ConfigError, UnsupportedError), match=says):
        without(fabric, *failures)


def test_failures_are_written_as_they_are_read() -> None:
    for text in (
        "link:3:4",
        "plane:2",
        "transceiver:9:2:clockwise",
        "transceiver:9:2",
        "transceiver:0:0:counter-clockwise",
        "segment:17:clockwise",
        "segment:17:counter-clockwise",
        "cable:17",
        "wavelength:3",
        "dark-node:5",
        "node:5",
    ):
        assert Failure.parse(text).text() == text
    for text in (
        "link:3",
        "plane",
        "link:3:4:5",
        "plane:1:2",
        "link:a:b",
        "segment:17",
        "cable:17:clockwise",
        "node:5:clockwise",
        "link:3:4:clockwise",
        "transceiver:9",
        "transceiver:9:clockwise",
        "segment:17:sideways",
        "flood:3",
        "",
    ):
        with pytest.raises(ConfigError, match="expected one of"):
            Failure.parse(text)
