"""Laws of a simulated step."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import UnsupportedError
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics.load import load_fabric
from lightloom.models.graph import ComputeGraph
from lightloom.planning.parallelism.plan import ParallelPlan, make_plan
from lightloom.planning.simulation.engine import (
    Price,
    Priced,
    StepResult,
    circuits_in_place,
    sending_energy,
    simulate_step,
)
from tests.parallelism.strategies import chain, graphs
from tests.simulation.prices import cost, linear, prices

CHIP = Accelerator(peak={"bf16": 1e14}, memory_bandwidth=1e12, kernel_launch=1e-6, memory=1e10, power=500)
RING = load_fabric("wdm-ring", 8)
SMALL = {"bucket_size": 1e6, "first_bucket_size": 1e5, "unit_parameters": 100_000}
strategies = st.sampled_from(["ddp", "fsdp"])
FREE: Price = linear(math.inf)


def plan(strategy: str, graph: ComputeGraph, **settings: Any) -> ParallelPlan:
    return make_plan(strategy, graph, 8, TrainingSettings(**(SMALL | settings)))


def step(made: ParallelPlan, price: Price, *, overlap: bool = True) -> StepResult:
    return simulate_step(made, CHIP, RING, price, overlap=overlap)


@settings(deadline=None)
@given(strategy=strategies, graph=graphs(), price=prices, prefetch=st.integers(0, 2))
def test_between_the_longer_part_and_the_sum(strategy: str, graph: ComputeGraph, price: Price, prefetch: int) -> None:
    result = step(plan(strategy, graph, prefetch=prefetch), price)
    compute, network = result.compute_time, result.communication_time
    assert result.step_time >= max(compute, network) * (1 - 1e-12)
    assert result.step_time <= (compute + network) * (1 + 1e-12)
    assert math.isclose(sum(result.breakdown.values()), result.step_time, rel_tol=1e-12)
    assert result.breakdown["idle_s"] <= 1e-12 * result.step_time


@settings(deadline=None)
@given(strategy=strategies, graph=graphs(), price=prices)
def test_overlap_never_hurts_and_without_it_the_parts_add_up(strategy: str, graph: ComputeGraph, price: Price) -> None:
    made = plan(strategy, graph)
    serial, overlapped = step(made, price, overlap=False), step(made, price)
    assert serial.step_time >= overlapped.step_time * (1 - 1e-12)
    assert math.isclose(serial.step_time, serial.compute_time + serial.communication_time, rel_tol=1e-9)


@settings(deadline=None)
@given(
    strategy=strategies,
    graph=graphs(),
    setup=st.sampled_from([0.0, 1e-3]),
    later=st.sampled_from([0.0, 1e-4]),
)
def test_a_serial_step_is_the_sum_of_its_closed_forms(
    strategy: str, graph: ComputeGraph, setup: float, later: float
) -> None:
    made = plan(strategy, graph)

    def price(kind: str, nbytes: float) -> Priced:
        return Priced(cost=cost(nbytes / 1e10, setup, later, conversion=1e-6))

    expected = 28 * made.updated_parameters / 0.5e12 + sum(price(e.kind, e.nbytes).cost.time for e in made.exchanges)
    for op in made.graph.operators:
        times = op.backward_flops / op.forward_flops if op.forward_flops else 1
        for flops, nbytes in (
            (op.forward_flops, op.forward_bytes),
            (op.backward_flops, times * op.forward_bytes),
        ):
            busy = max(flops / 0.5e14, nbytes / 0.5e12)
            expected += busy + 1e-6 if busy else 0
    assert step(made, price, overlap=False).step_time == pytest.approx(expected, rel=1e-9)


@settings(deadline=None)
@given(strategy=strategies, graph=graphs())
def test_a_free_network_leaves_the_computing(strategy: str, graph: ComputeGraph) -> None:
    result = step(plan(strategy, graph), FREE)
    assert result.step_time == pytest.approx(result.breakdown["compute_s"], rel=1e-12)
    assert result.communication_time == 0


@settings(deadline=None)
@given(strategy=strategies, graph=graphs(), setup=st.sampled_from([0.0, 1e-3]), prefetch=st.integers(0, 2))
def test_more_bandwidth_never_hurts(strategy: str, graph: ComputeGraph, setup: float, prefetch: int) -> None:
    made = plan(strategy, graph, prefetch=prefetch)
    times = [step(made, linear(b, setup=setup)).step_time for b in (1e8, 1e9, 1e10, 1e12)]
    assert all(slow >= fast * (1 - 1e-12) for slow, fast in pairwise(times))


@settings(deadline=None)
@given(graph=graphs())
def test_prefetching_never_hurts_where_the_network_never_waits_for_scatters(graph: ComputeGraph) -> None:
    def price(kind: str, nbytes: float) -> Priced:
        return Priced(cost=cost(nbytes / 1e10 if kind == "all-gather" else 0.0))

    times = [step(plan("fsdp", graph, prefetch=depth), price).step_time for depth in (0, 1, 2)]
    assert all(late >= early * (1 - 1e-12) for late, early in pairwise(times))


@settings(deadline=None)
@given(strategy=strategies, graph=graphs(), scale=st.sampled_from([0.5, 4.0]))
def test_everything_slower_is_slower_in_proportion(strategy: str, graph: ComputeGraph, scale: float) -> None:
    made = plan(strategy, graph)
    slow = Accelerator(peak={"bf16": 1e14 / scale}, memory_bandwidth=1e12 / scale, kernel_launch=1e-6 * scale)
    scaled = simulate_step(made, slow, RING, linear(1e10 / scale, latency=1e-5 * scale, setup=1e-4 * scale))
    plain = step(made, linear(1e10, latency=1e-5, setup=1e-4))
    assert scaled.step_time == pytest.approx(scale * plain.step_time, rel=1e-9)


def test_ddp_hides_all_but_the_last_bucket() -> None:
    # Two operators of 1 s forward and 2 s (1 s for the first: no gradient of its input) backward, buckets of
    # 0.5 s.
    graph = chain([(1_000_000, 10**14, 0), (1_000_000, 10**14, 0)])
    made = plan("ddp", graph, optimizer_traffic_bytes=0)
    chip = Accelerator(peak={"bf16": 1e14}, efficiency=1)
    result = simulate_step(made, chip, RING, linear(8e6))
    assert result.step_time == pytest.approx(1 + 1 + 2 + 1 + 0.5)
    assert result.breakdown["exposed_communication_s"] == pytest.approx(0.5)
    assert result.communication_time == pytest.approx(1.0)


def test_fsdp_order_of_the_network() -> None:
    graph = chain([(1_000_000, 10**12, 0)] * 3)
    names = [each.name for each in step(plan("fsdp", graph), linear(1e9)).timeline.on("network")]
    gathers = [f"all-gather unit {u} forward" for u in range(3)]
    assert names == [
        *gathers,
        "all-gather unit 1 backward",
        "reduce-scatter unit 2",
        "all-gather unit 0 backward",
        "reduce-scatter unit 1",
        "reduce-scatter unit 0",
    ]


@pytest.mark.parametrize(
    ("strategy", "circuits", "later", "setups"),
    [
        ("ddp", "ring", 0.0, 0),  # one set of circuits for the whole job: always in place
        ("ddp", None, 0.0, 3),  # nothing is known about the circuits
        ("ddp", "ring", 1e-3, 3),  # a schedule that changes circuits leaves others behind
        ("fsdp", "{kind}", 0.0, 4),  # | gather gather gather gather | scatter | gather | scatter scatter
        ("fsdp", "ring", 0.0, 0),
    ],
)
def test_circuits_are_set_up_only_where_they_change(
    strategy: str, circuits: str | None, later: float, setups: int
) -> None:
    graph = chain([(1_000_000, 10**12, 0)] * 3)
    result = step(plan(strategy, graph), linear(1e9, setup=1e-3, later=later, circuits=circuits))
    found = [each for each in result.timeline.intervals if each.name.startswith("set up")]
    assert len(found) == setups


def test_set_up_happens_while_the_gradients_are_computed() -> None:
    graph = chain([(1_000_000, 10**14, 0)])
    made = plan("ddp", graph, optimizer_traffic_bytes=0)
    result = step(made, linear(1e9, setup=0.5))
    assert result.breakdown["exposed_reconfiguration_s"] == 0
    assert result.busy_time["reconfiguration"] == 0.5
    assert step(made, linear(1e9, setup=0.5), overlap=False).breakdown["exposed_reconfiguration_s"] == 0.5


def test_coding_lengthens_the_collective_before_and_after_sending() -> None:
    made = plan("ddp", chain([(1_000_000, 10**14, 0)]), optimizer_traffic_bytes=0)
    plain, coded = step(made, linear(1e9)), step(made, linear(1e9, codec=0.5))
    assert coded.step_time == pytest.approx(plain.step_time + 0.5 + 0.25)
    order = [each.name.split()[0] for each in coded.timeline.intervals]
    assert order == ["op0", "op0", "encode", "all-reduce", "decode", "optimizer"]
    assert coded.compute_time == plain.compute_time
    assert coded.communication_time == pytest.approx(plain.communication_time + 0.75)


def test_joules_of_sending_are_the_sum_over_the_collectives() -> None:
    made = plan("ddp", chain([(1_000_000, 10**12, 10)] * 3))
    assert len(made.exchanges) == 3
    joules = iter((1.0, 2.0, 4.0))

    def sourced(kind: str, nbytes: float) -> Priced:
        return Priced(cost=replace(cost(1e-3), energy=next(joules)))

    assert step(made, sourced).sent_joules == 7.0
    mixed = iter((1.0, None, 4.0))
    partly = step(made, lambda kind, nbytes: Priced(cost=replace(cost(1e-3), energy=next(mixed))))
    assert partly.sent_joules is None
    assert step(plan("ddp", chain([(0, 10**12, 10)])), linear(1e9)).sent_joules == 0


def test_sending_takes_energy_once_a_lightpath_and_once_a_link_of_packets() -> None:
    nbytes, source, destination = np.array([10.0, 100.0]), np.array([0, 0]), np.array([1, 3])
    lit = RING.model_copy(update={"energy_per_bit": 1e-12})
    assert sending_energy(lit, nbytes, source, destination) == pytest.approx(110 * 8e-12)
    packets = load_fabric("ring", 8).model_copy(update={"energy_per_bit": 1e-12})
    hops = packets.wire_bytes(1.0) * (10 * 1 + 100 * 3)
    assert sending_energy(packets, nbytes, source, destination) == pytest.approx(hops * 8e-12)
    assert sending_energy(RING, nbytes, source, destination) is None


def test_a_step_holds_its_figures() -> None:
    result = step(plan("ddp", chain([(1_000_000, 10**12, 10)])), linear(1e9, setup=1e-3, codec=1e-3))
    assert result.communication_time == pytest.approx(1e-3 * (1 + 1.5) + 4e6 / 1e9)
    assert result.breakdown == result.timeline.breakdown()
    assert simulate_step(plan("ddp", chain([(0, 0, 0)])), CHIP, RING, FREE).step_time == 0.0


def test_ranks_must_agree() -> None:
    with pytest.raises(UnsupportedError, match="4 ranks, but the fabric has 8"):
        simulate_step(make_plan("ddp", chain([(1, 1, 1)]), 4), CHIP, RING, FREE)


def test_circuits_stay_where_both_collectives_stand_on_the_same_ones() -> None:
    """Of the collective before, which is the last one for the first."""
    kinds = list(product((None, "a", "b"), (True, False)))
    for one, other, third in product(kinds, kinds, [("a", True), ("b", False)]):
        priced: list[Any] = [
            SimpleNamespace(circuits=c, cost=SimpleNamespace(static=s)) for c, s in (one, other, third)
        ]
        for index, (before, this) in enumerate(((third, one), (one, other), (other, third))):
            expected = this[0] is not None and before[0] == this[0] and before[1] and this[1]
            assert circuits_in_place(priced, index) == expected
