"""Trees become a queued schedule: rows of one period of ranks, on lightpaths that stand throughout.

A reduce-scatter is an all-gather run backwards over the lightpaths of the other direction, and an all-reduce queues the
one behind the other on each lightpath.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.folding import Folding
from lightloom.collectives.spec import Collective
from lightloom.collectives.synthesis.engine.forest import Forest
from lightloom.collectives.synthesis.engine.hubs import HubCircuits, hub_ranks
from lightloom.collectives.synthesis.engine.trees import RingTrees
from lightloom.core.arrays import Column, Floats, Int32s, Ints, Mask
from lightloom.fabrics.base import Fabric


class Rows(NamedTuple):
    """Receptions of senders in the first period; arrays [row]."""

    queue: Ints
    source: Ints
    destination: Ints
    chunk: Ints
    reduces: Mask
    when: Floats
    """Seconds at which the row is sent."""


@dataclass(frozen=True, slots=True, eq=False)
class Wiring:
    """What the lightpaths of each queue use."""

    period: int
    """Ranks after which lightpaths repeat."""
    channel: Callable[[Ints], Column]
    """First channel of every copy of the lightpaths of some queues: [copy, queue]."""
    width: Ints
    """Channels that a lightpath bundles: [queue]."""
    route: Ints
    """[queue]."""


def gather_rows(forest: Forest) -> Rows:
    """Rows of an all-gather, rotated into the first period of ranks."""
    paths, (pieces, _, ranks) = forest.paths, forest.tap.shape
    piece, root, rank = at = np.nonzero(forest.tap >= 0)
    tap = forest.tap[at]
    sender = paths.origin[tap].astype(np.int64)
    shift = sender - sender % paths.period
    chunk = (root - shift) % ranks * pieces + piece
    stores = np.zeros(len(tap), np.bool_)
    return Rows(
        paths.queue[tap].astype(np.int64), sender - shift, (rank - shift) % ranks, chunk, stores, forest.begin[at]
    )


def reversed_rows(forest: Forest, queue: Callable[[Ints, Ints], Ints]) -> Rows:
    """Rows of a reduce-scatter: every send of an all-gather the other way, in the opposite order.

    Args:
        queue: queues of the opposite lightpaths, of queues and the ranks at which those lightpaths end in their period.
    """
    gather, period, (pieces, _, ranks) = gather_rows(forest), forest.paths.period, forest.tap.shape
    source = gather.destination % period
    shift = gather.destination - source
    owner, piece = np.divmod(gather.chunk, pieces)
    return Rows(
        queue(gather.queue, source),
        source,
        (gather.source - shift) % ranks,
        (owner - shift) % ranks * pieces + piece,
        np.ones(len(source), np.bool_),
        -gather.when,
    )


def queued_schedule(
    collective: Collective, fabric: Fabric, wiring: Wiring, parts: Sequence[Rows], *, pieces: int, note: str
) -> Schedule:
    """The schedule of parts that follow each other on every lightpath, not yet verified.

    Rows in which one lightpath sends a chunk at the same time are one transmission.
    """
    rows = Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    phase = np.repeat(np.arange(len(parts)), [len(part.when) for part in parts])
    order = np.lexsort((rows.when, phase, rows.queue))
    rows = Rows(*(column[order] for column in rows))  # type: ignore[arg-type]
    used, path = np.unique(rows.queue, return_inverse=True)
    begins = np.ones(len(path), np.bool_)
    begins[1:] = False
    for column in (path, phase[order], rows.when, rows.chunk):
        begins[1:] |= column[1:] != column[:-1]
    place = np.cumsum(begins) - 1
    step = place - place[np.searchsorted(path, np.arange(len(used)))][path]
    channel = wiring.channel(used)
    folded = wiring.period < collective.ranks
    return Schedule(
        algorithm="synthesized",
        collective=collective,
        chunks=collective.ranks * pieces,
        steps=int(step.max(initial=0)) + 1,
        step=step,
        lightpath=path,
        source=rows.source,
        destination=rows.destination,
        route=wiring.route[used][path],
        fibre=channel[0, path] // fabric.fibre_channels,
        first_wavelength=channel[0, path] % fabric.fibre_channels,
        wavelength_count=wiring.width[used][path],
        chunk=rows.chunk,
        reduces=rows.reduces,
        queued=True,
        folding=Folding(wiring.period, channel) if folded else None,
        notes=(note,) if note else (),
    )


def ring_schedule(collective: Collective, fabric: Fabric, trees: RingTrees, note: str = "") -> Schedule:
    """The schedule of an all-gather, reduce-scatter or all-reduce over circuits in levels, not yet verified."""
    circuits, forest = trees.circuits, trees.forest
    period = circuits.period
    parts = []
    if collective.kind != "all-gather":
        parts.append(reversed_rows(forest, lambda queue, source: (queue // period ^ 1) * period + source))
    if collective.kind != "reduce-scatter":
        parts.append(gather_rows(forest))
    return queued_schedule(collective, fabric, hub_wiring(circuits), parts, pieces=forest.pieces, note=note)


def hub_wiring(circuits: HubCircuits) -> Wiring:
    """What circuits in levels use; queue (level · 2 + direction) · period + rank in its period."""
    line = np.arange(2 * len(circuits.levels)).repeat(circuits.period)
    return Wiring(circuits.period, lambda used: _copied_channels(circuits, used), circuits.width[line // 2], line % 2)


def _copied_channels(circuits: HubCircuits, used: Ints) -> Int32s:
    ranks, period = circuits.ranks, circuits.period
    copies = ranks // period
    line, rank = np.divmod(used, period)
    channel = np.zeros((copies, len(used)), np.int32)
    for level in np.unique(line // 2).tolist():
        hubs = circuits.levels[level].hubs
        number = np.full(ranks, -1, np.int64)
        number[hub_ranks(ranks, hubs)] = np.arange(hubs)
        rows = np.flatnonzero(line // 2 == level)
        hub = number[(rank[rows] + np.arange(copies)[:, None] * period) % ranks]
        # Counter-clockwise chords lie over the clockwise ones that lead to where they start.
        hub = np.where(line[rows] % 2 == 1, (hub - circuits.levels[level].skip) % hubs, hub)
        channel[:, rows] = circuits.channel(level, hub)
    return channel
