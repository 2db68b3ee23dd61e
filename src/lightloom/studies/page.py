"""HTML pages of studies: their rows and figures, ours and the papers'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightloom.core.claims import counts_in_words
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
        facts=tuple((study.name, f"{study.paper}: {counts_in_words(study.claims)}") for study in studies),
        notes=tuple(f"Assumed for {study.name}: {each}" for study in studies for each in study.assumptions),
        pictures=pictures,
        claims=claims,
        provenance=provenance,
    )
    return write(report, path)
