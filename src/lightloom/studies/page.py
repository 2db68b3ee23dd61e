"""HTML pages of studies: their rows and figures, ours and the papers'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightloom.core.claims import Status
from lightloom.reports.figures.base import to_svg
from lightloom.reports.html import write
from lightloom.reports.report import Picture, Report
from lightloom.studies.base import Study

_NOT_REPRODUCED: Mapping[Status, str] = {
    "derived": "follow from the paper's own",
    "stand-in": "agree in another experiment",
}


def write_page(studies: Sequence[Study], path: Path, provenance: Mapping[str, Any]) -> Path:
    """Write one self-contained HTML page for all studies.

    Raises:
        ConfigError: the place cannot be written to.
    """
    claims = tuple(claim for study in studies for claim in study.claims)
    counts = Counter(claim.status for claim in claims)
    first = f"{counts['match']} of {len(claims)} published figures match"
    others = [f"{counts[status]} {words}" for status, words in _NOT_REPRODUCED.items() if counts[status]]
    pictures = tuple(
        Picture(title=figure.title, svg=to_svg(figure.draw()), caption=figure.caption)
        for study in studies
        for figure in study.figures
    )
    report = Report(
        title=", ".join(study.name for study in studies) + " reproduced",
        headline=f"{', '.join([first, *others])}; the others stay and say why.",
        facts=tuple((study.name, study.paper) for study in studies),
        notes=tuple(f"Assumed for {study.name}: {each}" for study in studies for each in study.assumptions),
        pictures=pictures,
        claims=claims,
        provenance=provenance,
    )
    return write(report, path)
