"""All-to-all over circuits of a switch: blocks take shortest ways that use all circuits alike.

    blocks of a source ──► a shortest tree ──► ways balanced by the blocks that pass ──► queues by hop

A circuit sends what is on its first hop, then what is on its second, and so on, and of those first what has farthest
to go. A block then only waits for blocks on earlier hops, so that no circuit waits for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.folding import Folding
from lightloom.collectives.spec import Collective
from lightloom.collectives.synthesis.engine.standing import StandingCircuits
from lightloom.collectives.synthesis.switch.graphs import Lift
from lightloom.core.arrays import Ints

_SWEEPS = 8
"""Times that every source chooses its ways again, all others having chosen; not every time is better."""


@dataclass(frozen=True, slots=True, eq=False)
class _Ways:
    """Circuits into every rank, shape [rank, entering]; and who is how far from the first ``period`` ranks."""

    origin: Ints
    circuit: Ints
    """Number among the circuits of the first period, or of all."""
    plane: Ints
    """Of each such circuit."""
    hops: NDArray[np.int16]
    """[source, rank]; the sources of one period."""

    def rows(self, pieces: int) -> dict[str, Any]:
        """Every hop of every block of the sources."""
        from lightloom.collectives.synthesis.switch import _switch_kernels as kernels

        period, ranks = self.hops.shape
        choice = np.empty((pieces, period, ranks), np.int16)
        load = np.zeros(len(self.plane), np.int64)
        best, least = choice, np.inf
        for _ in range(_SWEEPS):
            kernels.balance(self.origin, self.circuit, self.hops, choice, load)
            if load.max() < least:
                best, least = choice.copy(), load.max()
        choice = best
        piece, source, reader = (axis.ravel() for axis in np.indices(choice.shape))
        at, parts = reader.copy(), []
        while len(at):
            going = at != source
            piece, source, reader, at = (column[going] for column in (piece, source, reader, at))
            by = choice[piece, source, at]
            before = self.origin[at, by]
            hop = self.hops[source, at]
            parts.append(
                (source, reader, piece, before, at, self.circuit[at, by], hop, self.hops[source, reader] - hop)
            )
            at = before
        names = ("owner", "reader", "piece", "source", "destination", "circuit", "hop", "left")
        return {name: np.concatenate([part[i] for part in parts]) for i, name in enumerate(names)}


def exchange_over_lift(collective: Collective, lift: Lift, pieces: int, note: str) -> Schedule:
    """A folded queued all-to-all over circuits that repeat."""
    degree, period = lift.ahead.shape
    ways = _Ways(lift.origin, lift.circuit, np.repeat(np.arange(degree), period), lift.hops)
    rows = ways.rows(pieces)
    shift = rows["source"] // period * period
    for name in ("owner", "reader", "source", "destination"):
        rows[name] = (rows[name] - shift) % collective.ranks
    return _schedule(collective, rows, ways.plane, pieces, note, period)


def exchange_over(collective: Collective, circuits: StandingCircuits, pieces: int, note: str) -> Schedule:
    """A queued all-to-all over a switch's circuits, as many of which enter each rank."""
    from lightloom.collectives.synthesis.grid import _round_kernels

    ranks = collective.ranks
    entering = np.argsort(circuits.destination, kind="stable").reshape(ranks, -1)
    leaving = np.argsort(circuits.source, kind="stable")
    first = np.searchsorted(circuits.source[leaving], np.arange(ranks + 1))
    hops, beyond = np.empty((ranks, ranks), np.int16), np.empty((ranks, ranks), np.int16)
    _round_kernels.distances(first, circuits.destination[leaving], hops, beyond)
    rows = _Ways(circuits.source[entering], entering, circuits.channel, hops).rows(pieces)
    return _schedule(collective, rows, circuits.channel, pieces, note, ranks)


def _schedule(
    collective: Collective, rows: dict[str, Any], plane: Ints, pieces: int, note: str, period: int
) -> Schedule:
    ranks = collective.ranks
    order = np.lexsort((-rows["left"], rows["hop"], rows["circuit"]))
    rows = {name: column[order] for name, column in rows.items()}
    used, path = np.unique(rows["circuit"], return_inverse=True)
    step = np.arange(len(path)) - np.searchsorted(path, np.arange(len(used)))[path]
    folding = Folding(period, np.tile(plane[used].astype(np.int32), (ranks // period, 1)))
    none = np.zeros(len(path), np.int8)
    return Schedule(
        algorithm="synthesized",
        collective=collective,
        chunks=ranks * ranks * pieces,
        steps=int(step.max()) + 1,
        step=step,
        lightpath=path,
        source=rows["source"],
        destination=rows["destination"],
        route=none,
        fibre=plane[used[path]],
        first_wavelength=none,
        wavelength_count=none + 1,
        chunk=(rows["owner"] * ranks + rows["reader"]) * pieces + rows["piece"],
        reduces=none.astype(np.bool_),
        queued=True,
        folding=None if period == ranks else folding,
        notes=(note,),
    )
