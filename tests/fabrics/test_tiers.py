"""Fabrics of tiers keep the contract, whatever their tiers, and complain in one line about those that cannot be."""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from lightloom.core.errors import ConfigError
from lightloom.core.files import say_former
from lightloom.core.units import parse
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics.conformance import check_fabric
from lightloom.machines.fabrics.grids import Torus
from lightloom.machines.fabrics.load import (
    changed,
    description,
    fabric_from,
    load_fabric,
    names,
)
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.machines.fabrics.tiers.tier import Tier
from lightloom.machines.fabrics.tiers.tiers import Tiers
from lightloom.machines.transports.transport import Scales
from tests.collectives.strategies import tier_fabrics, two_tiers


@given(tier_fabrics(largest=18))
@settings(max_examples=25, deadline=None)
def test_tiers_keep_the_contract(fabric: Tiers) -> None:
    check_fabric(fabric)


@pytest.mark.parametrize("name", [name for name in names() if description(name)["kind"] == "tiers"])
def test_tiers_of_the_catalog_keep_the_contract(name: str) -> None:
    """Each with fewer children in its tiers, as many ports, and a latency in all of them."""
    fewer, ranks = [], 1
    for tier in description(name)["tiers"]:
        tier = dict(tier)
        if "dims" in tier:
            tier["dims"] = [2, 2, 2]
        elif "size" in tier:
            tier["size"] = 4 if ranks == 1 else 2
        ranks *= tier.get("size", 8 if "dims" in tier else 2)
        assert "latency" in tier or "hop_latency" in description(name) or tier["shape"] == "circuit-switch"
        fewer.append(tier)
    check_fabric(load_fabric(name, ranks, set={"tiers": fewer}))


def test_a_tier_fabric_of_4096_ranks_answers_at_once() -> None:
    began = process_time()
    for fabric in (load_fabric("tpu-v4", 4096), load_fabric("dgx-h100-superpod", 4096), load_fabric("dgx-a100", 4096)):
        assert fabric.cuts() and fabric.diameter_latency() > 0 and fabric.total_receive_bandwidth() > 0
        assert fabric.group(8, 1) is not None and fabric.pair(64)[0] > 0
        ranks = np.arange(4096)
        assert (
            fabric.footprint(ranks, ranks[::-1], 0 * ranks).length.sum()
            == fabric.hops(ranks, ranks[::-1], 0 * ranks).sum()
        )
    assert process_time() - began < 1


