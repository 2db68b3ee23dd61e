"""What both verifiers check of rows, lightpaths and light; it shares no code with what makes schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import STORING
from lightloom.core.arrays import Column, Int32s, Ints, read_only
from lightloom.core.errors import VerificationError
from lightloom.fabrics.base import Fabric

if TYPE_CHECKING:
    from lightloom.collectives.verify._replay_kernels import Transfers

_LIGHTPATH_COLUMNS = ("source", "route", "fibre", "first_wavelength", "wavelength_count")


def row_name(schedule: Schedule, row: int) -> str:
    """A row as messages name it."""
    s = schedule
    return f"step {s.step[row]}, rank {s.source[row]}→{s.destination[row]}, {_carried(s, row)} (row {row})"


def _carried(schedule: Schedule, row: int) -> str:
    """What a row carries, as messages name it; a list that does not exist by its number."""
    lists, number = schedule.lists, int(schedule.chunk[row])
    if lists is None:
        return f"chunk {number}"
    if not 0 <= number < len(lists):
        return f"list {number} of chunks"
    first, *others = lists.chunks_of(schedule.chunk[row : row + 1]).tolist()
    return f"chunk {first}" + (f" and {len(others)} more of list {number}" if others else "")


def article(kind: str) -> str:
    """The indefinite article of a collective's name."""
    return "an" if kind.startswith("a") else "a"


def ranges(schedule: Schedule, fabric: Fabric) -> None:
    """Prove that every column names what exists, and that no rank sends to itself."""
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
    itself = np.flatnonzero(schedule.source == schedule.destination)
    if len(itself):
        raise VerificationError(f"{row_name(schedule, int(itself[0]))}: a rank sends to itself")
    if fabric.exclusive:
        _check_wavelengths(schedule, fabric)


def _check_wavelengths(schedule: Schedule, fabric: Fabric) -> None:
    wavelengths = fabric.fibre_channels
    channel, count = channels(schedule, fabric), schedule.wavelength_count
    outside = (
        (count < 1)
        | (schedule.fibre < 0)
        | (schedule.first_wavelength < 0)
        | (schedule.first_wavelength >= wavelengths)
        | (channel + count > fabric.channels)
    )
    if outside.any():
        row = int(np.argmax(outside))
        raise VerificationError(
            f"{row_name(schedule, row)}: fibre {schedule.fibre[row]}, wavelengths {schedule.first_wavelength[row]} "
            f"and {count[row] - 1} more do not exist: the fabric has {fabric.channels} channels a link"
        )


def channels(schedule: Schedule, fabric: Fabric) -> Int32s:
    """First channel of each row, fibre · wavelengths + wavelength: [row]."""
    channel = schedule.fibre.astype(np.int32)
    channel *= np.int32(fabric.fibre_channels)
    channel += schedule.first_wavelength
    return channel


def occupying(lightpath: Column, step: Column, destination: Column, channel: Column, width: Column) -> Transfers:
    """Return what rows occupy, in the types for which the kernel is compiled."""
    from lightloom.collectives.verify import _replay_kernels as kernels

    columns = (np.asarray(column, np.int32) for column in (lightpath, step, destination, channel, width))
    return kernels.Transfers(*map(read_only, columns))


def reached(schedule: Schedule) -> Ints:
    """One row for every destination of every lightpath, by lightpath."""
    served = schedule.lightpath * np.int64(schedule.collective.ranks + 1) + schedule.destination
    return np.unique(served, return_index=True)[1]


def lightpaths(schedule: Schedule, fabric: Fabric) -> None:
    """Prove that the rows of a lightpath agree, and that it has no more taps than allowed."""
    from lightloom.collectives.verify import _replay_kernels as kernels

    columns = {name: getattr(schedule, name) for name in _LIGHTPATH_COLUMNS}
    if not schedule.queued:
        columns = {"step": schedule.step} | columns
    first_row = np.full(int(schedule.lightpath.max(initial=0)) + 1, -1, np.int64)
    # Rows of a queued lightpath differ in their steps, which are places in its queue.
    row = kernels.lightpaths_agree(
        schedule.lightpath, kernels.PathColumns(**{"step": schedule.source} | columns), first_row
    )
    if row != -1:
        first = first_row[schedule.lightpath[row]]
        name, column = next((name, column) for name, column in columns.items() if column[row] != column[first])
        raise VerificationError(
            f"{row_name(schedule, row)}: lightpath {schedule.lightpath[row]} breaks continuity: {name} "
            f"{column[row]} here, {column[first]} in row {first}"
        )
    if np.any(schedule.destination != schedule.destination[first_row[schedule.lightpath]]):
        taps = np.bincount(schedule.lightpath[reached(schedule)])
        if taps.max() > fabric.taps:
            worst = int(np.argmax(taps))
            raise VerificationError(
                f"lightpath {worst} from rank {schedule.source[first_row[worst]]} serves {taps[worst]} destinations: "
                f"the fabric's light can be tapped by {fabric.taps}"
            )


