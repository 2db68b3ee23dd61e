"""The OptINC study: rows, figures and assumptions."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from lightloom.papers.optinc import PAPER, drawings, rows
from lightloom.papers.study import Study


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
    noise, aware = rows.kept("noise"), rows.kept("aware")
    figures = [PAPER.figure(drawings.traffic)]
    if language is not None:
        figures.append(PAPER.figure(partial(drawings.training, language, digits)))
        figures.append(PAPER.figure(partial(drawings.in_pairs, language, small, digits)))
    figures += [PAPER.figure(draw) for draw in (drawings.savings, drawings.breakdown, drawings.errors)]
    if noise is not None:
        figures.append(PAPER.figure(partial(drawings.noise, noise)))
    if aware is not None:
        figures.append(PAPER.figure(partial(rows.aware_training, aware)))
    return PAPER.study(
        claims=(
            *rows.tables_claims(),
            *rows.trained_claims(noise),
            *rows.claims(aware),
            *rows.traffic_claims(),
            *rows.learning_claims(language, small, digits, images),
            *rows.latency_claims(),
            *rows.cascading_claims(),
            *rows.trained_levels(rows.kept("cascade")),
            *rows.slips_claims(),
        ),
        figures=tuple(figures),
    )
