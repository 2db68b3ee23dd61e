"""Random compute graphs."""

from __future__ import annotations

from hypothesis import strategies as st

from lightloom.models.graph import ComputeGraph, Operator


@st.composite
def graphs(draw: st.DrawFn) -> ComputeGraph:
    """A chain of operators, some with parameters, some without FLOPs."""
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from([0, 1, 1000, 300_000, 9_000_000]),
                st.integers(0, 10**12),
                st.integers(0, 10**8),
            ),
            min_size=1,
            max_size=30,
        )
    )
    return chain(rows)


def chain(rows: list[tuple[int, int, int]]) -> ComputeGraph:
    """Operators one after another, from (parameters, forward FLOPs, elements of the output)."""
    operators = tuple(
        Operator(
            name=f"op{i}",
            kind="linear",
            inputs=(f"op{i - 1}",) if i else (),
            dimensions={"sample": 32},
            forward_flops=flops,
            backward_flops=2 * flops if i else flops,
            parameter_bytes=4 * parameters,
            parameters=parameters,
            activation_bytes=4 * 32 * elements,
            forward_bytes=4 * parameters + 4 * 64 * elements,
            shared_bytes=4 * parameters,
        )
        for i, (parameters, flops, elements) in enumerate(rows)
    )
    return ComputeGraph(name="chain", batch=32, operators=operators)
