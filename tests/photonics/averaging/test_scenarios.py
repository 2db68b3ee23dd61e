"""The table of the paper's scenarios: nothing wrong on any grid, and the paper's own networks beside it."""

from __future__ import annotations

import pytest

from lightloom.photonics.averaging.cascade import build_cascade, end_to_end
from lightloom.photonics.averaging.construct import ROWS, build, recognise, scenario_rows
from lightloom.photonics.averaging.function import AveragingFunction

GRIDS = (28_561, 390_625, 5_764_801, 13_845_841)


@pytest.mark.slow
def test_all_scenarios_are_exact_on_their_full_grids() -> None:
    done: list[int] = []
    rows = scenario_rows(done.append, evaluations=20_000)
    assert len(rows) == sum(done) == ROWS
    assert sorted({row["checked_inputs"] for row in rows}) == sorted(GRIDS)
    for row in rows:
        if row["constructed"]:
            assert row["proved"] and row["exhaustive"] and row["wrong_outputs"] == 0
            assert row["noise_limit"] > 0 and row["largest_gain_db"] > 0
            assert row["mzi_count"] < 5_000 or row["network"].startswith("Σ · U")
        else:
            assert row["mzi_count"] > 40_000 and row["noise_limit"] is None


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
