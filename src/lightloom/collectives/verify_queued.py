"""The verifier of queued schedules: circuits that stand throughout, each sending its rows one after the other.

It shares no code with what makes them, nor with what times them. Beside what :mod:`lightloom.collectives.verify`
proves of rows, it proves that

1. no two lightpaths, in no copy of a folded schedule, share a channel of a link, ever; and transceivers suffice;
2. whatever the speeds, every row is sent in the end: a row that stores waits until its source holds the chunk, one that
   adds until everything that is to be added at its source has arrived;
3. every contribution then has arrived exactly once, and every rank ends with what the collective promises.

A folded schedule is replayed for one period of ranks. The state of rank u + r · period on chunks of rank
o + r · period is that of rank u on chunks of rank o: so it is at the start, and equal rows keep it so.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.schedule import Schedule
from lightloom.core.errors import VerificationError
from lightloom.fabrics.base import Fabric

_LIGHTPATH_COLUMNS = ("source", "destination", "route", "fibre", "first_wavelength", "wavelength_count")


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
    first = _check_lightpaths(schedule)
    _check_channels(schedule, fabric, first)
    _check_transceivers(schedule, fabric, first)
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
    if schedule.collective.kind == "all-to-all" or schedule.chunks % ranks:
        raise VerificationError(f"{schedule.chunks} chunks of {schedule.collective.kind} cannot be folded by owners")
    outside = np.flatnonzero(schedule.source >= folding.period)
    if len(outside):
        raise VerificationError(f"row {outside[0]}: rank {schedule.source[outside[0]]} is beyond the first period")
    own = schedule.fibre.astype(np.int64) * fabric.fibre_channels + schedule.first_wavelength
    if np.any(folding.channel[0, schedule.lightpath] != own):
        row = int(np.argmax(folding.channel[0, schedule.lightpath] != own))
        raise VerificationError(f"row {row}: its channel {own[row]} is not that of copy 0 of its lightpath")


def _check_lightpaths(schedule: Schedule) -> NDArray[np.int64]:
    """First row of each lightpath that is used."""
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
    return first.astype(np.int64)


def _check_channels(schedule: Schedule, fabric: Fabric, first: NDArray[np.int64]) -> None:
    from lightloom.collectives import _queued_replay_kernels as kernels

    source, destination, route = schedule.ends(first)
    count = schedule.wavelength_count[first].astype(np.int64)
    period, channel = fabric.ranks, schedule.fibre[first].astype(np.int64) * fabric.fibre_channels
    channel = (channel + schedule.first_wavelength[first])[None, :]
    if schedule.folding is not None:
        period = schedule.folding.period
        channel = schedule.folding.channel[:, schedule.lightpath[first]].astype(np.int64)
    if channel.size and (channel.min() < 0 or (channel + count).max() > fabric.channels):
        copy, at = np.argwhere((channel < 0) | (channel + count > fabric.channels))[0]
        raise VerificationError(
            f"copy {copy} of lightpath {schedule.lightpath[first[at]]} takes channels {channel[copy, at]} and "
            f"{count[at] - 1} more: the fabric has {fabric.channels} a link"
        )
    holder = np.full(fabric.links * fabric.channels, -1, np.int64)
    for copy, channels in enumerate(channel):
        turn = copy * period
        print_ = fabric.footprint((source + turn) % fabric.ranks, (destination + turn) % fabric.ranks, route)
        at, cell = kernels.claim(
            print_.base, print_.start, print_.length, print_.period, channels, count, fabric.channels, holder
        )
        if at >= 0:
            link, clash = divmod(int(cell), fabric.channels)
            row = first[at]
            raise VerificationError(
                f"rank {schedule.source[row]}→{schedule.destination[row]} (row {row}, copy {copy}): lightpaths share "
                f"wavelength {clash % fabric.fibre_channels} of fibre {clash // fabric.fibre_channels} on the "
                f"{fabric.link_name(link)}"
            )


def _check_transceivers(schedule: Schedule, fabric: Fabric, first: NDArray[np.int64]) -> None:
    if fabric.transmitters is None:
        return
    period = fabric.ranks if schedule.folding is None else schedule.folding.period
    for verb, nodes in (("sends", schedule.source), ("receives", schedule.destination)):
        used = np.bincount(nodes[first] % period, weights=schedule.wavelength_count[first], minlength=period)
        if used.max() > fabric.transmitters:
            raise VerificationError(
                f"rank {int(used.argmax())} {verb} on {int(used.max())} wavelengths: it has {fabric.transmitters} "
                "transceivers"
            )


def _replay(schedule: Schedule) -> None:
    from lightloom.collectives import _queued_replay_kernels as kernels

    ranks, chunks, kind = schedule.collective.ranks, schedule.chunks, schedule.collective.kind
    if kind == "all-to-all":
        raise VerificationError("queued schedules carry all-gather, reduce-scatter and all-reduce")
    if chunks < 1 or chunks % ranks:
        raise VerificationError(f"{chunks} chunks cannot be shared equally by {ranks} owners")
    if kind == "all-gather" and schedule.reduces.any():
        raise VerificationError(f"row {int(np.argmax(schedule.reduces))}: an all-gather must not add")
    if kind == "reduce-scatter" and not schedule.reduces.all():
        raise VerificationError(f"row {int(np.argmin(schedule.reduces))}: a reduce-scatter must add")
    period = ranks if schedule.folding is None else schedule.folding.period
    order = np.lexsort((schedule.step, schedule.lightpath))
    code, row = kernels.replay(
        order, schedule.lightpath, schedule.source, schedule.destination, schedule.chunk, schedule.reduces, ranks,
        period, chunks // ranks, kernels.KINDS.index(kind),
    )  # fmt: skip
    if code != kernels.OK:
        where = f"rank {schedule.source[row]}→{schedule.destination[row]}, chunk {schedule.chunk[row]} (row {row})"
        reasons = {
            kernels.STUCK: f"{where}: is never sent: its source waits for something that does not come",
            kernels.TWICE: f"{where}: arrives where the chunk is already held, or was already sent on",
            kernels.WRONG_END: f"rank {row // chunks} does not end with the complete chunk {row % chunks}",
            kernels.AGAIN: f"{where}: the source has already given away its part of this sum",
        }
        raise VerificationError(reasons[code])
