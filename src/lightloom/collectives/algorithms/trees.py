"""Double binary trees: halves of the data are added up two binary trees and come down again, piece after piece.

    tree 1 of 8 ranks      0 ── 4 ┬─ 2 ┬─ 1        a rank inside one tree is a leaf of the other, so that each sends
                                  │    └─ 3        and receives every byte about twice, as on a ring, in a number of
                                  └─ 6 ┬─ 5        steps that grows with the logarithm of the ranks
                                       └─ 7
    tree 2                 the same of ranks 7, 6, ... 0; of an odd number, of ranks 1, 2, ... 0

Sources: Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
Computing 2009; the trees are those of NCCL 2.30.7, src/graph/trees.cc.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from lightloom.collectives.algorithm import Algorithm, Sends, rows_by_rank
from lightloom.collectives.collective import FROM_ALL_GATHER, ROOTED, TO_OR_FROM_ROOT, Collective
from lightloom.collectives.schedule.build import Moves, all_gather_by_moves, assign_wavelengths, from_broadcast, moves
from lightloom.collectives.schedule.columns import Pipeline, Schedule, grouped
from lightloom.core.arrays import Ints, Mask
from lightloom.machines.fabrics.fabric import Fabric


def parents(ranks: int) -> Ints:
    """Return the parent of each rank in the first of two binary trees, the root 0 being its own: [rank].

    A parent has the lowest set bit of the rank cleared and the next higher one set, or only cleared where the former is
    no rank.
    """
    rank = np.arange(ranks)
    bit = rank & -rank
    up = (rank ^ bit) | (bit << 1)
    return np.asarray(np.where(up < ranks, up, rank ^ bit))


def double_tree(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:  # noqa: ARG001 - every algorithm takes it
    """Return an all-reduce up two binary trees and down again, a pipeline of one piece, not yet verified.

    The data is two chunks, a half for each tree; the second tree is the first of ranks in reverse or, of an odd number,
    of the ranks from 1 on and then 0. ``striped`` has no effect.
    """
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
    """Return the transfers from the chosen places of both trees to their parents (``up``), which add there, or from the
    parents to them; the first tree carries half 0 of the data, the second half 1, and its transfers come first.

    ``places`` has the rank at each place of either tree, [place], ``parent`` the place of each one's parent, and
    ``chosen`` is True for places that take part.
    """
    child = np.flatnonzero(chosen)
    children, above = (np.concatenate([tree[ends] for tree in places]) for ends in (child, parent[child]))
    half = np.repeat([0, 1], len(child))
    return moves(children, above, half, reduces=True) if up else moves(above, children, half)


def declines(kind: str, fabric: Fabric) -> str | None:  # noqa: ARG001 - it serves one kind
    """Return a sentence if the fabric is circuit-switched, where the pieces of the double binary tree cannot follow
    each other; None on packet fabrics."""
    why = "double-binary-tree sends pieces of packets, and this fabric is circuit-switched"
    return why if fabric.exclusive else None


DOUBLE_TREE = Algorithm(
    name="double-binary-tree",
    build=double_tree,
    kinds=("all-reduce",),
    pipelined=True,
    declines=declines,
    rows=rows_by_rank,
    summary="halves up two binary trees and down again, in pieces",
)


# Algorithms with one root: everything goes to rank 0 level by level, and down again.
#
# Binomial tree: pairs at distance 1, 2, 4, ... combine until rank 0 has everything, and the way back.
#
# 0                              as all-reduce: whole vectors are added on the way up and copied on the way down
# ├─ 1                           as all-gather: shares are gathered at rank 0, which hands every rank what it lacks
# ├─ 2 ── 3
# └─ 4 ┬─ 5                      as gather and scatter: half of that, up or down
# └─ 6 ── 7
#
# Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#
# Worker-aggregator (parameter server): everyone sends to rank 0, which adds and sends back.
#
# 1 ─▶ ┐             rank 0 is a worker too; it needs no message to itself
# 2 ─▶ 0 ─▶ 1, 2, 3
# 3 ─▶ ┘
#
# Sources: Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014; INCEPTIONN, Fig. 1.

Levels = list[tuple[Ints, Ints, int]]
"""Children, their parents and the ranks of a child's subtree, leaves first."""


def powers_below(ranks: int) -> list[int]:
    """Return the powers of two below the number of ranks: 1, 2, 4, ..., ceil(log2 N) of them."""
    return [1 << k for k in range((ranks - 1).bit_length())]


def binomial_levels(ranks: int) -> Levels:
    """Return the levels of a binomial tree, for any number of ranks, leaves first: (children, their parents, ranks of a
    child's whole subtree) each.

    Level k joins ranks d, 3 d, 5 d, ..., where d is 2 to the k-th power, to the ranks d below them. The third is d,
    though the last child's subtree may have fewer ranks.
    """
    return [(np.arange(d, ranks, 2 * d), np.arange(d, ranks, 2 * d) - d, d) for d in powers_below(ranks)]


