"""Transfers of many chunks each as rows: whole lists of chunks share lightpaths that bundle a channel for each.

chunks 4, 5, 6, 7, 8 on colours 3 to 7, with 4 channels a link

step 0    channel 3            4          a lightpath of one channel carries a chunk
step 1    channels 0 to 3      5 6 7 8    one of four channels carries four, one after the other, in the same time
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lightloom.collectives.schedule.build import Rows, assemble, fit, joined
from lightloom.collectives.schedule.chunk_lists import ChunkLists
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.wavelengths import colour_ranges
from lightloom.collectives.spec import Collective
from lightloom.core.arrays import Column, Ints
from lightloom.fabrics.base import CLOCKWISE, COUNTERCLOCKWISE, Fabric


class Bundles(NamedTuple):
    """Transfers that happen at once where there are channels enough: arrays [transfer]."""

    source: Column
    destination: Column
    route: Column
    entry: Column
    """Place of the first chunk in a list of chunks that all stages share; the others follow there."""
    carried: Column
    """Chunks."""
    colour: Column
    """First colour. Transfers of different colours never share a channel in the same step."""
    colours: int
    in_a_row: bool = False
    """Whether all chunks of a transfer follow each other on one colour, instead of each on the next one."""
    lightpath: Column | None = None
    """Multicast to which a transfer belongs: those of one have the same source, route, chunks and colours. None where
    each has lightpaths of its own."""


def bundled(
    name: str,
    collective: Collective,
    fabric: Fabric,
    stages: Sequence[Bundles],
    entries: Column,
    *,
    chunks: int,
    striped: bool,
    notes: tuple[str, ...] = (),
) -> Schedule:
    """A schedule of one stage after the other, whose rows carry lists of chunks.

    Args:
        name: of the algorithm.
        collective: what the schedule serves.
        fabric: one of circuits.
        stages: in order.
        entries: chunks, to which the stages refer by place: [entry].
        chunks: of the schedule.
        striped: whether lightpaths bundle all channels that they can get, beside one for each chunk.
        notes: what the algorithm says of its choices.
    """
    parts, first, counts, step, path = list[Rows](), list[Column](), list[Column](), 0, 0
    for stage in stages:
        width, slots, steps = fit(fabric, stage.colours, striped=striped)
        pieces = _in_steps(stage, slots)
        order = np.argsort(pieces.step, kind="stable")
        transfer, now, slot, taken, entry, count = (column[order] for column in pieces)
        source, destination, route = (
            np.asarray(column, np.int32)[transfer] for column in (stage.source, stage.destination, stage.route)
        )
        number = np.arange(len(order), dtype=np.int32)
        if stage.lightpath is not None:
            number = np.unique(stage.lightpath[transfer] * np.int64(steps) + now, return_inverse=True)[1]
        wide, adds = (taken * width).astype(np.int16), np.zeros(len(order), np.bool_)
        parts.append(Rows(step + now, path + number, source, destination, route, slot * width, wide, number, adds))
        first.append(entry)
        counts.append(count)
        step, path = step + steps, path + int(number.max(initial=-1)) + 1
    lists, number = ChunkLists.of_ranges(entries, np.concatenate(first), np.concatenate(counts))
    rows = joined(parts)._replace(chunk=number)
    schedule = assemble(name, collective, fabric, rows, chunks=chunks, steps=step, notes=notes)
    return schedule.with_columns({}, lists=lists)


class _Pieces(NamedTuple):
    """Parts of transfers that lie in one step each: arrays [piece]."""

    transfer: Ints
    step: Column
    slot: Column
    """Place of the first colour in its step."""
    taken: Column
    """Colours."""
    entry: Column
    carried: Column
    """Chunks."""


def _in_steps(stage: Bundles, slots: int) -> _Pieces:
    """Cut transfers where their colours go on in the next step."""
    colour, count = (np.asarray(column, np.int64) for column in (stage.colour, stage.carried))
    last = colour if stage.in_a_row else colour + count - 1
    pieces = last // slots - colour // slots + 1
    transfer = np.repeat(np.arange(len(colour)), pieces)
    number = np.arange(len(transfer)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    step = (colour // slots)[transfer] + number
    begin = np.maximum(colour[transfer], step * slots)
    taken = np.minimum(last[transfer] + 1, (step + 1) * slots) - begin
    entry = np.asarray(stage.entry, np.int64)[transfer] + begin - colour[transfer]
    carried = count[transfer] if stage.in_a_row else taken
    small = (column.astype(np.int32) for column in (step, begin - step * slots, taken, entry, carried))
    return _Pieces(transfer, *small)


def along_the_line(source: Ints, destination: Ints, entry: Ints, count: Ints, n: int, *, in_a_row: bool) -> Bundles:
    """Transfers between ranks of a line of ``n``, on as many colours as the busiest link carries.

    Args:
        source: [transfer].
        destination: [transfer].
        entry: place of the first chunk: [transfer].
        count: chunks: [transfer].
        n: ranks.
        in_a_row: whether a transfer takes one colour, instead of one for each chunk.
    """
    columns, colours = list[tuple[Column, ...]](), 0
    for direction in (CLOCKWISE, COUNTERCLOCKWISE):
        rows = np.flatnonzero((destination > source) == (direction == CLOCKWISE))
        low, high = (source, destination) if direction == CLOCKWISE else (destination, source)
        wanted = np.ones_like(rows) if in_a_row else count[rows]
        given = colour_ranges(low[rows], high[rows], wanted, n)
        transfer = rows[given.interval]
        before = np.zeros_like(given.size) if in_a_row else given.before
        carried = count[transfer] if in_a_row else given.size
        route = np.full(len(transfer), direction, np.int8)
        columns.append(
            (source[transfer], destination[transfer], route, entry[transfer] + before, carried, given.colour)
        )
        colours = max(colours, given.colours)
    start, end, route, first, carried, colour = (np.concatenate(pair) for pair in zip(*columns, strict=True))
    return Bundles(start, end, route, first, carried, colour, colours, in_a_row)
