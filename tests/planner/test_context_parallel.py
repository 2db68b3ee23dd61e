"""Context parallelism: slices of the tokens, and a ring on which keys and values go round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import ConfigError
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.planning.export import frameworks
from lightloom.planning.parallelism.operators import bytes_of_logit
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.parallelism.tensor_parallel import LEAST_TOKENS, context_degree, searched_degrees
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.strategy_step import exact_stage_times, simulate, strategy_joules
from lightloom.planning.search.bounds import admitted, bounds, memory
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.search.search import search
from tests.planner.export.test_settings import exported_row
from tests.planner.jobs import BATCH, HEADS, SEQUENCE, cluster, transformer, verified_job, with_model

ROW = Strategy(2, 1, 1, 2, 32, "none", "none", "ring-two-way", 0, cp=4)
ELEMENT = 2
"""Bytes of an element of keys and values in bf16."""


def sliceable(blocks: int, hidden: int = 256, tokens: int = SEQUENCE, *, causal: bool = False) -> ComputeGraph:
    """A transformer whose attention tells its sizes; of ``tokens``, everything as much larger."""
    graph, times = transformer(blocks, hidden), tokens // SEQUENCE
    operators = []
    for operator in graph.operators:
        sizes = {**operator.dimensions, "sequence": tokens}
        if operator.kind == "attention":
            sizes |= {"key_sequence": tokens, "head_dim": hidden // HEADS}
        counts = ("forward_flops", "backward_flops", "activation_bytes")
        grown = {name: getattr(operator, name) * times for name in counts}
        grown["forward_bytes"] = (operator.forward_bytes - operator.shared_bytes) * times + operator.shared_bytes
        causes = causal and operator.kind == "attention"
        operators.append(replace(operator, dimensions=sizes, causal=causes, **grown))
    return replace(graph, operators=tuple(operators))


def sliceable_job(blocks: int = 4, ranks: int = 8, hidden: int = 256) -> Job:
    """At verified prices on rings."""
    return verified_job(sliceable(blocks, hidden), cluster(ranks))


def test_a_slice_of_more_samples_is_as_many_tokens() -> None:
    of = sliceable_job()
    one, columns = np.ones(1, np.int64), of.model.columns
    for count in ("outputs", "kept", "inputs", "regenerated"):
        whole, slices = getattr(columns, count)(4 * one, 4 * one), getattr(columns, count)(one)
        assert whole.tolist() == slices.tolist()
    chip, precision = of.accelerator.flat(), of.settings.precision
    whole_times = columns.times(chip, precision, 4 * one, one, cp=4 * one)
    assert np.stack(whole_times) == pytest.approx(np.stack(columns.times(chip, precision, one, one)))


@pytest.mark.parametrize("tp", [1, 2])
def test_keys_and_values_go_round_beside_attention(tp: int) -> None:
    """A block is 2 · samples · tokens / cp · hidden / tp elements; backward twice that, and a last step home."""
    of = sliceable_job(ranks=8 * tp)
    of = replace(of, accelerator=of.accelerator.flat())
    row = ROW._replace(tp=tp)
    times = exact_stage_times(of, row)
    group = of.fabric.group(row.cp, tp)
    assert group is not None
    rate, latency = group.pair(1)
    nbytes = 2 * row.samples * SEQUENCE // row.cp * 256 // tp * ELEMENT
    attention = of.graph.operator("layers.0.attention")
    columns = of.model.columns.times(
        of.accelerator, of.settings.precision, *(np.array([n]) for n in (row.samples, tp)), cp=np.array([row.cp])
    )
    forward, backward = (seconds[0, of.graph.operators.index(attention)] / row.cp for seconds in columns)
    send = nbytes * tp / rate  # interleaved groups share the wavelengths
    assert times.forward_ring[0] == pytest.approx(4 * 3 * max(send + latency - forward, 0))
    late = 3 * max(2 * send + latency - backward, 0) + send + latency
    assert times.backward_ring[0] == pytest.approx(4 * late)
    assert times.forward_ring[0] > 0
    again = exact_stage_times(of, row._replace(recomputation="full"))
    assert again.backward_ring[0] == pytest.approx(4 * late + times.forward_ring[0])


def test_without_slices_nothing_goes_round() -> None:
    """What context parallelism adds is nothing at cp 1, whatever the attention tells."""
    told, untold = sliceable_job(), verified_job(transformer(4), cluster(8))
    row = ROW._replace(dp=8, cp=1)
    assert simulate(told, row).step_time == simulate(untold, row).step_time
    assert not exact_stage_times(told, row).forward_ring.any()


def test_gradients_are_reduced_over_replicas_and_slices() -> None:
    of = sliceable_job(ranks=16)
    row = ROW._replace(tp=2)
    uses = simulate(of, row).exchanges
    assert {(use.ranks, use.stride) for use in uses if use.kind == "all-reduce"} == {(8, 2), (2, 1)}
    alone = exact_stage_times(of, row._replace(dp=8, cp=1, global_batch=128))
    times = exact_stage_times(of, row)
    assert times.late_exchange + times.exchange == pytest.approx(alone.late_exchange + alone.exchange)
    sharded = (memory(of, Strategies.of(each._replace(sharding="zero-3"))) for each in (row, row._replace(dp=1)))
    assert next(sharded) < next(sharded)


def test_a_rank_keeps_its_slice_of_the_activations() -> None:
    of = sliceable_job()
    kept = [
        memory(of, Strategies.of(ROW._replace(cp=cp, dp=8 // cp, global_batch=32 * 8 // cp)))[0] for cp in (1, 2, 4)
    ]
    samples = np.array([16])
    columns = of.model.columns
    logits = (columns["kernel_losses"] * columns.outputs(samples)).sum() / columns.element_bytes
    sliced = columns.kept(samples).sum() + logits * bytes_of_logit(columns.element_bytes)
    assert kept[0] - kept[1] == pytest.approx(sliced / 2)
    assert kept[1] - kept[2] == pytest.approx(sliced / 4)


@pytest.mark.parametrize("sharding", ["none", "zero-1", "zero-3", "hybrid"])
@pytest.mark.parametrize(("tp", "pp", "cp"), [(1, 1, 4), (2, 1, 2), (2, 2, 4), (1, 2, 8)])
def test_no_step_with_slices_is_shorter_than_its_bound(sharding: str, tp: int, pp: int, cp: int) -> None:
    of = verified_job(sliceable(4), load_cluster("h100-512-two-tier", set={"ranks": 32}))
    row = Strategy(32 // (tp * pp * cp), tp, pp, 4, 128, sharding, "full", "ring-two-way", 0, cp=cp)
    rows = Strategies.of(row)
    assert admitted(of, rows).all()
    step = simulate(of, row)
    assert bounds(of, rows)[0] <= step.step_time
    assert step.spent is not None and sum(step.spent.values()) == pytest.approx(step.step_time)


def test_what_mixes_tokens_is_not_sliced() -> None:
    assert context_degree(sliceable(1)) == SEQUENCE
    assert context_degree(sliceable(1, causal=True)) == SEQUENCE // 2
    assert context_degree(transformer(1)) == 1  # attention of unknown sizes
    graph = sliceable(1)
    pooled = replace(graph.operators[-1], dimensions={"sample": BATCH, "channel": 1000, "in_channel": 256})
    assert context_degree(replace(graph, operators=(*graph.operators[:-1], pooled))) == 1


def test_rotations_of_unnamed_axes_are_sliced() -> None:
    """Llama's rotary products name no axes: one as long as the sequence is the tokens."""
    graph = sliceable(1)
    rotated, mixed = (
        [
            replace(each, dimensions={"sample": BATCH, "axis_1": HEADS, "axis_2": tokens, "axis_3": 64})
            if each.kind == "activation"
            else each
            for each in graph.operators
        ]
        for tokens in (SEQUENCE, SEQUENCE + 1)
    )
    assert context_degree(replace(graph, operators=tuple(rotated))) == SEQUENCE
    assert context_degree(replace(graph, operators=tuple(mixed))) == 1


