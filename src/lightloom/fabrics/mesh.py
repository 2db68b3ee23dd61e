"""2D mesh and torus, packet-switched, dimension-ordered routes (along the row first, then along the column).

0 ── 1 ── 2        rank = row · columns + column
│    │    │
3 ── 4 ── 5        a torus also joins the ends of each row and of each column
"""

from __future__ import annotations

from math import isqrt
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from lightloom.core.arrays import Floats, Ints
from lightloom.core.fields import Bandwidth, Count
from lightloom.fabrics import derived
from lightloom.fabrics.base import Cut, Fabric
from lightloom.fabrics.capabilities import Grid
from lightloom.fabrics.footprint import Footprint


class Mesh(Fabric):
    """A rows × columns grid; without ``rows`` the most square one that holds exactly ``ranks``."""

    kind: Literal["mesh"] = "mesh"
    bandwidth: Bandwidth = 12.5e9
    """Bytes per second of a link, per direction."""
    rows: Count | None = None
    """Rows of the grid; must divide ``ranks``."""

    joins_ranks: ClassVar[bool] = True
    wraps: ClassVar[bool] = False

    @model_validator(mode="after")
    def _rows_divide_ranks(self) -> Self:
        if self.rows is not None and self.ranks % self.rows:
            raise ValueError(f"rows={self.rows} does not divide ranks={self.ranks}: expected a divisor")
        return self

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        rows = self.rows or next(r for r in range(isqrt(self.ranks), 0, -1) if self.ranks % r == 0)
        return rows, self.ranks // rows

    @property
    def grid(self) -> Grid:
        return Grid(*self.shape, self.wraps)

    @property
    def links(self) -> int:
        return 4 * self.ranks

    def link_name(self, link: int) -> str:
        rows, columns = self.shape
        heading, cell = divmod(link, self.ranks)
        if heading < 2:
            row, a = divmod(cell, columns)
            ends = [row * columns + a, row * columns + (a + 1) % columns]
        else:
            column, a = divmod(cell, rows)
            ends = [a * columns + column, (a + 1) % rows * columns + column]
        origin, end = ends if heading in (0, 2) else reversed(ends)
        return f"{('east', 'west', 'south', 'north')[heading]}ward link {origin}→{end}"

    def link_bandwidth(self) -> Floats:
        return np.full(self.links, self.bandwidth)

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        rows, columns = self.shape
        row, column = np.divmod(np.asarray(source), columns)
        to_row, to_column = np.divmod(np.asarray(destination), columns)
        even = (row + column) % 2 == 0
        along_row = self._run(column, to_column, columns, even, 0, row)
        along_column = self._run(row, to_row, rows, even, 2 * self.ranks, to_column)
        return Footprint.of([along_row, along_column])

    def _run(
        self, start: Ints, end: Ints, size: int, even: Ints, base: int, track: Ints
    ) -> tuple[Ints, Ints, Ints, int]:
        ahead = (end - start) % size if self.wraps else end - start
        if self.wraps:
            forward = (2 * ahead < size) | ((2 * ahead == size) & even)
            length = np.where(forward, ahead, (size - ahead) % size)
        else:
            forward = ahead >= 0
            length = np.abs(ahead)
        first = np.where(forward, start, end)
        return base + np.where(forward, 0, self.ranks) + track * size, first, length, size

    def hops(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        """Return the distance along the row and along the column."""
        shape = self.shape
        distance = np.abs(np.array(np.divmod(source, shape[1])) - np.divmod(destination, shape[1]))
        if self.wraps:
            distance = np.minimum(distance, np.reshape(shape, (2, 1)) - distance)
        links: Ints = distance.sum(axis=0)
        return links

    def _degrees(self) -> tuple[float, float]:
        """(smallest degree of a rank, sum of the degrees)."""
        rows, columns = self.shape
        per_row, per_column = (min(columns - 1, 1), min(rows - 1, 1))
        total = 2 * (rows * (columns - 1) + columns * (rows - 1))
        return per_row + per_column, total

    def cuts(self) -> list[Cut]:
        rows, columns = self.shape
        sides = 2 if self.wraps else 1
        halves = [
            Cut(f"the links into one half of the {lines}", width * (length // 2), sides * width * self.bandwidth)
            for lines, width, length in (("columns", rows, columns), ("rows", columns, rows))
            if length > 1
        ]
        return [Cut("what a corner rank can receive", 1, self._degrees()[0] * self.bandwidth), *halves]

    def total_receive_bandwidth(self) -> float:
        return self._degrees()[1] * self.bandwidth

    def diameter(self) -> int:
        rows, columns = self.shape
        return rows - 1 + columns - 1

    def diameter_latency(self) -> float:
        return self.hop_latency * self.diameter()

    def neighbour_latency(self) -> float:
        return self.hop_latency

    def ring_order(self) -> Ints:
        """A snake through the rows, so that only the closing hop of a mesh is long."""
        rows, columns = self.shape
        grid = np.arange(self.ranks, dtype=np.int64).reshape(rows, columns)
        grid[1::2] = grid[1::2, ::-1]
        return grid.ravel()


class Torus(Mesh):
    """A mesh whose rows and columns are closed into rings."""

    kind: Literal["torus"] = "torus"  # type: ignore[assignment]

    wraps: ClassVar[bool] = True

    def _degrees(self) -> tuple[float, float]:
        rows, columns = self.shape
        if self.ranks <= 4:
            # Routes leave some of the links unused that join the same two ranks.
            receive, send = derived.rank_bandwidths(self)
            return float(np.maximum(receive, send).min()) / self.bandwidth, float(receive.sum()) / self.bandwidth
        degree = 2 * (columns > 1) + 2 * (rows > 1)
        return degree, degree * self.ranks

    def diameter(self) -> int:
        rows, columns = self.shape
        return rows // 2 + columns // 2
