"""Values come back within their step, scales are shared, and the biases are those documented."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.block_quantisation import BlockQuantisation, Rounding, averaging_bias


@given(
    arrays(np.float32, st.integers(1, 70), elements=st.floats(-(2**10), 2**10, width=32)),
    st.integers(2, 16),
    st.sampled_from(["floor", "half-up"]),
)
def test_decoded_values_are_within_a_step(gradient: np.ndarray, bits: int, rounding: Rounding) -> None:
    quantise = BlockQuantisation(bits=bits, block=16, rounding=rounding)
    exponents = quantise.exponents(gradient)
    codes = quantise.encode(gradient, exponents)
    step = np.ldexp(1.0, np.repeat(exponents, 16)[: gradient.size] - bits + 1)
    error = quantise.decode(codes, exponents) - gradient
    assert (np.abs(error) <= step).all()
    if rounding == "half-up":
        free = codes < 2**bits - 1
        assert (np.abs(error[free]) <= step[free] / 2).all()
    assert codes.min() >= 0
    assert codes.max() < 2**bits


def test_scales_are_agreed_by_all_servers() -> None:
    quantise = BlockQuantisation(bits=8, block=4)
    small, large = np.full(8, 0.01), np.r_[np.full(4, 3.0), np.full(4, 0.001)]
    exponents = quantise.agree(quantise.exponents(small), quantise.exponents(large))
    assert exponents.tolist() == [2, -6]
    mean = (quantise.encode(small, exponents) + quantise.encode(large, exponents)) / 2 - 128
    assert mean[0] * 2.0 ** (2 - 7) == pytest.approx(1.505, abs=2.0 ** (2 - 7))
    with pytest.raises(InputError, match="exceeds its block's scale"):
        quantise.encode(large, quantise.exponents(small))


@pytest.mark.parametrize(("rounding", "bias"), [("floor", -0.5), ("half-up", 0.0)])
def test_bias_of_rounding(rounding: Rounding, bias: float) -> None:
    quantise = BlockQuantisation(bits=8, block=1 << 17, rounding=rounding)
    values = np.random.default_rng(0).uniform(-0.9, 0.9, 1 << 17)
    exponents = quantise.exponents(values)
    error = (quantise.decode(quantise.encode(values, exponents), exponents) - values) * 128
    assert error.mean() == pytest.approx(bias, abs=0.005)


@pytest.mark.parametrize("servers", range(1, 20))
@pytest.mark.parametrize("rounding", ["floor", "half-up"])
def test_bias_of_the_mean(servers: int, rounding: Rounding) -> None:
    totals = np.arange(servers * 50)
    offset = servers // 2 if rounding == "half-up" else 0
    error = ((totals + offset) // servers - totals / servers).mean()
    assert error == pytest.approx(averaging_bias(servers, rounding), abs=1e-12)


def test_synchronisation_is_below_the_papers_share() -> None:
    assert BlockQuantisation(bits=8).synchronisation_share(1 << 20) == pytest.approx(1 / 256)
    assert BlockQuantisation(bits=8).synchronisation_share(1 << 20) < 0.004
    assert BlockQuantisation(bits=16).synchronisation_bytes(257) == 2


def test_zeros_and_nothing_keep_their_shape() -> None:
    quantise = BlockQuantisation()
    for size in (0, 300):
        zeros = np.zeros(size)
        exponents = quantise.exponents(zeros)
        assert quantise.decode(quantise.encode(zeros, exponents), exponents).tolist() == zeros.tolist()


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="NaN"):
        BlockQuantisation().exponents([float("nan")])
    with pytest.raises(ConfigError, match="rounding"):
        BlockQuantisation(rounding="up")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="block"):
        BlockQuantisation(block=0)
    with pytest.raises(ConfigError, match="sign"):
        BlockQuantisation(bits=1)
    with pytest.raises(InputError, match="exponents for"):
        BlockQuantisation(block=4).encode(np.ones(9), np.zeros(2, np.int16))
