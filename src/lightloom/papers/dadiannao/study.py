"""The DaDianNao study: rows, figures, assumptions and fits."""

from __future__ import annotations

from lightloom.papers.dadiannao import PAPER, model, rows
from lightloom.papers.dadiannao.drawings import figures
from lightloom.papers.dadiannao.model import FITTED, ONE_FITTED
from lightloom.papers.study import Study


def study() -> Study:
    """Return the study with all rows and figures."""
    return PAPER.study(
        claims=(
            *rows.table1_claims(),
            *rows.table2_claims(),
            *model.claims(),
            *rows.figure2_claims(),
            *rows.figure5_claims(),
            *rows.claims(),
            *rows.beyond_claims(),
        ),
        figures=figures(),
        fitted=FITTED,
        one_fitted=ONE_FITTED,
    )
