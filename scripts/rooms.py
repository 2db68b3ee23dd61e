"""Draw the rooms of the package on their floors, with the imports between them.

    python -m scripts.rooms docs/pictures/rooms.png            the working tree
    python -m scripts.rooms out/rooms.svg v0.1.0               a git revision or another folder

Rooms stand on a staircase, the highest floor first. A line leaves the room that imports at its right and ends on top of
the room that is imported, so that no line passes a room; it is wider the more imports it stands for. Rooms and floors
are counted as ``scripts.census`` counts them; an import from a lower room into a higher one is drawn in red.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.census.imports import Rooms, find_rooms, room_of
from scripts.census.sizes import code_lines
from scripts.census.source import find_tree, parse

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1b2330"
FAINT = "#8b94a3"
BAND = "#f1f3f7"
UPWARD = "#e01f1f"
COLOURS = (
    *("#3b62ad", "#c9603a", "#3c8c84", "#a8437f", "#9a7a12"),
    *("#6a58b8", "#4a8a3a", "#8a5a3a", "#2c86b8", "#5b6b82"),
)
"""Colours of the rooms in their order, again from the first where there are more rooms."""
NUMBER_WIDTH = 0.3
"""Inches at the left of a room's column that hold the numbers of imports."""
PORT = 0.095
"""Inches between two lines beside each other."""
GAP = 0.16
"""Inches between two rooms of one floor, and half the distance between floors."""
MARGIN = 0.66
"""Inches at the left of the staircase, for the numbers of floors."""
LEGEND = """A line leads from the room that imports, to the right and down,
to the room that is imported. Its number counts the import statements,
those inside functions and for types included."""
DOTS_PER_INCH = 160
METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
"""What matplotlib shall not write into each kind of file, because it differs from run to run."""


@dataclass(frozen=True)
class Box:
    """A room on the picture; lengths are in inches, from the upper left corner to the right and downwards."""

    name: str
    label: str
    colour: str
    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """Lower edge."""
        return self.top + self.height


def main() -> None:
    """Draw the picture of one tree."""
    parser = argparse.ArgumentParser(prog="python -m scripts.rooms", description="Draw rooms, floors and imports.")
    parser.add_argument("picture", type=Path, help="file to write: .png, .svg or .pdf")
    parser.add_argument("tree", nargs="?", default=".", help="folder or git revision (the working tree)")
    options = parser.parse_args()
    if options.picture.suffix not in METADATA:
        parser.error(f"cannot draw {options.picture}: expected a name that ends in {', '.join(METADATA)}")
    with tempfile.TemporaryDirectory() as scratch:
        modules = parse(find_tree(options.tree, Path(scratch)))
    lines: dict[str, int] = {}
    for module in modules:
        lines[room_of(module.name)] = lines.get(room_of(module.name), 0) + len(code_lines(module))
    save(draw(find_rooms(modules), lines), options.picture)


def draw(rooms: Rooms, lines: Mapping[str, int]) -> Figure:
    """Return the picture of `rooms`; `lines` are the lines of code of each."""
    from matplotlib.figure import Figure

    boxes = lay_out(rooms, lines)
    width = max((box.right for box in boxes.values()), default=MARGIN) + GAP
    height = max((box.bottom for box in boxes.values()), default=0.0) + 2 * GAP
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    _draw_floors(axes, rooms, boxes)
    most = max(rooms.arrows.values(), default=1)
    for (above, below), number in rooms.arrows.items():
        thickness = 0.7 + 3.5 * (number / most) ** 0.5
        if boxes[above].top < boxes[below].top:
            _draw_import(axes, rooms, boxes, (above, below), thickness)
        else:
            _draw_upward_import(axes, rooms, boxes, (above, below), thickness)
    for box in boxes.values():
        _draw_box(axes, box)
    if not rooms.circles:
        axes.text(MARGIN, height - 2 * GAP, LEGEND, color=INK, fontsize=9, va="bottom", linespacing=1.4)
    return figure


def lay_out(rooms: Rooms, lines: Mapping[str, int]) -> dict[str, Box]:
    """Return the boxes of the rooms from the highest floor down, each below and at the right of the one before."""
    imports = Counter(dict.fromkeys(rooms.sizes, 0))
    for (above, _), number in rooms.arrows.items():
        imports[above] += number
    names = sorted(rooms.sizes, key=lambda name: (-rooms.floors[name], -imports[name], name))
    boxes: dict[str, Box] = {}
    left, top = MARGIN, GAP
    for index, name in enumerate(names):
        label = f"{rooms.sizes[name]:,} files\n{lines.get(name, 0):,} lines"
        importers = sum(below == name and above in boxes for above, below in rooms.arrows)
        imported = sum(above == name and below not in boxes for above, below in rooms.arrows)
        width = max(0.11 * len(name) + 0.22, 0.95, NUMBER_WIDTH + PORT * (importers + 1))
        height = max(0.62, PORT * (imported + 1))
        boxes[name] = Box(name, label, COLOURS[index % len(COLOURS)], left, top, width, height)
        next_floor = index + 1 < len(names) and rooms.floors[names[index + 1]] != rooms.floors[name]
        left += width + 0.06
        top += height + (2 * GAP if next_floor else GAP)
    return boxes


