"""All-reduce on meshes and tori over trees whose links together are used alike.

    along the rows first          along the columns first
    ○ ○ ○ ○                       ○─○─○─○
    │ │ │ │                           │
    ○─○─○─○   the spine           ○─○─○─○
    │ │ │ │                           │
    ○ ○ ○ ○                       ○─○─○─○

Sums of a chunk run up its tree, their total back down, and chunks follow each other. A tree has N − 1 links, so that E
links each way carry C chunks in no fewer than (N − 1) C / E rounds up and down. Trees with a spine along every row, and
along every column, use all links alike: on a mesh, where a corner would receive a reduce-scatter and an all-gather by
two links, this halves the time. Chunks begin and end as far from each other as trees are deep.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.schedule.build import Rows, assemble
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.core.arrays import Ints
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.capabilities import Grid

_MOST_ROWS = 1 << 23
_LONG_ENOUGH = 200
"""Times the depth of trees in rounds; more of them gain less than a hundredth."""


@dataclass(frozen=True, slots=True, eq=False)
class GridTrees:
    """Trees over a grid: the parent of every rank, −1 at the root, [tree, rank]; and that of each chunk, [chunk]."""

    parent: NDArray[np.int32]
    tree: Ints

    @classmethod
    def of(cls, shape: Grid, chunks: int) -> GridTrees:
        """A tree for each of so many chunks, spines in the middle first."""
        rows, columns, wraps = shape
        by_row = _share_of_rows(rows, columns)
        spines: dict[tuple[bool, int, int], int] = {}
        tree = np.empty(chunks, np.int64)
        used = [0, 0]
        for chunk in range(chunks):
            along_row = int((chunk + 1) * by_row + 0.5) > int(chunk * by_row + 0.5)
            turn = used[along_row]
            used[along_row] += 1
            size, other = (rows, columns) if along_row else (columns, rows)
            spine = (size // 2 + (turn + 1) // 2 * (1 - turn % 2 * 2)) % size
            # Around a torus also the gaps, which lie opposite to the root, take their turns.
            middle = (other // 2 + turn // size) % other if wraps else other // 2
            root = (spine, middle) if along_row else (middle, spine)
            tree[chunk] = spines.setdefault((along_row, *root), len(spines))
        return cls(np.stack([_parents(shape, *key) for key in spines]), tree)


def _share_of_rows(rows: int, columns: int) -> float:
    """Part of the chunks with a spine along a row, so that links along rows and along columns carry as many."""
    if rows == 1 or columns == 1:
        return float(columns > 1)
    return (1 - 1 / columns) / (2 - 1 / columns - 1 / rows)


def _parents(shape: Grid, along_row: bool, row: int, column: int) -> NDArray[np.int32]:
    """The next rank on the way to the root; with a spine along the row, ranks first move to that row."""
    rows, columns, wraps = shape
    y, x = (axis.ravel() for axis in np.indices((rows, columns)))
    up, across = _toward(y, row, rows, wraps), _toward(x, column, columns, wraps)
    first = (y != row) if along_row else (x == column)
    parent = np.where(first, up * columns + x, y * columns + across)
    parent[row * columns + column] = -1
    return parent.astype(np.int32)


def _toward(at: Ints, to: int, size: int, wraps: bool) -> Ints:
    ahead = to - at
    if wraps:
        ahead = (ahead + (size - 1) // 2) % size - (size - 1) // 2
    return (at + np.sign(ahead)) % size


def over_trees(collective: Collective, grid: Fabric, shape: Grid) -> Schedule:
    """An all-reduce in rounds, every link carrying one chunk in each; as many chunks as the size asks for. Not yet
    verified.

    Time: linear in chunks · ranks.
    """
    from lightloom.collectives.synthesis.grid import _pipeline_kernels as kernels

    chunks = _chunks(collective, grid, shape)
    trees = GridTrees.of(shape, chunks)
    count = 2 * (grid.ranks - 1) * chunks
    step, source, destination, chunk = np.empty((4, count), np.int32)
    rows = kernels.ReduceRows(step, source, destination, chunk, np.empty(count, np.bool_))
    rounds = kernels.pipeline(trees.parent, *_children(trees.parent), trees.tree, rows)
    none, path = np.zeros(count, np.int8), np.arange(count)
    return assemble(
        "synthesized",
        collective,
        grid,
        Rows(rows.round, path, rows.source, rows.destination, none, none, none, rows.chunk, rows.adds),
        chunks=chunks,
        steps=rounds,
        notes=(f"{chunks} chunks follow each other up and down {len(trees.parent)} trees, in {rounds} rounds",),
    )


def _children(parent: NDArray[np.int32]) -> tuple[Ints, Ints]:
    """Children in each tree as compressed rows: first [tree, rank + 1], and their ranks [tree, place]."""
    ranks = np.arange(parent.shape[1] + 1)
    child = np.argsort(parent, axis=1, kind="stable")
    return np.stack([np.searchsorted(tree[by], ranks) for tree, by in zip(parent, child, strict=True)]), child


def _chunks(collective: Collective, grid: Fabric, shape: Grid) -> int:
    """How many chunks to cut: more of them fill links better and pay the latency of more rounds."""
    rows, columns, wraps = shape
    links = rows * (columns - 1) + columns * (rows - 1)
    if wraps:
        links = rows * columns * ((columns > 1) + (rows > 1))
    deep = 2 * (rows // 2 + columns // 2) + (0 if wraps else max(rows, columns) // 2)
    transmission = collective.nbytes / float(grid.link_bandwidth().min())

    def seconds(chunks: int) -> float:
        return (chunks * (grid.ranks - 1) / links + deep) * (grid.hop_latency + transmission / chunks)

    most = max(1, min(_MOST_ROWS // (2 * grid.ranks), _LONG_ENOUGH * deep * links // (grid.ranks - 1)))
    return min((1 << k for k in range(most.bit_length())), key=seconds)
