"""The SiP-ML study: rows, figures and assumptions."""

from __future__ import annotations

from dataclasses import replace
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
from lightloom.studies.sipml.stored import stale


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
            *degrees.claims(),
            *figure4.claims(),
            *convergence.claims(),
            *circuits.claims(),
            *data_parallel.claims(),
            *headline.claims(measured),
        ),
        figures=(*charts.figures(measured), *drawings.figures()),
    )
    return replace(study, assumptions=(*study.assumptions, note)) if note else study
