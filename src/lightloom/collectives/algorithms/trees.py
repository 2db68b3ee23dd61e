"""Trees with one root: binomial tree, and worker-aggregator (parameter server).

    binomial tree, N = 8        worker-aggregator
       0                            1 ─▶ ┐
       ├─ 1                         2 ─▶ 0 ─▶ everyone
       ├─ 2 ── 3                    3 ─▶ ┘
       └─ 4 ┬─ 5
            └─ 6 ── 7

As all-reduce whole vectors are added on the way to rank 0 and copied on the way back. As all-gather shares are
gathered at rank 0 and every rank is then sent what it lacks. Rank 0 is a worker too; it needs no message to itself.

Sources: Thakur, Rabenseifner and Gropp, IJHPCA 2005 (binomial); Li et al., "Scaling distributed machine learning
with the parameter server", OSDI 2014; INCEPTIONN, Fig. 1 (worker-aggregator).
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.build import Moves, lay, moves
from lightloom.collectives.compose import from_all_gather
from lightloom.collectives.schedule import Schedule
from lightloom.collectives.spec import Collective
from lightloom.fabrics.base import Fabric


def binomial_rounds(ranks: int) -> int:
    """Rounds up, and as many down: ceil(log2 N)."""
    return (ranks - 1).bit_length()


def binomial_tree(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Binomial tree to rank 0 and back."""
    n = collective.ranks
    distances = [1 << k for k in range(binomial_rounds(n))]
    levels = [(np.arange(d, n, 2 * d), np.arange(d, n, 2 * d) - d, d) for d in distances]
    return _up_and_down("binomial-tree", collective, fabric, levels, striped)


def worker_aggregator(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Every worker sends to rank 0, which adds and sends back."""
    workers = np.arange(1, collective.ranks)
    return _up_and_down("worker-aggregator", collective, fabric, [(workers, np.zeros_like(workers), 1)], striped)


def _up_and_down(
    name: str,
    collective: Collective,
    fabric: Fabric,
    levels: list[tuple[np.ndarray, np.ndarray, int]],
    striped: bool,
) -> Schedule:
    """``levels``: (children, their parents, ranks of a child's subtree), leaves first."""
    name = f"{name}-striped" if striped else name
    n = collective.ranks
    if collective.kind == "all-reduce":
        up = [moves(child, parent, 0, reduces=True) for child, parent, _ in levels]
        down = [moves(parent, child, 0) for child, parent, _ in reversed(levels)]
        return lay(name, collective, fabric, 1, up + down, striped=striped)
    logical = [_subtrees(child, parent, size, n) for child, parent, size in levels]
    logical += [_the_rest(child, parent, size, n) for child, parent, size in reversed(levels)]
    return from_all_gather(collective, fabric, lambda gather: lay(name, gather, fabric, n, logical, striped=striped))


def _subtrees(child: np.ndarray, parent: np.ndarray, size: int, n: int) -> Moves:
    chunk = child[:, None] + np.arange(size)
    held = chunk < n
    return moves(np.broadcast_to(child[:, None], chunk.shape)[held],
                 np.broadcast_to(parent[:, None], chunk.shape)[held], chunk[held])  # fmt: skip


def _the_rest(child: np.ndarray, parent: np.ndarray, size: int, n: int) -> Moves:
    chunk = np.broadcast_to(np.arange(n), (len(child), n))
    lacking = (chunk < child[:, None]) | (chunk >= child[:, None] + size)
    return moves(np.broadcast_to(parent[:, None], chunk.shape)[lacking],
                 np.broadcast_to(child[:, None], chunk.shape)[lacking], chunk[lacking])  # fmt: skip
