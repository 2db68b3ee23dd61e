"""A figure of the winners: a cell for each contest, coloured by the fastest entrant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lightloom.reports.figures.base import plain, styled
from lightloom.reports.figures.palette import FAINT, cyclic_colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Colours = Mapping[str, Any]
"""Colour of each name."""
_CELL, _ROW, _LABEL = 1.05, 0.36, 0.068
"""Width and height of a cell, and width of a letter of a row's label, in inches."""
_SHADE = 0.38
"""Opacity of a cell: ink stays readable on light and on dark ground."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The cell of one contest."""

    row: str
    column: str
    winner: str
    text: str
    """Text of the cell, one or two lines."""


def colours_of(names: Sequence[str]) -> dict[str, Any]:
    """Return a colour for each name, the same in all figures of a page."""
    ordered = list(dict.fromkeys(names))
    return dict(zip(ordered, cyclic_colours(len(ordered)).tolist(), strict=True))


@styled
def winners_figure(cells: Sequence[Cell], colours: Colours) -> Figure:
    """Draw cells; rows and columns keep the order in which they first occur."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch, Rectangle

    rows = list(dict.fromkeys(cell.row for cell in cells))
    columns = list(dict.fromkeys(cell.column for cell in cells))
    label = _LABEL * max(len(row) for row in rows) + 0.2
    size = (max(label + _CELL * len(columns), 7.0), 0.9 + _ROW * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    for cell in cells:
        x, y = columns.index(cell.column), rows.index(cell.row)
        axes.add_patch(Rectangle((x, y), 0.97, 0.94, color=colours[cell.winner], alpha=_SHADE, linewidth=0))
        axes.text(x + 0.485, y + 0.47, plain(cell.text), ha="center", va="center", fontsize=7.2, linespacing=1.15)
    axes.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    axes.set_xticks([x + 0.485 for x in range(len(columns))], [plain(tick) for tick in columns])
    axes.set_yticks([y + 0.47 for y in range(len(rows))], [plain(tick) for tick in rows])
    axes.tick_params(length=0, color=FAINT)
    axes.xaxis.tick_top()
    axes.spines[:].set_visible(False)
    won = [name for name in colours if any(cell.winner == name for cell in cells)]
    handles = [Patch(color=colours[name], alpha=_SHADE, linewidth=0, label=plain(name)) for name in won]
    figure.legend(handles=handles, loc="outside lower left", ncols=min(4, len(won)))
    return figure
