"""Energies of reducers with their ranges, and what single constants do to the saving of one against another."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING

from lightloom.reports.figures.base import headline, hide_spines, plain, styled
from lightloom.reports.figures.palette import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lightloom.photonics.reducers.comparison import ReducerComparison

PARTS: Mapping[str, tuple[str, ...]] = {
    "servers": ("server transmitters", "server receivers"),
    "reducer": ("reducer receivers", "reducer transmitters", "units", "amplifiers", "heaters"),
    "light": ("lasers", "local oscillators", "carriers of units", "phase locks", "multiplexers"),
    "converters": ("converters",),
    "logic": ("logic",),
    "FEC": ("error correction",),
}
"""Groups of a table of energies, and the parts that each of them adds up."""
_COLOURS = dict(zip(PARTS, ("#6f9be0", "#3b62ad", "#e0892b", "#c2449a", "#7d6bc4", "#5ba8a0"), strict=True))
_SAVES, _COSTS = "#5ba8a0", "#c9603a"
_TURNS = 10
_LEAST = -120.0
"""Percent that a rival saves at which bars of the second panel end."""
_BEYOND = 3.5
"""Rivals of more than so many times the median energy leave the picture at its right."""


@styled
def reducers_figure(made: ReducerComparison) -> Figure:
    """Draw energies by part with the range of 90 % of draws, and the constants that change a saving the most."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _energies(left, made)
    _turns(right, made)
    setting = made.setting
    headline(figure, f"{setting.servers} servers, {setting.bits} bits, {setting.symbol_rate / 1e9:g} GBd")
    return figure


def _energies(axes: Axes, made: ReducerComparison) -> None:
    names = list(made.rivals)
    whole = sorted(1e12 * rival.energy_per_bit for rival in made.rivals.values())
    edge = _BEYOND * whole[len(whole) // 2]
    drawn = [value for value in whole if value <= edge]
    highest = [1e12 * made.ranges[name].high for name in names if 1e12 * made.rivals[name].energy_per_bit <= edge]
    edge = 1.08 * max([*drawn, *(value for value in highest if value <= edge)])
    for place, name in enumerate(names):
        rival, start = made.rivals[name], 0.0
        for group, parts in PARTS.items():
            length = 1e12 * sum(rival.energy.get(part, 0.0) for part in parts)
            length = min(length, edge - start) if isfinite(length) else edge - start
            axes.barh(place, length, 0.62, left=start, color=_COLOURS[group], label=group if place == 0 else None)
            start += length
        _range(axes, made, name, place, edge)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, edge)
    axes.set_xlabel("pJ for a bit of a server; lines: 90 % of draws")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=6, columnspacing=1.0, handlelength=1.0)
    hide_spines(axes)


def _range(axes: Axes, made: ReducerComparison, name: str, place: int, edge: float) -> None:
    """Draw the range of a rival, or write its energy where its bar ends at the edge."""
    energy, spread = 1e12 * made.rivals[name].energy_per_bit, made.ranges[name]
    if energy > edge:
        text = f"{energy:,.0f}" if isfinite(energy) else "no light does"
        axes.text(0.985 * edge, place, text, ha="right", va="center", color="white", fontsize=7.5, fontweight="bold")
        return
    low, high = 1e12 * spread.low, min(1e12 * spread.high, edge)
    axes.plot([low, high], [place, place], color=INK, lw=1.1, solid_capstyle="butt")
    axes.plot(energy, place, "o", color=INK, markersize=3)


def _turns(axes: Axes, made: ReducerComparison) -> None:
    first, second = made.pair
    turns = made.turns[:_TURNS]
    own = max(100 * made.saving(first, second), _LEAST)
    for place, turn in enumerate(turns):
        ends = [max(100 * value, _LEAST) for value in (turn.at_low, turn.at_high)]
        for end in ends:
            axes.barh(place, end - own, 0.6, left=own, color=_SAVES if end > own else _COSTS)
        constant = turn.constant
        for value, end, at in ((constant.low, turn.at_low, ends[0]), (constant.high, turn.at_high, ends[1])):
            side = 1 if at > own or at == _LEAST else -1
            text = f"{value:g}" if isfinite(end) else f"{value:g}: no light does"
            side_of = "left" if side > 0 else "right"
            colour = "white" if at == _LEAST else FAINT
            axes.annotate(
                text,
                (at, place),
                (3 * side, 0),
                textcoords="offset points",
                fontsize=6.5,
                color=colour,
                ha=side_of,
                va="center",
            )
    labels = [f"{turn.constant.name}, {turn.constant.unit}".removesuffix(", ") for turn in turns]
    axes.set_yticks(range(len(turns)), labels)
    axes.invert_yaxis()
    axes.axvline(0, color=INK, lw=0.8)
    axes.axvline(own, color=FAINT, lw=0.8, ls=":")
    axes.margins(x=0.18)
    axes.set_xlabel(plain(f"what {first} saves against {second}, %"))
    hide_spines(axes)
