"""Calibration of chips: what every step of the fit leaves unexplained, and each chip's error before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.core.arrays import Floats
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
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lightloom.machines.reducers.compare import ReducerComparison
    from lightloom.photonics.chip.floorplan import FloorPlan
    from lightloom.photonics.meshes.files import Part


_RED, _BLUE, _GREEN, _ORANGE, _VIOLET = "#c9603a", "#3b62ad", "#5ba8a0", "#e0892b", "#7d6bc4"
_EXACT = 1e-5
"""Errors below are drawn here."""


@styled
def calibration_figure(rows: Sequence[Document], power_noise: float, title: str) -> Figure:
    """Draw two panels, the residuals of each chip's fit over its steps and each chip's errors before and after, and
    return the figure.

    Args:
        rows: documents of `meshes.calibration.Trial`, one a chip, each with its ``name`` added; ``residuals``,
            ``error_before``, ``error_after`` and ``error_limit`` are drawn.
        power_noise: noise of the detectors as a share of the input, drawn as a line in the first panel unless it is 0.
        title: above the figure.
    """
    figure, panels = panel_grid(9.0, 3.6, 1, 2)
    _draw_residuals(panels[0, 0], rows, power_noise)
    _draw_errors(panels[0, 1], rows)
    headline(figure, title)
    return figure


def _draw_residuals(panel: Axes, rows: Sequence[Document], power_noise: float) -> None:
    """Draw a line for each chip, its ``residuals`` (differences of powers, shares of the input) over the steps of the
    fit, from 0 (before the first step), on a logarithmic scale, and a labelled line at ``power_noise``, the noise of
    the detectors as a share of the input, unless that is 0."""
    for row in rows:
        panel.plot(range(len(row["residuals"])), row["residuals"], "-", color=_BLUE, lw=1.0, alpha=0.6)
    if power_noise > 0:
        panel.axhline(power_noise, color=FAINT, lw=1.0)
        place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "ha": "right", "fontsize": 7.5}
        annotate(panel, "noise of the detectors", (1, power_noise), (-2, -9), color=INK, **place)
    panel.set(yscale="log", xlabel="step of the fit", ylabel="difference of powers, share of the input")
    integer_ticks(panel.xaxis, 10)
    hide_spines(panel)


def _draw_errors(panel: Axes, rows: Sequence[Document]) -> None:
    """Draw three marks for each chip (across) on a logarithmic scale: the relative error of its matrix before and after
    calibration, and the least that its devices allow (``error_before``, ``error_after`` and ``error_limit`` of a row).

    Errors below 1e-5 are drawn at 1e-5. Chips are named by ``name`` where there are at most 16 and not all names are
    numbers, else numbered from 0.
    """
    places, least = np.arange(len(rows)), np.inf
    for label, name, colour, marker, size in (
        ("phases of ideal devices", "error_before", _RED, "o", 4),
        ("calibrated", "error_after", _BLUE, "o", 4),
        ("what the devices allow", "error_limit", _GREEN, "_", 7),
    ):
        values = np.maximum([row[name] for row in rows], _EXACT)
        panel.plot(places, values, marker, color=colour, markersize=size, label=label)
        least = min(least, values.min())
    panel.set(yscale="log", ylabel="error of the matrix, relative", xlim=(-0.6, len(rows) - 0.4))
    panel.set_ylim(0.5 * least, 3.0)
    if len(rows) <= 16 and any(not row["name"].isdigit() for row in rows):
        panel.set_xticks(places, [plain(row["name"]) for row in rows], rotation=30, ha="right", fontsize=7)
    else:
        integer_ticks(panel.xaxis, 10)
        panel.set_xlabel("chip")
    hide_spines(panel)
    panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=7.5)


# A whole averager as the light sees it: P, a mesh a layer with its nonlinear units behind, T.

_PASSIVE, _LAYER = "#d5dbe6", "#aebfe3"
_MOST_GUIDES = 16
"""Waveguides drawn between two boxes; more would be a grey area."""


@styled
def chain_figure(parts: Mapping[str, Part], title: str = "") -> Figure:
    """Draw mapped parts in the order of the light, a box each, and return the figure; a box's height grows with the
    root of its signals, its width with that of its columns.

    Each box has its name, numbers of MZIs and columns, and the gain in dB of a mapped matrix that needs one; waveguides
    between boxes carry their number.

    Args:
        parts: meshes and mapped matrices by name, at least one. Those whose name ends in the word P (senders) or T
            (receivers) are no layers of the network and drawn paler; each layer but the last is followed by nonlinear
            units, one a signal.
        title: above the figure, before the total numbers of MZIs, columns and nonlinear units, which are always told.
    """
    layers = [name for name in parts if name.split()[-1] not in ("P", "T")]
    shapes = [(p.outputs, p.inputs) if isinstance(p, Mesh) else p.shape for p in parts.values()]
    depths = [part.layout.depth if isinstance(part, Mesh) else part.depth for part in parts.values()]
    widths = [0.55 + 0.16 * columns**0.5 for columns in depths]
    heights = [0.4 + 0.6 * max(shape) ** 0.5 for shape in shapes]
    gap, most = 0.62, max(heights)
    figure, axes = single_panel(min(max(0.95 * (sum(widths) + gap * (len(parts) + 1)), 6.5), 16), 0.62 * most + 1.9)
    x, signals, left, behind, units = 0.0, shapes[0][1], heights[0], False, 0
    for (name, part), shape, columns, width, height in zip(parts.items(), shapes, depths, widths, heights, strict=True):
        _guides(axes, x, x + gap, signals, left, height, behind)
        words = [f"{part.mzis:,} MZIs", f"{columns:,} col."]
        if not isinstance(part, Mesh) and part.gain > 1:
            words.append(f"gain {decibels(part.gain):.1f} dB")
        _box(axes, _LAYER if name in layers else _PASSIVE, x + gap, width, height, columns)
        middle = x + gap + width / 2
        axes.text(middle, most / 2 + 0.22, plain(name), ha="center", va="center", fontsize=8.5, weight="bold")
        axes.text(middle, -most / 2 - 0.2, "\n".join(words), ha="center", va="top", fontsize=7, color=INK)
        x, signals, left, behind = x + gap + width, shape[0], height, name in layers[:-1]
        units += shape[0] if behind else 0
    _guides(axes, x, x + gap, signals, left, left, False)
    axes.set(xlim=(-0.15, x + gap + 0.15), ylim=(-most / 2 - 1.0, most / 2 + 0.5))
    axes.axis("off")
    counts = f"{sum(part.mzis for part in parts.values()):,} MZIs in {sum(depths):,} columns"
    told = f"{counts}, {units:,} nonlinear units (orange)"
    figure.suptitle(plain(f"{title}: {told}" if title else told), x=0.01, ha="left", fontsize=9.5, color=INK)
    return figure


def _box(axes: Axes, fill: str, x: float, width: float, height: float, columns: int) -> None:
    """Draw a box of colour ``fill`` that begins at ``x`` and is centred on 0 in height, with crossings inside as a hint
    of a mesh: a quarter as many columns of them as ``columns`` (those of the mesh), 2 to 7."""
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x, -height / 2), width, height, facecolor=fill, edgecolor=INK, lw=0.8, zorder=2))
    count = min(max(columns // 4, 2), 7)
    step, rows = width / count, max(2, round(height / (width / count)))
    lines = []
    for column, row in np.ndindex(count, rows):
        left, right = x + column * step, x + (column + 1) * step
        low, high = -height / 2 + row * height / rows, -height / 2 + (row + 1) * height / rows
        lines += [[(left, low), (right, high)], [(left, high), (right, low)]]
    axes.add_collection(LineCollection(lines, colors="white", linewidths=0.5, alpha=0.75, zorder=3))


def _guides(axes: Axes, start: float, end: float, count: int, left: float, right: float, units: bool) -> None:
    """Draw waveguides between two boxes, at most 16, with their true number written above them.

    Args:
        axes: panel to draw in.
        start, end: where the waveguides begin and end, across.
        count: number of waveguides.
        left, right: heights of the boxes on both sides, over which the waveguides are spread; both are centred on 0.
        units: whether to draw a nonlinear unit on each.
    """
    from matplotlib.collections import LineCollection

    shown, middle = min(count, _MOST_GUIDES), (start + end) / 2
    spread = [((k + 0.5) / shown - 0.5) * 0.86 for k in range(shown)]
    lines = [[(start, y * left), (end, y * right)] for y in spread]
    axes.add_collection(LineCollection(lines, colors=FAINT, linewidths=0.9, zorder=1))
    if units:
        heights, size = [y * (left + right) / 2 for y in spread], min(36.0, 700 / shown**1.4)
        axes.scatter([middle] * shown, heights, s=size, color=_ORANGE, edgecolors=INK, lw=0.4, zorder=4)
    axes.text(middle, max(left, right) / 2 + 0.02, f"{count:,}", ha="center", va="bottom", fontsize=7, color=INK)


@styled
def part_figure(part: Part, name: str = "") -> Figure:
    """Return a drawing of a mesh, or of the meshes of a mapped matrix, of a matrix in blocks only the first block;
    ``name`` is the title where ``part`` is no mesh (of the first of n blocks, with ``, block 1 of n`` behind it), and
    not used for a mesh."""
    if isinstance(part, Mesh):
        return draw(part)
    if isinstance(part, MappedBlocks):
        return draw_mapped(part.blocks[0], f"{name}, block 1 of {len(part.blocks)}")
    return draw_mapped(part, name)


# The floor plan of a chip: interferometers, phase shifters, units and the waveguides between them, to scale.


@styled
def chip_figure(plan: FloorPlan, title: str) -> Figure:
    """Draw a chip's floor plan to scale in µm, cut by its length into rows of equal length, which follow each other
    from top to bottom, and return the figure.

    There are round(sqrt(width / height / 4)) rows, one to four. A legend names the colours of devices.
    """
    from matplotlib.patches import Patch

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
    names = {"interferometer": _BLUE, "attenuator of Σ": _GREEN, "phase shifter": _VIOLET, "gain or unit": _ORANGE}
    handles = [Patch(color=colour, label=name) for name, colour in names.items()]
    panels[0, 0].legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, fontsize=7.5)
    headline(figure, title)
    return figure


def _draw_chip(panel: Axes, plan: FloorPlan) -> None:
    """Draw the whole chip to scale in µm: waveguides, routes and a box for each device; the caller sets the part that
    is seen."""
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.patches import Rectangle

    guides = [[(place.x, place.y), (place.x + place.length, place.y)] for place in plan.guides]
    panel.add_collection(LineCollection(guides, colors=FAINT, linewidths=0.6, zorder=1))
    panel.add_collection(LineCollection([_bend(*route) for route in plan.routes], colors=INK, linewidths=0.4, zorder=1))
    rules = plan.rules
    # Height of a box, and how far its upper edge lies above the waveguide, in pitches.
    for places, length, height, above, colour in (
        (plan.interferometers, rules.column, 1.35, 0.85, _BLUE),
        (plan.attenuators, rules.column, 0.7, 0.35, _GREEN),
        (plan.shifters, rules.heater, 0.5, 0.25, _VIOLET),
        (plan.units, rules.unit, 0.8, 0.4, _ORANGE),
    ):
        bottom, size = above * rules.pitch - height * rules.pitch, (0.92 * length, height * rules.pitch)
        boxes = [Rectangle((place.x + 0.04 * length, place.y + bottom), *size) for place in places]
        panel.add_collection(PatchCollection(boxes, facecolors=colour, edgecolors="none", alpha=0.85, zorder=2))


def _bend(x0: float, y0: float, x1: float, y1: float) -> list[tuple[float, float]]:
    """Return 17 points (x, y) of a smooth curve from (x0, y0) to (x1, y1), level at both ends."""
    return [(x0 + (x1 - x0) * t, y0 + (y1 - y0) * t * t * (3 - 2 * t)) for t in (step / 16 for step in range(17))]


# What a link's wrong words come from, and the word error rate against its options.

_MOST_PARTS = 14


@styled
def link_figure(document: Document) -> Figure:
    """Draw a panel of the parts, if they were compared, and one for each sweep, up to three in a row, and return the
    figure.

    ``document`` is that of ``onn link --json``: ``contributions`` (None where the parts were not compared) and
    ``sweeps`` fill the panels; ``servers``, ``bits``, ``words``, ``word_error_rate`` and the full scale of ``link`` (in
    W, told in mW) the title. Lines and dots are shares of words wrong, bands and bars their 95 % intervals; rates of
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
    """Draw for each part, across on a logarithmic axis, the share of words wrong with this part made ideal and with its
    errors alone, with 95 % intervals.

    The first 14 parts are drawn, the first on top; hollow dots mean none wrong and stand at the interval's upper end; a
    vertical line is the rate with the errors of all parts together, unless that is 0.

    Args:
        axes: panel to draw in.
        compared: ``parts``, each with its name (``part``) and, for ``without`` its errors and for them ``alone``,
            ``word_error_rate`` and ``interval_95``; ``together``, with ``word_error_rate``; and ``errors_enlarged_by``,
            a factor that the axis tells unless it is 1.
    """
    rows = compared["parts"][:_MOST_PARTS][::-1]
    places = np.arange(len(rows))
    together = compared["together"]["word_error_rate"]
    shown = [together or 1e-6]
    for name, label, colour, offset in (("without", "made ideal", _BLUE, 0.16), ("alone", "alone", _ORANGE, -0.16)):
        for place, row in zip(places, rows, strict=True):
            rate, (low, high) = row[name]["word_error_rate"], row[name]["interval_95"]
            axes.plot([max(low, 1e-9), high], [place + offset] * 2, color=colour, lw=1.2, alpha=0.5)
            face = colour if rate > 0 else "white"
            axes.plot([rate or high], [place + offset], "o", color=colour, markersize=4, markerfacecolor=face)
            shown.append(rate or high)
        axes.plot([], [], "o", color=colour, markersize=4, label=label)
    if together > 0:
        axes.axvline(together, color=FAINT, lw=1, zorder=0)
        where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "left", "fontsize": 7}
        annotate(axes, "all parts", (together, 1), (4, 2), color=INK, **where)
    axes.set(xscale="log", yticks=places, yticklabels=[row["part"] for row in rows])
    axes.tick_params(axis="y", labelsize=7.5)
    factor = compared["errors_enlarged_by"]
    enlarged = "" if factor == 1 else f", all errors {factor:g} times as large"
    axes.set(xlim=(min(shown) / 3, min(max(shown) * 3, 1.5)), xlabel=f"share of words wrong{enlarged}")
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, fontsize=7, borderaxespad=0.2)
    hide_spines(axes)


