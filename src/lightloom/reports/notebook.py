"""Figures as part of a notebook's page."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from lightloom.reports.figures.base import to_svg
from lightloom.reports.figures.palette import INK
from lightloom.reports.html import inline_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def notebook_svg(figure: Figure) -> str:
    """Return the figure as an SVG element on white; identifiers are its own, so that cells do not mix theirs."""
    svg = to_svg(figure)
    element = str(inline_svg(svg, f"l{sha256(svg.encode()).hexdigest()[:8]}-"))
    return f'<div style="background: white; max-width: 100%; --ink: {INK}">{element}</div>'
