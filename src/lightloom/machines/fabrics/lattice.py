"""Grids of any number of dimensions, open (mesh) or closed (torus), with dimension-ordered routes.

Cells are numbered row by row: the last dimension changes fastest. A route runs along the last dimension first, then
along the one before it, so that the first dimension comes last. The links of a dimension lie on lines, one for each
choice of the other coordinates, and each line has a track of links forward and one backward:

    forward link a     a ──▶ a+1
    backward link a    a ◀── a+1        (modulo the line's length; an open line does not use the last)
"""

from collections.abc import Sequence
from math import prod
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field

from lightloom.core.arrays import Ints, Mask
from lightloom.core.fields import Count


def _parsed(value: Any) -> Any:
    """Return the sizes that a text such as ``4x4x8`` lists; anything else is left to the type."""
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

    def columns(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the four numbers of each transfer, as a footprint holds them."""
        return self.base, self.start, self.length, np.full_like(self.start, self.period)


class Lattice(NamedTuple):
    """The shape of a grid."""

    dims: tuple[int, ...]
    """Cells along each dimension."""
    wraps: bool
    """True if the ends of every line are joined."""

    @property
    def cells(self) -> int:
        return prod(self.dims)

    @property
    def links(self) -> int:
        """Directed links, those that an open line does not use included."""
        return 2 * len(self.dims) * self.cells

    def coordinates(self, cell: Ints) -> tuple[Ints, ...]:
        """Return the places of cells along each dimension: an array in the shape of ``cell`` for each dimension."""
        return np.unravel_index(np.asarray(cell, dtype=np.int64), self.dims)

    def runs(self, source: Ints, destination: Ints, copies: int = 1, copy: Ints | int = 0) -> list[LinkRun]:
        """Return the links of transfers between cells, one run a dimension, in the order of the route.

        Args:
            source, destination: cells, each of shape [transfer].
            copies: grids of this shape that are numbered together. copy: the one that each transfer takes.
        """
        start, end = list(self.coordinates(source)), self.coordinates(destination)
        even = np.sum(start, axis=0) % 2 == 0
        runs, total = [], copies * self.cells
        for turn, axis in enumerate(reversed(range(len(self.dims)))):
            size = self.dims[axis]
            forward, length = self._way(end[axis] - start[axis], size, even)
            line: Ints = np.zeros_like(start[axis]) + copy
            for other in (other for other in range(len(self.dims)) if other != axis):
                line = line * self.dims[other] + start[other]
            base = 2 * turn * total + np.where(forward, 0, total) + line * size
            runs.append(LinkRun(base, np.where(forward, start[axis], end[axis]), length, size, ~forward))
            start[axis] = end[axis]
        return runs

    def _way(self, ahead: Ints, size: int, even: Mask) -> tuple[Mask, Ints]:
        """Return which transfers run forward, and over how many links; parity of the source decides ties."""
        if not self.wraps:
            length = np.abs(ahead)
            return ahead == length, length
        ahead = ahead % size
        forward = (2 * ahead < size) | ((2 * ahead == size) & even)
        return forward, np.where(forward, ahead, (size - ahead) % size)

    def hops(self, source: Ints, destination: Ints) -> Ints:
        """Return the number of links between cells: the sum of the distances along the dimensions."""
        links = np.zeros(np.broadcast_shapes(np.shape(source), np.shape(destination)), np.int64)
        for size, start, end in zip(self.dims, self.coordinates(source), self.coordinates(destination), strict=True):
            distance = np.abs(end - start)
            links += np.minimum(distance, size - distance) if self.wraps else distance
        return links

    def ends(self, link: int, copies: int = 1) -> tuple[int, int, int, int, bool]:
        """Return dimension, copy, first cell and last cell of a link, and whether it leads forward."""
        turn, rest = divmod(link, 2 * copies * self.cells)
        backward, rest = divmod(rest, copies * self.cells)
        axis = len(self.dims) - 1 - turn
        line, place = divmod(rest, self.dims[axis])
        others = [self.dims[other] for other in range(len(self.dims)) if other != axis]
        copy, *fixed = (int(part) for part in np.unravel_index(line, (copies, *others)))
        cells = [
            int(np.ravel_multi_index((*fixed[:axis], spot % self.dims[axis], *fixed[axis:]), self.dims))
            for spot in (place, place + 1)
        ]
        origin, end = reversed(cells) if backward else cells
        return axis, copy, origin, end, not backward

    @property
    def diameter(self) -> int:
        return sum(size // 2 if self.wraps else size - 1 for size in self.dims)

    @property
    def smallest_degree(self) -> int:
        """Links of which the cell with the fewest receives."""
        return int(self.degrees()[0].min())

    @property
    def total_degree(self) -> int:
        """Links on which cells receive, summed over the cells."""
        return int(self.degrees()[0].sum())

    def degrees(self) -> tuple[Ints, Ints]:
        """Return the number of links on which each cell receives, and on which its own data leave: each [cell]."""
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
        """Cuts through the middle of each dimension that has one: (dimension, cells inside, links into them)."""
        sides = 2 if self.wraps else 1
        lines = {axis: self.cells // size for axis, size in enumerate(self.dims)}
        return [
            (axis, lines[axis] * (size // 2), sides * lines[axis])
            for axis, size in reversed(list(enumerate(self.dims)))
            if size > 1
        ]

    def snake(self) -> Ints:
        """Return an order of the cells in which neighbours are one link apart: lines alternate their direction."""
        order = np.zeros(1, np.int64)
        for size in reversed(self.dims):
            cells = len(order)
            order = np.concatenate([i * cells + (order if i % 2 == 0 else order[::-1]) for i in range(size)])
        return order


def most_square(ranks: int, dimensions: int) -> tuple[int, ...]:
    """Return the sizes of a grid of exactly ``ranks`` cells, as equal as they can be, the smaller ones first."""
    dims: list[int] = []
    for left in range(dimensions, 1, -1):
        root = round(ranks ** (1 / left))
        size = next(size for size in range(root, 0, -1) if size**left <= ranks and ranks % size == 0)
        dims.append(size)
        ranks //= size
    return (*dims, ranks)


def describe(dims: Sequence[int]) -> str:
    """Return a grid's sizes for people: ``4x4x4``."""
    return "x".join(map(str, dims))
