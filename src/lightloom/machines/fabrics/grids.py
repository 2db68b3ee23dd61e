"""Mesh and torus of any number of dimensions, packet-switched, with dimension-ordered routes.

0 ── 1 ── 2        rank = row · columns + column; routes run along the row first, then along the column
│    │    │        (:mod:`lightloom.machines.fabrics.lattice` says how for more dimensions)
3 ── 4 ── 5        a torus also joins the ends of each row and of each column
"""

from __future__ import annotations

from math import prod
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from lightloom.core.arrays import Floats, Ints
from lightloom.core.fields import Bandwidth, Count
from lightloom.machines.fabrics.derived import Cut, Footprint, ordered_links
from lightloom.machines.fabrics.fabric import Axis, Grid, HopFabric
from lightloom.machines.fabrics.lattice import Dims, Lattice, describe, most_square, twist_error
from lightloom.machines.parts.bill import Bill, BillChoices

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
        """Raise ValueError for rows that do not divide the ranks, dims whose product is not the ranks, and both at
        once; otherwise return the grid unchanged."""
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
        """Ranks along each dimension: ``dims`` if stated, otherwise (rows, columns), with the stated ``rows`` or those
        of the most square grid, no more than the columns."""
        if self.dims is not None:
            return self.dims
        return (self.rows, self.ranks // self.rows) if self.rows is not None else most_square(self.ranks, 2)

    @property
    def lattice(self) -> Lattice:
        """The shape of the grid, which computes positions, links and distances."""
        return Lattice(self.shape, self.wraps)

    @property
    def grid(self) -> Grid | None:
        """Return rows, columns and whether both wrap around; None where the grid has other than two dimensions."""
        shape = self.shape
        return Grid(shape[0], shape[1], self.wraps) if len(shape) == 2 else None

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Return an axis for each dimension of more than one rank, the last dimension, along which neighbours lie,
        first."""
        return Axis.along(self.shape)

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        """Return the bill of the links between neighbours, per rank; the links between the cubes of a torus run through
        circuit switches where ``choices.reconfigurable`` asks for them."""
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
        """Return the number of directed links, those that an open line does not use included: two for each rank and
        dimension."""
        return self.lattice.links

    def link_name(self, link: int) -> str:
        """Return direction and ends of a link: ``eastward link 0→1`` in two dimensions (eastward to the next column,
        southward to the next row, westward and northward back), otherwise ``forward link 0→1 of dimension 3``,
        dimensions counted from 1."""
        axis, _, origin, end, forward = self.lattice.ends(link)
        if len(self.shape) == 2:
            return f"{_HEADINGS[axis][not forward]}ward link {origin}→{end}"
        return f"{'forward' if forward else 'backward'} link {origin}→{end} of dimension {axis + 1}"

    def link_bandwidth(self) -> Floats:
        """Return ``bandwidth`` for every link: [link]."""
        return np.full(self.links, self.bandwidth)

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        """Return the links of each transfer, one run for each dimension, the last dimension first; ``route`` is not
        used, as there is one."""
        return Footprint.of([run[:4] for run in self.lattice.runs(source, destination)])

    def path(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        """Return the links of each transfer in the order in which it crosses them, the last dimension first, −1 filling
        up within each dimension's part: [transfer, place]; ``route`` is not used, as there is one."""
        runs = self.lattice.runs(source, destination)
        return ordered_links([run[:4] for run in runs], [run.backward for run in runs])

    def hops(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        """Return the number of links of each transfer's shortest route, summed over the dimensions: [transfer];
        ``route`` is not used."""
        return self.lattice.hops(source, destination)

    def cuts(self) -> list[Cut]:
        """Return the cut around a corner rank, which has the fewest links, then one around half of the ranks, the
        smaller half, for each dimension of more than one rank, the last dimension first. A capacity is that of all
        directed links into the ranks."""
        lattice = self.lattice
        lines = _LINES if len(lattice.dims) == 2 else [f"dimension {axis + 1}" for axis in range(len(lattice.dims))]
        halves = [
            Cut(f"the links into one half of the {lines[axis]}", inside, links * self.bandwidth)
            for axis, inside, links in lattice.halves()
        ]
        return [Cut("what a corner rank can receive", 1, lattice.smallest_degree * self.bandwidth), *halves]

    def rank_bandwidths(self) -> tuple[Floats, Floats]:
        """Return the bytes per second of the links on which each rank receives, and of those on which transfers that it
        begins itself leave, on the routes of :meth:`path`; links on which it only passes data on do not count: two
        arrays, [rank]."""
        receive, send = self.lattice.degrees()
        return receive.astype(np.float64) * self.bandwidth, send.astype(np.float64) * self.bandwidth

    def total_receive_bandwidth(self) -> float:
        """Return the bytes per second of all links on which ranks receive, summed over the ranks, on the routes of
        :meth:`path`."""
        return self.lattice.total_degree * self.bandwidth

    def diameter(self) -> int:
        """Return the largest number of links between two ranks, on shortest routes."""
        return self.lattice.diameter

    def ring_order(self) -> Ints:
        """Return the ranks in a snake through the rows, from rank 0 on, every other row backwards (in more dimensions
        every other plane too), so that only the step from the last rank to the first may be long: [rank]."""
        return self.lattice.snake()


class Torus(Mesh):
    """A mesh whose rows and columns are closed into rings."""

    kind: Literal["torus"] = "torus"  # type: ignore[assignment]
    twisted: bool = False
    """True if the short dimensions, half as long as the others, close half of the long ones further on
    (:mod:`lightloom.machines.fabrics.lattice`)."""

    wraps: ClassVar[bool] = True

    @model_validator(mode="after")
    def _sizes_can_be_twisted(self) -> Self:
        """Raise ValueError for a twisted torus whose sizes are not a side of at least 2 and its double, both of them
        present; otherwise return the torus unchanged."""
        if self.twisted and (error := twist_error(self.shape)) is not None:
            raise ValueError(error)
        return self

    @property
    def lattice(self) -> Lattice:
        """Return positions, links and distances of the closed grid, twisted or not."""
        return Lattice(self.shape, self.wraps, self.twisted)

    @property
    def grid(self) -> Grid | None:
        """Return rows, columns and True, as both wrap around; None where the torus is twisted or has other than two
        dimensions."""
        return None if self.twisted else super().grid
