"""Float32 vectors as bit patterns, and the kernels that this machine can run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.compression import Inceptionn, InceptionnPrinted, kernels

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
