"""The paper's area ratios by the convention that counts P and T, and the economy mapping beside them."""

from __future__ import annotations

import pytest

from lightloom.photonics.averaging.networks import (
    TABLE_I,
    TABLE_II,
    PaperNetwork,
    mzi_count,
    mzi_of_units,
)


def test_table_i_to_the_printed_digit() -> None:
    assert [row.ratio() for row in TABLE_I] == pytest.approx([39.27, 40.92, 40.39, 49.35], abs=0.005)
    # 49.35 lies on the edge of rounding: the paper prints 49.3.
    assert all(abs(row.ratio() - row.printed) <= 0.055 for row in TABLE_I)


def test_without_p_and_t_no_row_fits() -> None:
    assert [row.ratio(units=False) for row in TABLE_I] == pytest.approx([39.12, 40.77, 40.25, 49.22], abs=0.005)


@pytest.mark.parametrize("row", TABLE_II, ids=lambda row: "-".join(map(str, row.approximated)))
def test_table_ii_within_two_tenths(row: PaperNetwork) -> None:
    assert row.ratio() == pytest.approx(row.printed, abs=0.2)


def test_against_an_economy_baseline_half_the_saving_is_gone() -> None:
    ratios = [row.ratio("economy", units=False) for row in TABLE_I]
    assert ratios == pytest.approx([50.54, 50.33, 50.16, 57.42], abs=0.005)


def test_counts_of_the_papers_networks() -> None:
    areas = [(r.area(approximated=False, units=False), r.area(units=False)) for r in TABLE_I]
    assert areas == [(106_512, 41_664), (434_192, 177_040), (1_744_912, 702_352), (434_218, 213_738)]


def test_biases_and_units_are_counted() -> None:
    assert mzi_count((4, 7, 4), bias=True) == mzi_count((5, 8)) + mzi_count((8, 4))
    assert mzi_of_units(4, 8, 4) == 272
    assert mzi_count((4, 9, 4), "economy") == 72
