"""How a network was trained: wrong outputs and loss by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lightloom.reports.figures.base import hide_spines, plain, single_panel, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WRONG, _LOSS = "#c9603a", "#3b62ad"


@styled
def training_figure(history: Sequence[Mapping[str, float]], points: int, title: str = "") -> Figure:
    """``history`` has epoch, accuracy and loss; ``points`` of the grid are behind an accuracy. Nothing wrong shows as
    less than one wrong point."""
    figure, axes = single_panel(7.0, 3.6)
    epochs = np.array([epoch_record["epoch"] for epoch_record in history])
    wrong = np.array([1 - epoch_record["accuracy"] for epoch_record in history])
    none = 0.5 / points
    axes.plot(epochs, np.maximum(wrong, none), "o-", color=_WRONG, markersize=3, lw=1.4, label="averaged wrongly")
    done = wrong * points < 0.5
    axes.plot(
        epochs[done],
        np.full(done.sum(), none),
        "o",
        color=_WRONG,
        markersize=4.5,
        markerfacecolor="white",
        label=f"none of {points:,} wrong",
    )
    axes.plot(epochs, [epoch_record["loss"] for epoch_record in history], "-", color=_LOSS, lw=1.0, label="loss")
    axes.set(yscale="log", xlabel="epoch", ylabel="share of the grid; loss")
    hide_spines(axes)
    axes.legend(loc="upper right")
    if title:
        axes.set_title(plain(title))
    return figure
