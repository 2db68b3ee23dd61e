"""HTML pages of studies: their rows and figures, ours and the papers'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lightloom.core.claims import MEANINGS, counts_in_words, status_counts
from lightloom.core.results import cells
from lightloom.papers.study import Study
from lightloom.reports.figures.canvas import to_svg
from lightloom.reports.html import write
from lightloom.reports.report import Picture, Report, table_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure


_FINDING = "finding: {id} | beside: {paper:claim} | ours: {ours:claim} | unit: {unit} | why: {why}"


def write_page(studies: Sequence[Study], path: Path, provenance: Mapping[str, Any]) -> Path:
    """Write one self-contained HTML page for all studies, with what their papers print and how it compares, findings of
    ours, figures and assumptions, and return its path.

    Args:
        studies: in the order of the page; the figures are drawn now.
        path: file to write; one that exists is replaced.
        provenance: facts about how the page was made, which it states, by name.

    Raises:
        ConfigError: the place cannot be written to.
    """
    numbers = [number for study in studies for number in study.numbers]
    findings = sum(len(study.findings) for study in studies)
    report = Report(
        title=", ".join(study.name for study in studies) + " reproduced",
        headline=f"{counts_in_words(numbers, findings)}; what does not match stays and says why.",
        facts=tuple(
            (study.name, study.paper + (f": {study.counts()}" if len(studies) > 1 else "")) for study in studies
        ),
        notes=(
            "; ".join(f"{status}: {MEANINGS[status]}" for status in status_counts(numbers)),
            *(f"Assumed for {study.name}: {each}" for study in studies for each in study.assumptions),
        ),
        pictures=tuple(
            Picture(title=figure.title, svg=to_svg(figure.draw()), caption=figure.caption)
            for study in studies
            for figure in study.figures
        ),
        claims=tuple(claim for study in studies for claim in study.settling),
        counts=status_counts(numbers),
        tables=tuple(
            table_of(f"{study.name}: {title}", rows)
            for study in studies
            for title, rows in (
                ("printed, and settled without a row", study.stated()),
                ("findings of ours", cells(_FINDING, study.findings)),
            )
            if rows
        ),
        provenance=provenance,
    )
    return write(report, path)


# The canvas and the colours of all study figures.

BLUE, GREEN, ORANGE, RED = "#0072B2", "#009E73", "#E69F00", "#D55E00"
SKY, PURPLE, GREY = "#56B4E9", "#CC79A7", "#999999"
"""Colours of Okabe and Ito, which colour-blind readers can tell apart, and a grey."""


def canvas(
    columns: int = 1,
    rows: int = 1,
    *,
    size: tuple[float, float] | None = None,
    sharey: bool = False,
    grid: Literal["both", "y"] = "y",
) -> tuple[Figure, list[Axes]]:
    """Return a new matplotlib figure and its panels, row by row from the upper left, without top and right spines.

    Args:
        columns: panels side by side.
        rows: panels one above the other.
        size: width and height in inches; 10 x 4.4 for several columns and 7 x 4.2 for one unless given.
        sharey: give all panels the same y axis.
        grid: light grid lines along both axes, or across y only.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=size or ((10, 4.4) if columns > 1 else (7, 4.2)), dpi=120, layout="constrained")
    panels = list(figure.subplots(rows, columns, sharey=sharey, squeeze=False).ravel())
    for axes in panels:
        axes.grid(True, axis=grid, color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def stacked_bars(
    axes: Axes,
    places: Sequence[float] | Sequence[str],
    parts: Sequence[tuple[str, Sequence[float], str]],
    width: float = 0.8,
) -> list[BarContainer]:
    """Draw a bar at each place out of parts stacked on one another, and return the drawn bars of each part, in their
    order.

    Args:
        axes: panel to draw in.
        places: positions along x, or their labels.
        parts: the lowest first: label, heights at all places, and colour.
        width: of a bar, in units of x.
    """
    bottom, drawn = [0.0] * len(places), []
    for label, heights, colour in parts:
        drawn.append(axes.bar(places, heights, width, bottom=bottom, color=colour, label=label))
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    return drawn
