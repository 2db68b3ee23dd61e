"""Placed plans whose groups take their batch in parts, and repeat the passes of blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lightloom.core.errors import UnsupportedError
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.parallelism.placement.cuts import kept_graph, repeated_memory
from lightloom.planning.parallelism.plan import in_blocks
from lightloom.planning.pricing.placed_space import (
    PartTable,
    PlacedChoice,
    PlacedRows,
    shared_state_bytes,
    smaller,
)
from lightloom.planning.search.bounds import coarse_bound
from lightloom.planning.search.document import plan_row
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.search.rows import PlacedPlans
from lightloom.planning.search.search import search
from tests.planner.jobs import transformer
from tests.planner.test_split_bounds import FABRICS, job_on, space_on

FREE = dict(Pins())
CHOICE = PlacedChoice(4, 2, 1e-6, 32, 2, 1.0)


@pytest.mark.parametrize("fabric", [0, 2, 4])
def test_micro_batches_take_their_passes_one_after_the_other(fabric: int) -> None:
    job = job_on(fabric, 8, 2, 256)
    plans = PlacedPlans(job)
    one = plans.simulate(CHOICE._replace(global_batch=8))
    step = plans.simulate(CHOICE._replace(micro_batches=4))
    assert step.earlier is not None and one.earlier is None
    assert step.earlier.step_time <= one.step_time
    assert step.step_time == pytest.approx(one.step_time + 3 * step.earlier.step_time)
    assert step.step_time == pytest.approx(step.timeline.step_time)
    assert sum(step.breakdown.values()) == pytest.approx(step.step_time)
    busy = step.timeline.busy_time()
    for category in ("forward", "backward"):
        assert busy[category] == pytest.approx(4 * one.busy_time[category]) == pytest.approx(step.busy_time[category])
    assert busy["update"] == pytest.approx(one.busy_time["update"])
    assert step.memory.tolist() == one.memory.tolist()


def test_micro_batches_send_activations_each_and_gradients_once() -> None:
    job = job_on(4, 8, 2, 256)
    plans = PlacedPlans(job)
    step = plans.simulate(CHOICE._replace(micro_batches=4))
    traffic, activations = step.plan.traffic, step.plan.activation_traffic
    assert 0 < activations.sum() < traffic.total.sum()
    sent = (traffic.total.sum() + 3 * activations.sum()) / CHOICE.l
    assert step.sent_bytes == pytest.approx(sent)


def test_recomputing_repeats_the_passes_of_blocks_and_keeps_what_leaves_them() -> None:
    job = job_on(4, 8, 4, 256)
    job = replace(job, accelerator=job.accelerator.flat())
    plans = PlacedPlans(job)
    kept, again = plans.simulate(CHOICE), plans.simulate(CHOICE._replace(recomputation="full"))
    forward = plans.plan(CHOICE).balanced
    inside = in_blocks(job.graph)[[job.graph.operators.index(job.graph.operator(name)) for name in forward.operators]]
    repeated = forward.forward[inside[forward.operator]].sum()
    assert again.busy_time["forward"] == pytest.approx(kept.busy_time["forward"], rel=1e-6)
    assert again.busy_time["backward"] == pytest.approx(kept.busy_time["backward"] + repeated, rel=1e-6)
    assert again.memory.sum() < kept.memory.sum()
    graph = job.graph
    leaving = [each.name for each in kept_graph(graph).operators if each.block and each.kept_bytes]
    assert leaving == [f"layers.{index}.add2" for index in range(4)]


def test_on_one_device_the_largest_block_is_held_once() -> None:
    job = job_on(4, 8, 3, 256)
    balanced = PlacedPlans(job).plan(CHOICE._replace(k=1, l=8)).balanced
    graph = job.graph.with_batch(4)
    blocks = [sum(each.kept_bytes for each in graph.operators if each.block == f"layers.{index}") for index in range(3)]
    device = np.zeros(balanced.size, np.int32)
    assert repeated_memory(graph, balanced, device, 1).tolist() == [max(blocks)]


@pytest.mark.parametrize("fabric", range(len(FABRICS)))
def test_no_divided_step_is_shorter_than_any_of_its_bounds(fabric: int) -> None:
    job = job_on(fabric, 4, 2, 256)
    rows = smaller(space_on(job, (16,)), FREE)
    table, plans = PartTable(job.model), PlacedPlans(job)
    look = coarse_bound(job, table, rows)
    assert {row.recomputation for row in map(rows.__getitem__, range(len(rows)))} == {"none", "full"}
    for index in range(0, len(rows), max(len(rows) // 8, 1)):
        choice = rows[index]
        try:
            step = plans.simulate(choice)
        except UnsupportedError as error:
            assert "no circuit" in str(error)
            continue
        assert look.bound[index] <= step.step_time
        assert look.memory[index] <= step.memory.max() * (1 + 1e-9)
        assert plans.structure_bound(choice) <= step.step_time
        assert plans.circuits_bound(choice) <= step.step_time


@pytest.mark.parametrize("k", [1, 2, 4])
def test_every_micro_batch_counts_in_the_bound_of_rows(k: int) -> None:
    """By no less than what the devices of a group compute on average, and no more than its step takes."""
    job = job_on(4, 8, 2, 256)
    job = replace(job, accelerator=job.accelerator.flat())
    choices = [CHOICE._replace(k=k, l=8 // k, global_batch=32 // k * count, micro_batches=count) for count in (1, 2, 4)]
    one, two, four = coarse_bound(job, PartTable(job.model), PlacedRows.of(choices)).bound
    assert four - two == pytest.approx(2 * (two - one), rel=1e-6)
    step = PlacedPlans(job).simulate(choices[1])
    assert step.earlier is not None
    computed = step.plan.balanced.forward.sum() + step.plan.balanced.backward.sum()
    assert computed / k * (1 - 1e-8) <= two - one <= step.earlier.step_time


def test_rows_are_divided_into_powers_of_two_that_divide_the_batch() -> None:
    rows = PlacedRows.of([CHOICE._replace(global_batch=24)])
    found = smaller(rows, FREE)
    made = [(row.micro_batches, row.recomputation) for row in map(found.__getitem__, range(len(found)))]
    assert made == [(1, "full"), *((count, kind) for count in (2, 4) for kind in ("none", "full"))]
    pinned = smaller(rows, FREE | {"micro_batch": 4, "recomputation": "none"})
    assert [pinned[row] for row in range(len(pinned))] == [CHOICE._replace(global_batch=24, micro_batches=3)]
    assert len(smaller(rows, FREE | {"micro_batch": 5})) == 0


def test_what_does_not_fit_at_once_fits_in_parts() -> None:
    """A batch of 256 on two devices of little memory: every placed plan divides it or recomputes."""
    on = load_cluster("terarack-64", set={"ranks": 2, "fabric": dict(FABRICS[4])})
    graph = transformer(4)
    request = SearchRequest(strategies=("placed",), global_batches=(256,), quanta=(1e-6,), compare=False)
    free = search(graph, on, request)
    assert isinstance(free.winner.choice, PlacedChoice) and free.winner.choice.micro_batches == 1
    memory = free.winner.memory / 2
    small = replace(on, accelerator=on.accelerator.model_copy(update={"memory": memory}))
    found = search(graph, small, request)
    choice = found.winner.choice
    assert isinstance(choice, PlacedChoice)
    assert (choice.micro_batches > 1 or choice.recomputation == "full") and found.winner.memory <= memory
    assert "micro-batches" in found.winner.label or "recomputing" in found.winner.label
    row = plan_row(found.winner, found)
    assert row["choice"]["micro_batches"] == choice.micro_batches
    recomputed = choice.recomputation == "full"
    assert (row["hardware_flops_utilization"] > row["model_flops_utilization"]) == recomputed


def test_pinned_micro_batches_and_recomputation_are_those_of_placed_plans_too() -> None:
    on = load_cluster("terarack-64", set={"ranks": 2, "fabric": dict(FABRICS[4])})
    pins = Pins(micro_batches=2, recomputation="full")
    request = SearchRequest(global_batches=(8,), quanta=(1e-6,), compare=False, pins=pins)
    found = search(transformer(2), on, request)
    placed = [plan.choice for plan in found.ranking if isinstance(plan.choice, PlacedChoice)]
    assert placed and all((row.micro_batches, row.recomputation) == (2, "full") for row in placed)
    assert "placed" not in replace(request, pins=Pins(tp=1)).kinds
    assert "placed" not in replace(request, pins=Pins(recomputation="selective")).kinds


@pytest.mark.parametrize("groups", [1, 2, 64])
def test_sharded_state_is_that_of_zero_stage_1(groups: int) -> None:
    """Weights and gradients of two bytes stay, three times four are divided (Rajbhandari et al., table 1)."""
    mixed = TrainingSettings(sharded_parameter_bytes=2, gradient_bytes=2, optimizer_state_bytes=8)
    assert shared_state_bytes(mixed, groups) == (4, 12 / groups)