def _draw_sweep(axes: Axes, sweep: Document) -> None:
    """Draw the share of words wrong (logarithmic) and its 95 % interval against the values of one option.

    The values' axis is logarithmic where all are above 0 and the largest is more than 5 times the least; hollow dots
    mean none wrong, at the interval's upper end.

    Args:
        axes: panel to draw in.
        sweep: name of the ``option``, ``unit`` of its values, and ``rows`` of ``value``, ``word_error_rate`` and
            ``interval_95`` (both ends).
    """
    values = np.array([row["value"] for row in sweep["rows"]])
    rates = np.array([row["word_error_rate"] for row in sweep["rows"]])
    low, high = np.array([row["interval_95"] for row in sweep["rows"]]).T
    axes.fill_between(values, np.maximum(low, 1e-9), high, color=_BLUE, alpha=0.18, lw=0)
    wrong = rates > 0
    axes.plot(values[wrong], rates[wrong], "o-", color=_BLUE, lw=1.4, markersize=3.5)
    axes.plot(values[~wrong], high[~wrong], "o", color=_BLUE, markersize=3.5, markerfacecolor="white")
    wide = (values > 0).all() and values.max() > 5 * values.min()
    axes.set(yscale="log", xscale="log" if wide else "linear", ylabel="share of words wrong")
    least = max(float(np.where(wrong, rates, high).min()) / 3, 1e-8)
    axes.set(ylim=(least, 1.5), xlabel=f"{sweep['option']}, {sweep['unit']}")
    hide_spines(axes)


