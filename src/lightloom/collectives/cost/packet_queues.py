"""Queued rows on packet fabrics as transmissions, each over one link.

A link serves the rows that cross it in the order of their steps, those of one step as they are listed. A row begins
when its source holds what it sends and the first link of its path is free; further on, its bits leave a switch when the
link is free, and so late that the link need not wait for the rest of them:

    first link     ████████                 the second is as fast: begins a latency later
    second link       ████████
    faster link           ██████            ends a latency later than the one before

So links are never used twice at once, a chunk never leaves before it arrived, and switches hold what waits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.collectives.schedule.columns import Folding, Schedule
from lightloom.collectives.schedule.counting import distinct, sorted_by
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.effort import Effort
from lightloom.fabrics.base import Fabric

_BLOCK: Effort = 1 << 16
"""Transfers of all copies whose links are looked up at once."""


class Hops(NamedTuple):
    """Links that rows cross, those of a row one after the other: arrays [hop]."""

    row: Ints
    link: Ints
    """Of the link of the first copy of the row, where the schedule is folded."""
    busy: Floats
    """Seconds for which a chunk holds the link."""
    delay: Floats
    """Seconds after its beginning at which the chunk may begin on the next link, or has arrived."""
    first: Mask
    """Whether it is the first of its row."""
    last: Mask
    """Whether it is the last of its row."""
    order: Ints
    """Hops by link, those of a link in the order in which it serves them."""


class _Paths(NamedTuple):
    """Paths of distinct transfers; arrays [hop of a transfer]."""

    begins: Ints
    """First hop of each transfer: [transfer + 1]."""
    link: Ints
    busy: Floats
    delay: Floats


def hops_of(schedule: Schedule, fabric: Fabric) -> Hops:
    """The hops of all rows of a queued schedule; of a group of ranks, with those of its sibling groups.

    Rows of groups follow each other, [row, group], numbered so.
    """
    whole, members = fabric.siblings()
    groups = len(members)
    source, destination, route = schedule.ends(slice(None))
    code = (source * fabric.ranks + destination) * fabric.routes + route
    if isinstance(nbytes := schedule.row_nbytes, np.ndarray):
        # Rows of different sizes hold links for different times, whatever their ends.
        transfers, transfer, nbytes = code, np.arange(len(code)), np.repeat(nbytes, groups)
    else:
        transfers, transfer = distinct(code, fabric.ranks**2 * fabric.routes)
    pair, way = np.divmod(transfers, fabric.routes)
    ends = np.divmod(pair, fabric.ranks)
    if groups > 1:
        ends = tuple(members.T[end].ravel() for end in ends)  # type: ignore[assignment]
        way = whole.route(*ends)
        transfer = (transfer[:, None] * groups + np.arange(groups)).ravel()
    paths = _paths(whole if groups > 1 else fabric, *ends, way, schedule.folding, nbytes)
    count = np.diff(paths.begins)[transfer]
    row = np.repeat(np.arange(len(transfer)), count)
    begins = np.cumsum(count) - count
    hop = np.repeat(paths.begins[transfer] - begins, count) + np.arange(len(row))
    first, last = np.zeros(len(row), np.bool_), np.zeros(len(row), np.bool_)
    first[begins], last[begins + count - 1] = True, True
    link = paths.link[hop]
    if (schedule.step[1:] >= schedule.step[:-1]).all():
        order = sorted_by(link)
    else:
        place = np.empty(len(transfer), np.int64)
        place[np.argsort(np.repeat(schedule.step, groups), kind="stable")] = np.arange(len(transfer))
        order = sorted_by(place[row], link)
    return Hops(row, link, paths.busy[hop], paths.delay[hop], first, last, order)


def _paths(
    fabric: Fabric, source: Ints, destination: Ints, route: Ints, folding: Folding | None, nbytes: Floats | float
) -> _Paths:
    """The links of transfers of so many bytes, each or all."""
    path = fabric.path(source, destination, route)
    taken = path >= 0
    transfer, link = np.nonzero(taken)[0], path[taken]
    begins = np.searchsorted(transfer, np.arange(len(path) + 1))
    latency = fabric.link_latency()[link]
    total = fabric.latency(source, destination, route)
    # Where a fabric states other latencies of transfers than of links, those of links are their parts.
    sums = np.bincount(transfer, weights=latency, minlength=len(path))
    alike = np.isclose(sums, total, rtol=1e-9, atol=0)
    share = np.where(sums[transfer] > 0, latency / np.maximum(sums, 1e-300)[transfer], 1 / np.diff(begins)[transfer])
    latency = np.where(alike[transfer], latency, total[transfer] * share)
    sent = nbytes[transfer] if isinstance(nbytes, np.ndarray) else nbytes
    busy = sent / fabric.link_bandwidth()[link] + fabric.piece_overhead
    final = np.zeros(len(link), np.bool_)
    final[begins[1:] - 1] = True
    # On all but the last link of a path; what the last hop of all is compared with is not used.
    longer = np.maximum(busy - np.roll(busy, -1), 0.0)
    delay = latency + np.where(final, busy + fabric.step_overhead, longer)
    if folding is not None:
        link = _first_copies(fabric, source, destination, route, folding)[taken]
    return _Paths(begins, link, busy, delay)


def _first_copies(fabric: Fabric, source: Ints, destination: Ints, route: Ints, folding: Folding) -> Ints:
    """The links of transfers, each named by the smallest of those in its place in all copies: [transfer, place]."""
    link = fabric.path(source, destination, route)
    at_once = max(_BLOCK, len(source)) // len(source)
    for first in range(1, folding.copies, at_once):
        copy = np.arange(first, min(first + at_once, folding.copies))[:, None]
        begins, ends = (folding.moved(rank, copy).ravel() for rank in (source, destination))
        path = fabric.path(begins, ends, np.tile(route, len(copy))).reshape(len(copy), *link.shape)
        np.minimum(link, path.min(axis=0), out=link)
    return link
