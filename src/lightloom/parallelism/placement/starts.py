"""Placements that the search starts from: forward passes, blocks, lines, and random ones made valid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Int32s
from lightloom.core.effort import Effort
from lightloom.parallelism.placement.problem import Problem, initial_state

ROUNDS: Effort = 8
"""Backward and forward sweeps of one repair before it is given up."""
EFFORT: Effort = 2_000_000
"""Edges that the search around the best start may look at; a few hundredths of a second."""
SEARCHED: Effort = 4
"""Starts, the fastest ones, that the search shares its effort between."""
FURTHER: Effort = 16
"""Random starts that share it too, where every start then has ``THOROUGH`` moves for each sub-operator."""
THOROUGH: Effort = 50


class Start(NamedTuple):
    """A valid placement, how it was made, and how many sub-operators its repair moved."""

    method: str
    device: Int32s
    repaired: int


def moves(problem: Problem, effort: int) -> int:
    """Return how many moves the search may try: each looks at all edges twice."""
    return effort // (2 * (problem.balanced.size + len(problem.rows.before.node)) + 20)


def valid_starts(problem: Problem, repair: bool) -> Iterator[Start]:
    """Yield placements that keep reach and memory; without ``repair`` none that had to be repaired."""
    k, clique = problem.devices, problem.reach.clique(problem.devices)
    rounds = ROUNDS if repair else 0
    for method, early in (("earliest free device", False), ("earliest finish", True)):
        yield from forward_starts(problem, method, k, early, rounds)
    yield from _blocks(problem, k, rounds)
    for width in sorted({clique, 1} - {k}):
        yield from forward_starts(problem, f"earliest finish on {width}", width, True, 0)
        yield from _blocks(problem, width, rounds)
    for width in sorted({1, problem.reach.span(k), k}):
        yield from _line(problem, width, rounds)


def forward_starts(problem: Problem, method: str, width: int, early: bool, rounds: int) -> Iterator[Start]:
    """Yield the paper's forward pass on ``width`` devices, unless it gets stuck."""
    from lightloom.parallelism.placement._pass_kernels import forward_pass

    state = initial_state(problem, np.full(problem.balanced.size, -1, np.int32))
    if forward_pass(problem.rows, state, width, early, rounds):
        yield Start(method, state.device, int(state.moves[0]))


def _blocks(problem: Problem, width: int, rounds: int) -> Iterator[Start]:
    """Put equal places of all operators on one device, so that aligned slices stay where they are."""
    balanced = problem.balanced
    parts = np.diff(balanced.first)[balanced.operator]
    device = (balanced.part.astype(np.int64) * width // parts).astype(np.int32)
    yield from _settled(problem, f"blocks on {width}", device, rounds)


def _line(problem: Problem, width: int, rounds: int) -> Iterator[Start]:
    """Fill device after device in topological order, to the least memory that suffices."""
    _, device = filled(problem.balanced.memory, width)
    yield from _settled(problem, f"line of {width}", device, rounds)


def last_resort(problem: Problem) -> Iterator[Start]:
    """Search for any placement where memory is so tight that no other start was valid."""
    balanced, k = problem.balanced, problem.devices
    steps = EFFORT * balanced.size // (balanced.size + len(problem.rows.before.node))
    for seed, width in enumerate((k, problem.reach.span(k))):
        _, device = filled(balanced.memory, width)
        yield from _reconciled(problem, "fewest conflicts", device, steps, seed)


def random_starts(problem: Problem, effort: int) -> Iterator[Start]:
    """Yield random placements made valid: under tight limits moves cannot lead from one placement to all others."""
    size, k = problem.balanced.size, problem.devices
    if k == 1 or size < 2 or moves(problem, effort) < (SEARCHED + FURTHER) * THOROUGH * size:
        return
    for seed in range(FURTHER):
        device = np.random.default_rng(seed).integers(0, k, size, np.int32)
        yield from _reconciled(problem, "random", device, 4 * THOROUGH * size, seed)


def _reconciled(problem: Problem, method: str, device: Int32s, steps: int, seed: int) -> Iterator[Start]:
    from lightloom.parallelism.placement._search_kernels import reconcile

    if reconcile(problem.rows, device, steps, seed):
        yield Start(method, device, 0)


def _settled(problem: Problem, method: str, device: Int32s, rounds: int) -> Iterator[Start]:
    from lightloom.parallelism.placement._pass_kernels import settle, unreachable_pairs

    state = initial_state(problem, device)
    if state.used.max() > problem.rows.capacity:
        return
    if unreachable_pairs(problem.rows, device) and (
        not rounds or not settle(problem.rows, state, problem.balanced.size - 1, rounds)
    ):
        return
    yield Start(method, device, int(state.moves[0]))


def filled(memory: Floats, width: int) -> tuple[float, Int32s]:
    """Return the least capacity, within 1 per mille, at which ``width`` devices filled in order do."""
    sums = np.cumsum(memory)
    # The running sum itself: another order of summing may round to less, and leave the last node without a device.
    high = float(sums[-1]) if len(sums) else 0.0
    low = max(high / width, float(memory.max(initial=0.0)))
    device = fill(sums, high)
    for _ in range(40):
        if high <= low * 1.001:
            break
        middle = (low + high) / 2
        tried = fill(sums, middle)
        if len(tried) and tried[-1] < width:
            high, device = middle, tried
        else:
            low = middle
    return high, device


def fill(sums: Floats, capacity: float) -> Int32s:
    """Return devices filled in order up to a capacity, from the running sums of memory."""
    device = np.zeros(len(sums), np.int32)
    begin, held, number = 0, 0.0, 0
    while begin < len(sums):
        end = max(int(np.searchsorted(sums, held + capacity, "right")), begin + 1)
        device[begin:end] = number
        begin, held, number = end, float(sums[end - 1]), number + 1
    return device
