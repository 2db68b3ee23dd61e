"""Laws of prices: they grow with bytes and peers, and cost nothing where software does."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.collectives.collective import CLASSIC
from lightloom.core.errors import UnknownNameError
from lightloom.machines.transports.price import (
    Constants,
    columns,
    pipelined,
    seconds,
    seconds_of_ways,
)
from lightloom.machines.transports.transport import Transport, load_transport, names
from lightloom.machines.transports.ways import PROTOCOLS, REDUCTION, LibraryTask, Tasks, Tiers, task_of, ways

NCCL = [name for name in names() if name != "ideal"]
TIERS = Tiers(domain=8, bandwidth=370e9, network=48e9, reduction=True, memory=3.35e12)
SLOW_NETWORK = TIERS._replace(network=24e9)
"""The same with ports that are the bottleneck of every large collective."""
SIZES = 2.0 ** np.arange(3, 36)


def collective_seconds(tasks: list[LibraryTask], tiers: Tiers, transport: Transport) -> np.ndarray:
    """Return the seconds of each collective: [collectives]."""
    return seconds(columns(tasks, tiers, transport), Constants.of(transport))


def priced(kind: str, ranks: int, domains: int, transport: str = "nccl-hopper") -> np.ndarray:
    """Seconds at every size."""
    tasks = [LibraryTask(kind, ranks, domains, size) for size in SIZES]
    return collective_seconds(tasks, TIERS, load_transport(transport))


@pytest.mark.parametrize("name", NCCL)
@pytest.mark.parametrize("kind", CLASSIC)
@pytest.mark.parametrize(("ranks", "domains"), [(2, 1), (8, 1), (16, 2), (24, 3), (3, 3), (1024, 128)])
def test_every_kind_has_a_price_that_grows_with_bytes(kind: str, name: str, ranks: int, domains: int) -> None:
    prices = priced(kind, ranks, domains, name)
    assert np.isfinite(prices).all()
    assert (prices > 0).all()
    assert (np.diff(prices) >= 0).all()


@pytest.mark.parametrize("kind", CLASSIC)
def test_more_peers_are_never_quicker_where_latency_decides(kind: str) -> None:
    inside = [priced(kind, ranks, 1)[0] for ranks in (2, 3, 4, 6, 8)]
    across = [priced(kind, 8 * domains, domains)[0] for domains in (1, 2, 4, 8, 32)]
    assert inside == sorted(inside)
    assert across == sorted(across)


@pytest.mark.parametrize("kind", CLASSIC)
def test_large_collectives_take_at_least_what_a_port_carries(kind: str) -> None:
    """No way is quicker than each rank's own bytes over the domain's links, reductions in switches included."""
    nbytes, scales = 2.0**34, load_transport("nccl-hopper").scales
    least = nbytes / 8 if kind != "all-to-all" else nbytes * 7 / 8
    assert priced(kind, 8, 1)[-2] > least / (TIERS.bandwidth * max(1.0, scales.bandwidth))


@pytest.mark.parametrize("name", NCCL)
@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter"])
@pytest.mark.parametrize("domains", [2, 3, 8, 128])
def test_gathers_over_domains_never_exceed_the_ports_of_a_domain(kind: str, name: str, domains: int) -> None:
    """Bus bandwidth S (n - 1)/n over the time, as measured on every system of two nodes and more."""
    ranks, tiers, transport = 8 * domains, SLOW_NETWORK, load_transport(name)
    times = collective_seconds([LibraryTask(kind, ranks, domains, size) for size in SIZES], tiers, transport)
    reached = SIZES * (ranks - 1) / ranks / times
    ports = 8 * tiers.network * transport.scales.network_bandwidth
    assert (reached <= ports * (1 + 1e-12)).all()
    assert domains > 8 or reached[-1] > 0.95 * ports


def test_rails_are_a_way_of_gathers_only_where_a_transport_says_so() -> None:
    by_rings = load_transport("nccl-hopper")
    by_rails = by_rings.model_copy(update={"rails": True})
    tasks = [LibraryTask(kind, 16, 2, 2.0**34) for kind in CLASSIC]
    times = [collective_seconds(tasks, SLOW_NETWORK, transport) for transport in (by_rings, by_rails)]
    quicker = dict(zip(CLASSIC, (times[0] / times[1]).tolist(), strict=True))
    gathers = quicker.pop("all-gather"), quicker.pop("reduce-scatter")
    assert gathers == pytest.approx((15 / 8, 15 / 8), rel=0.01)
    assert set(quicker.values()) == {1.0}


@pytest.mark.parametrize("domains", [2, 4, 20])
def test_all_reduces_leave_a_rack_by_some_of_its_ports_and_all_pairs_by_all(domains: int) -> None:
    """At least S leaves each rack in an all-reduce, by eight cards at most; all-to-alls leave by all cards."""
    transport, rack, size = load_transport("nccl-blackwell"), Tiers(72, 720e9, 50e9, True), 2.0**36
    reduced, exchanged = collective_seconds(
        [LibraryTask(kind, 72 * domains, domains, size) for kind in ("all-reduce", "all-to-all")], rack, transport
    )
    card = rack.network * transport.scales.network_bandwidth
    assert size / 8 < reduced * card
    assert exchanged * card * transport.all_to_all_share == pytest.approx(size * (domains - 1) / domains, rel=0.02)


def test_adding_switches_carry_what_nvlink_sharp_does() -> None:
    """Each of 8 H100 moves 9/8 of the bytes at 0.85 of NCCL's link figure: 490 GB/s bus bandwidth (measured 482)."""
    transport = load_transport("nccl-hopper")
    ways = columns([LibraryTask("all-reduce", 8, 1, 2.0**34)], TIERS._replace(bandwidth=370.8e9), transport)
    row = ways.names[0].index("adding switches")
    assert 2 * 7 / 8 * 2.0**34 / ways.terms[4, row, 0] == pytest.approx(490e9, rel=0.01)


