"""What replicas shard, what that exchanges and holds, and how stages send to each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.parallelism.strategy_space import SHARDINGS, Strategies, Strategy, canonical, state_sharers
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.step import (
    ReplicaExchanges,
    UnitExchanges,
    exposed_backward,
    exposed_forward,
)
from lightloom.planning.pricing.strategy_step import exact_stage_times, simulate, strategy_joules
from lightloom.planning.search.bounds import admitted, bounds, memory
from lightloom.planning.simulation.link_turns import Pass
from tests.planner.jobs import job, transformer, verified_job, with_model
from tests.simulation.prices import linear

ROW = Strategy(4, 2, 1, 2, 64, "none", "none", "ring-two-way", 0)
SETTINGS = TrainingSettings()


def two_tier(hidden: int = 256, ranks: int = 32, blocks: int = 4) -> Job:
    """A transformer on nodes of eight."""
    on = load_cluster("h100-512-two-tier", set={"ranks": ranks})
    return verified_job(transformer(blocks, hidden), on)


@pytest.mark.parametrize(("name", "meant"), [("ddp", "none"), ("fsdp", "zero-3"), ("hybrid", "hybrid"), (None, None)])
def test_older_names_of_shardings_are_understood(name: str | None, meant: str | None) -> None:
    assert canonical(name) == meant


def test_state_is_shared_among_all_replicas_or_those_of_a_node() -> None:
    every, one = np.arange(len(SHARDINGS)), np.ones(len(SHARDINGS), np.int64)
    sharers = dict(zip(SHARDINGS, state_sharers(every, 16 * one, 2 * one, 8).tolist(), strict=True))
    assert sharers == {"none": 1, "zero-1": 16, "zero-2": 16, "zero-3": 16, "hybrid": 4}


def test_once_a_step_or_in_every_pass() -> None:
    """All collectives at 10 GB/s: bytes follow from seconds. One stage of four blocks, two micro-batches."""
    made, row = job(4, price=linear(1e10)), ROW._replace(dp=8, tp=1)
    made = with_model(made, settings=made.settings.model_copy(update={"overlap_gradients": False}))
    held = made.graph.parameters
    times = {name: exact_stage_times(made, row._replace(sharding=name)) for name in SHARDINGS if name != "hybrid"}
    once = {name: (time.gather.sum() * 1e10, time.exchange.sum() * 1e10) for name, time in times.items()}
    assert once["none"] == pytest.approx((0, held * SETTINGS.gradient_bytes))
    assert once["zero-1"] == pytest.approx((held * SETTINGS.sharded_parameter_bytes, held * SETTINGS.gradient_bytes))
    shard = held * SETTINGS.sharded_parameter_bytes, held * SETTINGS.sharded_gradient_bytes
    assert once["zero-2"] == pytest.approx(shard)
    assert once["zero-3"] == (0, 0)
    waiting = times["zero-3"]
    first, other = (
        sum(op.parameters for op in made.graph.operators if op.name.startswith(names)) / 1e10 * 2
        for names in (("tokens", "layers.0"), ("layers.1",))
    )
    late_forward = other - (waiting.forward + waiting.forward_exchange) / 4
    late_backward = 2 * other - (waiting.backward + waiting.backward_exchange) / 4
    assert waiting.forward_gather == pytest.approx(first + 3 * np.maximum(late_forward, 0))
    backward = other + 2 * np.maximum(late_backward, 0) + np.maximum(late_backward + first - other, 0) + first
    assert waiting.backward_gather == pytest.approx(backward)
    assert times["none"].update.sum() == pytest.approx(8 * times["zero-1"].update.sum(), rel=1e-3)


def test_exposed_exchanges_are_those_that_computing_does_not_hide() -> None:
    computing, none = np.array([[8.0, 8.0, 8.0]]), np.zeros((1, 3))
    first, other = (UnitExchanges(*[np.array([seconds])] * 3) for seconds in ([1, 3, 5], [0.5, 3, 0]))
    exchanges, units, beside = ReplicaExchanges(first, other, none, none), np.array([4, 4, 1]), Pass(computing)
    assert exposed_forward(beside, exchanges, units).tolist() == [[1, 3 + 3 * 1, 5]]
    # The gather of the first unit, while the second computes, follows the second's reduce-scatter.
    assert exposed_backward(beside, exchanges, units).tolist() == [[0.5 + 1, 3 + 2 * 4 + 4 + 3, 5 + 5]]


def test_zero_2_exchanges_once_a_step_or_in_every_micro_batch() -> None:
    """In every micro-batch it gathers as zero-3 does forward, and reduces as zero-3 does backward, without a gather."""
    made, row = job(4, price=linear(1e7)), ROW._replace(dp=8, tp=1, sharding="zero-2")
    often = with_model(made, settings=made.settings.model_copy(update={"zero_2_exchange": "micro-batch"}))
    once, times = exact_stage_times(made, row), exact_stage_times(often, row)
    resharded = exact_stage_times(made, row._replace(sharding="zero-3"))
    assert once.gather.all() and not once.forward_gather.any() and once.late_exchange.any()
    assert not times.gather.any() and not times.late_exchange.any() and not times.exchange.any()
    assert times.forward_gather.tolist() == resharded.forward_gather.tolist()
    assert 0 < times.backward_gather.sum() < resharded.backward_gather.sum()
    # Exchanges take so long that all waits: as many bytes are reduced as are gathered for a pass.
    assert times.backward_gather + times.backward == pytest.approx(
        resharded.backward_gather + resharded.backward - once.gather, rel=1e-3
    )
    held = [memory(of, Strategies.of(row))[0] for of in (made, often)]
    assert held[1] < held[0]
    assert bounds(often, Strategies.of(row))[0] <= simulate(often, row).step_time


def test_sharding_more_holds_less() -> None:
    made = two_tier(hidden=1024)
    row = ROW._replace(dp=16, global_batch=64)
    held = {name: memory(made, Strategies.of(row._replace(sharding=name)))[0] for name in SHARDINGS}
    assert held["none"] > held["zero-1"] > held["zero-2"] > held["zero-3"]
    assert held["zero-3"] < held["hybrid"] < held["none"]


def test_llama_70b_sharded_over_tensor_groups_holds_its_share() -> None:
    """80 blocks of 0.86 billion parameters on tp 8, dp 128: a gibibyte of state, and a few units that are gathered."""
    on = load_cluster("h100-512-two-tier", set={"ranks": 1024})
    made = verified_job(transformer(80, 8192), on)
    row = Strategy(128, 8, 1, 1, 128, "zero-3", "full", "ring-two-way", 0)
    parameters = made.graph.parameters
    state = parameters / 1024 * 16
    unit = parameters / 80 / 8 * 6
    held = memory(made, Strategies.of(row))[0]
    assert state < 1.2 * 2**30 and state + unit < held < state + 1.1 * unit + 2**30


@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize(("pp", "micro_batches"), [(1, 1), (1, 4), (2, 4)])
def test_no_sharded_step_is_shorter_than_its_bound(sharding: str, pp: int, micro_batches: int) -> None:
    made = two_tier()
    row = Strategy(16 // pp, 2, pp, micro_batches, 128, sharding, "full", "ring-two-way", 0)
    rows = Strategies.of(row)
    assert admitted(made, rows).all()
    assert bounds(made, rows)[0] <= simulate(made, row).step_time


def test_hybrid_sharding_is_searched_where_nodes_have_several_replicas() -> None:
    space = two_tier(ranks=16).space((32,))
    rows = [space[index] for index in range(len(space))]
    hybrid = [row for row in rows if row.sharding == "hybrid"]
    assert hybrid and all(row.dp * row.tp > 8 and row.tp < 8 for row in hybrid)
    assert not any(row.sharding == "hybrid" for row in map(job(2).space((32,)).__getitem__, range(9)))


def test_joules_count_every_gather() -> None:
    on = load_cluster("h100-512-two-tier", set={"ranks": 8, "fabric.energy_per_bit": 1e-12})
    made = verified_job(transformer(4), on)
    row = Strategy(8, 1, 1, 2, 64, "zero-3", "none", "ring-two-way", 0)
    energy = {}
    for sharding in ("zero-2", "zero-3"):
        chosen = row._replace(sharding=sharding)
        energy[sharding] = strategy_joules(made, chosen, simulate(made, chosen))
    # Once a step two exchanges of the same bytes; in two micro-batches three each.
    once, in_passes = energy["zero-2"], energy["zero-3"]
    assert once is not None and in_passes == pytest.approx(3 * once, rel=0.01)


def megatron_175b(fabric: Fabric) -> Job:
    """Two of the 96 blocks of GPT-3, at 2,048 tokens a sample."""
    graph = transformer(2, 12_288)
    long = [
        replace(each, activation_bytes=each.activation_bytes * 128, dimensions={**each.dimensions, "sequence": 2048})
        for each in graph.operators
    ]
    graph = replace(graph, operators=tuple(long))
    return Job.of(graph, load_accelerator("a100"), fabric, SETTINGS, GroupPrices(fabric, SETTINGS))


def test_stages_send_slices_and_gather_them_in_the_tensor_group() -> None:
    """A rank's port takes 8 ms for a sample's activations, an eighth of that for its slice; NVLink gathers the rest."""
    fabric = load_cluster("a100-1024-two-tier", set={"ranks": 16}).fabric
    made = megatron_175b(fabric)
    row = Strategy(1, 8, 2, 4, 4, "none", "none", "ring-two-way", 0)
    (rate, flight), (_, latency) = fabric.pair(8), fabric.message(8)
    assert latency > flight + 10e-6, "the library's latency of a message is added"
    nbytes = 2 * 2048 * 12_288
    send = exact_stage_times(made, row).send
    gather = made.pricing.price("ring-two-way", 8, 0)("all-gather", nbytes).cost.repeated_time
    assert send[0] == 0 and send[1] == pytest.approx(nbytes / 8 / rate + latency + gather)
    assert send[1] < 0.3 * nbytes / rate
    uses = {(use.kind, use.ranks) for use in simulate(made, row).exchanges}
    assert ("all-gather", 8) in uses


def test_tensor_groups_gather_only_what_is_not_sliced_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of what crosses is read as slices: the other half is gathered."""
    fabric = load_cluster("a100-1024-two-tier", set={"ranks": 16}).fabric
    made = megatron_175b(fabric)
    model = type(made.model)
    crossing = model.crossing

    def half_sliced(self: Any, *arguments: Any) -> Any:
        bytes_between = crossing(self, *arguments)
        return bytes_between._replace(sliced=bytes_between.total / 2)

    monkeypatch.setattr(model, "crossing", half_sliced)
    row = Strategy(1, 8, 2, 4, 4, "none", "none", "ring-two-way", 0)
    (rate, _), (_, latency) = fabric.pair(8), fabric.message(8)
    nbytes = 2 * 2048 * 12_288
    gather = made.pricing.price("ring-two-way", 8, 0)("all-gather", nbytes / 2).cost.repeated_time
    assert exact_stage_times(made, row).send[1] == pytest.approx(nbytes / 8 / rate + latency + gather)


def test_stages_send_everything_where_that_is_faster() -> None:
    made = job(4, price=linear(1e6))
    row = Strategy(2, 2, 2, 4, 64, "none", "none", "x", 0)
    rate, latency = made.fabric.pair(4)
    crossing = made.graph.operator("layers.1.add2").activation_bytes / made.graph.batch / 2 * row.samples
    assert exact_stage_times(made, row).send[1] == pytest.approx(crossing / rate + latency)
    assert not any(use.kind == "all-gather" for use in simulate(made, row).exchanges)
