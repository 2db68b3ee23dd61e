"""The graph made from sizes is the one that tracing gives."""

from __future__ import annotations

from dataclasses import replace

from lightloom.models.decoder import TransformerSizes, transformer_graph
from lightloom.models.zoo import load_workload


def test_the_graph_equals_the_trace_of_gpt_2() -> None:
    traced = load_workload("gpt2-355m", batch=3)
    sizes = TransformerSizes(hidden=1024, layers=24, heads=16, ffn=4096, vocabulary=50_257, sequence_length=1024)
    made = transformer_graph(sizes, 3, traced.name)
    assert [operator.name for operator in made.operators] == [operator.name for operator in traced.operators]
    for ours, theirs in zip(made.operators, traced.operators, strict=True):
        # What autograd keeps is known of traced models alone.
        assert ours == replace(theirs, saved_bytes=None, saved_shared_bytes=0, saved_index_bytes=0)
