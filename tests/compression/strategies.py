"""Float32 vectors as bit patterns, and the kernels that this machine can run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.exchange.compression import kernels
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnPrinted

SPECIAL = [0, 0x80000000, 1, 0x807FFFFF, 0x00800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001]
"""±0, denormals, the least normal, ±Inf, quiet NaN, NaN with payload, signalling NaN."""


def _edges() -> list[int]:
    """Bit patterns beside every power of two that can be a threshold."""
    powers = [(127 - k) << 23 for k in range(17)]
    return [sign | (bits + off) for bits in powers for off in (-1, 0, 1) for sign in (0, 0x80000000)]


patterns = st.one_of(
    st.integers(0, 2**32 - 1), st.sampled_from(SPECIAL + _edges()), st.integers(0x37000000, 0x3F900000), st.just(0)
)
vectors = st.lists(patterns, max_size=200).map(lambda bits: np.array(bits, np.uint32).view(np.float32))
forms: st.SearchStrategy[Inceptionn | InceptionnPrinted] = st.builds(
    lambda form, k: form(2.0**-k), st.sampled_from([Inceptionn, InceptionnPrinted]), st.integers(1, 14)
)


def with_chunks(codec: Inceptionn | InceptionnPrinted, chunk: int) -> Inceptionn | InceptionnPrinted:
    """The codec with other frames, so that a short stream has several."""
    object.__setattr__(codec, "chunk", chunk)
    return codec


def _gradient(seed: int, count: int, scale: float, special: float) -> NDArray[np.float32]:
    random = np.random.default_rng(seed)
    values = random.laplace(0, scale, count).astype(np.float32)
    values[random.random(count) < random.random()] *= np.float32(1e-3)
    at = np.flatnonzero(random.random(count) < special)
    values.view(np.uint32)[at] = random.choice(np.array(SPECIAL + _edges(), np.uint32), at.size)
    return values


small_frames = st.builds(with_chunks, forms, st.integers(1, 60).map(lambda groups: 8 * groups))
gradients = st.builds(
    _gradient,
    st.integers(0, 2**32 - 1),
    st.integers(0, 3000),
    st.floats(-5, 0).map(lambda power: 10.0**power),
    st.sampled_from([0.0, 0.002, 0.05]),
)
"""Long enough for paths that take many values and several frames at a time, with values that do and do not fit them."""


@contextmanager
def kernel(name: str) -> Iterator[None]:
    """Run with one kernel; skips the test where this machine has none of that name."""
    with pytest.MonkeyPatch.context() as patch:
        if kernels.load(name) is None:
            pytest.skip(f"kernel {name} was not built here, or this CPU cannot run it")
        patch.setenv("LIGHTLOOM_KERNEL", name)
        yield


def bits(array: Any) -> NDArray[np.uint32]:
    """Bit patterns, so that NaN and -0 compare."""
    return np.ascontiguousarray(array, np.float32).reshape(-1).view(np.uint32)
