"""Standing lightpaths as columns, the one representation over which trees are grown, balanced and scheduled.

A *tap* is one rank that a lightpath reaches; a circuit between two ranks is a lightpath with a single tap. Where a
design repeats every ``period`` ranks, trees are needed for the roots of the first period only: all others are rotations
of them, and the copies of a lightpath share a queue.
"""

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Int32s, Ints, Mask


class Lightpaths(NamedTuple):
    """Taps, ordered by the rank that sends; the taps of one lightpath follow each other, nearest first."""

    period: int
    """Ranks after which everything repeats."""
    leaving: Ints
    """First tap of the lightpaths of each rank: [rank + 1]."""
    origin: Int32s
    """Rank that sends: [tap]."""
    target: Int32s
    """Rank that receives: [tap]."""
    path: Int32s
    """Lightpath of each tap: [tap]."""
    queue: Int32s
    """Queue of each tap, which all copies of its lightpath share: [tap]."""
    entering: Ints
    """First entry of ``arriving`` of each rank: [rank + 1]."""
    arriving: Int32s
    """Taps ordered by the rank that receives: [tap]."""
    delay: Floats
    """Seconds from the start of a transmission to its arrival: [tap]."""
    busy: Floats
    """Seconds for which a transmission holds its lightpath: [queue]."""


class Lines(NamedTuple):
    """Rules by which lightpaths of one length and direction follow each other in a tree.

    Line 2 · level + direction holds the lightpaths of one level; higher levels have longer lightpaths. A line that is
    not free begins at its first hub from the root, or where a longer lightpath ends, and continues from the last tap of
    one lightpath to the next. Without this rule every hub near the root would begin a line of its own, and
    lightpaths would carry the same piece several times past each other.
    """

    line: Int32s
    """Line of each tap: [tap]."""
    last: Mask
    """True for taps that are the last of their lightpath: [tap]."""
    overhang: Int32s
    """Links of a tap's lightpath that may lie beyond the opposite rank by half, on the highest level: [tap]."""
    free: Mask
    """True for lines whose lightpaths may be used from any rank: [line]."""
    dense: Mask
    """True for lines whose lightpaths have a tap at every rank that they pass: [line]."""
    longest: Ints
    """Most lightpaths in a row: [line]."""


class Trees(NamedTuple):
    """Broadcast trees while they are grown and balanced; arrays [piece, root, rank], or [rank] for one tree."""

    tap: Int32s
    """Tap by which each rank receives; −1 at the root."""
    arrival: Floats
    """Seconds from the root, if nothing waits."""
    order: Int32s
    """Ranks in the order in which the piece arrives there."""


class Transmissions(NamedTuple):
    """Input of list scheduling: a forest of receptions, each released by the arrival of the one above it."""

    tap: Int32s
    """Tap of each reception; −1 at a root: [reception]."""
    child: Int32s
    """First reception that waits for this one, or −1: [reception]."""
    sibling: Int32s
    """Next reception that waits for the same one, or −1: [reception]."""
    fellow: Int32s
    """Next farther reception of the same transmission, or −1: [reception]; empty where every transmission has one."""
    left: Floats
    """Seconds of the longest path below: [reception]."""
    roots: Ints
    """Receptions that are there at the start."""


def arrange(ranks: int, period: int, origin: Ints, target: Ints, path: Ints, queue: Ints) -> tuple[Lightpaths, Ints]:
    """Return lightpaths without times (``delay`` and ``busy`` are empty, to be set) from columns [tap], their taps
    ordered by the rank that sends, and the place of each of these taps in the columns: [tap].

    A tap is one rank that receives from a lightpath. Taps of one rank keep their order, both those that leave it and
    those that enter it; lightpaths and queues keep their numbers.

    Args:
        ranks: number of ranks.
        period: ranks after which the lightpaths repeat.
        origin, target: rank at which a tap's lightpath begins, and rank of the tap.
        path: number of the tap's lightpath.
        queue: number of the queue of what the lightpath sends.
    """
    order = np.argsort(origin, kind="stable")
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    ends = np.arange(ranks + 1)
    incoming = np.argsort(target, kind="stable")
    none = np.zeros(0)
    paths = Lightpaths(
        period=period,
        leaving=np.searchsorted(origin[order], ends),
        origin=origin[order].astype(np.int32),
        target=target[order].astype(np.int32),
        path=path[order].astype(np.int32),
        queue=queue[order].astype(np.int32),
        entering=np.searchsorted(target[incoming], ends),
        arriving=place[incoming],
        delay=none,
        busy=none,
    )
    return paths, order


def free_line(taps: int) -> Lines:
    """Return the rules for ``taps`` taps (ranks that receive from a lightpath) of lightpaths that may follow each other
    in any order, also from any rank: one line, number 0, which is free, with the one tap of each lightpath as its
    last."""
    one = np.ones(1, np.bool_)
    none = np.zeros(taps, np.int32)
    return Lines(none, np.ones(taps, np.bool_), none, one, one, np.ones(1, np.int64))
