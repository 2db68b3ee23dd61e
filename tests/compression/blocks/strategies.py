"""Formats of blocks and values to write in them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.exchange.compression.blocks import BlockFormat, Kind
from tests.compression.strategies import SPECIAL

POWERS = [8, 16, 32, 64, 128, 256, 4096]

DEFAULTS = [
    BlockFormat("linear", 8, 256),
    BlockFormat("linear", 4, 128),
    BlockFormat("linear", 3, 128),
    BlockFormat("lloyd", 2, 64),
    BlockFormat("sign", 1, 256),
]
"""The formats that exchanges use, but fp8."""

linear = st.builds(BlockFormat, st.just("linear"), st.integers(2, 8), st.sampled_from([*POWERS, 24, 40, 96, 192, 360]))


def _mean(kind: Kind, block: int) -> BlockFormat:
    return BlockFormat(kind, 2 if kind == "lloyd" else 1, block)


triton_formats = st.one_of(
    st.sampled_from(DEFAULTS), linear, st.builds(_mean, st.sampled_from(["lloyd", "sign"]), st.sampled_from(POWERS))
)
formats = st.one_of(
    triton_formats, st.builds(BlockFormat, st.just("fp8"), st.just(8), st.sampled_from([*POWERS, 24, 96, 360]))
)


def _values(seed: int, count: int, power: int, special: float) -> NDArray[np.float32]:
    random = np.random.default_rng(seed)
    with np.errstate(over="ignore", under="ignore"):
        values = np.ldexp(random.standard_normal(count), power).astype(np.float32)
    values[random.random(count) < 0.1 * random.random()] = 0
    at = np.flatnonzero(random.random(count) < special)
    patterns = random.integers(0, 2**32, at.size, dtype=np.uint32)
    values.view(np.uint32)[at] = np.where(random.random(at.size) < 0.5, patterns, random.choice(SPECIAL, at.size))
    return values


seeds = st.integers(0, 2**32 - 1)
counts = st.one_of(st.integers(0, 300), st.integers(0, 5000))
gradients = st.builds(_values, seeds, counts, st.integers(-40, 10), st.just(0.0))
"""Finite values of ordinary sizes, where nothing overflows or becomes subnormal."""
values = st.builds(
    _values,
    seeds,
    counts,
    st.sampled_from([-149, -135, -128, -126, -122, -10, 0, 120, 126, 127]),
    st.sampled_from([0.0, 0.0, 0.002, 0.1]),
)
"""Values of all sizes, some with NaN, infinities and arbitrary bit patterns."""
