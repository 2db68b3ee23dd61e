"""Calibration of chips: what every step of the fit leaves unexplained, and each chip's error before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.core.results import Document
from lightloom.photonics.averaging.proof import TARGET
from lightloom.photonics.meshes.drawing import draw, draw_mapped
from lightloom.photonics.meshes.mapping import MappedBlocks, decibels
from lightloom.photonics.meshes.mesh import Mesh
from lightloom.reports.figures.canvas import (
    FAINT,
    INK,
    annotate,
    headline,
    hide_spines,
    integer_ticks,
    panel_grid,
    plain,
    single_panel,
    styled,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from lightloom.machines.reducers.compare import ReducerComparison
    from lightloom.photonics.chip.floorplan import FloorPlan, Place
    from lightloom.photonics.meshes.files import Part


_BEFORE, _AFTER, _LIMIT = "#c9603a", "#3b62ad", "#5ba8a0"
_EXACT = 1e-5
"""Errors below are drawn here."""


@styled
def calibration_figure(rows: Sequence[Document], power_noise: float, title: str) -> Figure:
    """``rows`` are those of `meshes.calibration.Trial`, each with the ``name`` of its chip."""
    figure, panels = panel_grid(9.0, 3.6, 1, 2)
    _draw_residuals(panels[0, 0], rows, power_noise)
    _draw_errors(panels[0, 1], rows)
    headline(figure, title)
    return figure


def _draw_residuals(panel: Axes, rows: Sequence[Document], power_noise: float) -> None:
    for row in rows:
        panel.plot(range(len(row["residuals"])), row["residuals"], "-", color=_AFTER, lw=1.0, alpha=0.6)
    if power_noise > 0:
        panel.axhline(power_noise, color=FAINT, lw=1.0)
        place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "ha": "right", "fontsize": 7.5}
        annotate(panel, "noise of the detectors", (1, power_noise), (-2, -9), color=INK, **place)
    panel.set(yscale="log", xlabel="step of the fit", ylabel="difference of powers, share of the input")
    integer_ticks(panel.xaxis, 10)
    hide_spines(panel)


def _draw_errors(panel: Axes, rows: Sequence[Document]) -> None:
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


# A whole averager as the light sees it: P, a mesh a layer with its nonlinear units behind, T.

_FILL = {"passive": "#d5dbe6", "layer": "#aebfe3"}
_UNIT = "#e0892b"
_MOST_GUIDES = 16
"""Waveguides drawn between two boxes; more would be a grey area."""


@dataclass(frozen=True, slots=True)
class ChainPart:
    """A box of meshes."""

    name: str
    inputs: int
    outputs: int
    mzis: int
    columns: int
    gain: float = 1.0
    units: bool = False
    """True when nonlinear units follow the meshes."""
    passive: bool = False
    """P or T: not part of the network."""


def chain_parts(parts: Mapping[str, Part]) -> list[ChainPart]:
    """Boxes for mapped parts in the order of the light; P and T are known by their names."""
    layers = [name for name in parts if name.split()[-1] not in ("P", "T")]
    chain = []
    for name, part in parts.items():
        if isinstance(part, Mesh):
            outputs, inputs, columns, gain = part.outputs, part.inputs, part.layout.depth, 1.0
        else:
            (outputs, inputs), columns, gain = part.shape, part.depth, part.gain
        units, passive = name in layers[:-1], name not in layers
        chain.append(ChainPart(name, inputs, outputs, part.mzis, columns, gain, units, passive))
    return chain


@styled
def chain_figure(parts: Sequence[ChainPart], title: str = "") -> Figure:
    """Boxes as high as they have signals and as wide as they have columns, on a scale that grows more slowly."""
    widths = [0.55 + 0.16 * part.columns**0.5 for part in parts]
    heights = [0.4 + 0.6 * max(part.inputs, part.outputs) ** 0.5 for part in parts]
    gap, most = 0.62, max(heights)
    across = sum(widths) + gap * (len(parts) + 1)
    figure, axes = single_panel(min(max(0.95 * across, 6.5), 16), 0.62 * most + 1.9)
    x, before = 0.0, parts[0].inputs
    for index, (part, width, height) in enumerate(zip(parts, widths, heights, strict=True)):
        behind = parts[index - 1].units if index else False
        _guides(axes, x, x + gap, before, heights[index - 1] if index else height, height, behind)
        x += gap
        _box(axes, part, x, width, height, most)
        x, before = x + width, part.outputs
    _guides(axes, x, x + gap, before, heights[-1], heights[-1], False)
    axes.set(xlim=(-0.15, x + gap + 0.15), ylim=(-most / 2 - 1.0, most / 2 + 0.5))
    axes.axis("off")
    total = sum(part.mzis for part in parts)
    columns = sum(part.columns for part in parts)
    units = sum(part.outputs for part in parts if part.units)
    words = f"{total:,} MZIs in {columns:,} columns, {units:,} nonlinear units (orange)"
    figure.suptitle(plain(f"{title}: {words}" if title else words), x=0.01, ha="left", fontsize=9.5, color=INK)
    return figure


def _box(axes: Axes, part: ChainPart, x: float, width: float, height: float, most: float) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Rectangle

    fill = _FILL["passive" if part.passive else "layer"]
    axes.add_patch(Rectangle((x, -height / 2), width, height, facecolor=fill, edgecolor=INK, lw=0.8, zorder=2))
    # A hint of the mesh inside: crossings, a few whatever its size.
    count = min(max(part.columns // 4, 2), 7)
    step, rows = width / count, max(2, round(height / (width / count)))
    lines = []
    for column in range(count):
        for row in range(rows):
            left, right = x + column * step, x + (column + 1) * step
            low, high = -height / 2 + row * height / rows, -height / 2 + (row + 1) * height / rows
            lines += [[(left, low), (right, high)], [(left, high), (right, low)]]
    axes.add_collection(LineCollection(lines, colors="white", linewidths=0.5, alpha=0.75, zorder=3))
    axes.text(x + width / 2, most / 2 + 0.22, plain(part.name), ha="center", va="center", fontsize=8.5, weight="bold")
    words = [f"{part.mzis:,} MZIs", f"{part.columns:,} col."]
    if part.gain > 1:
        words.append(f"gain {decibels(part.gain):.1f} dB")
    axes.text(x + width / 2, -most / 2 - 0.2, "\n".join(words), ha="center", va="top", fontsize=7, color=INK)


def _guides(axes: Axes, start: float, end: float, count: int, left: float, right: float, units: bool) -> None:
    from matplotlib.collections import LineCollection

    shown = min(count, _MOST_GUIDES)
    spread = [((k + 0.5) / shown - 0.5) * 0.86 for k in range(shown)]
    lines = [[(start, y * left), (end, y * right)] for y in spread]
    axes.add_collection(LineCollection(lines, colors=FAINT, linewidths=0.9, zorder=1))
    middle = (start + end) / 2
    if units:
        heights = [y * (left + right) / 2 for y in spread]
        axes.scatter(
            [middle] * shown, heights, s=min(36.0, 700 / shown**1.4), color=_UNIT, edgecolors=INK, lw=0.4, zorder=4
        )
    axes.text(middle, max(left, right) / 2 + 0.02, f"{count:,}", ha="center", va="bottom", fontsize=7, color=INK)


@styled
def part_figure(part: Part, name: str = "") -> Figure:
    """A mesh, or the meshes of a mapped matrix; of a matrix in blocks, those of the first."""
    if isinstance(part, Mesh):
        return draw(part)
    if isinstance(part, MappedBlocks):
        return draw_mapped(part.blocks[0], f"{name}, block 1 of {len(part.blocks)}")
    return draw_mapped(part, name)


# The floor plan of a chip: interferometers, phase shifters, units and the waveguides between them, to scale.

_MESH, _SIGMA, _SHIFTER = "#3b62ad", "#5ba8a0", "#7d6bc4"


@styled
def chip_figure(plan: FloorPlan, title: str) -> Figure:
    """Draw the chip in as many rows as its length needs, from left to right and from top to bottom."""
    rows = min(4, max(1, round((plan.width / plan.height / 4) ** 0.5)))
    length = plan.width / rows
    height = 11.0 * plan.height / length
    figure, panels = panel_grid(11.5, rows * (height + 0.55) + 0.7, rows, 1)
    for row, panel in enumerate(panels[:, 0]):
        _draw_chip(panel, plan)
        panel.set(xlim=(row * length, (row + 1) * length), ylim=(0, plan.height))
        panel.set_aspect("equal")
        panel.tick_params(labelsize=7)
        hide_spines(panel)
    panels[-1, 0].set_xlabel("µm")
    _draw_chip_legend(panels[0, 0])
    headline(figure, title)
    return figure


def _draw_chip(panel: Axes, plan: FloorPlan) -> None:
    from matplotlib.collections import LineCollection

    guides = [[(place.x, place.y), (place.x + place.length, place.y)] for place in plan.guides]
    panel.add_collection(LineCollection(guides, colors=FAINT, linewidths=0.6, zorder=1))
    routes = [_bend(*route.start, *route.end) for route in plan.routes]
    panel.add_collection(LineCollection(routes, colors=INK, linewidths=0.4, zorder=1))
    rules = plan.rules
    _boxes(panel, plan.interferometers, rules.column, 1.35 * rules.pitch, 0.85 * rules.pitch, _MESH)
    _boxes(panel, plan.attenuators, rules.column, 0.7 * rules.pitch, 0.35 * rules.pitch, _SIGMA)
    _boxes(panel, plan.shifters, rules.heater, 0.5 * rules.pitch, 0.25 * rules.pitch, _SHIFTER)
    _boxes(panel, plan.units, rules.unit, 0.8 * rules.pitch, 0.4 * rules.pitch, _UNIT)


def _boxes(panel: Axes, places: Sequence[Place], length: float, height: float, above: float, colour: str) -> None:
    """Draw boxes of one size whose waveguide lies as far below their upper edge as ``above`` says, less the rest."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    bottom = above - height
    boxes = [Rectangle((place.x + 0.04 * length, place.y + bottom), 0.92 * length, height) for place in places]
    panel.add_collection(PatchCollection(boxes, facecolors=colour, edgecolors="none", alpha=0.85, zorder=2))