# Error rate against noise: curves with their cliffs, the limit of each, and what no network can pass.


def noise_steps(limit: float, bound: float) -> Floats:
    """Return 33 levels of noise, rising and evenly spaced as logarithms, at which a curve is worth drawing.

    They reach from a third of the smaller of limit and bound to the larger of ten times the limit and three times the
    bound (0.1 where it is infinite), but to 0.5 at most and to twice the first level at least.

    Args:
        limit: noise, relative to full scale, up to which the network averages 99.99 % right.
        bound: noise beyond which no network does; infinite where there is none.
    """
    low = max(min(limit, bound) / 3, 1e-12)
    high = min(max(10 * limit, 3 * bound if np.isfinite(bound) else 0.1), 0.5)
    return np.geomspace(low, max(high, 2 * low), 33)


@styled
def noise_figure(
    name: str, sigmas: Floats, rates: Floats, evaluations: int, *, limit: float | None, bound: float, title: str
) -> Figure:
    """Draw the error rates of one network over the noise, on logarithmic axes, with a line at 1 wrong in 10,000, and
    return the figure; rates of zero are hollow dots at the bottom.

    Args:
        name: of the network, for the legend.
        sigmas: noise on every signal, relative to its full scale; rising: [rates].
        rates: share of inputs averaged wrongly at each: [rates].
        evaluations: draws behind each rate: what errs less often than once in so many shows as nothing. The axis begins
            at 0.3 / ``evaluations``, at 1e-5 at most.
        limit: noise where accuracy falls below 99.99 %, told in the legend and, unless it is 0, drawn as a dotted line
            up to 1 in 10,000; None where there is none.
        bound: noise on the inputs beyond which no network averages 99.99 % right (`averaging.proof.input_bound`); the
            region beyond is shaded; infinite where there is none.
        title: above the figure.
    """
    figure, axes = single_panel(8.0, 4.4)
    floor, wrong = min(0.3 / evaluations, (1 - TARGET) / 10), rates > 0
    label = plain(name) if limit is None else f"{plain(name)}: limit {limit:.2g}"
    axes.plot(sigmas[wrong], rates[wrong], "o-", color=_BLUE, markersize=2.6, lw=1.4, label=label)
    (dots,) = axes.plot(sigmas[~wrong], np.full((~wrong).sum(), floor), "o", color=_BLUE, markersize=3.2)
    dots.set(markerfacecolor="white", markeredgewidth=0.8, clip_on=False)
    if limit:
        axes.plot([limit] * 2, [floor, 1 - TARGET], color=_BLUE, lw=0.9, ls=":")
    axes.axhline(1 - TARGET, color=FAINT, lw=0.8)
    note: dict[str, Any] = {"ha": "right", "color": INK, "fontsize": 7.5}
    rate = f"1 in {1 / (1 - TARGET):,.0f}"
    annotate(axes, rate, (1, 1 - TARGET), (-2, 3), xycoords=("axes fraction", "data"), **note)
    if np.isfinite(bound):
        axes.axvspan(bound, 1.0, color=FAINT, alpha=0.18, lw=0)
        note |= {"xycoords": ("data", "axes fraction"), "rotation": 90, "va": "center"}
        annotate(axes, f"no network passes {bound:.2g} at 99.99 %", (bound, 0.5), (-4, 0), **note)
    axes.set(xscale="log", yscale="log", xlim=(sigmas.min(), sigmas.max()), ylim=(floor, 1.3))
    axes.set(xlabel="noise on every signal, relative to its full scale", ylabel="share of inputs averaged wrongly")
    axes.text(0.0, -0.16, "hollow: none wrong", transform=axes.transAxes, fontsize=7.5, color=INK)
    hide_spines(axes)
    axes.legend(loc="upper left")
    axes.set_title(plain(title))
    return figure


