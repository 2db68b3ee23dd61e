"""A whole averager as the light sees it: P, a mesh a layer with its nonlinear units behind, T."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightloom.photonics.meshes import MappedBlocks, Mesh, decibels, draw, draw_mapped
from lightloom.reports.figures.base import plain, styled
from lightloom.reports.figures.palette import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lightloom.photonics.meshes.phase_files import Part


_FILL = {"passive": "#d5dbe6", "layer": "#aebfe3"}
_UNIT = "#e0892b"
_MOST_GUIDES = 16
"""Waveguides drawn between two boxes; more would be a grey area."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPart:
    """A box of meshes."""

    name: str
    inputs: int
    outputs: int
    mzis: int
    columns: int
    gain: float = 1.0
    units: bool = False
    """Whether nonlinear units follow."""
    passive: bool = False
    """P or T: not part of the network."""


def chain_parts(parts: Mapping[str, Part]) -> list[ChainPart]:
    """Boxes for mapped parts in the order of the light; P and T are known by their names."""
    names = [name for name in parts if name.split()[-1] not in ("P", "T")]
    return [_chain_part(name, part, name in names[:-1]) for name, part in parts.items()]


def _chain_part(name: str, part: Part, units: bool) -> ChainPart:
    if isinstance(part, Mesh):
        outputs, inputs, columns, gain = part.outputs, part.inputs, part.layout.depth, 1.0
    else:
        (outputs, inputs), columns, gain = part.shape, part.depth, part.gain
    return ChainPart(
        name=name,
        inputs=inputs,
        outputs=outputs,
        mzis=part.mzis,
        columns=columns,
        gain=gain,
        units=units,
        passive=name.split()[-1] in ("P", "T"),
    )


@styled
def chain_figure(parts: Sequence[ChainPart], title: str = "") -> Figure:
    """Boxes as high as they have signals and as wide as they have columns, on a scale that grows more slowly."""
    from matplotlib.figure import Figure

    widths = [0.55 + 0.16 * part.columns**0.5 for part in parts]
    heights = [0.4 + 0.6 * max(part.inputs, part.outputs) ** 0.5 for part in parts]
    gap, most = 0.62, max(heights)
    across = sum(widths) + gap * (len(parts) + 1)
    figure = Figure(figsize=(min(max(0.95 * across, 6.5), 16), 0.62 * most + 1.9), layout="constrained")
    axes = figure.subplots()
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
