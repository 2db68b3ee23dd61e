"""The wavelength map: which rank's light is on which wavelength of which link, step by step.

    a few steps, one panel a direction         all steps, how full each link is
    wavelength │▓▓▓░░░▒▒▒                      step │███▓▓░
               │░░░▒▒▒▓▓▓                           │▓▓▓███
               └────────── link                     └────── link

Colour is the source rank, around a circle of hues as the ranks are around the ring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats, Ints
from lightloom.core.units import format_size
from lightloom.fabrics.base import Fabric
from lightloom.reports.figures.base import headline, integer_ticks, number_bar, share_bar, share_image, styled
from lightloom.reports.figures.link_map import circuit_map, link_load_map, steps_shown
from lightloom.reports.figures.occupancy import (
    PARTS,
    Lightpaths,
    channel_map,
    in_steps,
    lightpaths,
    link_use,
    utilisation,
)
from lightloom.reports.figures.palette import FAINT, INK, cyclic_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_WAYS = ("clockwise", "counter-clockwise")
_WIDTH = 9.0


def wavelength_map(schedule: Schedule, fabric: Fabric) -> Figure:
    """Draw a schedule: wavelengths on a WDM ring, circuits on a circuit switch, link loads elsewhere.

    Of a queued schedule, the circuits that stand throughout, and on packet links equal parts of the time.
    """
    if not fabric.exclusive:
        time = "part of the time" if schedule.queued else "step"
        return link_load_map(in_steps(schedule, fabric), fabric, time)
    schedule = in_steps(schedule, fabric)
    return _ring_map(schedule, fabric) if fabric.wavelength_routed else circuit_map(schedule, fabric)


def wavelength_caption(schedule: Schedule, fabric: Fabric) -> str:
    """Return what the picture shows, in one or two sentences."""
    collective = schedule.collective
    steps = f"in {schedule.steps} {'step' if schedule.steps == 1 else 'steps'}"
    if schedule.queued:
        steps = "on circuits that stand throughout" if fabric.exclusive else "without barriers"
    what = (
        f"{schedule.algorithm} runs {collective.kind} of {format_size(collective.nbytes)} among {fabric.ranks} ranks "
        f"{steps}."
    )
    if not fabric.exclusive:
        when = f"{PARTS} equal parts of the time" if schedule.queued else "each step"
        return f"{what} Colour: bytes on each link in {when}, as a share of the most on any."
    schedule = in_steps(schedule, fabric)
    paths = lightpaths(schedule, fabric)
    if not fabric.wavelength_routed:
        share = paths.count.sum() / (fabric.ranks * fabric.channels * max(schedule.steps, 1))
        return f"{what} {share:.0%} of the ports on all {fabric.channels} switch planes hold a circuit."
    dark = [way for number, way in enumerate(_WAYS) if not np.any(paths.route == number)]
    return (
        f"{what} {utilisation(paths, schedule.steps, fabric):.0%} of all wavelengths on all links carry light, "
        "averaged over the steps."
        + "".join(f" The {way} fibres stay dark." for way in dark)
        + " Colour is the rank that sends."
    )


@styled
def _ring_map(schedule: Schedule, fabric: Fabric) -> Figure:
    from matplotlib.figure import Figure

    paths = lightpaths(schedule, fabric)
    ways = [number for number in range(len(_WAYS)) if np.any(paths.route == number)] or [0]
    shown = steps_shown(schedule.steps)
    rest = len(shown) < schedule.steps
    panel = float(np.clip(fabric.channels * 0.16, 1.1, 2.1))
    figure = Figure(figsize=(_WIDTH, 0.95 + panel * len(ways) + (2.1 if rest else 0.0)), layout="constrained")
    title = f"{schedule.algorithm}: {schedule.collective.kind} among {fabric.ranks} ranks, "
    title += f"{utilisation(paths, schedule.steps, fabric):.0%} of the wavelengths lit"
    parts: Any = figure.subfigures(2, 1, height_ratios=[0.7 + panel * len(ways), 2.1]) if rest else None
    top = figure if parts is None else parts[0]
    headline(top, title)
    _panels(top, paths, fabric, ways, shown, schedule.steps)
    if parts is not None:
        _heat(parts[1], schedule, fabric, ways)
    return figure


def _panels(
    figure: Figure | SubFigure, paths: Lightpaths, fabric: Fabric, ways: list[int], shown: list[int], steps: int
) -> None:
    n = fabric.ranks
    colours = cyclic_colours(n)
    axes = figure.subplots(len(ways), len(shown), squeeze=False, sharex=True, sharey=True)
    for column, step in enumerate(shown):
        sources = channel_map(paths, fabric, step)
        for row, way in enumerate(ways):
            _paint(axes[row][column], sources[way * n : (way + 1) * n].T, colours, fabric)
        axes[0][column].set_title(f"step {step + 1} of {steps}")
        axes[-1][column].set_xlabel("link")
        integer_ticks(axes[-1][column].xaxis, 5)
    for row, way in enumerate(ways):
        axes[row][0].set_ylabel(f"{_WAYS[way]}\n{_channel_word(fabric)}")
        integer_ticks(axes[row][0].yaxis, 4)
    number_bar(figure, colours, axes.ravel().tolist(), "source rank", 25)


def _channel_word(fabric: Fabric) -> str:
    fibres = fabric.channels // fabric.fibre_channels
    return "wavelength" if fibres == 1 else f"wavelength, {fibres} fibres"


def _paint(axes: Axes, sources: Ints, colours: Floats, fabric: Fabric) -> None:
    """One direction in one step; ``sources`` has shape [channels, links]."""
    channels, links = sources.shape
    picture = np.zeros((channels, links, 4))
    lit = sources >= 0
    picture[lit] = np.concatenate([colours[sources[lit]], np.ones((np.count_nonzero(lit), 1))], axis=-1)
    axes.imshow(
        picture, origin="lower", aspect="auto", interpolation="none", extent=(-0.5, links - 0.5, -0.5, channels - 0.5)
    )
    for edge in range(fabric.fibre_channels, channels, fabric.fibre_channels):
        axes.axhline(edge - 0.5, color=INK, linewidth=0.8)
    if links <= 16 and channels <= 8:
        axes.hlines(np.arange(1, channels) - 0.5, -0.5, links - 0.5, color=FAINT, linewidth=0.4)
        axes.vlines(np.arange(1, links) - 0.5, -0.5, channels - 0.5, color=FAINT, linewidth=0.4)
        for channel, link in np.argwhere(lit):
            axes.text(link, channel, str(sources[channel, link]), ha="center", va="center", fontsize=7, color="#10151d")


def _heat(figure: Figure | SubFigure, schedule: Schedule, fabric: Fabric, ways: list[int]) -> None:
    n = fabric.ranks
    use = link_use(schedule, fabric)
    share = use.amount / (fabric.channels * _steps_in_bins(use.amount.shape[0], use.steps_per_bin, schedule.steps))
    most = float(share.max(initial=0.0)) or 1.0
    panels = figure.subplots(1, len(ways), squeeze=False, sharey=True)[0]
    for axes, way in zip(panels, ways, strict=True):
        picture = share[:, way * n : (way + 1) * n]
        image = share_image(axes, picture, most, n, schedule.steps)
        axes.set_title(f"{_WAYS[way]}: {picture.mean():.0%} lit")
        axes.set_xlabel("link")
        integer_ticks(axes.xaxis, 5)
        integer_ticks(axes.yaxis, 5)
    panels[0].set_ylabel("step")
    share_bar(figure, image, panels, "wavelengths lit", 25)


def _steps_in_bins(bins: int, per_bin: int, steps: int) -> Ints:
    sizes = np.full(bins, per_bin)
    sizes[-1] = steps - per_bin * (bins - 1)
    return sizes[:, None]
