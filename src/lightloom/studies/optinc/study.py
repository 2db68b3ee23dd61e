"""The OptINC study: rows, figures and assumptions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from lightloom.studies.base import Study, StudyFigure
from lightloom.studies.optinc import PAPER, cascading, drawings, latency, learning, slips, tables, traffic, trained
from lightloom.studies.optinc.measured import COMMANDS, measured, noise_comparison


def study(work: Path | None = None) -> Study:
    """Reproduce the paper.

    Args:
        work: a folder whose ``training.json``, ``language.json`` and ``images.json`` replace those of the package.

    Raises:
        ConfigError: one of the files cannot be read.
    """
    language, digits, images = (measured(name, work) for name in ("language", "training", "images"))
    noise = noise_comparison()
    return PAPER.study(
        claims=(
            *tables.claims(),
            *trained.claims(noise),
            *traffic.claims(),
            *learning.claims(language, digits, images),
            *latency.claims(),
            *cascading.claims(),
            *slips.claims(),
        ),
        figures=tuple(_figures(language, digits, noise)),
        commands="; ".join(f"{name}: {command}" for name, command in COMMANDS.items()),
    )


def _figures(language: Any, digits: Any, noise: Any) -> list[StudyFigure]:
    found = [PAPER.figure(drawings.traffic)]
    if language is not None:
        found += [
            PAPER.figure(partial(drawings.training, language, digits)),
            PAPER.figure(partial(drawings.pairs, language, digits)),
        ]
    found += [
        PAPER.figure(drawings.savings),
        PAPER.figure(drawings.breakdown),
        PAPER.figure(drawings.errors),
    ]
    if noise is not None:
        found.append(PAPER.figure(partial(drawings.noise, noise)))
    return found
