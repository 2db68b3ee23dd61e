"""A report as one HTML file that opens anywhere, offline: nothing is fetched, and every table is whole without scripts.

Where Bokeh is installed (the extra ``report``), its browser library is written into pages whose plans a reader may look
into; its licence stands at the head of it.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lightloom.core.files import write_atomically
from lightloom.core.results import FORMS, Result
from lightloom.reports.figures.canvas import INK, SHARES, to_svg
from lightloom.reports.report import FRONT, RankingRow, Report, Table, page_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MEMORY_COLOURS = ("#4c78c8", "#5ba8a0", "#7d6bc4", "#d9a821", "#e0892b", "#c2449a")
_NUMBER = re.compile(r"[-+−≈<>]?[\d][\d.,eE+\-−]*\s*(%|×|[A-Za-zµ/]{1,6})?")
_ACTIVE = re.compile(r"<script|<foreignObject|<[^>]*\son\w+\s*=|<[^>]*javascript:", re.IGNORECASE)
"""Content of an SVG element that would run; texts of a picture, which its writer escapes, may say anything."""
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def render(report: Report) -> str:
    """Return the report as the text of one HTML page that fetches nothing; its reader can look into single plans where
    the report has any in ``explored`` and Bokeh is installed."""
    explorer = _explorer(report) if report.explored and draws() else None
    return _environment().get_template("report.html").render(report=report, shares=SHARES, explorer=explorer)


def draws() -> bool:
    """Return whether Bokeh, the optional library that draws in the browser, is installed."""
    return find_spec("bokeh") is not None


def _explorer(report: Report) -> dict[str, Any]:
    """Return what the page needs to draw plans: ``data``, the JSON text that its scripts read (:func:`page_data`), and
    ``scripts``, a list of the sources of Bokeh's browser library, all as markup that may stand inside ``script``
    elements. Bokeh must be installed (:func:`draws`)."""
    from bokeh.resources import Resources

    scripts = Resources(mode="inline", components=["bokeh", "bokeh-api"], log_level="error").js_raw
    # Inside an element a script ends where the text "</script" stands; in a string "<\/script" is the same.
    return {
        "data": Markup(page_data(report.explored, report.light)),
        "scripts": [Markup(script.replace("</script", "<\\/script")) for script in scripts],
    }


def write(report: Report, path: Path) -> Path:
    """Write the report as an HTML page to ``path``, whole or not at all, and return the path; missing folders are made.

    Raises:
        ConfigError: the place cannot be written to.
    """
    return write_atomically(path, render(report))


def inline_svg(svg: str, prefix: str) -> Markup:
    """Return an SVG document as markup for a page, the ``<svg>`` element alone: the ids that it refers to begin with
    ``prefix``, and what has lightloom's ink as its colour takes that of the page's variable ``--ink``.

    Other ids, comments, metadata and namespaces are left out.

    Raises:
        ValueError: the SVG holds a script, a foreign object, a handler of events or a ``javascript:`` address, or there
            is no ``<svg>`` element.
    """
    svg = _COMMENT.sub("", svg)
    if _ACTIVE.search(svg):
        raise ValueError("a picture holds a script: expected a plain drawing")
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", body)
    body = body.replace("xlink:href=", "href=").replace(INK, "var(--ink)")
    names = {name for pair in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', body) for name in pair if name}
    body = re.sub(r'\sid="([^"]+)"', lambda m: f' id="{prefix}{m[1]}"' if m[1] in names else "", body)
    body = re.sub(r'href="#', f'href="#{prefix}', body).replace("url(#", f"url(#{prefix}")
    return Markup(body)


@cache
def _environment() -> Environment:
    """Return the environment of the page's templates (Jinja), made once: texts are escaped, and a name that is not
    defined is an error.

    Filters are the formats of numbers (``FORMS``), ``percent`` (a part of a whole, four decimals), ``bar_scale`` and
    ``inline_svg``.
    """
    environment = Environment(
        loader=PackageLoader("lightloom.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        **FORMS,
        "percent": lambda part, whole: f"{100 * part / whole:.4f}%" if whole else "0%",
        "bar_scale": bar_scale,
        "inline_svg": inline_svg,
    }
    environment.globals |= {
        "front": FRONT,
        "memory_colours": _MEMORY_COLOURS,
        "numeric_columns": numeric_columns,
    }
    return environment


def numeric_columns(table: Table) -> list[bool]:
    """Return for each column of a table whether all its cells are numbers; False for all in a table without rows.

    A sign or one of the marks ``≈ < >`` may stand before a number, and ``%``, ``×`` or a unit of up to six letters
    after it; an empty cell or a dash is no number.
    """
    return [
        bool(table.rows) and all(_NUMBER.fullmatch(row[i].strip()) is not None for row in table.rows)
        for i in range(len(table.columns))
    ]


def bar_scale(rows: Sequence[RankingRow]) -> float:
    """Return the seconds of a sample for which a bar of full length stands: the slowest row's, but three times the
    fastest's where the slowest is above four times the fastest.

    Longer bars run off their right edge. There must be at least one row.
    """
    times = [row.sample_time for row in rows]
    return max(times) if max(times) <= 4 * min(times) else 3 * min(times)


class DrawnResult(Result):
    """Base of results that can be drawn; a notebook shows the drawing."""

    __slots__ = ()

    @abstractmethod
    def figure(self) -> Figure:
        """Return a matplotlib figure of the result."""

    def pictures(self) -> tuple[str, ...]:
        """Return a tuple of one HTML element as text, a ``<div>`` with white background that holds the drawing of
        :meth:`figure` as SVG; its ids begin with a hash of the drawing, so that cells of a notebook do not mix
        theirs."""
        svg = to_svg(self.figure())
        element = inline_svg(svg, f"l{sha256(svg.encode()).hexdigest()[:8]}-")
        return (f'<div style="background: white; max-width: 100%; --ink: {INK}">{element}</div>',)
