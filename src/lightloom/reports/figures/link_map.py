"""Pictures of a schedule where there are no wavelengths: link loads of packets, circuits of a circuit switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.fabrics.base import Fabric
from lightloom.reports.figures.base import plain, styled
from lightloom.reports.figures.occupancy import lightpaths, link_use
from lightloom.reports.figures.palette import cyclic_colours, light_ramp

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 9.0
_MAXIMUM_COLUMNS = 2048


def steps_shown(steps: int, panels: int = 4) -> list[int]:
    """All steps if there are few, else the first, the middle and the last."""
    return list(range(steps)) if steps <= panels else [0, steps // 2, steps - 1]


@styled
def link_load_map(schedule: Schedule, fabric: Fabric) -> Figure:
    """Bytes on each link in each step, as a share of the fullest."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    use = link_use(schedule, fabric)
    load = use.downsampled(_MAXIMUM_COLUMNS)
    most = float(load.max(initial=0.0)) or 1.0
    figure = Figure(figsize=(_WIDTH, float(np.clip(1.4 + 0.22 * len(load), 1.8, 4.2))), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(
        load / most,
        aspect="auto",
        interpolation="none",
        cmap=light_ramp(),
        vmin=0,
        vmax=1,
        extent=(-0.5, fabric.links - 0.5, schedule.steps + 0.5, 0.5),
    )
    title = f"{schedule.algorithm}: {schedule.collective.kind} among {fabric.ranks} ranks, "
    title += f"mean load {load.mean() / most:.0%} of the largest"
    figure.suptitle(plain(title), x=0.008, ha="left", fontsize=9.5, fontweight="bold")
    axes.set_xlabel(f"link (0: {fabric.link_name(0)}, {fabric.links - 1}: {fabric.link_name(fabric.links - 1)})")
    axes.set_ylabel("step")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    bar = figure.colorbar(image, ax=axes, aspect=20, pad=0.015, fraction=0.035, format=PercentFormatter(1))
    bar.set_label("load")
    bar.outline.set_visible(False)
    return figure


@styled
def circuit_map(schedule: Schedule, fabric: Fabric) -> Figure:
    """Source and destination of every circuit of a few steps, coloured by its (first) switch plane."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    paths, n = lightpaths(schedule, fabric), fabric.ranks
    shown = steps_shown(schedule.steps)
    colours = cyclic_colours(fabric.channels)
    figure = Figure(figsize=(_WIDTH, 3.5), layout="constrained")
    title = f"{schedule.algorithm}: {schedule.collective.kind} among {n} ranks on {fabric.channels} switch planes"
    figure.suptitle(plain(title), x=0.008, ha="left", fontsize=9.5, fontweight="bold")
    axes = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
    for each, step in zip(axes, shown, strict=True):
        now = paths.of_step(step)
        _circuits(each, now.destination, now.source, colours[now.channel], n)
        each.set_title(f"step {step + 1} of {schedule.steps}: {now.count.sum() / (n * fabric.channels):.0%} of ports")
        each.set_xlabel("destination rank")
        for axis in (each.xaxis, each.yaxis):
            axis.set_major_locator(MaxNLocator(5, integer=True))
    axes[0].set_ylabel("source rank")
    legend = ScalarMappable(Normalize(-0.5, fabric.channels - 0.5), ListedColormap(colours))
    bar = figure.colorbar(legend, ax=axes, aspect=20, pad=0.015, fraction=0.035)
    bar.set_label("switch plane")
    bar.locator = MaxNLocator(5, integer=True)
    bar.outline.set_visible(False)
    return figure


def _circuits(axes: Axes, x: Any, y: Any, colours: Any, ranks: int) -> None:
    side = float(np.clip(150 / ranks, 1.2, 10))
    # Many thousand squares are smaller and faster as one picture.
    axes.scatter(x, y, s=side**2, c=colours, marker="s", linewidths=0, rasterized=len(x) > 2000)
    axes.set_xlim(-0.7, ranks - 0.3)
    axes.set_ylim(ranks - 0.3, -0.7)
    axes.set_box_aspect(1)
