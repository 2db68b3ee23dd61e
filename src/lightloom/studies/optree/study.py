"""The study: all rows and figures of the paper, and what had to be assumed."""

from __future__ import annotations

from lightloom.studies.base import Study
from lightloom.studies.optree import example, table1


def study() -> Study:
    """Regenerate the paper."""
    return Study(
        name="optree",
        paper="Dai, Chen, Huang and Zhang, “OpTree: an efficient algorithm for all-gather operation in optical "
        "interconnect systems”, ICC 2023 (arXiv 2211.15119)",
        claims=(*table1.claims(), *example.claims()),
        figures=(),
        assumptions=(),
    )
