"""The OpTree study: rows, figures and assumptions."""

from __future__ import annotations

from lightloom.studies.base import Study
from lightloom.studies.optree import PAPER, averages, comparison, depth, example, table1
from lightloom.studies.optree.drawings import figures


def study() -> Study:
    """Reproduce the paper."""
    return PAPER.study(
        claims=(*table1.claims(), *example.claims(), *depth.claims(), *comparison.claims(), *averages.claims()),
        figures=figures(),
    )
