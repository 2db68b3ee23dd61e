"""The graph made from sizes is the one that tracing gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lightloom.core.errors import WorkloadError
from lightloom.models.decoder import MOST_LAYERS, DecoderSizes, TransformerSizes, transformer_graph
from lightloom.models.zoo import load_workload


def test_the_graph_equals_the_trace_of_gpt_2() -> None:
    traced = load_workload("gpt2-355m", batch=3)
    sizes = TransformerSizes(hidden=1024, layers=24, heads=16, ffn=4096, vocabulary=50_257, sequence_length=1024)
    made = transformer_graph(sizes, 3, traced.name)
    assert [operator.name for operator in made.operators] == [operator.name for operator in traced.operators]
    for ours, theirs in zip(made.operators, traced.operators, strict=True):
        # What autograd keeps is known of traced models alone.
        assert ours == replace(theirs, saved_bytes=None, saved_shared_bytes=0, saved_index_bytes=0)


def sizes(**changes: Any) -> DecoderSizes:
    plain = {"layers": 4, "hidden": 64, "heads": 8, "vocabulary": 100, "sequence_length": 16, "ffn": 256}
    return DecoderSizes(**{**plain, **changes})


@pytest.mark.parametrize(
    ("taken", "refused", "words"),
    [
        ({"layers": MOST_LAYERS}, {"layers": MOST_LAYERS + 1}, f"layers: expected at most {MOST_LAYERS:,}"),
        ({"experts": MOST_LAYERS}, {"experts": MOST_LAYERS + 1}, f"experts: expected at most {MOST_LAYERS:,}"),
        ({"heads": 32}, {"heads": 12}, "12 heads: expected a divisor of the hidden size 64"),
        ({"heads": 12, "head_width": 5}, {"heads": 12}, "expected a divisor of the hidden size"),
        ({"key_heads": 2}, {"key_heads": 3}, "3 heads of keys: expected a divisor of the 8 heads"),
        ({"key_heads": 8}, {"key_heads": 16}, "16 heads of keys: expected a divisor of the 8 heads"),
        ({"experts": 2, "visited": 2}, {"experts": 2, "visited": 3}, "3 experts a token: expected 1 to 2"),
        ({"experts": 2, "visited": 1}, {"experts": 2, "visited": 0}, "0 experts a token: expected 1 to 2"),
        ({"visited": 0}, {"experts": 1}, "2 experts a token: expected 1 to 1"),
        ({"table_length": 16}, {"table_length": 15}, "sequence length 16: the table of positions holds 15"),
    ],
)
def test_sizes_are_refused_from_where_they_contradict_each_other(
    taken: dict[str, int], refused: dict[str, int], words: str
) -> None:
    assert sizes(**taken).hidden == 64
    with pytest.raises(WorkloadError, match=words):
        sizes(**refused)
