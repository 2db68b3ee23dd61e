"""The SiP-ML study, with the placement of Fig. 4, the circuits of a small ring, and charts of the comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lightloom.machines.fabrics.fabric import CLOCKWISE, COUNTERCLOCKWISE
from lightloom.papers.page import BLUE, GREEN, ORANGE, PURPLE, RED, SKY, canvas
from lightloom.papers.sipml import BANDWIDTHS, HEADLINE, JOBS, NAMES, PAPER, SCALING, System, rows
from lightloom.papers.sipml.comparison import Comparison, stale
from lightloom.papers.sipml.rows import all_to_all_case
from lightloom.papers.study import Study
from lightloom.reports.figures.canvas import FAINT, INK, cyclic_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


RING = (8, 8)
"""Nodes and wavelengths of the ring that is drawn."""
_OPERATORS = {"A": SKY, "B": ORANGE, "C": GREEN, "D": PURPLE}
"""Colour of each operator."""


def study(work: Path | None = None) -> Study:
    """Return the SiP-ML study with all rows and figures; an assumption is added where stored results are stale.

    Args:
        work: folder with another ``comparison.json`` than the one that comes with the package; None or a folder without
            it takes the package's.

    Raises:
        ConfigError: the file in ``work`` cannot be read.
    """
    measured = Comparison.load(work)
    charts = [partial(draw, measured) for draw in (times_figure, speedup_figure, scaling_figure)]
    study = PAPER.study(rows.claims(measured), *charts, placement_figure, ring_figure)
    note = stale(measured.inputs)
    return replace(study, assumptions=(*study.assumptions, note)) if note else study


def placement_figure() -> Figure:
    """Draw Fig. 4 (c), the forward pass of a group's devices over time, and (d), the circuits of all GPUs."""
    figure, (left, right) = canvas(2)
    _draw_passes(left)
    _draw_peers(right)
    return figure


def _draw_passes(axes: Axes) -> None:
    """Draw the parts of Fig. 4's operators as bars: µs of the forward pass along x, GPUs of one group downwards, one
    colour for each operator."""
    plan = rows.figure_4_plan()
    placed, balanced = plan.placement, plan.balanced
    for x, (start, end, row) in enumerate(zip(placed.start * 1e6, placed.end * 1e6, placed.device, strict=True)):
        name = "ABCD"[balanced.operator[x]]
        axes.barh(row, end - start, left=start, height=0.8, color=_OPERATORS[name], edgecolor="white", lw=1.5)
        axes.text((start + end) / 2, row, f"{name}{balanced.part[x] + 1}", ha="center", va="center", color=INK)
    axes.set_yticks(range(rows.K), [f"GPU {row}" for row in range(rows.K)])
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set(xlabel="µs", title="forward pass of a group")


def _draw_peers(axes: Axes) -> None:
    """Draw the GPUs of every group on a circle of its own and lines between those that communicate: model parallelism
    straight and dark, data parallelism bent and red."""
    plan, k = rows.figure_4_plan(), rows.K
    angle = np.pi / 2 - 2 * np.pi * np.arange(k) / k
    place = [(group * 3.6 + np.cos(turn), np.sin(turn)) for group in range(plan.groups) for turn in angle]
    sent = plan.traffic
    for matrix, colour in ((sent.model_parallel, INK), (sent.data_parallel, RED)):
        for a, b in zip(*matrix.nonzero(), strict=True):
            line = {"arrowstyle": "-", "color": colour, "lw": 1.5, "shrinkA": 12, "shrinkB": 12}
            line["connectionstyle"] = "arc3,rad=0" if colour == INK else "arc3,rad=-0.25"
            axes.annotate("", place[int(b)], place[int(a)], arrowprops=line)
    for rank, (x, y) in enumerate(place):
        circle = {"boxstyle": "circle,pad=0.35", "facecolor": "white", "edgecolor": FAINT}
        axes.text(x, y, str(rank), ha="center", va="center", fontsize=11, bbox=circle)
    axes.plot([], [], color=INK, label="model parallelism")
    axes.plot([], [], color=RED, label="data parallelism")
    axes.legend(frameon=False, loc="lower center", ncols=2, bbox_to_anchor=(0.5, -0.12))
    axes.set(xlim=(-1.6, 5.2), ylim=(-1.9, 1.9), aspect="equal", title="circuits of all eight GPUs")
    axes.axis("off")


def ring_figure() -> Figure:
    """Draw the circuits that the fast algorithm assigns for an all-to-all on a ring (:data:`RING`): nodes along x,
    wavelengths, from 1, along y, one panel for each direction, the colour by the sender, each circuit labelled
    "sender→receiver"."""
    nodes, wavelengths = RING
    circuits = all_to_all_case(nodes, wavelengths).fast.circuits
    colours = cyclic_colours(nodes)
    figure, panels = canvas(2, sharey=True)
    for axes, way in zip(panels, (CLOCKWISE, COUNTERCLOCKWISE), strict=True):
        for row in np.flatnonzero(circuits.route == way):
            a, b, channel = (int(each[row]) for each in (circuits.source, circuits.destination, circuits.channel))
            start, end = (a, b) if way == CLOCKWISE else (b, a)
            length = (end - start) % nodes
            # Stretches of a circuit on an axis from node 0 to node 0 again.
            over = start + length - nodes
            for left, right in [(start, start + length)] if over <= 0 else [(start, nodes), (0, over)]:
                axes.barh(channel + 1, right - left, left=left, height=0.8, color=colours[a], edgecolor="white", lw=1.5)
                axes.text((left + right) / 2, channel + 1, f"{a}→{b}", ha="center", va="center", fontsize=7.5)
        axes.set_xticks(range(nodes + 1), [str(node % nodes) for node in range(nodes + 1)])
        axes.grid(visible=False)
        axes.set(xlim=(0, nodes), xlabel="node", title="clockwise" if way == CLOCKWISE else "counter-clockwise")
    panels[0].set(ylabel="wavelength", yticks=range(1, wavelengths + 1))
    return figure


