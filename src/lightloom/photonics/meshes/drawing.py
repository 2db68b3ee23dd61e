"""Drawings of meshes: waveguides, and the phases of every MZI at its position."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.photonics.meshes.mapping import decibels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lightloom.photonics.meshes.mapping import MappedMatrix
    from lightloom.photonics.meshes.mesh import Mesh

_DEVICES_UP_TO = 24
"""Largest number of modes for which devices are drawn; larger meshes are drawn as maps of phases."""
_TURN = 2 * np.pi
_THETA, _PHI = "cividis", "twilight"
"""Colour maps of the phases."""
_GUIDE, _INK, _FAINT = "#8b94a3", "#1b2330", "#c9ced6"


def draw(mesh: Mesh) -> Figure:
    """Return a Matplotlib figure of a mesh, columns across and modes downwards, with its phases as colours.

    θ is the colour of a device, from 0 to π, or to 2π if a θ is above π; φ, from 0 to 2π, is the colour of the dot at
    its upper input. Meshes of more than 24 modes are drawn as two maps, of θ and of φ.
    """
    from matplotlib.figure import Figure

    half = np.pi if (mesh.theta % _TURN <= np.pi + 1e-9).all() else _TURN
    size, depth = mesh.layout.size, max(mesh.layout.depth, 1)
    if size <= _DEVICES_UP_TO:
        figure = Figure(figsize=(float(np.clip(1.2 + 0.36 * depth, 4.6, 14)), 1.9 + 0.3 * size), layout="constrained")
        axes = [figure.subplots()]
        _devices(axes[0], mesh, half)
    else:
        figure = Figure(figsize=(9, 4.6), layout="constrained")
        axes = list(figure.subplots(1, 2))
        _map(axes[0], mesh, mesh.theta, _THETA, half)
        _map(axes[1], mesh, mesh.phi, _PHI, _TURN)
        for ax, name in zip(axes, "θφ", strict=True):
            ax.set_title(name, loc="left", fontsize=9, color=_INK)
    _scale(figure, axes[0], _THETA, half, "θ: cross to bar" if half == np.pi else "θ")
    _scale(figure, axes[-1], _PHI, _TURN, "φ")
    ends = f"{mesh.inputs}" if mesh.inputs == mesh.outputs else f"{mesh.inputs} to {mesh.outputs}"
    _title(figure, f"{mesh.kind} mesh, {ends} modes: {mesh.mzis} MZIs in {mesh.layout.depth} columns")
    return figure


def draw_mapped(mapped: MappedMatrix, title: str = "") -> Figure:
    """Return a Matplotlib figure of a mapped matrix in the order of the light: V†, the column of Σ, U; in the form
    sigma-u U, then Σ.

    If a mesh has more than 24 modes, all are drawn as maps of θ. The figure's title is ``title`` (by default the
    numbers of signals), followed by the numbers of MZIs and columns, and by the largest gain if it is above 1.
    """
    from matplotlib.figure import Figure

    meshes = [mesh for mesh in (mapped.input_mesh, mapped.output_mesh) if mesh is not None]
    names = ["V†", "U"] if mapped.output_mesh else ["U"]
    size = max(mesh.layout.size for mesh in meshes)
    small = size <= _DEVICES_UP_TO
    widths = [max(mesh.layout.depth, 1) + 2.2 for mesh in meshes]
    widths.insert(1, 2.6)
    width, height = np.clip(0.34 * sum(widths) if small else 11, 5, 16), 2.0 + (0.28 * size if small else 3.4)
    figure = Figure(figsize=(float(width), height), layout="constrained")
    axes = list(figure.subplots(1, len(widths), width_ratios=widths))
    for ax, mesh, name in zip([axes[0], *axes[2:]], meshes, names, strict=True):
        if small:
            _devices(ax, mesh, np.pi, size)
        else:
            _map(ax, mesh, mesh.theta, _THETA, np.pi)
            ax.set_ylim(size - 0.5, -0.5)
        ax.set_title(f"{name}: {mesh.mzis} MZIs in {mesh.layout.depth} columns", loc="left", fontsize=8.5, color=_INK)
    _attenuators(axes[1], mapped, size)
    _scale(figure, axes[0], _THETA, np.pi, "θ: cross to bar")
    if small:
        _scale(figure, axes[-1], _PHI, _TURN, "φ")
    outputs, inputs = mapped.shape
    amplification = f", gains up to {decibels(mapped.gain):.1f} dB" if mapped.gain > 1 else ""
    title = title or f"{inputs} to {outputs} signals"
    _title(figure, f"{title}: {mapped.mzis} MZIs in {mapped.depth} columns{amplification}")
    return figure


def _title(figure: Figure, text: str) -> None:
    """Set ``text`` as the title of the figure, at its upper left."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=10, color=_INK)


