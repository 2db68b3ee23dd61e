"""Place sub-operators on devices, each exchanging data with no more others than the optics give it circuits.

After SiP-ML (Khani et al., SIGCOMM 2021), section 3.2 and Algorithm 1. :func:`place` tries the paper's forward pass
with its repair and a few other placements, keeps the fastest, and searches around it.
``_time_kernels.iteration_time`` times them all.
"""

from __future__ import annotations

import numpy as np

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.units import format_size
from lightloom.parallelism.placement.balanced import BalancedGraph
from lightloom.parallelism.placement.base import Link, Placement, Reach
from lightloom.parallelism.placement.problem import Problem, problem_of
from lightloom.parallelism.placement.starts import (
    EFFORT,
    SEARCHED,
    Start,
    fill,
    filled,
    last_resort,
    moves,
    random_starts,
    valid_starts,
)

_ROUNDING = 1 - 1e-9
"""Sums of memory in another order."""


def place(
    balanced: BalancedGraph,
    devices: int,
    reach: Reach,
    memory: float | None,
    link: Link,
    *,
    repair: bool = True,
    effort: int = EFFORT,
) -> Placement:
    """Return a placement that keeps reach and memory.

    Starts: the paper's forward pass (earliest free device) and one that looks at transfers (earliest finish), both with
    repair; parts in blocks along the ring, repaired where they break the reach; the same on a clique, devices next to
    each other that all reach one another; and lines that fill device after device in topological order.
    Small graphs, of up to about fifteen sub-operators, are searched from random starts too.

    It ends, with a placement unless memory refuses it. A repair makes at most 2 · ``starts.ROUNDS`` sweeps, each
    visiting a sub-operator once; there is at most one repair for each sub-operator, and one that has not settled by
    then gives up its start. Starts on a clique, which has at least one device, break no reach and need no repair;
    neither does a line over ``Reach.span`` devices.

    Args:
        balanced: what to place.
        devices: k, numbered along the ring.
        reach: who may communicate.
        memory: bytes of one device; None for no limit.
        link: what a transfer between two devices costs; transfers do not wait for each other.
        repair: False leaves out the starts that needed a repair.
        effort: of the search around the best start; 0 for none.

    Raises:
        ConfigError: no device, or a memory that is not positive.
        UnsupportedError: Δ is too small for any communication, or the model does not fit; says what would do.
    """
    if devices < 1 or (memory is not None and not memory > 0):
        raise ConfigError(f"{devices} devices with {memory} B: expected at least one device and more than 0 B")
    problem = problem_of(balanced, devices, reach, memory, link)
    if balanced.memory.sum() * _ROUNDING > devices * problem.rows.capacity:
        raise _too_large(problem)
    starts = list(valid_starts(problem, repair)) or list(last_resort(problem))
    if not starts:
        raise _too_large(problem)
    return _fastest(problem, starts, reach, link, effort)


def _fastest(problem: Problem, starts: list[Start], reach: Reach, link: Link, effort: int) -> Placement:
    """Return the best placement that the search makes of the fastest starts, with its times."""
    from lightloom.parallelism.placement._time_kernels import iteration_time

    times = np.zeros((4, problem.balanced.size))
    starts.sort(key=lambda start: iteration_time(problem.rows, start.device, times))
    best = _searched(problem, starts[:SEARCHED] + list(random_starts(problem, effort)), effort)
    seconds = iteration_time(problem.rows, best.device, times)
    half = float(times[1].max(initial=0.0))
    return Placement(
        device=best.device,
        devices=problem.devices,
        reach=reach,
        link=link,
        start=times[0].copy(),
        end=times[1].copy(),
        backward_start=times[2] + half,
        backward_end=times[3] + half,
        makespan=seconds,
        repaired=best.repaired,
        method=best.method,
    )


def _searched(problem: Problem, starts: list[Start], effort: int) -> Start:
    """Return the best of what the search makes of each start, of equals the first; nothing to place stays as it is."""
    from lightloom.parallelism.placement._search_kernels import anneal

    if not problem.balanced.size:
        return starts[0]
    steps = moves(problem, effort) // len(starts)
    seconds = [anneal(problem.rows, start.device, steps, seed) for seed, start in enumerate(starts)]
    return starts[int(np.argmin(seconds))]


def _too_large(problem: Problem) -> UnsupportedError:
    """Say what was tried, and which changes are each enough: with them a line needs no more devices."""
    memory, k = problem.balanced.memory, problem.devices
    needed, _ = filled(memory, problem.reach.span(k))
    largest, total = int(memory.argmax()), float(memory.sum())
    fits = max(total / k, float(memory[largest])) <= problem.rows.capacity
    text = (
        f"{problem.balanced.name!r}: {'no placement found for' if fits else 'too large,'} {format_size(total)} on {k} "
        f"devices of {format_size(problem.rows.capacity)} with Δ = {problem.reach.degree}; "
        f"enough would be {format_size(needed)} a device"
    )
    if memory[largest] > problem.rows.capacity:
        label, size = problem.balanced.label(largest), format_size(float(memory[largest]))
        return UnsupportedError(f"{text}, or smaller parts ({label} needs {size})")
    enough = int(fill(np.cumsum(memory), problem.rows.capacity)[-1]) + 1
    if enough > k:
        return UnsupportedError(f"{text}, or k = {enough} with Δ = {enough - 1}")
    degree = (2 if problem.reach.rule == "peers" else 1) * (enough - 1)
    return UnsupportedError(f"{text}, or Δ = {min(degree, k - 1)}")
