"""Stages are whole and balanced, 1F1B runs every pass once, and equal stages take (m + p − 1)(f + b)."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.parallelism.pipeline import block_starts, crossing_bytes, cuts, one_forward_one_backward
from lightloom.simulation.engine import run
from lightloom.simulation.pipelined import StageTimes, lower_pipelined
from tests.planner.jobs import transformer


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
def test_every_pass_runs_once_and_as_few_as_needed_are_in_flight(stages: int, micro_batches: int) -> None:
    for stage in range(stages):
        order = one_forward_one_backward(stage, stages, micro_batches)
        assert sorted(order) == sorted((d, i) for d in ("forward", "backward") for i in range(micro_batches))
        flying = np.cumsum([1 if direction == "forward" else -1 for direction, _ in order])
        assert flying.min() >= 0 and flying.max() == min(micro_batches, stages - stage)


def equal_stages(stages: int, forward: float, backward: float) -> StageTimes:
    """Equal stages without communication."""
    none = np.zeros(stages)
    return StageTimes(
        forward=none + forward, backward=none + backward, forward_exchange=none, backward_exchange=none, send=none,
        gather=none, exchange=none, update=none,
    )  # fmt: skip


@given(st.integers(1, 6), st.integers(1, 9), st.floats(1e-6, 1), st.floats(1e-6, 1))
def test_equal_stages_take_the_bubble_and_nothing_more(p: int, m: int, forward: float, backward: float) -> None:
    timeline = run(lower_pipelined(equal_stages(p, forward, backward), m))
    assert timeline.step_time == pytest.approx((m + p - 1) * (forward + backward), rel=1e-9)
    assert timeline.busy_time()["forward"] == pytest.approx(p * m * forward, rel=1e-9)
