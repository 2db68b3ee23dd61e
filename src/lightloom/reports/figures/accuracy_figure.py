"""Predicted steps against measured ones: a point for each row, with its interval, around the line of equality."""

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
    low: Floats
    high: Floats


@styled
def accuracy_figure(series: Sequence[PredictedSeries]) -> Figure:
    """Draw predicted against measured seconds on logarithmic axes, with 90 % intervals."""
    figure, axes = single_panel(5.2, 5.0)
    everything = np.concatenate([np.concatenate([entry.measured, entry.low, entry.high]) for entry in series])
    ends = np.array([everything.min() * 0.8, everything.max() * 1.25])
    axes.plot(ends, ends, color=FAINT, lw=1, zorder=1, label="equal")
    axes.fill_between(ends, ends * 0.9, ends * 1.1, color=FAINT, alpha=0.15, lw=0, zorder=0, label="within 10 %")
    for index, entry in enumerate(series):
        colour = _COLOURS[index % len(_COLOURS)]
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
    axes.set_xlabel("measured step, s")
    axes.set_ylabel("predicted step with its 90 % interval, s")
    axes.legend(loc="upper left")
    hide_spines(axes)
    return figure
