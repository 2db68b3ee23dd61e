"""Functions small enough to try every point of, and every construction of each."""

from __future__ import annotations

from hypothesis import strategies as st

from lightloom.photonics.averaging.function import AveragingFunction

small_functions = st.builds(
    AveragingFunction.of,
    servers=st.integers(1, 12),
    bits=st.integers(1, 12),
    inputs=st.integers(1, 4),
    rounding=st.sampled_from(["floor", "half-up"]),
).filter(lambda function: function.points <= 50_000)
