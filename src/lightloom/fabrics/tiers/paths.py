"""The links that transfers through tiers take.

A transfer takes the tier that joins its ends. Where that tier's rails are separate, the transfer first crosses the
tiers beneath, to the rank of its own child that is on the rail of the destination:

    source ──▶ [domain] ──▶ gateway ──▶ [rail of the destination] ──▶ destination
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.fabrics.footprint import Footprint, ordered_links
from lightloom.fabrics.tiers.level import Level


def joining(levels: Sequence[Level], source: Ints, destination: Ints) -> Ints:
    """The number, from 0, of the tier that joins ranks: [transfer]."""
    tier = np.zeros(np.broadcast_shapes(np.shape(source), np.shape(destination)), np.int64)
    for number, level in enumerate(levels):
        tier[source // level.child != destination // level.child] = number
    return tier


def crossings(levels: Sequence[Level], source: Ints, destination: Ints) -> Iterator[tuple[Level, Mask, Ints, Ints]]:
    """The tiers that transfers cross, outermost first: which transfers do, and between which ranks."""
    source, target = np.asarray(source, np.int64), np.asarray(destination, np.int64)
    for level in reversed(levels):
        crosses = level.leads_out(source, target)
        gateway = level.gateway(source, target)
        yield level, crosses, gateway, target
        target = np.where(crosses, gateway, target)


def footprint(levels: Sequence[Level], source: Ints, destination: Ints) -> Footprint:
    """The links of transfers; tiers of which a transfer takes at most one have their runs in the same columns."""
    columns: list[list[Ints]] = []
    first = 0
    for level, crosses, gateway, target in crossings(levels, source, destination):
        if crosses.any():
            runs = [run for run, _ in level.runs(gateway, target)]
            for number, run in enumerate(runs, first):
                if number == len(columns):
                    columns.append(
                        [np.zeros(len(crosses), np.int64) for _ in range(3)] + [np.ones(len(crosses), np.int64)]
                    )
                for column, part in zip(columns[number], run.columns(), strict=True):
                    np.copyto(column, part, where=crosses)
        if not level.joined:
            first = len(columns)
    if not columns:
        return Footprint.of([(0, 0, np.zeros(len(np.asarray(source)), np.int64), 1)])
    return Footprint(*(np.stack(parts, axis=-1) for parts in zip(*columns, strict=True)))


def path(levels: Sequence[Level], source: Ints, destination: Ints) -> Ints:
    """The links of transfers in order, −1 filling up: [transfer, place]."""
    runs, backward = [], []
    for level, crosses, gateway, target in reversed(list(crossings(levels, source, destination))):
        if crosses.any():
            for run in level.ordered_runs(gateway, target):
                runs.append(run._replace(length=np.where(crosses, run.length, 0)).columns())
                backward.append(run.backward)
    return ordered_links(runs, backward) if runs else np.full((len(np.asarray(source)), 1), -1)


def _run_lengths(levels: Sequence[Level], source: Ints, destination: Ints) -> Iterator[tuple[Ints, float]]:
    for level, crosses, gateway, target in crossings(levels, source, destination):
        if crosses.any():
            for run, seconds in level.runs(gateway, target):
                yield np.where(crosses, run.length, 0), seconds


def hops(levels: Sequence[Level], source: Ints, destination: Ints) -> Ints:
    """Links of each transfer: [transfer]."""
    links = np.zeros(np.broadcast_shapes(np.shape(source), np.shape(destination)), np.int64)
    for length, _ in _run_lengths(levels, source, destination):
        links += length
    return links


def latency(levels: Sequence[Level], source: Ints, destination: Ints) -> Floats:
    """Seconds of each transfer, the sum over its links: [transfer]."""
    total = np.zeros(np.broadcast_shapes(np.shape(source), np.shape(destination)))
    for length, seconds in _run_lengths(levels, source, destination):
        if seconds:
            total += seconds * length
    return total
