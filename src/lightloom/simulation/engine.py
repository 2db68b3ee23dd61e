"""The event engine: tasks with durations, resources and dependencies become intervals.

A resource runs one task at a time and never lies idle while a task that is ready waits for it. Among ready tasks the
smallest ``(priority, position in the list)`` goes first, so that equal inputs give equal timelines. A task that runs
is never interrupted.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from lightloom.simulation.timeline import Interval, Timeline


class DeadlockError(AssertionError):
    """Tasks wait for each other in a circle: the code that built them is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A piece of work on one resource."""

    name: str
    resource: str
    category: str
    """Category of the time; see :mod:`lightloom.simulation.timeline`."""
    duration: float
    """Duration, in seconds."""
    after: tuple[int, ...] = ()
    """Positions in the task list of the tasks that must end before this one starts."""
    priority: int = 0
    """Smaller goes first."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Values that a trace shows."""


def run(tasks: Sequence[Task]) -> Timeline:
    """Run the tasks, in O(n log n) for n tasks and dependencies together.

    Raises:
        DeadlockError: tasks wait for each other; names a circle.
        ValueError: a duration is negative or not finite, or a dependency is no position in the list.
    """
    _check(tasks)
    waits = [len(task.after) for task in tasks]
    followers: list[list[int]] = [[] for _ in tasks]
    for index, task in enumerate(tasks):
        for earlier in task.after:
            followers[earlier].append(index)

    ready: dict[str, list[tuple[int, int]]] = {task.resource: [] for task in tasks}
    idle = dict.fromkeys(ready, True)
    ending: list[tuple[float, int]] = []
    starts: list[float] = [math.nan] * len(tasks)
    touched: dict[str, None] = {}
    for index, task in enumerate(tasks):
        if not task.after:
            heappush(ready[task.resource], (task.priority, index))
            touched[task.resource] = None

    now, done = 0.0, 0
    while True:
        for resource in touched:
            if idle[resource] and ready[resource]:
                index = heappop(ready[resource])[1]
                idle[resource], starts[index] = False, now
                heappush(ending, (now + tasks[index].duration, index))
        if not ending:
            break
        now, touched = ending[0][0], {}
        while ending and ending[0][0] == now:
            index = heappop(ending)[1]
            done += 1
            idle[tasks[index].resource] = True
            touched[tasks[index].resource] = None
            for follower in followers[index]:
                waits[follower] -= 1
                if waits[follower] == 0:
                    resource = tasks[follower].resource
                    heappush(ready[resource], (tasks[follower].priority, follower))
                    touched[resource] = None
    if done < len(tasks):
        raise DeadlockError(f"tasks wait for each other: {' → '.join(_circle(tasks, waits))}")
    return Timeline.of(
        Interval(
            resource=task.resource,
            category=task.category,
            name=task.name,
            start=start,
            end=start + task.duration,
            details=task.details,
            task=number,
            after=task.after,
        )
        for number, (task, start) in enumerate(zip(tasks, starts, strict=True))
    )


def _check(tasks: Sequence[Task]) -> None:
    for task in tasks:
        if not (math.isfinite(task.duration) and task.duration >= 0):
            raise ValueError(f"task {task.name!r}: duration {task.duration} s, expected finite and not negative")
        for earlier in task.after:
            if not 0 <= earlier < len(tasks):
                raise ValueError(f"task {task.name!r} comes after position {earlier}, which does not exist")


def _circle(tasks: Sequence[Task], waits: Sequence[int]) -> list[str]:
    """Walk back along unfinished dependencies until a task comes round again."""
    seen: dict[int, None] = {}
    at = next(index for index, count in enumerate(waits) if count)
    while at not in seen:
        seen[at] = None
        at = next(earlier for earlier in tasks[at].after if waits[earlier])
    walk = deque(seen)
    while walk[0] != at:
        walk.popleft()
    return [tasks[index].name for index in (*reversed(walk), walk[-1])]
