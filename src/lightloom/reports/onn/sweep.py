"""Accuracy of the average against the error of a device: one panel a swept parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.reports.figures.base import hide_spines, plain, styled
from lightloom.reports.figures.palette import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORDS: Mapping[str, str] = {
    "phase_error": "phase error, rad",
    "coupler_error": "coupler error, rad",
    "loss_db": "loss of an MZI, dB",
    "loss_spread_db": "spread of loss, dB",
    "heater_spread": "spread of heaters' phases, share",
    "thermal_crosstalk": "thermal crosstalk to each nearest heater",
    "dac_bits": "bits of the DAC",
    "detector_noise": "detector noise, of full scale",
}
"""Fields of `NonIdealities` for people."""
_COLOUR = "#3b62ad"


@styled
def sweep_figure(sweeps: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """Panels side by side, up to three in a row; each is a document of `meshes.sweep` of accuracies.

    The line is the mean over fabrications, the band reaches from the worst to the best.
    """
    from matplotlib.figure import Figure

    columns = 2 if len(sweeps) == 4 else min(len(sweeps), 3)
    rows = -(-len(sweeps) // columns)
    figure = Figure(figsize=(max(3.1 * columns, 4.6), 2.7 * rows + 0.3), layout="constrained")
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for panel, sweep in zip(panels, sweeps, strict=False):
        values = np.array([row["value"] for row in sweep["rows"]])
        mean, least, largest = (
            100 * np.array([row[name] for row in sweep["rows"]]) for name in ("mean", "least", "largest")
        )
        panel.fill_between(values, least, largest, color=_COLOUR, alpha=0.18, lw=0)
        panel.plot(values, mean, "o-", color=_COLOUR, lw=1.4, markersize=3)
        if (values > 0).all() and values.max() > 20 * values.min():
            panel.set_xscale("log")
        panel.set_xlabel(WORDS.get(sweep["parameter"], sweep["parameter"]))
        panel.set_ylim(-3, 104)
        hide_spines(panel)
    for panel in panels[len(sweeps) :]:
        panel.axis("off")
    for panel in panels[::columns]:
        panel.set_ylabel("averaged rightly, %")
    if title:
        figure.suptitle(plain(title), x=0.01, ha="left", fontsize=9.5, color=INK)
    return figure
