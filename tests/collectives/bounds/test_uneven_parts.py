"""Bounds of parts that differ in size, part by part: ports, arcs of a ring, distances, circuits that stand."""

from __future__ import annotations

import numpy as np
import pytest

from lightloom.collectives.bounds import one_to_one
from lightloom.collectives.bounds.link_use import hops_needed, standing_seconds
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.bounds.one_to_one import (
    Demand,
    distance_seconds,
    link_seconds,
    rank_seconds,
)
from lightloom.collectives.collective import Collective, Sizes
from lightloom.core.arrays import Floats, Ints
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.failures import DamagedWdmRing, Failure
from lightloom.machines.fabrics.switches import CircuitSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing

RINGS = [
    DamagedWdmRing(ranks=ranks, wavelengths=4, hop_latency=1e-7, failures=tuple(map(Failure.parse, failures)))
    for ranks, failures in ((2, ()), (3, ()), (5, ("segment:2:clockwise",)), (6, ("transceiver:1:0", "wavelength:3")))
]


def drawn(ranks: int, seed: int) -> tuple[Collective, list[tuple[int, int, float]]]:
    """A random exchange, with what it sends as (from, to, bytes)."""
    rng = np.random.default_rng(seed)
    share = rng.integers(0, 5, (ranks, ranks)).astype(np.float64)
    share[0, 1] += 1
    sends = [(a, b, share[a, b]) for a in range(ranks) for b in range(ranks) if a != b and share[a, b]]
    return Collective("all-to-all-v", ranks, share.sum() / ranks, sizes=Sizes(share)), sends


def link_between(fabric: Fabric, a: int, b: int, route: int) -> float:
    """Bandwidth of the link between neighbours, one way or the other."""
    ends: list[Ints] = [np.array([end % fabric.ranks]) for end in (a, b)]
    link = fabric.path(ends[0], ends[1], np.array([route]))[0]
    assert (link >= 0).sum() == 1
    bandwidth: Floats = fabric.link_bandwidth()
    return float(bandwidth[link[0]])


@pytest.mark.parametrize("fabric", RINGS, ids=lambda fabric: f"{fabric.ranks}")
@pytest.mark.parametrize("seed", range(4))
def test_ports_arcs_distances_and_links_of_a_ring(fabric: DamagedWdmRing, seed: int) -> None:
    collective, sends = drawn(fabric.ranks, seed)
    demand, ranks = Demand(collective), range(fabric.ranks)
    received = [sum(size for _, b, size in sends if b == rank) for rank in ranks]
    sent = [sum(size for a, _, size in sends if a == rank) for rank in ranks]
    assert demand.received == pytest.approx(received) and demand.sent == pytest.approx(sent)
    peers = [len([1 for send in sends if send[side] == rank]) for rank in ranks for side in (0, 1)]
    assert demand.peers == max(peers)
    receive, send = fabric.rank_bandwidths()
    into, out, together, arc = rank_seconds(demand, fabric)
    assert into[0] == pytest.approx(max(received / np.broadcast_to(receive, fabric.ranks)))
    assert out[0] == pytest.approx(max(sent / np.broadcast_to(send, fabric.ranks)))
    assert together[0] == pytest.approx(sum(sent) / fabric.total_receive_bandwidth())
    worst = (0.0, "")
    for begin in ranks:
        for size in range(1, fabric.ranks):
            held = {(begin + k) % fabric.ranks for k in range(size)}
            end = begin + size
            enters = link_between(fabric, begin - 1, begin, 0) + link_between(fabric, end, end - 1, 1)
            leaves = link_between(fabric, end - 1, end, 0) + link_between(fabric, begin, begin - 1, 1)
            inward = sum(size for a, b, size in sends if a not in held and b in held)
            outward = sum(size for a, b, size in sends if a in held and b not in held)
            worst = max(worst, (inward / enters, "into"), (outward / leaves, "out of"))
    assert arc[0] == pytest.approx(worst[0])
    hops, seconds = 0, 0.0
    for a, b, _ in sends:
        ways = [(np.array([a]), np.array([b]), np.array([route])) for route in (0, 1)]
        hops = max(hops, min(int(fabric.hops(*way)[0]) for way in ways))
        seconds = max(seconds, min(float(fabric.latency(*way)[0]) for way in ways))
    assert distance_seconds(demand, fabric) == pytest.approx((seconds, hops))
    uses = sum(size * min((a - b) % fabric.ranks, (b - a) % fabric.ranks) for a, b, size in sends)
    assert link_seconds(demand, fabric) == pytest.approx(uses / fabric.link_bandwidth().sum())


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("ranks", [2, 4, 7])
@pytest.mark.parametrize("seed", range(3))
def test_the_largest_parts_make_the_fewest_hops(degree: int, ranks: int, seed: int) -> None:
    """At best the D largest parts of a rank go one hop, the next D² two, and so on; parts need ports at every hop."""
    fabric = CircuitSwitch(ranks=ranks, degree=degree, bandwidth=1e9, hop_latency=1e-9)
    collective, sends = drawn(ranks, seed)
    hop = fabric.neighbour_latency()
    onward, rate = hop + fabric.step_overhead, degree * fabric.channel_bandwidth
    level = [hops for hops in range(1, ranks) for _ in range(degree**hops)]
    peers = max(len([1 for send in sends if send[side] == rank]) for rank in range(ranks) for side in (0, 1))
    least = hop + (level[peers - 1] - 1) * onward
    for side in (0, 1):
        total = 0.0
        for rank in range(ranks):
            sizes = sorted((send[2] for send in sends if send[side] == rank), reverse=True)
            hops = level[: len(sizes)]
            total += sum(size * hop for size, hop in zip(sizes, hops, strict=True))
            for k in set(hops):
                beyond = sum(size for size, hops_of in zip(sizes, hops, strict=True) if hops_of >= k)
                least = max(least, hop + (k - 1) * onward + beyond / rate)
        least = max(least, hop + total / (ranks * rate))
    demand = Demand(collective)
    assert hops_needed(demand, degree) == level[peers - 1]
    assert standing_seconds(demand, fabric) == pytest.approx(least, rel=1e-12)


@pytest.mark.parametrize("stride", range(1, 6))
def test_of_sends_over_one_distance_all_links_prove_as_much_as_arcs(
    stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arcs are not tried among many ranks; a hop, and the first set-up, come before the time of the links."""
    fabric = WdmRing(ranks=6, wavelengths=4, hop_latency=1e-6, reconfiguration_time=1e-5)
    shifts = [Collective("permute", 6, nbytes, tuple((np.arange(6) + stride) % 6)) for nbytes in (2.0**40, 2.0**41)]
    by_arcs = [lower_bound(shift, fabric).time for shift in shifts]
    monkeypatch.setattr(one_to_one, "_MOST_ARCS", 0)
    by_links = [lower_bound(shift, fabric).time for shift in shifts]
    assert by_links == pytest.approx(by_arcs, rel=1e-12)
    hop = fabric.step_overhead + fabric.neighbour_latency()
    assert 2 * by_links[0] - by_links[1] == pytest.approx(fabric.setup_time + hop, rel=1e-3)


def test_arcs_are_tried_up_to_so_many_pairs_of_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    demand, ring = Demand(drawn(6, 0)[0]), WdmRing(ranks=6, wavelengths=4)
    for most, arcs in ((36, 1), (35, 0)):
        monkeypatch.setattr(one_to_one, "_MOST_ARCS", most)
        assert len(rank_seconds(demand, ring)) == 3 + arcs