# Energies of reducers with their ranges, and what single constants do to the saving of one against another.

PARTS: Mapping[str, tuple[str, ...]] = {
    "servers": ("server transmitters", "server receivers"),
    "reducer": ("reducer receivers", "reducer transmitters", "units", "heaters"),
    "light": ("lasers", "local oscillators", "carriers of units", "phase locks", "multiplexers"),
    "converters": ("converters",),
    "logic": ("logic",),
    "FEC": ("error correction",),
}
"""Groups of a table of energies, and the parts that each of them adds up."""
_PART_COLOURS = dict(zip(PARTS, ("#6f9be0", _BLUE, _ORANGE, "#c2449a", _VIOLET, _GREEN), strict=True))
_TURNS = 10
_LEAST = -120.0
"""Percent that a rival saves at which bars of the second panel end."""
_BEYOND = 3.5
"""Rivals of more than so many times the median energy leave the picture at its right."""


@styled
def reducers_figure(made: ReducerComparison) -> Figure:
    """Draw two panels and return the figure: energies of the compared reducers by part, in pJ for each bit of a server,
    with the range of 90 % of draws, and the at most ten constants that alone change most what the first reducer of
    ``made.pair`` saves against the second.

    The title tells the numbers of servers and bits and the symbol rate.
    """
    figure, panels = panel_grid(10.5, 4.4, 1, 2, width_ratios=(1.25, 1))
    _draw_energies(panels[0, 0], made)
    _draw_turns(panels[0, 1], made)
    setting = made.setting
    headline(figure, f"{setting.servers} servers, {setting.bits} bits, {setting.symbol_rate / 1e9:g} GBd")
    return figure


def _draw_energies(axes: Axes, made: ReducerComparison) -> None:
    """Draw a horizontal bar for each compared reducer, in the order of ``made.rivals``, the first on top: pJ for each
    bit of a server, divided into groups of parts (:data:`PARTS`), with a dot at the whole and a line over the range of
    90 % of draws (``made.ranges``).

    The bar of a reducer above 3.5 times the median (the upper one of an even number) ends at the edge, with its energy
    written in it (``no light does`` where it is infinite) and no range.
    """
    totals = {name: 1e12 * rival.energy_per_bit for name, rival in made.rivals.items()}
    edge = _BEYOND * sorted(totals.values())[len(totals) // 2]
    near = [name for name, total in totals.items() if total <= edge]
    highest = [1e12 * made.ranges[name].high for name in near]
    edge = 1.08 * max([totals[name] for name in near] + [value for value in highest if value <= edge])
    for place, (name, rival) in enumerate(made.rivals.items()):
        start, energy, spread = 0.0, totals[name], made.ranges[name]
        for group, parts in PARTS.items():
            length = 1e12 * sum(rival.energy.get(part, 0.0) for part in parts)
            length = min(length, edge - start) if isfinite(length) else edge - start
            axes.barh(place, length, 0.62, left=start, color=_PART_COLOURS[group], label=group if place == 0 else None)
            start += length
        if energy > edge:
            text, style = f"{energy:,.0f}" if isfinite(energy) else "no light does", "bold"
            axes.text(0.985 * edge, place, text, ha="right", va="center", color="white", fontsize=7.5, fontweight=style)
            continue
        ends = [1e12 * spread.low, min(1e12 * spread.high, edge)]
        axes.plot(ends, [place, place], color=INK, lw=1.1, solid_capstyle="butt")
        axes.plot(energy, place, "o", color=INK, markersize=3)
    axes.set_yticks(range(len(totals)), list(totals))
    axes.invert_yaxis()
    axes.set(xlim=(0, edge), xlabel="pJ for a bit of a server; lines: 90 % of draws")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=6, columnspacing=1.0, handlelength=1.0)
    hide_spines(axes)


