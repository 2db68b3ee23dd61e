"""Bytes against loss: what each exchange saves and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from lightloom.reports.figures.base import plain, styled
from lightloom.reports.figures.palette import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOUR, _FRONT = "#7a8896", "#1f6f8b"


class ExchangePoint(NamedTuple):
    """One method as a point."""

    name: str
    ratio: float
    """Bytes saved, as a factor."""
    difference: float
    """Loss less the plain exchange's, nats."""
    low: float
    """Smallest difference over seeds."""
    high: float
    on_front: bool


@styled
def exchange_figure(points: Sequence[ExchangePoint], title: str) -> Figure:
    """Draw methods as dots with their spread over seeds; those that no other beats in both are filled and joined."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    figure = Figure(figsize=(8.2, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log", base=2)
    for point in points:
        colour = _FRONT if point.on_front else _COLOUR
        axes.vlines(point.ratio, point.low, point.high, color=colour, linewidth=1.2, zorder=2)
        face = colour if point.on_front else "white"
        axes.scatter(point.ratio, point.difference, s=30, facecolors=face, edgecolors=colour, zorder=3)
    front = sorted((point.ratio, point.difference) for point in points if point.on_front)
    axes.plot(*zip(*front, strict=True), color=INK, linewidth=0.8, drawstyle="steps-post", zorder=1)
    axes.xaxis.set_major_locator(LogLocator(2))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} x"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    largest = max(point.ratio for point in points)
    axes.set_xlim(0.9, largest * 1.6)
    axes.axhline(0, color=FAINT, linewidth=0.6)
    axes.grid(color=FAINT, linewidth=0.3, alpha=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set(xlabel="bytes saved, relative to an all-reduce of float32", ylabel="validation loss less the plain run's")
    axes.set_title(title, loc="left", fontsize=9)
    _label(figure, axes, points)
    return figure


def _label(figure: Figure, axes: Axes, points: Sequence[ExchangePoint]) -> None:
    """Write each name beside its dot, at the first of some places where it covers no other name."""
    figure.draw_without_rendering()
    scale, taken = figure.dpi / 72, list[tuple[float, float, float]]()
    for point in points:
        x, y = axes.transData.transform((point.ratio, point.difference)) / scale
        width = 4.2 * len(point.name) + 4
        for right, up in ((5, 5), (5, -11), (-5 - width, 5), (-5 - width, -11), (5, 15), (5, -21), (5, 25)):
            left, low = x + right, y + up
            free = all(low >= b + 9 or b >= low + 9 or left >= a + w or a >= left + width for a, b, w in taken)
            if free and left > axes.bbox.x0 / scale:
                break
        taken.append((left, low, width))
        axes.annotate(
            plain(point.name),
            (point.ratio, point.difference),
            xytext=(right, up),
            textcoords="offset points",
            fontsize=7,
        )