# Figures of the comparison: time and speed-up against bandwidth, scaling.


class _Line(NamedTuple):
    label: str
    system: System
    most: float | None
    """Largest bandwidth of a port, in Gb/s; None without a limit."""
    colour: str
    style: str

    def port(self, gbps: float) -> float:
        """Return the Gb/s of a port that is asked for ``gbps``: no more than the line's limit."""
        return gbps if self.most is None else min(gbps, self.most)


_LINES = (
    _Line("electrical, 200 Gb/s", "electrical", 200, ORANGE, "-"),
    _Line("electrical, 400 Gb/s", "electrical", 400, RED, "-"),
    _Line("ideal electrical", "electrical", None, INK, "--"),
    _Line("SiP-OCS", "ocs", None, BLUE, "-o"),
    _Line("SiP-Ring", "ring", None, GREEN, "-s"),
)


def times_figure(measured: Comparison) -> Figure:
    """Draw a panel for each model: milliseconds of a step against the Gb/s of a GPU, a thick line for the best placed
    split on a network (electrical of 200 and of 400 Gb/s and ideal, OCS, ring) and a thin one for k = 1 (data
    parallelism alone), behind them a broad one for the winner of the planner's search on ideal electrical switches; no
    point where nothing fits."""

    def draw(axes: Axes, model: str) -> None:
        """Draw one model's lines, with the winner of the planner's search on ideal electrical networks behind them."""
        for line in _LINES:
            choices = [measured.best(model, line.system, line.port(gbps)) for gbps in BANDWIDTHS]
            hybrid = [1e3 * choice.seconds if choice else nan for choice in choices]
            alone = [1e3 * measured.seconds(model, line.system, line.port(gbps), 1) for gbps in BANDWIDTHS]
            axes.plot(BANDWIDTHS, hybrid, line.style, color=line.colour, label=line.label, ms=4)
            axes.plot(BANDWIDTHS, alone, color=line.colour, lw=0.6)
        winners = [1e3 * measured.rival(model, "electrical", gbps).get("step_s", nan) for gbps in BANDWIDTHS]
        axes.plot(BANDWIDTHS, winners, color=FAINT, lw=3, alpha=0.6, zorder=0.5, label="search's winner, ideal")

    return _model_panels(draw, BANDWIDTHS, "Gb/s of a GPU", "ms a step")


def speedup_figure(measured: Comparison) -> Figure:
    """Draw a panel for each model: times as fast as an electrical switch of 400 Gb/s (bold) or 200 Gb/s (fine), against
    the Gb/s of a GPU, with the best placed splits on both optical networks and by the scripts' model (dotted), before
    the band of the paper's headline."""

    def draw(axes: Axes, model: str) -> None:
        """Draw one model's speed-ups against the Gb/s of a GPU."""
        axes.axhspan(*HEADLINE, color=FAINT, alpha=0.18, lw=0, label="paper, 1.3 to 9.1")
        widths = {400.0: 1.8, 200.0: 0.8}
        for line, (today, width) in product(_LINES[3:], widths.items()):
            speedups = [measured.speedup(model, line.system, gbps, today) for gbps in BANDWIDTHS]
            label = f"{line.label} over {today:g} Gb/s"
            axes.plot(BANDWIDTHS, speedups, line.style, color=line.colour, label=label, lw=width, ms=4)
        for today, width in widths.items():
            speedups = [measured.script_speedup(model, gbps, today) for gbps in BANDWIDTHS]
            axes.plot(BANDWIDTHS, speedups, ":", color=INK, lw=width, label=f"scripts' model over {today:g} Gb/s")

    return _model_panels(draw, BANDWIDTHS, "Gb/s of a GPU", "times as fast as electrical", sharey=True)


def scaling_figure(measured: Comparison) -> Figure:
    """Draw a panel for each model: thousand samples a second with the best placed split against the number of GPUs at
    the fastest bandwidth (electrical ones up to their limit), with a line of linear scaling of OCS."""

    def draw(axes: Axes, model: str) -> None:
        """Draw one model's rates of its global batch with the best split on each network."""
        batch = JOBS[model].global_batch
        for line in _LINES:
            steps = [measured.best(model, line.system, line.port(BANDWIDTHS[-1]), ranks) for ranks in SCALING]
            rates = [batch / step.seconds / 1e3 if step else nan for step in steps]
            axes.plot(SCALING, rates, line.style, color=line.colour, label=line.label, ms=4)
            if line.system == "ocs":
                axes.plot(SCALING, [rates[0] * ranks / SCALING[0] for ranks in SCALING], color=FAINT, lw=0.8)

    return _model_panels(draw, SCALING, "GPUs", "thousand samples a second")


def _model_panels(
    draw: Callable[[Axes, str], None], ticks: Sequence[float], label: str, unit: str, sharey: bool = False
) -> Figure:
    """Draw a panel for each model by ``draw``, called with its axes and its job's name, on logarithmic axes, with ticks
    and a label below and a unit beside them, and one legend."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    figure, panels = canvas(len(JOBS), sharey=sharey)
    for axes, model in zip(panels, JOBS, strict=True):
        draw(axes, model)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(ticks, [f"{each:g}" for each in ticks], fontsize=8)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set(xlabel=label, title=NAMES[model])
    panels[0].set_ylabel(unit)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure
