"""Steps of an execution trace: the calls of all threads in the order in which they began, cut where a step begins.

    thread 1    [ProfilerStep#3: forward      optimizer][ProfilerStep#4: forward      optimizer]
    thread 2                       [backward]                               [backward]

``torch.profiler`` marks steps on the thread that calls ``step()``; autograd of GPUs runs on another thread, whose calls
belong to the step in which they begin (ids grow as calls begin, over all threads). Without marks a step begins with the
first forward call, among those that autograd goes back to, after a backward pass.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lightloom.interchange.traces.calls import Call

BACKWARD = "autograd::engine::evaluate_function"
_MARK = re.compile(r"ProfilerStep#?(\d+)")


class Step(NamedTuple):
    """The calls of one step, in the order in which they began."""

    number: int
    """As the profiler counts, else from 0 on."""
    calls: list[Call]
    later_passes: int = 0
    """Further forward passes of the step, which are left out (accumulated gradients)."""


def cut(roots: Sequence[Call]) -> list[Step]:
    """Return the steps of a trace; one without a forward call is none."""
    differentiated = {number for call in walk(roots) if call.name.startswith(BACKWARD) for number in _inside(call)}
    marked = marked_steps(roots)
    if not marked:
        calls = sorted(leaves(roots), key=lambda call: call.id)
        return [Step(number, run) for number, run in enumerate(_passes(calls, differentiated))]
    steps = []
    for number, calls in marked:
        passes = list(_passes(calls, differentiated))
        if passes:
            steps.append(Step(number, passes[0], len(passes) - 1))
    return steps


def walk(calls: Sequence[Call]) -> Iterator[Call]:
    """Yield calls and all calls that they made."""
    for call in calls:
        yield call
        yield from walk(call.calls)


def sequences(call: Call) -> set[int]:
    """Sequence numbers of the backward nodes that a call may have made: later calls with the same one have made it."""
    return {inner.sequence for inner in walk([call])} - {-1}


def _inside(call: Call) -> Iterator[int]:
    yield from (inner.sequence for inner in call.calls if inner.sequence >= 0)


def marked_steps(roots: Sequence[Call]) -> list[tuple[int, list[Call]]]:
    """The calls of each step that the profiler has marked, by the step's number; none without marks."""
    marks = sorted((call for call in walk(roots) if _MARK.match(call.name)), key=lambda call: call.id)
    if not marks:
        return []
    inside = [list(leaves(mark.calls)) for mark in marks]
    begins = [mark.id for mark in marks]
    for leaf in leaves(roots, without_marks=True):
        begun = bisect_left(begins, leaf.id)
        if begun:
            inside[begun - 1].append(leaf)
    numbers = [int(match[1]) for mark in marks if (match := _MARK.match(mark.name))]
    return [(number, sorted(calls, key=lambda call: call.id)) for number, calls in zip(numbers, inside, strict=True)]


def leaves(calls: Sequence[Call], *, without_marks: bool = False) -> Iterator[Call]:
    """Yield operators, backward nodes and optimizer steps, outside of each other: what processes, threads and
    annotations hold. ``without_marks`` leaves out threads on which steps are marked."""
    for call in calls:
        if call.schema or call.name.startswith((BACKWARD, "Optimizer.")) or not call.calls:
            yield call
        elif not (without_marks and any(_MARK.match(inner.name) for inner in call.calls)):
            yield from leaves(call.calls, without_marks=without_marks)


def _passes(calls: Sequence[Call], differentiated: set[int]) -> Iterator[list[Call]]:
    """Yield the calls of each forward pass, of its backward pass and of what follows; none without an operator."""
    current: list[Call] = []
    backward_begun = False
    for call in calls:
        if call.name.startswith(BACKWARD):
            backward_begun = True
        elif backward_begun and call.schema and not differentiated.isdisjoint(sequences(call)):
            yield current
            current, backward_begun = [], False
        current.append(call)
    if any(call.schema for call in current):
        yield current
