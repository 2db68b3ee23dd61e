"""What figures of studies are drawn on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def canvas(panels: int, *, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """Panels side by side, with a light grid."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.4) if panels > 1 else (7, 4.2), dpi=120, layout="constrained")
    found = list(figure.subplots(1, panels, sharey=sharey, squeeze=False)[0])
    for axes in found:
        axes.grid(True, axis="y", color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, found
