"""Schedules of steps without their barriers: queued, so that every row goes as soon as its data is there.

    steps          ████ ··  ████ ··  ████ ··        every step waits for the latency of the one before
    in 2 pieces    ████████████████████████··       the second half of a share leaves while the first one travels

Links serve rows in the order of their steps, and of a step first those to the next rank, then those to the one after
it, so that not all send to the same rank at first. What a schedule moves stays the same, so that it is a queued one if
no rank sends a sum of which it still waits for a part, and none sends a sum twice: trees and rings do so, doubling does
not.
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.counting import distinct, sorted_by
from lightloom.core.arrays import Column, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric


def lightpaths_of(fabric: Fabric, source: Column, destination: Column, route: Column) -> Ints:
    """Number transfers by their ends and routes, as rows of queued schedules on packet links have them: [row]."""
    pair = source.astype(np.int64) * fabric.ranks + destination
    return distinct(pair * fabric.routes + route, fabric.ranks**2 * fabric.routes)[1]


def without_barriers(schedule: Schedule, fabric: Fabric, pieces: int = 1, interval: int = 0) -> Schedule:
    """The rows of a schedule of steps on packet links as a queued one, not yet verified.

    Args:
        schedule: steps in order, folded or not; of a pipeline, its first piece.
        pieces: parts into which every chunk is cut.
        interval: steps after which links prefer the first step of a piece to further steps of the piece before; 0:
            links serve all pieces of a step before those of the next.

    Raises:
        UnsupportedError: circuits, which need set-ups between steps, or steps that depend on each other.
    """
    if fabric.exclusive or fabric.in_network_reduction:
        raise UnsupportedError(f"{schedule.algorithm}: only packets between ranks do without steps")
    if schedule.queued or schedule.dependencies is not None:
        raise UnsupportedError(f"{schedule.algorithm}: expected steps in order")
    first = schedule.first_piece()
    piece = np.repeat(np.arange(pieces), len(first))
    columns = {name: np.tile(column, pieces) for name, column in first.columns().items()}
    columns["chunk"] = columns["chunk"].astype(np.int64) * pieces + piece
    columns["step"] = columns["step"] + piece * interval
    ahead = (columns["destination"].astype(np.int64) - columns["source"]) % fabric.ranks
    order = sorted_by(ahead, piece, columns["step"])
    columns = {name: column[order] for name, column in columns.items()}
    path = lightpaths_of(fabric, columns["source"], columns["destination"], columns["route"])
    return first.with_columns(
        columns | {"lightpath": path, "step": np.arange(len(path))},
        collective=schedule.collective,
        chunks=first.chunks * pieces,
        steps=len(path),
        queued=True,
        notes=(*first.notes, "without barriers" + ("" if pieces == 1 else f", every chunk in {pieces} pieces")),
    )
