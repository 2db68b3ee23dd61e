"""The verifier: replays a schedule on a fabric and raises where it breaks a promise, naming the culprit.

It shares no code with the generators. What it proves:

1. the rows are well-formed, and the rows of one lightpath agree (one wavelength range from end to end: continuity);
2. the step dependencies have no cycle;
3. no two lightpaths hold the same channel of a link at the same time, none leaves the fabric's wavelengths, and
   its light reaches the destination, over channels that nothing has broken;
4. no node sends or receives on more wavelengths than it has transceivers; no lightpath has more taps than allowed;
5. every send carries what its source then holds, every contribution arrives exactly once, what is stored over
   something held is complete (so that every rank counts its own contribution from itself, as the lower bounds of
   all-reduces take for granted), and every rank ends with exactly the data that the collective promises.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.collective import STORING
from lightloom.collectives.joint import (
    GroupPart,
    Part,
    ShiftPart,
    joint_schedule,
    lightpath_rows,
)
from lightloom.collectives.schedule.columns import Schedule, repeated_steps
from lightloom.collectives.verify import checks
from lightloom.collectives.verify.checks import check_folding, check_lists, first_piece, of_first_owners, rows_by_chunk
from lightloom.collectives.verify.queued import verify_queued
from lightloom.core.arrays import Effort
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.derived import CellOrder
from lightloom.machines.fabrics.fabric import Fabric

_BLOCK: Effort = 1 << 19


def verify(schedule: Schedule, fabric: Fabric) -> None:
    """Prove that the schedule does what its collective promises, legally on this fabric.

    Time is linear in rows and in occupied channels, of a folded schedule in those that all copies of steps that are not
    alike occupy; memory is about twice the schedule's.

    Raises:
        VerificationError: the first violation found.
    """
    if fabric.ranks != schedule.collective.ranks:
        raise VerificationError(f"schedule for {schedule.collective.ranks} ranks on a fabric of {fabric.ranks}")
    check_lists(schedule)
    schedule = first_piece(schedule, fabric)
    checks.ranges(schedule, fabric)
    if schedule.queued:
        verify_queued(schedule, fabric)
        return
    check_folding(schedule, fabric)
    if schedule.folding is not None and fabric.exclusive:
        checks.lightpaths(schedule, fabric)
        alike = schedule.with_rows(repeated_steps(schedule).rows)
        verify_light(alike.unfolded(fabric.fibre_channels), fabric)
        step, rows, reach = _ordered(schedule, fabric)
    else:
        step, rows, reach = _check_light(schedule, fabric)
    _replay(schedule, fabric, step, rows, reach)


def verify_light(schedule: Schedule, fabric: Fabric) -> None:
    """Prove that the lightpaths of a schedule of steps are legal on this fabric, whatever they carry.

    Raises:
        VerificationError: the first violation found.
    """
    checks.ranges(schedule, fabric)
    _check_light(schedule, fabric)


def _check_light(schedule: Schedule, fabric: Fabric) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.uint8]]:
    """Check the lightpaths; return positions of the rows' steps, rows in their order, and what ends before what."""
    step, rows, reach = _ordered(schedule, fabric)
    checks.lightpaths(schedule, fabric)
    if fabric.exclusive:
        checks.light(schedule, fabric)
        _check_channels(schedule, fabric, step, rows, reach)
        checks.transceivers(schedule, fabric, step, reach)
    return step, rows, reach


def _ordered(schedule: Schedule, fabric: Fabric) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.uint8]]:
    """Return positions of the rows' steps, rows in their order, and which position ends before which begins."""
    position, reach = _order_steps(schedule)
    step = position[schedule.step]
    return step, _in_step_order(schedule, fabric, step), reach


