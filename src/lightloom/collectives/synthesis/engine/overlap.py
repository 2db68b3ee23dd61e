"""All-reduces whose halves overlap: sums go down trees while contributions to others still go up.

A reduce-scatter that is an all-gather run backwards completes all its sums at the end, so that the all-gather behind it
begins when nothing else is left to send. Here both are scheduled as one: pieces follow each other, the first of every
share ahead of the second, and every lightpath sends whatever waits for it, contributions and sums alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lightloom.collectives.cost.queued import busy_and_delay, cells_of, play
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics.base import Fabric

if TYPE_CHECKING:
    from lightloom.collectives.synthesis.engine._overlap_kernels import SumRows

_MOST_ROWS = 400_000
"""Rows above which the order stays as it is."""
_STAGGERS = (0.0, 0.5, 1.0, 4.0)
"""Share of the whole time by which each piece is less urgent than the one before, over the number of pieces."""


def overlapped(schedule: Schedule, fabric: Fabric) -> Schedule:
    """The same rows of an all-reduce on standing circuits in the fastest order found, never slower than as they are.

    Any other schedule is returned as it is. Time: rows, times the logarithm of what waits.
    """
    queued = schedule.collective.kind == "all-reduce" and schedule.queued and fabric.exclusive
    if not queued or not 0 < len(schedule) <= _MOST_ROWS:
        return schedule
    from lightloom.collectives.synthesis.engine import _overlap_kernels as kernels

    before = play(schedule, fabric)
    sums = _sum_rows(schedule, fabric)
    left = kernels.longest_below(sums, np.argsort(before.begin, kind="stable"))
    pieces = schedule.chunks // schedule.collective.ranks
    piece = schedule.chunk.astype(np.int64) % pieces
    start = np.searchsorted(np.sort(sums.path), np.arange(int(sums.path.max(initial=-1)) + 2))
    least, best = before.seconds, None
    for stagger in _STAGGERS if pieces > 1 else _STAGGERS[:1]:
        sequence = np.zeros(len(left), np.int64)
        urgency: Floats = left - piece * (stagger * before.seconds / pieces)
        ranked = np.lexsort((piece, -urgency, sums.path))
        seconds = float(kernels.schedule_sums(sums, ranked, start, sequence))
        if seconds < least:
            least, best = seconds, sequence
    return schedule if best is None else _in_order(schedule, best)


def _sum_rows(schedule: Schedule, fabric: Fabric) -> SumRows:
    from lightloom.collectives.synthesis.engine import _overlap_kernels as kernels

    origin, target, held = cells_of(schedule)
    busy, delay = (np.ascontiguousarray(seconds, np.float64) for seconds in busy_and_delay(schedule, fabric))
    rows = np.argsort(origin, kind="stable")
    leaving = np.searchsorted(origin[rows], np.arange(len(held) + 1))
    return kernels.SumRows(
        schedule.lightpath.astype(np.int64), origin, target, schedule.reduces.copy(), busy, delay, leaving, rows
    )


def _in_order(schedule: Schedule, sequence: Ints) -> Schedule:
    """The rows on every lightpath in the order in which they begin."""
    order = np.lexsort((sequence, schedule.lightpath))
    columns = {name: column[order] for name, column in schedule.columns().items()}
    path = columns["lightpath"]
    step = np.arange(len(path)) - np.searchsorted(path, path)
    return schedule.with_columns(columns | {"step": step}, steps=int(step.max(initial=0)) + 1)
