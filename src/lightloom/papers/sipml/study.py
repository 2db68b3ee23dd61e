"""The SiP-ML study: rows, figures and assumptions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lightloom.papers.sipml import (
    PAPER,
    comparison,
    drawings,
    rows,
)
from lightloom.papers.sipml.comparison import Comparison, stale
from lightloom.papers.study import Study


def study(work: Path | None = None) -> Study:
    """Regenerate what can be.

    Args:
        work: folder with another comparison of networks than the one that comes with the package.

    Raises:
        ConfigError: it cannot be read.
    """
    measured = Comparison.load(work)
    note = stale(measured.inputs)
    study = PAPER.study(
        claims=(
            *rows.degrees_claims(),
            *rows.figure4_claims(),
            *rows.convergence_claims(),
            *rows.claims(),
            *comparison.claims(),
            *rows.headline_claims(measured),
        ),
        figures=(*drawings.charts_figures(measured), *drawings.figures()),
    )
    return replace(study, assumptions=(*study.assumptions, note)) if note else study
