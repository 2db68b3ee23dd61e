"""Which circuits a schedule changes, and which it uses, whatever its size."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from lightloom.collectives.cost.order import blocks, rows_by_step
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Ints, Mask
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.footprint import CellOrder


@dataclass(frozen=True, slots=True)
class CircuitChanges:
    """Which steps of a schedule change circuits, whatever its size."""

    changed: Mask
    """Shape [steps]."""
    static: bool
    """Whether one set of circuits serves every step, so that only the first changes them."""
    rows: Ints | None = None
    """Rows whose circuits are set up, of a static schedule all that it uses; None: any row may be the only one."""


def circuit_changes(schedule: Schedule, fabric: Fabric) -> CircuitChanges:
    """Follow the circuits through the steps: each stays until another needs one of its channels."""
    from lightloom.collectives.cost import _cost_kernels as kernels

    changed = np.zeros(schedule.steps, np.bool_)
    if fabric.setup_time == 0 or not len(schedule):
        return CircuitChanges(changed, True)
    tuned = np.zeros(fabric.links * fabric.channels, np.int64)
    wavelengths = fabric.fibre_channels
    channel = schedule.fibre.astype(np.int32) * np.int32(wavelengths) + schedule.first_wavelength
    new = np.zeros(len(schedule), np.bool_)
    used, overwritten = kernels.Channels(schedule.step, channel, schedule.wavelength_count, new), False
    order = None
    for rows in blocks(rows_by_step(schedule)):
        source, destination, route = schedule.ends(rows)
        runs = fabric.footprint(source, destination, route)
        key = ((source * (fabric.ranks + 1) + destination) * 2 + route) * fabric.channels + channel[rows]
        key = key * (fabric.channels + 1) + schedule.wavelength_count[rows] + 1
        order = order or CellOrder.of(fabric.links, fabric.channels, runs, schedule.wavelength_count[rows])
        overwritten |= kernels.changes(rows, key, used, runs, order, tuned, changed)
    if not overwritten:
        # Everything can be set up before the first step: later circuits never take a channel from earlier ones.
        changed[:] = False
        changed[int(schedule.step.min())] = True
    return CircuitChanges(changed, not overwritten, None if overwritten else np.flatnonzero(new))


def circuits_key(schedule: Schedule, fabric: Fabric, rows: Ints | None = None) -> str:
    """Names the set of circuits that a schedule ever uses: equal keys, equal circuits.

    ``rows`` may leave out rows whose circuits others have, as ``CircuitChanges.rows`` does.
    """
    schedule = schedule.standing(fabric.fibre_channels) if schedule.queued else schedule
    names = ("source", "destination", "route", "fibre", "first_wavelength", "wavelength_count")
    columns = [getattr(schedule, name) if rows is None else getattr(schedule, name)[rows] for name in names]
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        key = key * (int(column.max(initial=0)) + 1) + column
    _, first = np.unique(key, return_index=True)
    digest = sha256(b"".join(column[first].astype(np.int64).tobytes() for column in columns))
    return digest.hexdigest()[:16]
