"""The package of Fig. 3, to scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightloom.clusters.rack import Package
from lightloom.reports.figures.palette import FAINT, INK
from lightloom.studies.canvas import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CHIP, _GUIDE, _GLASS = "#6f9be0", "#c9603a", "#eef1f6"


def floorplan(package: Package | None = None) -> Figure:
    """Draw the chips on the interposer and the waveguides between them and to the edges, in millimetres."""
    from matplotlib.patches import Rectangle

    package = package or Package()
    edge, chip, gap = (1e3 * each for each in (package.interposer_edge, package.chip_edge, package.gap))
    figure, (axes,) = canvas(size=(6, 6))
    axes.add_patch(Rectangle((0, 0), edge, edge, facecolor=_GLASS, edgecolor=INK))
    starts = [gap + place * (chip + gap) for place in range(package.side)]
    for x in starts:
        for y in starts:
            axes.add_patch(Rectangle((x, y), chip, chip, facecolor=_CHIP, edgecolor=INK))
            axes.text(x + chip / 2, y + chip / 2, f"DaDianNao\n{chip:g} mm", ha="center", va="center", fontsize=9)
    _waveguides(axes, package, starts)
    axes.annotate("", (0, -0.8), (edge, -0.8), arrowprops={"arrowstyle": "<->", "color": INK}, annotation_clip=False)
    axes.text(
        edge / 2,
        -1.2,
        f"silicon optical interposer, {edge:g} mm; {package.fibres} fibres leave it",
        ha="center",
        va="top",
        fontsize=9,
    )
    axes.set_xlim(-0.5, edge + 0.5)
    axes.set_ylim(-2.4, edge + 0.5)
    axes.set_aspect("equal")
    axes.axis("off")
    return figure


def _waveguides(axes: Axes, package: Package, starts: list[float]) -> None:
    """Draw the waveguides of links across the gaps at the chips' edges, along both axes."""
    chip, gap, pitch = (1e3 * each for each in (package.chip_edge, package.gap, package.pitch))
    lines = 2 * package.waveguides
    crossings = [0.0, *(start + chip for start in starts)]
    for start in starts:
        middle = start + chip / 2
        for begin in crossings:
            for line in range(lines):
                aside = middle + (line - (lines - 1) / 2) * pitch
                colour = _GUIDE if line < package.waveguides else FAINT
                axes.plot([begin, begin + gap], [aside, aside], color=colour, lw=0.4)
                axes.plot([aside, aside], [begin, begin + gap], color=colour, lw=0.4)
