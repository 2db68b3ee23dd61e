"""Predicted times against measured ones: a point for each row, with its interval, around the line of equality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.units import format_energy, format_time
from lightloom.machines.fabrics.link_budget import LinkBudget, dbm
from lightloom.reports.figures import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_SERIES_COLOURS = [colour for _, colour in canvas.TASKS.values()]


@dataclass(frozen=True)
class PredictedSeries:
    """Rows of one table: arrays of shape [rows], in seconds."""

    name: str
    measured: Floats
    predicted: Floats
    low: Floats | None = None
    high: Floats | None = None
    """Ends of the 90 % intervals; None where there are none."""


@canvas.styled
def accuracy_figure(series: Sequence[PredictedSeries], what: str = "step") -> Figure:
    """Draw predicted (upwards) against measured (across) seconds of ``what`` on equal logarithmic axes, in a colour for
    each series, and return the figure.

    Points have their 90 % intervals where a series has them; the line of equality and a band within 10 % of it are
    drawn too. There must be at least one row.

    Args:
        series: each with its ``name``, which the legend shows with the number of rows, and the arrays ``measured``,
            ``predicted``, and ``low`` and ``high`` (ends of the intervals, None for none), in seconds: [rows].
        what: what is timed, named on both axes.
    """
    figure, axes = canvas.single_panel(5.2, 5.0)
    columns = [part for entry in series for part in (entry.measured, entry.predicted, entry.low, entry.high)]
    everything = np.concatenate([part for part in columns if part is not None])
    ends = np.array([everything.min() * 0.8, everything.max() * 1.25])
    axes.plot(ends, ends, color=canvas.FAINT, lw=1, zorder=1, label="equal")
    axes.fill_between(ends, ends * 0.9, ends * 1.1, color=canvas.FAINT, alpha=0.15, lw=0, zorder=0, label="within 10 %")
    for index, entry in enumerate(series):
        widths = None
        if entry.low is not None and entry.high is not None:
            widths = np.stack([entry.predicted - entry.low, entry.high - entry.predicted])
        style: dict[str, Any] = {"fmt": "o", "ms": 3, "lw": 0.6, "zorder": 2}
        style |= {"color": _SERIES_COLOURS[index % len(_SERIES_COLOURS)]}
        label = canvas.plain(f"{entry.name} ({len(entry.measured)})")
        axes.errorbar(entry.measured, entry.predicted, yerr=widths, label=label, **style)
    intervals = " with its 90 % interval" if any(entry.low is not None for entry in series) else ""
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    axes.set(xlabel=f"measured {what}, s", ylabel=f"predicted {what}{intervals}, s")
    axes.legend(loc="upper left")
    canvas.hide_spines(axes)
    return figure


# Below which speed of links each exchange of gradients shortens a step, by the number of ranks.

_METHOD_COLOURS = ("#1f6f8b", "#c8553d", "#588b3a", "#8a5a9e", "#b08900", "#5a6570", "#2d9d8f")
_MARKS = "osD^vPX"


@canvas.styled
def break_even_figure(lines: Mapping[str, Sequence[tuple[int, float | None]]], title: str) -> Figure:
    """Draw a line for each method of exchanging gradients, the speed of a rank's link in Gb/s below which it shortens a
    step (upwards) over the number of ranks (across), both logarithmic, and return the figure.

    Where a method pays at no speed, its line has a gap.

    Args:
        lines: by name of the method, points in the order in which they are joined: (ranks, speed in bytes per second,
            None where it pays at none).
        title: of the figure.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    figure, axes = canvas.single_panel(8.2, 4.6)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for place, (name, points) in enumerate(lines.items()):
        ranks = [count for count, _ in points]
        speeds = [float("nan") if speed is None else 8e-9 * speed for _, speed in points]
        colour, mark = _METHOD_COLOURS[place % len(_METHOD_COLOURS)], _MARKS[place % len(_MARKS)]
        axes.plot(ranks, speeds, color=colour, marker=mark, markersize=4, linewidth=1.2, label=canvas.plain(name))
    counts = sorted({count for points in lines.values() for count, _ in points})
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    _draw_grid(axes)
    axes.set(xlabel="ranks", ylabel="speed of a rank's link, Gb/s")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
    axes.set_title(canvas.plain(title), loc="left", fontsize=9)
    return figure


