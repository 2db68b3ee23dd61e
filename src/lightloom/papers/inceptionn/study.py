"""The INCEPTIONN study: rows, figures and assumptions."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from lightloom.papers.inceptionn import (
    PAPER,
    drawings,
    rows,
    runs,
)
from lightloom.papers.study import Study


def study(work: Path | None = None) -> Study:
    """Reproduce the paper.

    Args:
        work: a folder whose ``training.json`` and ``networks.json`` replace the training records of the package.

    Raises:
        ConfigError: the file cannot be read.
    """
    training, loop = PAPER.measured("training", work), PAPER.measured("software")
    short = PAPER.measured("networks", work, optional=True)
    more = () if short is None else (PAPER.figure(partial(drawings.other_networks, short)),)
    codec, exchange, links = (PAPER.measured(name) for name in ("codec", "exchange", "links"))
    return PAPER.study(
        claims=(
            *rows.tables_claims(),
            *rows.bitwidths_claims(training),
            *rows.training_time_claims(),
            *rows.claims(training),
            *(() if short is None else rows.networks_claims(short)),
            *runs.claims(training["gradients"]),
            *rows.software_claims(loop, codec),
            *rows.limited_links_claims(exchange),
            *rows.scalability_claims(),
            *rows.slips_claims(),
        ),
        figures=(
            PAPER.figure(drawings.communication_share),
            PAPER.figure(partial(drawings.truncation, training)),
            PAPER.figure(partial(drawings.distribution, training["gradients"])),
            PAPER.figure(partial(drawings.software_loop, loop), what=loop["what"]),
            PAPER.figure(drawings.training_time),
            PAPER.figure(partial(drawings.measured_exchange, exchange), what=exchange["what"]),
            PAPER.figure(partial(drawings.hooks, links)),
            PAPER.figure(partial(drawings.learning, training)),
            PAPER.figure(partial(drawings.bit_widths, training)),
            *more,
            PAPER.figure(drawings.scalability),
        ),
    )
