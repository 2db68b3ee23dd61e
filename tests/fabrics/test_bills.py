"""Bills of fabrics: counts by formula, what cannot be built flat, and no joule twice."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.fabrics.bills import links
from lightloom.machines.fabrics.bills.grids import Grid, _links_by_block, grid_bill
from lightloom.machines.fabrics.bills.switches import PRODUCTS
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.failures import Failure, damaged
from lightloom.machines.fabrics.load import fabric_from, load_fabric, names
from lightloom.machines.fabrics.switches import PartFabric
from lightloom.machines.parts.bill import Bill, BillChoices
from lightloom.machines.parts.part import CATALOG, load_part

CHOICES = (
    BillChoices(),
    BillChoices(host_links="copper", grid_links="copper"),
    BillChoices(wdm="devices", switches="whole", cards=True),
)


def count(bill: Bill, part: str) -> float:
    return sum(line.per_rank for line in bill.lines if line.part.name == part)


def dollars(bill: Bill) -> float:
    assert bill.dollars.value is not None
    return bill.dollars.value


@cache
def catalog_fabrics() -> list[Fabric]:
    fabrics = []
    for name in names():
        ranks = next(n for n in (64, 128, 72, 4) if _fits(name, n))
        fabrics.append(load_fabric(name, ranks))
    ring = load_fabric("terarack", 16)
    fabrics.append(damaged(ring, [Failure.model_validate("node:3"), Failure.model_validate("wavelength:7")]))
    whole = load_fabric("torus", 64)
    fabrics += [part for part in (whole.group(8, 8), PartFabric.on(whole, range(8))) if part is not None]
    stated = {"kind": "switch", "power_per_rank": "25 W", "energy_per_bit": "3 pJ/bit"}
    return [*fabrics, fabric_from(stated, 64, where="stated"), fabric_from({**stated, "kind": "ring"}, 8, where="ring")]


def _fits(name: str, ranks: int) -> bool:
    try:
        load_fabric(name, ranks)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("choices", CHOICES, ids=["default", "copper", "devices"])
def test_energy_is_static_power_times_time_and_dynamic_energy_of_every_bit(choices: BillChoices) -> None:
    for fabric in catalog_fabrics():
        bill = fabric.bill(choices)
        static, dynamic = bill.static_power.value, bill.dynamic_power.value
        idle = bill.energy(7.0, 0.0)
        assert (idle.value or 0.0) == pytest.approx(7.0 * (static or 0.0)), fabric
        assert set(idle.missing) >= set(bill.static_power.missing)
        if static is None or dynamic is None or bill.bandwidth is None:
            continue
        for load in (0.25, 1.0):
            energy = bill.energy(7.0, load * 7.0 * 8 * bill.bandwidth)
            assert energy.value == pytest.approx(7.0 * (static + load * dynamic)), fabric
            assert set(energy.missing) >= set(bill.static_power.missing)


def test_stated_power_and_energy_replace_those_of_the_parts() -> None:
    ring = fabric_from({"kind": "ring", "power_per_rank": "25 W", "energy_per_bit": "3 pJ/bit"}, 8, where="ring").bill()
    assert ring.static_power.value == 25.0
    assert ring.dynamic_energy.value == pytest.approx(3e-12)
    assert ring.dollars == load_fabric("ring", 8).bill().dollars
    # Of a switch it is the power of the network card alone: ports and transceivers draw their own.
    switch = fabric_from({"kind": "switch", "power_per_rank": "25 W"}, 64, where="switch").bill()
    assert switch.static_power.value == pytest.approx(25.0 + 7.3 + 2 * 9.0)
    assert switch.static_power.complete


def test_tpu_v4_has_the_published_fibres_and_switches() -> None:
    whole = BillChoices(circuit_switch="palomar-136", switches="whole")
    bill = load_fabric("tpu-v4", 4096).bill(whole)
    assert 4096 * count(bill, "fibre of 20 m") == 6144
    assert 4096 * count(bill, "palomar-136") == 48
    circuits = sum(line.total("static_power").value or 0 for line in bill.lines if line.part.name == "palomar-136")
    assert 100 * circuits / 170 == pytest.approx(0.744, abs=5e-4)
    torus = fabric_from({"kind": "torus", "dims": "16x16x16", "bandwidth": "45GB/s"}, 4096, where="torus")
    same = torus.bill(whole.model_copy(update={"copper_cube": 4, "reconfigurable": True}))
    assert 4096 * count(same, "fibre of 20 m") == 6144
    assert 4096 * count(same, "palomar-136") == 48
    assert count(same, "copper-cable") == count(bill, "copper-cable") == 2.25


@pytest.mark.parametrize(("ranks", "ports", "ends"), [(64, 1, 2), (65, 3, 4), (2048, 3, 4), (2049, 5, 6), (8192, 5, 6)])
def test_a_switch_beyond_its_radix_becomes_a_tree(ranks: int, ports: int, ends: int) -> None:
    bill = load_fabric("switch", ranks).bill()
    assert count(bill, "switch-port-400g") == ports
    assert count(bill, "transceiver-400g") == ends
    assert count(bill, "nic-400g") == 1
    assert bool(bill.notes) == (ports > 1)


def test_fat_trees_of_two_and_three_tiers_cost_the_sum_of_their_parts() -> None:
    parts = {1: 1499 + 3 * 1500 + 4 * 659, 2: 1499 + 5 * 1500 + 6 * 659}
    assert dollars(load_fabric("fat-tree-400g", 1024).bill()) == pytest.approx(parts[1] + 2 * 6)
    assert dollars(load_fabric("switch", 4096).bill()) == pytest.approx(parts[2] + 3 * 6)


def test_oversubscription_saves_ports_above_the_leaves() -> None:
    def bill(taper: float) -> Bill:
        return load_fabric("two-tier-400g", 1024, set={"tiers.network.taper": taper}).bill()

    assert count(bill(1), "switch-port-400g") == 3
    assert count(bill(4), "switch-port-400g") == pytest.approx(1 + 2 / 4)
    assert count(bill(4), "transceiver-400g") == pytest.approx(2 + 2 / 4)
    assert count(bill(4), "node-link") == 450


def test_rails_are_switches_of_their_own() -> None:
    # 8 rails of 8 nodes each: every rail is one switch, and 256 ports would need a tree.
    assert count(load_fabric("dgx-h100", 256).bill(), "switch-port-400g") == 1
    # Two units of 256: the 32 uplinks of each of 8 rail switches are as many as the ranks.
    assert count(load_fabric("dgx-h100-superpod", 512).bill(), "switch-port-400g") == 3
    assert count(load_fabric("aws-p5", 256).bill(), "switch-port-100g") == 4 * 3


@pytest.mark.parametrize(
    ("ranks", "product", "switches"),
    [(64, "palomar-136", 4), (70, "calient-s320", 2), (136, "palomar-136", 8), (137, "calient-s320", 4)],
)
def test_whole_switches_are_of_the_cheapest_product(ranks: int, product: str, switches: int) -> None:
    fabric = load_fabric("circuit-switch", ranks)
    bill = fabric.bill(BillChoices(switches="whole"))
    assert ranks * count(bill, product) == pytest.approx(switches)
    assert not bill.notes
    for name in PRODUCTS:
        one = fabric.bill(BillChoices(switches="whole", circuit_switch=name))
        assert one.notes or dollars(one) >= dollars(bill) * (1 - 1e-9)


@pytest.mark.parametrize("ranks", [48, 64, 70, 256, 384, 1000, 2048])
@pytest.mark.parametrize("kind", ["switch", "circuit-switch"])
def test_ports_and_whole_switches_count_by_one_rule(kind: str, ranks: int) -> None:
    """Ports in use are a whole number for each link, whole switches a whole number in all, and these cost no less."""
    fabric = load_fabric(kind, ranks)
    used, whole = (fabric.bill(BillChoices(switches=each)) for each in ("used", "whole"))
    assert dollars(whole) >= dollars(used) * (1 - 1e-9)
    links = count(used, "nic-400g")
    ports = count(used, "switch-port-400g" if kind == "switch" else "circuit-switch-port")
    assert ports / links == pytest.approx(round(ports / links))
    if kind == "switch":
        boxes = ranks * count(whole, "switch-port-400g") / 64
    else:
        boxes = sum(ranks * line.per_rank for line in whole.lines if line.part.kind == "circuit-switch")
    assert boxes == pytest.approx(round(boxes))


def test_planes_beyond_every_product_take_three_stages_and_say_so() -> None:
    bill = load_fabric("circuit-switch", 1024).bill(BillChoices(switches="whole", circuit_switch="polatis-7000"))
    # 6 leaves with 192 ports down each, 3 spines, on 8 planes.
    assert 1024 * count(bill, "polatis-7000") == 8 * 9
    assert any("1,024 ports" in note and "136, 320 and 384" in note and "three stages" in note for note in bill.notes)
    used = load_fabric("circuit-switch", 1024).bill()
    assert count(used, "circuit-switch-port") == 3 * 8
    smaller = load_fabric("circuit-switch", 1024).bill(BillChoices(switches="whole", circuit_switch="palomar-136"))
    assert 1024 * count(smaller, "palomar-136") == 8 * (16 + 8)
    assert "6 dB instead of 2" in smaller.notes[0]


def test_more_ports_than_three_stages_join_are_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    small = tmp_path_factory.mktemp("parts") / "small.yaml"
    small.write_text("kind: circuit-switch\ndescription: a small one\nradix: 16\n")
    chosen = BillChoices(circuit_switch=str(small))
    assert load_fabric("circuit-switch", 128).bill(chosen).notes
    with pytest.raises(UnsupportedError, match="three stages join 128"):
        load_fabric("circuit-switch", 129).bill(chosen)


def test_a_ring_of_wavelengths_draws_what_papers_list() -> None:
    built = load_fabric("terarack", 64).bill()
    assert built.static_power.value == pytest.approx(51.2)
    assert built.static_power.low == pytest.approx(35.84)
    devices = load_fabric("terarack", 64).bill(BillChoices(wdm="devices"))
    assert sum(line.total("dynamic_energy").value or 0 for line in devices.lines) == pytest.approx(0.43, abs=0.01)
    assert count(devices, "ring-lock") == 512
    assert count(devices, "comb-source") == 16


def test_what_failed_was_paid_for() -> None:
    ring = load_fabric("terarack", 16)
    left = damaged(ring, [Failure.model_validate("node:3")])
    assert 15 * (left.bill().static_power.value or 0) == pytest.approx(16 * (ring.bill().static_power.value or 0))
    assert left.bill().ranks == 15


def test_a_graph_counts_cards_ports_and_cables() -> None:
    edges = [[rank, "hub", "400Gbps", 0] for rank in range(4)] + [["hub", "top", "800Gbps", 0]]
    bill = fabric_from({"kind": "graph", "edges": edges}, 4, where="graph").bill(BillChoices(port_rate=50e9))
    assert count(bill, "nic-400g") == 1
    # Four ports for the ranks, and two 400 Gb/s ports at each end of the cable to the top.
    assert count(bill, "switch-port-400g") == (4 + 4) / 4
    assert count(bill, "transceiver-400g") == (8 + 4) / 4
    star = load_fabric("switch", 4).bill()
    edges = [[rank, "hub", "400Gbps", 0] for rank in range(4)]
    assert fabric_from({"kind": "graph", "edges": edges}, 4, where="graph").bill().dollars == star.dollars


@pytest.mark.parametrize(
    ("choices", "complaint"),
    [
        ({"switch_radix": 3}, "switch_radix=3"),
        ({"transceiver": "fibre-metre"}, "a fibre: expected a transceiver"),
        ({"transceiver": "transceiver-9000g"}, "unknown part"),
        ({"transceiver": "transceiver-400g", "nic": "nic-200g"}, "200 Gb/s and 400 Gb/s on one link"),
        ({"port_rate": 5e9, "transceiver": "transceiver-400g"}, "expected parts of the port's rate"),
        ({"port_rate": 7e9}, "of this rate in the catalog"),
        ({"circuit_switch": "transceiver-400g"}, "no optical circuit switch"),
    ],
)
def test_bad_choices_are_one_line(choices: dict[str, object], complaint: str) -> None:
    fabric = load_fabric("circuit-switch" if "circuit_switch" in choices else "switch", 100)
    with pytest.raises((ConfigError, UnsupportedError, ValueError), match=complaint):
        fabric.bill(BillChoices.model_validate(choices))


def test_a_switch_of_unknown_radix_is_refused_unless_the_radix_is_chosen(tmp_path: Path) -> None:
    part = CATALOG / "switches" / "switch-port-400g.yaml"
    own = tmp_path / "own.yaml"
    own.write_text("\n".join(line for line in part.read_text().splitlines() if not line.startswith("radix:")))
    fabric = load_fabric("switch", 100)
    with pytest.raises(ConfigError, match="switch_port=own states no radix: expected one in the part, or switch_radix"):
        fabric.bill(BillChoices(switch_port=str(own)))
    radix = load_part("switch-port-400g").radix
    assert fabric.bill(BillChoices(switch_port=str(own), switch_radix=radix)).dollars == fabric.bill().dollars


@pytest.mark.parametrize("ends", [{}, {"low": 0.25}, {"high": 0.5}, {"low": 0.25, "high": 0.5}])
def test_a_fibre_costs_its_length_in_metres_with_both_ends_of_the_range(
    ends: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    metre = load_part("fibre-metre")
    assert metre.dollars is not None
    ranged = metre.model_copy(update={"dollars": metre.dollars.model_copy(update=ends)})
    monkeypatch.setattr(links, "load_part", lambda _: ranged)
    price = links.fibres(1.0, "a link", BillChoices(link_length=8.0)).part.dollars
    assert price is not None and price.value == 8 * metre.dollars.value
    assert (price.low, price.high) == tuple(end and 8 * end for end in (ends.get("low"), ends.get("high")))


def test_cubes_tile_the_torus() -> None:
    with pytest.raises(ConfigError, match="copper_cube=3 does not tile 4x4"):
        fabric_from({"kind": "torus", "dims": "4x4"}, 16, where="torus").bill(BillChoices(copper_cube=3))


def test_choices_of_a_bill_are_no_fields_of_fabrics() -> None:
    for fabric in catalog_fabrics():
        assert not set(BillChoices.model_fields) & set(type(fabric).model_fields)


@pytest.mark.parametrize(("switched", "wraps"), [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("block", [(4, 6), (2, 6), (4, 3), (2, 2), (1, 1)])
def test_links_between_blocks_are_counted_one_by_one(switched: bool, wraps: bool, block: tuple[int, int]) -> None:
    """Those around a ring that one block closes leave it only where circuit switches join the blocks."""
    inside = outside = 0.0
    for size, side in zip((4, 6), block, strict=True):
        for at in range(size if wraps else size - 1):
            leaves = at // side != (at + 1) % size // side or (switched and at == size - 1)
            inside, outside = inside + (not leaves) / size, outside + leaves / size
    grid = Grid(ranks=24, dims=(4, 6), wraps=wraps, bandwidth=1e9, switched=switched)
    assert _links_by_block(grid, block) == pytest.approx((inside, outside))


@pytest.mark.parametrize("choices", CHOICES)
@pytest.mark.parametrize("switched", [False, True])
def test_grids_beside_each_other_take_as_many_parts_as_each_of_them(choices: BillChoices, switched: bool) -> None:
    """But for circuit switches, which come in whole products."""
    one, three = (
        grid_bill(
            Grid(ranks=24, dims=(4, 6), wraps=True, bandwidth=5e9, block=(2, 3), switched=switched, copies=copies),
            choices,
        )
        for copies in (1.0, 3.0)
    )
    assert one.bandwidth is not None and three.bandwidth == pytest.approx(3 * one.bandwidth)
    assert [line.part.name for line in three.lines] == [line.part.name for line in one.lines]
    for line, more in zip(one.lines, three.lines, strict=True):
        if not line.part.name.startswith(("circuit-switch", "palomar", "calient", "polatis")):
            assert more.per_rank == pytest.approx(3 * line.per_rank), line.part.name


@pytest.mark.parametrize("gigabytes", [25, 200, 201, 450])
def test_the_first_tier_is_a_node_where_others_follow_or_no_port_is_as_fast(gigabytes: int) -> None:
    inner, outer = (
        {"shape": "switch", "size": 8, "bandwidth": f"{gigabytes}GB/s"},
        {"shape": "switch", "bandwidth": "25GB/s"},
    )
    alone = fabric_from({"kind": "tiers", "tiers": [inner]}, 8, where="node").bill()
    joined = fabric_from({"kind": "tiers", "tiers": [inner, outer]}, 16, where="nodes").bill()
    assert count(joined, "node-link") == gigabytes
    assert count(alone, "node-link") == (gigabytes if gigabytes > 200 else 0)


def test_circuits_of_each_rail_are_a_plane_of_their_own() -> None:
    """32 nodes in a ring on each of 8 rails: two ports of a rank, on planes of 64 ports that one switch has."""
    bill = load_fabric("dgx-h100-circuits", 256).bill()
    assert count(bill, "circuit-switch-port") == count(bill, "transceiver-200g") == 2
    assert not any("three stages" in note for note in bill.notes)