def _draw_grid(axes: Axes) -> None:
    """Draw faint grid lines at the ticks behind the data, and hide the top and the right side of the box."""
    axes.grid(color=canvas.FAINT, linewidth=0.3, alpha=0.6)
    axes.set_axisbelow(True)
    canvas.hide_spines(axes)


# Stacked bars: where the step time of each result goes.

_WIDTH = 9.0


@canvas.styled
def breakdown_figure(rows: Sequence[tuple[str, Mapping[str, float]]], per: str = "step") -> Figure:
    """Draw one horizontal stacked bar for each ``(name, breakdown)``, the first on top, with its total time behind it,
    and return the figure.

    Breakdowns are seconds as ``Timeline.breakdown()`` gives them (``compute_s``, ``exposed_communication_s``,
    ``exposed_reconfiguration_s`` and ``idle_s``, stacked in this order; absent ones are 0), of a step or of what
    ``per`` names; the axis is in milliseconds, or in microseconds where the longest bar is under 0.2 ms. A legend names
    the parts that occur. Names may have several lines.
    """
    lines = max((name.count("\n") + 1 for name, _ in rows), default=1)
    figure, axes = canvas.single_panel(_WIDTH, 1.15 + max(0.36, 0.17 * lines) * len(rows))
    totals = [sum(breakdown.values()) for _, breakdown in rows]
    longest = max(totals, default=0.0) or 1e-9
    scale, unit = (1e6, "microseconds") if longest < 2e-4 else (1e3, "milliseconds")
    for row, (_, breakdown) in enumerate(rows):
        left = 0.0
        for key, (_, colour) in canvas.SHARES.items():
            width = breakdown.get(key, 0.0) * scale
            if width > 0:
                axes.barh(row, width, left=left, height=0.66, color=colour, linewidth=0)
            left += width
        axes.text(left + longest * scale * 0.008, row, format_time(totals[row]), va="center", ha="left")
    axes.set(xlim=(0, longest * scale * 1.1), xlabel=f"{unit} a {per}")
    canvas.name_rows(axes, [name for name, _ in rows])
    shown = {key for _, breakdown in rows for key, seconds in breakdown.items() if seconds > 0}
    canvas.colour_legend(figure, {words: colour for key, (words, colour) in canvas.SHARES.items() if key in shown})
    return figure


@canvas.styled
def waterfall_figure(
    first: tuple[str, float], steps: Sequence[tuple[str, float]], last: tuple[str, float], title: str
) -> Figure:
    """Draw how the seconds of a sample change from the ``first`` bar, on top, to the ``last``, with a floating bar for
    what each step between them adds or takes off, and return the figure.

    Args:
        first, last: (name, seconds of a sample); these bars begin at 0 and are labelled with their time.
        steps: (name, seconds that it adds; below 0, takes off), each bar beginning where the one above ends, labelled
            in percent of the first bar, with a sign.
        title: above the figure; the axis is in milliseconds and ends 12 % beyond the bar that reaches farthest.
    """
    figure, axes = canvas.single_panel(_WIDTH, 1.15 + 0.36 * (len(steps) + 2))
    level, names = first[1], [first[0], *(name for name, _ in steps), last[0]]
    bars = [(0.0, first[1], canvas.INK), *[(0.0, 0.0, canvas.INK)] * len(steps), (0.0, last[1], canvas.INK)]
    for place, (_, change) in enumerate(steps, 1):
        colour = canvas.SHARES["exposed_communication_s" if change > 0 else "compute_s"][1]
        bars[place] = (level, change, colour)
        level += change
    for row, (left, width, colour) in enumerate(bars):
        axes.barh(row, width * 1e3, left=left * 1e3, height=0.66, color=colour, linewidth=0)
        share = 100 * width / first[1]
        words = format_time(width) if row in (0, len(bars) - 1) else f"{share:+.1f} %" if abs(share) >= 0.05 else "0 %"
        axes.text(max(left, left + width) * 1e3 + first[1] * 8, row, words, va="center", ha="left")
    axes.set(xlim=(0, max(max(left, left + width) for left, width, _ in bars) * 1120), xlabel="milliseconds a sample")
    axes.set_title(canvas.plain(title), loc="left", fontsize=9)
    canvas.name_rows(axes, names)
    return figure


# Power of a wavelength along a lightpath: what is left after every node, and what receivers need.
#
# dBm ┤▔▔╲___
# │      ╲___╷
# │          ╰╴●╲___╷        ● a tap takes its part, the rest goes on
# │┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄╰╴●┄    what the farthest needs
# └──────────────────────
# nodes passed

