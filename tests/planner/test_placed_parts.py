"""Parts of placed plans take as long as their own shapes: a plan that is data parallelism takes as long as that."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import UnsupportedError
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import Attention, TrainingSettings
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.graph import ComputeGraph, MeasuredTimes, Operator
from lightloom.models.zoo import load_workload
from lightloom.planning.parallelism.operators import graph_times
from lightloom.planning.parallelism.placement.cuts import SPLITS, Split, bounds
from lightloom.planning.parallelism.plan import RECOMPUTATIONS
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.job import Job, divided_model
from lightloom.planning.pricing.placed_space import PartTable, PlacedChoice, placed_space
from lightloom.planning.pricing.strategy_step import simulate
from lightloom.planning.search.rows import PlacedPlans
from tests.planner.jobs import verified_job

NO_NETWORK = {"fabric": {"base": "ethernet-400g", "bandwidth": 1e18, "hop_latency": 0, "transport": "ideal"}}
CHIPS = [chip for name in ("a100", "h100") for chip in (load_accelerator(name), load_accelerator(name).flat())]


@cache
def job_of(model: str, ranks: int, accelerator: str = "a100") -> Job:
    """A model of the zoo on ranks between which nothing takes time."""
    on = load_cluster("terarack-64", set={"ranks": ranks, "accelerator": accelerator, **NO_NETWORK})
    return verified_job(load_workload(model, batch=32), on)


@pytest.mark.parametrize("accelerator", ["a100", "h100"])
@pytest.mark.parametrize(("model", "samples"), [("resnet50", 32), ("resnet50", 4), ("gpt2-355m", 8)])
@pytest.mark.parametrize("k", [1, 4, 16])
def test_a_placed_plan_that_is_data_parallelism_takes_as_long(
    model: str, samples: int, k: int, accelerator: str
) -> None:
    """Every operator cut along its samples, so many on each device, whose states are shared out."""
    job = job_of(model, 16, accelerator)
    batch = 16 * samples
    choice = PlacedChoice(k, 16 // k, 1e-12, batch, 1, 1.0)
    step = PlacedPlans(job).simulate(choice)
    balanced = step.plan.balanced
    of_samples = {each.name for each in job.graph.operators if "sample" in each.dimensions}
    for name, along, parts in zip(balanced.operators, balanced.dimensions, np.diff(balanced.first), strict=True):
        assert (along, parts) == (("sample", k) if k > 1 and name in of_samples else ("", 1))
    whole = simulate(job, Strategy(16, 1, 1, 1, batch, "zero-1", "none", "ring", 0))
    assert step.step_time == pytest.approx(whole.step_time, rel=5e-3)


@pytest.mark.parametrize("recomputation", ["none", "full"])
def test_parts_of_some_samples_are_the_operators_of_a_batch_of_so_many(recomputation: str) -> None:
    """To the last digit, on every accelerator, and where samples do not divide evenly."""
    for job in (job_of("resnet50", 16), job_of("gpt2-355m", 16, "h100")):
        for samples, k in ((64, 16), (24, 16), (16, 4)):
            choice = PlacedChoice(k, 16 // k, 1e-7, samples * 16 // k, 1, 1.0, 1, recomputation)
            balanced = PlacedPlans(job)._partition(choice)
            repeated = np.array([RECOMPUTATIONS.index(recomputation)])
            place = {operator.name: at for at, operator in enumerate(job.graph.operators)}
            times = {own: job.operators.kernels(np.array([own]), repeated) for own in range(1, samples + 1)}
            for number, (first, end) in enumerate(pairwise(balanced.first.tolist())):
                if balanced.dimensions[number] == "sample":
                    at, slices = place[balanced.operators[number]], np.diff(bounds(samples, end - first)).tolist()
                    for kind, seconds in enumerate((balanced.forward, balanced.backward)):
                        assert seconds[first:end].tolist() == [times[own][kind][0, at] for own in slices]


def operator(kind: str, **sizes: int) -> Operator:
    """An operator of so many elements along its dimensions, with the work of its kind."""
    wide, deep = sizes.get("channel", 1), sizes.get("in_channel", 1)
    positions = prod(size for name, size in sizes.items() if name in ("sample", "sequence", "height"))
    weights = 0
    if kind == "linear":
        weights, flops, read, written = wide * deep, 2 * positions * wide * deep, positions * deep, positions * wide
    elif kind == "conv":
        window = sizes["kernel_height"] * sizes["kernel_width"]
        weights = window * wide * (deep // sizes["groups"])
        flops, read, written = 2 * positions * weights, positions * deep, positions * wide
    elif kind == "attention":
        model = sizes["head"] * sizes["head_dim"]
        flops, read, written = 4 * positions * sizes["key_sequence"] * model, 3 * positions * model, positions * model
    elif kind == "norm":
        weights, flops, read, written = wide, positions * wide, positions * wide, positions * wide
    else:
        flops, read, written = positions * wide, positions * wide, positions * wide
    return Operator(
        name="x",
        kind=kind,
        dimensions=sizes,
        forward_flops=flops,
        backward_flops=2 * flops,
        parameters=weights,
        activation_bytes=4 * written,
        forward_bytes=4 * (read + written + weights),
        shared_bytes=4 * weights,
    )


def part_of(whole: Operator, split: Split, elements: int) -> Operator:
    """The operator that has ``elements`` of a dimension, written down anew; and what it reads besides."""
    sizes = dict(whole.dimensions)
    part = operator(whole.kind, **{**sizes, split.dimension: elements})
    if whole.kind == "attention" and split.dimension == "sequence":
        # Every query reads all keys and values.
        read = whole.forward_bytes - whole.activation_bytes
        return replace(part, forward_bytes=read + part.activation_bytes)
    return part


sizes_of = {
    "linear": st.fixed_dictionaries(
        {"sample": st.just(32), "sequence": st.sampled_from([1, 96]), "channel": st.sampled_from([72, 512, 4100])}
        | {"in_channel": st.sampled_from([64, 1536])}
    ),
    "conv": st.fixed_dictionaries(
        {"sample": st.just(32), "height": st.sampled_from([7, 56]), "channel": st.sampled_from([64, 256])}
        | {"in_channel": st.just(64), "groups": st.sampled_from([1, 32, 64])}
        | {"kernel_height": st.sampled_from([1, 3]), "kernel_width": st.just(1)}
    ),
    "attention": st.sampled_from([96, 512]).flatmap(
        lambda length: st.fixed_dictionaries(
            {"sample": st.just(32), "head": st.sampled_from([6, 16]), "sequence": st.just(length)}
            | {"key_sequence": st.just(length), "head_dim": st.just(64)}
        )
    ),
    "norm": st.fixed_dictionaries({"sample": st.just(32), "sequence": st.just(96), "channel": st.just(512)}),
    "activation": st.fixed_dictionaries({"sample": st.just(32), "sequence": st.just(96), "channel": st.just(512)}),
}
whole_operators = st.sampled_from(sorted(sizes_of)).flatmap(
    lambda kind: sizes_of[kind].map(lambda sizes: operator(kind, **sizes))
)


@settings(max_examples=60, deadline=None)
@given(
    whole_operators,
    st.sampled_from([2, 4, 8, 16]),
    st.sampled_from([1, 24, 32]),
    st.sampled_from(CHIPS),
    st.sampled_from(["flash", "unfused"]),
    st.data(),
)
def test_a_part_takes_as_long_as_an_operator_of_its_shape(
    whole: Operator, parts: int, samples: int, chip: Accelerator, attention: Attention, data: st.DataObject
) -> None:
    graph = ComputeGraph(name="one", batch=32, operators=(whole,))
    batch = graph.with_batch(samples).operators[0]
    fitting = [split for split in SPLITS[whole.kind] if batch.dimensions.get(split.dimension, 0) >= parts]
    if "in_channel" in (names := [split.dimension for split in fitting]) and whole.dimensions.get("groups", 1) > 1:
        fitting.pop(names.index("in_channel"))
    grouped = whole.dimensions.get("groups", 1)
    fitting = [split for split in fitting if split.dimension != "channel" or grouped == 1 or grouped % parts == 0]
    if not fitting:
        return
    split = data.draw(st.sampled_from(fitting))
    training = TrainingSettings(precision="fp32" if "fp32" in chip.peak else "bf16", attention=attention)
    model = divided_model(graph, training, chip)
    times = model.times_on(chip)
    found = PartTable(model).part_seconds(times, samples, "none")(0, split, parts)
    assert found.shape == (parts, 2)
    for own, seconds in zip(np.diff(bounds(batch.dimensions[split.dimension], parts)).tolist(), found, strict=True):
        part = part_of(batch, split, own)
        if grouped > 1 and split.dimension == "channel":
            # Its own groups: weights, inputs and outputs of these alone.
            share = grouped // parts
            sizes = {**batch.dimensions, "channel": own, "in_channel": batch.dimensions["in_channel"] // parts}
            part = operator("conv", **{**sizes, "groups": share})
        alone = ComputeGraph(name="part", batch=part.dimensions["sample"], operators=(part,))
        element_bytes = 4 if training.precision == "fp32" else 2
        wanted = graph_times(alone.with_element_bytes(element_bytes), chip, training.precision, training.attention)
        assert seconds == pytest.approx([wanted[0][0], wanted[1][0]], rel=1e-6)


def test_parts_of_measured_operators_take_what_their_shapes_change_of_it() -> None:
    """A part takes the measured seconds times its price over the price of what was measured."""
    whole = operator("linear", sample=32, sequence=96, channel=512, in_channel=1536)
    timed = Operator(name="timed", kind="elementwise", dimensions={"sample": 32, "channel": 64}, inputs=("x",))
    measured = MeasuredTimes(batch=32, forward=(4e-3, 1e-3), backward=(9e-3, 2e-3), accelerator=None, precision="bf16")
    graph = ComputeGraph(name="g", batch=32, operators=(whole, timed))
    chip, training = load_accelerator("a100"), TrainingSettings(precision="bf16")
    plain = divided_model(graph, training, chip)
    priced = PartTable(plain).part_seconds(plain.times_on(chip), 64, "none")
    references = [each[0] for each in plain.times_on(chip).kernels(np.array([32]), np.array([0]))]
    model = divided_model(replace(graph, measured=measured), training, chip)
    found = PartTable(model).part_seconds(model.times_on(chip), 64, "none")
    for split in SPLITS["linear"]:
        factor = [4e-3 / references[0][0], 9e-3 / references[1][0]]
        assert found(0, split, 4) == pytest.approx(priced(0, split, 4) * factor)
    assert found(1, SPLITS["elementwise"][0], 4) == pytest.approx(np.tile([1e-3 / 2, 2e-3 / 2], (4, 1)))
    assert found(1, SPLITS["elementwise"][1], 4) == pytest.approx(np.tile([1e-3 / 2, 2e-3 / 2], (4, 1)))


def test_copies_of_weights_are_read_by_every_part() -> None:
    """A layer that waits for its weights is no faster in parts that copy them, and as much faster as they divide
    them."""
    whole = operator("linear", sample=32, sequence=1, channel=8192, in_channel=8192)
    chip, training = load_accelerator("a100"), TrainingSettings(precision="bf16")
    model = divided_model(ComputeGraph(name="g", batch=32, operators=(whole,)), training, chip)
    times = model.times_on(chip)
    alone = times.kernels(np.array([32]), np.array([0]))[0][0, 0]
    part = PartTable(model).part_seconds(times, 32, "none")
    by_name = {split.dimension: part(0, split, 8)[:, 0] for split in SPLITS["linear"] if split.dimension != "sequence"}
    assert by_name["sample"] == pytest.approx(alone, rel=0.05)
    for divided in ("channel", "in_channel"):
        assert by_name[divided] == pytest.approx(alone / 8, rel=0.5)


@pytest.mark.long
def test_no_bound_of_what_a_row_cuts_lies_above_its_parts() -> None:
    """Of every operator the shortest part, and all together, whichever split the partition takes."""
    for job in (job_of("resnet50", 16), job_of("gpt2-355m", 16)):
        rows, _ = placed_space(job.fabric, (16, 96, 512), (1e-6, 1e-4))
        table, plans = PartTable(job.model), PlacedPlans(job)
        cut = table.parts(rows, job.operators)
        tight = 0
        for row in range(0, len(rows), 5):
            try:
                balanced = plans.plan(rows[row]).balanced
            except UnsupportedError:
                continue
            for kind, seconds in enumerate((balanced.forward, balanced.backward)):
                shortest = np.minimum.reduceat(seconds, balanced.first[:-1])
                together = np.add.reduceat(seconds, balanced.first[:-1])
                least, total = cut.least[kind][row, table.placed], cut.total[kind][row, table.placed]
                assert np.all(least <= shortest * (1 + 1e-12)) and np.all(total <= together * (1 + 1e-12))
                tight += int(np.isclose(total.sum(), together.sum(), rtol=0.02))
        assert tight > 0
