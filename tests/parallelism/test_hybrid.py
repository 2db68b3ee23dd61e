"""Groups repeat a placement: what they exchange, and the corners of one device and of one group."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from benchmarks.placement import random_case

from lightloom.core.errors import ConfigError
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.planning.parallelism.placement.cuts import PartitionRules, _received
from lightloom.planning.parallelism.placement.place import partition, place
from lightloom.planning.parallelism.placement.placement import (
    BalancedGraph,
    HybridPlan,
    Link,
    Placement,
    Reach,
    _activation_bytes,
    _step_bytes,
)
from lightloom.planning.parallelism.plan import data_parallel
from tests.parallelism.test_partition import network, seconds
from tests.parallelism.test_placement import fan

LINK = Link(bandwidth=1e15)


def planned(balanced: BalancedGraph, k: int, groups: int, reach: Reach) -> HybridPlan:
    return HybridPlan(place(balanced, k, reach, None, LINK), balanced, k, groups)


def test_figure_4_keeps_its_degrees() -> None:
    """k = 4, l = 2, D = 3: at most Δ = 2 others in the group, and one more for data parallelism."""
    plan = planned(fan(4, 1, 4, 2, nbytes=1e3), 4, 2, Reach(2))
    model, data = plan.traffic
    assert model.shape == data.shape == (8, 8)
    for matrix, most in ((model, 2), (data, 1), (plan.traffic.total, 3)):
        for axis in (0, 1):
            assert (matrix != 0).sum(axis=axis).max() <= most
    assert (model + model.T != 0).sum(axis=0).max() <= 2
    # Groups are alike and exchange nothing but the sums of their gradients, each with its counterpart.
    dense = model.toarray()
    assert np.array_equal(dense[:4, :4], dense[4:, 4:])
    assert not dense[:4, 4:].any()
    assert {tuple(pair) for pair in np.argwhere(data.toarray())} <= {(r, (r + 4) % 8) for r in range(8)}


@pytest.mark.parametrize("groups", [1, 2, 5])
def test_one_device_a_group_is_data_parallelism(groups: int) -> None:
    graph = network("linear", "activation", "linear", "norm", parameters=123)
    balanced = partition(graph, seconds(graph), 1, 0.0)
    plan = planned(balanced, 1, groups, Reach(1))
    settings = TrainingSettings(batch_per_rank=8)
    exchanged = sum(exchange.nbytes for exchange in data_parallel(graph, groups, settings).exchanges)
    assert plan.gradient_bytes.tolist() == [exchanged]
    assert plan.traffic.model_parallel.nnz == 0
    sent = plan.traffic.data_parallel.sum(axis=1)
    assert np.allclose(sent, 2 * (groups - 1) / groups * exchanged)


def test_one_group_is_model_parallelism() -> None:
    graph = network("linear", "linear", "norm")
    plan = planned(partition(graph, seconds(graph), 4, 0.0), 4, 1, Reach(3))
    assert plan.traffic.data_parallel.nnz == 0
    assert plan.ranks == 4


@pytest.mark.parametrize("k", [2, 4, 8])
def test_owned_gradients_are_all_of_them_whoever_holds_copies(k: int) -> None:
    graph = network("linear", "norm", "linear", "activation", parameters=997)
    balanced = partition(graph, seconds(graph), k, 0.0)
    plan = planned(balanced, k, 3, Reach(k - 1))
    assert plan.gradient_bytes.sum() == graph.parameters * balanced.gradient_bytes
    assert plan.traffic.data_parallel.sum() == pytest.approx(3 * 2 * 2 / 3 * plan.gradient_bytes.sum())


def test_traffic_is_symmetric_and_counts_equal_contents_once() -> None:
    # Two parts on one device read the same whole output of the other: it is sent once, its gradient returns once.
    balanced = fan(1, 2, nbytes=100.0)
    placement = place(balanced, 2, Reach(1), 2.0, LINK)
    assert len(set(placement.device[1:].tolist())) == 2
    together = HybridPlan(_moved(placement, [0, 1, 1]), balanced, 2, 1).traffic.model_parallel.toarray()
    assert together.tolist() == [[0.0, 100.0], [100.0, 0.0]]
    stride = fan(1, 2, nbytes=100.0)
    stride.content[:] = [1, 2]
    other = HybridPlan(_moved(placement, [0, 1, 1]), stride, 2, 1).traffic.model_parallel.toarray()
    assert other.tolist() == [[0.0, 200.0], [200.0, 0.0]]


@pytest.mark.parametrize("seed", range(8))
def test_every_content_crosses_once_to_each_device_and_copies_meet_their_neighbours(seed: int) -> None:
    """Whatever the order in which sub-operators read what; looked at edge by edge."""
    rng, k, size = np.random.default_rng(seed), 4, 20
    balanced = random_case(rng, size, k).balanced
    content = rng.integers(0, 3, len(balanced.parent))
    nbytes = 1.0 + balanced.parent + 100.0 * content
    synchronised = np.where(rng.random(size) < 0.4, rng.integers(1, 9, size) * 1e4, 0.0) * (np.arange(size) > 0)
    balanced = replace(balanced, content=content, nbytes=nbytes, synchronised=synchronised)
    device, dropped = rng.integers(0, k, size, np.int32), rng.random(size) < 0.5
    received = {
        (int(y), int(c), int(device[x])): n
        for x in range(size)
        for y, c, n in zip(
            *(column[slice(*balanced.parent_start[x : x + 2])] for column in (balanced.parent, content, nbytes)),
            strict=True,
        )
        if device[y] != device[x]
    }
    activations, held = np.zeros((k, k)), np.zeros(k)
    for (y, _, to), n in received.items():
        activations[device[y], to] += n
        held[to] += n * dropped[y]
    activations += activations.T
    assert np.allclose(_activation_bytes(balanced, device, k).toarray(), activations)
    assert np.allclose(_received(balanced, device, dropped, k), held)
    for x in range(1, size):
        if device[x - 1] != device[x]:
            activations[device[x - 1], device[x]] += synchronised[x]
            activations[device[x], device[x - 1]] += synchronised[x]
    assert np.allclose(_step_bytes(balanced, device, k).toarray(), activations)


def test_copies_exchange_their_gradients_with_the_neighbouring_part() -> None:
    graph = network("activation", "linear", parameters=10)
    balanced = partition(graph, seconds(graph), 4, 0.0, PartitionRules(gradient_bytes=2))
    plan = planned(balanced, 4, 1, Reach(2))
    order = plan.placement.device[4:]
    assert plan.placement.device[:4].tolist() == order.tolist()
    expected = np.zeros((4, 4))
    for a, b in pairwise(order.tolist()):
        expected[a, b] = expected[b, a] = 20.0
    assert np.array_equal(plan.traffic.model_parallel.toarray(), expected)


def test_a_plan_for_another_number_of_devices_is_refused() -> None:
    balanced = fan(2, 2)
    placement = place(balanced, 2, Reach(1), None, LINK)
    for k, groups in ((4, 1), (2, 0)):
        with pytest.raises(ConfigError, match="expected k = 2, l of at least 1"):
            HybridPlan(placement, balanced, k, groups)


def _moved(placement: Placement, device: list[int]) -> Placement:
    return replace(placement, device=np.array(device, np.int32))
