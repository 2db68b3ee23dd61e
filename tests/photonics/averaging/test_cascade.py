"""Two levels with carried decimals are one average; without, they are not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.cascade import (
    basic,
    build_cascade,
    random_codes,
    second_level,
)
from lightloom.photonics.averaging.networks import Nonlinearity
from tests.photonics.averaging import reference


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 16), st.data())
def test_carrying_decimals_is_averaging_once(groups: int, servers: int, bits: int, data: st.DataObject) -> None:
    code = st.integers(0, 2**bits - 1)
    codes = data.draw(st.lists(st.lists(code, min_size=servers, max_size=servers), min_size=groups, max_size=groups))
    once = reference.average([c for group in codes for c in group])
    assert reference.cascade_carried(codes) == once
    assert reference.cascade_basic(codes) in (once, once - 1)
    assert basic(np.array(codes)[..., None]).tolist() == [reference.cascade_basic(codes)]


@settings(max_examples=3, deadline=None)
@given(st.sampled_from([(2, 2), (3, 3), (4, 4), (3, 5)]), st.sampled_from([4, 7, 8]), st.integers(0, 99))
def test_networks_in_series_are_exact(shape: tuple[int, int], bits: int, seed: int) -> None:
    cascade = build_cascade(*shape, bits, nonlinearity="clipped")
    codes = random_codes(*shape, bits, 500, np.random.default_rng(seed))
    assert (cascade.average(codes) == codes.sum(axis=(0, 1)) // (shape[0] * shape[1])).all()


@pytest.mark.parametrize("kind", ["relu", "clipped"])
def test_the_papers_cascade(kind: Nonlinearity) -> None:
    cascade = build_cascade(4, 4, 8, kind)
    assert cascade.first.function.points == 28_561
    assert cascade.second.function.points == 134_017
    assert cascade.first.verify().wrong_outputs == 0
    assert cascade.second.verify().wrong_outputs == 0
    codes = random_codes(4, 4, 8, 20_000, np.random.default_rng(1))
    once = codes.sum(axis=(0, 1)) // 16
    assert (cascade.average(codes) == once).all()
    wrong = basic(codes) - once
    assert set(wrong.tolist()) == {0, -1}
    assert 0.25 < (wrong != 0).mean() < 0.35


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["relu", "clipped"])
def test_ten_million_tuples_end_to_end(kind: Nonlinearity) -> None:
    cascade, rng = build_cascade(4, 4, 8, kind), np.random.default_rng(2)
    for _ in range(200):
        codes = random_codes(4, 4, 8, 50_000, rng)
        assert (cascade.average(codes) == codes.sum(axis=(0, 1)) // 16).all()


def test_level_two_rounds_half_up_too() -> None:
    function = second_level(4, 4, 8, rounding="half-up")
    points = next(function.grid(5000))
    assert (function.average(points) == (function.total(points) + 8) // 16).all()


def test_no_groups_are_refused() -> None:
    with pytest.raises(ConfigError, match="groups = 0"):
        second_level(0, 4, 8)


def test_level_two_refuses_another_rounding_as_level_one_does() -> None:
    with pytest.raises(ConfigError, match="rounding = 'up': expected floor or half-up"):
        second_level(2, 4, 8, rounding="up")  # type: ignore[arg-type]