def light(schedule: Schedule, fabric: Fabric) -> None:
    """Prove that light gets to every destination of every lightpath, in all copies."""
    if fabric.reach is None and fabric.blocked() is None and fabric.blocked_ends() is None:
        return
    rows = reached(schedule)
    source, destination, route = schedule.ends(rows)
    count = schedule.wavelength_count[rows].astype(np.int64)
    for copy, first in enumerate(copies(schedule, fabric, rows)):
        begin, end = (moved(schedule, rank, copy) for rank in (source, destination))
        _check_light(fabric, begin, end, route, first, count, lambda at: row_name(schedule, rows[at]))


def copies(schedule: Schedule, fabric: Fabric, rows: Ints) -> Ints:
    """The first channel of each copy of these rows, the one copy of what is not folded: [copy, row]."""
    if schedule.folding is not None:
        return schedule.folding.channel[:, schedule.lightpath[rows]].astype(np.int64)
    return channels(schedule, fabric)[None, rows].astype(np.int64)


def moved(schedule: Schedule, rank: Ints, copy: Ints | int, *, back: bool = False) -> Ints:
    """Ranks of copies in the places that these have in the first; ``back``: the other way around."""
    if schedule.folding is None:
        return rank
    ranks: Ints = schedule.folding.moved(rank, copy, back=back)
    return ranks


def moved_back(schedule: Schedule, chunk: Ints, copy: Ints) -> Ints:
    """The chunks that are to owners, and readers, of the first copy what these are to those of copies."""
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
    from lightloom.collectives.verify import _replay_kernels as kernels

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
        raise VerificationError(
            f"{name(at)}: no light passes wavelength {clash % fabric.fibre_channels} of fibre "
            f"{clash // fabric.fibre_channels} on the {fabric.link_name(link)}"
        )


def transceivers(schedule: Schedule, fabric: Fabric, step: Column, reach: Column) -> None:
    """Prove that no rank sends or receives on more wavelengths at once than it has transceivers.

    Args:
        step: position of each row's step, all 0 in a queued schedule: [row].
        reach: whether step a ends before step b begins: [a, b]; empty where steps follow each other.
    """
    if fabric.transmitters is None:
        return
    period = fabric.ranks if schedule.folding is None else schedule.folding.period
    first = np.unique(schedule.lightpath, return_index=True)[1]
    for verb, nodes, rows in (("sends", schedule.source, first), ("receives", schedule.destination, reached(schedule))):
        # Of ordered steps only those that the rows name take memory.
        names, place = (np.arange(len(reach)), step[rows]) if len(reach) else np.unique(step[rows], return_inverse=True)
        used = np.zeros((len(names), period))
        np.add.at(used, (place, nodes[rows] % period), schedule.wavelength_count[rows])
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
    """Part steps into chains, each step of which ends before the next one begins.

    Args:
        reach: whether step a ends before step b begins, steps in an order that agrees: [a, b].
    """
    chains: list[list[int]] = []
    for step in range(len(reach)):
        chain = next((chain for chain in chains if reach[chain[-1], step]), None)
        if chain is None:
            chains.append([step])
        else:
            chain.append(step)
    return chains


def shares(schedule: Schedule) -> None:
    """Prove that owners have equally many chunks, and that what only moves data never adds."""
    kind, owners = schedule.collective.kind, schedule.collective.parts
    if schedule.chunks < 1 or schedule.chunks % owners:
        raise VerificationError(f"{schedule.chunks} chunks cannot be shared equally by {owners} owners")
    if kind in STORING and schedule.reduces.any():
        row = int(np.argmax(schedule.reduces))
        raise VerificationError(f"{row_name(schedule, row)}: {article(kind)} {kind} must not add")
