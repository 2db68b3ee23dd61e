"""Residuals belong to parameters, and to one rank of one run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="checkpoints hold torch tensors")

from lightloom.core.arrays import Float32s
from lightloom.core.errors import ConfigError
from lightloom.training.hooks.bucket_layout import BucketLayout, Span
from lightloom.training.hooks.error_feedback import ErrorFeedback


def layout_of(lengths: dict[str, int], ranks: int) -> BucketLayout:
    spans, offset = [], 0
    for name, length in lengths.items():
        spans.append(Span(name, offset, length))
        offset += length
    return BucketLayout(spans, ranks, size=sum(span.length for span in spans))


def keep(feedback: ErrorFeedback, layout: BucketLayout, flat: Float32s) -> None:
    """Leave ``flat`` behind, as an exchange would."""
    layout.gather(flat, feedback.blocks(layout))


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(2, 9), st.randoms(use_true_random=False))
def test_blocks_do_not_depend_on_the_order_of_parameters(lengths: list[int], ranks: int, random: object) -> None:
    """Which block a value lies in is a matter of its parameter alone, and scatter undoes gather."""
    named = {f"p{k}": length for k, length in enumerate(lengths)}
    back = dict(reversed(named.items()))
    block_of = []
    for order in (named, back):
        layout = layout_of(order, ranks)
        flat = np.arange(sum(lengths), dtype=np.float32)
        layout.gather(flat, blocks := layout.blocks())
        again = layout.bucket(blocks)
        np.testing.assert_array_equal(again, flat)
        layout.add(flat, blocks)
        for k, block in enumerate(blocks):
            layout.scatter(k, block, again, 0.5)
        np.testing.assert_array_equal(again, flat)
        marks = layout.bucket([np.full_like(block, k) for k, block in enumerate(blocks)])
        block_of.append({span.name: marks[span.slice].tolist() for span in layout.spans})
    assert block_of[0] == block_of[1]


def test_residuals_follow_their_parameter_into_other_buckets() -> None:
    feedback = ErrorFeedback(0, 2)
    keep(feedback, layout_of({"a": 2, "b": 3}, 2), np.arange(5, dtype=np.float32))
    keep(feedback, layout_of({"c": 1}, 2), np.array([7], np.float32))
    after = [layout_of({"b": 3}, 2), layout_of({"c": 1, "a": 2}, 2)]
    moved = [layout.bucket(feedback.blocks(layout)).tolist() for layout in after]
    assert moved == [[2, 3, 4], [7, 0, 1]]
    assert {n: r.tolist() for n, r in feedback.residuals.items()} == {"a": [0, 1], "b": [2, 3, 4], "c": [7]}


def test_what_is_drained_is_given_once() -> None:
    feedback, layout = ErrorFeedback(0, 2), layout_of({"a": 2, "b": 3}, 2)
    keep(feedback, layout, np.arange(5, dtype=np.float32))
    drained = feedback.drain(layout)
    assert drained is not None
    assert drained.tolist() == [0, 1, 2, 3, 4]
    assert feedback.drain(layout) is None
    assert not any(r.any() for r in feedback.residuals.values())
    keep(feedback, layout, np.ones(5, np.float32))
    again = feedback.drain(layout)
    assert again is not None
    assert again.tolist() == [1] * 5


def test_a_checkpoint_goes_back_only_where_it_came_from() -> None:
    from torch.distributed.checkpoint.stateful import Stateful

    sizes = {"a": 2, "b": 3}
    feedback = ErrorFeedback(1, 4, sizes)
    assert isinstance(feedback, Stateful)
    layout = layout_of(sizes, 4)
    keep(feedback, layout, np.arange(5, dtype=np.float32))
    saved = feedback.state_dict()
    keep(feedback, layout, np.full(5, 9, np.float32))
    fresh = ErrorFeedback(1, 4, sizes)
    fresh.load_state_dict(saved)
    assert {n: r.tolist() for n, r in fresh.residuals.items()} == {"a": [0, 1], "b": [2, 3, 4]}
    for other, complaint in (
        (ErrorFeedback(1, 2, sizes), "of 4 ranks, this run has 2"),
        (ErrorFeedback(0, 4, sizes), "another rank than 0"),
        (ErrorFeedback(1, 4, {"a": 2, "c": 3}), "differ in parameter 'b'"),
        (ErrorFeedback(1, 4, {"a": 2, "b": 4}), "'b' has 3 values: expected 4"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            other.load_state_dict(saved)
    unnamed = ErrorFeedback(1, 4)
    unnamed.load_state_dict(saved)
    with pytest.raises(ConfigError, match="another model"):
        unnamed.blocks(layout_of({"b": 9}, 4))
