"""The canvas and the colours of all study figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure

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
    """Return a figure and its panels, row by row, with a light grid."""
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
    """Draw a bar at each place out of parts, the lowest first: label, heights at all places, colour."""
    bottom, drawn = [0.0] * len(places), []
    for label, heights, colour in parts:
        drawn.append(axes.bar(places, heights, width, bottom=bottom, color=colour, label=label))
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    return drawn