def star_levels(ranks: int) -> Levels:
    """Return the one level of a tree in which every other rank is a child of rank 0, as a list of one (children, their
    parents, 1), the last being the ranks of a child's subtree."""
    workers = np.arange(1, ranks)
    return [(workers, np.zeros_like(workers), 1)]


def _up_and_down(
    name: str, tree: Callable[[int], Levels], collective: Collective, fabric: Fabric, *, striped: bool = False
) -> Schedule:
    """Return the schedule of a kind of collective over a tree with root 0, not yet verified.

    Whole vectors pass in an all-reduce, a broadcast or a reduce, the parts of a subtree in a gather or scatter, and in
    an all-gather the shares of a subtree up and then down what the receiver's subtree lacks; a reduce-scatter is its
    reverse.

    Args:
        name: name of the algorithm.
        tree: function that returns the levels of the tree among so many ranks, leaves first.
        striped: transfers bundle the channels that their step leaves free.
    """
    n, levels = collective.ranks, tree(collective.ranks)
    down = [moves(parent, child, 0) for child, parent, _ in reversed(levels)]
    if collective.kind == "all-reduce":
        up = [moves(child, parent, 0, reduces=True) for child, parent, _ in levels]
        return assign_wavelengths(name, collective, fabric, 1, up + down, striped=striped)
    if collective.kind in ROOTED:
        spread = partial(assign_wavelengths, name, fabric=fabric, chunks=1, logical=down, striped=striped)
        return from_broadcast(collective, fabric, spread)
    if collective.kind in TO_OR_FROM_ROOT:
        return _subtrees_alone(name, collective, fabric, levels, striped)
    logical, back = list[Moves](), list[Moves]()
    for child, parent, size in levels:
        own = (np.arange(n) >= child[:, None]) & (np.arange(n) < child[:, None] + size)
        logical.append(_share_moves(child, parent, own))
        back.append(_share_moves(parent, child, ~own))
    logical += reversed(back)
    return all_gather_by_moves(name, lambda _: logical, collective, fabric, striped=striped)


def _subtrees_alone(name: str, collective: Collective, fabric: Fabric, levels: Levels, striped: bool) -> Schedule:
    """Return a gather, in which each child passes the parts of its whole subtree to its parent, or a scatter the other
    way.

    ``levels`` are those of a tree, leaves first: children, parents and ranks of a child's subtree. ``name`` is that of
    the algorithm; with ``striped`` transfers bundle the channels that their step leaves free.
    """
    up, logical = collective.kind == "gather", []
    for child, parent, size in levels if up else reversed(levels):
        which, place = grouped(np.minimum(size, collective.ranks - child))
        ends = child[which], parent[which]
        logical.append(moves(*(ends if up else ends[::-1]), child[which] + place))
    return assign_wavelengths(name, collective, fabric, collective.parts, logical, striped=striped)


def _share_moves(source: Ints, destination: Ints, sent: Mask) -> Moves:
    """Return moves in which ``source[i]`` sends ``destination[i]`` the chunks that ``sent`` [i, chunk] marks; none
    reduces."""
    which, chunk = np.nonzero(sent)
    return moves(source[which], destination[which], chunk)


def _tree_sends(levels: Levels, ranks: int | None = None) -> list[Sends]:
    """Return the steps up a tree and down again: of whole vectors, or, where ``ranks`` says how many shares there are,
    of those of the smallest subtree of each level up, and of all others down."""
    up, down = list[Sends](), list[Sends]()
    for child, parent, size in levels:
        least = 1 if ranks is None else min(size, ranks - int(child[-1]))
        up.append(Sends(1.0 if ranks is None else least / ranks, child, parent))
        down.append(Sends(1.0 if ranks is None else 1 - size / ranks, parent, child))
    return up + down


BINOMIAL_TREE = Algorithm(
    name="binomial-tree",
    build=partial(_up_and_down, "binomial-tree", binomial_levels),
    by_structure=True,
    ends=lambda ranks: [level[:2] for level in binomial_levels(ranks)],
    sends=lambda fabric: _tree_sends(binomial_levels(fabric.ranks), fabric.ranks),
    sums=lambda fabric: _tree_sends(binomial_levels(fabric.ranks)),
    kinds=(*FROM_ALL_GATHER, *ROOTED, *TO_OR_FROM_ROOT),
    rows=rows_by_rank,
    summary="up a binomial tree to rank 0, and back",
)

WORKER_AGGREGATOR = replace(
    BINOMIAL_TREE,
    name="worker-aggregator",
    build=partial(_up_and_down, "worker-aggregator", star_levels),
    ends=lambda ranks: [level[:2] for level in star_levels(ranks)],
    sends=lambda fabric: _tree_sends(star_levels(fabric.ranks), fabric.ranks),
    sums=lambda fabric: _tree_sends(star_levels(fabric.ranks)),
    kinds=(*FROM_ALL_GATHER, *ROOTED),
    summary="all to rank 0, and back (parameter server)",
)
