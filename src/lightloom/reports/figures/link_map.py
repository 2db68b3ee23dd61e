"""Pictures of a schedule where there are no wavelengths: link loads of packets, circuits of a circuit switch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics.base import Fabric
from lightloom.reports.figures.base import (
    headline,
    integer_ticks,
    number_bar,
    share_bar,
    share_image,
    single_panel,
    styled,
)
from lightloom.reports.figures.occupancy import lightpaths, link_use
from lightloom.reports.figures.palette import cyclic_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 9.0
_MAXIMUM_COLUMNS = 2048


def steps_shown(steps: int, panels: int = 4) -> list[int]:
    """All steps if there are few, else the first, the middle and the last."""
    return list(range(steps)) if steps <= panels else [0, steps // 2, steps - 1]


@styled
def link_load_map(schedule: Schedule, fabric: Fabric, time: str = "step") -> Figure:
    """Draw the bytes on each link in each step, as a share of the fullest; ``time`` names what a step is."""
    use = link_use(schedule, fabric)
    load = use.downsampled(_MAXIMUM_COLUMNS)
    most = float(load.max(initial=0.0)) or 1.0
    figure, axes = single_panel(_WIDTH, float(np.clip(1.4 + 0.22 * len(load), 1.8, 4.2)))
    image = share_image(axes, load / most, 1.0, fabric.links, schedule.steps)
    title = f"{schedule.algorithm}: {schedule.collective.kind} among {fabric.ranks} ranks, "
    title += f"mean load {load.mean() / most:.0%} of the largest"
    headline(figure, title)
    axes.set_xlabel(f"link (0: {fabric.link_name(0)}, {fabric.links - 1}: {fabric.link_name(fabric.links - 1)})")
    axes.set_ylabel(time)
    integer_ticks(axes.yaxis, 5)
    integer_ticks(axes.xaxis, 8)
    share_bar(figure, image, axes, "load", 20)
    return figure


@styled
def circuit_map(schedule: Schedule, fabric: Fabric) -> Figure:
    """Draw the source and destination of every circuit of a few steps, coloured by its (first) switch plane."""
    from matplotlib.figure import Figure

    paths, n = lightpaths(schedule, fabric), fabric.ranks
    shown = steps_shown(schedule.steps)
    colours = cyclic_colours(fabric.channels)
    figure = Figure(figsize=(_WIDTH, 3.5), layout="constrained")
    title = f"{schedule.algorithm}: {schedule.collective.kind} among {n} ranks on {fabric.channels} switch planes"
    headline(figure, title)
    panels = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
    for axes, step in zip(panels, shown, strict=True):
        now = paths.of_step(step)
        _circuits(axes, now.destination, now.source, colours[now.channel], n)
        axes.set_title(f"step {step + 1} of {schedule.steps}: {now.count.sum() / (n * fabric.channels):.0%} of ports")
        axes.set_xlabel("destination rank")
        for axis in (axes.xaxis, axes.yaxis):
            integer_ticks(axis, 5)
    panels[0].set_ylabel("source rank")
    number_bar(figure, colours, panels, "switch plane", 20)
    return figure


def _circuits(axes: Axes, x: Ints, y: Ints, colours: Floats, ranks: int) -> None:
    side = float(np.clip(150 / ranks, 1.2, 10))
    # Many thousand squares are smaller and faster as one picture.
    axes.scatter(x, y, s=side**2, c=colours, marker="s", linewidths=0, rasterized=len(x) > 2000)
    axes.set_xlim(-0.7, ranks - 0.3)
    axes.set_ylim(ranks - 0.3, -0.7)
    axes.set_box_aspect(1)