def _bend(x0: float, y0: float, x1: float, y1: float) -> list[tuple[float, float]]:
    """Return a smooth way between two points, level at both ends."""
    return [(x0 + (x1 - x0) * t, y0 + (y1 - y0) * t * t * (3 - 2 * t)) for t in (step / 16 for step in range(17))]


def _draw_chip_legend(panel: Axes) -> None:
    from matplotlib.patches import Patch

    names = {"interferometer": _MESH, "attenuator of Σ": _SIGMA, "phase shifter": _SHIFTER, "gain or unit": _UNIT}
    handles = [Patch(color=colour, label=name) for name, colour in names.items()]
    panel.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, fontsize=7.5)


# What a link's wrong words come from, and the word error rate against its options.

_RATES, _ALONE = "#3b62ad", "#e0892b"
_MOST_PARTS = 14


@styled
def link_figure(document: Document) -> Figure:
    """Draw a panel of the parts, if they were compared, and one for each sweep, up to three in a row.

    ``document`` is that of ``onn link --json``. Lines and dots are rates, bands and bars their 95 % intervals; rates of
    zero are hollow, at the upper end of their interval.
    """
    compared, sweeps = document["contributions"], document["sweeps"]
    panels = (compared is not None) + len(sweeps)
    columns = min(max(panels, 1), 3)
    rows = -(-max(panels, 1) // columns)
    figure, grid = panel_grid(max(3.6 * columns, 5.6), 3.3 * rows + 0.4, rows, columns)
    axes = iter(grid.ravel())
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
    for name, colour, offset in (("without", _RATES, 0.16), ("alone", _ALONE, -0.16)):
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
        where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "left", "fontsize": 7}
        annotate(axes, "all parts", (together, 1), (4, 2), color=INK, **where)
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
    axes.fill_between(values, np.maximum(low, 1e-9), high, color=_RATES, alpha=0.18, lw=0)
    wrong = rates > 0
    axes.plot(values[wrong], rates[wrong], "o-", color=_RATES, lw=1.4, markersize=3.5)
    axes.plot(values[~wrong], high[~wrong], "o", color=_RATES, markersize=3.5, markerfacecolor="white")
    axes.set_yscale("log")
    if (values > 0).all() and values.max() > 5 * values.min():
        axes.set_xscale("log")
    axes.set_ylim(max(float(np.where(wrong, rates, high).min()) / 3, 1e-8), 1.5)
    axes.set_xlabel(f"{sweep['option']}, {sweep['unit']}")
    axes.set_ylabel("share of words wrong")
    hide_spines(axes)