def _order_steps(schedule: Schedule) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return the topological position of each step, and ``reach[a, b]``: a ends before b begins (empty: step order)."""
    steps = schedule.steps
    if schedule.dependencies is None:
        return np.arange(steps, dtype=np.int32), np.zeros((0, 0), np.uint8)
    pairs = np.asarray(schedule.dependencies, dtype=np.int64).reshape(-1, 2)
    outside = ((pairs < 0) | (pairs >= steps)).any(axis=1)
    if outside.any():
        raise VerificationError(f"a dependency names a step outside 0..{steps - 1}: {pairs[np.argmax(outside)]}")
    waits = np.bincount(pairs[:, 0], minlength=steps)
    followers: list[list[int]] = [[] for _ in range(steps)]
    for after, before in pairs.tolist():
        followers[before].append(after)
    ready = [s for s in range(steps) if waits[s] == 0]
    order: list[int] = []
    while ready:
        order.append(ready.pop())
        for after in followers[order[-1]]:
            waits[after] -= 1
            if waits[after] == 0:
                ready.append(after)
    if len(order) < steps:
        stuck = sorted(set(range(steps)) - set(order))
        raise VerificationError(f"dependency cycle among steps {stuck[:8]}: each waits for another of them")
    position = np.empty(steps, np.int32)
    position[order] = np.arange(steps)
    reach = np.zeros((steps, steps), np.uint8)
    for after, before in sorted((int(position[a]), int(position[b])) for a, b in pairs.tolist()):
        reach[:, after] |= reach[:, before]
        reach[before, after] = 1
    return position, reach


def _in_step_order(schedule: Schedule, fabric: Fabric, step: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return row numbers by step; within a step what leaves the switch comes after what enters it."""
    if fabric.in_network_reduction:
        return np.lexsort((schedule.source == fabric.switch_rank, step))
    if np.any(step[1:] < step[:-1]):
        return np.argsort(step, kind="stable")
    return np.arange(len(step))


def _check_channels(
    schedule: Schedule, fabric: Fabric, step: NDArray[np.int32], rows: NDArray[np.int64], reach: NDArray[np.uint8]
) -> None:
    from lightloom.collectives.verify import kernels

    holder, held = np.full((2, fabric.links * fabric.channels), -1, np.int32)
    order = None
    transfers = checks.occupying(
        schedule.lightpath, step, schedule.destination, checks.channels(schedule, fabric), schedule.wavelength_count
    )
    for begin in range(0, len(rows), _BLOCK):
        block = rows[begin : begin + _BLOCK]
        runs = fabric.footprint(
            schedule.source[block].astype(np.int64), schedule.destination[block].astype(np.int64), schedule.route[block]
        )
        order = order or CellOrder.of(fabric.links, fabric.channels, runs, schedule.wavelength_count[block])
        row, link, clash, other = kernels.occupy(block, transfers, runs, order, holder, held, reach)
        if row >= 0:
            wavelengths = fabric.fibre_channels
            raise VerificationError(
                f"{checks.row_name(schedule, row)}: lightpaths {schedule.lightpath[row]} and {other} share wavelength "
                f"{clash % wavelengths} of fibre {clash // wavelengths} on the {fabric.link_name(link)} "
                "at the same time"
            )


def _replay(
    schedule: Schedule, fabric: Fabric, step: NDArray[np.int32], rows: NDArray[np.int64], reach: NDArray[np.uint8]
) -> None:
    from lightloom.collectives.verify import kernels

    n, chunks, kind = schedule.collective.ranks, schedule.chunks, schedule.collective.kind
    if kind in STORING and fabric.in_network_reduction:
        raise VerificationError(
            f"{checks.article(kind)} {kind} does not reduce: this fabric carries in-network reductions only"
        )
    checks.shares(schedule)
    schedule, replayed, wanted = of_first_owners(schedule), chunks, schedule.collective
    if schedule.folding is not None:
        replayed = chunks // n * schedule.folding.period
    part = np.arange(replayed) // (chunks // wanted.parts)
    reader = wanted.ends_at(part)
    begins_at = wanted.begins_at(part) if kind in STORING else reader
    for some in rows_by_chunk(schedule, rows, replayed):
        sends = kernels.Sends(some.rows, some.begins, step, schedule.source, schedule.destination, schedule.reduces)
        stop = some.first_chunk + len(some.begins) - 1
        ends = reader[some.first_chunk : stop]
        if kind in STORING:
            owner = begins_at[some.first_chunk : stop]
            code, where, rank = kernels.replay_gather(sends, owner, ends, n, reach)
        else:
            switch = fabric.switch_rank if fabric.in_network_reduction else -1
            code, where, rank = kernels.replay_reduce(sends, ends, n, reach, switch)
        if code == kernels.REPLAY_KERNELS_WRONG_END:
            raise VerificationError(f"rank {rank} does not end with the complete chunk {some.first_chunk + where}")
        if code != kernels.REPLAY_KERNELS_OK:
            raise VerificationError(_complaint(code, schedule, int(where), int(rank)))


