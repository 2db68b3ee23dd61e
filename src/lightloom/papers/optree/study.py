"""The OpTree study: rows, figures and assumptions."""

from __future__ import annotations

from lightloom.papers.optree import PAPER, rows
from lightloom.papers.optree.drawings import figures
from lightloom.papers.study import Study


def study() -> Study:
    """Reproduce the paper."""
    return PAPER.study(
        claims=(
            *rows.table1_claims(),
            *rows.example_claims(),
            *rows.depth_claims(),
            *rows.comparison_claims(),
            *rows.averages_claims(),
        ),
        figures=figures(),
    )
