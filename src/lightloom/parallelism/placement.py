"""Sub-operators get devices, so that no device talks to more others than the optics give it circuits.

After SiP-ML (Khani et al., SIGCOMM 2021), section 3.2 and Algorithm 1.
:func:`place` tries the paper's forward pass with its repair and a few placements of its own, keeps the fastest, and
searches around it. Everything is judged by one function, ``_placement_kernels.iteration_time``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.units import format_size
from lightloom.parallelism.partition import BalancedGraph
from lightloom.parallelism.placed import Link, Placement, Reach

ROUNDS = 8
"""Backward and forward sweeps of one repair before it is given up."""
EFFORT = 2_000_000
"""Edges that the search around the best start may look at; a few hundredths of a second."""
SEARCHED = 4
"""Starts, the fastest ones, that the search shares its effort between."""
FURTHER = 16
"""Random starts that share it too, where every start then has ``THOROUGH`` moves for each sub-operator."""
THOROUGH = 50
_UNLIMITED = 1e300


class _Problem(NamedTuple):
    balanced: BalancedGraph
    before: tuple[Any, Any, Any]
    after: tuple[Any, Any, Any]
    order: Ints
    offsets: Ints
    allowed: NDArray[np.bool_]
    capacity: float
    devices: int
    reach: Reach

    @property
    def durations(self) -> tuple[Floats, Floats]:
        return self.balanced.forward, self.balanced.backward


class _Start(NamedTuple):
    method: str
    device: NDArray[np.int32]
    repaired: int


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
    """A placement that keeps reach and memory.

    Starts: the paper's forward pass (earliest free device) and one that looks at transfers (earliest finish), both with
    repair; parts in blocks along the ring, repaired where they break the reach; the same on a clique, devices next to
    each other that all reach one another; and lines that fill device after device in topological order.
    Small graphs, of up to about fifteen sub-operators, are searched from random starts too.

    It ends, with a placement unless memory refuses it. A repair makes at most 2 · ``ROUNDS`` sweeps, each visiting a
    sub-operator once; there is at most one repair for each sub-operator, and one that has not settled by then gives up
    its start. Starts on a clique, which has at least one device, break no reach and need no repair; neither does a
    line over ``Reach.span`` devices.

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
    problem = _problem(balanced, devices, reach, memory, link)
    times = np.zeros((4, balanced.size))
    starts = list(_starts(problem, repair)) or list(_last_resort(problem))
    if not starts:
        raise _too_large(problem)
    starts.sort(key=lambda start: _iteration(problem, start.device, times))
    best = _searched(problem, starts[:SEARCHED] + list(_further(problem, effort)), effort)
    seconds = _iteration(problem, best.device, times)
    half = float(times[1].max(initial=0.0))
    return Placement(
        device=best.device,
        devices=devices,
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


def _searched(problem: _Problem, starts: list[_Start], effort: int) -> _Start:
    """The best of what the search makes of each start; the first start where there is no effort to spend."""
    from lightloom.parallelism import _placement_kernels as kernels

    balanced = problem.balanced
    steps = _moves(problem, effort) // len(starts)
    if not steps or problem.devices == 1 or balanced.size < 2:
        return starts[0]
    seconds = [
        kernels.anneal(
            problem.order,
            problem.before,
            problem.after,
            problem.durations,
            balanced.memory,
            problem.capacity,
            problem.allowed,
            start.device,
            steps,
            seed,
        )
        for seed, start in enumerate(starts)
    ]
    return starts[int(np.argmin(seconds))]


def _moves(problem: _Problem, effort: int) -> int:
    """Moves that the search may try: each looks at all edges twice."""
    return effort // (2 * (problem.balanced.size + len(problem.before[1])) + 20)


def iteration_seconds(balanced: BalancedGraph, device: NDArray[Any], devices: int, link: Link) -> float:
    """The objective for any devices, within reach or not: seconds of a forward and a backward pass.

    Sub-operators start in the order of their longest path to the end of the model, as soon as their device is free and
    their inputs have arrived, latency + bytes / bandwidth after they were made elsewhere; backward in reverse.
    """
    problem = _problem(balanced, devices, Reach(devices), None, link)
    return _iteration(problem, np.asarray(device, np.int32), np.zeros((4, balanced.size)))


def start_order(balanced: BalancedGraph) -> Ints:
    """Sub-operators in the order in which they start where several could: longest path to the end first."""
    from lightloom.parallelism import _placement_kernels as kernels

    return _start_order(kernels.transpose(balanced.parent_start, balanced.parent, balanced.nbytes), balanced)


def _start_order(after: tuple[Any, Any, Any], balanced: BalancedGraph) -> Ints:
    from lightloom.parallelism import _placement_kernels as kernels

    # Equal ranks keep their order, in which producers come first.
    order: Ints = np.argsort(-kernels.ranks(*after, balanced.forward), kind="stable")
    return order


def _iteration(problem: _Problem, device: NDArray[np.int32], times: Floats) -> float:
    from lightloom.parallelism import _placement_kernels as kernels

    return float(
        kernels.iteration_time(
            problem.order, problem.before, problem.after, problem.durations, device, problem.devices, times
        )
    )


def _problem(balanced: BalancedGraph, devices: int, reach: Reach, memory: float | None, link: Link) -> _Problem:
    from lightloom.parallelism import _placement_kernels as kernels

    before = _rows(balanced, link)
    after = kernels.transpose(*before)
    offsets = reach.offsets(devices)
    allowed = np.zeros(devices, np.bool_)
    allowed[offsets] = True
    return _Problem(
        balanced=balanced,
        before=before,
        after=after,
        order=_start_order(after, balanced),
        offsets=offsets,
        allowed=allowed,
        capacity=_UNLIMITED if memory is None else min(memory, _UNLIMITED),
        devices=devices,
        reach=reach,
    )


def _rows(balanced: BalancedGraph, link: Link) -> tuple[Any, Any, Any]:
    """Parents with the seconds of a transfer, and the part before it where gradients are added up, at −1 seconds."""
    delay = link.latency + balanced.nbytes / link.bandwidth
    shared = np.flatnonzero(balanced.synchronised > 0)
    if not len(shared):
        return balanced.parent_start, balanced.parent, delay
    ends = balanced.parent_start[shared + 1]
    start = balanced.parent_start.copy()
    start[1:] += np.cumsum(balanced.synchronised > 0)
    source = np.insert(balanced.parent, ends, (shared - 1).astype(np.int32))
    return start, source, np.insert(delay, ends, -1.0)


def _starts(problem: _Problem, repair: bool) -> Iterator[_Start]:
    k, clique = problem.devices, problem.reach.clique(problem.devices)
    rounds = ROUNDS if repair else 0
    for method, early in (("earliest free device", False), ("earliest finish", True)):
        yield from _pass(problem, method, k, early, rounds)
    yield from _blocks(problem, k, rounds)
    for width in sorted({clique, 1} - {k}):
        yield from _pass(problem, f"earliest finish on {width}", width, True, 0)
        yield from _blocks(problem, width, 0)
    for width in sorted({1, problem.reach.span(k), k}):
        yield from _line(problem, width, rounds)


def _pass(problem: _Problem, method: str, width: int, early: bool, rounds: int) -> Iterator[_Start]:
    from lightloom.parallelism import _placement_kernels as kernels

    device = np.full(problem.balanced.size, -1, np.int32)
    moved = np.zeros(2, np.int64)
    if kernels.forward_pass(
        problem.order,
        problem.before,
        problem.after,
        problem.balanced.forward,
        problem.balanced.memory,
        problem.capacity,
        problem.offsets,
        problem.allowed,
        width,
        early,
        rounds,
        device,
        moved,
    ):
        yield _Start(method, device, int(moved[0]))


def _blocks(problem: _Problem, width: int, rounds: int) -> Iterator[_Start]:
    """Equal places of all operators on one device, so that aligned slices stay where they are."""
    balanced = problem.balanced
    parts = np.diff(balanced.first)[balanced.operator]
    device = (balanced.part.astype(np.int64) * width // parts).astype(np.int32)
    yield from _settled(problem, f"blocks on {width}", device, rounds)


def _line(problem: _Problem, width: int, rounds: int) -> Iterator[_Start]:
    """Device after device in topological order, filled to the least memory that suffices."""
    _, device = _filled(problem.balanced.memory, width)
    yield from _settled(problem, f"line of {width}", device, rounds)


def _last_resort(problem: _Problem) -> Iterator[_Start]:
    """Any placement, searched for where memory is so tight that no other start was valid."""
    balanced, k = problem.balanced, problem.devices
    steps = EFFORT * balanced.size // (balanced.size + len(problem.before[1]))
    for seed, width in enumerate((k, problem.reach.span(k))):
        _, device = _filled(balanced.memory, width)
        yield from _reconciled(problem, "fewest conflicts", device, steps, seed)


def _further(problem: _Problem, effort: int) -> Iterator[_Start]:
    """Random devices made valid: with little memory and reach to spare, no moves lead from one start to all others."""
    size, k = problem.balanced.size, problem.devices
    if k == 1 or size < 2 or _moves(problem, effort) < (SEARCHED + FURTHER) * THOROUGH * size:
        return
    for seed in range(FURTHER):
        device = np.random.default_rng(seed).integers(0, k, size, np.int32)
        yield from _reconciled(problem, "random", device, 4 * THOROUGH * size, seed)


def _reconciled(problem: _Problem, method: str, device: NDArray[np.int32], steps: int, seed: int) -> Iterator[_Start]:
    from lightloom.parallelism import _placement_kernels as kernels

    memory, capacity = problem.balanced.memory, problem.capacity
    if kernels.reconcile(problem.before, problem.after, memory, capacity, problem.allowed, device, steps, seed):
        yield _Start(method, device, 0)


def _settled(problem: _Problem, method: str, device: NDArray[np.int32], rounds: int) -> Iterator[_Start]:
    from lightloom.parallelism import _placement_kernels as kernels

    balanced = problem.balanced
    used = np.bincount(device, balanced.memory, problem.devices)
    if used.max(initial=0.0) > problem.capacity:
        return
    moved = np.zeros(2, np.int64)
    if kernels.broken(problem.before, device, problem.allowed):
        busy = np.bincount(device, balanced.forward, problem.devices)
        dirty = np.ones(balanced.size, np.bool_)
        if not rounds or not kernels.settle(
            problem.order,
            balanced.size - 1,
            problem.before,
            problem.after,
            balanced.memory,
            problem.capacity,
            problem.offsets,
            problem.allowed,
            rounds,
            device,
            used,
            balanced.forward,
            busy,
            dirty,
            moved,
        ):
            return
    yield _Start(method, device, int(moved[0]))


def _filled(memory: Floats, width: int) -> tuple[float, NDArray[np.int32]]:
    """Least capacity at which neighbours in order fill ``width`` devices, within 1 per mille, and the devices."""
    low, high = max(float(memory.sum()) / width, float(memory.max(initial=0.0))), float(memory.sum())
    sums = np.cumsum(memory)
    device = _fill(sums, high)
    for _ in range(40):
        if high <= low * 1.001:
            break
        middle = (low + high) / 2
        tried = _fill(sums, middle)
        if len(tried) and tried[-1] < width:
            high, device = middle, tried
        else:
            low = middle
    return high, device


def _fill(sums: Floats, capacity: float) -> NDArray[np.int32]:
    device = np.zeros(len(sums), np.int32)
    begin, held, number = 0, 0.0, 0
    while begin < len(sums):
        end = max(int(np.searchsorted(sums, held + capacity, "right")), begin + 1)
        device[begin:end] = number
        begin, held, number = end, float(sums[end - 1]), number + 1
    return device


def _too_large(problem: _Problem) -> UnsupportedError:
    """What was tried, and changes each of which is enough: a line then needs no device more."""
    memory, k = problem.balanced.memory, problem.devices
    needed, _ = _filled(memory, problem.reach.span(k))
    largest, total = int(memory.argmax()), float(memory.sum())
    fits = max(total / k, float(memory[largest])) <= problem.capacity
    text = (
        f"{problem.balanced.name!r}: {'no placement found for' if fits else 'too large,'} {format_size(total)} on {k} "
        f"devices of {format_size(problem.capacity)} with Δ = {problem.reach.degree}; "
        f"enough would be {format_size(needed)} a device"
    )
    if memory[largest] > problem.capacity:
        label, size = problem.balanced.label(largest), format_size(float(memory[largest]))
        return UnsupportedError(f"{text}, or smaller parts ({label} needs {size})")
    enough = int(_fill(np.cumsum(memory), problem.capacity)[-1]) + 1
    if enough > k:
        return UnsupportedError(f"{text}, or k = {enough} with Δ = {enough - 1}")
    degree = (2 if problem.reach.rule == "peers" else 1) * (enough - 1)
    return UnsupportedError(f"{text}, or Δ = {min(degree, k - 1)}")