def _complaint(code: int, schedule: Schedule, where: int, rank: int) -> str:
    from lightloom.collectives.verify import kernels

    reasons = {
        kernels.NOT_HELD: f"rank {rank} does not hold the chunk when the step begins",
        kernels.EMPTY: f"rank {rank} has nothing of the chunk to send",
        kernels.REPLAY_KERNELS_TWICE: f"rank {rank} receives a contribution that it already holds",
        kernels.LOST: f"what rank {rank} had summed so far is overwritten and lost",
        kernels.INCOMPLETE: f"rank {rank} stores a sum that is not complete over what it holds",
        kernels.RACE: f"rank {rank} is written to by two sends of one step that do not both add",
        kernels.UNORDERED: f"nothing orders this send after the steps that wrote or read the chunk on rank {rank}",
    }
    return f"{checks.row_name(schedule, where)}: {reasons[code]}"


# The verifier of joint schedules: every group does what its collective promises, and no two share a channel.
#
# What it proves:
#
# 1. the schedule of each part serves its collective on the channels of one group, by the verifier of schedules;
# 2. the lightpaths of all groups of a part lie between the ranks of these groups as the schedule says;
# 3. the lightpaths of all parts together are legal: those whose steps nothing orders hold different channels of every
# link, light reaches its destination, and no rank uses more transceivers than it has;
# 4. sends reach the rank a stride further on, and the one as far before, hop by hop.


def verify_joint(parts: Sequence[Part], fabric: Fabric) -> Schedule:
    """Prove that all parts can run at once, and return the lightpaths of all of them.

    Raises:
        VerificationError: the first violation found.
    """
    joint, begins = joint_schedule(parts, fabric)
    for part, begin, end in zip(parts, begins, [*begins[1:], len(joint)], strict=True):
        rows = slice(begin, end)
        if isinstance(part, ShiftPart):
            _check_shift(part, joint, rows, fabric)
        else:
            verify(part.schedule, part.local(fabric))
            _check_members(part, joint, rows, fabric)
    verify_light(joint, fabric)
    return joint


def _check_members(part: GroupPart, joint: Schedule, rows: slice, fabric: Fabric) -> None:
    """Prove that the lightpaths of every group join the ranks that the schedule of one group says."""
    ranks, stride = part.axis.ranks, part.axis.stride
    first = (np.arange(0, fabric.ranks, ranks * stride)[:, None] + np.arange(stride)).ravel()
    own = lightpath_rows(part.schedule, part.local(fabric))
    for name in ("source", "destination"):
        expected = (first[:, None] + getattr(own, name).astype(np.int64) * stride).ravel()
        if not np.array_equal(getattr(joint, name)[rows], expected):
            raise VerificationError(f"{part.name}: a lightpath's {name} is not the rank that its group has there")


def _check_shift(part: ShiftPart, joint: Schedule, rows: slice, fabric: Fabric) -> None:
    """Follow what every rank sends, hop by hop, both ways."""
    shift = fabric.shift(part.stride, part.channels)
    for way in (1, -1):
        onward = np.full(fabric.ranks, -1, np.int64)
        ends = joint.source[rows].astype(np.int64), joint.destination[rows].astype(np.int64)
        chosen = (ends[1] - ends[0] - way * shift.hop) % fabric.ranks == 0
        onward[ends[0][chosen]] = ends[1][chosen]
        at = np.arange(fabric.ranks)
        for _ in range(part.stride // shift.hop):
            at = onward[at]
            if (at < 0).any():
                raise VerificationError(f"{part.name}: a rank has no circuit to the one {way * shift.hop} further on")
        if not np.array_equal(at, (np.arange(fabric.ranks) + way * part.stride) % fabric.ranks):
            raise VerificationError(f"{part.name}: sends do not reach the rank {way * part.stride} further on")
