"""Compiled loop of tasks that run at once and share resources at max-min fair speeds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.kernels import njit_cached, njit_without_arrays

_EQUAL = 1e-12
"""Relative difference below which two times are one."""


class Work(NamedTuple):
    """Tasks, what they wait for, and what they use."""

    waits: Ints
    """Tasks that each waits for; counted down: [task]."""
    first_follower: Ints
    """First entry of ``follower`` of each task: [task + 1]."""
    follower: Ints
    """Tasks that wait for each."""
    lead: Floats
    """Seconds before it uses anything: [task]."""
    alone: Floats
    """Seconds for which it uses resources where nothing else does: [task]."""
    tail: Floats
    """Seconds after that: [task]."""
    first_use: Ints
    """First entry of ``resource`` of each task: [task + 1]."""
    resource: Ints
    """[use]."""
    busy: Floats
    """Seconds for which the task makes the resource busy, at most ``alone``: [use]."""


@njit_cached
def run_at_once(work: Work, resources: int, begin: Floats, end: Floats) -> None:
    """Find when each task may begin, and when it has ended.

    Args:
        begin, end: out, seconds: [task].
    """
    tasks = len(work.alone)
    starts, running, ends = np.empty(tasks, np.int64), np.empty(tasks, np.int64), np.empty(tasks, np.int64)
    when, left, speed = np.zeros(tasks), work.alone.copy(), np.zeros(tasks)
    used, rate = np.empty(resources), np.empty(resources)
    counts = np.zeros(3, np.int64)  # tasks that lead, run and tail
    for task in range(tasks):
        if work.waits[task] == 0:
            starts[counts[0]] = task
            counts[0] += 1
            when[task] = work.lead[task]
    now = 0.0
    while counts.sum() > 0:
        after = np.inf
        for i in range(counts[0]):
            after = min(after, when[starts[i]])
        for i in range(counts[2]):
            after = min(after, when[ends[i]])
        for i in range(counts[1]):
            after = min(after, now + left[running[i]] / speed[running[i]])
        near = after * _EQUAL
        kept = 0
        for i in range(counts[1]):
            task = running[i]
            left[task] -= (after - now) * speed[task]
            if left[task] <= max(work.alone[task] * _EQUAL, near * speed[task]):
                when[task] = after + work.tail[task]
                ends[counts[2]] = task
                counts[2] += 1
            else:
                running[kept] = task
                kept += 1
        counts[1] = kept
        now, kept = after, 0
        for i in range(counts[0]):
            task = starts[i]
            if when[task] > now + near:
                starts[kept] = task
                kept += 1
            elif work.alone[task] > 0:
                running[counts[1]] = task
                counts[1] += 1
            else:
                when[task] = now + work.tail[task]
                ends[counts[2]] = task
                counts[2] += 1
        counts[0], kept = kept, 0
        for i in range(counts[2]):
            task = ends[i]
            if when[task] > now + near:
                ends[kept] = task
                kept += 1
                continue
            end[task] = when[task]
            for k in range(work.first_follower[task], work.first_follower[task + 1]):
                waiting = work.follower[k]
                begin[waiting] = max(begin[waiting], end[task])
                work.waits[waiting] -= 1
                if work.waits[waiting] == 0:
                    when[waiting] = begin[waiting] + work.lead[waiting]
                    starts[counts[0]] = waiting
                    counts[0] += 1
        counts[2] = kept
        _speeds(work, running[: counts[1]], speed, used, rate)


@njit_cached
def _speeds(work: Work, running: Ints, speed: Floats, used: Floats, rate: Floats) -> None:
    """Max-min fair speeds of the tasks that run, 1 being that of a task alone.

    Args:
        speed: out: [task].
        used, rate: scratch, what is taken of each resource, and what tasks still add to it a unit of speed: [resource].
    """
    used[:] = 0.0
    fixed: Mask = np.zeros(len(running), np.bool_)
    left = len(running)
    while left > 0:
        rate[:] = 0.0
        for i in range(len(running)):
            if not fixed[i]:
                for k in range(work.first_use[running[i]], work.first_use[running[i] + 1]):
                    rate[work.resource[k]] += work.busy[k] / work.alone[running[i]]
        level = 1.0
        for resource in range(len(used)):
            if rate[resource] > 0:
                level = min(level, (1.0 - used[resource]) / rate[resource])
        for i in range(len(running)):
            if fixed[i]:
                continue
            task, full = running[i], level >= 1.0
            for k in range(work.first_use[task], work.first_use[task + 1]):
                resource = work.resource[k]
                if rate[resource] * level >= (1.0 - used[resource]) * (1.0 - _EQUAL):
                    full = True
            if full:
                fixed[i] = True
                speed[task] = level
                left -= 1
        _take(work, running, fixed, speed, used)


@njit_without_arrays
def _take(work: Work, running: Ints, fixed: Mask, speed: Floats, used: Floats) -> None:
    """Add up what tasks with a fixed speed take of each resource."""
    used[:] = 0.0
    for i in range(len(running)):
        if fixed[i]:
            for k in range(work.first_use[running[i]], work.first_use[running[i] + 1]):
                used[work.resource[k]] += speed[running[i]] * work.busy[k] / work.alone[running[i]]