def test_ranks_alone_in_their_domains_need_few_steps() -> None:
    """An all-gather of nothing grows with the doublings of its ranks, and large ones still take rings."""
    few, many = (priced("all-gather", ranks, ranks) for ranks in (16, 256))
    assert many[0] < 2.5 * few[0]
    assert many[-1] == pytest.approx(few[-1] * (255 / 256) / (15 / 16), rel=0.05)
    together = columns(
        [LibraryTask("all-gather", 16, 2, 1.0), LibraryTask("all-gather", 16, 16, 1.0)], TIERS, load_transport(NCCL[0])
    )
    row = together.names[0].index("parallel trees")
    assert np.isfinite(together.terms[0, row]).tolist() == [False, True]


@given(
    latency=st.floats(1e-9, 1e-2),
    transmission=st.floats(0, 10),
    more=st.floats(1, 100),
    fill=st.floats(0.01, 3),
    limit=st.floats(0.1, 5),
)
def test_a_pipeline_fills_within_its_limit(
    latency: float, transmission: float, more: float, fill: float, limit: float
) -> None:
    def total(a: float, b: float) -> float:
        return float(pipelined(np.array(a), np.array(b), fill, limit))

    once = total(latency, transmission)
    assert latency + transmission <= once * (1 + 1e-12)
    assert once <= (latency + transmission + limit * latency) * (1 + 1e-12)
    assert once <= total(latency * more, transmission) * (1 + 1e-12)
    assert once <= total(latency, transmission * more) * (1 + 1e-12)
    assert total(latency * more, transmission * more) == pytest.approx(once * more, rel=1e-9)


