"""Cascades of the paper's size, and constructions that are known again by their weights."""

from __future__ import annotations

import pytest

from lightloom.photonics.averaging.cascade import build_cascade, end_to_end
from lightloom.photonics.averaging.construct import build, recognise
from lightloom.photonics.averaging.function import AveragingFunction


@pytest.mark.slow
@pytest.mark.parametrize("nonlinearity", ["relu", "clipped"])
def test_ten_million_tuples_through_both_levels(nonlinearity: str) -> None:
    cascade = build_cascade(4, 4, 8, nonlinearity)  # type: ignore[arg-type]
    found = end_to_end(cascade, 10_000_000, seed=5)
    assert found["wrong_with_decimals"] == 0
    assert 0.25 < found["share_wrong_without_decimals"] < 0.32


def test_a_few_tuples_and_their_count() -> None:
    counted: list[int] = []
    found = end_to_end(build_cascade(2, 3, 4), 60_000, advance=counted.append)
    assert sum(counted) == found["tuples"] == 60_000
    assert found["wrong_with_decimals"] == 0 < found["wrong_without_decimals"]


@pytest.mark.parametrize("servers", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_constructions_are_recognised_by_their_weights(servers: int) -> None:
    function = AveragingFunction.of(servers, 6)
    made = build(servers, 6, nonlinearity="clipped")
    found = recognise(made.network, function)
    assert found is not None and found.name == made.name
    assert recognise(build(servers, 6).network, AveragingFunction.of(5, 6)) is None
