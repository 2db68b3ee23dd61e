"""Groups on fabrics of their own, joined place by place: groups, refusals, and times derived by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lightloom as ll
from lightloom.app.api.planning import ExchangeChoice
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.results import Document
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.graph import Edge, Graph
from lightloom.machines.fabrics.joined import JoinedFabric
from lightloom.machines.fabrics.load import fabric_from
from lightloom.models.graph import ComputeGraph
from lightloom.planning.gradients import PricedExchange
from lightloom.planning.pricing.group_prices import GroupPrices

SIZES = {"inside": 4, "between": 4}
PARTS: dict[str, Document] = {
    "ring": {"kind": "ring", "bandwidth": 2e9},
    "wdm-ring": {"kind": "wdm-ring", "wavelengths": 4, "wavelength_bandwidth": 0.5e9, "reconfiguration_time": 0},
    "mesh": {"kind": "mesh", "bandwidth": 1e9},
    "torus": {"kind": "torus", "bandwidth": 1e9},
    "switch": {"kind": "switch", "bandwidth": 4e9},
    "circuit-switch": {"kind": "circuit-switch", "degree": 2, "bandwidth": 2e9, "reconfiguration_time": 0},
    "tiers": {"kind": "tiers", "tiers": [{"shape": "switch", "bandwidth": 4e9}]},
    "optical-averager": {"kind": "optical-averager", "bandwidth": 4e9},
}


def part(kind: str, ranks: int, **fields: object) -> Fabric:
    return fabric_from({**PARTS[kind], **fields}, ranks, where="test")


def joined(inside: str, between: str, ranks: tuple[int, int] = (4, 4)) -> JoinedFabric:
    whole = ranks[0] * ranks[1]
    return JoinedFabric(ranks=whole, inside=part(inside, ranks[0]), between=part(between, ranks[1]))


def priced(fabric: JoinedFabric, method: str, nbytes: float, *algorithms: str) -> float:
    """Seconds of an all-reduce of gradients in bfloat16 summed in float32, circuits in place and coding left out."""
    graph = ll.trace("hdc", batch=1)
    training = TrainingSettings()
    exchanges = [each.on(ll.load_cluster("dgx-a100-64").accelerator) for each in exchange(method, graph)]
    cost = GroupPrices(fabric, training, exchanges=exchanges, choices=algorithms).price("auto", fabric.ranks, 1)(
        "all-reduce", nbytes
    )
    return cost.cost.repeated_time - cost.cost.encode - cost.cost.decode


def exchange(method: str, graph: ComputeGraph) -> tuple[PricedExchange, ...]:
    return ExchangeChoice((method,), None, None, None).priced("hdc", graph)


@pytest.mark.parametrize("between", sorted(PARTS))
@pytest.mark.parametrize("inside", sorted(PARTS))
def test_every_pair_of_kinds_carries_a_sum_in_its_parts_or_says_which_cannot(inside: str, between: str) -> None:
    """The whole takes as long as its parts one after the other, each carried by a verified schedule."""
    fabric, nbytes = joined(inside, between), 64e6
    method = "two-level:node=4,between=" + ("(optical)" if between == "optical-averager" else "float32")
    exchanges = exchange(method, ll.trace("hdc", batch=1))
    prices = GroupPrices(fabric, TrainingSettings(), exchanges=exchanges)
    why = prices.refusal("all-reduce", "auto", fabric.ranks, 1)
    assert prices.refusal("all-reduce", "auto", fabric.ranks, 0) is None
    if inside == "optical-averager":
        assert why is not None and "in the network" in why
        return
    assert why is None
    own, found = TrainingSettings().gradient_bytes, priced(fabric, method, nbytes)
    sums = 4 * nbytes / own
    scatter, gather = (
        ll.collective(kind, fabric.inside, nbytes=sums).winner.cost.repeated_time
        for kind in ("reduce-scatter", "all-gather")
    )
    if between != "optical-averager":
        across = ll.collective("all-reduce", fabric.between, nbytes=sums / 4).winner.cost.repeated_time
        assert found == pytest.approx(scatter + across + gather, rel=0.02)
    assert found > scatter + gather


@pytest.mark.parametrize(
    ("between", "method", "why"),
    [
        ("switch", "two-level:node=4,between=(optical)", "needs a fabric that adds up light"),
        ("optical-averager", "two-level:node=4,between=int4", "cannot add up compressed streams"),
        ("optical-averager", "two-level:node=2,between=(optical)", "needs a fabric that adds up light"),
    ],
)
def test_codes_of_light_go_where_light_is_added_up_and_no_others_do(between: str, method: str, why: str) -> None:
    """In nodes of half a group, ranks between nodes are joined by a ring and averagers."""
    prices = GroupPrices(
        joined("ring", between), TrainingSettings(), exchanges=exchange(method, ll.trace("hdc", batch=1))
    )
    assert why in str(prices.refusal("all-reduce", "auto", 16, 1))


def test_rings_of_eight_with_an_averager_take_the_time_of_a_derivation_by_hand() -> None:
    """Around each ring four of the seven shares go one way, twice; codes of two bytes and scales pass the averager."""
    fabric = JoinedFabric(
        ranks=64,
        inside=part("ring", 8, bandwidth=1e9, hop_latency=0),
        between=part("optical-averager", 8, bandwidth=4e9, hop_latency=0),
    )
    values, own = 2.0**24, TrainingSettings().gradient_bytes
    ring = 4 * (4 * values / 8) / 1e9
    codes, scales = 2 * values / 8 / 4e9, values / 8 / 256 / 4e9
    found = priced(fabric, "two-level:node=8,between=(optical)", own * values, "ring-two-way", "in-network")
    assert found == pytest.approx(2 * ring + codes + scales, rel=1e-3)


def test_racks_with_circuits_between_take_the_time_of_a_derivation_by_hand() -> None:
    """Racks behind switches of 4 GB/s; circuits of 1 GB/s each way around a ring, over which two of three shares go one
    way, twice."""
    inside, between = part("switch", 8, hop_latency=0), part("circuit-switch", 4, bandwidth=1e9, hop_latency=0)
    fabric = JoinedFabric(ranks=32, inside=inside, between=between)
    values, own = 2.0**24, TrainingSettings().gradient_bytes
    rack, circuits = 7 / 8 * 4 * values / 4e9, 2 * 2 * (4 * values / 8 / 4) / 1e9
    found = priced(fabric, "two-level:node=8,between=float32", own * values, "one-stage", "ring-two-way")
    assert found == pytest.approx(2 * rack + circuits, rel=1e-3)


def test_a_mesh_of_chips_under_rings_takes_the_time_of_a_derivation_by_hand() -> None:
    """A mesh of 2 x 2 broadcasts along both axes; each of four rings of three sends both ways."""
    inside, between = part("mesh", 4, hop_latency=0), part("ring", 3, bandwidth=1e9, hop_latency=0)
    fabric = JoinedFabric(ranks=12, inside=inside, between=between)
    values, own = 2.0**24, TrainingSettings().gradient_bytes
    mesh, rings = 3 / 4 * 4 * values / 2e9, 2 * 2 / 3 * 4 * values / 4 / 2e9
    algorithms = ("mesh-broadcast-both-axes", "ring-two-way")
    found = priced(fabric, "two-level:node=4,between=float32", own * values, *algorithms)
    assert found == pytest.approx(2 * mesh + rings, rel=1e-3)


def test_either_part_says_what_the_whole_has() -> None:
    """Latencies that are stated nowhere, and where all add what they are sent."""
    stated = Graph(ranks=2, edges=(Edge(0, 1, 1e9, 2e-6),))
    unstated = part("switch", 3)
    inside: Fabric
    between: Fabric
    for inside, between in ((stated, unstated), (unstated, stated)):
        fabric = JoinedFabric(ranks=6, inside=inside, between=between)
        assert fabric.takes_hop_latency and fabric.latency_unstated
        sourced = unstated.model_copy(update={"sources": {"hop_latency": "a data sheet"}})
        parts = [sourced if each is unstated else each for each in (inside, between)]
        told = JoinedFabric(ranks=6, inside=parts[0], between=parts[1])
        assert told.takes_hop_latency and not told.latency_unstated
        slower = fabric.with_hop_latency(5e-6)
        assert [each.hop_latency for each in slower.parts] == [5e-6, 5e-6]
    both = JoinedFabric(ranks=4, inside=stated, between=stated)
    assert not both.takes_hop_latency and not both.latency_unstated
    averager = part("optical-averager", 3)
    for inside, between, only in ((averager, averager, True), (averager, unstated, False), (unstated, averager, False)):
        assert JoinedFabric(ranks=9, inside=inside, between=between).only_adds == only


def test_latencies_are_the_least_of_neighbours_and_the_most_of_what_is_far() -> None:
    near, far = part("ring", 4, hop_latency=1e-6), part("ring", 6, hop_latency=3e-6)
    for inside, between in ((near, far), (far, near)):
        fabric = JoinedFabric(ranks=24, inside=inside, between=between)
        assert fabric.neighbour_latency() == pytest.approx(1e-6) and fabric.diameter_latency() == pytest.approx(9e-6)
        for to_root in (True, False):
            assert fabric.root_latency(to_root=to_root) == pytest.approx(9e-6)
        assert fabric.node_ranks == inside.ranks
        for stride in range(1, 24):
            expected = inside.pair(stride) if stride < inside.ranks else (0.0, 1e-6)
            assert fabric.pair(stride) == pytest.approx(expected)


def test_a_rank_has_what_it_receives_inside_and_between_together() -> None:
    """Each rank by its place inside and its group."""
    one_way = Graph(ranks=3, edges=(Edge(0, 1, 1e9), Edge(1, 2, 2e9), Edge(2, 0, 4e9)), one_way=True)
    star = part("switch", 2, bandwidth=8e9)
    receive, send = JoinedFabric(ranks=6, inside=one_way, between=star).rank_bandwidths()
    assert receive.tolist() == [12e9, 9e9, 10e9] * 2 and send.tolist() == [9e9, 10e9, 12e9] * 2
    receive, send = JoinedFabric(ranks=6, inside=star, between=one_way).rank_bandwidths()
    assert receive.tolist() == [12e9, 12e9, 9e9, 9e9, 10e9, 10e9]
    assert send.tolist() == [9e9, 9e9, 10e9, 10e9, 12e9, 12e9]


def test_cuts_are_those_of_a_rank_and_of_all_copies_of_the_parts() -> None:
    inside, between = part("mesh", 4, bandwidth=1e9), part("switch", 3, bandwidth=5e9)
    fabric = JoinedFabric(ranks=12, inside=inside, between=between)
    alone, *rest = fabric.cuts()
    assert (alone.ranks, alone.capacity) == (1, 7e9)
    assert [(cut.name, cut.ranks, cut.capacity, cut.sets) for cut in rest] == [
        (f"{cut.name} in {of}", n * cut.ranks, n * cut.capacity, cut.sets)
        for part, n, of in ((inside, 3, "all groups"), (between, 4, "all places"))
        for cut in part.cuts()
    ]
    rates = [*inside.link_bandwidth()] * 3 + [*between.link_bandwidth()] * 4
    assert fabric.link_bandwidth().tolist() == rates
    last, first = fabric.link_name(3 * inside.links - 1), fabric.link_name(3 * inside.links)
    assert last == f"group 2: {inside.link_name(inside.links - 1)}"
    assert first == f"place 0: {between.link_name(0)}"
    second = fabric.link_name(3 * inside.links + between.links)
    assert second == f"place 1: {between.link_name(0)}"
    with pytest.raises(UnsupportedError, match="carries what its groups and the fabrics between them carry"):
        fabric.footprint(*3 * [np.zeros(1, np.int64)])


def test_groups_across_parts_are_the_parts_that_they_have_of_both() -> None:
    """Six places inside, four groups: those that tile both; circuits only where their ranks are neighbours."""
    fabric = JoinedFabric(ranks=24, inside=part("switch", 6), between=part("switch", 4))
    for ranks, stride, within, across in ((12, 1, 6, 2), (6, 2, 3, 2), (12, 2, 3, 4), (4, 3, 2, 2)):
        group = fabric.group(ranks, stride)
        assert isinstance(group, JoinedFabric) and group.ranks == ranks
        assert [each.ranks for each in group.parts] == [within, across]
    for ranks, stride in ((8, 1), (9, 2), (5, 1), (4, 2), (2, 4), (4, 4), (24, 2)):
        assert fabric.group(ranks, stride) is (fabric if ranks == 24 else None)
    assert fabric.group(2, 6) == fabric.between.group(2) and fabric.group(2, 12) == fabric.between.group(2, 2)
    circuits = JoinedFabric(ranks=16, inside=part("wdm-ring", 4), between=part("wdm-ring", 4))
    assert circuits.group(2, 2) is None and circuits.group(2, 8) is None
    assert circuits.group(2) == circuits.inside.group(2) and circuits.group(2, 4) == circuits.between.group(2)
    adding = JoinedFabric(ranks=16, inside=part("switch", 4), between=part("optical-averager", 4))
    assert adding.group(8) is None and adding.group(2, 4) is None and adding.group(4, 4) is adding.between


def test_groups_are_those_inside_and_the_counterparts_alone() -> None:
    fabric = joined("ring", "optical-averager", (4, 3))
    assert fabric.group(12) is fabric and fabric.group(4) is fabric.inside and fabric.group(3, 4) is fabric.between
    assert fabric.group(2) == fabric.inside.group(2) and fabric.group(2, 2) == fabric.inside.group(2, 2)
    assert fabric.group(3, 2) is None and fabric.group(2, 4) is None
    half = fabric.group(6, 2)
    assert half is not None and half.parts == (fabric.inside.group(2, 2), fabric.between)
    assert fabric.links == 3 * fabric.inside.links + 4 * fabric.between.links == len(fabric.link_bandwidth())
    names = [fabric.link_name(link) for link in range(fabric.links)]
    assert len(set(names)) == len(names) and names[0].startswith("group 0") and names[-1].startswith("place 3")
    assert fabric.total_receive_bandwidth() == pytest.approx(sum(fabric.cuts()[0].capacity for _ in range(12)))
    assert fabric.bill().ranks == 12
    levels = "reduce-scatter among 4, all-reduce among 3, all-gather among 4 ranks"
    with pytest.raises(UnsupportedError, match=f"no algorithm serves all-reduce on a joined as a whole.*{levels}"):
        ll.collective("all-reduce", fabric, nbytes="1MB")
    with pytest.raises(ConfigError, match="3 groups of 4 ranks are no 13 ranks"):
        ll.load_fabric(fabric, ranks=13)


def test_a_file_describes_it_and_plans_sum_over_both_parts(tmp_path: Path) -> None:
    file = tmp_path / "rings.yaml"
    file.write_text(
        "ranks: 16\naccelerator: a100\nfabric:\n  kind: joined\n"
        "  inside: {kind: wdm-ring, ranks: 4, wavelengths: 4, wavelength_bandwidth: 25Gbps}\n"
        "  between: {kind: optical-averager, ranks: 4, bandwidth: 100Gbps}\n"
    )
    found = ll.plan("hdc", file, global_batch=400, exchange="two-level:node=4,between=(optical)")
    assert found.winner.verified and {plan.choice.pp for plan in found if plan.runnable} == {1}  # type: ignore[union-attr]
    saved = ll.load_cluster(file)
    assert fabric_from(saved.fabric.model_dump(mode="json"), None, where="again") == saved.fabric
