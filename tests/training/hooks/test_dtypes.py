"""Types of gradients: complex ones reach every replica whole, float64 ones exactly or not at all."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the hooks are torch's")

from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import UnsupportedError
from lightloom.training.hooks.bucket_layout import BucketLayout, Span
from tests.training.conftest import Processes

TOLERANCES = {"no codec": 1e-5, "schedule": 1e-5}
"""Of the gradients' difference to the plain average, without a codec; with one 2^-9: twice the codec's bound."""


def test_complex_gradients_reach_all_replicas_whole(processes: Processes) -> None:
    outcomes = processes.results("dtypes")
    for name in outcomes[0]["complex_parameters"]:
        runs = [outcome["complex_parameters"][name] for outcome in outcomes]
        assert len({run["digest"] for run in runs}) == 1, name
        assert max(run["worst"] for run in runs) <= TOLERANCES.get(name, 2**-9), (name, runs)
    shards = [outcome["complex_shards"] for outcome in outcomes]
    assert len({run["digest"] for run in shards}) == 1
    assert max(run["worst"] for run in shards) <= 2**-9


def test_float64_gradients_are_exchanged_exactly_or_refused(processes: Processes) -> None:
    for outcome in processes.results("dtypes"):
        for name, verdict in outcome["float64"].items():
            if name in ("no codec", "schedule", "fsdp without codec"):
                assert verdict == "exact", name
            else:
                assert verdict.startswith("UnsupportedError: gradients of torch.float64"), name
                assert "float32" in verdict and "\n" not in verdict, name


@given(st.lists(st.integers(0, 9), max_size=5), st.integers(1, 5))
def test_every_value_of_a_bucket_is_in_exactly_one_block(lengths: list[int], ranks: int) -> None:
    offsets = [sum(lengths[:k]) for k in range(len(lengths))]
    spans = [Span(str(k), *pair) for k, pair in enumerate(zip(offsets, lengths, strict=True))]
    layout = BucketLayout(spans, ranks, size=sum(lengths))
    flat = layout.bucket()
    flat[:] = range(1, flat.size + 1)
    blocks = layout.blocks()
    layout.gather(flat, blocks)
    assert sorted(value for block in blocks for value in block) == list(flat)


@pytest.mark.parametrize(
    ("spans", "fault"),
    [
        ([Span("a", 0, 3), Span("b", 3, 4)], "7 of 8 values"),
        ([Span("a", 0, 3), Span("b", 4, 4)], "'b' begins at value 4"),
        ([Span("a", 0, 5), Span("b", 3, 5)], "'b' begins at value 3"),
        ([Span("a", 0, 9)], "9 of 8 values"),
    ],
)
def test_spans_that_do_not_cover_their_buffer_are_refused(spans: list[Span], fault: str) -> None:
    with pytest.raises(UnsupportedError, match=fault):
        BucketLayout(spans, 2, size=8)
