"""The function on its grid is the plain integer average, for any width, count, grouping and rounding."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.averaging.function import (
    AveragingFunction,
    digits,
    points_of_servers,
    preprocessing_matrix,
    symbols_for,
)
from tests.photonics.averaging import reference


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, int, int, list[int]]:
    bits, servers, inputs = draw(st.integers(1, 32)), draw(st.integers(1, 40)), draw(st.integers(1, 8))
    return bits, servers, inputs, draw(st.lists(st.integers(0, 2**bits - 1), min_size=servers, max_size=servers))


@given(cases(), st.booleans())
def test_the_function_is_the_reference(case: tuple[int, int, int, list[int]], half_up: bool) -> None:
    bits, servers, inputs, codes = case
    function = AveragingFunction.of(servers, bits, inputs, "half-up" if half_up else "floor")
    points = points_of_servers(np.array(codes)[:, None], bits, function)
    mean = reference.average(codes, half_up)
    assert function.light(points)[:, 0] == pytest.approx(
        [float(a) for a in reference.preprocessed(codes, bits, inputs)]
    )
    assert function.average(points).tolist() == [mean]
    assert function.ideal(points)[:, 0].tolist() == reference.symbols(mean, bits)
    assert function.decide(function.ideal(points)).tolist() == [mean]


@given(cases(), st.integers(0, 5))
def test_p_of_any_active_servers_gives_their_grid(case: tuple[int, int, int, list[int]], spare: int) -> None:
    bits, servers, inputs, codes = case
    function = AveragingFunction.of(servers, bits, inputs)
    light = np.concatenate([digits(np.array(codes), bits).T.reshape(-1), np.full(spare * symbols_for(bits), 3)])
    active = preprocessing_matrix(servers, symbols_for(bits), len(function.inputs))
    ports = np.pad(active, ((0, 0), (0, spare * symbols_for(bits))))
    points = points_of_servers(np.array(codes)[:, None], bits, function)
    assert ports @ light == pytest.approx(function.light(points)[:, 0], rel=1e-12)


@pytest.mark.parametrize(("bits", "servers", "inputs"), [(2, 3, 1), (3, 2, 2), (4, 3, 1), (4, 2, 2), (5, 2, 2)])
def test_the_grid_is_exactly_what_servers_reach(bits: int, servers: int, inputs: int) -> None:
    function = AveragingFunction.of(servers, bits, inputs)
    tuples = np.array(list(product(range(2**bits), repeat=servers))).T
    reached = {tuple(p) for p in points_of_servers(tuples, bits, function).T.tolist()}
    grid = [tuple(p) for chunk in function.grid(chunk=7) for p in chunk.T.tolist()]
    assert len(grid) == len(set(grid)) == function.points
    assert reached == set(grid)


@given(cases())
def test_the_function_is_symmetric_and_moves_with_a_common_shift(case: tuple[int, int, int, list[int]]) -> None:
    bits, servers, inputs, codes = case
    function = AveragingFunction.of(servers, bits, inputs)
    shift = 2**bits - 1 - max(codes)

    def mean(values: list[int]) -> int:
        return int(function.average(points_of_servers(np.array(values)[:, None], bits, function))[0])

    assert mean(codes[::-1]) == mean(codes)
    assert mean([c + shift for c in codes]) == mean(codes) + shift


@given(st.integers(1, 32), st.integers(1, 1024), st.integers(0, 2**32))
def test_points_of_totals_have_these_totals(bits: int, servers: int, seed: int) -> None:
    function = AveragingFunction.of(servers, bits)
    rng = np.random.default_rng(seed)
    totals = rng.integers(0, function.largest + 1, 20)
    points = function.points_of(totals, rng)
    assert function.total(points).tolist() == totals.tolist()
    assert (points >= 0).all()
    assert (points.max(axis=1) <= [i.maximum for i in function.inputs]).all()


def test_the_papers_grids() -> None:
    sizes = [AveragingFunction.of(n, b).points for b, n in [(8, 4), (8, 8), (8, 16), (16, 4)]]
    assert sizes == [28_561, 390_625, 5_764_801, 13_845_841]


def test_bad_input_is_refused() -> None:
    for servers in (0, -1, 2.0):
        with pytest.raises(ConfigError, match="servers"):
            AveragingFunction.of(servers, 8)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="inputs"):
        AveragingFunction.of(4, 8, inputs=0)
    with pytest.raises(ConfigError, match="rounding"):
        AveragingFunction.of(4, 8, rounding="ceil")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="decimals"):
        AveragingFunction.of(4, 8, rounding="half-up", carries_decimals=True)
    with pytest.raises(InputError, match="totals"):
        AveragingFunction.of(4, 8).points_of(np.array([4 * 256]), np.random.default_rng(0))
