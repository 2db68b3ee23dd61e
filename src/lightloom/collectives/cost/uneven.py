"""What steps load whose chunks differ in size: sums of their sizes in place of counts of chunks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.collectives.cost.order import blocks
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats, Int32s, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.footprint import links_of


class UnevenLoads(NamedTuple):
    """Loads of the steps of a schedule on packet links: arrays [step]."""

    seconds_per_byte: Floats
    """Seconds for which the busiest link is busy, a byte of a mean chunk."""
    latency: Floats
    """Seconds of the longest way."""

    def seconds(self, chunk_nbytes: float) -> Floats:
        """Seconds of the busiest link of each step and of the longest way: [step]."""
        total: Floats = self.seconds_per_byte * chunk_nbytes + self.latency
        return total


def uneven_loads(schedule: Schedule, fabric: Fabric, weights: Floats) -> UnevenLoads:
    """The loads of a schedule of steps in order, with a row for every rank, on a packet fabric.

    Args:
        weights: what each row sends relative to the mean chunk: [row].

    Raises:
        UnsupportedError: steps that depend on each other.
    """
    if schedule.dependencies is not None:
        raise UnsupportedError(
            f"{schedule.algorithm}: steps with dependencies share packet links, which is costed for chunks of one "
            f"size: expected a {schedule.collective.kind} of steps in order, or a queued one"
        )
    links, steps = fabric.links, schedule.steps
    load, latency = np.zeros(steps * links), np.zeros(steps)
    for rows in blocks(np.arange(len(schedule))):
        ends = schedule.ends(rows)
        row, link = links_of(fabric.footprint(*ends))
        cell = schedule.step[rows][row] * np.int64(links) + link
        load += np.bincount(cell, weights=weights[rows][row], minlength=len(load))
        np.maximum.at(latency, schedule.step[rows], fabric.latency(*ends))
    return UnevenLoads((load.reshape(steps, links) / fabric.link_bandwidth()).max(axis=1), latency)


def uneven_sends(schedule: Schedule, weights: Floats, latency: Floats) -> tuple[Int32s, Floats, Ints, Floats]:
    """Step, mean chunks, channels and longest latency of what each lightpath sends: columns of ``CircuitLoads``.

    Args:
        weights: what each row sends relative to the mean chunk: [row].
        latency: seconds of each row's way: [row].
    """
    _, first, path = np.unique(schedule.lightpath, return_index=True, return_inverse=True)
    # What several ranks tap is sent once.
    once = schedule.destination == schedule.destination[first][path]
    longest = np.zeros(len(first))
    np.maximum.at(longest, path, latency)
    sent = np.bincount(path, weights=weights * once).astype(np.float64)
    width = schedule.wavelength_count[first].astype(np.int64)
    return schedule.step[first].astype(np.int32), sent, width, longest
