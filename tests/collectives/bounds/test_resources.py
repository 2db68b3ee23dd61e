"""Each resource that bounds a collective, worked out from what the kind must move past it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lightloom.collectives.bounds.lower_bound import (
    Bound,
    bandwidth_bound,
    lower_bound,
    ring_bounds,
)
from lightloom.collectives.bounds.one_to_one import end_seconds
from lightloom.collectives.collective import Collective, Kind, Sizes
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh
from lightloom.machines.fabrics.switches import PacketSwitch
from tests.collectives.strategies import two_tiers, wdm_ring

FABRICS = [
    two_tiers(ranks=12, domain_size=4, taper=3),
    two_tiers(ranks=12, domain_size=6, domain_bandwidth=30e9),
    Mesh(ranks=12, dims=(3, 4)),
    PacketSwitch(ranks=5),
    wdm_ring(6, 2),
]
KINDS: tuple[Kind, ...] = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "broadcast", "reduce")


def _past(kind: Kind, ranks: int, inside: int) -> float:
    """Bytes that enter (or leave) a set of ranks, for one byte that each rank holds in the end; part by part."""
    if kind in ("all-reduce", "broadcast", "reduce"):
        return 1.0
    parts = (
        [(a, b) for a in range(ranks) for b in range(ranks)] if kind == "all-to-all" else [(a, 0) for a in range(ranks)]
    )
    return sum(a >= inside and (b < inside) for a, b in parts) / ranks


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: f"{fabric.kind}-{fabric.ranks}")
def test_the_tightest_of_cuts_domains_and_ports_bounds_the_bytes(kind: Kind, fabric: Fabric) -> None:
    nbytes, ranks = 3e6, fabric.ranks
    adds = kind == "all-reduce"
    seconds = [_past(kind, ranks, cut.ranks) * nbytes / cut.capacity for cut in fabric.cuts()]
    seconds += [2 * (1 - 1 / cut.sets) * nbytes / cut.capacity for cut in fabric.cuts() if adds and cut.sets > 1]
    without_switches = [*seconds, (1 + adds) * (ranks - 1) * nbytes / fabric.total_receive_bandwidth()]
    assert bandwidth_bound(Collective(kind, ranks, nbytes), fabric) == pytest.approx(max(without_switches), rel=1e-12)
    bound = lower_bound(Collective(kind, ranks, 1e6 * nbytes), fabric, "paper", switches_add=True)
    if not fabric.exclusive:
        assert bound.time == pytest.approx(1e6 * max(seconds), rel=1e-3)


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: f"{fabric.kind}-{fabric.ranks}")
@pytest.mark.parametrize("seed", range(3))
def test_owners_of_uneven_parts_bound_a_reduction(fabric: Fabric, seed: int) -> None:
    """A rank receives its own part at least once and sends the others'; a cut lets out the smallest parts at least."""
    share = np.random.default_rng(seed).integers(0, 6, fabric.ranks) + 5.0 * (np.arange(fabric.ranks) == 0)
    part, nbytes = share / share.sum(), 3e6
    receive, send = (np.broadcast_to(rate, fabric.ranks) for rate in fabric.rank_bandwidths())
    seconds = [nbytes * part[rank] / receive[rank] for rank in range(fabric.ranks)]
    seconds += [nbytes * (1 - part[rank]) / send[rank] for rank in range(fabric.ranks)]
    seconds += [nbytes * sum(sorted(part)[: fabric.ranks - cut.ranks]) / cut.capacity for cut in fabric.cuts()]
    seconds += [(fabric.ranks - 1) * nbytes / fabric.total_receive_bandwidth()]
    collective = Collective("reduce-scatter-v", fabric.ranks, nbytes, sizes=Sizes(share))
    assert bandwidth_bound(collective, fabric) == pytest.approx(max(seconds), rel=1e-12)


@pytest.mark.parametrize(("ranks", "wavelengths", "taps"), [(16, 2, 1), (16, 1, 1), (17, 2, 1), (33, 3, 1), (24, 1, 2)])
@pytest.mark.parametrize("rank_bytes", [1e2, 1e5, 1e7])
def test_blocks_of_an_all_to_all_cross_the_ring_on_circuits_that_stand(
    ranks: int, wavelengths: int, taps: int, rank_bytes: float
) -> None:
    """All pairs of the two halves, but those that a circuit between the halves joins in one hop fewer."""
    fabric = wdm_ring(ranks, wavelengths, multicast_taps=taps, conversion_time=1e-6, reconfiguration_time=1.0)
    degree = circuits = 2 * wavelengths * taps
    pairs = ranks // 2 * (ranks - ranks // 2)

    def joined(hops: int) -> int:
        ways = [(before, behind) for before in range(hops) for behind in range(hops - before)]
        starts = {before: min(ranks, degree**before) for before, _ in ways}
        ends = {before: min(ranks, sum(degree**b for a, b in ways if a == before)) for before, _ in ways}
        return sum(circuits * starts[before] * ends[before] for before in starts)

    hops = next(hops for hops in range(1, ranks) if joined(hops) >= pairs and _within(hops, degree) >= ranks)
    hop = 1e-6 + fabric.neighbour_latency()
    late = max(0, pairs - joined(hops - 1)) * rank_bytes
    seconds = hops * hop + late / (2 * wavelengths * fabric.channel_bandwidth) / hops
    bounds = ring_bounds(Collective("all-to-all", ranks, ranks * rank_bytes), fabric)
    found = next(
        bound for bound, name in bounds if name == f"blocks of {hops} hops that cross the ring in the time left"
    )
    assert found == pytest.approx(min(seconds, (hops + 1) * hop), rel=1e-12)


def _within(hops: int, degree: int) -> int:
    return sum(degree**k for k in range(hops + 1))


def test_a_run_with_its_circuits_in_place_is_compared_without_their_set_up() -> None:
    def cost(**fields: Any) -> Any:
        return SimpleNamespace(**({"static": True, "setup": 1.0, "time": 5.0, "repeated_time": 4.0} | fields))

    assert Bound(3.0, "a port").repeated_ratio(cost()) == 2.0
    assert Bound(3.0, "a port").repeated_ratio(cost(static=False)) is None
    assert Bound(3.0, "a port").repeated_ratio(cost(setup=0.0)) is None
    assert Bound(1.0, "a port").repeated_ratio(cost()) is None


def test_owners_that_receive_slowly_are_bound_by_that() -> None:
    """Rates of ranks differ each way, as where transceivers have failed."""
    receive, send = np.array([1.0, 4.0, 2.0]), np.array([8.0, 2.0, 4.0])
    slow: Any = SimpleNamespace(rank_bandwidths=lambda: (receive, send))
    shares = np.array([5.0, 3.0, 2.0])
    into, out = end_seconds(shares, 10.0 - shares, slow)
    assert into[0] == pytest.approx(5.0) and into[1] == "what rank 0 must receive"
    assert out[0] == pytest.approx(3.5) and out[1] == "what rank 1 must send"


@pytest.mark.parametrize("kind", ["broadcast", "reduce", "gather", "scatter"])
def test_a_root_in_a_corner_is_as_far_from_the_others_as_any_rank(kind: Kind) -> None:
    fabric = Mesh(ranks=12, dims=(3, 4), hop_latency=1e-6)
    assert lower_bound(Collective(kind, 12, 1e-9), fabric).time == pytest.approx(fabric.diameter_latency(), rel=1e-6)
