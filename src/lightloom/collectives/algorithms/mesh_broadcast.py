"""Broadcasts on a mesh, all at once: along the rows, then along the columns (Eq. 3 of optical DaDianNao).

    row phase        0 → 1 → 2      every rank passes on, both ways, what it received in the step before:
                     0 ← 1 ← 2      columns − 1 steps of one share
    column phase     the same with whole rows: rows − 1 steps of ``columns`` shares

On rows × columns ranks that is (rows + columns − 2) latencies and rows · columns − 1 shares over a link: Eq. 3 on a
square mesh. While one axis sends the other is idle; with every share halved, and one half sent along the columns first,
both are busy and the bandwidth term is half as long, which the corner ranks' two links do not allow to undercut.

Source: optical DaDianNao, Eq. 3; both axes at once are ours.
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.schedule.build import Moves, assign_wavelengths, moves
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.compose import from_all_gather
from lightloom.collectives.spec import Collective
from lightloom.core.arrays import Ints
from lightloom.fabrics.base import Fabric


def mesh_broadcast(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:  # noqa: ARG001 - every algorithm takes it
    """Along the rows, then along the columns."""
    logical = _phases(_ranks(fabric), 1, 0)
    return from_all_gather(
        collective, fabric, lambda gather: assign_wavelengths("mesh-broadcast", gather, fabric, fabric.ranks, logical)
    )


def both_axes(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:  # noqa: ARG001 - every algorithm takes it
    """Half of every share along the rows first, the other half along the columns first."""
    grid, name = _ranks(fabric), "mesh-broadcast-both-axes"
    logical = [_together(a, b) for a, b in zip(_phases(grid, 2, 0), _phases(grid.T, 2, 1), strict=True)]
    return from_all_gather(
        collective, fabric, lambda gather: assign_wavelengths(name, gather, fabric, 2 * fabric.ranks, logical)
    )


def _ranks(fabric: Fabric) -> Ints:
    """Ranks of the grid: [row, column]."""
    assert fabric.grid is not None
    return np.arange(fabric.ranks, dtype=np.int64).reshape(fabric.grid.rows, fabric.grid.columns)


def declines(kind: str, fabric: Fabric) -> str | None:  # noqa: ARG001 - all kinds alike
    """Why there is no mesh; None where there is."""
    return (
        None if fabric.grid is not None else f"mesh-broadcast needs a grid of ranks, and a {fabric.kind_name} has none"
    )


def declines_oblong(kind: str, fabric: Fabric) -> str | None:
    """Why both axes cannot keep step; None where they can."""
    grid = fabric.grid
    if grid is None or grid.rows == grid.columns:
        return declines(kind, fabric)
    return f"a mesh of {grid.rows} x {grid.columns}: both axes at once need a square one"


def _phases(grid: Ints, halves: int, half: int) -> list[Moves]:
    """Return the steps: along the rows of the grid share by share, then along its columns row by row."""
    alone, whole_rows = grid[:, :, None], np.broadcast_to(grid[:, None, :], (*grid.shape, grid.shape[1]))
    along_rows = _along(grid, alone, halves, half)
    along_columns = _along(grid.T, whole_rows.swapaxes(0, 1), halves, half)
    return along_rows + along_columns


def _along(lines: Ints, held: Ints, halves: int, half: int) -> list[Moves]:
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


MESH_BROADCAST = Algorithm(
    name="mesh-broadcast",
    build=mesh_broadcast,
    by_structure=True,
    declines=declines,
    summary="along the rows of a mesh, then along its columns",
)

BOTH_AXES = Algorithm(
    name="mesh-broadcast-both-axes",
    build=both_axes,
    by_structure=True,
    declines=declines_oblong,
    summary="along rows and columns of a square mesh at once, half of every share each",
)