# Error rate against noise: curves with their cliffs, the limit of each, and what no network can pass.

_CURVES = ("#3b62ad", "#e0892b", "#5ba8a0", "#c2449a", "#7d6bc4", "#c9603a")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoiseCurve:
    """Error rates of one network."""

    name: str
    sigmas: NDArray[np.float64]
    """Noise on every signal, relative to its full scale; rising."""
    error_rates: NDArray[np.float64]
    """Share of inputs averaged wrongly at each."""
    evaluations: int
    """Behind each rate: what errs less often than once in so many shows as nothing."""
    limit: float | None = None
    """Where accuracy falls below 99.99 %."""


def noise_steps(limit: float, bound: float, points: int = 33) -> NDArray[np.float64]:
    """Noise at which a curve is worth drawing: from below the limit to above the bound, both on the way."""
    low = max(min(limit, bound) / 3, 1e-12)
    high = min(max(10 * limit, 3 * bound if np.isfinite(bound) else 0.1), 0.5)
    return np.geomspace(low, max(high, 2 * low), points)


@styled
def noise_figure(curves: Sequence[NoiseCurve], bound: float, title: str = "") -> Figure:
    """Draw curves on logarithmic axes; ``bound`` is `averaging.noise.input_bound`, infinite where there is none."""
    figure, axes = single_panel(8.0, 4.4)
    floor = min(0.3 / max(curve.evaluations for curve in curves), (1 - TARGET) / 10)
    for index, curve in enumerate(curves):
        _draw_noise(axes, curve, _CURVES[index % len(_CURVES)], floor)
    axes.axhline(1 - TARGET, color=FAINT, lw=0.8)
    note: dict[str, Any] = {"ha": "right", "color": INK, "fontsize": 7.5}
    rate = f"1 in {1 / (1 - TARGET):,.0f}"
    annotate(axes, rate, (1, 1 - TARGET), (-2, 3), xycoords=("axes fraction", "data"), **note)
    if np.isfinite(bound):
        axes.axvspan(bound, 1.0, color=FAINT, alpha=0.18, lw=0)
        limit = f"no network passes {bound:.2g} at 99.99 %"
        note |= {"xycoords": ("data", "axes fraction"), "rotation": 90, "va": "center"}
        annotate(axes, limit, (bound, 0.5), (-4, 0), **note)
    sigmas = np.concatenate([curve.sigmas for curve in curves])
    axes.set(xscale="log", yscale="log", xlim=(sigmas.min(), sigmas.max()), ylim=(floor, 1.3))
    axes.set_xlabel("noise on every signal, relative to its full scale")
    axes.set_ylabel("share of inputs averaged wrongly")
    axes.text(0.0, -0.16, "hollow: none wrong", transform=axes.transAxes, fontsize=7.5, color=INK)
    hide_spines(axes)
    axes.legend(loc="upper left")
    if title:
        axes.set_title(plain(title))
    return figure


