"""Eq. 3 as a schedule: all-gather along the rows of a mesh, then along its columns.

    row phase        0 → 1 → 2      every chip passes on, both ways, what it received in the step before:
                     0 ← 1 ← 2      columns − 1 steps of one share
    column phase     the same with whole rows: rows − 1 steps of ``columns`` shares

On rows × columns chips that is (rows + columns − 2) latencies and rows · columns − 1 shares over a link: Eq. 3 on a
square mesh. While one axis sends the other is idle; with every share halved, and one half sent along the columns first,
both are busy and the bandwidth term is half as long, which the corner chips' two links do not allow to undercut.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.schedule.build import Moves, assign_wavelengths, moves
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.collectives.verify.stepped import verify
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.mesh import Mesh


def mesh_broadcast(fabric: Mesh, share: float, *, both_axes: bool = False) -> Schedule:
    """The all-gather of ``share`` bytes of every chip, verified.

    Raises:
        UnsupportedError: both axes at once on a mesh that is not square (the two halves would not keep step).
    """
    rows, columns = fabric.shape
    if both_axes and rows != columns:
        raise UnsupportedError(f"a mesh of {rows} x {columns}: both axes at once need a square one")
    grid = np.arange(fabric.ranks, dtype=np.int64).reshape(rows, columns)
    halves = 2 if both_axes else 1
    logical = _phases(grid, halves, 0)
    if both_axes:
        logical = [_together(a, b) for a, b in zip(logical, _phases(grid.T, halves, 1), strict=True)]
    collective = Collective("all-gather", fabric.ranks, fabric.ranks * share)
    schedule = assign_wavelengths("mesh-broadcast", collective, fabric, halves * fabric.ranks, logical)
    verify(schedule, fabric)
    return schedule


def _phases(grid: NDArray[np.int64], halves: int, half: int) -> list[Moves]:
    """Return the steps: along the rows of the grid share by share, then along its columns row by row."""
    alone, whole_rows = grid[:, :, None], np.broadcast_to(grid[:, None, :], (*grid.shape, grid.shape[1]))
    along_rows = _along(grid, alone, halves, half)
    along_columns = _along(grid.T, whole_rows.swapaxes(0, 1), halves, half)
    return along_rows + along_columns


def _along(lines: NDArray[np.int64], held: NDArray[np.int64], halves: int, half: int) -> list[Moves]:
    """Each line [line, place] of ranks spreads what its places hold [line, place, share] to all of them."""
    length = lines.shape[1]
    logical = []
    for passed in range(length - 1):
        parts = []
        for heading in (1, -1):
            place = np.arange(length)
            origin, to = place - heading * passed, place + heading
            sends = (origin >= 0) & (origin < length) & (to >= 0) & (to < length)
            source, destination = lines[:, place[sends], None], lines[:, to[sends], None]
            parts.append(moves(source, destination, held[:, origin[sends]] * halves + half))
        logical.append(_together(*parts))
    return logical


def _together(first: Moves, second: Moves) -> Moves:
    return moves(
        *(np.concatenate([getattr(first, name), getattr(second, name)]) for name in ("source", "destination", "chunk"))
    )
