"""Steps of a schedule that use the same lightpaths: what is true of the light of one is true of all of them."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Ints

_OF_LIGHTPATHS = ("source", "destination", "route", "fibre", "first_wavelength", "wavelength_count")


class RepeatedSteps(NamedTuple):
    """Which steps are alike, and rows that stand for all of them."""

    first: Ints
    """First step whose lightpaths are the same, in all copies of a folded schedule: [step]."""
    rows: Ints
    """One row for every destination of every lightpath of these first steps, in their order: [row]."""


def repeated_steps(schedule: Schedule) -> RepeatedSteps:
    """Find the steps that are alike, whatever chunks they carry; of a pipeline, those of its first piece.

    Time: n log n in the rows.
    """
    reached = schedule.lightpath.astype(np.int64) * (schedule.collective.ranks + 1) + schedule.destination
    rows = np.unique(reached, return_index=True)[1]
    rows = rows[np.argsort(schedule.step[rows], kind="stable")]
    begins = np.searchsorted(schedule.step[rows], np.arange(schedule.steps + 1))
    first = np.arange(schedule.steps)
    known: dict[bytes, int] = {}
    kept = []
    content = _content(schedule, rows, begins)
    for step, (begin, end) in enumerate(pairwise(begins.tolist())):
        first[step] = known.setdefault(content[begin:end].tobytes(), step)
        if first[step] == step:
            kept.append(rows[begin:end])
    return RepeatedSteps(first, np.concatenate(kept) if kept else rows)


def _content(schedule: Schedule, rows: Ints, begins: Ints) -> Ints:
    """What two steps must share, numbers of lightpaths counted from the first of the step: [row, column]."""
    columns = [getattr(schedule, name)[rows].astype(np.int64) for name in _OF_LIGHTPATHS]
    path = schedule.lightpath[rows].astype(np.int64)
    if schedule.folding is not None and schedule.folding.channel.shape[1]:
        columns.append(np.unique(schedule.folding.channel, axis=1, return_inverse=True)[1].ravel()[path])
    if len(rows):
        path -= np.repeat(path[np.minimum(begins[:-1], len(rows) - 1)], np.diff(begins))
    return np.stack([path, *columns], axis=1)
