"""Figures of studies, drawn cheaply."""

from __future__ import annotations

from io import BytesIO

from matplotlib import rc_context
from matplotlib.figure import Figure


def svg_bytes(figure: Figure) -> int:
    """Size of the figure as SVG, without arranging its panels and with its texts as texts instead of outlines."""
    figure.set_layout_engine("none")
    page = BytesIO()
    with rc_context({"svg.fonttype": "none"}):
        figure.savefig(page, format="svg")
    return page.tell()
