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
from typing import NamedTuple

import numpy as np

from lightloom.collectives.collective import ONE_TO_ONE, STORING
from lightloom.collectives.joint import GroupPart, Part, ShiftPart, joint_schedule, lightpath_rows
from lightloom.collectives.schedule.columns import Folding, Schedule, repeated_steps
from lightloom.collectives.verify import checks, kernels
from lightloom.collectives.verify.checks import check_folding, check_lists, first_piece, of_first_owners, rows_by_chunk
from lightloom.core.arrays import Bytes, Effort, Int32s, Ints
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.derived import CellOrder
from lightloom.machines.fabrics.fabric import Fabric

_BLOCK: Effort = 1 << 19


def verify(schedule: Schedule, fabric: Fabric) -> None:
    """Prove that the schedule does what its collective promises, legally on this fabric.

    Legal are columns that name what exists, steps without a cycle, rows of a lightpath that agree and, on circuits,
    channels that no two lightpaths hold at once, light that reaches its destination, and no more transceivers and taps
    than there are. What ranks hold is replayed to the end of the collective. The schedule must be for as many ranks as
    the fabric has.

    Time is linear in rows and in occupied channels, of a folded schedule in those that all copies of steps that are not
    alike occupy; memory is about twice the schedule's.

    Raises:
        VerificationError: the first violation found.
        UnsupportedError: the rows of all copies of a folded schedule on circuits do not fit in the memory that is free.
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
        verify_light(schedule.with_rows(repeated_steps(schedule)[1]).unfolded(fabric.fibre_channels), fabric)
        order = _order_rows(schedule, fabric)
    else:
        order = _check_light(schedule, fabric)
    _replay(schedule, fabric, order)


def verify_light(schedule: Schedule, fabric: Fabric) -> None:
    """Prove that the lightpaths of a schedule of steps, which is not folded, are legal on this fabric, whatever they
    carry: channels, reach of light, transceivers and taps. On packet fabrics columns must name what exists, steps have
    no cycle, and the rows of each lightpath agree.

    Raises:
        VerificationError: the first violation found.
    """
    checks.ranges(schedule, fabric)
    _check_light(schedule, fabric)


def _check_light(schedule: Schedule, fabric: Fabric) -> _Order:
    """Return an order in which the steps can run, after proving that the lightpaths are legal: on circuits that no two
    hold a channel at once, that light reaches their ends, and that ranks have the transceivers.

    On packet fabrics rows of a lightpath must agree, and nothing else is asked of them.

    Returns:
        The position of each row's step: [row]; row numbers in that order; and 1 where position a ends before position b
        begins, [a, b], empty where steps follow each other.

    Raises:
        VerificationError: the first violation found.
    """
    order = _order_rows(schedule, fabric)
    checks.lightpaths(schedule, fabric)
    if fabric.exclusive:
        checks.light(schedule, fabric)
        _check_channels(schedule, fabric, order)
        step, _, reach = order
        checks.transceivers(schedule, fabric, step, reach)
    return order


_Order = tuple[Int32s, Ints, Bytes]
"""An order in which the steps can run: the position of each row's step [row]; rows by step, within a step what leaves
the switch after what enters it; and whether position a ends before b begins, [a, b], empty where steps follow each
other."""


def _order_rows(schedule: Schedule, fabric: Fabric) -> _Order:
    """Return an order in which the steps can run.

    Returns:
        The position of each row's step: [row]; row numbers by position, within one what leaves a reducing switch after
        what enters it; and 1 where position a ends before position b begins, [a, b], empty where steps follow each
        other.

    Raises:
        VerificationError: a dependency names no step, or dependencies have a cycle.
    """
    position, reach = _order_steps(schedule)
    step = position[schedule.step]
    if fabric.in_network_reduction:
        rows = np.lexsort((schedule.source == fabric.switch_rank, step))
    elif np.any(step[1:] < step[:-1]):
        rows = np.argsort(step, kind="stable")
    else:
        rows = np.arange(len(step))
    return step, rows, reach


def _order_steps(schedule: Schedule) -> tuple[Int32s, Bytes]:
    """Return the topological position of each step, [step], and 1 where the step at position a ends before that at
    position b begins, [a, b]; the latter is empty where steps follow each other.

    Raises:
        VerificationError: a dependency names a step outside the schedule, or steps wait for each other.
    """
    steps = schedule.steps
    if schedule.dependencies is None:
        return np.arange(steps, dtype=np.int32), np.zeros((0, 0), np.uint8)
    pairs = np.asarray(schedule.dependencies, dtype=np.int64).reshape(-1, 2)
    outside = np.any((pairs < 0) | (pairs >= steps), axis=1)
    checks.refuse_first(outside, lambda at: f"a dependency names a step outside 0..{steps - 1}: {pairs[at]}")
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
    # Backwards, so that all that comes after a step is known before the steps that it waits for are looked at.
    for before, after in sorted(((int(position[b]), int(position[a])) for a, b in pairs.tolist()), reverse=True):
        reach[before] |= reach[after]
        reach[before, after] = 1
    return position, reach


def _check_channels(schedule: Schedule, fabric: Fabric, in_order: _Order) -> None:
    """Raise VerificationError where two lightpaths whose steps may run at once hold the same channel of a link.

    ``in_order`` is an order of the steps as :func:`_order_rows` returns it.
    """
    step, rows, reach = in_order
    holder, held = np.full((2, fabric.links * fabric.channels), -1, np.int32)
    order = None
    channel, width = checks.channels(schedule, fabric), schedule.wavelength_count
    transfers = checks.occupying(schedule.lightpath, step, schedule.destination, channel, width)
    for begin in range(0, len(rows), _BLOCK):
        block = rows[begin : begin + _BLOCK]
        runs = fabric.footprint(*schedule.ends(block))
        order = order or CellOrder.of(fabric.links, fabric.channels, runs, width[block])
        row, link, clash, other = kernels.occupy(block, transfers, runs, order, holder, held, reach)
        if row >= 0:
            raise VerificationError(
                f"{checks.row_name(schedule, row)}: lightpaths {schedule.lightpath[row]} and {other} share "
                f"{checks.channel_name(fabric, clash, link)} at the same time"
            )


def _replay(schedule: Schedule, fabric: Fabric, order: _Order) -> None:
    """Prove that every send of a schedule of steps carries what its source holds, and that all ranks end with what they
    must hold. ``order`` is an order of the steps as :func:`_order_rows` returns it.

    Raises:
        VerificationError: the first violation found, by row and rank or, at the end, by rank and chunk.
    """
    step, rows, reach = order
    n, chunks, kind = schedule.collective.ranks, schedule.chunks, schedule.collective.kind
    if kind in STORING and fabric.in_network_reduction:
        raise VerificationError(
            f"{checks.article(kind)} {kind} does not reduce: this fabric carries in-network reductions only"
        )
    checks.shares(schedule)
    schedule, wanted = of_first_owners(schedule), schedule.collective
    replayed = chunks if schedule.folding is None else chunks // n * schedule.folding.period
    part = np.arange(replayed) // (chunks // wanted.parts)
    reader = wanted.ends_at(part)
    begins_at = wanted.begins_at(part) if kind in STORING else reader
    for first_chunk, of_chunks, begins in rows_by_chunk(schedule, rows, replayed):
        sends = kernels.Sends(of_chunks, begins, step, schedule.source, schedule.destination, schedule.reduces)
        stop = first_chunk + len(begins) - 1
        ends = reader[first_chunk:stop]
        if kind in STORING:
            code, where, rank = kernels.replay_gather(sends, begins_at[first_chunk:stop], ends, n, reach)
        else:
            switch = fabric.switch_rank if fabric.in_network_reduction else -1
            code, where, rank = kernels.replay_reduce(sends, ends, n, reach, switch)
        if code == kernels.WRONG_END:
            raise VerificationError(f"rank {rank} does not end with the complete chunk {first_chunk + where}")
        if code != kernels.OK:
            reasons = {
                kernels.NOT_HELD: f"rank {rank} does not hold the chunk when the step begins",
                kernels.EMPTY: f"rank {rank} has nothing of the chunk to send",
                kernels.TWICE: f"rank {rank} receives a contribution that it already holds",
                kernels.LOST: f"what rank {rank} had summed so far is overwritten and lost",
                kernels.INCOMPLETE: f"rank {rank} stores a sum that is not complete over what it holds",
                kernels.RACE: f"rank {rank} is written to by two sends of one step that do not both add",
                kernels.UNORDERED: "nothing orders this send after the steps that wrote or read the chunk on rank "
                f"{rank}",
            }
            raise VerificationError(f"{checks.row_name(schedule, int(where))}: {reasons[code]}")


# The verifier of queued schedules: circuits that stand throughout, each sending its rows one after the other.
#
# On packet fabrics there are no circuits: links serve rows in the order of their steps, those of one step as they are
# listed. Then every row must come after those that bring what it sends, so that no link ever waits for a row behind it.
#
# Beside what is proved of the rows of all schedules, it proves that
#
# 1. no two lightpaths, in no copy of a folded schedule, share a channel of a link, ever; transceivers suffice, and
#    light reaches every destination over nothing that has failed;
# 2. whatever the speeds, every row is sent in the end: a row that stores waits until its source holds the chunk, one
#    that adds until everything that is to be added at its source has arrived;
# 3. every contribution then has arrived exactly once, and every rank ends with what the collective promises.
#
# A folded schedule is replayed for one period of ranks. The state of rank u + r · period on chunks of rank
# o + r · period, and to rank t + r · period in an all-to-all, is that of rank u on chunks of rank o to rank t: so it is
# at the start, and equal rows keep it so.

_EXPECTED = "expected a fabric that is the same"
_UNORDERED = np.zeros((0, 0), np.uint8)
"""No order among steps, of which a queued schedule has none."""


def verify_queued(schedule: Schedule, fabric: Fabric) -> None:
    """Prove that a queued schedule is legal and serves its collective; ranges of columns must have been checked before.

    A queued schedule with dependencies, or on a fabric that reduces in the network, is refused. Time is linear in rows,
    and in channels that all copies occupy.

    Raises:
        VerificationError: the first violation found.
    """
    if fabric.in_network_reduction:
        raise VerificationError("a queued schedule sends from rank to rank, and this fabric reduces in the network")
    if schedule.dependencies is not None:
        raise VerificationError("a queued schedule has no steps that could depend on each other")
    check_folding(schedule, fabric)
    checks.lightpaths(schedule, fabric)
    if fabric.exclusive:
        _check_queued_channels(schedule, fabric, _farthest(schedule, fabric))
        checks.light(schedule, fabric)
        checks.transceivers(schedule, fabric, np.zeros_like(schedule.step), _UNORDERED)
    else:
        _check_rotation(schedule, fabric, checks.reached(schedule))
    _replay_queued(schedule, fabric)


def _farthest(schedule: Schedule, fabric: Fabric) -> Ints:
    """Return the row of each used lightpath that goes to its farthest destination, by links: [lightpath], ascending."""
    at = checks.reached(schedule)
    path = schedule.lightpath[at]
    nearest_first = np.lexsort((fabric.hops(*schedule.ends(at)), path))
    return at[nearest_first[np.flatnonzero(np.diff(path, append=-1))]]


def _check_queued_channels(schedule: Schedule, fabric: Fabric, farthest: Ints) -> None:
    """Raise VerificationError where lightpaths of any copies, which all stand at once, share a channel of a link, or a
    channel does not exist.

    ``farthest`` has one row number for each lightpath, that to its farthest destination.
    """
    source, destination, route = schedule.ends(farthest)
    count = schedule.wavelength_count[farthest].astype(np.int64)
    channel = checks.copies(schedule, fabric, farthest)
    if channel.size and (channel.min() < 0 or (channel + count).max() > fabric.channels):
        copy, at = np.argwhere((channel < 0) | (channel + count > fabric.channels))[0]
        raise VerificationError(
            f"copy {copy} of lightpath {schedule.lightpath[farthest[at]]} takes channels {channel[copy, at]} and "
            f"{count[at] - 1} more: the fabric has {fabric.channels} a link"
        )
    holder, held = np.full((2, fabric.links * fabric.channels), -1, np.int32)
    order = CellOrder.of(fabric.links, fabric.channels, fabric.footprint(source, destination, route), count)
    for copy, place, begin, end, first in checks.copied(schedule, fabric, farthest):
        lightpath, none = place + copy * len(farthest), np.zeros_like(place)
        transfers = checks.occupying(lightpath, none, end, first, count[place])
        runs = fabric.footprint(begin, end, route[place])
        at, link, clash, _ = kernels.occupy(np.arange(len(place)), transfers, runs, order, holder, held, _UNORDERED)
        if at >= 0:
            row = farthest[place[at]]
            raise VerificationError(
                f"rank {schedule.source[row]}→{schedule.destination[row]} (row {row}, copy {copy[at]}): lightpaths "
                f"share {checks.channel_name(fabric, clash, link)}"
            )


def _check_rotation(schedule: Schedule, fabric: Fabric, rows: Ints) -> None:
    """Prove that copies of a folded schedule use packet links alike, so that what is true of the first is true of all;
    nothing of schedules that are not folded or are for one of several sibling groups.

    In each copy, whose ranks lie whole periods further on, every link that rows use must become another link, of the
    same bandwidth and latency, that no other link becomes in any copy unless both become the same set of links. In a
    queued schedule no copy of a row may cross a link that the row crosses, as it would be served before or after it.

    Args:
        rows: row numbers, one for each destination of each lightpath.

    Raises:
        VerificationError: a copy takes other ways, links are not equally fast, or copies meet on a link.
    """
    folding = schedule.folding
    if folding is None or len(fabric.siblings()[1]) > 1:
        return
    ends = schedule.ends(rows)
    own = fabric.path(*ends)
    used, number = np.unique(own[own >= 0], return_inverse=True)
    turned = np.empty((folding.copies, len(used)), np.int64)
    at_once = max(checks.COPIES_AT_ONCE, len(rows)) // len(rows)
    for begin in range(0, folding.copies, at_once):
        copy = np.arange(begin, min(begin + at_once, folding.copies))
        taken = _links_of_copies(fabric, ends, own, copy, folding)
        turned[copy[:, None], number] = taken
        if (turned[copy[:, None], number] != taken).any():
            other = copy[(turned[copy[:, None], number] != taken).any(axis=1)][0]
            raise VerificationError(f"copy {other} of the rows takes other ways: {_EXPECTED} {folding.period} ranks on")
    for quantity in (fabric.link_bandwidth(), fabric.link_latency()):
        if (quantity[turned] != quantity[used]).any():
            raise VerificationError(f"copies of the rows take links that are not equally fast: {_EXPECTED} further on")
    orbits = np.unique(np.sort(turned, axis=0), axis=1)
    if len(np.unique(orbits)) < orbits.size:
        raise VerificationError(f"copies of the rows meet on a link: expected other links in all {folding.copies}")
    if schedule.queued:
        orbit = np.full(own.shape, -1)
        orbit[own >= 0] = turned.min(axis=0)[number]
        orbit.sort(axis=1)
        waits = ((orbit[:, 1:] == orbit[:, :-1]) & (orbit[:, 1:] >= 0)).any(axis=1)
        if waits.any():
            row = rows[np.argmax(waits)]
            raise VerificationError(f"row {row} waits for a copy of itself on a link: expected the rows of all copies")


def _links_of_copies(fabric: Fabric, ends: tuple[Ints, Ints, Ints], own: Ints, copy: Ints, folding: Folding) -> Ints:
    """Return the links of transfers in some copies of a folded schedule, in the order of the links of the first copy:
    [copy, link].

    Args:
        ends: source, destination and route of the transfers in the first copy: [transfer] each.
        own: links of these, below 0 where there is none, which have no entry in the result: [transfer, place].
        copy: numbers of the copies.

    Raises:
        VerificationError: a copy passes another number of links, or takes another time, than the first.
    """
    copies = len(copy)
    source, destination = (folding.moved(rank, copy[:, None]).ravel() for rank in ends[:2])
    route = np.tile(ends[2], copies)
    path = fabric.path(source, destination, route)
    latency = fabric.latency(source, destination, route).reshape(copies, -1)
    alike = np.isclose(latency, fabric.latency(*ends), rtol=1e-12, atol=0).all(axis=1)
    alike &= path.shape[1] == own.shape[1]
    if alike.all():
        path = path.reshape(copies, *own.shape)
        alike = ((path < 0) == (own < 0)).all(axis=(1, 2))
    if not alike.all():
        raise VerificationError(
            f"copy {copy[np.argmin(alike)]} of the rows takes other ways: {_EXPECTED} {folding.period} ranks on"
        )
    return np.asarray(path[:, own >= 0])


def _replay_queued(schedule: Schedule, fabric: Fabric) -> None:
    """Send the rows of each lightpath in the order of their steps, on packet fabrics all rows as one such queue, each
    as soon as its source has what it carries, and prove that all ranks end with what the collective promises.

    Raises:
        VerificationError: a row is never sent or sends twice, a rank does not end with what it must hold, chunks do not
            divide among the parts, a row adds where the kind only moves data, or stores where the kind leaves sums on
            one rank each (reduce, reduce-scatter and reduce-scatter-v).
    """
    ranks, chunks, kind = schedule.collective.ranks, schedule.chunks, schedule.collective.kind
    checks.shares(schedule)
    rule = schedule.collective.rule
    if rule.adds and rule.after != "every" and not schedule.reduces.all():
        raise VerificationError(f"row {int(np.argmin(schedule.reduces))}: a {kind} must add")
    cells, queue = _Cells.of(schedule), schedule.lightpath if fabric.exclusive else np.zeros_like(schedule.lightpath)
    place = queue * np.int64(max(schedule.steps, 1)) + schedule.step
    order = np.arange(len(place)) if np.all(place[1:] >= place[:-1]) else np.argsort(place, kind="stable")
    begins = np.concatenate([[0], np.cumsum(np.bincount(queue))])
    rows = kernels.QueuedRows(order, begins, cells.origin, cells.target, schedule.reduces)
    parts = np.zeros(len(cells.code), np.int64)
    parts[cells.begins] = 1
    code, at = kernels.replay(rows, parts, 1 if kind in STORING else ranks, cells.ends)
    if code == kernels.WRONG_END:
        rank, chunk = divmod(int(cells.code[cells.ends[at]]), chunks)
        raise VerificationError(f"rank {rank} does not end with the complete chunk {chunk}")
    if code != kernels.OK:
        reasons = {
            kernels.STUCK: "is never sent: its source waits for something that does not come"
            + ("" if fabric.exclusive else " before it"),
            kernels.TWICE: "arrives where the chunk is already held, or was already sent on",
            kernels.AGAIN: "the source has already given away its part of this sum",
        }
        raise VerificationError(f"{checks.row_name(schedule, at)}: {reasons[code]}")


class _Cells(NamedTuple):
    """Ranks of the first period with chunks, numbered: all of them, or those that an all-to-all ever uses."""

    code: Ints
    """rank · chunks + chunk: [cell]."""
    origin: Ints
    """Cell that a row reads: [row]."""
    target: Ints
    """Cell that a row writes, rotated back into the first period: [row]."""
    begins: Ints
    """Cells that hold a contribution before."""
    ends: Ints
    """Cells that must be complete in the end."""

    @classmethod
    def of(cls, schedule: Schedule) -> _Cells:
        """Return the cells of a queued schedule, numbered from 0, as ``code``, rank · chunks + chunk of each; the cells
        that each row reads (``origin``) and writes (``target``); and by its collective those that hold a contribution
        before (``begins``) and must be complete after (``ends``).

        A cell is a rank of the first period with a chunk; in kinds whose parts go from one rank to one rank only those
        that one of these arrays names are numbered, else all.
        """
        ranks, chunks, kind = schedule.collective.ranks, schedule.chunks, schedule.collective.kind
        period = ranks if schedule.folding is None else schedule.folding.period
        chunk, to = schedule.chunk.astype(np.int64), schedule.destination.astype(np.int64) % period
        origin = schedule.source * np.int64(chunks) + chunk
        target = to * chunks + checks.moved_back(schedule, chunk, schedule.destination // period)
        if kind in ONE_TO_ONE:
            begins, ends = _ends_of_parts(schedule, period)
            code, number = np.unique(np.concatenate([origin, target, begins, ends]), return_inverse=True)
            origin, target, begins, ends = np.split(number, np.cumsum([len(origin), len(target), len(begins)]))
            return cls(code, origin, target, begins, ends)
        everything, rule = np.arange(period * chunks), schedule.collective.rule
        rank, inside = np.divmod(everything, chunks)
        own = everything[inside // max(chunks // ranks, 1) == rank]
        of_holder = {"own": own, "root": everything[:chunks], "every": everything}
        return cls(everything, origin, target, of_holder[rule.before], of_holder[rule.after])


def _ends_of_parts(schedule: Schedule, period: int) -> tuple[Ints, Ints]:
    """Return the cells of the first period of ranks where the parts of a collective from one rank to one rank lie
    before, and where they must lie after: [cell] each.

    A cell is rank · chunks + chunk; entries of the two arrays belong together only where rows are not folded.

    Args:
        period: ranks of a period; where they are fewer than all the collective is an all-to-all.
    """
    collective, chunks = schedule.collective, schedule.chunks
    if period < collective.ranks:
        # Folded all-to-alls of many ranks: all pairs would take too much memory.
        block = chunks // collective.ranks**2
        rank, other = np.divmod(np.arange(period * collective.ranks * block), collective.ranks * block)
        begins = rank * chunks + rank * collective.ranks * block + other
        return begins, rank * chunks + (other // block * collective.ranks + rank) * block + other % block
    chunk = np.arange(chunks)
    part = chunk // (chunks // collective.parts)
    return collective.begins_at(part) * chunks + chunk, collective.ends_at(part) * chunks + chunk


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
    """Prove that all parts can run at once, and return the lightpaths of all of them as one schedule
    (:func:`lightloom.collectives.joint.joint_schedule`).

    The schedules of the parts are verified on one group each, sends of a shift hop by hop.

    Raises:
        VerificationError: the first violation found.
        UnsupportedError: a part's schedule takes more memory than is free (:func:`verify`).
        ValueError: the fabric has no such groups as a part names.
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
    """Prove that the lightpaths of every group of a part join the ranks that the schedule of one group says.

    ``rows`` are the part's rows in the joint schedule.

    Raises:
        VerificationError: a source or a destination is another rank.
    """
    ranks, stride = part.axis.ranks, part.axis.stride
    first = (np.arange(0, fabric.ranks, ranks * stride)[:, None] + np.arange(stride)).ravel()
    own = lightpath_rows(part.schedule, part.local(fabric))
    for name in ("source", "destination"):
        expected = (first[:, None] + getattr(own, name).astype(np.int64) * stride).ravel()
        if not np.array_equal(getattr(joint, name)[rows], expected):
            raise VerificationError(f"{part.name}: a lightpath's {name} is not the rank that its group has there")


def _check_shift(part: ShiftPart, joint: Schedule, rows: slice, fabric: Fabric) -> None:
    """Prove, hop by hop, that what every rank sends reaches the rank a stride further on, and the one a stride back.

    ``rows`` are the part's rows in the joint schedule.

    Raises:
        VerificationError: some rank's send finds no circuit, or does not reach the rank a stride further on or back.
    """
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
