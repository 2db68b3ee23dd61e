"""The OptINC study: rows, figures and assumptions."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from lightloom.studies.base import Study
from lightloom.studies.optinc import (
    PAPER,
    awareness,
    cascading,
    drawings,
    latency,
    learning,
    slips,
    tables,
    traffic,
    trained,
)


def study(work: Path | None = None) -> Study:
    """Reproduce the paper.

    Args:
        work: a folder whose ``training.json``, ``language.json``, ``language-small.json`` and ``images.json`` replace
            those of the package.

    Raises:
        ConfigError: one of the files cannot be read.
    """
    language, small, digits, images = (
        PAPER.measured(name, work, optional=True) for name in ("language", "language-small", "training", "images")
    )
    noise, aware = trained.kept("noise"), trained.kept("aware")
    figures = [PAPER.figure(drawings.traffic)]
    if language is not None:
        figures.append(PAPER.figure(partial(drawings.training, language, digits)))
        figures.append(PAPER.figure(partial(drawings.in_pairs, language, small, digits)))
    figures += [PAPER.figure(draw) for draw in (drawings.savings, drawings.breakdown, drawings.errors)]
    if noise is not None:
        figures.append(PAPER.figure(partial(drawings.noise, noise)))
    if aware is not None:
        figures.append(PAPER.figure(partial(awareness.aware_training, aware)))
    return PAPER.study(
        claims=(
            *tables.claims(),
            *trained.claims(noise),
            *awareness.claims(aware),
            *traffic.claims(),
            *learning.claims(language, small, digits, images),
            *latency.claims(),
            *cascading.claims(),
            *cascading.trained_levels(trained.kept("cascade")),
            *slips.claims(),
        ),
        figures=tuple(figures),
    )