def _draw_noise(axes: Axes, curve: NoiseCurve, colour: str, floor: float) -> None:
    """Draw one curve; rates of zero are hollow dots at ``floor``."""
    wrong = curve.error_rates > 0
    label = plain(curve.name) if curve.limit is None else f"{plain(curve.name)}: limit {curve.limit:.2g}"
    axes.plot(curve.sigmas[wrong], curve.error_rates[wrong], "o-", color=colour, markersize=2.6, lw=1.4, label=label)
    zeros = np.full((~wrong).sum(), floor)
    (dots,) = axes.plot(curve.sigmas[~wrong], zeros, "o", color=colour, markersize=3.2, clip_on=False)
    dots.set(markerfacecolor="white", markeredgewidth=0.8)
    if curve.limit:
        axes.plot([curve.limit] * 2, [floor, 1 - TARGET], color=colour, lw=0.9, ls=":")


# Energies of reducers with their ranges, and what single constants do to the saving of one against another.

PARTS: Mapping[str, tuple[str, ...]] = {
    "servers": ("server transmitters", "server receivers"),
    "reducer": ("reducer receivers", "reducer transmitters", "units", "amplifiers", "heaters"),
    "light": ("lasers", "local oscillators", "carriers of units", "phase locks", "multiplexers"),
    "converters": ("converters",),
    "logic": ("logic",),
    "FEC": ("error correction",),
}
"""Groups of a table of energies, and the parts that each of them adds up."""
_PART_COLOURS = dict(zip(PARTS, ("#6f9be0", "#3b62ad", "#e0892b", "#c2449a", "#7d6bc4", "#5ba8a0"), strict=True))
_SAVES, _COSTS = "#5ba8a0", "#c9603a"
_TURNS = 10
_LEAST = -120.0
"""Percent that a rival saves at which bars of the second panel end."""
_BEYOND = 3.5
"""Rivals of more than so many times the median energy leave the picture at its right."""


