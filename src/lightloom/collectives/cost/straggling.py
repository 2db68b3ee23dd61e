"""How much later a collective ends when one rank starts late, or sends slower than the others.

    late      the rank sends nothing before some time; what reaches it earlier waits there for it
    slower    whatever the rank sends holds its lightpath so many times longer

A queued schedule is played again: rows keep their order on each lightpath and wait for what they need. A schedule of
steps has barriers: a step ends when its slowest sender has sent, and the steps that depend on it wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import TopologicalSorter

import numpy as np

from lightloom.collectives.cost.order import steps_before
from lightloom.collectives.cost.queued import busy_and_delay, follows, play
from lightloom.collectives.cost.stepped import step_times
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.fabrics.base import Fabric


@dataclass(frozen=True, slots=True)
class Straggling:
    """What one straggler costs."""

    time: float
    """Seconds of a run in which none straggles, circuits set up on the way."""
    later: Floats
    """Seconds that a run ends later if it is this rank that straggles: [rank]."""

    @property
    def worst(self) -> int:
        """The rank that delays most."""
        return int(self.later.argmax())


def straggling(schedule: Schedule, fabric: Fabric, *, late: float = 0.0, slower: float = 1.0) -> Straggling:
    """Let every rank straggle in turn; the schedule being verified.

    Of a folded schedule, one period of ranks; the others delay as much as these.

    Args:
        late: seconds that the rank begins to send after the first circuits stand.
        slower: times longer that it holds lightpaths; 1 or more.

    Raises:
        ConfigError: a time or a factor out of range.
        UnsupportedError: a fabric that switches packets.
    """
    if not (late >= 0 and np.isfinite(late)):
        raise ConfigError(f"late={late}: expected seconds, not negative")
    if not (slower >= 1 and np.isfinite(slower)):
        raise ConfigError(f"slower={slower}: expected a factor of 1 or more")
    if not fabric.exclusive:
        raise UnsupportedError("stragglers are played on circuits, and this fabric switches packets")
    if schedule.queued:
        return _queued(schedule, fabric, late, slower)
    return _stepped(schedule, fabric, late, slower)


def _queued(schedule: Schedule, fabric: Fabric, late: float, slower: float) -> Straggling:
    from lightloom.collectives.cost import _queue_kernels as kernels

    ranks, folding = schedule.collective.ranks, schedule.folding
    period = ranks if folding is None else folding.period
    unfolded = schedule.unfolded(fabric.fibre_channels)
    # In the order in which rows begin; of some bytes, so that nothing begins before what it waits for.
    begin = play(unfolded.resized(max(unfolded.collective.nbytes, 1.0)), fabric).begin
    order = np.lexsort((unfolded.lightpath, begin))
    ends = np.concatenate([unfolded.source, unfolded.destination]).astype(np.int64)
    cells, number = np.unique(ends * unfolded.chunks + np.tile(unfolded.chunk, 2), return_inverse=True)
    origin, target = np.split(number, 2)
    rows = kernels.PlayedRows(
        order,
        unfolded.lightpath,
        follows(unfolded, order),
        origin,
        target,
        unfolded.reduces,
        *busy_and_delay(unfolded, fabric),
    )
    end = np.zeros(1 + period)
    # Nobody is rank -1: the first run is one without a straggler.
    kernels.straggle(rows, unfolded.source, len(cells), np.arange(-1, period), late, slower, end)
    return Straggling(float(end[0]) + fabric.setup_time, np.tile(end[1:] - end[0], ranks // period))


def _stepped(schedule: Schedule, fabric: Fabric, late: float, slower: float) -> Straggling:
    schedule = schedule.unfolded(fabric.fibre_channels)
    ranks, steps = schedule.collective.ranks, schedule.steps
    times = step_times(schedule, fabric)
    sends = _sending_seconds(schedule, fabric)
    slow = _sending_seconds(schedule, fabric, slower)
    before, setup = (
        steps_before(steps, schedule.dependencies),
        min(fabric.setup_time, float(times.reconfiguration.sum())),
    )
    alone, end = np.zeros(steps), np.zeros((steps, ranks))
    for step in TopologicalSorter(dict(enumerate(before))).static_order():
        ready = max((alone[earlier] for earlier in before[step]), default=0.0)
        alone[step] = ready + times.duration[step]
        begin = np.max([end[earlier] for earlier in before[step]], axis=0, initial=0.0)
        waits = times.duration[step] - times.transmission[step]
        end[step] = begin + waits + np.maximum(times.transmission[step], slow[step])
        # Later circuits are set up while it is waited for.
        came = setup + late + times.conversion[step] + slow[step]
        end[step] = np.where(sends[step] > 0, np.maximum(end[step], came), end[step])
    last = float(alone.max())
    return Straggling(last, np.maximum(end.max(axis=0) - last, 0.0))


def _sending_seconds(schedule: Schedule, fabric: Fabric, slower: float = 1.0) -> Floats:
    """Seconds that each rank sends in each step, to the arrival of the last: [step, rank]."""
    _, first, path = np.unique(schedule.lightpath, return_index=True, return_inverse=True)
    once = (schedule.destination == schedule.destination[first][path]).astype(np.float64)
    sent = np.bincount(path, weights=once if schedule.weights is None else once * schedule.weights)
    source, destination, route = schedule.ends(slice(None))
    width = schedule.wavelength_count * fabric.channel_bandwidth
    seconds = slower * sent[path] * schedule.chunk_nbytes / width + fabric.latency(source, destination, route)
    longest = np.zeros((schedule.steps, schedule.collective.ranks))
    np.maximum.at(longest, (schedule.step, source), np.maximum(seconds, 1e-300))
    return longest
