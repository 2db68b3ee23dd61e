"""The figure of the short runs: LeNet on MNIST, and HDC under two scales of the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from lightloom.studies.base import Record
from lightloom.studies.canvas import BLUE, GREY, ORANGE, RED, canvas
from lightloom.studies.inceptionn.accuracy import final
from lightloom.studies.inceptionn.drawings import bars
from lightloom.studies.inceptionn.networks import truncated
from lightloom.studies.pairs import BASE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LENET = {
    BASE: (GREY, "-"),
    "printed 2^-10": (RED, "-"),
    "printed 2^-10 summed": (RED, "--"),
    "windowed 2^-10": (ORANGE, "-"),
    "windowed+feedback 2^-10": (BLUE, "-"),
}
_HDC = {
    BASE: (GREY, "-"),
    "float32 summed": (GREY, "--"),
    "printed 2^-10": (RED, "-"),
    "printed 2^-10 summed": (RED, "--"),
}


def other_networks(networks: Record) -> Figure:
    """Accuracy of LeNet over iterations, after truncation, and of HDC under the mean and the summed loss."""
    figure, (left, middle, right) = canvas(3, size=(13, 4.4))
    lenet = networks["runs"]["lenet"]
    _learning(left, lenet, _LENET)
    left.set_title("LeNet on MNIST")
    drops = truncated(lenet)
    series = {
        label: [final(lenet[f"truncate {what} {bits}"][0]) for bits in drops]
        for label, what in (("gradients", "g"), ("weights", "w"))
    }
    bars(middle, [f"{bits}b-T" for bits in drops], series, "{:.0f}")
    middle.axhline(final(lenet[BASE][0]), color=GREY, lw=1, ls="--")
    middle.set_ylim(0, 109)
    middle.set_ylabel("accuracy of LeNet, %")
    _learning(right, networks["runs"]["hdc"], _HDC)
    right.set_title("HDC on MNIST")
    return figure


def _learning(axes: Axes, runs: Record, styles: Mapping[str, tuple[str, str]]) -> None:
    for name, (colour, style) in styles.items():
        records = runs.get(name)
        if not records:
            continue
        mean = 100 * np.mean([record["accuracy"] for record in records], axis=0)
        label = name if len(records) == 1 else f"{name} ({len(records)} seeds)"
        axes.plot(records[0]["iterations"], mean, style, color=colour, label=label, lw=1.5)
    axes.set_ylim(0, 102)
    axes.set_xlabel("iteration")
    axes.set_ylabel("accuracy on the test set, %")
    axes.legend(loc="center right", fontsize=7)
