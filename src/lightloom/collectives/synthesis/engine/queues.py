"""Trees become a queued schedule: rows of one period of ranks, on lightpaths that stand throughout.

A reduce-scatter is an all-gather run backwards over the lightpaths of the other direction, and an all-reduce queues the
one behind the other on each lightpath.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.loads import digest
from lightloom.collectives.cost.price import busy_and_delay, cells_of, play
from lightloom.collectives.schedule import build
from lightloom.collectives.schedule.build import without_barriers
from lightloom.collectives.schedule.columns import Folding, Schedule, run_begins
from lightloom.collectives.synthesis.engine import kernels
from lightloom.collectives.synthesis.engine.trees import Forest, HubCircuits, RingTrees, hub_ranks
from lightloom.collectives.verify.verifier import verify
from lightloom.core.arrays import Column, Floats, Ints, Mask, read_only
from lightloom.core.caches import Latest
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.derived import structure
from lightloom.machines.fabrics.fabric import Fabric


class Rows(NamedTuple):
    """Receptions of senders in the first period; arrays [row]."""

    queue: Ints
    source: Ints
    destination: Ints
    chunk: Ints
    reduces: Mask
    when: Floats
    """Seconds at which the row is sent."""


class Queues(NamedTuple):
    """Channels and direction of the lightpaths of each queue."""

    channel: Column
    """First channel of every copy of a lightpath: [copy, queue]."""
    width: Ints
    """Channels that a lightpath bundles: [queue]."""
    route: Ints
    """Direction around the ring, as the fabric numbers routes: [queue]."""


def gather_rows(forest: Forest) -> Rows:
    """Return the rows of an all-gather over trees, one for each reception from the roots of one period, rotated so that
    every sender is in the first period of ranks.

    Chunks are numbered owner · pieces + piece. Each row has the queue that sends it and the second at which its sending
    begins, and stores what arrives.
    """
    paths, (pieces, _, ranks) = forest.paths, forest.tap.shape
    piece, root, rank = at = np.nonzero(forest.tap >= 0)
    tap = forest.tap[at]
    sender = paths.origin[tap].astype(np.int64)
    shift = sender - sender % paths.period
    chunk = (root - shift) % ranks * pieces + piece
    queue, stores = paths.queue[tap].astype(np.int64), np.zeros(len(tap), np.bool_)
    return Rows(queue, sender - shift, (rank - shift) % ranks, chunk, stores, forest.begin[at])


def reversed_rows(forest: Forest, queue: Callable[[Ints, Ints], Ints]) -> Rows:
    """Return the rows of a reduce-scatter: every send of the all-gather over these trees reversed, in the opposite
    order, so that the seconds at which rows are sent are negative. Every sender is in the first period of ranks.

    Args:
        queue: function that returns the queues of the opposite lightpaths, given queues and the places in their period
            of the ranks at which those lightpaths end: [row] each.
    """
    gather, period, (pieces, _, ranks) = gather_rows(forest), forest.paths.period, forest.tap.shape
    source = gather.destination % period
    shift = gather.destination - source
    owner, piece = np.divmod(gather.chunk, pieces)
    destination, chunk = (gather.source - shift) % ranks, (owner - shift) % ranks * pieces + piece
    adds = np.ones(len(source), np.bool_)
    return Rows(queue(gather.queue, source), source, destination, chunk, adds, -gather.when)


def queued_schedule(
    collective: Collective, fabric: Fabric, queues: Queues, parts: Sequence[Rows], *, chunks: int, note: str
) -> Schedule:
    """Return the queued schedule of rows on standing lightpaths, named "synthesized", not yet verified.

    Rows in which one lightpath sends a chunk at the same time are one transmission. Lightpaths are the queues that rows
    use, numbered from 0 in their order; a row's step is the place of its transmission on its lightpath.

    Args:
        queues: channels and direction of the lightpaths; with several copies the schedule is folded.
        parts: rows whose senders are in the first period; on every lightpath those of a part are sent by time, all
            after those of the part before.
        chunks: chunks of all the collective's data.
        note: description for the notes; none where it is empty.
    """
    rows = Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    phase = np.repeat(np.arange(len(parts)), [len(part.when) for part in parts])
    order = np.lexsort((rows.when, phase, rows.queue))
    rows = Rows(*(column[order] for column in rows))  # type: ignore[arg-type]
    used, path = np.unique(rows.queue, return_inverse=True)
    place = np.cumsum(run_begins(path, phase[order], rows.when, rows.chunk)) - 1
    step = place - place[np.searchsorted(path, np.arange(len(used)))][path]
    channel = queues.channel[:, used]
    ends = rows.source, rows.destination, queues.route[rows.queue]
    light = channel[0, path], queues.width[rows.queue]
    sent = build.Rows(step, path, *ends, *light, rows.chunk, rows.reduces)
    steps, notes = int(step.max(initial=0)) + 1, (note,) if note else ()
    folding = Folding(collective.ranks // len(channel), channel) if len(channel) > 1 else None
    fields = {"queued": True, "folding": folding, "notes": notes}
    return build.assemble("synthesized", collective, fabric, sent, chunks=chunks, steps=steps, **fields)


def tree_schedule(
    collective: Collective,
    fabric: Fabric,
    queues: Queues,
    trees: Callable[[bool], Forest],
    opposite: Callable[[Ints, Ints], Ints],
    *,
    pieces: int,
    note: str,
) -> Schedule:
    """Return the queued schedule of an all-gather, reduce-scatter or all-reduce over trees, not yet verified.

    Sums run backwards over the trees of the other direction; an all-reduce is the reduce-scatter and then the
    all-gather on every lightpath. Chunks are numbered owner · pieces + piece.

    Args:
        queues: channels and direction of the lightpaths of each queue.
        trees: function that returns trees over the lightpaths (False), or over those of the other direction (True).
        opposite: function that returns the queues of the lightpaths the other way, given queues and the places in their
            period of the ranks at which those lightpaths end: [row] each.
        pieces: parts in which every share travels.
        note: description for the notes.
    """
    kind = collective.kind
    parts = [] if kind == "all-gather" else [reversed_rows(trees(True), opposite)]
    parts += [] if kind == "reduce-scatter" else [gather_rows(trees(False))]
    return queued_schedule(collective, fabric, queues, parts, chunks=collective.ranks * pieces, note=note)


def ring_schedule(collective: Collective, fabric: Fabric, grown: RingTrees, note: str = "") -> Schedule:
    """Return the queued schedule of an all-gather, reduce-scatter or all-reduce over the trees of circuits in levels,
    not yet verified.

    ``grown`` are trees of an all-gather, grown for the size of ``collective``; sums run backwards over
    the circuits of the other direction. ``note`` is a description for the notes; none where it is empty.
    """
    circuits, forest = grown
    period = circuits.period
    return tree_schedule(
        collective,
        fabric,
        hub_queues(circuits),
        lambda backward: forest,  # noqa: ARG005 - circuits are the same both ways
        lambda queue, source: (queue // period ^ 1) * period + source,
        pieces=forest.pieces,
        note=note,
    )


def hub_queues(circuits: HubCircuits) -> Queues:
    """Return the queues of circuits in levels, with their channels in each copy of the period, widths and directions.

    A queue has the number (place of the chords' length · 2 + direction) · period + rank in its period, where direction
    is 0 clockwise and 1 counter-clockwise.
    """
    ranks, period, lines = circuits.ranks, circuits.period, 2 * len(circuits.chords)
    channel = np.zeros((ranks // period, lines, period), np.int32)
    for line in range(lines):
        hubs, skip, _, first = circuits.chords[line // 2]
        hub = hub_ranks(ranks, hubs)
        # Counter-clockwise chords lie over the clockwise ones that lead to where they start.
        channel[hub // period, line, hub % period] = np.roll(first, line % 2 * skip)
    line_of = np.arange(lines).repeat(period)
    return Queues(channel.reshape(len(channel), -1), circuits.width[line_of // 2], line_of % 2)


# All-reduces whose halves overlap: sums go down trees while contributions to others still go up.
#
# A reduce-scatter that is an all-gather run backwards completes all its sums at the end, so that the all-gather
# behind it begins when nothing else is left to send. Here both are scheduled as one: pieces follow each other, the
# first of every share ahead of the second, and every lightpath sends whatever waits for it, contributions and sums
# alike.

_MOST_ROWS = 400_000
"""Largest number of rows that are put in another order."""
_TOGETHER = 1e-15
"""Seconds within which rows come together."""
_STAGGERS = (0.0, 0.5, 1.0, 4.0)
"""Share of the whole time by which each piece is less urgent than the one before, over the number of pieces."""


def overlapped(schedule: Schedule, fabric: Fabric) -> Schedule:
    """Return an all-reduce on standing circuits with its rows in the fastest order found, never slower than before, not
    yet verified.

    In each order that is tried a lightpath sends first what has the longest way left, where piece k of a share is less
    urgent than its piece 0 by 0, 0.5, 1 or 4 times k / pieces of the whole time, until one is slower than that before.
    Any other schedule, and one of more than 400,000 rows, is returned unchanged.

    Time: rows, times the logarithm of what waits.
    """
    queued = schedule.collective.kind == "all-reduce" and schedule.queued and fabric.exclusive
    if not queued or not 0 < len(schedule) <= _MOST_ROWS:
        return schedule
    before = play(schedule, fabric)
    origin, target, held = cells_of(schedule)
    busy, delay = (np.ascontiguousarray(seconds, np.float64) for seconds in busy_and_delay(schedule, fabric))
    path, begins = schedule.lightpath.astype(np.int64), np.arange(len(schedule) + 1)
    rows = kernels.OrderedRows(origin, target, read_only(schedule.reduces), begins, path, busy, delay)
    order, left = np.argsort(before.begin, kind="stable"), np.empty(len(schedule))
    ends, reduces = (origin[order], target[order]), read_only(schedule.reduces[order])
    timed = kernels.OrderedRows(*ends, reduces, begins, path[order], busy[order], delay[order])
    left[order] = kernels.seconds_left(timed, len(held))
    pieces = schedule.chunks // schedule.collective.ranks
    piece = schedule.chunk.astype(np.int64) % pieces
    least, last, best = before.seconds, np.inf, None
    for stagger in _STAGGERS if pieces > 1 else _STAGGERS[:1]:
        later = piece * (stagger * before.seconds / pieces) - left
        turn, seconds = turns(rows, held.copy(), int(path.max()) + 1, piece, later, together=_TOGETHER)
        if seconds < least:
            least, best = seconds, turn
        if seconds > last:
            break
        last = seconds
    if best is None:
        return schedule
    schedule = schedule.with_rows(np.lexsort((best, schedule.lightpath)))
    step = np.arange(len(schedule)) - np.searchsorted(schedule.lightpath, schedule.lightpath)
    return schedule.with_columns({"step": step}, steps=int(step.max(initial=0)) + 1)


def turns(
    rows: kernels.OrderedRows, held: Mask, links: int, *keys: Floats | Ints, together: float = 0.0
) -> tuple[Ints, float]:
    """Return the place of each row in the order in which rows are sent, [row], and the seconds until the last arrival.
    A link that is free sends the most urgent row that waits for it and need not wait anywhere on its way.

    Args:
        rows: rows with the links they cross and the cells they read and write, each after those that bring what it
            sends.
        held: out and in: True where a cell, a chunk at a rank, holds data: [cell].
        links: number of links.
        keys: urgency of the rows, least first, as :func:`numpy.lexsort` takes keys: [row] each.
        together: seconds for which a free link waits for more urgent rows before it chooses.
    """
    link, turn = rows.link[rows.begins[:-1]], np.empty(len(rows.origin), np.int64)
    ranked = np.lexsort((*keys, link))
    first = np.searchsorted(link[ranked], np.arange(links + 1))
    return turn, float(kernels.list_order(rows, first, ranked, held, together, turn))


# Foldings of schedules whose barriers are left out.


def folded_to_hold(steps: Schedule, fabric: Fabric, most_rows: int) -> Schedule | None:
    """Return a schedule of steps with rows of as few ranks as stand for all once its barriers are left out, as the
    verifier finds; it still has its steps. A folded one is unfolded axis by axis until it holds. None where that makes
    more than ``most_rows``."""
    while steps.folding is not None and not holds(without_barriers(steps, fabric), fabric):
        if len(steps) * (steps.folding.axes or (steps.folding.copies,))[0] > most_rows:
            return None
        steps = steps.unfolded_once()
    return steps


_held: Latest[bytes, bool] = Latest(1 << 12)
"""True where a folded schedule of any size held, by its rows and all of the fabric but its rates."""


def holds(schedule: Schedule, fabric: Fabric) -> bool:
    """Return True when a folded schedule whose barriers are left out passes the verifier on this fabric."""
    folding, collective, lists = schedule.folding, schedule.collective, schedule.lists
    assert folding is not None and schedule.dependencies is None
    asked = collective.kind, collective.destinations, collective.sizes and collective.sizes.digest
    name = structure(fabric), *asked, schedule.chunks, schedule.steps, schedule.queued, folding.period, folding.axes
    listed = () if lists is None else (lists.chunks, lists.first, lists.count)
    key = digest((*name, schedule.pipeline), (*schedule.columns().values(), folding.channel, *listed))
    if key not in _held:
        try:
            verify(schedule, fabric)
            _held[key] = True
        except VerificationError:
            _held[key] = False
    return _held[key]