def test_replicas_are_not_counted_before_the_slices_are_known() -> None:
    """Eight ranks, two samples: at two slices and more there are few enough replicas."""
    long = sliceable(1, tokens=8 * LEAST_TOKENS)
    pins = Pins(tp=1, pp=1, micro_batches=1)
    found = search(long, cluster(8), SearchRequest(global_batches=(2,), compare=False, must_fit=False, pins=pins))
    choice = found.winner.choice
    assert isinstance(choice, Strategy) and choice.cp >= 4


def test_a_search_slices_long_sequences_only() -> None:
    assert searched_degrees(sliceable(1)) == [1]
    assert searched_degrees(sliceable(1, tokens=8 * LEAST_TOKENS)) == [1, 2, 4, 8]
    long = verified_job(sliceable(1, tokens=2 * LEAST_TOKENS), cluster(8))
    assert set(long.space((8,)).cp.tolist()) == {1, 2}
    short = sliceable_job(1)
    assert set(short.space((8,)).cp.tolist()) == {1} and set(short.space((8,), cp=4).cp.tolist()) == {4}


def test_a_pinned_degree_is_its_row() -> None:
    graph, on = sliceable(2), cluster(4)
    request = SearchRequest(global_batches=(8,), pins=Pins(cp=2, dp=2, tp=1, pp=1, micro_batches=1))
    found = search(graph, on, replace(request, compare=False))
    row = found.winner.choice
    assert isinstance(row, Strategy) and (row.cp, row.dp) == (2, 2)
    assert found.winner.step_time == simulate(found.winner.job, row).step_time
    # Schedules that are synthesized for the winner alone may take a hop less.
    assert found.winner.step_time == pytest.approx(simulate(verified_job(graph, on), row).step_time, rel=1e-4)
    assert "cp 2" in found.winner.label


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        ({"cp": 3}, "3 ranks in all, expected a divisor of 4"),
        ({"cp": 4, "tp": 2}, "8 ranks in all"),
        ({"cp": 4, "dp": 2, "tp": 1, "pp": 1}, "expected 4"),
    ],
)
def test_contradicting_degrees_are_refused(pins: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        search(sliceable(1), cluster(4), SearchRequest(global_batches=(8,), pins=Pins(**pins)))


def test_a_model_that_cannot_be_sliced_refuses_the_pin() -> None:
    with pytest.raises(ConfigError, match="--cp 2: expected a divisor of 1"):
        search(transformer(1), cluster(4), SearchRequest(global_batches=(8,), pins=Pins(cp=2)))


def test_both_exports_name_the_degree() -> None:
    made = exported_row(ROW._replace(sharding="zero-3"))
    assert "--context-parallel-size 4" in frameworks.arguments(made)
    parallelism = frameworks.settings(made)["parallelism"]
    assert (parallelism["context_parallel_degree"], parallelism["data_parallel_shard_degree"]) == (4, 2)
    assert any("either end" in note for note in frameworks.torchtitan_notes(made))


def test_joules_count_what_goes_round() -> None:
    on = load_cluster("h100-512-two-tier", set={"ranks": 8, "fabric.energy_per_bit": 1e-12})
    of = verified_job(sliceable(4), on)
    row = ROW._replace(dp=1, cp=8, global_batch=8)
    joules = strategy_joules(of, row, simulate(of, row))
    silent = with_model(of, graph=replace(of.graph, operators=tuple(without_keys(of.graph))))
    rest = strategy_joules(silent, row, simulate(silent, row))
    assert joules is not None and rest is not None
    blocks = 4 * 2 * row.global_batch * SEQUENCE // 8 * 256 * ELEMENT
    # Seven steps forward, seven of twice the bytes backward and one home, on eight ranks over two links each.
    sent = 8 * blocks * (7 + 2 * 7 + 1) * 8
    assert joules - rest == pytest.approx(2 * sent * 1e-12, rel=1e-6)


def without_keys(graph: ComputeGraph) -> list[Operator]:
    """Operators of attention that does not tell its sizes."""
    return [
        replace(op, dimensions={name: n for name, n in op.dimensions.items() if name != "head_dim"})
        for op in graph.operators
    ]
