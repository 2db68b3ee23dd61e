"""The floor plan of a chip: interferometers, phase shifters, units and the waveguides between them, to scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightloom.reports.figures.base import headline, hide_spines, styled
from lightloom.reports.figures.palette import FAINT, INK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lightloom.photonics.chip.floorplan import FloorPlan, Place

_MESH, _SIGMA, _SHIFTER, _UNIT = "#3b62ad", "#5ba8a0", "#7d6bc4", "#e0892b"


@styled
def chip_figure(plan: FloorPlan, title: str) -> Figure:
    """Draw the chip in as many rows as its length needs, from left to right and from top to bottom."""
    from matplotlib.figure import Figure

    rows = min(4, max(1, round((plan.width / plan.height / 4) ** 0.5)))
    length = plan.width / rows
    height = 11.0 * plan.height / length
    figure = Figure(figsize=(11.5, rows * (height + 0.55) + 0.7), layout="constrained")
    panels = figure.subplots(rows, 1, squeeze=False)[:, 0]
    for row, panel in enumerate(panels):
        _draw(panel, plan)
        panel.set(xlim=(row * length, (row + 1) * length), ylim=(0, plan.height))
        panel.set_aspect("equal")
        panel.tick_params(labelsize=7)
        hide_spines(panel)
    panels[-1].set_xlabel("µm")
    _legend(panels[0])
    headline(figure, title)
    return figure


def _draw(panel: Axes, plan: FloorPlan) -> None:
    from matplotlib.collections import LineCollection

    guides = [[(place.x, place.y), (place.x + place.length, place.y)] for place in plan.guides]
    panel.add_collection(LineCollection(guides, colors=FAINT, linewidths=0.6, zorder=1))
    routes = [_bend(*route.start, *route.end) for route in plan.routes]
    panel.add_collection(LineCollection(routes, colors=INK, linewidths=0.4, zorder=1))
    rules = plan.rules
    _boxes(panel, plan.interferometers, rules.column, 1.35 * rules.pitch, 0.85 * rules.pitch, _MESH)
    _boxes(panel, plan.attenuators, rules.column, 0.7 * rules.pitch, 0.35 * rules.pitch, _SIGMA)
    _boxes(panel, plan.shifters, rules.heater, 0.5 * rules.pitch, 0.25 * rules.pitch, _SHIFTER)
    _boxes(panel, plan.units, rules.unit, 0.8 * rules.pitch, 0.4 * rules.pitch, _UNIT)


def _boxes(panel: Axes, places: Sequence[Place], length: float, height: float, above: float, colour: str) -> None:
    """Draw boxes of one size whose waveguide lies as far below their upper edge as ``above`` says, less the rest."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    bottom = above - height
    boxes = [Rectangle((place.x + 0.04 * length, place.y + bottom), 0.92 * length, height) for place in places]
    panel.add_collection(PatchCollection(boxes, facecolors=colour, edgecolors="none", alpha=0.85, zorder=2))


def _bend(x0: float, y0: float, x1: float, y1: float) -> list[tuple[float, float]]:
    """Return a smooth way between two points, level at both ends."""
    points = []
    for step in range(17):
        t = step / 16
        points.append((x0 + (x1 - x0) * t, y0 + (y1 - y0) * t * t * (3 - 2 * t)))
    return points


def _legend(panel: Axes) -> None:
    from matplotlib.patches import Patch

    names = {
        "interferometer": _MESH,
        "attenuator of Σ": _SIGMA,
        "phase shifter": _SHIFTER,
        "gain or unit": _UNIT,
    }
    handles = [Patch(color=colour, label=name) for name, colour in names.items()]
    panel.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, fontsize=7.5)
