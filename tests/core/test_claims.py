"""Rows of studies: what their numbers and their basis make of them, and what no row may claim."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.claims import (
    MEANINGS,
    STATUSES,
    Basis,
    Claim,
    counts_in_words,
    status_counts,
)

FIGURES = st.floats(-1e6, 1e6).filter(lambda value: abs(value) > 1e-3)


def claim(
    ours: float | str | None, *, paper: float | str | None = 1.0, tolerance: float = 0.0, **fields: object
) -> Claim:
    given_fields = {"id": "study.table1.row", "unit": "", "why": "because", **fields}
    return Claim(paper=paper, ours=ours, tolerance=tolerance, **given_fields)  # type: ignore[arg-type]


@given(FIGURES, st.floats(0, 0.999))
def test_zero_never_matches_a_figure_that_is_not_zero(paper: float, share: float) -> None:
    assert claim(0.0, paper=paper, tolerance=share * abs(paper)).status == "deviates"


@given(FIGURES, FIGURES, st.floats(1, 10))
def test_a_tolerance_that_accepts_the_trivial_answer_is_refused(paper: float, trivial: float, factor: float) -> None:
    tolerance = factor * abs(paper - trivial)
    if tolerance:
        with pytest.raises(ValueError, match=r"study\.table1\.row: a tolerance of .* needs no experiment"):
            claim(paper, paper=paper, tolerance=tolerance, trivial=trivial)


def test_a_printed_zero_is_met_only_against_another_trivial_answer() -> None:
    for tolerance in (0.0, 1e-9):
        for basis in ("reproduced", "stand-in"):
            with pytest.raises(
                ValueError, match="accepts 0, which needs no experiment: expected another trivial answer"
            ):
                claim(0.0, paper=0.0, tolerance=tolerance, basis=basis)
    assert claim(0.0, paper=0.0, basis="by construction").status == "by construction"
    assert claim(0.0, paper=0.0, trivial=1.0).status == "match"
    assert claim(0.5, paper=0.0).status == "deviates"
    assert claim(-0.1, paper=0.0, tolerance=0.2, trivial=-87.0).status == "match"


@pytest.mark.parametrize("basis", ["derived", "stand-in", "by construction"])
def test_agreement_of_another_basis_is_no_match_and_says_why(basis: Basis) -> None:
    assert claim(1.0, basis=basis).status == basis
    assert claim(2.0, basis=basis).status == "deviates"
    with pytest.raises(ValueError, match="must say why"):
        claim(1.0, basis=basis, why="")


def test_every_status_has_a_meaning() -> None:
    assert tuple(MEANINGS) == STATUSES


def test_counts_name_every_status_once_and_fitted_matches_apart() -> None:
    rows = [claim(1.0), claim(1.0, fitted=True), claim(1.0, basis="by construction"), claim(2.0), claim(None)]
    assert status_counts(rows) == {"match": 2, "by construction": 1, "deviates": 1, "not reproducible": 1}
    assert counts_in_words(rows, 3) == (
        "2 match (1 with fitted constants), 1 by construction, 1 deviates, 1 not reproducible, of 5 printed numbers; "
        "3 findings of ours"
    )
    assert counts_in_words([], 3) == "3 findings of ours"
