"""The verifier of queued schedules: circuits that stand throughout, each sending its rows one after the other.

On packet fabrics there are no circuits: links serve rows in the order of their steps, those of one step as they are
listed. Then every row must come after those that bring what it sends, so that no link ever waits for a row behind it.

It shares no code with what makes them, nor with what times them. Beside what
:mod:`lightloom.collectives.verify.stepped` proves of rows, it proves that

1. no two lightpaths, in no copy of a folded schedule, share a channel of a link, ever; transceivers suffice, and light
   reaches every destination over nothing that has failed;
2. whatever the speeds, every row is sent in the end: a row that stores waits until its source holds the chunk, one that
   adds until everything that is to be added at its source has arrived;
3. every contribution then has arrived exactly once, and every rank ends with what the collective promises.

A folded schedule is replayed for one period of ranks. The state of rank u + r · period on chunks of rank
o + r · period, and to rank t + r · period in an all-to-all, is that of rank u on chunks of rank o to rank t: so it is
at the start, and equal rows keep it so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.collectives.collective import ONE_TO_ONE, STORING
from lightloom.collectives.schedule.columns import Folding, Schedule
from lightloom.collectives.verify import checks
from lightloom.collectives.verify.checks import check_folding
from lightloom.core.arrays import Effort, Ints, read_only
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.derived import CellOrder
from lightloom.machines.fabrics.fabric import Fabric

_BLOCK: Effort = 1 << 16
"""Transfers of all copies whose links are looked up at once."""
_EXPECTED = "expected a fabric that is the same"
_UNORDERED = np.zeros((0, 0), np.uint8)
"""No order among steps, of which a queued schedule has none."""


def verify_queued(schedule: Schedule, fabric: Fabric) -> None:
    """Prove what the module says; ranges of columns have been checked.

    Time is linear in rows, and in channels that all copies occupy.

    Raises:
        VerificationError: the first violation found.
    """
    if fabric.in_network_reduction:
        raise VerificationError("a queued schedule sends from rank to rank, and this fabric reduces in the network")
    if schedule.dependencies is not None:
        raise VerificationError("a queued schedule has no steps that could depend on each other")
    check_folding(schedule, fabric)
    checks.lightpaths(schedule, fabric)
    if not fabric.exclusive:
        _check_rotation(schedule, fabric, checks.reached(schedule))
        _replay(schedule, fabric)
        return
    _check_channels(schedule, fabric, _farthest(schedule, fabric))
    checks.light(schedule, fabric)
    checks.transceivers(schedule, fabric, np.zeros_like(schedule.step), _UNORDERED)
    _replay(schedule, fabric)


def _farthest(schedule: Schedule, fabric: Fabric) -> Ints:
    """Return the row of each used lightpath that goes to its farthest destination."""
    at = checks.reached(schedule)
    path = schedule.lightpath[at]
    nearest_first = np.lexsort((fabric.hops(*schedule.ends(at)), path))
    return at[nearest_first[np.flatnonzero(np.diff(path, append=-1))]]


def _check_channels(schedule: Schedule, fabric: Fabric, farthest: Ints) -> None:
    from lightloom.collectives.verify import kernels

    source, destination, route = schedule.ends(farthest)
    count, paths = schedule.wavelength_count[farthest].astype(np.int64), np.arange(len(farthest))
    channel = checks.copies(schedule, fabric, farthest)
    if channel.size and (channel.min() < 0 or (channel + count).max() > fabric.channels):
        copy, at = np.argwhere((channel < 0) | (channel + count > fabric.channels))[0]
        raise VerificationError(
            f"copy {copy} of lightpath {schedule.lightpath[farthest[at]]} takes channels {channel[copy, at]} and "
            f"{count[at] - 1} more: the fabric has {fabric.channels} a link"
        )
    holder, held = np.full((2, fabric.links * fabric.channels), -1, np.int32)
    order = CellOrder.of(fabric.links, fabric.channels, fabric.footprint(source, destination, route), count)
    for copy, first in enumerate(channel):
        begin, end = (checks.moved(schedule, rank, copy) for rank in (source, destination))
        transfers = checks.occupying(paths + copy * len(paths), np.zeros_like(paths), end, first, count)
        runs = fabric.footprint(begin, end, route)
        at, link, clash, _ = kernels.occupy(paths, transfers, runs, order, holder, held, _UNORDERED)
        if at >= 0:
            row = farthest[at]
            raise VerificationError(
                f"rank {schedule.source[row]}→{schedule.destination[row]} (row {row}, copy {copy}): lightpaths share "
                f"wavelength {clash % fabric.fibre_channels} of fibre {clash // fabric.fibre_channels} on the "
                f"{fabric.link_name(link)}"
            )


def _check_rotation(schedule: Schedule, fabric: Fabric, rows: Ints) -> None:
    """Prove that copies of a folded schedule use links alike, so that what is true of the first is true of all.

    To turn all ranks by a period turns the links that rows use: each link into as many as there are copies, equally
    fast, and no two links into some that they share and some that they do not.

    Args:
        rows: one for each lightpath.
    """
    folding = schedule.folding
    if folding is None or len(fabric.siblings()[1]) > 1:
        return
    ends = schedule.ends(rows)
    own = fabric.path(*ends)
    used, number = np.unique(own[own >= 0], return_inverse=True)
    turned, at_once = np.empty((folding.copies, len(used)), np.int64), max(_BLOCK, len(rows)) // len(rows)
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


def _links_of_copies(fabric: Fabric, ends: tuple[Ints, Ints, Ints], own: Ints, copy: Ints, folding: Folding) -> Ints:
    """Return links of transfers in some copies, in the order of the links ``own`` [transfer, place]: [copy, link]."""
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
    links: Ints = path[:, own >= 0]
    return links


def _replay(schedule: Schedule, fabric: Fabric) -> None:
    """Send the rows of each lightpath in order, on packet fabrics those of all together."""
    from lightloom.collectives.verify import kernels

    ranks, chunks, kind = schedule.collective.ranks, schedule.chunks, schedule.collective.kind
    checks.shares(schedule)
    rule = schedule.collective.rule
    if rule.adds and rule.after != "every" and not schedule.reduces.all():
        raise VerificationError(f"row {int(np.argmin(schedule.reduces))}: a {kind} must add")
    cells, queue = _Cells.of(schedule), schedule.lightpath if fabric.exclusive else np.zeros_like(schedule.lightpath)
    rows = kernels.QueuedRows(
        _in_queues(schedule, queue), read_only(queue), cells.origin, cells.target, schedule.reduces
    )
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


def _in_queues(schedule: Schedule, queue: Ints) -> Ints:
    place = queue * np.int64(max(schedule.steps, 1)) + schedule.step
    return np.arange(len(place)) if np.all(place[1:] >= place[:-1]) else np.argsort(place, kind="stable")


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
        ranks, chunks, kind = schedule.collective.ranks, schedule.chunks, schedule.collective.kind
        period = ranks if schedule.folding is None else schedule.folding.period
        chunk, to = schedule.chunk.astype(np.int64), schedule.destination.astype(np.int64) % period
        origin = schedule.source * np.int64(chunks) + chunk
        target = to * chunks + checks.moved_back(schedule, chunk, schedule.destination // period)
        if kind in ONE_TO_ONE:
            begins, ends = _ends_of_parts(schedule, period)
            code, number = np.unique(np.concatenate([origin, target, begins, ends]), return_inverse=True)
            cuts = np.cumsum([len(origin), len(target), len(begins)])
            origin, target, begins, ends = np.split(number, cuts)
            return cls(code, origin, target, begins, ends)
        everything, rule = np.arange(period * chunks), schedule.collective.rule
        rank, inside = np.divmod(everything, chunks)
        of_holder = {
            "own": everything[inside // max(chunks // ranks, 1) == rank],
            "root": everything[:chunks],
            "every": everything,
        }
        return cls(everything, origin, target, of_holder[rule.before], of_holder[rule.after])


def _ends_of_parts(schedule: Schedule, period: int) -> tuple[Ints, Ints]:
    """Return the cells of the first period of ranks where parts lie before, and where they must lie after."""
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
