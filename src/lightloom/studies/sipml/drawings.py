"""Figures of section 3: the placement of Fig. 4, and the circuits of a small ring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lightloom.fabrics.base import CLOCKWISE, COUNTERCLOCKWISE
from lightloom.reports.figures.palette import FAINT, INK, cyclic_colours
from lightloom.studies.base import StudyFigure
from lightloom.studies.canvas import GREEN, ORANGE, PURPLE, RED, SKY, canvas
from lightloom.studies.sipml import PAPER, figure4
from lightloom.studies.sipml.circuits import all_to_all_case

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RING = (8, 8)
"""Nodes and wavelengths of the ring that is drawn."""
_OPERATORS = {"A": SKY, "B": ORANGE, "C": GREEN, "D": PURPLE}
"""Colour of each operator."""


def figures() -> tuple[StudyFigure, ...]:
    """All of section 3."""
    return (
        PAPER.figure(placement_figure),
        PAPER.figure(ring_figure),
    )


def placement_figure() -> Figure:
    """Fig. 4 (c) and (d)."""
    figure, (left, right) = canvas(2)
    _draw_passes(left)
    _draw_peers(right)
    return figure


def _turned(device: int) -> int:
    """GPU number of a device of the first group, so that B is on GPU 1."""
    home = figure4.devices(figure4.plan())["B"][0]
    return (device - home) % figure4.K + 1


def _draw_passes(axes: Axes) -> None:
    plan = figure4.plan()
    placed, balanced = plan.placement, plan.balanced
    for x in range(balanced.size):
        name = balanced.operators[balanced.operator[x]]
        begin, length = placed.start[x] * 1e6, (placed.end[x] - placed.start[x]) * 1e6
        row = _turned(int(placed.device[x]))
        axes.barh(row, length, left=begin, height=0.8, color=_OPERATORS[name], edgecolor="white", lw=1.5)
        axes.text(begin + length / 2, row, f"{name}/{balanced.part[x]}", ha="center", va="center", color=INK)
    axes.set_yticks(range(1, figure4.K + 1), [f"GPU {row}" for row in range(1, figure4.K + 1)])
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_xlabel("µs")
    axes.set_title("forward pass of a group")


def _draw_peers(axes: Axes) -> None:
    plan, k = figure4.plan(), figure4.K
    angle = np.pi / 2 - 2 * np.pi * np.arange(k) / k
    place = {}
    for group in range(figure4.GROUPS):
        for device in range(k):
            turn = angle[_turned(device) - 1]
            place[group * k + device] = (group * 3.6 + np.cos(turn), np.sin(turn))
    sent = plan.traffic
    for matrix, colour in ((sent.model_parallel, INK), (sent.data_parallel, RED)):
        for a, b in zip(*matrix.nonzero(), strict=True):
            axes.annotate(
                "",
                place[int(b)],
                place[int(a)],
                arrowprops={
                    "arrowstyle": "-",
                    "color": colour,
                    "lw": 1.5,
                    "shrinkA": 12,
                    "shrinkB": 12,
                    "connectionstyle": "arc3,rad=0" if colour == INK else "arc3,rad=-0.25",
                },
            )
    for rank, (x, y) in place.items():
        axes.text(
            x,
            y,
            str(_turned(rank % k) + rank // k * k),
            ha="center",
            va="center",
            fontsize=11,
            bbox={"boxstyle": "circle,pad=0.35", "facecolor": "white", "edgecolor": FAINT},
        )
    axes.plot([], [], color=INK, label="model parallelism")
    axes.plot([], [], color=RED, label="data parallelism")
    axes.legend(frameon=False, loc="lower center", ncols=2, bbox_to_anchor=(0.5, -0.12))
    axes.set_xlim(-1.6, 5.2)
    axes.set_ylim(-1.9, 1.9)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_title("circuits of all eight GPUs")


def ring_figure() -> Figure:
    """Wavelengths by links, one panel a direction."""
    nodes, wavelengths = RING
    circuits = all_to_all_case(nodes, wavelengths).fast.circuits
    colours = cyclic_colours(nodes)
    figure, panels = canvas(2, sharey=True)
    for axes, way in zip(panels, (CLOCKWISE, COUNTERCLOCKWISE), strict=True):
        for row in np.flatnonzero(circuits.route == way):
            a, b, channel = (int(each[row]) for each in (circuits.source, circuits.destination, circuits.channel))
            start, end = (a, b) if way == CLOCKWISE else (b, a)
            length = (end - start) % nodes
            for left, right in _unrolled(start, length, nodes):
                axes.barh(channel + 1, right - left, left=left, height=0.8, color=colours[a], edgecolor="white", lw=1.5)
                axes.text((left + right) / 2, channel + 1, f"{a}→{b}", ha="center", va="center", fontsize=7.5)
        axes.set_xlim(0, nodes)
        axes.set_xticks(range(nodes + 1), [str(node % nodes) for node in range(nodes + 1)])
        axes.set_xlabel("node")
        axes.grid(visible=False)
        axes.set_title("clockwise" if way == CLOCKWISE else "counter-clockwise")
    panels[0].set_ylabel("wavelength")
    panels[0].set_yticks(range(1, wavelengths + 1))
    return figure


def _unrolled(start: int, length: int, nodes: int) -> list[tuple[int, int]]:
    """Stretches of a circuit on an axis from node 0 to node 0 again."""
    end = start + length
    return [(start, end)] if end <= nodes else [(start, nodes), (0, end - nodes)]