def _draw_turns(axes: Axes, made: ReducerComparison) -> None:
    """Draw for each constant (the first ten of ``made.turns``, from the top) what the first reducer of ``made.pair``
    saves against the second, in percent of the second's energy, at the low and the high end of the constant's range,
    all others as they are.

    Bars begin at the saving as it is, a dotted line, and end at that of the low or high value, which is written there;
    green where the saving grows, red where it falls. Savings below -120 % are drawn at -120 %; values at which no light
    suffices are marked ``no light does``.
    """
    first, second = made.pair
    turns = made.turns[:_TURNS]
    own = max(100 * made.saving(first, second), _LEAST)
    for place, turn in enumerate(turns):
        constant = turn.constant
        for value, saving in ((constant.low, turn.at_low), (constant.high, turn.at_high)):
            end = max(100 * saving, _LEAST)
            axes.barh(place, end - own, 0.6, left=own, color=_GREEN if end > own else _RED)
            side = 1 if end > own or end == _LEAST else -1
            text = f"{value:g}" if isfinite(saving) else f"{value:g}: no light does"
            style: dict[str, Any] = {"ha": "left" if side > 0 else "right", "va": "center", "fontsize": 6.5}
            annotate(axes, text, (end, place), (3 * side, 0), color="white" if end == _LEAST else FAINT, **style)
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


