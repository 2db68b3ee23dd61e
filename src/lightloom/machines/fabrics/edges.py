"""Edge lists: who is joined to whom, in YAML or CSV."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

from lightloom.core.errors import ConfigError
from lightloom.core.fields import Bandwidth, Seconds
from lightloom.core.files import cannot_read

Vertex = int | str
"""A rank by its number, or a switch by its name."""
_COLUMNS = ("source", "target", "bandwidth", "latency")


class Edge(NamedTuple):
    """One link of a graph."""

    source: Vertex
    target: Vertex
    bandwidth: Bandwidth
    """Bytes per second, in each direction that the link has."""
    latency: Seconds | None = None
    """Seconds; left out, ``hop_latency`` of the fabric."""


def read_edges(path: Path) -> list[dict[str, Any]]:
    """Return the edges of a CSV file with the columns source, target, bandwidth and, if wanted, latency.

    Raises:
        ConfigError: unreadable, or a column is missing, unknown or empty; names the line.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise cannot_read(path, error) from error
    heading = [cell.strip() for cell in rows[0]] if rows else []
    if not set(_COLUMNS[:3]) <= set(heading) <= set(_COLUMNS) or len(set(heading)) < len(heading):
        raise ConfigError(f"{path}, line 1: {','.join(heading)!r}: expected the columns {','.join(_COLUMNS)}")
    return [
        _edge(dict(zip(heading, (cell.strip() for cell in row), strict=False)), f"{path}, line {number}")
        for number, row in enumerate(rows[1:], 2)
        if row
    ]


def _edge(cells: dict[str, str], where: str) -> dict[str, Any]:
    """Return the filled cells of a row by column, as text, ends as vertices; ConfigError where an end or the bandwidth
    is missing."""
    missing = [name for name in _COLUMNS[:3] if not cells.get(name)]
    if missing:
        raise ConfigError(f"{where}: no {missing[0]}: expected source,target,bandwidth")
    edge: dict[str, Any] = {name: value for name, value in cells.items() if value}
    return edge | {name: vertex_of(cells[name]) for name in ("source", "target")}


def vertex_of(name: Vertex) -> Vertex:
    """Return the rank, a whole number, for a name of digits only; any other vertex unchanged."""
    return int(name) if isinstance(name, str) and name.isascii() and name.isdecimal() else name