def test_a_task_counts_domains_not_nodes_of_one_domain() -> None:
    rack = Tiers(72, 720e9, 50e9, True)
    assert task_of("all-reduce", 64, 16, 1.0, rack).domains == 1
    assert task_of("all-reduce", 144, 36, 1.0, rack).domains == 2
    assert task_of("all-reduce", 4, 4, 1.0, TIERS).domains == 4
    assert task_of("all-reduce", 16, 2, 1.0, TIERS).domains == 2


def test_a_system_without_a_network_has_no_price_across_domains() -> None:
    alone = TIERS._replace(network=math.inf)
    transport = load_transport("nccl-hopper")
    ways = columns([LibraryTask("all-reduce", 8, 1, 1e6)], alone, transport)
    assert np.isfinite(seconds(ways, Constants.of(transport))).all()


def test_names_and_files() -> None:
    assert load_transport("ideal").ideal
    assert set(NCCL) == {"nccl-ampere", "nccl-hopper", "nccl-blackwell"}
    for wrong in ("nccl", "nccl-volta", "mpi-hopper", "hopper"):
        with pytest.raises(UnknownNameError, match="nccl-hopper"):
            load_transport(wrong)


@pytest.mark.parametrize("number", range(11))
def test_a_sum_in_the_switch_takes_its_own_start_whatever_protocols_are_calibrated_to(number: int) -> None:
    """A factor of another protocol changes no way that the switch reduces; one of its own makes it slower."""
    transport = load_transport("nccl-hopper")
    tasks = [LibraryTask("all-reduce", 64, 8, size) for size in SIZES]
    constants = Constants.of(transport)
    factors = constants.factors.copy()
    factors[number] *= 2
    ways = columns(tasks, TIERS, transport)
    before, after = (seconds_of_ways(ways, each) for each in (constants, replace(constants, factors=factors)))
    reducing = ways.protocol == REDUCTION
    assert reducing.any() and np.isfinite(before[reducing]).any()
    own = number in (9, 10)
    assert np.array_equal(before[reducing], after[reducing]) != own


@pytest.mark.parametrize(("kind", "passes"), [("all-gather", 1), ("all-reduce", 2)])
def test_a_ring_takes_each_hop_once_inside_of_domains_or_between_them(kind: str, passes: int) -> None:
    """Without bytes to send, a ring around all ranks has n - 1 hops a pass, m - 1 of which leave a domain."""
    transport, ranks, domains = load_transport("nccl-hopper"), 64, 8
    ring = transport.protocols["Simple"].ring
    for way in ways(Tasks(kind, *np.array([[ranks], [domains], [1.0]])), TIERS, transport):
        if way.name == "ring Simple":
            step = max(ring.domain_step, transport.protocols["Simple"].least_domain_step)
            assert way.domain_steps == pytest.approx(passes * (ranks - domains) * step)
            assert way.network_steps == pytest.approx(passes * (domains - 1) * ring.network_step)