@styled
def sweep_figure(sweeps: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """Draw a panel for each sweep, up to three in a row (two of four): percent averaged rightly over the swept value;
    return the figure.

    The line is the mean over fabrications, the band reaches from the worst to the best; the axis of values is
    logarithmic where they are above 0 and the largest is more than 20 times the least.

    Args:
        sweeps: documents of `meshes.sweep`, at least one: the swept ``parameter``, a field of `NonIdealities`, and
            ``rows`` of its ``value`` and of the ``mean``, ``least`` and ``largest`` accuracy (0 to 1).
        title: above the figure.
    """
    columns = 2 if len(sweeps) == 4 else min(len(sweeps), 3)
    rows = -(-len(sweeps) // columns)
    figure, grid = panel_grid(max(3.1 * columns, 4.6), 2.7 * rows + 0.3, rows, columns, sharey=True)
    panels = grid.ravel()
    for panel, sweep in zip(panels, sweeps, strict=False):
        names = ("value", "mean", "least", "largest")
        values, mean, least, largest = (np.array([row[name] for row in sweep["rows"]]) for name in names)
        panel.fill_between(values, 100 * least, 100 * largest, color=_BLUE, alpha=0.18, lw=0)
        panel.plot(values, 100 * mean, "o-", color=_BLUE, lw=1.4, markersize=3)
        wide = (values > 0).all() and values.max() > 20 * values.min()
        panel.set(xscale="log" if wide else "linear", ylim=(-3, 104))
        panel.set_xlabel(WORDS.get(sweep["parameter"], sweep["parameter"]))
        hide_spines(panel)
    for panel in panels[len(sweeps) :]:
        panel.axis("off")
    for panel in panels[::columns]:
        panel.set_ylabel("averaged rightly, %")
    figure.suptitle(plain(title), x=0.01, ha="left", fontsize=9.5, color=INK)
    return figure


# How a network was trained: wrong outputs and loss by epoch.


@styled
def training_figure(history: Sequence[Mapping[str, float]], points: int, title: str) -> Figure:
    """Draw the share of wrong averages and the loss over the epochs, both on one logarithmic scale, and return the
    figure.

    Args:
        history: ``epoch``, ``accuracy`` (share of inputs averaged rightly, 0 to 1) and ``loss`` of each record.
        points: number of inputs behind an accuracy; nothing wrong shows as 0.5 / ``points``, hollow.
        title: above the figure.
    """
    figure, axes = single_panel(7.0, 3.6)
    epochs, accuracies, losses = (
        np.array([record[name] for record in history]) for name in ("epoch", "accuracy", "loss")
    )
    wrong, none = 1 - accuracies, 0.5 / points
    axes.plot(epochs, np.maximum(wrong, none), "o-", color=_RED, markersize=3, lw=1.4, label="averaged wrongly")
    done = wrong * points < 0.5
    style: dict[str, Any] = {"color": _RED, "markersize": 4.5, "markerfacecolor": "white"}
    axes.plot(epochs[done], np.full(done.sum(), none), "o", label=f"none of {points:,} wrong", **style)
    axes.plot(epochs, losses, "-", color=_BLUE, lw=1.0, label="loss")
    axes.set(yscale="log", xlabel="epoch", ylabel="share of the grid; loss")
    hide_spines(axes)
    axes.legend(loc="upper right")
    axes.set_title(plain(title))
    return figure
