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
def test_digits_spell_their_code(bits: int, data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=1, max_size=20))
    levels = function.digits(np.array(codes, np.int64), bits).astype(int)
    assert levels.T.tolist() == [reference.symbols(code, bits) for code in codes]
    assert [sum(level * 4**place for place, level in enumerate(row[::-1])) for row in levels.T.tolist()] == codes


@given(st.integers(2, 16), st.integers(1, 9), st.data())
def test_the_mean_of_offset_binary_is_the_mean_of_the_values(bits: int, servers: int, data: st.DataObject) -> None:
    half = 2 ** (bits - 1)
    values = data.draw(st.lists(st.integers(-half, half - 1), min_size=servers, max_size=servers))
    assert reference.average([value + half for value in values]) - half == sum(values) // servers


@pytest.mark.parametrize("bits", [0, 33, 8.0, True])
def test_impossible_widths_are_refused(bits: int) -> None:
    with pytest.raises(ConfigError, match="expected a whole number from 1 to 32"):
        function.symbols_for(bits)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="codes hold 256"):
        function.check_codes([256], 8)
    with pytest.raises(InputError, match="expected whole numbers"):
        function.check_codes([0.5], 8)
