"""Stacked bars: where the step time of each result goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lightloom.core.units import format_time
from lightloom.reports.figures.base import hide_spines, plain, single_panel, styled
from lightloom.reports.figures.palette import SHARES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 9.0


@styled
def breakdown_figure(rows: Sequence[tuple[str, Mapping[str, float]]], per: str = "step") -> Figure:
    """One bar for each ``(name, breakdown)``, the first on top; breakdowns as ``Timeline.breakdown()`` gives them, of a
    step or of what ``per`` says."""
    from matplotlib.patches import Patch

    lines = max((name.count("\n") + 1 for name, _ in rows), default=1)
    figure, axes = single_panel(_WIDTH, 1.15 + max(0.36, 0.17 * lines) * len(rows))
    totals = [sum(breakdown.values()) for _, breakdown in rows]
    longest = max(totals, default=0.0) or 1e-9
    scale, unit = (1e6, "microseconds") if longest < 2e-4 else (1e3, "milliseconds")
    shown: dict[str, None] = {}
    for row, (_, breakdown) in enumerate(rows):
        left = 0.0
        for key, (_, colour) in SHARES.items():
            width = breakdown.get(key, 0.0) * scale
            if width > 0:
                axes.barh(row, width, left=left, height=0.66, color=colour, linewidth=0)
                shown[key] = None
            left += width
        axes.text(left + longest * scale * 0.008, row, format_time(totals[row]), va="center", ha="left")
    axes.set_yticks(range(len(rows)), [plain(name) for name, _ in rows])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    axes.set_xlim(0, longest * scale * 1.1)
    axes.set_xlabel(f"{unit} a {per}")
    hide_spines(axes, "left")
    handles = [Patch(color=colour, label=words) for key, (words, colour) in SHARES.items() if key in shown]
    if handles:
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return figure
