"""The SiP-ML study: rows, figures and assumptions."""

from __future__ import annotations

from pathlib import Path

from lightloom.studies.base import Study
from lightloom.studies.sipml import (
    PAPER,
    charts,
    circuits,
    convergence,
    data_parallel,
    degrees,
    drawings,
    figure4,
    headline,
)
from lightloom.studies.sipml.comparison import Comparison


def study(work: Path | None = None) -> Study:
    """Regenerate what can be.

    Args:
        work: folder with another comparison of networks than the one that comes with the package.

    Raises:
        ConfigError: it cannot be read.
    """
    measured = Comparison.load(work)
    return PAPER.study(
        claims=(
            *degrees.claims(),
            *figure4.claims(),
            *convergence.claims(),
            *circuits.claims(),
            *data_parallel.claims(),
            *headline.claims(measured),
        ),
        figures=(*charts.figures(measured), *drawings.figures()),
    )
