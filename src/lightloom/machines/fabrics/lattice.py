"""Grids of any number of dimensions, open (mesh) or closed (torus), with dimension-ordered routes.

Cells are numbered row by row: the last dimension changes fastest. A route runs along the last dimension first, then
along the one before it, so that the first dimension comes last. The links of a dimension lie on lines, one for each
choice of the other coordinates, and each line has a track of links forward and one backward:

    forward link a     a ──▶ a+1
    backward link a    a ◀── a+1        (modulo the line's length; an open line does not use the last)
"""

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field

from lightloom.core.arrays import Ints, Mask
from lightloom.core.fields import Count
from lightloom.core.kernels import njit_cached, njit_inlined


def _parsed(value: Any) -> Any:
    """Return the sizes that a text of decimal numbers joined by ``x`` lists, such as ``4x4x8``, as a tuple; any other
    text or value unchanged."""
    if isinstance(value, str) and all(part.isdecimal() for part in value.split("x")):
        return tuple(map(int, value.split("x")))
    return value


Dims = Annotated[tuple[Count, ...], Field(min_length=1), BeforeValidator(_parsed)]
"""Sizes along the dimensions of a grid: ``[4, 4, 8]`` or ``4x4x8``."""


class LinkRun(NamedTuple):
    """Links that transfers occupy on one track: ``base + (start + k) % period`` for ``k < length``."""

    base: Ints
    start: Ints
    length: Ints
    period: int
    backward: Mask | bool = False
    """True if transfers cross them from the last to the first."""


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
    """Return a sentence that says why a torus of these sizes cannot be twisted; None where it can: where its sizes are
    a side of at least 2 and its double, both of them."""
    side = min(dims)
    if side >= 2 and set(dims) == {side, 2 * side}:
        return None
    return (
        f"a torus of {describe(dims)} cannot be twisted: expected two different sizes, at least 2 and the double of "
        "it, as in 4x4x8 or 4x8x8"
    )


