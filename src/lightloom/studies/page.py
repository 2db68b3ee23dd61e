"""HTML pages of studies: their rows and figures, ours and the papers'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightloom.core.claims import MEANINGS, Claim, counts_in_words, status_counts
from lightloom.reports.figures.base import to_svg
from lightloom.reports.html import write
from lightloom.reports.report import Picture, Report
from lightloom.studies.base import Study


def write_page(studies: Sequence[Study], path: Path, provenance: Mapping[str, Any]) -> Path:
    """Write one self-contained HTML page for all studies.

    Raises:
        ConfigError: the place cannot be written to.
    """
    claims = tuple(claim for study in studies for claim in study.claims)
    pictures = tuple(
        Picture(title=figure.title, svg=to_svg(figure.draw()), caption=figure.caption)
        for study in studies
        for figure in study.figures
    )
    report = Report(
        title=", ".join(study.name for study in studies) + " reproduced",
        headline=f"{counts_in_words(claims)}; what does not match stays and says why.",
        facts=tuple((study.name, _fact(study, alone=len(studies) == 1)) for study in studies),
        notes=(
            _legend(claims),
            *(f"Assumed for {study.name}: {each}" for study in studies for each in study.assumptions),
        ),
        pictures=pictures,
        claims=claims,
        provenance=provenance,
    )
    return write(report, path)


def _fact(study: Study, *, alone: bool) -> str:
    """Return the paper, and the counts of its rows where other studies stand beside it."""
    return study.paper if alone else f"{study.paper}: {counts_in_words(study.claims)}"


def _legend(claims: Sequence[Claim]) -> str:
    """Return what the statuses on the page mean."""
    return "; ".join(f"{status}: {MEANINGS[status]}" for status in status_counts(claims))
