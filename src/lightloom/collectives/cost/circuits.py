"""Which circuits a schedule changes, and which it uses, whatever its size."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import NamedTuple

import numpy as np

from lightloom.collectives.cost.order import blocks, rows_by_step
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.repeated import repeated_steps
from lightloom.core.arrays import Ints, Mask
from lightloom.core.keys import packed
from lightloom.core.memory import require_memory
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
    changed = np.zeros(schedule.steps, np.bool_)
    if schedule.folding is not None:
        used, overwritten = _changed_in_copies(schedule, fabric, changed)
    else:
        new = np.zeros(len(schedule), np.bool_)
        overwritten = _Circuits(fabric).tune(schedule, rows_by_step(schedule), changed, new)
        used = np.flatnonzero(new)
    if not overwritten:
        # Everything can be set up before the first step: later circuits never take a channel from earlier ones.
        changed[:] = False
        changed[int(schedule.step.min())] = True
    return CircuitChanges(changed, not overwritten, None if overwritten else used)


class _Circuits:
    """The circuit that each channel of each link serves."""

    def __init__(self, fabric: Fabric) -> None:
        cells = fabric.links * fabric.channels
        require_memory(8 * cells, f"a fabric of {fabric.links:,} links with {fabric.channels} channels each")
        self.fabric = fabric
        self.tuned = np.zeros(cells, np.int64)
        self._order: CellOrder | None = None

    def tune(self, schedule: Schedule, rows: Ints, changed: Mask, new: Mask) -> bool:
        """Set up what these rows need, in their order; True if some channel has to serve a second circuit.

        Args:
            changed: out, steps that change circuits: [step].
            new: out, rows whose circuits are set up: [row].
        """
        from lightloom.collectives.cost import _cost_kernels as kernels

        fabric, overwritten = self.fabric, False
        channel = schedule.fibre.astype(np.int32) * np.int32(fabric.fibre_channels) + schedule.first_wavelength
        used = kernels.Channels(schedule.step, channel, schedule.wavelength_count, new)
        for block in blocks(rows):
            source, destination, route = schedule.ends(block)
            runs = fabric.footprint(source, destination, route)
            key = ((source * (fabric.ranks + 1) + destination) * 2 + route) * fabric.channels + channel[block]
            key = key * (fabric.channels + 1) + schedule.wavelength_count[block] + 1
            self._order = self._order or CellOrder.of(
                fabric.links, fabric.channels, runs, schedule.wavelength_count[block]
            )
            overwritten |= kernels.changes(block, key, used, runs, self._order, self.tuned, changed)
        return overwritten

    def digest(self) -> bytes:
        """A name of these circuits."""
        return blake2b(self.tuned.data).digest()


class _Change(NamedTuple):
    """What a step does to circuits."""

    after: bytes
    """The circuits that stand then."""
    changed: bool
    overwritten: bool


def _changed_in_copies(schedule: Schedule, fabric: Fabric, changed: Mask) -> tuple[Ints, bool]:
    """Mark the steps of a folded schedule that change circuits; rows that name all circuits, and whether some channel
    serves a second one.

    A step that finds the same circuits as one before that is like it does the same to them, and is not followed again.
    """
    first, rows = repeated_steps(schedule)
    circuits, followed = _Circuits(fabric), dict[tuple[bytes, int], _Change]()
    stands = now = circuits.digest()
    skipped: list[tuple[bytes, int]] = []
    for step, alike in enumerate(first.tolist()):
        if (now, alike) in followed:
            skipped.append((now, alike))
        else:
            if now != stands:
                # Catch up from the last time that the circuits were those that stand here.
                last = max(place for place, (state, _) in enumerate(skipped) if state == stands)
                for _, other in skipped[last:]:
                    _follow(circuits, schedule, rows, other)
            skipped.clear()
            followed[now, alike] = _follow(circuits, schedule, rows, alike)
            stands = followed[now, alike].after
        change = followed[now, alike]
        now, changed[step] = change.after, change.changed
    return rows, any(change.overwritten for change in followed.values())


def _follow(circuits: _Circuits, schedule: Schedule, rows: Ints, step: int) -> _Change:
    """Set up what all copies of a step need."""
    copies = schedule.with_rows(rows[schedule.step[rows] == step]).unfolded(circuits.fabric.fibre_channels)
    changed, new = np.zeros(schedule.steps, np.bool_), np.zeros(len(copies), np.bool_)
    overwritten = circuits.tune(copies, np.arange(len(copies)), changed, new)
    return _Change(circuits.digest(), bool(changed.any()), overwritten)


def circuits_key(schedule: Schedule, fabric: Fabric, rows: Ints | None = None) -> str:
    """Names the set of circuits that a schedule ever uses: equal keys, equal circuits.

    ``rows`` may leave out rows whose circuits others have, as ``CircuitChanges.rows`` does.
    """
    if schedule.queued:
        schedule = schedule.standing(fabric.fibre_channels)
    elif schedule.folding is not None:
        rows = repeated_steps(schedule).rows if rows is None else rows
        schedule, rows = schedule.with_rows(rows).unfolded(fabric.fibre_channels), None
    names = ("source", "destination", "route", "fibre", "first_wavelength", "wavelength_count")
    columns = [getattr(schedule, name) if rows is None else getattr(schedule, name)[rows] for name in names]
    _, first = np.unique(packed(columns), return_index=True)
    digest = sha256(b"".join(column[first].astype(np.int64).tobytes() for column in columns))
    return digest.hexdigest()[:16]
