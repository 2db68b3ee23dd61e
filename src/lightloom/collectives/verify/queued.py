"""The verifier of queued schedules: circuits that stand throughout, each sending its rows one after the other.

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

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import ROOTED
from lightloom.collectives.verify.light import check_light
from lightloom.core.errors import VerificationError
from lightloom.fabrics.base import Fabric

_LIGHTPATH_COLUMNS = ("source", "route", "fibre", "first_wavelength", "wavelength_count")
_STORING = ("all-gather", "all-to-all", "broadcast")
_ADDING = ("reduce-scatter", "reduce")


def verify_queued(schedule: Schedule, fabric: Fabric) -> None:
    """Prove what the module says; ranges of columns have been checked.

    Time is linear in rows, and in channels that all copies occupy.

    Raises:
        VerificationError: the first violation found.
    """
    if not fabric.exclusive:
        raise VerificationError("a queued schedule needs circuits, and this fabric switches packets")
    if schedule.dependencies is not None:
        raise VerificationError("a queued schedule has no steps that could depend on each other")
    _check_folding(schedule, fabric)
    farthest = _check_lightpaths(schedule, fabric)
    _check_channels(schedule, fabric, farthest)
    _check_light(schedule, fabric)
    _check_transceivers(schedule, fabric, farthest)
    _replay(schedule)


def _check_folding(schedule: Schedule, fabric: Fabric) -> None:
    folding, ranks = schedule.folding, fabric.ranks
    if folding is None:
        return
    paths = int(schedule.lightpath.max(initial=-1)) + 1
    if folding.period < 1 or ranks % folding.period or folding.channel.shape != (ranks // folding.period, paths):
        raise VerificationError(
            f"folded every {folding.period} of {ranks} ranks with channels of shape {folding.channel.shape}: expected "
            f"a divisor of the ranks and ({ranks // max(folding.period, 1)}, {paths})"
        )
    if schedule.collective.kind in ROOTED:
        raise VerificationError(f"{schedule.collective.kind} has one root and cannot be folded")
    outside = np.flatnonzero(schedule.source >= folding.period)
    if len(outside):
        raise VerificationError(f"row {outside[0]}: rank {schedule.source[outside[0]]} is beyond the first period")
    own = schedule.fibre.astype(np.int64) * fabric.fibre_channels + schedule.first_wavelength
    if np.any(folding.channel[0, schedule.lightpath] != own):
        row = int(np.argmax(folding.channel[0, schedule.lightpath] != own))
        raise VerificationError(f"row {row}: its channel {own[row]} is not that of copy 0 of its lightpath")


def _check_lightpaths(schedule: Schedule, fabric: Fabric) -> NDArray[np.int64]:
    """The row of each lightpath that is used which goes to its farthest destination."""
    labels, first, which = np.unique(schedule.lightpath, return_index=True, return_inverse=True)
    for name in _LIGHTPATH_COLUMNS:
        column = getattr(schedule, name)
        wrong = np.flatnonzero(column != column[first][which])
        if len(wrong):
            row = int(wrong[0])
            raise VerificationError(
                f"row {row}: lightpath {labels[which[row]]} breaks continuity: {name} {column[row]} here, "
                f"{column[first[which[row]]]} in row {first[which[row]]}"
            )
    if not np.any(schedule.destination != schedule.destination[first][which]):
        return first.astype(np.int64)
    at = _reached(schedule, fabric)
    which = which[at]
    taps = np.bincount(which)
    if taps.max() > fabric.taps:
        worst = int(np.argmax(taps))
        raise VerificationError(
            f"lightpath {labels[worst]} from rank {schedule.source[first[worst]]} serves {taps[worst]} destinations: "
            f"the fabric's light can be tapped by {fabric.taps}"
        )
    nearest_first = np.lexsort((fabric.hops(*schedule.ends(at)), which))
    farthest: NDArray[np.int64] = at[nearest_first[np.cumsum(taps) - 1]].astype(np.int64)
    return farthest


def _reached(schedule: Schedule, fabric: Fabric) -> NDArray[np.int64]:
    """One row for every destination of every lightpath, by lightpath."""
    served = schedule.lightpath.astype(np.int64) * fabric.ranks + schedule.destination
    return np.unique(served, return_index=True)[1].astype(np.int64)


def _copies(schedule: Schedule, fabric: Fabric, rows: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
    """Ranks from copy to copy, and the first channel of each copy of these rows: [copy, row]."""
    if schedule.folding is not None:
        return schedule.folding.period, schedule.folding.channel[:, schedule.lightpath[rows]].astype(np.int64)
    channel = schedule.fibre[rows].astype(np.int64) * fabric.fibre_channels + schedule.first_wavelength[rows]
    return fabric.ranks, channel[None, :]


def _check_channels(schedule: Schedule, fabric: Fabric, farthest: NDArray[np.int64]) -> None:
    from lightloom.collectives.verify import _queued_replay_kernels as kernels

    source, destination, route = schedule.ends(farthest)
    count = schedule.wavelength_count[farthest].astype(np.int64)
    period, channel = _copies(schedule, fabric, farthest)
    if channel.size and (channel.min() < 0 or (channel + count).max() > fabric.channels):
        copy, at = np.argwhere((channel < 0) | (channel + count > fabric.channels))[0]
        raise VerificationError(
            f"copy {copy} of lightpath {schedule.lightpath[farthest[at]]} takes channels {channel[copy, at]} and "
            f"{count[at] - 1} more: the fabric has {fabric.channels} a link"
        )
    holder = np.full(fabric.links * fabric.channels, -1, np.int64)
    for copy, channels in enumerate(channel):
        shift = copy * period
        runs = fabric.footprint((source + shift) % fabric.ranks, (destination + shift) % fabric.ranks, route)
        at, cell = kernels.claim(runs, channels, count, fabric.channels, holder)
        if at >= 0:
            link, clash = divmod(int(cell), fabric.channels)
            row = farthest[at]
            raise VerificationError(
                f"rank {schedule.source[row]}→{schedule.destination[row]} (row {row}, copy {copy}): lightpaths share "
                f"wavelength {clash % fabric.fibre_channels} of fibre {clash // fabric.fibre_channels} on the "
                f"{fabric.link_name(link)}"
            )


def _check_light(schedule: Schedule, fabric: Fabric) -> None:
    """That light gets to every destination of every lightpath, in all copies."""
    if fabric.reach is None and fabric.blocked() is None and fabric.blocked_ends() is None:
        return
    rows = _reached(schedule, fabric)
    source, destination, route = schedule.ends(rows)
    count = schedule.wavelength_count[rows].astype(np.int64)
    period, channels = _copies(schedule, fabric, rows)
    for copy, channel in enumerate(channels):
        begin, end = ((ends + copy * period) % fabric.ranks for ends in (source, destination))
        check_light(fabric, begin, end, route, channel, count, lambda at: f"row {rows[at]}")


def _check_transceivers(schedule: Schedule, fabric: Fabric, farthest: NDArray[np.int64]) -> None:
    if fabric.transmitters is None:
        return
    period = fabric.ranks if schedule.folding is None else schedule.folding.period
    reached = _reached(schedule, fabric)
    for verb, nodes, rows in (("sends", schedule.source, farthest), ("receives", schedule.destination, reached)):
        used = np.bincount(nodes[rows] % period, weights=schedule.wavelength_count[rows], minlength=period)
        if used.max() > fabric.transmitters:
            raise VerificationError(
                f"rank {int(used.argmax())} {verb} on {int(used.max())} wavelengths: it has {fabric.transmitters} "
                "transceivers"
            )


def _replay(schedule: Schedule) -> None:
    from lightloom.collectives.verify import _queued_replay_kernels as kernels

    ranks, chunks, kind = schedule.collective.ranks, schedule.chunks, schedule.collective.kind
    sharers = 1 if kind in ROOTED else ranks**2 if kind == "all-to-all" else ranks
    if chunks < 1 or chunks % sharers:
        raise VerificationError(f"{chunks} chunks cannot be shared equally by {sharers} owners")
    if kind in _STORING and schedule.reduces.any():
        raise VerificationError(f"row {int(np.argmax(schedule.reduces))}: an {kind} must not add")
    if kind in _ADDING and not schedule.reduces.all():
        raise VerificationError(f"row {int(np.argmin(schedule.reduces))}: a {kind} must add")
    cells = _Cells.of(schedule)
    rows = kernels.QueuedRows(_in_queues(schedule), schedule.lightpath, cells.origin, cells.target, schedule.reduces)
    code, at = kernels.replay(rows, cells.parts(), 1 if kind in _STORING else ranks, cells.ends)
    if code == kernels.WRONG_END:
        rank, chunk = divmod(int(cells.code[cells.ends[at]]), chunks)
        raise VerificationError(f"rank {rank} does not end with the complete chunk {chunk}")
    if code != kernels.OK:
        where = f"rank {schedule.source[at]}→{schedule.destination[at]}, chunk {schedule.chunk[at]} (row {at})"
        reasons = {
            kernels.STUCK: f"{where}: is never sent: its source waits for something that does not come",
            kernels.TWICE: f"{where}: arrives where the chunk is already held, or was already sent on",
            kernels.AGAIN: f"{where}: the source has already given away its part of this sum",
        }
        raise VerificationError(reasons[code])


def _in_queues(schedule: Schedule) -> NDArray[np.int64]:
    place = schedule.lightpath * np.int64(max(schedule.steps, 1)) + schedule.step
    return np.arange(len(place)) if np.all(place[1:] >= place[:-1]) else np.argsort(place, kind="stable")


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Ranks of the first period with chunks, numbered: all of them, or those that an all-to-all ever uses."""

    code: NDArray[np.int64]
    """rank · chunks + chunk: [cell]."""
    origin: NDArray[np.int64]
    """Cell that a row reads: [row]."""
    target: NDArray[np.int64]
    """Cell that a row writes, rotated back into the first period: [row]."""
    begins: NDArray[np.int64]
    """Cells that hold a contribution before."""
    ends: NDArray[np.int64]
    """Cells that must be complete in the end."""

    @classmethod
    def of(cls, schedule: Schedule) -> _Cells:
        ranks, chunks, kind = schedule.collective.ranks, schedule.chunks, schedule.collective.kind
        period = ranks if schedule.folding is None else schedule.folding.period
        chunk, to = schedule.chunk.astype(np.int64), schedule.destination.astype(np.int64) % period
        origin = schedule.source * np.int64(chunks) + chunk
        target = to * chunks + _rotated_back(schedule, chunk, schedule.destination - to)
        everything = np.arange(period * chunks) if kind != "all-to-all" else np.zeros(0, np.int64)
        rank, inside = np.divmod(everything, chunks)
        owned = inside // max(chunks // ranks, 1) == rank
        if kind == "all-to-all":
            block = chunks // ranks**2
            own = np.arange(period * ranks * block)
            rank, other = np.divmod(own, ranks * block)
            begins = rank * chunks + rank * ranks * block + other
            ends = rank * chunks + (other // block * ranks + rank) * block + other % block
            code, number = np.unique(np.concatenate([origin, target, begins, ends]), return_inverse=True)
            cuts = np.cumsum([len(origin), len(target), len(begins)])
            origin, target, begins, ends = np.split(number, cuts)
            return cls(code, origin, target, begins, ends)
        begins = {"all-gather": everything[owned], "broadcast": everything[:chunks]}.get(kind, everything)
        ends = {"reduce-scatter": everything[owned], "reduce": everything[:chunks]}.get(kind, everything)
        return cls(everything, origin, target, begins, ends)

    def parts(self) -> NDArray[np.int64]:
        """Contributions in each cell before."""
        parts = np.zeros(len(self.code), np.int64)
        parts[self.begins] = 1
        return parts


def _rotated_back(schedule: Schedule, chunk: NDArray[np.int64], shift: NDArray[np.int64]) -> NDArray[np.int64]:
    """The chunks that so many ranks before are to their owners, and destinations, what these are here."""
    ranks = schedule.collective.ranks
    if schedule.folding is None:
        return chunk
    pieces = schedule.chunks // ranks
    inner = chunk % pieces
    if schedule.collective.kind == "all-to-all":
        block = pieces // ranks
        inner = (inner // block - shift) % ranks * block + inner % block
    return (chunk // pieces - shift) % ranks * pieces + inner
