"""Values come back within half a step, scales are shared, and the biases are those documented."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.block_quantisation import (
    CodeBuffers,
    Rounding,
    averaging_bias,
    synchronisation_share,
)


def there_and_back(buffers: CodeBuffers, values: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of the values, and the values of the codes."""
    codes, decoded = np.zeros(values.size, buffers.code_type), np.zeros_like(values)
    buffers.encode(values, scales, codes)
    buffers.decode(codes, scales, decoded)
    return codes, decoded


@given(
    arrays(np.float32, st.integers(1, 70), elements=st.floats(-(2**10), 2**10, width=32)),
    st.integers(2, 16),
)
def test_decoded_values_are_within_half_a_step(gradient: np.ndarray, bits: int) -> None:
    buffers = CodeBuffers.of([gradient.size], bits, 16)
    scales = buffers.scales(gradient)
    codes, decoded = there_and_back(buffers, gradient, scales)
    step = np.ldexp(1.0, np.repeat(scales.astype(np.int64) - 127, 16)[: gradient.size] - bits + 1)
    error = np.abs(decoded.astype(np.float64) - gradient)
    assert (error <= step).all()
    unsaturated = codes < 2**bits - 1
    assert (error[unsaturated] <= step[unsaturated] / 2).all()
    assert codes.max() < 2**bits


def test_scales_are_agreed_by_all_servers() -> None:
    buffers = CodeBuffers.of([8], bits=8, block=4)
    small = np.full(8, 0.01, np.float32)
    large = np.r_[np.full(4, 3.0), np.full(4, 0.001)].astype(np.float32)
    scales = np.maximum(buffers.scales(small), buffers.scales(large))
    assert (scales.astype(int) - 127).tolist() == [2, -6]
    mean = np.mean([there_and_back(buffers, values, scales)[0] for values in (small, large)], axis=0) - 128
    assert mean[0] * 2.0 ** (2 - 7) == pytest.approx(1.505, abs=2.0 ** (2 - 7))


def test_rounding_has_no_bias() -> None:
    values = np.random.default_rng(0).uniform(-0.9, 0.9, 1 << 17).astype(np.float32)
    buffers = CodeBuffers.of([values.size], 8, 1 << 17)
    error = (there_and_back(buffers, values, buffers.scales(values))[1] - values) * 128
    assert error.mean() == pytest.approx(0.0, abs=0.005)


@pytest.mark.parametrize("servers", range(1, 20))
@pytest.mark.parametrize("rounding", ["floor", "half-up"])
def test_bias_of_the_mean(servers: int, rounding: Rounding) -> None:
    totals = np.arange(servers * 50)
    offset = servers // 2 if rounding == "half-up" else 0
    error = ((totals + offset) // servers - totals / servers).mean()
    assert error == pytest.approx(averaging_bias(servers, rounding), abs=1e-12)


def test_synchronisation_is_below_the_papers_share() -> None:
    assert synchronisation_share(1 << 20, 8) == pytest.approx(1 / 256)
    assert synchronisation_share(1 << 20, 8) < 0.004
    assert synchronisation_share(257, 16) == pytest.approx(2 / 514)


def test_zeros_and_nothing_keep_their_shape() -> None:
    for size in (0, 300):
        zeros, buffers = np.zeros(size, np.float32), CodeBuffers.of([size])
        assert there_and_back(buffers, zeros, buffers.scales(zeros))[1].tolist() == zeros.tolist()


def test_bad_input_is_refused() -> None:
    for arguments, message in (({"block": 0}, "block"), ({"bits": 1}, "sign"), ({"bits": 33}, "from 1 to 32")):
        with pytest.raises(ConfigError, match=message):
            CodeBuffers.of([1], **arguments)