def _attenuators(ax: Axes, mapped: MappedMatrix, size: int) -> None:
    """Draw Σ as a column of boxes, one for each mode, coloured by θ.

    ``size`` is the number of modes that the axes show; up to 24, boxes are labelled with their amplitude transmission.
    """
    from matplotlib import colormaps
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    values = mapped.attenuations
    place = np.arange(values.size)
    ax.hlines(place, 0, 1, colors=_GUIDE, linewidth=1, zorder=1)
    boxes = [Rectangle((0.25, m - 0.25), 0.5, 0.5) for m in place]
    edge = 0.6 if size <= _DEVICES_UP_TO else 0.0
    filled = colormaps[_THETA](2 * np.arcsin(values) / np.pi)
    ax.add_collection(PatchCollection(boxes, facecolors=filled, edgecolors=_INK, linewidths=edge, zorder=2))
    if size <= _DEVICES_UP_TO:
        for mode, value in zip(place, values, strict=True):
            text = f"{value:.2g}" if value > 1e-9 else "0"
            ax.text(0.5, mode + 0.43, text, ha="center", va="center", fontsize=6, color=_INK)
    ax.set(xlim=(0, 1), ylim=(size - 0.4, -0.6))
    ax.set_title(f"Σ: {values.size}", loc="left", fontsize=8.5, color=_INK)
    ax.axis("off")


def _devices(ax: Axes, mesh: Mesh, limit: float, rows: int | None = None) -> None:
    """Draw every device at its column (across) and mode (downwards), with the colours of θ from 0 to ``limit`` and of φ
    from 0 to 2π.

    ``rows`` is the number of modes that the axes show, by default those of the mesh.
    """
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.patches import Circle, Rectangle

    place, size, depth = mesh.layout, mesh.layout.size, max(mesh.layout.depth, 1)
    guides = [[(-0.9, float(m)), (depth - 0.1, float(m))] for m in range(size)]
    ax.add_collection(LineCollection(guides, colors=_GUIDE, linewidths=1, zorder=1))
    boxes = [Rectangle((c - 0.17, m - 0.12), 0.48, 1.24) for m, c in zip(place.modes, place.columns, strict=True)]
    dots = [Circle((c - 0.36, m), 0.115) for m, c in zip(place.modes, place.columns, strict=True)]
    theta_colours = colormaps[_THETA](mesh.theta % _TURN / limit)
    phi_colours = colormaps[_PHI](mesh.phi % _TURN / _TURN)
    ax.add_collection(PatchCollection(boxes, facecolors=theta_colours, edgecolors=_INK, linewidths=0.6, zorder=2))
    ax.add_collection(PatchCollection(dots, facecolors=phi_colours, edgecolors=_INK, linewidths=0.6, zorder=3))
    for mode in range(size):
        if mode < mesh.inputs:
            ax.text(-1.0, mode, f"{mode}", ha="right", va="center", fontsize=7, color=_INK)
        if mode < mesh.outputs:
            ax.text(depth, mode, f"{mode}", ha="left", va="center", fontsize=7, color=_INK)
    ax.set(xlim=(-1.6, depth + 0.6), ylim=((rows or size) - 0.4, -0.6))
    if rows is None:
        ax.set_aspect("equal")
    ax.axis("off")


def _map(ax: Axes, mesh: Mesh, phases: Floats, colours: str, limit: float) -> None:
    """Draw ``phases`` [mzis] modulo 2π as a map of colours from 0 to ``limit``, columns across and modes downwards.

    An MZI fills the rows of both its modes, and places without one stay faint; ``colours`` is the name of the colour
    map.
    """
    place = mesh.layout
    image = np.full((place.size, place.depth), np.nan)
    image[place.modes, place.columns] = image[place.modes + 1, place.columns] = phases % _TURN
    ax.set_facecolor(_FAINT)
    ax.imshow(image, cmap=colours, vmin=0, vmax=limit, interpolation="nearest", aspect="auto")
    ax.set_xlabel("column", fontsize=8)
    ax.set_ylabel("mode", fontsize=8)
    ax.tick_params(labelsize=7)


def _scale(figure: Figure, ax: Axes, colours: str, limit: float, label: str) -> None:
    """Add a colour bar from 0 to ``limit``, which is π or 2π, below the axes; ``colours`` is the name of the colour
    map."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    mapped = ScalarMappable(Normalize(0, limit), colours)
    bar = figure.colorbar(mapped, ax=ax, location="bottom", shrink=0.5, aspect=25, pad=0.03)
    bar.set_ticks([0, limit / 2, limit], labels={np.pi: ["0", "π/2", "π"], _TURN: ["0", "π", "2π"]}[limit])
    bar.ax.tick_params(labelsize=7)
    bar.set_label(label, fontsize=8)