@pytest.mark.parametrize(("ranks", "domains"), [(4, 1), (8, 4), (16, 2), (4, 4), (3, 3)])
@pytest.mark.parametrize("kind", ["all-reduce", "all-gather", "all-to-all", "broadcast"])
def test_ways_move_the_bytes_and_take_the_steps_of_their_kind(kind: str, ranks: int, domains: int) -> None:
    """The table of the module, with three ranks at most that leave a domain and links of 1 GB/s and 100 MB/s."""
    n, m, g, size = ranks, domains, ranks // domains, 1e9
    transport = load_transport("nccl-blackwell").model_copy(update={"rails": True, "leaving_ranks": 3})
    tiers, leaving, doublings = Tiers(8, 1e9, 1e8, True, 1e10), min(g, 3), math.log2(m)
    found = {way.name: way for way in ways(Tasks(kind, *np.array([[n], [m], [size]])), tiers, transport)}
    passes = {"all-reduce": 2, "all-gather": 1, "broadcast": 1}.get(kind, 0)
    kinds = {
        "all-reduce": ["adding switches", *(f"{way} {name}" for way in ("ring", "tree") for name in PROTOCOLS)],
        "all-gather": ["parallel trees", "rails Simple", *(f"ring {name}" for name in PROTOCOLS)],
        "all-to-all": ["all pairs LL", "all pairs Simple"],
        "broadcast": [f"chain {name}" for name in PROTOCOLS],
    }
    assert sorted(found) == sorted(kinds[kind])

    def check(name: str, steps: float, across: float, inside_bytes: float, across_bytes: float) -> None:
        """Both seconds are those of the bytes at all of the bandwidth; a network carries nothing in one domain."""
        way = found[name]
        assert np.allclose(way.domain_steps, steps) and np.allclose(way.network_steps, across)
        assert np.allclose(way.domain_seconds, inside_bytes / 1e9)
        assert np.allclose(way.network_seconds, across_bytes / 1e8 if m > 1 else 0.0)

    for name in PROTOCOLS:
        protocol = transport.protocols[name]
        share = protocol.share
        if passes:
            moved = size if kind == "broadcast" else passes * size * (n - 1) / n
            least = protocol.least_domain_step if m > 1 and kind != "broadcast" else 0.0
            hops = passes * (n - 1) - passes * (m - 1), passes * (m - 1)
            ring = f"{'chain' if kind == 'broadcast' else 'ring'} {name}"
            reached = share
            if name == "LL" and transport.generation is not None:
                reached = min(share, transport.generation.low_latency_ceilings[min(m, 3) - 1] / 1e9)
            step = max(protocol.ring.domain_step, least)
            network = protocol.ring.network_step
            check(ring, hops[0] * step, hops[1] * network, moved / reached, moved / share / leaving)
            assert found[ring].base == protocol.ring.base
        if kind == "all-reduce":
            tree = protocol.tree
            part = protocol.tree_share if m == 1 else protocol.network_tree_share
            edges = 2 * size * (m - 1) / m / part / leaving
            check(
                f"tree {name}",
                2 * (g - 1) * tree.domain_step,
                2 * doublings * tree.network_step,
                2 * size / part,
                edges,
            )
            assert found[f"tree {name}"].base == tree.base
        if kind == "all-to-all" and name != "LL128":
            latencies = protocol.ring
            check(
                f"all pairs {name}",
                latencies.domain_step,
                latencies.network_step if m > 1 else 0.0,
                size * (n - 1) / n / share,
                size * (n - g) / n / share,
            )
            assert found[f"all pairs {name}"].posts == n - 1
    own = {"all-reduce": 2, "all-gather": 2, "all-to-all": 1}.get(kind, 0) * size / n / 1e10
    assert all(np.allclose(way.copy_seconds, own) for way in found.values() if way.protocol != REDUCTION)
    bare = list(ways(Tasks(kind, *np.array([[n], [m], [size]])), tiers._replace(memory=None), transport))
    assert [way.copy_seconds for way in bare] == [0.0] * len(found)
    if kind == "all-gather":
        rail, trees = transport.protocols["Simple"].ring, transport.parallel_trees
        assert trees is not None
        check(
            "rails Simple",
            (g - 1) * rail.domain_step,
            (m - 1) * rail.network_step,
            size * (g - 1) / g,
            size * (m - 1) / m / leaving,
        )
        check(
            "parallel trees",
            0.0,
            math.ceil(math.log2(n)) * trees.network_step,
            0.0,
            size * (n - 1) / n / trees.share,
        )
        assert found["rails Simple"].served == (1 < m < n)
        assert found["parallel trees"].served == (m == n)
    if kind == "all-reduce":
        reduction, generation = transport.reduction, transport.generation
        assert reduction is not None and generation is not None
        check(
            "adding switches",
            reduction.domain_step,
            2 * doublings * reduction.network_step,
            size * (1 + 1 / g) / generation.reduction_share,
            2 * size * (m - 1) / m / leaving,
        )
        assert found["adding switches"].served == (g > 2)
