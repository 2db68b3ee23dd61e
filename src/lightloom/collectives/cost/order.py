"""The order of a schedule's rows and steps, for what follows them in time."""

from __future__ import annotations

from graphlib import TopologicalSorter

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Column, Ints

BLOCK = 1 << 19
"""Rows whose links are looked up at once."""


def blocks(rows: Ints, size: int = BLOCK) -> list[Ints]:
    """The rows in blocks that bound the memory of arrays over links."""
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


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
