"""What a figure of Matplotlib holds, as plain data to compare with."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import to_hex


def bars(axes: Any) -> list[tuple[float, float, float, float]]:
    """(left, bottom, width, height) of each rectangle of a panel, rounded."""
    return [
        tuple(round(float(part), 9) for part in (bar.get_x(), bar.get_y(), bar.get_width(), bar.get_height()))  # type: ignore[misc]
        for bar in axes.patches
    ]


def fills(axes: Any) -> list[str]:
    """Colour of each patch."""
    return [to_hex(patch.get_facecolor()) for patch in axes.patches]


def points(axes: Any) -> list[list[tuple[float, float]]]:
    """Points of each line, rounded."""
    return [[(round(float(x), 9), round(float(y), 9)) for x, y in line.get_xydata()] for line in axes.lines]


def strokes(axes: Any) -> list[tuple[Any, ...]]:
    """(colour, width, line style, marker, its size, order, opacity) of each line."""
    return [
        (
            to_hex(line.get_color()),
            line.get_linewidth(),
            line.get_linestyle(),
            line.get_marker(),
            line.get_markersize(),
            line.get_zorder(),
            line.get_alpha(),
        )
        for line in axes.lines
    ]


def segments(collection: Any) -> list[list[tuple[float, float]]]:
    """Corners of each line or polygon of a collection, rounded."""
    return [[(round(float(x), 9), round(float(y), 9)) for x, y in path.vertices] for path in collection.get_paths()]


def dots(collection: Any) -> list[tuple[float, float]]:
    """Places of each mark of a collection, rounded."""
    return [(round(float(x), 9), round(float(y), 9)) for x, y in collection.get_offsets()]


def tints(collection: Any) -> tuple[Any, ...]:
    """(faces, edges, widths, order, opacity) of a collection."""
    return (
        [to_hex(colour) for colour in collection.get_facecolor()],
        [to_hex(colour) for colour in collection.get_edgecolor()],
        [float(width) for width in np.atleast_1d(collection.get_linewidth())],
        collection.get_zorder(),
        collection.get_alpha(),
    )


def notes(axes: Any) -> list[tuple[Any, ...]]:
    """(text, x, y, horizontal side, vertical side, size of letters) of each text of a panel or a figure."""
    return [
        (
            text.get_text(),
            *(round(float(part), 9) for part in text.get_position()),
            text.get_ha(),
            text.get_va(),
            text.get_fontsize(),
        )
        for text in axes.texts
    ]


def ticks(axis: Any) -> list[tuple[float, str]]:
    """(place, label) of each tick that is set on an axis."""
    return [
        (float(place), label.get_text())
        for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    ]


def told(legend: Any) -> list[str]:
    """Words of a legend."""
    return [text.get_text() for text in legend.get_texts()]


def hidden(axes: Any) -> set[str]:
    """Sides of a panel's box that are not drawn."""
    return {name for name, spine in axes.spines.items() if not spine.get_visible()}
