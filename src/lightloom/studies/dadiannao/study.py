"""The DaDianNao study: rows, figures, assumptions and fits."""

from __future__ import annotations

from lightloom.studies.base import Study
from lightloom.studies.dadiannao import PAPER, beyond, equation3, figure2, figure5, headline, table1, table2
from lightloom.studies.dadiannao.drawings import figures
from lightloom.studies.dadiannao.model import FITTED, ONE_FITTED


def study() -> Study:
    """Regenerate the paper."""
    return PAPER.study(
        claims=(
            *table1.claims(),
            *table2.claims(),
            *equation3.claims(),
            *figure2.claims(),
            *figure5.claims(),
            *headline.claims(),
            *beyond.claims(),
        ),
        figures=figures(),
        fitted=FITTED,
        one_fitted=ONE_FITTED,
    )