class Lattice(NamedTuple):
    """The shape of a grid."""

    dims: tuple[int, ...]
    """Cells along each dimension."""
    wraps: bool
    """True if the ends of every line are joined."""
    twisted: bool = False
    """True of a torus with sides a and 2 a, twisted by a along the long dimensions where a short one closes."""

    @property
    def cells(self) -> int:
        """Return the number of cells, the product of the sizes."""
        return prod(self.dims)

    @property
    def links(self) -> int:
        """Number of directed links by which links are numbered: two a cell and dimension, those that an open line does
        not use included. The last dimension comes first; of a dimension all forward links come before all backward
        ones."""
        return 2 * len(self.dims) * self.cells

    def coordinates(self, cell: Ints) -> tuple[Ints, ...]:
        """Return the places of cells along each dimension: an array in the shape of ``cell`` for each dimension. Cells
        are numbered from 0 row by row, the last dimension fastest."""
        return np.unravel_index(np.asarray(cell, dtype=np.int64), self.dims)

    def _short(self, axis: int) -> bool:
        """Return True if a dimension of a twisted torus is one of the short ones, whose lines close half of the long
        ones further on; False for any other torus or mesh."""
        return self.twisted and self.dims[axis] == min(self.dims)

    def _line_sizes(self, axis: int) -> list[int]:
        """Return the extents of the grid as lines along dimension ``axis`` see it: at ``axis`` the number of cells of a
        line, at every other dimension the number of lines beside each other. These are ``dims`` except for a short
        dimension of a twisted torus, whose lines are twice as long, and beside which the first of the long dimensions
        counts half."""
        sizes = list(self.dims)
        if self._short(axis):
            sizes[axis] *= 2
            sizes[self.dims.index(sizes[axis])] //= 2
        return sizes

    def _moved(self, axis: int, cell: Sequence[Ints], halves: Ints) -> list[Ints]:
        """Return coordinates, [dimension][cell], of which those of the long dimensions are moved by ``halves`` times
        half of their length, modulo the length; ``axis`` is any short dimension of a twisted torus."""
        side = self.dims[axis]
        return [at if self._short(other) else (at + side * halves) % (2 * side) for other, at in enumerate(cell)]

    def _off_line(self, axis: int, place: Sequence[Ints]) -> list[Ints]:
        """Return the coordinates of cells, [dimension][cell], that are given by line and place on it along dimension
        ``axis``: at index ``axis`` the place on the line, at the other indices the coordinates of the line."""
        if not self._short(axis):
            return list(place)
        cell = self._moved(axis, place, place[axis] // self.dims[axis])
        cell[axis] = place[axis] % self.dims[axis]
        return cell

    def runs(self, source: Ints, destination: Ints, copies: int = 1, copy: Ints | int = 0) -> list[LinkRun]:
        """Return the links of transfers between cells, one run for each dimension, in the order of the route: the last
        dimension first. A run has the links ``base + (start + k) % period`` for k below ``length``, which may be 0, and
        ``backward``, true where a transfer crosses them from the last to the first.

        Args:
            source: cell at which each transfer begins, [transfer].
            destination: cell at which each transfer ends, [transfer].
            copies: number of grids of this shape whose links are numbered together.
            copy: number of the grid that each transfer takes, from 0.
        """
        source, destination, copy = np.broadcast_arrays(source, destination, copy)
        runs = np.empty((len(self.dims), 4, source.size), np.int64)
        shape = _line_shape(self)
        cells = [np.array(cell, np.int64).ravel() for cell in (source, destination, copy)]
        for cell in cells[:2]:
            if len(cell) and (cell.min() < 0 or cell.max() >= self.cells):
                raise IndexError(
                    f"a grid of {describe(self.dims)}: expected cells below {self.cells}, not {cell.max()}"
                )
        _link_runs(shape, *cells, copies * self.cells, runs)
        columns = runs.reshape(len(runs), 4, *source.shape)
        periods = reversed(shape.sizes.diagonal().tolist())
        return [
            LinkRun(base, start, length, period, backward > 0)
            for (base, start, length, backward), period in zip(columns, periods, strict=True)
        ]

    def steps(self, source: Ints, destination: Ints) -> list[Ints]:
        """Return the links of a shortest route along each dimension, negative for backward: [dimension][transfer]. Of
        two ways around a line that are equally short, cells whose coordinate sum is even go forward, the others
        backward; open lines have one way.

        On a twisted torus each short dimension is left on the near or on the far side; an odd number of far sides moves
        all long coordinates by half. Of combinations that are equally short, such cells take the first, the near sides
        first, the others the last.
        """
        return [np.where(run.backward, -run.length, run.length) for run in self.runs(source, destination)[::-1]]

    def hops(self, source: Ints, destination: Ints) -> Ints:
        """Return the number of links on a shortest route between cells, in the shape to which ``source`` and
        ``destination`` broadcast."""
        if self.twisted:
            return np.asarray(np.sum(np.abs(self.steps(source, destination)), axis=0))
        links = np.zeros(np.broadcast_shapes(np.shape(source), np.shape(destination)), np.int64)
        for size, start, end in zip(self.dims, self.coordinates(source), self.coordinates(destination), strict=True):
            distance = np.abs(end - start)
            links += np.minimum(distance, size - distance) if self.wraps else distance
        return links

    def ends(self, link: int, copies: int = 1) -> tuple[int, int, int, int, bool]:
        """Return (dimension from 0, copy, cell where the link begins, cell where it ends, True if it leads forward) for
        a link's number from 0, as :meth:`runs` numbers them, where ``copies`` grids of this shape are numbered
        together. A link that an open line does not use joins the line's ends."""
        turn, rest = divmod(link, 2 * copies * self.cells)
        backward, rest = divmod(rest, copies * self.cells)
        axis = len(self.dims) - 1 - turn
        sizes = self._line_sizes(axis)
        period = sizes.pop(axis)
        line, start = divmod(rest, period)
        copy, *place = np.unravel_index(np.array([line, line]), (copies, *sizes))
        place.insert(axis, np.array([start, start + 1]) % period)
        cells = np.ravel_multi_index(tuple(self._off_line(axis, place)), self.dims).tolist()
        origin, end = reversed(cells) if backward else cells
        return axis, int(copy[0]), origin, end, not backward

    @property
    def diameter(self) -> int:
        """Return the largest number of links between two cells, on shortest routes."""
        if self.twisted:
            return int(self.hops(np.zeros(self.cells, np.int64), np.arange(self.cells)).max())
        return sum(size // 2 if self.wraps else size - 1 for size in self.dims)

    @property
    def smallest_degree(self) -> int:
        """Return the number of links on which the cell that has fewest receives, as :meth:`degrees` counts them: 2 in
        the corner of a mesh of two dimensions."""
        return int(self.degrees()[0].min())

    @property
    def total_degree(self) -> int:
        """Return the number of links on which cells receive, summed over the cells, as :meth:`degrees` counts them:
        without links that no transfer uses."""
        return int(self.degrees()[0].sum())

    def degrees(self) -> tuple[Ints, Ints]:
        """Return the number of links on which each cell receives some transfer, and the number on which transfers of
        its own leave, on the routes of :meth:`steps`: two arrays, [cell]."""
        if self.twisted:
            alike = np.full(self.cells, 2 * len(self.dims))
            return alike, alike
        if self.wraps:
            # Two links join a pair of cells that is alone on its line, and the parity of a cell chooses the one for its
            # own data. Data that have already travelled along other dimensions come on both; without such, all
            # come on the one that the neighbour's parity chooses.
            leaving = sum(1 if size == 2 else min(size - 1, 2) for size in self.dims)
            received = sum(
                min(size - 1, 2) if size != 2 or all(other == 1 for other in self.dims[axis + 1 :]) else 2
                for axis, size in enumerate(self.dims)
            )
            return np.full(self.cells, received), np.full(self.cells, leaving)
        sides = np.zeros(self.cells, np.int64)
        for place, size in zip(np.indices(self.dims), self.dims, strict=True):
            sides += ((place > 0).astype(np.int64) + (place < size - 1)).ravel()
        return sides, sides

    def halves(self) -> list[tuple[int, int, int]]:
        """Return the cuts through the middle of each dimension of more than one cell, the last dimension first:
        (dimension from 0, cells of one half, the smaller one, directed links into that half). The ends of all short
        lines of a twisted torus count for the long dimensions, whose middle they cross."""
        sides, short = 2 if self.wraps else 1, sum(map(self._short, range(len(self.dims))))
        closing = short * self.cells // min(self.dims)
        return [
            (axis, lines * (size // 2), sides * lines + (0 if self._short(axis) else closing))
            for axis, size in reversed(list(enumerate(self.dims)))
            if size > 1 and (lines := self.cells // size)
        ]

    def snake(self) -> Ints:
        """Return all cells in an order in which successive ones are one link apart, from cell 0 on: lines alternate
        their direction. The last cell may be far from the first."""
        order = np.zeros(1, np.int64)
        for size in reversed(self.dims):
            order = np.concatenate([i * len(order) + (order if i % 2 == 0 else order[::-1]) for i in range(size)])
        return order


class _LineShape(NamedTuple):
    """The lines of a grid along each of its dimensions."""

    places: Ints
    """Coordinates of each cell: [cell, dimension]."""
    sizes: Ints
    """Extents as lines along each dimension see them: [dimension of the line, dimension]."""
    short: Mask
    """True for the short dimensions of a twisted torus: [dimension]."""
    side: int
    """Cells along the short dimensions."""
    wraps: bool


@lru_cache(maxsize=64)
def _line_shape(lattice: Lattice) -> _LineShape:
    """Return the lines of a grid, cached; the arrays must not be changed."""
    axes = range(len(lattice.dims))
    sizes = np.array([lattice._line_sizes(axis) for axis in axes])
    short = np.array([lattice._short(axis) for axis in axes])
    places = np.stack(lattice.coordinates(np.arange(lattice.cells)), axis=1)
    return _LineShape(np.ascontiguousarray(places, np.int64), sizes, short, min(lattice.dims), lattice.wraps)


@njit_inlined
def _shorter(ahead: int, size: int, even: bool) -> int:
    """Return the signed number of links of the shorter way around a closed line of ``size`` cells to the cell ``ahead``
    cells on, from −size to twice the size, negative for backward; where both ways are equally short, forward where
    ``even`` is True."""
    forward = ahead + size * (int(ahead < 0) - int(ahead >= size))
    return forward - (0 if 2 * forward < size + even else size)


@njit_cached
def _twisted_steps(ahead: Ints, short: Mask, side: int, even: bool, step: Ints) -> None:
    """Write the signed links along each dimension of a shortest route on a twisted torus with sides ``side`` and its
    double, as :meth:`Lattice.steps` says: [dimension].

    ``ahead`` is the coordinate of the destination less that of the source, [dimension], and ``even`` True where the
    source's coordinate sum is even.
    """
    least, way, crossings = -1, np.empty_like(step), 1 << short.sum()
    for over in range(crossings):
        odd, left = 0, over
        while left:
            odd, left = odd ^ (left & 1), left >> 1
        links, bit = 0, crossings
        for axis in range(len(ahead)):
            if short[axis]:
                bit >>= 1
                way[axis] = ahead[axis]
                if over & bit:
                    forward = ahead[axis] < 0 or (ahead[axis] == 0 and even)
                    way[axis] += side if forward else -side
            else:
                way[axis] = _shorter(ahead[axis] + side * odd, 2 * side, even)
            links += abs(way[axis])
        if least < 0 or links < least or (links == least and not even):
            least = links
            step[:] = way


@njit_cached
def _link_runs(shape: _LineShape, source: Ints, destination: Ints, copy: Ints, total: int, runs: Ints) -> None:
    """Write, for each dimension in the order of the route, base, start, length and direction (1 for backward) of the
    links of each transfer, as :meth:`Lattice.runs` returns them: [dimension, column, transfer].

    Args:
        source, destination, copy: cells and number of the grid: [transfer] each.
        total: cells of all grids whose links are numbered together.
    """
    places, axes, side, twisted = shape.places, shape.places.shape[1], shape.side, shape.short.any()
    cell, ahead, step = np.empty(axes, np.int64), np.empty(axes, np.int64), np.empty(axes, np.int64)
    for transfer in range(len(source)):
        odd = 0
        for axis in range(axes):
            cell[axis] = places[source[transfer], axis]
            ahead[axis] = places[destination[transfer], axis] - cell[axis]
            odd ^= cell[axis] & 1
        if twisted:
            _twisted_steps(ahead, shape.short, side, odd == 0, step)
        else:
            for axis in range(axes):
                step[axis] = _shorter(ahead[axis], shape.sizes[axis, axis], odd == 0) if shape.wraps else ahead[axis]
        for turn in range(axes):
            axis = axes - 1 - turn
            size, half = shape.sizes[axis, axis], 0
            if shape.short[axis]:
                # A line goes on in the other half of the long dimensions.
                for other in range(axes - 1, -1, -1):
                    half = half if shape.short[other] else cell[other] // side
                _move(cell, shape.short, side, half)
                cell[axis] += side * half
            line = copy[transfer]
            for other in range(axes):
                if other != axis:
                    line = line * shape.sizes[axis, other] + cell[other]
            start, backward = cell[axis], step[axis] < 0
            end = start + step[axis]
            end += size * (int(end < 0) - int(end >= size))
            runs[turn, 0, transfer] = (2 * turn + backward) * total + line * size
            runs[turn, 1, transfer] = end if backward else start
            runs[turn, 2, transfer] = abs(step[axis])
            runs[turn, 3, transfer] = backward
            cell[axis] = end
            if shape.short[axis]:
                _move(cell, shape.short, side, end // side)
                cell[axis] = end % side


@njit_inlined
def _move(cell: Ints, short: Mask, side: int, half: int) -> None:
    """Move, in place, the long coordinates of a cell of a twisted torus by ``half`` times half of their length."""
    for axis in range(len(cell)):
        if not short[axis]:
            cell[axis] = (cell[axis] + side * half) % (2 * side)


def most_square(ranks: int, dimensions: int) -> tuple[int, ...]:
    """Return the sizes of a grid of exactly ``ranks`` cells in so many ``dimensions``, about equal and smaller ones
    first. Each size but the last is the largest divisor of the cells left that is at most their root of as many
    dimensions as are left, 1 if need be; the last takes what remains: 24 in 3 dimensions gives (2, 3, 4)."""
    dims: list[int] = []
    for left in range(dimensions, 1, -1):
        root = round(ranks ** (1 / left))
        size = next(size for size in range(root, 0, -1) if size**left <= ranks and ranks % size == 0)
        dims.append(size)
        ranks //= size
    return (*dims, ranks)


def describe(dims: Sequence[int]) -> str:
    """Return a grid's sizes as text, such as ``4x4x8``."""
    return "x".join(map(str, dims))
