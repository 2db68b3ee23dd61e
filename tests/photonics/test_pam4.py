"""Codes survive light, signed means survive offset binary, and receivers err as the Gaussian tail says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.averaging import function
from tests.photonics.averaging import reference


@given(st.integers(1, 32), st.data())
def test_decoding_undoes_encoding(bits: int, data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=1, max_size=20))
    levels = function.encode(codes, bits)
    assert levels.tolist() == [reference.symbols(code, bits) for code in codes]
    assert function.decode(levels, bits).tolist() == codes


@given(st.integers(2, 16), st.integers(1, 9), st.data())
def test_the_mean_of_offset_binary_is_the_mean_of_the_values(bits: int, servers: int, data: st.DataObject) -> None:
    half = 2 ** (bits - 1)
    values = data.draw(st.lists(st.integers(-half, half - 1), min_size=servers, max_size=servers))
    assert reference.average([value + half for value in values]) - half == sum(values) // servers


@given(st.lists(st.floats(-0.49, 0.49), min_size=4, max_size=4))
def test_less_than_half_a_level_of_noise_is_undone(noise: list[float]) -> None:
    assert function.decide(np.arange(4) + noise).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("bits", [0, 33, 8.0, True])
def test_impossible_widths_are_refused(bits: int) -> None:
    with pytest.raises(ConfigError, match="expected a whole number from 1 to 32"):
        function.symbols_for(bits)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="codes hold 256"):
        function.encode([256], 8)
    with pytest.raises(InputError, match="levels hold 4"):
        function.decode([[0, 0, 0, 4]], 8)
    with pytest.raises(InputError, match="expected 4 signals"):
        function.decode([[0, 0, 0]], 8)
    with pytest.raises(InputError, match="expected whole numbers"):
        function.encode([0.5], 8)
