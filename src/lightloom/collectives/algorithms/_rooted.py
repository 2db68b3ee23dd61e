"""What algorithms with one root share: up to rank 0 level by level, and down again."""

from __future__ import annotations

import numpy as np

from lightloom.collectives.schedule.build import Moves, assign_wavelengths, moves
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.compose import from_all_gather, from_broadcast
from lightloom.collectives.spec import ROOTED, Collective
from lightloom.fabrics.base import Fabric


def up_and_down(
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
        return assign_wavelengths(name, collective, fabric, 1, up + down, striped=striped)
    if collective.kind in ROOTED:
        down = [moves(parent, child, 0) for child, parent, _ in reversed(levels)]
        return from_broadcast(
            collective, fabric, lambda spread: assign_wavelengths(name, spread, fabric, 1, down, striped=striped)
        )
    logical = [_subtrees(child, parent, size, n) for child, parent, size in levels]
    logical += [_the_rest(child, parent, size, n) for child, parent, size in reversed(levels)]
    return from_all_gather(
        collective, fabric, lambda gather: assign_wavelengths(name, gather, fabric, n, logical, striped=striped)
    )


def _subtrees(child: np.ndarray, parent: np.ndarray, size: int, n: int) -> Moves:
    chunk = child[:, None] + np.arange(size)
    held = chunk < n
    return moves(
        np.broadcast_to(child[:, None], chunk.shape)[held],
        np.broadcast_to(parent[:, None], chunk.shape)[held],
        chunk[held],
    )


def _the_rest(child: np.ndarray, parent: np.ndarray, size: int, n: int) -> Moves:
    chunk = np.broadcast_to(np.arange(n), (len(child), n))
    lacking = (chunk < child[:, None]) | (chunk >= child[:, None] + size)
    return moves(
        np.broadcast_to(parent[:, None], chunk.shape)[lacking],
        np.broadcast_to(child[:, None], chunk.shape)[lacking],
        chunk[lacking],
    )
