"""Predicted times against measured ones: a point for each row, with its interval, around the line of equality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.reports.figures.base import hide_spines, single_panel, styled
from lightloom.reports.figures.palette import FAINT, TASKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = [colour for _, colour in TASKS.values()]


@dataclass(frozen=True)
class PredictedSeries:
    """Rows of one table: arrays of shape [rows], in seconds."""

    name: str
    measured: Floats
    predicted: Floats
    low: Floats | None = None
    high: Floats | None = None
    """Ends of the 90 % intervals; None where there are none."""


@styled
def accuracy_figure(series: Sequence[PredictedSeries], what: str = "step") -> Figure:
    """Draw predicted against measured seconds of ``what`` on logarithmic axes, with 90 % intervals where there are."""
    figure, axes = single_panel(5.2, 5.0)
    everything = np.concatenate(
        [
            part
            for entry in series
            for part in (entry.measured, entry.predicted, entry.low, entry.high)
            if part is not None
        ]
    )
    ends = np.array([everything.min() * 0.8, everything.max() * 1.25])
    axes.plot(ends, ends, color=FAINT, lw=1, zorder=1, label="equal")
    axes.fill_between(ends, ends * 0.9, ends * 1.1, color=FAINT, alpha=0.15, lw=0, zorder=0, label="within 10 %")
    for index, entry in enumerate(series):
        colour = _COLOURS[index % len(_COLOURS)]
        widths = None
        if entry.low is not None and entry.high is not None:
            widths = np.stack([entry.predicted - entry.low, entry.high - entry.predicted])
        axes.errorbar(
            entry.measured,
            entry.predicted,
            yerr=widths,
            fmt="o",
            ms=3,
            lw=0.6,
            color=colour,
            label=f"{entry.name} ({len(entry.measured)})",
            zorder=2,
        )
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    intervals = " with its 90 % interval" if any(entry.low is not None for entry in series) else ""
    axes.set_xlabel(f"measured {what}, s")
    axes.set_ylabel(f"predicted {what}{intervals}, s")
    axes.legend(loc="upper left")
    hide_spines(axes)
    return figure
