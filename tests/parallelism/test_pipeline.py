"""Stages are whole and balanced, 1F1B runs every pass once, and equal stages take (m + p − 1)(f + b)."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.planning.parallelism.plan import (
    block_starts,
    crossing_bytes,
    cuts,
    in_flight,
    one_forward_one_backward,
)
from lightloom.planning.search.bounds import pipeline_bound
from lightloom.planning.simulation.engine import run
from lightloom.planning.simulation.pipelined import PipelinedStep, StageTimes, lower_pipelined
from tests.planner.jobs import transformer
from tests.simulation.stages import stage_times


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.data())
def test_no_other_cut_has_a_less_busy_busiest_stage(work: list[int], data: st.DataObject) -> None:
    stages = data.draw(st.integers(1, len(work)))
    edges = cuts(np.array(work, np.float64), np.arange(len(work)), stages)
    assert edges[0] == 0 and edges[-1] == len(work) and len(edges) == stages + 1 and (np.diff(edges) > 0).all()
    others = [(0, *each, len(work)) for each in combinations(range(1, len(work)), stages - 1)]

    def busiest(at: tuple[int, ...]) -> int:
        return max(sum(work[i:j]) for i, j in pairwise(at))

    assert busiest(tuple(edges.tolist())) == min(map(busiest, others))


def test_stages_begin_only_where_blocks_do() -> None:
    graph = transformer(5)
    starts = block_starts(graph)
    names = [graph.operators[index].name for index in starts]
    assert names == ["tokens", *(f"layers.{index}.qkv" for index in range(1, 5))]
    # One tensor of activations enters each block, two at once inside of it.
    entering = crossing_bytes(graph)[starts]
    assert entering.tolist() == [0] + [graph.operator("tokens").activation_bytes] * 4


@given(st.integers(1, 6), st.integers(1, 9))
def test_as_few_as_needed_are_in_flight(stages: int, micro_batches: int) -> None:
    for stage, counts in enumerate(in_flight(stages, micro_batches, 1)):
        order = one_forward_one_backward(stage, stages, micro_batches)
        flying = np.cumsum([1 if direction == "forward" else -1 for direction, _, _ in order])
        assert flying.min() >= 0 and flying.max() == min(micro_batches, stages - stage) == counts.max()


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4))
def test_every_pass_runs_once_and_chunks_keep_what_is_said(stages: int, turns: int, virtual: int) -> None:
    micro_batches = stages * turns
    kept = np.random.default_rng(0).random((3, virtual))
    for stage, counts in enumerate(in_flight(stages, micro_batches, virtual)):
        order = one_forward_one_backward(stage, stages, micro_batches, virtual)
        mine = range(stage, stages * virtual, stages)
        every = product(("forward", "backward"), mine, range(micro_batches))
        assert sorted(order) == sorted(every)
        flying, most = np.zeros(virtual), np.zeros(3)
        for direction, chunk, _ in order:
            flying[chunk // stages] += 1 if direction == "forward" else -1
            assert flying.min() >= 0
            most = np.maximum(most, kept @ flying)
        assert (kept @ counts.T).max(axis=1) == pytest.approx(most)
        assert order[0] == ("forward", stage, 0) and order[-1] == ("backward", stage, micro_batches - 1)


def equal_chunks(stages: int, forward: float, backward: float, virtual: int = 1) -> StageTimes:
    """Equal chunks without communication."""
    chunks = np.ones(stages * virtual)
    return stage_times(stages, virtual, given={"forward": forward * chunks, "backward": backward * chunks})


@given(st.integers(1, 6), st.integers(1, 9), st.floats(1e-6, 1), st.floats(1e-6, 1))
def test_equal_stages_take_the_bubble_and_nothing_more(p: int, m: int, forward: float, backward: float) -> None:
    timeline = run(lower_pipelined(PipelinedStep(times=equal_chunks(p, forward, backward), micro_batches=m)))
    assert timeline.step_time == pytest.approx((m + p - 1) * (forward + backward), rel=1e-9)
    assert timeline.busy_time()["forward"] == pytest.approx(p * m * forward, rel=1e-9)


@given(st.integers(2, 5), st.integers(1, 4), st.integers(2, 4), st.floats(1e-6, 1), st.floats(1e-6, 1))
def test_interleaved_chunks_leave_a_part_of_the_bubble(p: int, turns: int, v: int, there: float, back: float) -> None:
    m = p * turns
    times = equal_chunks(p, there / v, back / v, v)
    simulated = run(lower_pipelined(PipelinedStep(times=times, micro_batches=m))).step_time
    assert simulated == pytest.approx((m + (p - 1) / v) * (there + back), rel=1e-9)
    columns = StageTimes(**{name: getattr(times, name)[None] for name in StageTimes.__dataclass_fields__})
    assert pipeline_bound(columns, np.array([m]))[0] == pytest.approx(simulated, rel=1e-9)
