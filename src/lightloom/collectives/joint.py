"""Joint schedules: what the groups of several axes do at once on circuits that all stand at the same time.

    axis        groups                       channels        steps
    tensor      0 1 2 3 | 4 5 6 7            0 ... 3         one after the other within the axis
    data        0 4 | 1 5 | 2 6 | 3 7        4 ... 6         likewise; nothing orders them and those of tensor groups
    pipeline    every rank to the next stage 7               circuits that stand

A part says what one group of an axis does; its siblings do the same on the same channels. Nothing orders the steps of
different parts, so that whatever two of them use at any time must differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lightloom.collectives.collective import Collective
from lightloom.collectives.schedule.columns import COLUMNS, Schedule, repeated_steps
from lightloom.core.arrays import Floats, Ints
from lightloom.machines.fabrics.fabric import AxisShare, Fabric, Lightpaths


@dataclass(frozen=True, slots=True)
class GroupPart:
    """One collective in all groups of an axis."""

    name: str
    axis: AxisShare
    schedule: Schedule
    """Schedule of one group, on the fabric of :meth:`local`."""

    def local(self, fabric: Fabric) -> Fabric:
        """Return the fabric that one group of the axis has, with the axis's share of the channels of ``fabric``, the
        whole one; its ranks are numbered from 0 within the group.

        Raises:
            ValueError: the fabric has no such groups.
        """
        ranks, stride, _, channels = self.axis
        part = fabric.share(ranks, stride, channels)
        if part is None:
            raise ValueError(f"{self.name}: no groups of {ranks} ranks that lie {stride} apart on {channels} channels")
        return part


@dataclass(frozen=True, slots=True)
class ShiftPart:
    """Every rank sends to the one a stride further on, and to the one as far before, over circuits that stand."""

    name: str
    stride: int
    first: int
    """First channel that the circuits take."""
    channels: int
    nbytes: float
    """Bytes that every rank sends each way."""


Part = GroupPart | ShiftPart


def part_rows(part: Part, fabric: Fabric) -> tuple[Ints, Lightpaths, Ints, Ints, int]:
    """Return the lightpaths of all groups of a part in the whole fabric, one row for every rank that one reaches.

    Rows of a step whose lightpaths are those of an earlier step are left out.

    Returns:
        Step within the part, from 0, lightpath (source, destination, route and first channel in the whole fabric),
        number of its channels, and number of the lightpath in the part, from 0, which rows of one multicast share:
        [row] each; and the number of steps of the part, 1 for a shift.

    Raises:
        ValueError: the fabric has no such groups as the part names.
    """
    if isinstance(part, ShiftPart):
        circuits, channels = fabric.shift_circuits(part.stride, part.first, part.channels)
        rows = len(circuits.source)
        return np.zeros(rows, np.int64), circuits, np.full(rows, channels), np.arange(rows), 1
    local = part.local(fabric)
    schedule = lightpath_rows(part.schedule, local)
    groups = fabric.ranks // part.axis.ranks
    group, row = np.divmod(np.arange(groups * len(schedule)), len(schedule))
    channel = schedule.fibre.astype(np.int64) * local.fibre_channels + schedule.first_wavelength
    lightpaths = fabric.embedded(part.axis, group, Lightpaths(*schedule.ends(row), channel[row]))
    paths = int(schedule.lightpath.max(initial=-1)) + 1
    number, step, width = (
        column[row].astype(np.int64) for column in (schedule.lightpath, schedule.step, schedule.wavelength_count)
    )
    return step, lightpaths, width, number + group * paths, schedule.steps


def lightpath_rows(schedule: Schedule, fabric: Fabric) -> Schedule:
    """Return one row for every rank that a lightpath reaches, as a schedule that is not folded; the chunks of its rows
    mean nothing.

    Where several steps have the same lightpaths, as those around a ring, only the first is returned. Circuits of a
    queued schedule are all in one step.
    """
    if schedule.queued:
        return schedule.standing(fabric.fibre_channels)
    rows = schedule.with_rows(repeated_steps(schedule)[1])
    return rows.with_columns({}, lists=None).unfolded(fabric.fibre_channels)


def joint_schedule(parts: Sequence[Part], fabric: Fabric) -> tuple[Schedule, list[int]]:
    """Return the lightpaths of all parts as one schedule, and the number of each part's first row: [part].

    Steps are numbered part after part, and each depends on the one before in its part only. What the lightpaths carry
    is left out (an all-gather of no bytes, chunk 0 in every row): the schedules of the parts say it.

    Raises:
        ValueError: the fabric has no such groups as a part names.
    """
    begins: list[int] = []
    columns, dependencies = list[tuple[Ints, ...]](), list[tuple[int, int]]()
    steps = paths = count = 0
    for part in parts:
        begins.append(count)
        step, (*ends, channel), width, number, own_steps = part_rows(part, fabric)
        columns.append((steps + step, paths + number, *ends, *np.divmod(channel, fabric.fibre_channels), width))
        dependencies += [(step + 1, step) for step in range(steps, steps + own_steps - 1)]
        steps, paths = steps + own_steps, paths + int(number.max(initial=-1)) + 1
        count += len(step)
    # The columns of the schedule but for the last two, which say what the lightpaths carry.
    joined: dict[str, Any] = dict(zip(COLUMNS, map(np.concatenate, zip(*columns, strict=True)), strict=False))
    schedule = Schedule(
        algorithm="joint",
        collective=Collective("all-gather", fabric.ranks, 0.0),
        chunks=fabric.ranks,
        steps=steps,
        **joined,
        chunk=np.zeros(count, np.int32),
        reduces=np.zeros(count, np.bool_),
        dependencies=np.array(dependencies, np.int64).reshape(-1, 2),
    )
    return schedule, begins


# Rates of exchanges that share packet links: max-min fairness among their flows, by progressive filling.
#
# all flows rise together until a link is full or their exchange has its own speed; those on a full link keep their
# rate, and their whole exchange with them, all others go on rising

_FULL = 1e-12


def max_min_rates(usage: Floats, flow_rates: Floats) -> Floats:
    """Return, for each exchange, the share of its own speed, 0 to 1, at which it runs while all are under way:
    [exchange]; 1 where it shares no link.

    Rates of flows are max-min fair: none can be raised without lowering one that is no higher. An exchange slows down
    as a whole: all of its flows run at the share of the flows on one link, which is the one that it loads most among
    those that other exchanges load too.

    Args:
        usage: share of each link's capacity that an exchange takes at its own speed, that of running alone:
            [exchange, link], 0 to 1.
        flow_rates: rate of one of its flows on each link at that speed, in any unit: [exchange, link].
    """
    shared = (usage > _FULL) & ((usage > _FULL).sum(axis=0) > 1)
    most = np.where(shared, usage, 0.0).argmax(axis=1)
    alone = ~shared.any(axis=1)
    rates, rising = np.where(alone, 1.0, 0.0), ~alone
    # How fast the share of an exchange rises while the rates of all flows rise by one.
    speed = 1.0 / np.where(alone, 1.0, flow_rates[np.arange(len(usage)), most])
    speed /= speed.max(initial=1.0)
    while rising.any():
        free, growth = 1 - rates @ usage, (rising * speed) @ usage
        tight = growth > _FULL * speed[rising].min()
        full_at = (free[tight] / growth[tight]).min(initial=np.inf)
        rise = min(float(((1 - rates) / speed)[rising].min()), float(full_at))
        rates = rates + rising * speed * max(rise, 0.0)
        full = tight & (1 - rates @ usage <= _FULL)
        rising &= ~((usage[:, full] > _FULL).any(axis=1) | (rates >= 1 - _FULL))
    return np.minimum(rates, 1.0)
