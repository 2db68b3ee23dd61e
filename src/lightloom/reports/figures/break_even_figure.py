"""Below which speed of links each exchange of gradients shortens a step, by the number of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lightloom.reports.figures.base import plain, styled
from lightloom.reports.figures.palette import FAINT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = ("#1f6f8b", "#c8553d", "#588b3a", "#8a5a9e", "#b08900", "#5a6570", "#2d9d8f")
_MARKS = "osD^vPX"


@styled
def break_even_figure(lines: Mapping[str, Sequence[tuple[int, float | None]]], title: str) -> Figure:
    """Draw a line for each method; where it pays at no speed, the line has a gap.

    Args:
        lines: of each method, (ranks, speed in bytes per second, None where it pays at none).
        title: of the figure.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    figure = Figure(figsize=(8.2, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for place, (name, points) in enumerate(lines.items()):
        ranks = [count for count, _ in points]
        speeds = [float("nan") if speed is None else 8e-9 * speed for _, speed in points]
        colour, mark = _COLOURS[place % len(_COLOURS)], _MARKS[place % len(_MARKS)]
        axes.plot(ranks, speeds, color=colour, marker=mark, markersize=4, linewidth=1.2, label=plain(name))
    counts = sorted({count for points in lines.values() for count, _ in points})
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(color=FAINT, linewidth=0.3, alpha=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set(xlabel="ranks", ylabel="speed of a rank's link, Gb/s")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
    axes.set_title(title, loc="left", fontsize=9)
    return figure
