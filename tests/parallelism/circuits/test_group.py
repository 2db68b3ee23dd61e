"""One group stands for all: rings that repeat, what the worst-served group has, ways over others' circuits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import dijkstra

from lightloom.core.arrays import Floats
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh
from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.planning.parallelism.circuits import ring
from lightloom.planning.parallelism.circuits.circuits import Circuits, GroupCircuits, Timing, Traffic
from lightloom.planning.parallelism.circuits.group import grant, grants, regrants, worst_group
from lightloom.planning.parallelism.circuits.ring import assign_tiled, longest_tiled
from lightloom.planning.parallelism.circuits.verify import verify
from lightloom.planning.parallelism.placement.placement import HybridPlan
from tests.collectives.strategies import two_tiers
from tests.parallelism.test_placement import fan
from tests.simulation.placed_plans import pipes, plan_of, random_graph

seeds = st.integers(0, 2**32 - 1)


def drawn(seed: int, k: int, groups: int) -> HybridPlan:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 12)
    return plan_of(graph, rng.integers(0, k, graph.size), k, groups)


def dense(plan: HybridPlan) -> Floats:
    """Bytes [k, 2 k] that a group sends, k + d being device d of the next group."""
    model = plan.traffic.model_parallel
    found = np.zeros((plan.k, 2 * plan.k))
    found[:, : plan.k] = model[: plan.k, : plan.k].toarray()
    if plan.groups > 1:
        found[np.arange(plan.k), plan.k + np.arange(plan.k)] = plan.all_reduce_bytes
    return found


@settings(max_examples=40, deadline=None)
@given(seed=seeds, k=st.integers(1, 7), groups=st.integers(2, 5), holds=st.sampled_from([1, 2, 3, 8]))
def test_tiled_rings_are_verified_and_alike_in_all_groups(seed: int, k: int, groups: int, holds: int) -> None:
    plan = drawn(seed, k, groups)
    fabric = WdmRing(ranks=plan.ranks, wavelengths=int(np.random.default_rng(seed).integers(4, 40)))
    traffic = Traffic.of(plan.traffic.total)
    found = assign_tiled(traffic, fabric, k, holds)
    verify(found.circuits, fabric)
    assert -1e-9 <= found.gap <= 1
    counts = found.circuits.counts(traffic)
    assert counts.sum() == len(found.circuits), "a circuit serves no pair"
    again = traffic.find((traffic.source + k) % plan.ranks, (traffic.destination + k) % plan.ranks)
    assert np.array_equal(counts[:, again], counts)
    # Nothing could be added: for every pair some link is full on every channel.
    wanted = np.bincount(_cells(found.circuits, fabric), minlength=fabric.links)
    for source, destination in zip(traffic.source[:4].tolist(), traffic.destination[:4].tolist(), strict=True):
        ways = [_links(fabric, source, destination, way) for way in (0, 1)]
        assert any((wanted[way] == fabric.channels * holds).any() for way in ways)


@settings(max_examples=25, deadline=None)
@given(seed=seeds, k=st.integers(1, 7), groups=st.integers(2, 5))
def test_the_longest_are_served_alike_in_all_groups_and_no_more_than_they_can_fill(
    seed: int, k: int, groups: int
) -> None:
    plan = drawn(seed, k, groups)
    fabric = WdmRing(ranks=plan.ranks, wavelengths=6)
    traffic = Traffic.of(plan.traffic.total)
    again = traffic.find((traffic.source + k) % plan.ranks, (traffic.destination + k) % plan.ranks)
    most = np.random.default_rng(seed).integers(1, 4, len(traffic))
    for _ in range(groups):
        most = np.minimum(most, most[again])
    circuits = longest_tiled(traffic, fabric, k, most)
    verify(circuits, fabric)
    counts = circuits.counts(traffic)[0]
    assert np.array_equal(counts[again], counts)
    assert (counts <= most).all()
    assert counts[traffic.nbytes.argmax()] > 0


def _links(fabric: Fabric, source: int, destination: int, route: int) -> Any:
    run = fabric.footprint(np.array([source]), np.array([destination]), np.array([route]))
    return (run.base + (run.start + np.arange(int(run.length[0, 0]))) % run.period)[0]


def _cells(circuits: Circuits, fabric: Fabric) -> Any:
    ends = zip(circuits.source.tolist(), circuits.destination.tolist(), circuits.route.tolist(), strict=True)
    return np.concatenate([_links(fabric, *each) for each in ends])


@pytest.mark.parametrize(("k", "groups", "wavelengths"), [(4, 3, 16), (6, 2, 24), (5, 4, 40)])
def test_tiled_rings_come_near_the_bound_in_turns(k: int, groups: int, wavelengths: int) -> None:
    plan = drawn(k, k, groups)
    fabric = WdmRing(ranks=plan.ranks, wavelengths=wavelengths)
    traffic = Traffic.of(plan.traffic.total)
    gaps = [assign_tiled(traffic, fabric, k, holds).gap for holds in (1, 8)]
    assert gaps[1] <= gaps[0]
    assert gaps[1] < 0.2


@settings(max_examples=25, deadline=None)
@given(seed=seeds, k=st.integers(2, 5), groups=st.integers(1, 4))
def test_a_pipe_is_what_the_worst_served_group_has(seed: int, k: int, groups: int) -> None:
    plan = drawn(seed, k, groups)
    fabric = WdmRing(ranks=plan.ranks, wavelengths=24, hop_latency=1e-7, conversion_time=1e-6)
    assignment = ring.assign(Traffic.of(plan.traffic.total), fabric, 2)
    found = worst_group(plan, assignment, fabric, Timing(1e-3, 1e-4))
    circuits = assignment.circuits
    assert sorted(zip(found.source.tolist(), found.destination.tolist(), strict=True)) == [
        (int(a), int(b)) for a, b in np.argwhere(dense(plan) > 0)
    ]
    for pipe, (a, b) in enumerate(zip(found.source.tolist(), found.destination.tolist(), strict=True)):
        for hold in range(2):
            counts = [
                np.sum(
                    (circuits.hold == hold)
                    & (circuits.source == g * k + a)
                    & (circuits.destination == (g * k + b) % plan.ranks)
                )
                for g in range(groups)
            ]
            assert found.bandwidth[hold, pipe] == min(counts) * fabric.channel_bandwidth
    assert (found.latency[found.bandwidth.max(axis=0) > 0] >= 1.1e-6).all()
    assert np.allclose(found.mean_bandwidth, found.bandwidth.mean(axis=0) / 1.1)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, k=st.integers(2, 7), share=st.floats(0.1, 0.6))
def test_ways_are_shortest_and_lead_where_they_should(seed: int, k: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 1)
    circuits = pipes(plan_of(graph, np.zeros(graph.size), k, 2), rng.lognormal(0, 1, k * k))
    circuits.bandwidth[0, rng.random(k * k) > share] = 0.0
    lit = np.flatnonzero(circuits.bandwidth[0])
    ends = np.zeros((2 * k, 2 * k))
    ends[circuits.source[lit], circuits.destination[lit]] = 1
    ends[k:, k:] = ends[:k, :k]
    hops = dijkstra(ends, unweighted=True)
    for a in range(k):
        for b in range(2 * k):
            pair = np.array([a]), np.array([b])
            if np.isinf(hops[a, b]):
                with pytest.raises(UnsupportedError, match=f"device {a} has no circuit to device .* larger degree"):
                    circuits.paths(*pair)
                continue
            start, way = circuits.paths(*pair)
            assert start.tolist() == [0, hops[a, b]]
            at = a
            for pipe in way.tolist():
                assert circuits.source[pipe] == at % k
                at = at - at % k + int(circuits.destination[pipe])
            assert at == b


def test_a_switch_with_few_planes_leaves_pairs_to_relays() -> None:
    """Everybody sends to everybody: three peers, and two planes."""
    plan = plan_of(fan(4, 4, nbytes=1e6), [0, 1, 2, 3] * 2, 4, 1)
    enough = grant(plan, CircuitSwitch(ranks=4, degree=3, bandwidth=1e9))
    few = grant(plan, CircuitSwitch(ranks=4, degree=2, bandwidth=1e9))
    assert (enough.bandwidth > 0).all()
    assert (few.bandwidth == 0).sum() == 4
    start, _ = few.paths(few.source, few.destination)
    assert np.diff(start).max() == 2
    with pytest.raises(UnsupportedError, match="no path over others' circuits in any hold"):
        grant(drawn(3, 5, 2), CircuitSwitch(ranks=10, degree=1, bandwidth=1e9))


@settings(max_examples=15, deadline=None)
@given(seed=seeds, k=st.integers(1, 6), groups=st.integers(1, 4), wavelengths=st.integers(2, 40))
def test_whatever_a_ring_grants_reaches_everybody(seed: int, k: int, groups: int, wavelengths: int) -> None:
    plan = drawn(seed, k, groups)
    if plan.ranks < 2:
        return
    fabric = WdmRing(ranks=plan.ranks, wavelengths=wavelengths)
    found = grants(plan, fabric)
    wanted = np.argwhere(dense(plan) > 0)
    for granted in found:
        start, _ = granted.paths(wanted[:, 0], wanted[:, 1])
        assert (np.diff(start) > 0).all()
        assert (granted.timing is None) == (len(granted.bandwidth) == 1)
    chosen = grant(plan, fabric)
    assert any(np.array_equal(chosen.bandwidth, each.bandwidth) for each in found)


def test_packet_switches_have_pipes_of_their_ports() -> None:
    plan = drawn(1, 4, 4)
    star = grant(plan, PacketSwitch(ranks=16, bandwidth=5e9, hop_latency=1e-6))
    assert (star.bandwidth == 5e9).all()
    assert (star.latency == 2e-6).all()
    assert np.array_equal(star.port, star.source)
    assert np.array_equal(star.entry, star.destination % plan.k)
    tiers = two_tiers(ranks=16, domain_size=4, domain_bandwidth=8e9, bandwidth=2e9, taper=2, hop_latency=1e-6)
    found = grant(plan, tiers)
    inside = found.destination < 4
    assert (found.bandwidth[0, inside] == 8e9).all()
    assert (found.bandwidth[0, ~inside] == 1e9).all()
    assert (found.latency[~inside] == 4e-6).all()
    assert not set(found.port[inside].tolist()) & set(found.port[~inside].tolist())
    assert not set(found.entry[inside].tolist()) & set(found.entry[~inside].tolist())
    assert np.array_equal(found.entry % plan.k, found.destination % plan.k)
    # Groups that reach over domains are as slow as the slowest of them.
    across = grant(drawn(1, 8, 2), tiers)
    assert set(across.bandwidth[0, across.source // 4 == across.destination // 4].tolist()) == {8e9}
    assert set(across.bandwidth[0, across.source // 4 != across.destination // 4].tolist()) == {1e9}


def test_what_has_no_pipes_is_refused() -> None:
    plan = drawn(0, 2, 2)
    with pytest.raises(UnsupportedError, match="the plan is for 4 ranks, but the fabric has 8"):
        grant(plan, PacketSwitch(ranks=8))
    with pytest.raises(
        UnsupportedError,
        match="on mesh: expected wavelengths around a sound ring",
    ):
        grant(plan, Mesh(ranks=4))
    with pytest.raises(UnsupportedError, match="8 transceivers a rank: expected none stated, or at least the 128"):
        grant(plan, WdmRing(ranks=4, transceivers=8))
    with pytest.raises(UnsupportedError, match="on a switch of 4 ranks: expected wavelengths"):
        regrants(plan, PacketSwitch(ranks=4))


def test_a_plan_that_sends_nothing_needs_no_circuits() -> None:
    graph = replace(random_graph(np.random.default_rng(0), 4, copied=0.0))
    plan = plan_of(graph, np.zeros(graph.size), 2, 1)
    for fabric in (PacketSwitch(ranks=2), WdmRing(ranks=2), CircuitSwitch(ranks=2)):
        assert len(grant(plan, fabric).source) == 0


@pytest.mark.parametrize("fabric", [WdmRing(ranks=12, wavelengths=8), CircuitSwitch(ranks=12, degree=3)])
def test_the_next_hold_goes_to_those_who_wait(fabric: Fabric) -> None:
    circuits, regrant = regrants(drawn(2, 4, 3), fabric)
    assert isinstance(circuits, GroupCircuits)
    for pipe in range(len(circuits.source)):
        waiting = np.zeros(len(circuits.source))
        waiting[pipe] = 1e12
        granted = regrant(waiting)
        assert granted[pipe] > 0
        assert np.count_nonzero(granted) == 1
    # The one that waits longest is served, however many wait.
    waiting = np.full(len(circuits.source), 1e9)
    waiting[5] = 2e9
    assert regrant(waiting)[5] > 0
