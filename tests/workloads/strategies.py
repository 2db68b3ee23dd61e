"""Hypothesis strategies for graphs."""

from __future__ import annotations

from hypothesis import strategies as st

from lightloom.models.graph import KINDS, ComputeGraph, Operator

AXES = ("channel", "height", "width", "in_channel", "sequence", "head")


@st.composite
def graphs(draw: st.DrawFn) -> ComputeGraph:
    """Valid graphs in which what belongs to the samples is a multiple of the batch."""
    batch = draw(st.integers(1, 9))
    element_bytes = draw(st.sampled_from((1, 2, 4, 8)))
    operators: list[Operator] = []
    for index in range(draw(st.integers(1, 7))):
        sampled = draw(st.booleans())
        per = batch if sampled else 1
        small = st.integers(0, 10**6)
        output = draw(st.integers(1, 10**4)) * per * element_bytes
        parameters, read = draw(small), draw(small) * per * element_bytes
        fixed = parameters * element_bytes
        axes = draw(st.dictionaries(st.sampled_from(AXES), st.integers(1, 4096), max_size=4))
        operators.append(
            Operator(
                name=f"block.{index}",
                kind=draw(st.sampled_from(sorted(set(KINDS) - {"loss"}))),
                inputs=tuple(draw(st.sets(st.sampled_from([op.name for op in operators])))) if operators else (),
                dimensions=axes | ({"sample": batch} if sampled else {}),
                forward_flops=draw(small) * per,
                backward_flops=draw(small) * per,
                parameter_bytes=fixed,
                activation_bytes=output,
                parameters=parameters,
                forward_bytes=fixed + read + output,
                shared_bytes=fixed if sampled else fixed + read + output,
                block=draw(st.sampled_from(("", "block"))),
            )
        )
    return ComputeGraph(
        name="drawn",
        batch=batch,
        operators=tuple(operators),
        element_bytes=element_bytes,
        unused_parameters=draw(st.integers(0, 9)),
    )
