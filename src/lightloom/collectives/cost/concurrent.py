"""Steps that nothing orders run at once and share what they use: packet links, and the engine of a codec.

A step encodes, sends and decodes, one after the other (in line with the links, all at once). While several steps use
the same link or engine, they slow down alike: speeds, relative to that of the step alone, are max-min fair, so that no
link ever carries more than its bandwidth. Circuits that run at once hold channels of their own, and share no link.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.collectives.cost.loads import PacketLoads, StepLoads
from lightloom.collectives.cost.order import steps_before
from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics.base import Fabric


class _Tasks(NamedTuple):
    """One kind of work of every step."""

    lead: Floats
    """Seconds before anything is shared: [step]."""
    alone: Floats
    """Seconds that the work takes where nothing else runs: [step]."""
    tail: Floats
    """Seconds after it in which nothing is shared: [step]."""
    step: Ints
    """Step of each use of a link or engine, ascending: [use]."""
    resource: Ints
    """What is used: [use]."""
    busy: Floats
    """Seconds for which it is busy: [use]."""


class SharedTimes(NamedTuple):
    """Seconds of each step while others run beside it: arrays [step]."""

    transmission: Floats
    encode: Floats
    decode: Floats


def shared_times(
    loads: StepLoads,
    fabric: Fabric,
    alone: Floats,
    lead: Floats,
    coding: tuple[Floats, Floats] | None,
    *,
    in_line: bool,
) -> SharedTimes:
    """The seconds of steps with dependencies, each from when the last step that it waits for has ended.

    Args:
        alone: seconds of bits and propagation of each step that runs alone, in line with a codec what takes longer.
        lead: seconds of setting circuits and of conversion before these.
        coding: seconds of encoding and of decoding in each step.
    """
    steps, engine, nothing = loads.steps, fabric.links, np.zeros(loads.steps)
    step, link, busy = _link_uses(loads, fabric)
    if coding is None and not len(step):
        return SharedTimes(alone, nothing, nothing)
    if in_line:
        assert coding is not None
        step, link = np.concatenate([step, np.arange(steps)]), np.concatenate([link, np.full(steps, engine)])
        busy = np.concatenate([busy, np.maximum(*coding)])
        order = np.argsort(step, kind="stable")
        step, link, busy = step[order], link[order], busy[order]
    shared = np.zeros(steps)
    np.maximum.at(shared, step, busy)
    tasks = [_Tasks(lead, shared, np.maximum(alone - shared, 0.0), step, link, busy)]
    if coding is not None and not in_line:
        every, engines = np.arange(steps), np.full(steps, engine)
        encode, decode = (_Tasks(nothing, part, nothing, every, engines, part) for part in coding)
        tasks = [encode, tasks[0], decode]
    begin, end = _run(tasks, steps_before(steps, loads.dependencies), engine + 1)
    seconds = [stop - start for start, stop in zip(begin, end, strict=True)]
    if len(tasks) == 1:
        return SharedTimes(seconds[0] - lead, nothing, nothing)
    return SharedTimes(seconds[1] - lead, seconds[0], seconds[2])


def _link_uses(loads: StepLoads, fabric: Fabric) -> tuple[Ints, Ints, Floats]:
    """Step, link and seconds of all that steps load on links: [use] each."""
    if not isinstance(loads.transfers, PacketLoads) or loads.transfers.by_link is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    step, link, chunks = loads.transfers.by_link
    return step, link, chunks * (loads.chunk_nbytes / fabric.link_bandwidth()[link])


def _run(tasks: list[_Tasks], before: list[list[int]], resources: int) -> tuple[Floats, Floats]:
    """Seconds at which each task may begin and at which it ends: [kind of task, step] each.

    The first task of a step waits for the last of those that the step waits for, every other one for the task before.
    """
    from lightloom.collectives.cost import _concurrent_kernels as kernels

    steps, kinds = len(before), len(tasks)
    number = np.arange(steps * kinds).reshape(kinds, steps)
    pairs = [(earlier + (kinds - 1) * steps, step) for step in range(steps) for earlier in before[step]]
    pairs += [pair for kind in range(kinds - 1) for pair in zip(*number[kind : kind + 2].tolist(), strict=True)]
    earlier, later = np.array(pairs, np.int64).reshape(-1, 2).T
    order = np.argsort(earlier, kind="stable")
    uses = np.concatenate([task.step + kind * steps for kind, task in enumerate(tasks)])
    work = kernels.Work(
        waits=np.bincount(later, minlength=steps * kinds),
        first_follower=np.searchsorted(earlier[order], np.arange(steps * kinds + 1)),
        follower=later[order],
        lead=np.concatenate([task.lead for task in tasks]),
        alone=np.concatenate([task.alone for task in tasks]),
        tail=np.concatenate([task.tail for task in tasks]),
        first_use=np.searchsorted(uses, np.arange(steps * kinds + 1)),
        resource=np.concatenate([task.resource for task in tasks]),
        busy=np.concatenate([task.busy for task in tasks]),
    )
    begin, end = np.zeros((2, steps * kinds))
    kernels.run_at_once(work, resources, begin, end)
    return begin.reshape(kinds, steps), end.reshape(kinds, steps)
