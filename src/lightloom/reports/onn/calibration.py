"""Calibration of chips: what every step of the fit leaves unexplained, and each chip's error before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.results import Document
from lightloom.reports.figures.base import headline, hide_spines, integer_ticks, styled
from lightloom.reports.figures.palette import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BEFORE, _AFTER, _LIMIT = "#c9603a", "#3b62ad", "#5ba8a0"
_EXACT = 1e-5
"""Errors below are drawn here."""


@styled
def calibration_figure(rows: Sequence[Document], power_noise: float, title: str) -> Figure:
    """``rows`` are those of `meshes.calibration.Trial`, each with the ``name`` of its chip."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    steps, errors = figure.subplots(1, 2)
    _steps(steps, rows, power_noise)
    _errors(errors, rows)
    headline(figure, title)
    return figure


def _steps(panel: Axes, rows: Sequence[Document], power_noise: float) -> None:
    for row in rows:
        panel.plot(range(len(row["residuals"])), row["residuals"], "-", color=_AFTER, lw=1.0, alpha=0.6)
    if power_noise > 0:
        panel.axhline(power_noise, color=FAINT, lw=1.0)
        panel.annotate(
            "noise of the detectors",
            (1, power_noise),
            xycoords=("axes fraction", "data"),
            xytext=(-2, -9),
            textcoords="offset points",
            ha="right",
            fontsize=7.5,
            color=INK,
        )
    panel.set(yscale="log", xlabel="step of the fit", ylabel="difference of powers, share of the input")
    integer_ticks(panel.xaxis, 10)
    hide_spines(panel)


def _errors(panel: Axes, rows: Sequence[Document]) -> None:
    places = np.arange(len(rows))
    series = {
        "phases of ideal devices": ("error_before", _BEFORE, "o"),
        "calibrated": ("error_after", _AFTER, "o"),
        "what the devices allow": ("error_limit", _LIMIT, "_"),
    }
    for label, (name, colour, marker) in series.items():
        values = np.array([max(row[name], _EXACT) for row in rows])
        panel.plot(places, values, marker, color=colour, markersize=4 if marker == "o" else 7, label=label)
    panel.set(yscale="log", ylabel="error of the matrix, relative", xlim=(-0.6, len(rows) - 0.4))
    least = min(max(row[name], _EXACT) for row in rows for name, _, _ in series.values())
    panel.set_ylim(0.5 * least, 3.0)
    if len(rows) <= 16 and any(not row["name"].isdigit() for row in rows):
        panel.set_xticks(places, [row["name"] for row in rows], rotation=30, ha="right", fontsize=7)
    else:
        integer_ticks(panel.xaxis, 10)
        panel.set_xlabel("chip")
    hide_spines(panel)
    panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=7.5)