def _draw_floors(axes: Axes, rooms: Rooms, boxes: Mapping[str, Box]) -> None:
    """Draw every second floor as a band across the picture, and the number of each at the left."""
    for floor in set(rooms.floors.values()):
        level = [box for name, box in boxes.items() if rooms.floors[name] == floor]
        top, bottom = min(box.top for box in level) - GAP, max(box.bottom for box in level) + GAP
        axes.axhspan(top, bottom, color=BAND if floor % 2 else "white", linewidth=0, zorder=0)
        axes.text(0.1, (top + bottom) / 2, f"floor {floor}", color=FAINT, fontsize=9, va="center")


def _draw_box(axes: Axes, box: Box) -> None:
    """Draw a room with its name, its files and its lines of code."""
    from matplotlib.patches import FancyBboxPatch

    rounded = "round,pad=0,rounding_size=0.08"
    corner = (box.left, box.top)
    axes.add_patch(
        FancyBboxPatch(
            corner, box.width, box.height, rounded, facecolor="white", edgecolor=box.colour, linewidth=1.5, zorder=3
        )
    )
    across, down = box.left + box.width / 2, box.top + box.height / 2
    style: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 4}
    axes.text(across, down - 0.14, box.name, color=box.colour, fontsize=11, fontweight="bold", **style)
    axes.text(across, down + 0.11, box.label, color=INK, fontsize=7.5, linespacing=1.15, **style)


def _draw_import(axes: Axes, rooms: Rooms, boxes: Mapping[str, Box], arrow: tuple[str, str], thickness: float) -> None:
    """Draw the imports of a room from a lower one: to the right, around a corner, down to an arrowhead."""
    above, below = boxes[arrow[0]], boxes[arrow[1]]
    # Farther rooms leave higher, and nearer importers arrive farther left, so that lines of one room never cross.
    leaving = [name for name in boxes if (arrow[0], name) in rooms.arrows and boxes[name].top > above.top][::-1]
    arriving = [name for name in boxes if (name, arrow[1]) in rooms.arrows and boxes[name].top < below.top][::-1]
    down = above.top + above.height / 2 + PORT * (leaving.index(arrow[1]) - (len(leaving) - 1) / 2)
    middle = (below.left + NUMBER_WIDTH + below.right) / 2
    across = middle + PORT * (arriving.index(arrow[0]) - (len(arriving) - 1) / 2)
    points = [(above.right, down), (across, down), (across, below.top)]
    _draw_elbow(axes, points, thickness, above.colour)
    _draw_number(axes, (below.left + 0.02, down), rooms.arrows[arrow], above.colour)


def _draw_upward_import(
    axes: Axes, rooms: Rooms, boxes: Mapping[str, Box], arrow: tuple[str, str], thickness: float
) -> None:
    """Draw the imports of a room from a higher one, which closes a circle: to the left, around a corner, up."""
    importer, imported = boxes[arrow[0]], boxes[arrow[1]]
    leaving = [name for name in boxes if (arrow[0], name) in rooms.arrows and boxes[name].top < importer.top]
    arriving = [name for name in boxes if (name, arrow[1]) in rooms.arrows and boxes[name].top > imported.top]
    down = importer.top + importer.height / 2 - PORT * (leaving.index(arrow[1]) - (len(leaving) - 1) / 2)
    across = imported.left + imported.width / 2 + PORT * (arriving.index(arrow[0]) - (len(arriving) - 1) / 2)
    _draw_elbow(axes, [(importer.left, down), (across, down), (across, imported.bottom)], thickness, UPWARD)
    _draw_number(axes, (across + 0.1, down), rooms.arrows[arrow], UPWARD)


def _draw_elbow(axes: Axes, points: Sequence[tuple[float, float]], thickness: float, colour: str) -> None:
    """Draw a line through three points with a round corner at the second and an arrowhead at the third."""
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path as Line

    (start, down), (across, _), (_, end) = points
    side, way = (1 if across > start else -1), (1 if end > down else -1)
    half = 0.022 + 0.009 * thickness
    length = 2 * half
    radius = min(0.07, abs(end - down) - length, abs(across - start))
    corners = [(start, down), (across - side * radius, down), (across, down), (across, down + way * radius)]
    vertices = [*corners, (across, end - way * length)]
    codes = [Line.MOVETO, Line.LINETO, Line.CURVE3, Line.CURVE3, Line.LINETO]
    axes.add_patch(PathPatch(Line(vertices, codes), facecolor="none", edgecolor=colour, linewidth=thickness, zorder=2))
    head = [(across - half, end - way * length), (across + half, end - way * length), (across, end)]
    axes.add_patch(Polygon(head, facecolor=colour, linewidth=0, zorder=2))


def _draw_number(axes: Axes, place: tuple[float, float], number: int, colour: str) -> None:
    """Write the number of imports on a line."""
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground="white")]
    axes.text(*place, str(number), color=colour, fontsize=7, va="center", path_effects=halo, zorder=5)


def save(figure: Figure, path: Path) -> None:
    """Write the picture, without the date, so that equal trees give equal files."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "rooms"}):
        figure.savefig(path, dpi=DOTS_PER_INCH, metadata=METADATA[path.suffix], facecolor="white")


if __name__ == "__main__":
    main()