def _all_pairs(ranks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    source, destination = np.indices((ranks, ranks)).reshape(2, -1)
    different = source != destination
    return source[different], destination[different], np.zeros(different.sum(), np.int64)


def test_a_single_tier_is_the_fabric_of_its_shape() -> None:
    pairs = [
        (Tier(shape="switch", bandwidth=5e9, latency=1e-6), PacketSwitch(ranks=12, bandwidth=5e9, hop_latency=1e-6)),
        (
            Tier(shape="torus", dims=(2, 3, 2), bandwidth=5e9, latency=1e-6),
            Torus(ranks=12, dims=(2, 3, 2), bandwidth=5e9, hop_latency=1e-6),
        ),
    ]
    for tier, simple in pairs:
        tiers = Tiers(ranks=12, tiers=(tier,))
        ends = _all_pairs(12)
        assert [part.tolist() for part in tiers.footprint(*ends)] == [part.tolist() for part in simple.footprint(*ends)]
        assert (tiers.link_bandwidth() == simple.link_bandwidth()).all()
        assert tiers.latency(*ends) == pytest.approx(simple.latency(*ends))
        assert [(cut.ranks, cut.capacity) for cut in tiers.cuts()] == [
            (cut.ranks, cut.capacity) for cut in simple.cuts()
        ]


def test_ports_are_spread_over_the_ranks_of_a_child() -> None:
    """Four ranks with 2 ports, two with 8: half a port a rank, and four."""
    node = Tier(shape="switch", size=4, bandwidth=100e9)
    shared = Tiers(ranks=8, tiers=(node, Tier(shape="switch", ports=2, bandwidth=10e9)))
    assert shared.pair(4)[0] == pytest.approx(5e9)
    many = Tiers(ranks=8, tiers=(node, Tier(shape="switch", ports=16, bandwidth=10e9)))
    assert many.pair(4)[0] == pytest.approx(40e9)


def test_data_for_another_rail_crosses_the_domain_first() -> None:
    domain = Tier(name="NVLink", shape="switch", size=4, bandwidth=100e9, latency=1e-7)
    rails = Tiers(
        ranks=8, tiers=(domain, Tier(name="rail", shape="switch", bandwidth=10e9, latency=1e-6, separate_rails=True))
    )
    ends = np.array([0, 0]), np.array([4, 5]), np.zeros(2, np.int64)
    assert rails.hops(*ends).tolist() == [2, 4]
    assert rails.latency(*ends) == pytest.approx([2e-6, 2.2e-6])
    links = rails.footprint(np.array([0]), np.array([5]), np.array([0]))
    names = [rails.link_name(int(base + start)) for base, start in zip(links.base[0], links.start[0], strict=True)]
    assert names == [
        "rail uplink of rank 1",
        "rail downlink of rank 5",
        "NVLink uplink of rank 0",
        "NVLink downlink of rank 1",
    ]


def test_a_leaf_and_spine_tree_divides_its_uplinks() -> None:
    leaf = Tier(shape="switch", size=8, bandwidth=50e9, latency=1e-6)
    spine = Tier(shape="switch", through_switch=True, bandwidth=50e9, taper=2.0, latency=1e-6)
    tree = Tiers(ranks=32, tiers=(leaf, spine))
    ends = np.array([0, 0]), np.array([7, 8]), np.zeros(2, np.int64)
    assert tree.hops(*ends).tolist() == [2, 4]
    assert tree.pair(8)[0] == pytest.approx(25e9)
    assert ("the links into one group of 8 ranks", 200e9) in [(cut.name, cut.capacity) for cut in tree.cuts()]


def test_wire_efficiency_and_packets_take_their_part_of_every_tier() -> None:
    tier = Tier(shape="switch", bandwidth=50e9, wire_efficiency=0.8)
    assert Tiers(ranks=4, tiers=(tier,)).pair(1)[0] == pytest.approx(40e9)
    packets = Tiers(ranks=4, tiers=(tier,), packet_payload=900, packet_header=100)
    assert packets.pair(1)[0] == pytest.approx(36e9)


def test_axes_are_strides_with_the_ports_of_their_tiers() -> None:
    fabric = two_tiers(ranks=64, domain_size=8)
    assert [(axis.stride, axis.size, axis.ports) for axis in fabric.axes] == [(1, 8, 1), (8, 8, 8)]
    cube = Torus(ranks=24, dims=(2, 3, 4))
    assert [(axis.stride, axis.size) for axis in cube.axes] == [(1, 4), (4, 3), (12, 2)]


def test_circuits_join_blocks_of_a_torus() -> None:
    """16 blocks of 4x4x4 chips are the torus of 8x8x16 that TPU v4 has for 1,024 chips."""
    block = Tier(shape="torus", dims=(4, 4, 4), bandwidth=45e9, latency=1e-6)
    circuits = Tier(shape="circuit-switch", dimensions=3, bandwidth=45e9, reconfiguration_time=1.2e-3)
    pod = Tiers(ranks=1024, tiers=(block, circuits))
    simple = Torus(ranks=1024, dims=(8, 8, 16), bandwidth=45e9, hop_latency=1e-6)
    assert (pod.axes, pod.diameter(), pod.total_receive_bandwidth()) == (simple.axes, 16, 1024 * 6 * 45e9)
    ends = np.arange(1024), (np.arange(1024) * 37 + 1) % 1024, np.zeros(1024, np.int64)
    assert [part.tolist() for part in pod.footprint(*ends)] == [part.tolist() for part in simple.footprint(*ends)]


_BLOCK = {"shape": "torus", "dims": [2, 2], "bandwidth": "50GB/s"}
_SWITCH = {"shape": "switch", "bandwidth": "50GB/s"}


@pytest.mark.parametrize(
    ("tiers", "complaint"),
    [
        ([], "at least 1 item"),
        ([{"shape": "star", "bandwidth": "1GB/s"}], "'switch', 'ring'"),
        ([{"shape": "switch"}], "tiers.0.bandwidth"),
        ([{**_BLOCK, "dims": [5]}, _SWITCH], "tiers of 5 ranks do not divide ranks=16"),
        ([{**_SWITCH, "size": 8}], "tiers of 8 join 8 ranks, not ranks=16"),
        ([_SWITCH, _SWITCH], "tier 1 has no size"),
        ([{**_SWITCH, "size": 4}, {**_SWITCH, "ports": 3}], "3 ports for 4 ranks"),
        ([{**_SWITCH, "through_switch": True}], "expected a tier of shape switch there"),
        (
            [{**_SWITCH, "shape": "ring", "size": 4}, {**_SWITCH, "through_switch": True}],
            "expected a tier of shape switch",
        ),
        ([{**_SWITCH, "dims": [4, 4]}], "expected size of a switch"),
        ([{**_SWITCH, "shape": "ring", "dims": [4, 4]}], "expected shape torus"),
        ([{**_SWITCH, "shape": "torus", "dims": [4, 4], "size": 16}], "dims and size contradict"),
        ([{**_SWITCH, "shape": "ring", "in_network_reduction": True}], "in_network_reduction is of switches"),
        ([{**_SWITCH, "separate_rails": True, "taper": 2}], "expected none where rails are separate"),
        ([{**_SWITCH, "wire_efficiency": 1.5}], "less than or equal to 1"),
        ([{**_SWITCH, "most": 8}], "joins 16 children of 1 ranks: expected at most 8"),
        ([{**_SWITCH, "reconfiguration_time": "1ms"}], "is of circuit switches"),
        (
            [_BLOCK, {**_BLOCK, "shape": "circuit-switch", "bandwidth": 1e9}],
            "expected bandwidth and ports of its links",
        ),
        ([_BLOCK, {**_BLOCK, "shape": "circuit-switch", "latency": 1.0}], "no latency but that of its links"),
        ([{**_SWITCH, "size": 4, "name": "rail"}, {**_SWITCH, "name": "rail"}], "tiers 1 and 2 are both named 'rail'"),
        *(
            ([{**_SWITCH, "shape": shape, "twisted": True}], f"a {shape} cannot be twisted")
            for shape in ("switch", "ring", "mesh", "full-mesh")
        ),
        ([{**_BLOCK, "dims": [4, 4], "dimensions": 2}], "dims and dimensions contradict"),
        ([{**_SWITCH, "dimensions": 2}], "dimensions are of tori"),
        ([{**_SWITCH, "shape": "full-mesh", "dims": [4, 4]}], "dims are of tori"),
        ([{**_SWITCH, "shape": "ring", "dimensions": 2}], "a ring has one dimension"),
        ([{**_SWITCH, "size": 16, "most": 15}], "16 children are more than most=15"),
        ([{**_SWITCH, "shape": "mesh", "taper": 1}], "taper is of switches"),
        ([{**_SWITCH, "shape": "full-mesh", "separate_rails": True}], "separate_rails is of switches"),
        (
            [{**_BLOCK, "dims": [2, 4], "twisted": True}, {**_BLOCK, "shape": "circuit-switch", "dims": [1, 2]}],
            "joins blocks that are twisted",
        ),
        ([{**_BLOCK, "dims": [4, 4], "twisted": True}], "a torus of 4x4 cannot be twisted"),
        ([_BLOCK, {**_BLOCK, "shape": "circuit-switch", "ports": 2}], "expected bandwidth and ports of its links"),
    ],
)
def test_tiers_that_cannot_be_are_named_in_one_line(tiers: list[dict[str, Any]], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as error:
        fabric_from({"kind": "tiers", "tiers": tiers}, 16, where="mine.yaml")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("ranks", "joined"), [(1, False), (64, True)])
def test_a_grid_of_one_rank_joins_nothing(ranks: int, joined: bool) -> None:
    assert load_fabric("tpu-v4", ranks).joins_ranks is joined


@pytest.mark.parametrize("size", [4, 5, 9])
@pytest.mark.parametrize("rails", [False, True])
@pytest.mark.parametrize("sharing", [None, 2])
def test_ports_of_many_children_are_those_of_their_links(size: int, rails: bool, sharing: int | None) -> None:
    """Three children of an outermost switch say who uses the links of all."""
    tiers = [
        {"shape": "switch", "size": 4, "bandwidth": 100e9},
        {"shape": "switch", "size": 2, "bandwidth": 50e9, "ports": sharing, "separate_rails": rails},
        {"shape": "switch", "bandwidth": 25e9, "through_switch": True, "ports": 2},
    ]
    fabric = Tiers.model_validate({"ranks": 8 * size, "tiers": tiers})
    for source, destination in derived.pairs(fabric.ranks):
        own, expected = fabric.ports(source, destination), derived.ports(fabric, source, destination)
        assert (own is None) == (expected is None)
        if own is not None and expected is not None:
            for name in ("port", "entry", "rate"):
                assert np.array_equal(getattr(own, name), getattr(expected, name)), name


@pytest.mark.parametrize("size", [4, 7])
@pytest.mark.parametrize("inner", ["torus", "mesh", "switch"])
def test_links_of_many_children_have_as_many_users_as_three_of_them_say(inner: str, size: int) -> None:
    """Rails through which a torus or a mesh sends lead data of other children over its own links too."""
    few, many = (
        Tiers.model_validate(
            {
                "ranks": 3 * children,
                "tiers": [
                    {"shape": inner, "size": 3, "bandwidth": 8e9},
                    {"shape": "switch", "size": children, "bandwidth": 1e9, "separate_rails": True},
                ],
            }
        )
        for children in (3, size)
    )
    expected, found = derived._users(many), derived._users_among(few, size)
    for name in ("senders", "receivers"):
        assert set(getattr(found, name).tolist()) == set(getattr(expected, name).tolist()), name


def _switch(**fields: Any) -> Tier:
    return Tier(shape="switch", bandwidth=1e9, **fields)


@pytest.mark.parametrize(
    ("ranks", "tiers", "ends", "expected"),
    [
        (
            8,
            [_switch(size=4), _switch(taper=2.0)],
            (1, 6),
            ["uplink of rank 1", "tree uplink of domain 0", "tree downlink of domain 1", "downlink of rank 6"],
        ),
        (
            16,
            [_switch(size=4), _switch(size=2), _switch(taper=2.0)],
            (1, 14),
            ["uplink of rank 1", "tree uplink of group of 8 0", "tree downlink of group of 8 1", "downlink of rank 14"],
        ),
        (8, [_switch(size=4), _switch(ports=2)], (3, 6), ["uplink of ranks 2 and on", "downlink of ranks 6 and on"]),
        (
            8,
            [_switch(size=4), _switch(through_switch=True, ports=2)],
            (3, 6),
            ["uplink of rank 3", "uplink of switch 0", "downlink of switch 1", "downlink of rank 6"],
        ),
        (
            8,
            [_switch(size=2), _switch(size=2, separate_rails=True), _switch(through_switch=True, ports=2)],
            (1, 6),
            [
                "uplink of rank 1",
                "uplink of switch 1 of group 0",
                "downlink of switch 0 of group 1",
                "downlink of rank 6",
            ],
        ),
        *(
            (
                12,
                [_switch(size=2), Tier.model_validate({"shape": shape, "size": 3, "bandwidth": 1e9}), _switch()],
                (first, last),
                [f"{way} link {first // 2 % 3}→{last // 2 % 3} of rail {first % 2} in group {first // 6}"],
            )
            for shape, first, last, way in (
                ("full-mesh", 7, 11, "direct"),
                ("full-mesh", 10, 8, "direct"),
                ("full-mesh", 2, 4, "direct"),
                ("ring", 7, 11, "backward"),
                ("ring", 2, 4, "forward"),
            )
        ),
        (3, [Tier(shape="full-mesh", size=3, bandwidth=1e9)], (2, 1), ["direct link 2→1"]),
    ],
)
def test_links_of_tiers_are_named_after_what_they_join(
    ranks: int, tiers: list[Tier], ends: tuple[int, int], expected: list[str]
) -> None:
    for name in ("", "pods"):
        named = tiers[min(1, len(tiers) - 1)]
        given = tuple(tier.model_copy(update={"name": name * (tier is named)}) for tier in tiers)
        fabric = Tiers(ranks=ranks, tiers=given)
        path = fabric.path(np.array([ends[0]]), np.array([ends[1]]), np.array([0]))[0]
        links = path[path >= 0].tolist()
        level = {link: each for each in fabric.levels for link in range(each.base, each.base + each.links)}
        labels = [level[link].tier.name or f"tier {level[link].number}" for link in links]
        assert [fabric.link_name(link) for link in links] == list(map("{} {}".format, labels, expected))


@pytest.mark.parametrize("inner", [0.5e-6, 1e-6, 2e-6, 2.5e-6, 4e-6])
@pytest.mark.parametrize("through", [False, True])
def test_ranks_of_a_slow_domain_hear_of_each_other_over_a_quick_outer_tier(inner: float, through: bool) -> None:
    """Which two transfers cross."""
    tiers = (_switch(size=4, latency=inner), _switch(latency=1e-6, through_switch=through))
    fabric = Tiers(ranks=8, tiers=tiers)
    assert fabric.diameter_latency() == pytest.approx(derived.diameter_latency(fabric))
    assert fabric.neighbour_latency() == pytest.approx(derived.neighbour_latency(fabric))
    assert fabric.diameter() == derived.diameter(fabric)


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (["mesh"], "what a corner rank can receive"),
        (["torus"], "what one rank can receive"),
        (["switch"], "what one rank's ports can receive"),
        (["mesh", "switch"], "what one rank's ports can receive"),
        (["switch", "torus"], "what one rank's ports can receive"),
    ],
)
def test_what_enters_a_rank_is_named_after_its_links(shapes: list[str], expected: str) -> None:
    tiers = [{"shape": shape, "size": 4, "bandwidth": 1e9} for shape in shapes]
    fabric = Tiers.model_validate({"ranks": 4 ** len(shapes), "tiers": tiers})
    assert fabric.cuts()[0].name == expected
    assert fabric.joins_ranks == (shapes[0] != "switch")


