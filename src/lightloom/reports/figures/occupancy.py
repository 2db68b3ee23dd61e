"""What a schedule occupies: link by link, step by step, wavelength by wavelength.

Every count is a difference array: +1 where a lightpath enters, −1 where it leaves, one running sum at the end; so the
work is linear in lightpaths plus cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.cost.queued import play
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.footprint import Footprint

_BLOCK = 1 << 19
_MAXIMUM_CELLS = 1 << 22


@dataclass(frozen=True, slots=True)
class Lightpaths:
    """One entry a lightpath of a circuit-switched fabric; of a multicast, its farthest destination."""

    step: Ints
    source: Ints
    destination: Ints
    route: Ints
    channel: Ints
    """First channel, counted through all fibres (or the switch plane)."""
    count: Ints
    """Consecutive channels."""
    hops: Ints
    """Links crossed."""

    @property
    def cells(self) -> int:
        """Channels times links, summed over lightpaths."""
        return int((self.hops * self.count).sum())

    def of_step(self, step: int) -> Lightpaths:
        """The lightpaths of one step."""
        chosen = self.step == step
        return Lightpaths(*(getattr(self, name)[chosen] for name in self.__slots__))


PARTS = 24
"""Equal parts of the time into which queued schedules of packets are drawn."""


def in_steps(schedule: Schedule, fabric: Fabric) -> Schedule:
    """The schedule itself, or of a queued one its circuits, which all stand in one step; of packets, which have none,
    its rows by the part of the time in which they begin."""
    if not schedule.queued:
        return schedule.unfolded(fabric.fibre_channels)
    if fabric.exclusive:
        return schedule.standing(fabric.fibre_channels)
    rows = schedule.unfolded(fabric.fibre_channels)
    seconds, _, begin = play(rows, fabric)
    part = np.minimum((begin / max(seconds, 1e-300) * PARTS).astype(np.int64), PARTS - 1)
    return rows.with_columns({"step": part}, steps=PARTS, queued=False)


def lightpaths(schedule: Schedule, fabric: Fabric) -> Lightpaths:
    """The lightpaths of a schedule on a circuit-switched fabric."""
    hops = np.concatenate(
        [np.zeros(0, np.int64), *(fabric.hops(*schedule.ends(rows)) for rows in _blocks(len(schedule)))]
    )
    order = np.lexsort((hops, schedule.lightpath))
    path = schedule.lightpath[order]
    last = order[np.flatnonzero(np.append(path[1:] != path[:-1], True))] if len(order) else order
    column = {name: values[last].astype(np.int64) for name, values in schedule.columns().items()}
    return Lightpaths(
        step=column["step"],
        source=column["source"],
        destination=column["destination"],
        route=column["route"],
        channel=column["fibre"] * fabric.fibre_channels + column["first_wavelength"],
        count=column["wavelength_count"],
        hops=hops[last],
    )


@dataclass(frozen=True, slots=True)
class LinkUse:
    """How much every link carries in every step."""

    amount: Floats
    """Shape [bins, links]: lit channels on circuit-switched fabrics, bytes on others; sums over a bin's steps."""
    steps_per_bin: int
    """More than 1 when a schedule has too many steps to keep each."""

    def downsampled(self, links: int) -> Floats:
        """Mean over neighbouring links, at most ``links`` columns."""
        group = -(-self.amount.shape[1] // links)
        edges = np.arange(0, self.amount.shape[1], group)
        sizes = np.diff(np.append(edges, self.amount.shape[1]))
        mean: Floats = np.add.reduceat(self.amount, edges, axis=1) / sizes
        return mean


def link_use(schedule: Schedule, fabric: Fabric, bins: int = 512) -> LinkUse:
    """What each link carries in each step, steps joined into at most ``bins`` bins."""
    bins = max(min(bins, schedule.steps, _MAXIMUM_CELLS // (fabric.links + 1)), 1)
    per_bin = -(-schedule.steps // bins)
    change = np.zeros((-(-schedule.steps // per_bin), fabric.links + 1))
    if fabric.exclusive:
        paths = lightpaths(schedule, fabric)
        _enter_and_leave(
            change, fabric.footprint(paths.source, paths.destination, paths.route), paths.step // per_bin, paths.count
        )
    else:
        weights = schedule.weights
        for rows in _blocks(len(schedule)):
            sent = 1 if weights is None else weights[rows]
            _enter_and_leave(change, fabric.footprint(*schedule.ends(rows)), schedule.step[rows] // per_bin, sent)
    # Channels and chunks are whole numbers, so that the running sum is exact; bytes come after. Chunks that differ in
    # size are not.
    carried = np.maximum(np.cumsum(change, axis=1)[:, :-1], 0.0)
    return LinkUse(carried if fabric.exclusive else carried * schedule.chunk_nbytes, per_bin)


def channel_map(paths: Lightpaths, fabric: Fabric, step: int) -> NDArray[np.int64]:
    """The rank whose light is on each channel of each link in one step, −1 where dark; shape [links, channels]."""
    now = paths.of_step(step)
    change = np.zeros((fabric.links + 1, fabric.channels + 1), np.int64)
    for _, first, end in _runs(fabric.footprint(now.source, now.destination, now.route)):
        for links, sign in ((first, 1), (end, -1)):
            np.add.at(change, (links, now.channel), sign * (now.source + 1))
            np.add.at(change, (links, now.channel + now.count), -sign * (now.source + 1))
    lit: NDArray[np.int64] = change.cumsum(axis=0).cumsum(axis=1)[:-1, :-1] - 1
    return lit


def utilisation(paths: Lightpaths, steps: int, fabric: Fabric) -> float:
    """Share of the channels of all links, over all steps, that carry light (circuit-switched fabrics)."""
    return paths.cells / (fabric.links * fabric.channels * max(steps, 1))


def _enter_and_leave(change: Floats, print_: Footprint, bin_: Ints, weight: Ints | Floats | int) -> None:
    width = change.shape[1]
    weights = np.broadcast_to(np.asarray(weight, np.float64), len(print_.start))
    for _, first, end in _runs(print_):
        for links, sign in ((first, 1.0), (end, -1.0)):
            flat = bin_.astype(np.int64) * width + links
            change += sign * np.bincount(flat, weights, minlength=change.size).reshape(change.shape)


def _runs(print_: Footprint) -> Iterator[tuple[int, Ints, Ints]]:
    """Every run as (run, first link, link after the last), cut in two where it passes the end of its track."""
    for run in range(print_.base.shape[1]):
        base, start, length, period = (
            part[:, run] for part in (print_.base, print_.start, print_.length, print_.period)
        )
        start = start % period
        reach = start + length
        yield run, base + start, base + np.minimum(reach, period)
        yield run, base, base + np.maximum(reach - period, 0)


def _blocks(rows: int) -> list[slice]:
    return [slice(begin, begin + _BLOCK) for begin in range(0, rows, _BLOCK)]
