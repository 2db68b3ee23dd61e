"""Checks of rows, lightpaths and light for both verifiers; they share no code with what makes schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from math import prod

import numpy as np

from lightloom.collectives.collective import FOLDABLE, STORING
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.verify import kernels
from lightloom.core.arrays import Column, Effort, Int32s, Ints, Mask, read_only
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.fabric import Fabric

_LIGHTPATH_COLUMNS = ("source", "route", "fibre", "first_wavelength", "wavelength_count")


def row_name(schedule: Schedule, row: int) -> str:
    """Return the name of a row for messages, such as "step 3, rank 0→1, chunk 5 (row 7)"; of a list of chunks the first
    one and how many more."""
    s = schedule
    return f"step {s.step[row]}, rank {s.source[row]}→{s.destination[row]}, {_carried(s, row)} (row {row})"


def _carried(schedule: Schedule, row: int) -> str:
    """Return the name of the chunks that a row carries, for messages: "chunk 5", or "chunk 5 and 3 more of list 2"; a
    list that does not exist by its number."""
    lists, number = schedule.lists, int(schedule.chunk[row])
    if lists is None:
        return f"chunk {number}"
    if not 0 <= number < len(lists):
        return f"list {number} of chunks"
    first, *others = lists.chunks_of(schedule.chunk[row : row + 1]).tolist()
    return f"chunk {first}" + (f" and {len(others)} more of list {number}" if others else "")


def refuse_first(wrong: Mask, message: Callable[[int], str]) -> None:
    """Raise VerificationError with ``message(index)`` of the first entry that is wrong, if there is one."""
    if wrong.any():
        raise VerificationError(message(int(np.argmax(wrong))))


def channel_name(fabric: Fabric, channel: int, link: int) -> str:
    """Return the name of a channel of a link for messages: "wavelength 3 of fibre 0 on the ...", with the fabric's name
    of the link."""
    fibre, wavelength = divmod(channel, fabric.fibre_channels)
    return f"wavelength {wavelength} of fibre {fibre} on the {fabric.link_name(link)}"


def article(kind: str) -> str:
    """Return "an" for the name of a kind of collective that begins with a, else "a"."""
    return "an" if kind.startswith("a") else "a"


def ranges(schedule: Schedule, fabric: Fabric) -> None:
    """Prove that every column names what exists, and that no rank sends to itself.

    Looked at are steps, ranks (the switch among them where it reduces), chunks or lists of chunks, routes, numbers of
    lightpaths (0 to twice the rows) and, on circuits only, fibres and wavelengths, of which a row has one at least.

    Raises:
        VerificationError: the first row of the first column found that does not.
    """
    ends = schedule.collective.ranks + (1 if fabric.in_network_reduction else 0)
    limits = {
        "step": schedule.steps,
        "source": ends,
        "destination": ends,
        "chunk": schedule.chunks if schedule.lists is None else len(schedule.lists),
        "route": fabric.routes,
        # Labels, not counts; bounded so that a wild one cannot fill the memory.
        "lightpath": 2 * len(schedule) + 1,
    }
    for name, limit in limits.items():
        column = getattr(schedule, name)
        if len(column) and (column.min() < 0 or column.max() >= limit):
            row = int(np.flatnonzero((column < 0) | (column >= limit))[0])
            raise VerificationError(f"{row_name(schedule, row)}: {name} {column[row]} is not in 0..{limit - 1}")
    itself = schedule.source == schedule.destination
    refuse_first(itself, lambda row: f"{row_name(schedule, row)}: a rank sends to itself")
    if fabric.exclusive:
        _check_wavelengths(schedule, fabric)


def _check_wavelengths(schedule: Schedule, fabric: Fabric) -> None:
    """Raise VerificationError about the first row whose fibre or wavelengths do not exist, or that has no wavelength;
    its wavelengths may go on from the last one of a fibre to the first one of the next fibre."""
    wavelengths = fabric.fibre_channels
    channel, count = channels(schedule, fabric), schedule.wavelength_count
    outside = (
        (count < 1)
        | (schedule.fibre < 0)
        | (schedule.first_wavelength < 0)
        | (schedule.first_wavelength >= wavelengths)
        | (channel + count > fabric.channels)
    )
    refuse_first(
        outside,
        lambda row: (
            f"{row_name(schedule, row)}: fibre {schedule.fibre[row]}, wavelengths "
            f"{schedule.first_wavelength[row]} and {count[row] - 1} more do not exist: "
            f"the fabric has {fabric.channels} channels a link"
        ),
    )


def channels(schedule: Schedule, fabric: Fabric) -> Int32s:
    """Return the first channel of each row, fibre · wavelengths of a fibre + first wavelength: [row]."""
    channel = schedule.fibre.astype(np.int32)
    channel *= np.int32(fabric.fibre_channels)
    channel += schedule.first_wavelength
    return channel


def occupying(
    lightpath: Column, step: Column, destination: Column, channel: Column, width: Column
) -> kernels.Transfers:
    """Return five columns of rows as the int32 arrays that the verifier's kernel takes: lightpath, step, destination,
    first channel and number of channels."""
    columns = (np.asarray(column, np.int32) for column in (lightpath, step, destination, channel, width))
    return kernels.Transfers(*map(read_only, columns))


def reached(schedule: Schedule) -> Ints:
    """Return the number of the first row of every destination of every lightpath, by lightpath and then by destination:
    [row]."""
    served = schedule.lightpath * np.int64(schedule.collective.ranks + 1) + schedule.destination
    return np.unique(served, return_index=True)[1]


def _first_rows(schedule: Schedule) -> Ints:
    """Return the number of the first row of the lightpath of each row: [row]."""
    first_row = np.empty(int(schedule.lightpath.max(initial=0)) + 1, np.int64)
    first_row[schedule.lightpath[::-1]] = np.arange(len(schedule))[::-1]
    return first_row[schedule.lightpath]


def lightpaths(schedule: Schedule, fabric: Fabric) -> None:
    """Prove that the rows of a lightpath agree, and that it has no more taps than allowed.

    Rows agree in source, route and wavelengths, and in their step unless the schedule is queued.

    Raises:
        VerificationError: two rows disagree, or a lightpath serves more destinations than the fabric's taps.
    """
    # Rows of a queued lightpath differ in their steps, which are places in its queue.
    names = _LIGHTPATH_COLUMNS if schedule.queued else ("step", *_LIGHTPATH_COLUMNS)
    own = _first_rows(schedule)
    others = np.flatnonzero(own != np.arange(len(own)))
    columns = {name: getattr(schedule, name) for name in names}
    differs = reduce(np.logical_or, (column[others] != column[own[others]] for column in columns.values()))
    if differs.any():
        row = int(others[np.argmax(differs)])
        first = own[row]
        name, column = next((name, column) for name, column in columns.items() if column[row] != column[first])
        raise VerificationError(
            f"{row_name(schedule, row)}: lightpath {schedule.lightpath[row]} breaks continuity: {name} "
            f"{column[row]} here, {column[first]} in row {first}"
        )
    if np.any(schedule.destination[others] != schedule.destination[own[others]]):
        taps = np.bincount(schedule.lightpath[reached(schedule)])
        if taps.max() > fabric.taps:
            worst = int(np.argmax(taps))
            sender = schedule.source[np.argmax(schedule.lightpath == worst)]
            raise VerificationError(
                f"lightpath {worst} from rank {sender} serves {taps[worst]} destinations: "
                f"the fabric's light can be tapped by {fabric.taps}"
            )


COPIES_AT_ONCE: Effort = 1 << 16
"""Transfers of all copies whose links are looked up at once."""


def light(schedule: Schedule, fabric: Fabric) -> None:
    """Prove that light gets to every destination of every lightpath, in all copies.

    Light may not pass more links than the fabric's reach, blocked wavelengths, or failed transceivers at its ends.

    Raises:
        VerificationError: the first transfer found whose light does not get there.
    """
    if fabric.reach is None and fabric.blocked() is None and fabric.blocked_ends() is None:
        return
    rows = reached(schedule)
    route, count = schedule.ends(rows)[2], schedule.wavelength_count[rows].astype(np.int64)
    for _, place, begin, end, first in copied(schedule, fabric, rows):

        def name(at: int, place: Ints = place) -> str:
            """Return the name of the row of transfer ``at`` of this block."""
            return row_name(schedule, rows[place[at]])

        _check_light(fabric, begin, end, route[place], first, count[place], name)


def copied(schedule: Schedule, fabric: Fabric, rows: Ints) -> Iterator[tuple[Ints, Ints, Ints, Ints, Ints]]:
    """Yield these rows in all copies, those of a copy one after the other, in blocks of about 65,536: the number of
    their copy, their index in ``rows``, source, destination and first channel, [transfer] each."""
    source, destination, _ = schedule.ends(rows)
    channel, at_once = copies(schedule, fabric, rows), max(1, COPIES_AT_ONCE // max(len(rows), 1))
    for begin in range(0, len(channel), at_once):
        copy = np.arange(begin, min(begin + at_once, len(channel)))
        ends = (moved(schedule, rank, copy[:, None]) for rank in (source, destination))
        block = np.broadcast_arrays(copy[:, None], np.arange(len(rows)), *ends, channel[copy])
        number, place, begins, arrives, first = (column.ravel() for column in block)
        yield number, place, begins, arrives, first


def copies(schedule: Schedule, fabric: Fabric, rows: Ints) -> Ints:
    """Return the first channel of each copy of these rows, the one copy of what is not folded: [copy, row]. The folding
    must state the channels of its copies, as that of a queued schedule on circuits does."""
    if schedule.folding is not None:
        return schedule.folding.channel[:, schedule.lightpath[rows]].astype(np.int64)
    return channels(schedule, fabric)[None, rows].astype(np.int64)


def moved(schedule: Schedule, rank: Ints, copy: Ints | int, *, back: bool = False) -> Ints:
    """Return the ranks that take, in copy number ``copy`` (from 0, the rows as they are) of a folded schedule, the
    places of ``rank`` in the first copy; with ``back`` the ranks of the first copy for the ranks ``rank`` of ``copy``.
    What is not folded has them unchanged."""
    return rank if schedule.folding is None else np.asarray(schedule.folding.moved(rank, copy, back=back))


def moved_back(schedule: Schedule, chunk: Ints, copy: Ints) -> Ints:
    """Return, for chunks of copies of a folded schedule, the chunks in the same places in the first copy: their owners,
    and in an all-to-all their readers, are moved back. ``copy`` is the number of each chunk's copy, from 0. What is not
    folded has the chunks unchanged."""
    if schedule.folding is None:
        return chunk
    ranks = schedule.collective.ranks
    share = schedule.chunks // ranks
    owner, inner = np.divmod(chunk, share)
    if schedule.collective.kind == "all-to-all":
        block = share // ranks
        reader, inner = np.divmod(inner, block)
        inner = moved(schedule, reader, copy, back=True) * block + inner
    return moved(schedule, owner, copy, back=True) * share + inner


def _check_light(
    fabric: Fabric, source: Ints, destination: Ints, route: Ints, channel: Ints, count: Ints, name: Callable[[int], str]
) -> None:
    """Raise VerificationError where light of a transfer passes more links than it reaches, or begins or ends at a
    failed transceiver, or passes a blocked channel.

    All arrays are [transfer]; ``channel`` is the first of ``count`` channels, and ``name`` names a transfer by its
    index in messages.
    """
    if fabric.reach is not None:
        links = fabric.hops(source, destination, route)
        if len(links) and links.max() > fabric.reach:
            worst = int(np.argmax(links))
            raise VerificationError(f"{name(worst)}: passes {links[worst]} links: light reaches at most {fabric.reach}")
    ends = fabric.blocked_ends()
    if ends is not None:
        dead = np.concatenate([np.zeros((*ends.shape[:2], 1), np.int64), np.cumsum(ends, axis=2)], axis=2)
        for verb, rank in (("begin", source), ("end", destination)):
            broken = np.flatnonzero(dead[rank, route, channel + count] > dead[rank, route, channel])
            if len(broken):
                at = int(broken[0])
                raise VerificationError(
                    f"{name(at)}: no lightpath can {verb} at rank {rank[at]} on one of the {count[at]} channels from "
                    f"{channel[at]} on: its transceiver has failed"
                )
    blocked = fabric.blocked()
    if blocked is None:
        return
    runs = fabric.footprint(source, destination, route)
    at, link, clash = kernels.first_blocked(runs, np.ascontiguousarray(channel), count, blocked)
    if at >= 0:
        raise VerificationError(f"{name(at)}: no light passes {channel_name(fabric, clash, link)}")


def transceivers(schedule: Schedule, fabric: Fabric, step: Column, reach: Column) -> None:
    """Prove that no rank sends, and none receives, on more wavelengths at once than it has transceivers; sending and
    receiving count apart.

    A lightpath counts with its wavelengths once at its source, and once at each of its destinations; those of a queued
    schedule all stand at once. Nothing is checked where the fabric states no number of them. Of a folded schedule ranks
    count modulo its period. Of steps with dependencies an upper estimate is compared, so that a schedule that needs a
    few less may be refused too.

    Args:
        step: position of each row's step, all 0 in a queued schedule: [row].
        reach: True where the step at position a ends before that at position b begins: [a, b]; empty where steps follow
            each other.

    Raises:
        VerificationError: a rank that uses more of them in one step, or in steps that may run at once.
    """
    if fabric.transmitters is None:
        return
    period = fabric.ranks if schedule.folding is None else schedule.folding.period
    first = np.flatnonzero(_first_rows(schedule) == np.arange(len(schedule)))
    received = first if len(first) == len(schedule) else reached(schedule)
    for verb, nodes, rows in (("sends", schedule.source, first), ("receives", schedule.destination, received)):
        # Of ordered steps only those that the rows name take memory.
        names, place = (np.arange(len(reach)), step[rows]) if len(reach) else np.unique(step[rows], return_inverse=True)
        cell, size = place.astype(np.int64) * period + nodes[rows] % period, len(names) * period
        used = np.bincount(cell, schedule.wavelength_count[rows], size).reshape(len(names), period)
        if len(reach):
            # Steps that nothing orders may run at once, so their needs add up; of a chain of steps one runs at a time.
            together = (1.0 - np.maximum(reach, reach.T)) @ used
            used = np.minimum(together, sum(used[chain].max(axis=0) for chain in _chains(reach)))
        if (used > fabric.transmitters).any():
            at, node = np.unravel_index(int(np.argmax(used)), used.shape)
            raise VerificationError(
                f"step {names[at]}: rank {node} {verb} on {int(used[at, node])} wavelengths at once: "
                f"it has {fabric.transmitters} transceivers"
            )


def _chains(reach: Column) -> list[list[int]]:
    """Return steps parted into chains, each step of which ends before the next one begins.

    Each chain lists positions of steps, ascending; a step joins the first chain whose last step ends before it begins.

    Args:
        reach: whether step a ends before step b begins, steps in an order that agrees: [a, b].
    """
    chains: list[list[int]] = []
    for step in range(len(reach)):
        chain = next((chain for chain in chains if reach[chain[-1], step]), None)
        if chain is None:
            chains.append(chain := [])
        chain.append(step)
    return chains


def shares(schedule: Schedule) -> None:
    """Prove that every part of the collective has equally many chunks, and that no row of a kind that only moves data
    adds.

    Raises:
        VerificationError: the chunks do not divide, or a row adds where it must not.
    """
    kind, owners = schedule.collective.kind, schedule.collective.parts
    if schedule.chunks < 1 or schedule.chunks % owners:
        raise VerificationError(f"{schedule.chunks} chunks cannot be shared equally by {owners} owners")
    if kind in STORING:
        must_not = f"{article(kind)} {kind} must not add"
        refuse_first(schedule.reduces, lambda row: f"{row_name(schedule, row)}: {must_not}")


# Folded schedules and pipelines: proof that their rows stand for all ranks and all pieces.
#
# Why the chunks of one period of ranks prove all: with every rank moved to that of another copy (``Folding.moved``)
# the schedule is the same, each chunk being the one whose owner is moved alike, since one move after another is a
# move. So what happens to the chunks of owners 0 ... period − 1, in rows of all copies, is what happens to every
# other chunk. Each row moves such a chunk in exactly one of its copies, so that there are as many of these rows as
# the folded schedule has. Light is checked in all copies, once for all steps that are alike.
#
# Pieces of a pipeline are proved by their first: piece p does the same as piece 0 on chunks of its own, each of its
# steps p · interval later, so what precedes what does not change; and packets share links.


def first_piece(schedule: Schedule, fabric: Fabric) -> Schedule:
    """Return the rows of a pipeline's first piece, which stand for all, after proving that they can; a schedule that is
    no pipeline unchanged.

    Raises:
        VerificationError: a pipeline on circuits, queued or with dependencies; pieces that do not divide the chunks, an
            interval below 1, or too few steps for all pieces.
    """
    pipeline = schedule.pipeline
    if pipeline is None:
        return schedule
    if fabric.exclusive or schedule.queued or schedule.dependencies is not None:
        raise VerificationError("only steps in order, of packets, can be a pipeline: unfold the schedule")
    if pipeline.pieces < 1 or pipeline.interval < 1 or schedule.chunks % pipeline.pieces:
        raise VerificationError(
            f"{schedule.chunks} chunks in {pipeline.pieces} pieces, {pipeline.interval} steps apart: expected a "
            "divisor of the chunks, and at least one step"
        )
    if schedule.steps <= pipeline.delay:
        raise VerificationError(
            f"{pipeline.pieces} pieces, {pipeline.interval} steps apart, do not end in {schedule.steps} steps"
        )
    return schedule.first_piece()


def check_folding(schedule: Schedule, fabric: Fabric) -> None:
    """Prove that the rows of a folded schedule, of steps in order or queued, can be repeated around the ring; nothing
    of one that is not folded.

    The period must divide the ranks, and axes hold as many copies; the kind must be the same from every rank
    (all-gather, reduce-scatter, all-reduce, all-to-all or barrier), and chunks as many for each rank; rows must be sent
    by ranks of the first period, on the channels that the folding states for the first copy.

    Raises:
        VerificationError: the first violation found; among them steps with dependencies and in-network reductions.
    """
    folding, ranks, kind = schedule.folding, fabric.ranks, schedule.collective.kind
    if folding is None:
        return
    if fabric.in_network_reduction or schedule.dependencies is not None:
        raise VerificationError("only steps in order, or queues, between ranks can be folded: unfold the schedule")
    paths = int(schedule.lightpath.max(initial=-1)) + 1
    widths = {0} if not fabric.exclusive else {paths} if schedule.queued else {0, paths}
    copies, given = divmod(ranks, max(folding.period, 1))[0], folding.channel.shape
    if folding.period < 1 or ranks % folding.period or given[0] != copies or given[1] not in widths:
        expected = " or ".join(str((copies, width)) for width in sorted(widths))
        raise VerificationError(
            f"folded every {folding.period} of {ranks} ranks with channels of shape {given}: expected a divisor of the "
            f"ranks and {expected}"
        )
    if folding.axes and (min(folding.axes) < 1 or prod(folding.axes) != copies):
        along = " x ".join(map(str, folding.axes))
        raise VerificationError(f"{copies} copies on axes {along}: expected axes that hold them")
    if kind not in FOLDABLE:
        raise VerificationError(f"{article(kind)} {kind} is not the same from every rank and cannot be folded")
    if schedule.chunks % ranks:
        raise VerificationError(f"{schedule.chunks} chunks do not rotate among {ranks} ranks")
    outside = schedule.source >= folding.period
    refuse_first(outside, lambda row: f"row {row}: rank {schedule.source[row]} is beyond the first period")
    if not folding.channel.shape[1]:
        return
    own = channels(schedule, fabric)
    differs = folding.channel[0, schedule.lightpath] != own
    refuse_first(differs, lambda row: f"row {row}: its channel {own[row]} is not that of copy 0 of its lightpath")


def of_first_owners(schedule: Schedule) -> Schedule:
    """Return a folded schedule with each row replaced by that of its copies whose chunk is owned by a rank of the first
    period; sources may then lie in any period.

    Source, destination and chunk are replaced, lightpaths and channels are not. What is not folded is returned
    unchanged.
    """
    if schedule.folding is None:
        return schedule
    chunk = schedule.chunk.astype(np.int64)
    copy = chunk // (schedule.chunks // schedule.collective.ranks) // schedule.folding.period
    source, destination = (moved(schedule, end, copy, back=True) for end in (schedule.source, schedule.destination))
    columns = {"source": source, "destination": destination, "chunk": moved_back(schedule, chunk, copy)}
    return schedule.with_columns(columns)


# Rows that carry lists of chunks: proof that the lists are right, and the rows that carry each chunk.
#
# A row of a list stands for a row of the same lightpath for each of its chunks, so that light is proved as it is, and
# the replay of a chunk takes every row whose list has it. Chunks are replayed some at a time, which bounds memory.

_AT_ONCE: Effort = 1 << 25
"""Chunks of rows that are replayed at once, but for those of one chunk."""


def check_lists(schedule: Schedule) -> None:
    """Prove that the lists of chunks name chunks that exist, and that the schedule may have lists: one of steps,
    neither folded nor a pipeline, whose chunks are all equal. Nothing of a schedule without lists.

    Raises:
        VerificationError: the first violation found.
    """
    lists = schedule.lists
    if lists is None:
        return
    if schedule.queued or schedule.folding is not None or schedule.pipeline is not None or schedule.collective.sizes:
        raise VerificationError(
            "only steps of all ranks and pieces, of chunks of one size, carry lists of chunks: unfold the schedule"
        )
    if lists.first.shape != lists.count.shape or lists.chunks.ndim != 1 or lists.first.ndim != 1:
        raise VerificationError(f"lists begin at {lists.first.shape} places with {lists.count.shape} counts of chunks")
    wild = (lists.count < 1) | (lists.first < 0) | (lists.first > len(lists.chunks) - lists.count.astype(np.int64))
    refuse_first(
        wild,
        lambda at: (
            f"list {at} has {lists.count[at]} chunks from entry {lists.first[at]} on: expected 1 or more of "
            f"{len(lists.chunks)} entries"
        ),
    )
    outside, limits = (lists.chunks < 0) | (lists.chunks >= schedule.chunks), f"0..{schedule.chunks - 1}"
    refuse_first(outside, lambda at: f"entry {at} of the lists: chunk {lists.chunks[at]} is not in {limits}")


def rows_by_chunk(schedule: Schedule, rows: Ints, chunks: int) -> Iterator[tuple[int, Int32s, Ints]]:
    """Yield the rows of chunks 0 to ``chunks`` − 1, all chunks at once or, where rows carry lists, some at a time.

    Args:
        rows: numbers of all rows, in an order in which they can run.
        chunks: number of chunks, which may be fewer than the schedule's where no row carries another one.

    Yields:
        The first chunk of these; the row numbers, sorted by chunk and for each chunk in the order of ``rows``, a row
        once for each of its chunks; and the place of each chunk's first row among them, [chunk + 1]. The next ones
        begin with the chunk after these.
    """
    lists = schedule.lists
    if lists is None:
        yield 0, *kernels.by_chunk(schedule.chunk, rows, chunks)
        return
    listed = kernels.Lists(lists.chunks, lists.first, lists.count)
    ends = np.cumsum(kernels.count_listed(schedule.chunk, listed, chunks))
    first = 0
    while first < chunks:
        before = ends[first - 1] if first else 0
        stop = max(int(np.searchsorted(ends, before + _AT_ONCE, side="right")), first + 1)
        begins = np.concatenate([[0], ends[first:stop] - before])
        yield first, kernels.by_listed_chunk(schedule.chunk, rows, listed, first, begins), begins
        first = stop
