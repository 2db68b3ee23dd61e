"""What a link's wrong words come from, and the word error rate against its options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.results import Document
from lightloom.reports.figures.base import headline, hide_spines, styled
from lightloom.reports.figures.palette import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOUR, _ALONE = "#3b62ad", "#e0892b"
_MOST_PARTS = 14


@styled
def link_figure(document: Document) -> Figure:
    """Draw a panel of the parts, if they were compared, and one for each sweep, up to three in a row.

    ``document`` is that of ``onn link --json``. Lines and dots are rates, bands and bars their 95 % intervals; rates of
    zero are hollow, at the upper end of their interval.
    """
    from matplotlib.figure import Figure

    compared, sweeps = document["contributions"], document["sweeps"]
    panels = (compared is not None) + len(sweeps)
    columns = min(max(panels, 1), 3)
    rows = -(-max(panels, 1) // columns)
    figure = Figure(figsize=(max(3.6 * columns, 5.6), 3.3 * rows + 0.4), layout="constrained")
    axes = iter(figure.subplots(rows, columns, squeeze=False).ravel())
    if compared is not None:
        _draw_parts(next(axes), compared)
    for sweep in sweeps:
        _draw_sweep(next(axes), sweep)
    for unused in axes:
        unused.axis("off")
    power, rate = 1e3 * document["link"]["full_scale"], document["word_error_rate"]
    wrong = f"{rate:.2g} of the words wrong" if rate else f"none of {document['words']:,} words wrong"
    headline(figure, f"{document['servers']} servers, {document['bits']} bits, {power:g} mW full scale: {wrong}")
    return figure


def _draw_parts(axes: Axes, compared: Document) -> None:
    rows = compared["parts"][:_MOST_PARTS][::-1]
    places = np.arange(len(rows))
    rates: dict[str, list[float]] = {"without": [], "alone": []}
    for name, colour, offset in (("without", _COLOUR, 0.16), ("alone", _ALONE, -0.16)):
        for place, row in zip(places, rows, strict=True):
            rate, (low, high) = row[name]["word_error_rate"], row[name]["interval_95"]
            axes.plot([max(low, 1e-9), high], [place + offset] * 2, color=colour, lw=1.2, alpha=0.5)
            face = colour if rate > 0 else "white"
            axes.plot([rate or high], [place + offset], "o", color=colour, markersize=4, markerfacecolor=face)
            rates[name].append(rate or high)
        axes.plot([], [], "o", color=colour, markersize=4, label="made ideal" if name == "without" else "alone")
    together = compared["together"]["word_error_rate"]
    if together > 0:
        axes.axvline(together, color=FAINT, lw=1, zorder=0)
        axes.annotate(
            "all parts",
            (together, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, 2),
            textcoords="offset points",
            fontsize=7,
            color=INK,
            ha="left",
        )
    axes.set(xscale="log", yticks=places, yticklabels=[row["part"] for row in rows])
    shown = [value for values in rates.values() for value in values] + [together or 1e-6]
    axes.set_xlim(min(shown) / 3, min(max(shown) * 3, 1.5))
    axes.tick_params(axis="y", labelsize=7.5)
    factor = compared["errors_enlarged_by"]
    enlarged = "" if factor == 1 else f", all errors {factor:g} times as large"
    axes.set_xlabel(f"share of words wrong{enlarged}")
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, fontsize=7, borderaxespad=0.2)
    hide_spines(axes)


def _draw_sweep(axes: Axes, sweep: Document) -> None:
    values = np.array([row["value"] for row in sweep["rows"]])
    rates = np.array([row["word_error_rate"] for row in sweep["rows"]])
    low, high = np.array([row["interval_95"] for row in sweep["rows"]]).T
    axes.fill_between(values, np.maximum(low, 1e-9), high, color=_COLOUR, alpha=0.18, lw=0)
    wrong = rates > 0
    axes.plot(values[wrong], rates[wrong], "o-", color=_COLOUR, lw=1.4, markersize=3.5)
    axes.plot(values[~wrong], high[~wrong], "o", color=_COLOUR, markersize=3.5, markerfacecolor="white")
    axes.set_yscale("log")
    if (values > 0).all() and values.max() > 5 * values.min():
        axes.set_xscale("log")
    axes.set_ylim(max(float(np.where(wrong, rates, high).min()) / 3, 1e-8), 1.5)
    axes.set_xlabel(f"{sweep['option']}, {sweep['unit']}")
    axes.set_ylabel("share of words wrong")
    hide_spines(axes)
