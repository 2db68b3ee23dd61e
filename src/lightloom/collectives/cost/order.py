"""The order of a schedule's rows and steps, for what follows them in time."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import TopologicalSorter

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Column, Ints
from lightloom.core.effort import Effort
from lightloom.core.keys import packed

BLOCK: Effort = 1 << 19
"""Rows whose links are looked up at once."""


def blocks(rows: Ints, size: int = BLOCK) -> list[Ints]:
    """The rows in blocks that bound the memory of arrays over links."""
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


def distinct_ends(schedule: Schedule) -> tuple[Ints, Ints]:
    """Rows of a folded schedule with different ends or routes, and which of them each row is like: [distinct], [row].

    Where every rank has rows of its own these are all rows.
    """
    if schedule.folding is None:
        every = np.arange(len(schedule))
        return every, every
    source, destination, route = schedule.ends(slice(None))
    return np.unique(packed((source, destination, route)), return_index=True, return_inverse=True)[1:]


def ends_in_copies(schedule: Schedule, rows: Ints, size: int = BLOCK) -> Iterator[tuple[Ints, tuple[Ints, Ints, Ints]]]:
    """Source, destination and route of these rows in all copies, in blocks; with the place in ``rows`` of each."""
    folding = schedule.folding
    source, destination, route = schedule.ends(rows)
    for entries in blocks(np.arange(len(rows) * (1 if folding is None else folding.copies)), size):
        copy, place = np.divmod(entries, len(rows))
        begin, end = source[place], destination[place]
        if folding is not None:
            begin, end = folding.moved(begin, copy), folding.moved(end, copy)
        yield place, (begin, end, route[place])


def rows_by_step(schedule: Schedule) -> Ints:
    """Row numbers in an order in which the steps can run."""
    step = schedule.step
    if schedule.dependencies is not None:
        position = np.empty(schedule.steps, np.int32)
        order = TopologicalSorter(dict(enumerate(steps_before(schedule.steps, schedule.dependencies)))).static_order()
        position[list(order)] = np.arange(schedule.steps)
        step = position[step]
    if np.any(step[1:] < step[:-1]):
        return np.argsort(step, kind="stable")
    return np.arange(len(schedule))


def steps_before(steps: int, dependencies: Column | None) -> list[list[int]]:
    """The steps that each step waits for, of dependencies as a schedule has them."""
    if dependencies is None:
        return [[step - 1] if step else [] for step in range(steps)]
    before: list[list[int]] = [[] for _ in range(steps)]
    for after, earlier in np.asarray(dependencies, dtype=np.int64).reshape(-1, 2).tolist():
        before[after].append(earlier)
    return before
