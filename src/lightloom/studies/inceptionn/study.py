"""The INCEPTIONN study: rows, figures and assumptions."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from lightloom.studies.base import Record, Study, StudyFigure
from lightloom.studies.inceptionn import (
    PAPER,
    accuracy,
    bitwidths,
    drawings,
    gradients,
    limited_links,
    scalability,
    slips,
    software,
    tables,
    training_time,
)
from lightloom.studies.inceptionn.measured import COMMANDS, measured


def study(work: Path | None = None) -> Study:
    """Reproduce the paper.

    Args:
        work: a folder whose ``training.json`` replaces the training record of the package.

    Raises:
        ConfigError: the file cannot be read.
    """
    training = measured("training", work)
    loop, codec, exchange = measured("software"), measured("codec"), measured("exchange")
    return PAPER.study(
        claims=(
            *tables.claims(),
            *bitwidths.claims(training),
            *training_time.claims(),
            *accuracy.claims(training),
            *gradients.claims(training["gradients"]),
            *software.claims(loop, codec),
            *limited_links.claims(exchange),
            *scalability.claims(),
            *slips.claims(),
        ),
        figures=(*_figures_3_to_7(training, loop), *_figures_12_to_15(training, exchange)),
        commands="; ".join(f"{name}: {command}" for name, command in COMMANDS.items()),
    )


def _figures_3_to_7(training: Record, loop: Record) -> tuple[StudyFigure, ...]:
    return (
        PAPER.figure(drawings.communication_share),
        PAPER.figure(partial(drawings.truncation, training)),
        PAPER.figure(partial(drawings.distribution, training["gradients"])),
        PAPER.figure(partial(drawings.software_loop, loop), what=loop["what"]),
    )


def _figures_12_to_15(training: Record, exchange: Record) -> tuple[StudyFigure, ...]:
    return (
        PAPER.figure(drawings.training_time),
        PAPER.figure(partial(drawings.measured_exchange, exchange), what=exchange["what"]),
        PAPER.figure(partial(drawings.hooks, measured("links"))),
        PAPER.figure(partial(drawings.learning, training)),
        PAPER.figure(partial(drawings.bit_widths, training)),
        PAPER.figure(drawings.scalability),
    )
