"""Residuals belong to parameters, and to one rank of one run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="checkpoints hold torch tensors")

from torch.distributed.checkpoint.stateful import Stateful

from lightloom.core.errors import ConfigError
from lightloom.training.bucket_layout import BucketLayout, Span
from lightloom.training.error_feedback import ErrorFeedback


def layout_of(lengths: dict[str, int], ranks: int) -> BucketLayout:
    spans, offset = [], 0
    for name, length in lengths.items():
        spans.append(Span(name, offset, length))
        offset += length
    return BucketLayout(tuple(spans), ranks)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(2, 9), st.randoms(use_true_random=False))
def test_blocks_do_not_depend_on_the_order_of_parameters(lengths: list[int], ranks: int, random: object) -> None:
    """Which block a value lies in is a matter of its parameter alone, and scatter undoes gather."""
    named = {f"p{k}": length for k, length in enumerate(lengths)}
    back = dict(reversed(named.items()))
    block_of = []
    for order in (named, back):
        layout = layout_of(order, ranks)
        flat = np.arange(sum(lengths), dtype=np.float32)
        blocks = layout.gather(flat)
        again = np.full_like(flat, np.nan)
        layout.scatter(blocks, again)
        np.testing.assert_array_equal(again, flat)
        marks = np.empty_like(flat)
        layout.scatter([np.full_like(block, k) for k, block in enumerate(blocks)], marks)
        block_of.append({span.name: marks[span.slice].tolist() for span in layout.spans})
    assert block_of[0] == block_of[1]


def test_residuals_follow_their_parameter_into_another_bucket() -> None:
    feedback = ErrorFeedback(0, 2)
    before, after = layout_of({"a": 2, "b": 3}, 2), layout_of({"b": 3, "a": 2}, 2)
    feedback.add_to(np.zeros(5, np.float32), before.spans)
    feedback.keep(np.arange(5, dtype=np.float32), before.spans)
    flat = np.zeros(5, np.float32)
    feedback.add_to(flat, after.spans)
    np.testing.assert_array_equal(flat, [2, 3, 4, 0, 1])


def test_a_checkpoint_goes_back_only_where_it_came_from() -> None:
    sizes = {"a": 2, "b": 3}
    feedback = ErrorFeedback(1, 4, sizes)
    assert isinstance(feedback, Stateful)
    feedback.keep(np.arange(5, dtype=np.float32), layout_of(sizes, 4).spans)
    saved = feedback.state_dict()
    feedback.residuals["a"][:] = 9
    fresh = ErrorFeedback(1, 4, sizes)
    fresh.load_state_dict(saved)
    assert {n: r.tolist() for n, r in fresh.residuals.items()} == {"a": [0, 1], "b": [2, 3, 4]}
    for other, complaint in (
        (ErrorFeedback(1, 2, sizes), "of 4 ranks, this run has 2"),
        (ErrorFeedback(0, 4, sizes), "another rank than 0"),
        (ErrorFeedback(1, 4, {"a": 2, "c": 3}), "differ in parameter 'b'"),
        (ErrorFeedback(1, 4, {"a": 2, "b": 4}), "'b' has 3 values, 4 due"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            other.load_state_dict(saved)
    unnamed = ErrorFeedback(1, 4)
    unnamed.load_state_dict(saved)
    with pytest.raises(ConfigError, match="another model"):
        unnamed.add_to(np.zeros(9, np.float32), [Span("b", 0, 9)])
