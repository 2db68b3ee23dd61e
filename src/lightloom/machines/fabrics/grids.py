"""Mesh and torus of any number of dimensions, packet-switched, with dimension-ordered routes.

0 ── 1 ── 2        rank = row · columns + column; routes run along the row first, then along the column
│    │    │        (:mod:`lightloom.machines.fabrics.lattice` says how for more dimensions)
3 ── 4 ── 5        a torus also joins the ends of each row and of each column
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from lightloom.core.arrays import Floats, Ints
from lightloom.core.fields import Bandwidth, Count
from lightloom.machines.fabrics.derived import Cut, Footprint, ordered_links
from lightloom.machines.fabrics.fabric import Axis, Grid, HopFabric
from lightloom.machines.fabrics.lattice import Dims, Lattice, LinkRun, describe, most_square

if TYPE_CHECKING:
    from lightloom.machines.parts.bill import Bill, BillChoices

# Twisted tori: tori of two lengths whose short lines close half of the long dimensions further on.
#
# With sides a and 2 a, a step over the end of a short dimension also adds a to every long coordinate, so that going on
# along the short dimension comes back after 2 a cells, as along a long one:
#
#     4 x 8, the first dimension going down: what leaves the last row at column c enters the first at column c + 4
#
#     row 0    0  1  2  3  4  5  6  7
#     row 3   24 25 26 27 28 29 30 31        24 ── 4, 25 ── 5, ..., 28 ── 0, ...
#
# All dimensions are alike then, and no cell is farther than in the torus without a twist. For three dimensions these
# are the face-centred (a x a x 2a) and body-centred (a x 2a x 2a) cubic lattices.
#
# Sources: twisted 2D and 3D tori of unequal sides, whose links are all alike: Camara, Moreto, Vallejo, Beivide,
# Miguel-Alonso, Martinez and Navaridas, Twisted Torus Topologies for Enhanced Interconnection Networks, IEEE TPDS 21
# (12), 2010, from p. 1765. Cubic crystal lattices as networks: Camarero, Martinez and Beivide, Lattice Graphs for
# High-Scale Interconnection Topologies, IEEE TPDS 26 (9), 2015, pp. 2506-2519. Shapes of TPU v4: Cloud TPU
# documentation.


def twist_error(dims: Sequence[int]) -> str | None:
    """Return why a torus of these sizes cannot be twisted; None where it can."""
    side = min(dims)
    if side >= 2 and set(dims) == {side, 2 * side}:
        return None
    return (
        f"a torus of {describe(dims)} cannot be twisted: expected two different sizes, at least 2 and the double of "
        "it, as in 4x4x8 or 4x8x8"
    )


def grid_of(dims: tuple[int, ...], wraps: bool, twisted: bool = False) -> Lattice:
    """Return the grid of these sizes."""
    return TwistedLattice(dims, wraps) if twisted else Lattice(dims, wraps)


class TwistedLattice(Lattice):
    """A torus with sides a and 2 a, twisted by a along the long dimensions where a short one closes."""

    __slots__ = ()

    @property
    def side(self) -> int:
        """The length of a short dimension."""
        return min(self.dims)

    @property
    def period(self) -> int:
        """Cells after which a line comes back, along any dimension."""
        return 2 * self.side

    def _short(self, axis: int) -> bool:
        """Return whether the dimension has the shorter of the two sizes."""
        return self.dims[axis] == self.side

    @property
    def _first_long(self) -> int:
        """Index of the first dimension that has the longer size."""
        return self.dims.index(self.period)

    def steps(self, source: Ints, destination: Ints) -> list[Ints]:
        """Signed links of shortest routes along each dimension: [dimension][transfer].

        Each short dimension is left on the near or on the far side; an odd number of far sides moves all long
        coordinates by half. Where several ways are equally short, parity of the source decides.
        """
        start, end, side = self.coordinates(source), self.coordinates(destination), self.side
        even = np.sum(start, axis=0) % 2 == 0
        ahead = [last - first for first, last in zip(start, end, strict=True)]
        short = [axis for axis in range(len(self.dims)) if self._short(axis)]
        shortest: list[Ints] = []
        for over in product((False, True), repeat=len(short)):
            way = list(ahead)
            for axis, crosses in zip(short, over, strict=True):
                if crosses:
                    back = np.where(ahead[axis] == 0, np.where(even, side, -side), -side * np.sign(ahead[axis]))
                    way[axis] = ahead[axis] + back
            for axis in set(range(len(self.dims))) - set(short):
                forward = (ahead[axis] + side * (sum(over) % 2)) % self.period
                nearer = (forward < side) | ((forward == side) & even)
                way[axis] = np.where(nearer, forward, forward - self.period)
            if not shortest:
                shortest = way
                continue
            links, least = np.sum(np.abs(way), axis=0), np.sum(np.abs(shortest), axis=0)
            better = (links < least) | ((links == least) & ~even)
            shortest = [np.where(better, new, old) for new, old in zip(way, shortest, strict=True)]
        return shortest

    def _line(self, axis: int, cell: Sequence[Ints], copy: Ints | int) -> tuple[Ints, Ints]:
        """Return the line of a dimension that passes cells, and their place on it."""
        half = cell[self._first_long] // self.side if self._short(axis) else np.zeros_like(cell[axis])
        line: Ints = np.zeros_like(cell[axis]) + copy
        for other, size in enumerate(self._radices(axis)):
            if size:
                at = cell[other] if self._short(other) else (cell[other] - self.side * half) % self.period
                line = line * size + at
        return line, cell[axis] + self.side * half

    def _radices(self, axis: int) -> list[int]:
        """Places of each other coordinate among the lines of a dimension; 0 of the dimension itself."""
        sizes = [0 if other == axis else size for other, size in enumerate(self.dims)]
        if self._short(axis):
            sizes[self._first_long] = self.side
        return sizes

    def _cell(self, axis: int, fixed: Sequence[Ints], place: Ints) -> list[Ints]:
        """Coordinates of the cells at these places of lines; ``fixed`` are the other coordinates at place 0."""
        half = place // self.side if self._short(axis) else np.zeros_like(place)
        cell = [at if self._short(other) else (at + self.side * half) % self.period for other, at in enumerate(fixed)]
        cell[axis] = place % self.dims[axis]
        return cell

    def runs(self, source: Ints, destination: Ints, copies: int = 1, copy: Ints | int = 0) -> list[LinkRun]:
        cell = list(self.coordinates(source))
        steps, runs, total = self.steps(source, destination), [], copies * self.cells
        for turn, axis in enumerate(reversed(range(len(self.dims)))):
            line, start = self._line(axis, cell, copy)
            forward, end = steps[axis] >= 0, (start + steps[axis]) % self.period
            base = 2 * turn * total + np.where(forward, 0, total) + line * self.period
            length = np.abs(steps[axis])
            runs.append(LinkRun(base, np.where(forward, start, end), length, self.period, ~forward))
            half = start // self.side if self._short(axis) else np.zeros_like(start)
            origin = [
                at if self._short(other) else (at - self.side * half) % self.period for other, at in enumerate(cell)
            ]
            cell = self._cell(axis, origin, end)
        return runs

    def hops(self, source: Ints, destination: Ints) -> Ints:
        links: Ints = np.sum(np.abs(self.steps(source, destination)), axis=0)
        return links

    def ends(self, link: int, copies: int = 1) -> tuple[int, int, int, int, bool]:
        turn, rest = divmod(link, 2 * copies * self.cells)
        backward, rest = divmod(rest, copies * self.cells)
        axis = len(self.dims) - 1 - turn
        line, place = divmod(rest, self.period)
        copy, *others = np.unravel_index(np.array([line, line]), (copies, *filter(None, self._radices(axis))))
        fixed = [*others[:axis], np.zeros_like(copy), *others[axis:]]
        cells = self._cell(axis, fixed, np.array([place, place + 1]) % self.period)
        first, last = (int(cell) for cell in np.ravel_multi_index(tuple(cells), self.dims))
        return axis, int(copy[0]), *((last, first) if backward else (first, last)), not backward

    @property
    def diameter(self) -> int:
        return int(self.hops(np.zeros(self.cells, np.int64), np.arange(self.cells)).max())

    def degrees(self) -> tuple[Ints, Ints]:
        """Return the number of links on which each cell receives, and on which its own data leave: each [cell]."""
        alike = np.full(self.cells, 2 * len(self.dims))
        return alike, alike

    def halves(self) -> list[tuple[int, int, int]]:
        """Cuts through the middle of each dimension; the ends of all short lines cross those of the long ones."""
        closing = sum(map(self._short, range(len(self.dims)))) * self.cells // self.side
        return [
            (axis, inside, links if self._short(axis) else links + closing) for axis, inside, links in super().halves()
        ]


_LINES = ("rows", "columns")
_HEADINGS = (("south", "north"), ("east", "west"))


class Mesh(HopFabric):
    """A grid of ranks; without ``dims`` the most square one of two dimensions that holds exactly ``ranks``."""

    kind: Literal["mesh"] = "mesh"
    bandwidth: Bandwidth = 12.5e9
    """Bytes per second of a link, per direction."""
    rows: Count | None = None
    """Rows of a grid of two dimensions; must divide ``ranks``."""
    dims: Dims | None = None
    """Ranks along each dimension, as many dimensions as wanted; their product is ``ranks``. Neighbouring ranks lie
    along the last."""

    joins_ranks: ClassVar[bool] = True
    rate_fields: ClassVar[frozenset[str]] = frozenset({"bandwidth", "energy_per_bit", "power_per_rank"})
    wraps: ClassVar[bool] = False

    @model_validator(mode="after")
    def _grid_holds_ranks(self) -> Self:
        if self.rows is not None and self.ranks % self.rows:
            raise ValueError(f"rows={self.rows} does not divide ranks={self.ranks}: expected a divisor")
        if self.dims is not None and prod(self.dims) != self.ranks:
            raise ValueError(
                f"dims {describe(self.dims)} hold {prod(self.dims)} ranks, not ranks={self.ranks}: expected a product "
                "that is equal"
            )
        if self.dims is not None and self.rows is not None:
            raise ValueError("rows and dims contradict each other: expected one of them")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Ranks along each dimension: (rows, columns) unless ``dims`` says otherwise."""
        if self.dims is not None:
            return self.dims
        if self.rows is not None:
            return self.rows, self.ranks // self.rows
        return most_square(self.ranks, 2)

    @property
    def lattice(self) -> Lattice:
        """Positions, links and distances of the grid that these sizes make."""
        return Lattice(self.shape, self.wraps)

    @property
    def grid(self) -> Grid | None:
        shape = self.shape
        return Grid(shape[0], shape[1], self.wraps) if len(shape) == 2 else None

    @property
    def axes(self) -> tuple[Axis, ...]:
        return Axis.along(self.shape)

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        from lightloom.machines.fabrics.bills import grids

        grid = grids.Grid(
            ranks=self.ranks,
            dims=self.shape,
            wraps=self.wraps,
            bandwidth=self.bandwidth,
            switched=self.wraps and choices.reconfigurable,
            kind=self.kind_name,
        )
        return grids.grid_bill(grid, choices)

    @property
    def links(self) -> int:
        return self.lattice.links

    def link_name(self, link: int) -> str:
        axis, _, origin, end, forward = self.lattice.ends(link)
        if len(self.shape) == 2:
            return f"{_HEADINGS[axis][not forward]}ward link {origin}→{end}"
        return f"{'forward' if forward else 'backward'} link {origin}→{end} of dimension {axis + 1}"

    def link_bandwidth(self) -> Floats:
        return np.full(self.links, self.bandwidth)

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        return Footprint.of([run.columns() for run in self.lattice.runs(source, destination)])

    def path(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        runs = self.lattice.runs(source, destination)
        return ordered_links([run.columns() for run in runs], [run.backward for run in runs])

    def hops(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        """Return the sum of the distances along the dimensions."""
        return self.lattice.hops(source, destination)

    def cuts(self) -> list[Cut]:
        """Return the cut of what a corner rank can receive, then one into half of the ranks along each dimension."""
        lattice = self.lattice
        lines = _LINES if len(lattice.dims) == 2 else [f"dimension {axis + 1}" for axis in range(len(lattice.dims))]
        halves = [
            Cut(f"the links into one half of the {lines[axis]}", inside, links * self.bandwidth)
            for axis, inside, links in lattice.halves()
        ]
        return [Cut("what a corner rank can receive", 1, lattice.smallest_degree * self.bandwidth), *halves]

    def rank_bandwidths(self) -> tuple[Floats, Floats]:
        receive, send = self.lattice.degrees()
        return receive.astype(np.float64) * self.bandwidth, send.astype(np.float64) * self.bandwidth

    def total_receive_bandwidth(self) -> float:
        return self.lattice.total_degree * self.bandwidth

    def diameter(self) -> int:
        return self.lattice.diameter

    def ring_order(self) -> Ints:
        """Return a snake through the rows, so that only the closing hop of a mesh is long."""
        return self.lattice.snake()


class Torus(Mesh):
    """A mesh whose rows and columns are closed into rings."""

    kind: Literal["torus"] = "torus"  # type: ignore[assignment]
    twisted: bool = False
    """True if the short dimensions, half as long as the others, close half of the long ones further on
    (:mod:`lightloom.machines.fabrics.grids`)."""

    wraps: ClassVar[bool] = True

    @model_validator(mode="after")
    def _sizes_can_be_twisted(self) -> Self:
        if self.twisted and (error := twist_error(self.shape)) is not None:
            raise ValueError(error)
        return self

    @property
    def lattice(self) -> Lattice:
        return grid_of(self.shape, self.wraps, self.twisted)

    @property
    def grid(self) -> Grid | None:
        return None if self.twisted else super().grid