@styled
def reducers_figure(made: ReducerComparison) -> Figure:
    """Draw energies by part with the range of 90 % of draws, and the constants that change a saving the most."""
    figure, panels = panel_grid(10.5, 4.4, 1, 2, width_ratios=(1.25, 1))
    _draw_energies(panels[0, 0], made)
    _draw_turns(panels[0, 1], made)
    setting = made.setting
    headline(figure, f"{setting.servers} servers, {setting.bits} bits, {setting.symbol_rate / 1e9:g} GBd")
    return figure


def _draw_energies(axes: Axes, made: ReducerComparison) -> None:
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
            axes.barh(place, length, 0.62, left=start, color=_PART_COLOURS[group], label=group if place == 0 else None)
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


def _draw_turns(axes: Axes, made: ReducerComparison) -> None:
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
            ends_at, colour = "left" if side > 0 else "right", "white" if at == _LEAST else FAINT
            annotate(axes, text, (at, place), (3 * side, 0), fontsize=6.5, color=colour, ha=ends_at, va="center")
    labels = [f"{turn.constant.name}, {turn.constant.unit}".removesuffix(", ") for turn in turns]
    axes.set_yticks(range(len(turns)), labels)
    axes.invert_yaxis()
    axes.axvline(0, color=INK, lw=0.8)
    axes.axvline(own, color=FAINT, lw=0.8, ls=":")
    axes.margins(x=0.18)
    axes.set_xlabel(plain(f"what {first} saves against {second}, %"))
    hide_spines(axes)


# Accuracy of the average against the error of a device: one panel a swept parameter.

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
_ACCURACY = "#3b62ad"


@styled
def sweep_figure(sweeps: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """Panels side by side, up to three in a row; each is a document of `meshes.sweep` of accuracies.

    The line is the mean over fabrications, the band reaches from the worst to the best.
    """
    columns = 2 if len(sweeps) == 4 else min(len(sweeps), 3)
    rows = -(-len(sweeps) // columns)
    figure, grid = panel_grid(max(3.1 * columns, 4.6), 2.7 * rows + 0.3, rows, columns, sharey=True)
    panels = grid.ravel()
    for panel, sweep in zip(panels, sweeps, strict=False):
        values = np.array([row["value"] for row in sweep["rows"]])
        mean, least, largest = (
            100 * np.array([row[name] for row in sweep["rows"]]) for name in ("mean", "least", "largest")
        )
        panel.fill_between(values, least, largest, color=_ACCURACY, alpha=0.18, lw=0)
        panel.plot(values, mean, "o-", color=_ACCURACY, lw=1.4, markersize=3)
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


# How a network was trained: wrong outputs and loss by epoch.

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
    style: dict[str, Any] = {"color": _WRONG, "markersize": 4.5, "markerfacecolor": "white"}
    axes.plot(epochs[done], np.full(done.sum(), none), "o", label=f"none of {points:,} wrong", **style)
    axes.plot(epochs, [epoch_record["loss"] for epoch_record in history], "-", color=_LOSS, lw=1.0, label="loss")
    axes.set(yscale="log", xlabel="epoch", ylabel="share of the grid; loss")
    hide_spines(axes)
    axes.legend(loc="upper right")
    if title:
        axes.set_title(plain(title))
    return figure
