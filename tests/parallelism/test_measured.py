"""Measured seconds in place of priced ones: exact where a plan computes as the trace did, else scaled as prices are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import LightloomError
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.models.graph import ComputeGraph, MeasuredTimes, Operator
from lightloom.planning.parallelism.operators import graph_times, operator_columns
from lightloom.planning.parallelism.tensor_parallel import expert_split, tensor_split

A100, H100 = load_accelerator("a100"), load_accelerator("h100")
SECONDS = st.floats(1e-7, 1.0)


def graph(seconds: list[float], *, accelerator: str | None = None) -> ComputeGraph:
    """Linear layers with the measured seconds, and an operator of which nothing but its duration is known."""
    layers = [
        Operator(
            name=f"layer{number}",
            kind="linear",
            dimensions={"sample": 8, "channel": 64 * (number + 1), "in_channel": 32},
            forward_flops=8 * 64 * (number + 1) * 64,
            backward_flops=8 * 64 * (number + 1) * 128,
            forward_bytes=8 * 4 * (32 + 64 * (number + 1)),
        )
        for number in range(len(seconds) - 1)
    ]
    timed = Operator(name="timed", kind="elementwise", dimensions={"sample": 8})
    measured = MeasuredTimes(
        batch=8, forward=tuple(seconds), backward=(None, *seconds[1:]), accelerator=accelerator, precision="bf16"
    )
    return ComputeGraph(name="g", batch=8, operators=(*layers, timed), element_bytes=4, measured=measured)


@given(st.lists(SECONDS, min_size=2, max_size=5))
def test_a_plan_that_computes_as_the_trace_did_takes_what_was_measured(seconds: list[float]) -> None:
    measured = graph(seconds, accelerator="a100")
    forward, backward = graph_times(measured.with_element_bytes(2), A100, "bf16")
    priced = graph_times(replace(measured, measured=None).with_element_bytes(2), A100, "bf16")[1]
    assert forward == pytest.approx(seconds)
    assert backward[1:] == pytest.approx(seconds[1:]) and backward[0] == pytest.approx(priced[0])


@given(st.lists(SECONDS, min_size=2, max_size=4), st.integers(1, 64), st.sampled_from([A100, H100]))
def test_searched_times_are_the_simulated_ones(seconds: list[float], samples: int, machine: Accelerator) -> None:
    measured = graph(seconds, accelerator="a100")
    split = tensor_split(measured)
    columns = operator_columns(measured, split, expert_split(measured, split), 2)
    searched = columns.times(machine, "bf16", np.array([samples]), np.array([1]))
    simulated = graph_times(measured.with_batch(samples).with_element_bytes(2), machine, "bf16")
    for row, times in zip(searched, simulated, strict=True):
        assert row[0] == pytest.approx(times, rel=1e-6)
    # What has no price goes with the samples.
    assert searched[0][0, -1] == pytest.approx(seconds[-1] * samples / 8)


def test_another_accelerator_scales_as_its_prices_do() -> None:
    measured, priced = graph([3e-3, 1e-3], accelerator="a100"), replace(graph([3e-3, 1e-3]), measured=None)
    forward = graph_times(measured.with_element_bytes(2), H100, "bf16")[0]
    ratio = (
        graph_times(priced.with_element_bytes(2), H100, "bf16")[0][0]
        / (graph_times(priced.with_element_bytes(2), A100, "bf16")[0][0])
    )
    assert forward[0] == pytest.approx(3e-3 * ratio)
    unscaled = graph_times(graph([3e-3, 1e-3]).with_element_bytes(2), H100, "bf16")[0]
    assert unscaled == pytest.approx([3e-3, 1e-3])


def test_a_graph_with_measured_times_survives_its_document() -> None:
    measured = graph([3e-3, 1e-3])
    assert ComputeGraph.from_json(measured.to_json()) == measured
    with pytest.raises(LightloomError, match="1 measured times of 2 operators"):
        replace(measured, measured=MeasuredTimes(batch=8, forward=(1.0,), backward=(1.0,)))
    with pytest.raises(LightloomError, match="expected 0 or more"):
        MeasuredTimes(batch=8, forward=(-1.0,), backward=(1.0,))
