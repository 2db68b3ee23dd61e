"""Time against energy: every plan that was simulated, and those that no other beats in both."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

from lightloom.core.units import format_energy, format_time
from lightloom.reports.figures.base import plain, styled
from lightloom.reports.figures.palette import FAINT, INK, KINDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "osD^vP*Xph"
_MOST_NAMES = 10
"""Of the front; of more, the fastest, the thriftiest and some between are named."""
_ROW = 0.5
"""Inches of a name: up to three lines and where it runs."""
_LETTERS = 52
"""Of a line."""


class Point(NamedTuple):
    """One plan as a point: its time and its energy for a sample."""

    kind: str
    """A key of :data:`palette.KINDS`."""
    site: str
    """Where it runs: cluster and ranks."""
    name: str
    time: float
    """Seconds a sample."""
    energy: float
    """Joules a sample, over all ranks."""


@styled
def pareto_figure(points: Sequence[Point], front: Sequence[Point]) -> Figure:
    """Draw plans as dots, colour by kind and shape by site, and the front as a line with names at the side."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    named = _spread(sorted(front, key=lambda point: -point.energy), _MOST_NAMES)
    sites = list(dict.fromkeys(point.site for point in points))
    marks = {site: _MARKERS[place % len(_MARKERS)] for place, site in enumerate(sites)}
    figure = Figure(figsize=(9.0, max(4.2, 1.4 + _ROW * len(named))), layout="constrained")
    axes, side = figure.subplots(1, 2, width_ratios=(5, 3.4))
    for kind, colour in KINDS.items():
        for site in sites:
            here = [point for point in points if point.kind == kind and point.site == site]
            times, energies = [point.time for point in here], [point.energy for point in here]
            axes.scatter(times, energies, s=22, marker=marks[site], color=colour, alpha=0.75, linewidth=0, zorder=2)
    _scales(axes, points)
    _line(axes, sorted(front, key=lambda point: point.time))
    _names(figure, axes, side, named)
    used = {point.kind for point in points}
    dot: dict[str, Any] = {"linestyle": "none", "markersize": 5}
    handles = [
        Line2D([], [], marker="o", color=colour, label=kind, **dot) for kind, colour in KINDS.items() if kind in used
    ]
    if len(sites) > 1:
        handles += [Line2D([], [], marker=marks[site], color=FAINT, label=plain(site), **dot) for site in sites]
    figure.legend(handles=handles, loc="outside upper left", ncols=4)
    return figure


def _scales(axes: Axes, points: Sequence[Point]) -> None:
    """Logarithmic, with a little air, and ticks in units for people."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis, values, words in (
        (axes.xaxis, [point.time for point in points], format_time),
        (axes.yaxis, [point.energy for point in points], format_energy),
    ):
        least, most = min(values), max(values)
        air = max((most / least) ** 0.06, 1.06)
        if axis is axes.xaxis:
            axes.set(xscale="log", xlim=(least / air, most * air))
        else:
            axes.set(yscale="log", ylim=(least / air, most * air))
        steps = (1.0,) if most > 300 * least else (1.0, 2.0, 5.0) if most > 3 * least else (1, 1.5, 2, 3, 4, 5, 6, 7, 8)
        axis.set_major_locator(LogLocator(10, steps))
        axis.set_major_formatter(FuncFormatter(lambda value, _, words=words: words(float(f"{value:.3g}"))))
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("time a sample")
    axes.set_ylabel("energy a sample")
    axes.grid(color=FAINT, linewidth=0.3, alpha=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _line(axes: Axes, front: Sequence[Point]) -> None:
    times, joules = [point.time for point in front], [point.energy for point in front]
    axes.plot(times, joules, drawstyle="steps-post", color=INK, linewidth=0.9, zorder=1)
    axes.scatter(times, joules, s=60, facecolors="none", edgecolors=INK, linewidth=0.9, zorder=3)


def _names(figure: Any, axes: Axes, side: Any, named: Sequence[Point]) -> None:
    """Names in a column of their own, in the order of their dots, a thin line from each to its dot."""
    from matplotlib.patches import ConnectionPatch

    side.set_axis_off()
    side.set_xlim(0, 1)
    side.set_ylim(0, 1)
    heights = _heights(
        [
            axes.transAxes.inverted().transform(axes.transData.transform((point.time, point.energy)))[1]
            for point in named
        ]
    )
    for point, height in zip(named, heights, strict=True):
        where = f"{point.site}, {format_time(point.time)}, {format_energy(point.energy)}"
        text = "\n".join([*wrap(point.name, _LETTERS, break_on_hyphens=False), where])
        side.text(0.04, height, plain(text), va="center", ha="left", fontsize=7.2)
        ends: dict[str, Any] = {"coordsA": "data", "coordsB": "data", "axesA": axes, "axesB": side}
        dot = (point.time, point.energy)
        link = ConnectionPatch(dot, (0.02, height), **ends, color=FAINT, linewidth=0.4, shrinkA=4)
        link.set_in_layout(False)
        figure.add_artist(link)


def _heights(preferred: Sequence[float]) -> list[float]:
    """Return heights from 0 to 1 in falling order, near the preferred ones, with room for names between."""
    stride = min(1 / len(preferred), 0.12)
    heights: list[float] = []
    for place, height in enumerate(preferred):
        lowest = stride * (len(preferred) - place - 0.5)
        highest = heights[-1] - stride if heights else 1 - stride / 2
        heights.append(min(max(height, lowest), highest))
    return heights


def _spread(front: Sequence[Point], most: int) -> list[Point]:
    """The first, the last and as many between as there is room for."""
    if len(front) <= most:
        return list(front)
    return [front[round(place * (len(front) - 1) / (most - 1))] for place in range(most)]