def test_a_grid_joins_ranks_although_nothing_lies_beyond() -> None:
    tiers = (Tier(shape="ring", size=4, bandwidth=1e9), _switch(size=1))
    assert Tiers(ranks=4, tiers=tiers).joins_ranks


FORMER = """
kind: two-tier-switch
domain_size: 4
domain_bandwidth: 300GB/s
domain_wire_efficiency: 0.8
domain_latency: 25ns
bandwidth: 200Gbps
wire_efficiency: 0.97
oversubscription: 2
hop_latency: 500ns
sources: {domain_size: a data sheet, hop_latency: a guess}
"""
"""A file of 0.2, when two tiers of switches were a kind of their own."""


def test_files_of_the_former_kind_are_two_tiers_and_say_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Alone, in a cluster, with fields of either spelling set on top, and with what they leave out."""
    path, cluster = tmp_path / "mine.yaml", tmp_path / "cluster.yaml"
    path.write_text(FORMER)
    cluster.write_text(
        "ranks: 8\naccelerator: a100\nfabric: {base: mine.yaml, oversubscription: 4, transport: ideal}\n"
    )
    say_former.cache_clear()
    fabric = load_fabric(str(path), 8)
    (record,) = caplog.records
    assert record.getMessage() == (
        "warning: of a fabric, kind two-tier-switch is tiers now; the former spelling works in this release"
    )
    domain, network = fabric.tiers if isinstance(fabric, Tiers) else ()
    latency = parse("25ns", "time")
    stated = two_tiers(8, domain_size=4, domain_bandwidth=3e11, domain_latency=latency, bandwidth=25e9, taper=2)
    assert domain == stated.tiers[0].model_copy(update={"wire_efficiency": 0.8})
    assert network == stated.tiers[1].model_copy(update={"wire_efficiency": 0.97})
    assert fabric.sources == {"tiers.domain.size": "a data sheet", "hop_latency": "a guess"}
    four = {"tiers.network.taper": 4}
    assert (
        load_fabric(str(path), 8, set={"oversubscription": 4})
        == load_fabric(str(path), 8, set=four)
        == changed(fabric, four)
    )
    carried = load_cluster(cluster).fabric
    assert carried.sources["tiers.network.taper"] == f"set by {cluster}"
    assert carried == load_cluster(cluster, set={"fabric.tiers.domain.size": 4}).fabric.model_copy(
        update={"sources": carried.sources}
    )
    assert fabric_from({"kind": "two-tier-switch"}, 16, where="mine") == two_tiers(16)
    with pytest.raises(ConfigError, match="oversubscription"):
        load_fabric("dgx-h100", 16, set={"oversubscription": 4})
    assert len(caplog.records) == 2


def test_another_latency_of_a_hop_is_that_of_all_tiers_but_an_inner_one() -> None:
    inner, outer = (Tier(shape="switch", size=2, bandwidth=1e9, latency=seconds) for seconds in (1e-6, 2e-6))
    one, two = Tiers(ranks=2, tiers=(inner,)), Tiers(ranks=4, tiers=(inner, outer))
    assert not one.takes_hop_latency and not two.takes_hop_latency
    slower = two.with_hop_latency(9e-6)
    assert [tier.latency for tier in slower.tiers] == [1e-6, None] and slower.hop_latency == 9e-6
    assert one.with_hop_latency(9e-6).tiers[0].latency is None and slower.takes_hop_latency
    assert set(slower.link_latency().tolist()) == {1e-6, 9e-6}


def test_a_library_finds_domains_and_networks_at_rates_of_their_own() -> None:
    """A second tier behind the first one's switches makes every rank a domain of its own, on the network."""
    scales = Scales(bandwidth=0.5, network_bandwidth=0.25)
    inner, outer = (Tier(shape="switch", size=2, bandwidth=rate) for rate in (8e9, 4e9))
    behind = Tier(shape="switch", size=2, bandwidth=4e9, through_switch=True)
    for tiers, rates in (((inner, outer), [4e9, 1e9]), ((inner, behind), [2e9, 1e9]), ((inner,), [4e9])):
        found = Tiers(ranks=2 ** len(tiers), tiers=tiers).carried_rates(scales)["tiers"]
        assert [tier.bandwidth for tier in found] == rates  # type: ignore[attr-defined]
