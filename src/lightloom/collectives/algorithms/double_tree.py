"""Double binary trees: halves of the data are added up two binary trees and come down again, piece after piece.

    tree 1 of 8 ranks      0 ── 4 ┬─ 2 ┬─ 1        a rank inside one tree is a leaf of the other, so that each sends
                                  │    └─ 3        and receives every byte about twice, as on a ring, in a number of
                                  └─ 6 ┬─ 5        steps that grows with the logarithm of the ranks
                                       └─ 7
    tree 2                 the same of ranks 7, 6, ... 0; of an odd number, of ranks 1, 2, ... 0

Sources: Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
Computing 2009; the trees are those of NCCL 2.30.7, src/graph/trees.cc.
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.algorithm import Algorithm, rows_by_rank
from lightloom.collectives.schedule.build import Moves, assign_wavelengths, moves
from lightloom.collectives.schedule.columns import Pipeline, Schedule
from lightloom.collectives.spec import Collective
from lightloom.core.arrays import Ints
from lightloom.fabrics.base import Fabric


def parents(ranks: int) -> Ints:
    """Parent of each rank in the first tree, the root 0 being its own: [rank]."""
    rank = np.arange(ranks)
    bit = rank & -rank
    up = (rank ^ bit) | (bit << 1)
    result: Ints = np.where(up < ranks, up, rank ^ bit)
    return result


def double_tree(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:  # noqa: ARG001 - every algorithm takes it
    """Up both trees and down again, a pipeline of one piece."""
    n, rank = collective.ranks, np.arange(collective.ranks)
    parent = parents(n)
    height, depth = np.zeros((2, n), np.int64)
    by_bit = np.argsort(rank & -rank, kind="stable")
    lower = by_bit[by_bit > 0]
    for child in lower:
        height[parent[child]] = max(height[parent[child]], height[child] + 1)
    for child in lower[::-1]:
        depth[child] = depth[parent[child]] + 1
    places = (rank, n - 1 - rank if n % 2 == 0 else (rank + 1) % n)
    up = [_level(places, parent, (height == step) & (rank > 0), up=True) for step in range(height.max())]
    down = [_level(places, parent, depth == step, up=False) for step in range(1, depth.max() + 1)]
    schedule = assign_wavelengths("double-binary-tree", collective, fabric, 2, up + down)
    return schedule.with_columns({}, pipeline=Pipeline(1, schedule.steps))


def _level(places: tuple[Ints, Ints], parent: Ints, chosen: Ints, *, up: bool) -> Moves:
    """Transfers between some ranks and their parents, of each tree its own half."""
    child = np.flatnonzero(chosen)
    children, above = (np.concatenate([tree[ends] for tree in places]) for ends in (child, parent[child]))
    half = np.repeat([0, 1], len(child))
    return moves(children, above, half, reduces=True) if up else moves(above, children, half)


def declines(kind: str, fabric: Fabric) -> str | None:  # noqa: ARG001 - it serves one kind
    """Why pieces cannot follow each other; None where they can."""
    return (
        "double-binary-tree sends pieces of packets, and this fabric is circuit-switched" if fabric.exclusive else None
    )


DOUBLE_TREE = Algorithm(
    name="double-binary-tree",
    build=double_tree,
    kinds=("all-reduce",),
    pipelined=True,
    declines=declines,
    rows=rows_by_rank,
    summary="halves up two binary trees and down again, in pieces",
)