_MOST_LINKS = 256


@canvas.styled
def budget_figure(budget: LinkBudget, taps: int) -> Figure:
    """Draw the power of one wavelength in dBm (upwards) over the links passed (across), for the longest lightpath with
    ``taps`` destinations that the budget allows, and return the figure.

    A lightpath of one link more is drawn in grey, and lines for the power in the fibre that a receiver needs (its
    sensitivity and the loss in front of it), without and with margin. The destinations are the last nodes of the
    lightpath, all of them where these are fewer than ``taps``; they have larger dots. At most 256 links are drawn, 256
    where there is no limit, and one where the budget allows none; the title tells the limit.
    """
    reach = budget.reach(taps)
    links = _MOST_LINKS if reach is None else min(max(reach, 1), _MOST_LINKS)
    figure, axes = canvas.single_panel(7.2, 3.4)
    light, need = canvas.SHARES["compute_s"][1], canvas.SHARES["exposed_communication_s"][1]
    for length, colour, name in ((links + 1, canvas.FAINT, "one link more"), (links, light, "light in the fibre")):
        served = min(taps, length)
        level = budget.levels(length, served)
        axes.plot(np.arange(1, length + 1), level, color=colour, marker=".", label=name, zorder=2)
        tapped = np.arange(length - served + 1, length + 1)
        if colour == light:
            axes.plot(tapped, level[tapped - 1], "o", color=light, label="served here", zorder=3)
    floor = dbm(budget.sensitivity) + budget.receiving_loss
    axes.axhline(floor, color=need, lw=1, ls="--", label="least that a receiver needs there")
    axes.axhline(floor + budget.margin, color=need, lw=0.6, ls=":", label="the same with margin")
    destinations = "one destination" if taps == 1 else f"up to {taps} destinations"
    far = "no limit" if reach is None else f"{reach} link{'s' * (reach != 1)}"
    title = f"Light of {budget.laser_dbm:.1f} dBm from the laser, {destinations}: {far}"
    axes.set(xlabel="links from the sender", ylabel="dBm of one wavelength", title=title)
    canvas.integer_ticks(axes.xaxis, 10)
    axes.legend(loc="upper right")
    return figure


# What failures cost: the time of each case beside the bound of what is left.
#
# nothing       ████████┃
# wavelength:3  █████████┃
# cable:17      ██████████████ ┃        ┃ the lower bound


