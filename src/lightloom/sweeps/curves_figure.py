"""A figure of time over bytes: a curve for each algorithm, above the lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from lightloom.core.units import format_size, format_time
from lightloom.reports.figures.base import plain, styled
from lightloom.reports.figures.palette import FAINT, INK
from lightloom.sweeps.contests import Contest, entrant
from lightloom.sweeps.winners_figure import Colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ACROSS, _WIDTH, _HEIGHT = 3, 3.0, 2.4
_LETTERS = 40
"""Letters in a line of a panel's title."""
_TICKS = 4
"""Largest number of ticks on an axis."""


@styled
def curves_figure(places: Sequence[Sequence[Contest]], colours: Colours) -> Figure:
    """Draw a panel for each place; algorithms without an entry in ``colours`` never win and are thin and grey."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    across = min(_ACROSS, len(places))
    down = -(-len(places) // across)
    figure = Figure(figsize=(_WIDTH * across, _HEIGHT * down + 0.5), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flatten()
    for axes, contests in zip(panels, places, strict=False):
        _panel(axes, contests, colours)
    for axes in panels[len(places) :]:
        axes.set_axis_off()
    named = {entrant(row) for contests in places for contest in contests for row in contest.ranking}
    handles = [Line2D([], [], color=colours[name], label=plain(name)) for name in colours if name in named]
    if named - set(colours):
        handles.append(Line2D([], [], color=FAINT, linewidth=0.6, label="never fastest"))
    handles.append(Line2D([], [], color=INK, linewidth=1, linestyle=":", label="lower bound"))
    figure.legend(handles=handles, loc="outside lower left", ncols=4)
    return figure


def _panel(axes: Any, contests: Sequence[Contest], colours: Colours) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ordered = sorted(contests, key=lambda entry: entry.winner["nbytes"])
    curves: dict[str, list[tuple[float, float]]] = {}
    for contest in ordered:
        for row in contest.ranking:
            curves.setdefault(entrant(row), []).append((row["nbytes"], row["time_s"]))
    for name, points in curves.items():
        ours = name in colours
        look = {"color": colours[name], "linewidth": 1.4, "zorder": 2} if ours else {"color": FAINT, "linewidth": 0.5}
        axes.plot(*zip(*points, strict=True), marker="o", markersize=2.6 if ours else 0, **look)
    bound = [(entry.winner["nbytes"], entry.winner["lower_bound_s"]) for entry in ordered]
    axes.plot(*zip(*bound, strict=True), color=INK, linewidth=1, linestyle=":", zorder=3)
    axes.set(xscale="log", yscale="log")
    axes.set_title(plain(fill(ordered[0].place, _LETTERS)), fontsize=7.6)
    sizes = [entry.winner["nbytes"] for entry in ordered]
    shown = sizes[:: -(-len(sizes) // _TICKS)]
    axes.set_xticks(shown, [format_size(size) for size in shown])
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_locator(LogLocator(10, numticks=_TICKS + 1))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_time(float(f"{value:.3g}"))))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=7)
    axes.grid(color=FAINT, linewidth=0.3, alpha=0.6)
    axes.spines[["top", "right"]].set_visible(False)
