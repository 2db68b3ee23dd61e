"""What algorithms with one root share: up to rank 0 level by level, and down again."""

from __future__ import annotations

import numpy as np

from lightloom.collectives.schedule.build import Moves, assign_wavelengths, moves
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.compose import from_all_gather, from_broadcast
from lightloom.collectives.spec import ROOTED, Collective
from lightloom.core.arrays import Ints, Mask
from lightloom.fabrics.base import Fabric


def up_and_down(
    name: str,
    collective: Collective,
    fabric: Fabric,
    levels: list[tuple[Ints, Ints, int]],
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
    subtrees = [(np.arange(n) >= child[:, None]) & (np.arange(n) < child[:, None] + size) for child, _, size in levels]
    logical = [_shares(child, parent, own) for (child, parent, _), own in zip(levels, subtrees, strict=True)]
    logical += [_shares(parent, child, ~own) for (child, parent, _), own in zip(levels, subtrees, strict=True)][::-1]
    return from_all_gather(
        collective, fabric, lambda gather: assign_wavelengths(name, gather, fabric, n, logical, striped=striped)
    )


def _shares(source: Ints, destination: Ints, sent: Mask) -> Moves:
    """Every source sends the shares that ``sent`` [source, chunk] marks."""
    which, chunk = np.nonzero(sent)
    return moves(source[which], destination[which], chunk)