@canvas.styled
def damage_figure(rows: Sequence[Mapping[str, Any]], kind: str) -> Figure:
    """Draw, for each case of failures, a horizontal bar of the collective's time with a mark at the lower bound of what
    is left of the fabric, in the order of the rows from the top, and return the figure.

    Args:
        rows: each with ``failures`` (a list of names; of several the number alone is written, of none "nothing
            failed"), ``time_s`` and ``lower_bound_s`` (seconds from dark circuits on, drawn in µs).
        kind: kind of the collective, such as ``all-reduce``: a key of ``canvas.TASKS``, which gives the colour.
    """
    figure, axes = canvas.single_panel(7.2, 1.2 + 0.36 * len(rows))
    place = np.arange(len(rows))
    times, bounds = ([row[name] * 1e6 for row in rows] for name in ("time_s", "lower_bound_s"))
    axes.barh(place, times, height=0.6, color=canvas.TASKS[kind][1], label="time")
    axes.plot(
        bounds, place, "|", color=canvas.INK, markersize=14, markeredgewidth=2, label="lower bound of what is left"
    )
    failed = [row["failures"] for row in rows]
    names = [f"all {len(each)} together" if len(each) > 1 else "".join(each) or "nothing failed" for each in failed]
    axes.set_yticks(place, [canvas.plain(name) for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("µs from dark circuits")
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False)
    return figure


# Bytes against loss: what each exchange saves and what it costs.

_COLOUR, _FRONT = "#7a8896", "#1f6f8b"


class ExchangePoint(NamedTuple):
    """One method as a point."""

    name: str
    ratio: float
    """Bytes saved, as a factor."""
    difference: float
    """Loss less the plain exchange's, nats."""
    low: float
    """Smallest difference over seeds."""
    high: float
    on_front: bool


@canvas.styled
def exchange_figure(points: Sequence[ExchangePoint], title: str) -> Figure:
    """Draw each method as a dot, difference in loss to the plain run (upwards) over the factor by which it saves bytes
    against an all-reduce of float32 (across, logarithmic), and return the figure.

    A line through each dot is its spread over seeds; dots that no other beats in both (``on_front``) are filled and
    joined by steps. The names stand beside the dots.

    Args:
        points: each with ``name``, ``ratio`` (factor of bytes saved), ``difference`` (validation loss less that of the
            run with the plain exchange, nats: above 0 is worse), ``low`` and ``high`` (least and largest difference
            over seeds), and ``on_front``; at least one must be on the front.
        title: above the figure.
    """
    figure, axes = canvas.single_panel(8.2, 4.6)
    axes.set_xscale("log", base=2)
    for point in points:
        colour = _FRONT if point.on_front else _COLOUR
        axes.vlines(point.ratio, point.low, point.high, color=colour, linewidth=1.2, zorder=2)
        face = colour if point.on_front else "white"
        axes.scatter(point.ratio, point.difference, s=30, facecolors=face, edgecolors=colour, zorder=3)
    front = sorted((point.ratio, point.difference) for point in points if point.on_front)
    axes.plot(*zip(*front, strict=True), color=canvas.INK, linewidth=0.8, drawstyle="steps-post", zorder=1)
    canvas.logarithmic_ticks(axes.xaxis, lambda value: f"{value:g} x", base=2)
    axes.set_xlim(0.9, max(point.ratio for point in points) * 1.6)
    axes.axhline(0, color=canvas.FAINT, linewidth=0.6)
    _draw_grid(axes)
    axes.set(xlabel="bytes saved, relative to an all-reduce of float32", ylabel="validation loss less the plain run's")
    axes.set_title(canvas.plain(title), loc="left", fontsize=9)
    _label(figure, axes, points)
    return figure


def _label(figure: Figure, axes: Axes, points: Sequence[ExchangePoint]) -> None:
    """Write the name of each point beside its dot, at the first of seven places around it where the name covers none
    that is already written and does not cross the left edge of the panel; at the last place where none is free."""
    figure.draw_without_rendering()
    scale, taken = figure.dpi / 72, list[tuple[float, float, float]]()
    for point in points:
        x, y = axes.transData.transform((point.ratio, point.difference)) / scale
        width = 4.2 * len(point.name) + 4
        for right, up in ((5, 5), (5, -11), (-5 - width, 5), (-5 - width, -11), (5, 15), (5, -21), (5, 25)):
            left, low = x + right, y + up
            free = all(low >= b + 9 or b >= low + 9 or left >= a + w or a >= left + width for a, b, w in taken)
            if free and left > axes.bbox.x0 / scale:
                break
        taken.append((left, low, width))
        canvas.annotate(axes, canvas.plain(point.name), (point.ratio, point.difference), (right, up), fontsize=7)


# Time against energy: every plan that was simulated, and those that no other beats in both.

_MARKERS = "osD^vP*Xph"
_MOST_NAMES = 10
"""Plans of the front that are named; of more, the fastest, the thriftiest and some between are."""
_ROW = 0.5
"""Inches of a name: up to three lines and where it runs."""
_LETTERS = 52
"""Letters of a line of a name."""


class Point(NamedTuple):
    """One plan as a point: its time and its energy for a sample."""

    kind: str
    """A key of :data:`canvas.KINDS`."""
    site: str
    """Where it runs: cluster and ranks."""
    name: str
    time: float
    """Seconds of the step for each sample."""
    energy: float
    """Joules a sample, over all ranks."""


@canvas.styled
def pareto_figure(points: Sequence[Point], front: Sequence[Point]) -> Figure:
    """Draw plans as dots, energy a sample (upwards) over time a sample (across), both logarithmic, coloured by kind of
    split and shaped by site (the cluster with its number of ranks), and return the figure.

    A legend names the kinds in use, and the sites where there are several.

    Args:
        points: all plans, at least one: ``kind`` (a key of ``canvas.KINDS``; others are not drawn), ``site``, ``name``,
            ``time`` (seconds of the step for each sample) and ``energy`` (joules a sample over all ranks), both above
            0.
        front: those that no other beats in both, at least one: a stepped line with rings; at most ten of them, evenly
            spaced by place from the most energy to the least, are named at the side.
    """
    from matplotlib.lines import Line2D

    named = canvas.evenly_spaced(sorted(front, key=lambda point: -point.energy), _MOST_NAMES)
    sites = list(dict.fromkeys(point.site for point in points))
    marks = {site: _MARKERS[place % len(_MARKERS)] for place, site in enumerate(sites)}
    figure, panels = canvas.panel_grid(9.0, max(4.2, 1.4 + _ROW * len(named)), 1, 2, width_ratios=(5, 3.4))
    axes, side = panels[0]
    for kind, colour in canvas.KINDS.items():
        for site in sites:
            here = [(point.time, point.energy) for point in points if (point.kind, point.site) == (kind, site)]
            style: dict[str, Any] = {"marker": marks[site], "color": colour, "alpha": 0.75, "linewidth": 0}
            axes.scatter(*np.reshape(here, (-1, 2)).T, s=22, zorder=2, **style)
    _scales(axes, points)
    ends = sorted((point.time, point.energy) for point in front)
    axes.plot(*zip(*ends, strict=True), drawstyle="steps-post", color=canvas.INK, linewidth=0.9, zorder=1)
    axes.scatter(*zip(*ends, strict=True), s=60, facecolors="none", edgecolors=canvas.INK, linewidth=0.9, zorder=3)
    _label_plans(figure, axes, side, named)
    used = {point.kind for point in points}
    dot: dict[str, Any] = {"linestyle": "none", "markersize": 5}
    handles = [
        Line2D([], [], marker="o", color=colour, label=kind, **dot)
        for kind, colour in canvas.KINDS.items()
        if kind in used
    ]
    if len(sites) > 1:
        handles += [
            Line2D([], [], marker=marks[site], color=canvas.FAINT, label=canvas.plain(site), **dot) for site in sites
        ]
    figure.legend(handles=handles, loc="outside upper left", ncols=4)
    return figure


def _scales(axes: Axes, points: Sequence[Point]) -> None:
    """Make both axes logarithmic, a little wider than the points' times (across) and energies (upwards), with ticks
    labelled in fitting units, names of the axes and a grid; times and energies must be above 0."""
    for name, values, words in (
        ("x", [point.time for point in points], format_time),
        ("y", [point.energy for point in points], format_energy),
    ):
        least, most, axis = min(values), max(values), getattr(axes, f"{name}axis")
        air = max((most / least) ** 0.06, 1.06)
        axes.set(**{f"{name}scale": "log", f"{name}lim": (least / air, most * air)})
        steps = (1.0,) if most > 300 * least else (1.0, 2.0, 5.0) if most > 3 * least else (1, 1.5, 2, 3, 4, 5, 6, 7, 8)
        canvas.logarithmic_ticks(axis, words, subs=steps)
    axes.set(xlabel="time a sample", ylabel="energy a sample")
    _draw_grid(axes)


def _label_plans(figure: Any, axes: Axes, side: Any, named: Sequence[Point]) -> None:
    """Write the plans ``named`` (sorted by falling energy; at least one), each with name, site, time and energy of a
    sample, from the top down in the panel ``side``, which is otherwise empty, and draw a thin line from each to its dot
    in ``axes``, whose scales and limits must be set already."""
    from matplotlib.patches import ConnectionPatch

    side.set_axis_off()
    side.set(xlim=(0, 1), ylim=(0, 1))
    dots = [(point.time, point.energy) for point in named]
    heights = _heights(axes.transAxes.inverted().transform(axes.transData.transform(dots))[:, 1].tolist())
    ends: dict[str, Any] = {"coordsA": "data", "coordsB": "data", "axesA": axes, "axesB": side}
    for point, dot, height in zip(named, dots, heights, strict=True):
        where = f"{point.site}, {format_time(point.time)}, {format_energy(point.energy)}"
        text = "\n".join([*wrap(point.name, _LETTERS, break_on_hyphens=False), where])
        side.text(0.04, height, canvas.plain(text), va="center", ha="left", fontsize=7.2)
        link = ConnectionPatch(dot, (0.02, height), **ends, color=canvas.FAINT, linewidth=0.4, shrinkA=4)
        link.set_in_layout(False)
        figure.add_artist(link)


def _heights(preferred: Sequence[float]) -> list[float]:
    """Return a height for each of n names, in their order from the top: numbers from 1 (top) to 0 (bottom) that fall,
    near the preferred ones and at least min(1/n, 0.12) apart, so that names do not cover each other.

    Args:
        preferred: height of each name's dot, 0 to 1, falling; at least one.
    """
    stride = min(1 / len(preferred), 0.12)
    heights: list[float] = []
    for place, height in enumerate(preferred):
        lowest = stride * (len(preferred) - place - 0.5)
        heights.append(min(max(height, lowest), heights[-1] - stride if heights else 1 - stride / 2))
    return heights
