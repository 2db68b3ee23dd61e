"""The study of economics: bills of materials and goodput."""

from __future__ import annotations

from lightloom.studies.base import Study
from lightloom.studies.economics import PAPER, bills, goodput


def study() -> Study:
    """Set published figures beside ours."""
    return PAPER.study(claims=(*bills.claims(), *goodput.claims()), figures=())
