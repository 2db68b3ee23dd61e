"""Every fabric keeps the contract, and a broken promise is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import ConfigError
from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics.conformance import check_fabric
from lightloom.machines.fabrics.derived import Cut, Ports
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.failures import Failure, damaged
from lightloom.machines.fabrics.graph import Graph
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.load import description, load_fabric, names
from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from lightloom.machines.fabrics.tiers.tiers import Tiers
from lightloom.machines.fabrics.wdm_ring import Ring, WdmRing
from tests.collectives.strategies import two_tiers


@pytest.mark.parametrize("name", [name for name in names() if description(name)["kind"] != "tiers"])
def test_every_fabric_of_the_catalog_keeps_the_contract(name: str) -> None:
    check_fabric(load_fabric(name, 12, set={"hop_latency": 1e-6}))


def _broken_ring(*failures: str) -> Fabric:
    return damaged(WdmRing(ranks=12, wavelengths=6, hop_latency=1e-6), [Failure.parse(text) for text in failures])


@pytest.mark.parametrize(
    "fabric",
    [
        two_tiers(ranks=12, domain_size=4, hop_latency=1e-6, domain_latency=1e-7, taper=2),
        two_tiers(ranks=12, domain_size=6, hop_latency=1e-7, domain_latency=1e-5),
        two_tiers(ranks=6, domain_size=1, hop_latency=1e-6),
        two_tiers(ranks=6, domain_size=6),
        PacketSwitch(ranks=2, packet_payload=1000, packet_header=100, packet_time=1e-7),
        *(kind(ranks=ranks) for kind in (Mesh, Torus, Ring) for ranks in (2, 3, 4, 5, 9)),
        Mesh(ranks=12, rows=1),
        Torus(ranks=16, rows=2),
        WdmRing(ranks=9, transceivers=6, fibres=2),
        WdmRing(ranks=4, wavelengths=1),
        CircuitSwitch(ranks=8, degree=3),
        _broken_ring("cable:3", "node:5"),
        _broken_ring("node:7", "wavelength:5", "transceiver:3:2", "segment:1:clockwise"),
        Mesh(ranks=12).group(3, 2),
        two_tiers(ranks=12, domain_size=4).group(2, 3),
    ],
    ids=lambda fabric: f"{fabric.kind_name}-{fabric.ranks}",
)
def test_every_kind_of_fabric_keeps_the_contract(fabric: Fabric) -> None:
    check_fabric(fabric)


def _mutated(kind: type[Fabric], **members: Any) -> Callable[[], Fabric]:
    return lambda: type("Mutated", (kind,), {"__module__": __name__, **members})(ranks=12, hop_latency=1e-6)


def _changed(runs: Any, **fields: int) -> Any:
    return runs._replace(**{name: np.full_like(runs.base, value) for name, value in fields.items()})


def _first_link_twice(self: Mesh, *ends: np.ndarray) -> Any:
    runs = Mesh.footprint(self, *ends)
    return type(runs)(
        *(np.concatenate([part, part], axis=1) for part in (runs.base, runs.start, runs.length, runs.period))
    )


@pytest.mark.parametrize(
    ("fabric", "complaint"),
    [
        (_mutated(Mesh, link_bandwidth=lambda self: np.ones(3)), "link_bandwidth has shape"),
        (_mutated(Mesh, link_bandwidth=lambda self: np.zeros(self.links)), "link_bandwidth is not positive"),
        (_mutated(Mesh, link_name=lambda self, link: "a link"), "link_name gives 1 names"),
        (_mutated(Mesh, links=property(lambda self: self.ranks)), "link_bandwidth has shape|outside"),
        (_mutated(Mesh, footprint=_first_link_twice), "occupies a link twice"),
        (_mutated(Mesh, hops=lambda self, a, b, route: Mesh.hops(self, a, b, route) + 1), "other hops than links"),
        (_mutated(Mesh, route=lambda self, a, b: np.ones(len(a), np.int64)), r"outside 0\.\.0"),
        (_mutated(Mesh, route=lambda self, a, b: np.full(len(a), -1)), r"outside 0\.\.0"),
        (_mutated(Ring, reverse_route=lambda self, route: route), "reverse_route of 0→1 crosses 11 links, not 1"),
        (_mutated(Mesh, latency=lambda self, a, b, route: 1e-6 * (a + 1.0)), "of the way back"),
        (_mutated(Mesh, latency=lambda self, a, b, route: a - b + 0.0), "negative"),
        (_mutated(Mesh, latency=lambda self, a, b, route: np.full(len(a), -1e-9)), "negative"),
        (_mutated(Mesh, neighbour_latency=lambda self: 2e-6), "neighbour_latency is 2e-06"),
        (_mutated(Mesh, diameter_latency=lambda self: 1e-6), "diameter_latency is 1e-06"),
        (_mutated(Mesh, root_latency=lambda self, to_root: 1e-6 * (5 - to_root)), "root_latency.to_root=True. is 4"),
        (_mutated(Mesh, diameter=lambda self: 2, diameter_latency=lambda self: 5e-6), "diameter is 2"),
        (_mutated(Mesh, ring_order=lambda self: np.zeros(12, np.int64)), "ring_order is not an order"),
        (_mutated(Mesh, ring_order=lambda self: np.arange(12)[::-1]), "ring_order begins at rank 11"),
        (_mutated(Mesh, cuts=lambda self: [Cut("a rank", 1, 1.0)]), "a rank carry 1.0"),
        (_mutated(Mesh, cuts=lambda self: [Cut("a rank", 1, 1e30)]), "the cut of a single rank"),
        # A corner has two links: three are more than every rank has.
        (_mutated(Mesh, cuts=lambda self: [Cut("a rank", 1, 3 * self.bandwidth)]), "the cut of a single rank"),
        (_mutated(Mesh, cuts=lambda self: []), "lacks the cut of a single rank"),
        (_mutated(Mesh, total_receive_bandwidth=lambda self: 1.0), "less than an all-to-all"),
        (_mutated(Mesh, total_receive_bandwidth=lambda self: 1e30), "all ranks together receive"),
        (_mutated(Mesh, pair=lambda self, stride: (1e9, 0.0)), r"pair\(1\)"),
        (_mutated(Mesh, group=lambda self, ranks, stride=1: Mesh(ranks=ranks, hop_latency=1e-6)), r"group\("),
        (_mutated(Mesh, group=lambda self, ranks, stride=1: None), "is not a fabric of"),
        (
            _mutated(
                Tiers,
                tiers=two_tiers(12, domain_size=4).tiers,
                distance_matters=False,
                __annotations__={"tiers": tuple},
            ),
            "first gave",
        ),
        (_mutated(PacketSwitch, ports=lambda self, a, b: None), "ports differ"),
        (
            _mutated(PacketSwitch, ports=lambda self, a, b: Ports(0 * a, a, np.full(len(a), self.bandwidth))),
            "ports differ",
        ),
        (_mutated(PacketSwitch, joins_ranks=True), "joins_ranks, but"),
        (_mutated(PacketSwitch, switch_planes=True), "only circuits"),
        (_mutated(CircuitSwitch, switch_planes=False), "either wavelengths"),
        (_mutated(WdmRing, channel_bandwidth=property(lambda self: 1.0)), "differs from channels"),
        (_mutated(WdmRing, routes=3), "has 2 routes"),
        (_mutated(PacketSwitch, damaged=True), "damaged and blocked"),
        (_mutated(PacketSwitch, wire_bytes=lambda self, nbytes: nbytes / 2), "wire_bytes"),
        (_mutated(PacketSwitch, with_smaller_packets=lambda self, factor: PacketSwitch(ranks=2)), "of other ranks"),
        (_mutated(Mesh, path=lambda self, a, b, route: 1 + Mesh.path(self, a, b, route)), "path has other links"),
        (_mutated(Mesh, footprint=lambda self, *ends: _changed(Mesh.footprint(self, *ends), length=0)), "no link"),
        (_mutated(Mesh, footprint=lambda self, *ends: _changed(Mesh.footprint(self, *ends), base=-99)), "outside 0"),
        (_mutated(Mesh, footprint=lambda self, a, b, r: Mesh.footprint(self, a[1:], b[1:], r[1:])), "rows for"),
        (_mutated(Mesh, cuts=lambda self: [*Mesh.cuts(self), Cut("all", 12, 1e9)]), "does not divide the ranks"),
        (_mutated(Mesh, cuts=lambda self: [*Mesh.cuts(self), Cut("none", 0, 1e9)]), "does not divide the ranks"),
        (_mutated(Mesh, cuts=lambda self: [*Mesh.cuts(self), Cut("half", 6, 0.0)]), "is not positive"),
        (_mutated(Mesh, total_receive_bandwidth=lambda self: 0.0), "is not positive"),
        (_mutated(WdmRing, usable_channels=property(lambda self: 999)), "do not agree: expected whole fibres"),
        (_mutated(WdmRing, fibre_channels=property(lambda self: 7)), "do not agree: expected whole fibres"),
        (
            _mutated(PacketSwitch, ports=lambda self, a, b: Ports(a, b, np.full(len(a), 2 * self.bandwidth))),
            "ports give 0→1",
        ),
    ],
)
def test_a_broken_promise_is_named(fabric: Callable[[], Fabric], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_fabric(fabric())


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.inf, np.nan])
@pytest.mark.parametrize("link", [0, 5, -1])
def test_one_link_without_a_bandwidth_is_enough(link: int, wrong: float) -> None:
    def bandwidth(self: Mesh) -> np.ndarray:
        every = Mesh.link_bandwidth(self).copy()
        every[link] = wrong
        return every

    with pytest.raises(ConfigError, match="link_bandwidth is not positive and finite on every link"):
        check_fabric(_mutated(Mesh, link_bandwidth=bandwidth)())


@pytest.mark.parametrize(("ranks", "stride"), [(2, 1), (2, 6), (3, 4), (4, 3), (6, 2)])
def test_one_group_that_is_none_is_enough(ranks: int, stride: int) -> None:
    """The groups whose stride is the widest included, whose members reach around all ranks."""

    def group(self: Mesh, size: int, apart: int = 1) -> Fabric | None:
        return None if (size, apart) == (ranks, stride) else Mesh.group(self, size, apart)

    with pytest.raises(ConfigError, match=rf"group\({ranks}, {stride}\) is not a fabric of {ranks} ranks"):
        check_fabric(_mutated(Mesh, group=group)())


@pytest.mark.parametrize("pair", [(0, 1), (11, 10), (7, 2)])
@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("hops", lambda links: links + 1, "the transfer {} on route 0 has other hops"),
        ("hops", lambda links: links - 1, "the transfer {} on route 0 has other hops"),
        ("latency", lambda seconds: np.inf + seconds, "latency is negative or infinite"),
        ("latency", lambda seconds: np.nan * seconds, "latency is negative or infinite"),
        ("latency", lambda seconds: -seconds, "latency is negative or infinite"),
        ("latency", lambda seconds: 1.001 * seconds, "latency of ({}|{}) is"),
        ("path", lambda links: links + (links >= 0), "path has other links than footprint"),
    ],
)
def test_one_transfer_that_breaks_a_promise_is_named(
    pair: tuple[int, int], name: str, change: Any, complaint: str
) -> None:
    def changed(self: Mesh, source: Ints, destination: Ints, route: Ints) -> Any:
        own = np.array(getattr(Mesh, name)(self, source, destination, route))
        row = (np.asarray(source) == pair[0]) & (np.asarray(destination) == pair[1])
        own[row] = change(own[row])
        return own

    fabric = _mutated(Mesh, **{name: changed})()
    with pytest.raises(ConfigError, match=complaint.format("{}→{}".format(*pair), "{1}→{0}".format(*pair))):
        check_fabric(fabric)


@pytest.mark.parametrize("pair", [(0, 1), (11, 10), (7, 2)])
@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("base", -99, "the footprint of {} holds a link outside"),
        ("base", 24, "the footprint of {} holds a link outside"),
        ("length", 0, "the transfer {} on route 0 occupies no link"),
        ("period", 1, "the transfer {} on route 0 occupies a link twice"),
    ],
)
def test_one_footprint_that_breaks_a_promise_is_named(
    pair: tuple[int, int], field: str, value: int, complaint: str
) -> None:
    """Links of the row of 12 ranks are numbered up to 23."""

    def changed(self: Ring, source: Ints, destination: Ints, route: Ints) -> Any:
        runs = Ring.footprint(self, source, destination, route)
        row = ((source == pair[0]) & (destination == pair[1]))[:, None]
        length = np.where(row & (field == "period"), 2, runs.length)
        return runs._replace(length=length)._replace(
            **{field: np.where(row, value, length if field == "length" else getattr(runs, field))}
        )

    with pytest.raises(ConfigError, match=complaint.format("{}→{}".format(*pair))):
        check_fabric(_mutated(Ring, footprint=changed)())


def test_one_rate_of_a_port_that_is_wrong_is_named() -> None:
    def ports(self: PacketSwitch, source: Ints, destination: Ints) -> Any:
        own = PacketSwitch.ports(self, source, destination)
        assert own is not None
        return own._replace(rate=np.where((source == 7) & (destination == 2), 0.99 * own.rate, own.rate))

    with pytest.raises(ConfigError, match="ports give 7→2"):
        check_fabric(_mutated(PacketSwitch, ports=ports)())


@pytest.mark.parametrize("factor", [0.999, 1.001])
@pytest.mark.parametrize("kind", [Mesh, PacketSwitch, WdmRing])
@pytest.mark.parametrize("name", ["neighbour_latency", "diameter_latency", "pair", "total_receive_bandwidth", "cuts"])
def test_figures_that_are_a_little_off_are_noticed(kind: type[Fabric], name: str, factor: float) -> None:
    """But for cuts and totals that are smaller, and yet no less than an all-to-all brings across."""

    def scaled(self: Fabric, *stride: int) -> Any:
        own: Any = getattr(kind, name)(self, *stride)
        if name == "cuts":
            return [replace(cut, capacity=factor * cut.capacity) for cut in own]
        return (factor * own[0], own[1]) if name == "pair" else factor * own

    fabric = _mutated(kind, **{name: scaled})()
    smaller = factor < 1 and name in ("cuts", "total_receive_bandwidth")
    if (smaller and kind is not PacketSwitch) or (name == "pair" and kind is WdmRing):
        return  # an all-to-all keeps all ports of a switch busy, and what pairs get on a ring is an assumption
    with pytest.raises(ConfigError, match=r"receive|latency|pair|single rank|carry"):
        check_fabric(fabric)


@pytest.mark.parametrize("pair", [(0, 1), (11, 10), (7, 2)])
@pytest.mark.parametrize("wrong", [-1, 1])
def test_one_transfer_on_a_route_that_there_is_not_is_enough(pair: tuple[int, int], wrong: int) -> None:
    def route(self: Mesh, source: Ints, destination: Ints) -> Ints:
        own: Ints = np.where((source == pair[0]) & (destination == pair[1]), wrong, 0)
        return own

    with pytest.raises(ConfigError, match=r"route chooses a route outside 0\.\.0"):
        check_fabric(_mutated(Mesh, route=route)())


def test_one_rank_without_a_link_to_another_is_enough() -> None:
    joined = type("Mutated", (Graph,), {"__module__": __name__, "joins_ranks": True})
    check_fabric(joined(ranks=3, edges=((0, 1, 1e9), (1, 2, 1e9)), hop_latency=1e-6))
    with pytest.raises(ConfigError, match="joins_ranks, but some rank has no transfer of a single link"):
        check_fabric(joined(ranks=3, edges=((0, 1, 1e9), (0, "hub", 1e9), ("hub", 2, 1e9)), hop_latency=1e-6))


@pytest.mark.parametrize("fabric", [Mesh(ranks=4), Ring(ranks=4), PacketSwitch(ranks=4)], ids=lambda f: f.kind_name)
def test_packets_wait_for_no_circuits(fabric: Fabric) -> None:
    assert (fabric.setup_time, fabric.step_overhead, fabric.piece_overhead, fabric.arithmetic_share) == (0.0,) * 4
    assert (fabric.channels, fabric.usable_channels, fabric.fibre_channels, fabric.taps) == (0, 0, 1, 1)
    absent = fabric.reach, fabric.transmitters, fabric.circuit_block, fabric.library
    assert (*absent, fabric.blocked(), fabric.blocked_ends()) == (None,) * 6 and not fabric.assigns_circuits
    assert fabric.may_fail[-2:] == ("node", "dark-node") and ("link" in fabric.may_fail) == fabric.joins_ranks


def test_circuits_take_the_times_and_have_the_limits_that_are_stated() -> None:
    ring = WdmRing(
        ranks=4,
        reconfiguration_time=1.0,
        conversion_time=2.0,
        guard_time=3.0,
        multicast_taps=4,
        lightpath_reach=5,
        transceivers=6,
    )
    assert (ring.setup_time, ring.step_overhead, ring.piece_overhead) == (1.0, 2.0, 3.0)
    assert (ring.taps, ring.reach, ring.transmitters) == (4, 5, 6)
    switch = CircuitSwitch(ranks=4, degree=3, reconfiguration_time=1.0, link_up_time=2.0)
    assert (switch.setup_time, switch.fibre_channels, switch.circuit_block) == (3.0, 1, 1)
    assert switch.may_fail == ("plane", "node", "dark-node")
    left = damaged(ring, [Failure.parse("wavelength:0")])
    assert [each.assigns_circuits for each in (ring, switch, left)] == [True, True, False]


class _Line(Mesh):
    """A row of ranks whose light reaches the next one only."""

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        return np.where(np.abs(source - destination) == 1, 1e-6, np.inf)


def test_who_cannot_be_reached_at_once_is_reached_over_others() -> None:
    assert derived.diameter_latency(_Line(ranks=5, rows=1)) == pytest.approx(4e-6)
