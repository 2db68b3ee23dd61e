"""All-to-all over circuits of a switch: blocks take shortest ways that use all circuits alike.

    blocks of a source ──► a shortest tree ──► ways balanced by the blocks that pass ──► queues by hop

A circuit sends what is on its first hop, then what is on its second, and so on, and of those first what has farthest
to go. A block then only waits for blocks on earlier hops, so that no circuit waits for ever.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.collectives.synthesis.engine.queues import Queues, Rows, queued_schedule
from lightloom.collectives.synthesis.engine.standing import StandingCircuits
from lightloom.collectives.synthesis.switch.graphs import Lift
from lightloom.core.arrays import Ints
from lightloom.fabrics.base import Fabric

_SWEEPS = 8
"""Times that every source chooses its ways again, all others having chosen; not every time is better."""


class _Ways(NamedTuple):
    """Circuits into every rank, shape [rank, entering]; and who is how far from the first ``period`` ranks."""

    origin: Ints
    circuit: Ints
    """Number among the circuits of the first period, or of all."""
    hops: NDArray[np.int16]
    """[source, rank]; the sources of one period."""

    def chosen(self, pieces: int, circuits: int) -> NDArray[np.int16]:
        """Place, among the circuits into a rank, of the one that brings a block: [piece, source, rank]."""
        from lightloom.collectives.synthesis.switch import _switch_kernels as kernels

        choice = np.empty((pieces, *self.hops.shape), np.int16)
        load = np.zeros(circuits, np.int64)
        best, least = choice, np.inf
        for _ in range(_SWEEPS):
            kernels.balance(*self, choice, load)
            if load.max() < least:
                best, least = choice.copy(), load.max()
        return best


def exchange_over_lift(collective: Collective, fabric: Fabric, lift: Lift, pieces: int, note: str) -> Schedule:
    """A folded queued all-to-all over circuits that repeat."""
    return _exchange(collective, fabric, _Ways(lift.origin, lift.circuit, lift.hops), lift.queues(), pieces, note)


def exchange_over(
    collective: Collective, fabric: Fabric, circuits: StandingCircuits, pieces: int, note: str
) -> Schedule:
    """A queued all-to-all over a switch's circuits, as many of which enter each rank."""
    from lightloom.collectives.synthesis.grid import _round_kernels

    ranks = collective.ranks
    entering = np.argsort(circuits.destination, kind="stable").reshape(ranks, -1)
    leaving = np.argsort(circuits.source, kind="stable")
    first = np.searchsorted(circuits.source[leaving], np.arange(ranks + 1))
    hops, beyond = np.empty((ranks, ranks), np.int16), np.empty((ranks, ranks), np.int16)
    _round_kernels.distances(first, circuits.destination[leaving], hops, beyond)
    ways = _Ways(circuits.source[entering], entering, hops)
    return _exchange(collective, fabric, ways, circuits.queues(), pieces, note)


def _exchange(collective: Collective, fabric: Fabric, ways: _Ways, queues: Queues, pieces: int, note: str) -> Schedule:
    """The schedule of every hop of every block of the sources, rotated to where its circuit starts first."""
    (period, ranks), choice = ways.hops.shape, ways.chosen(pieces, len(queues.width))
    piece, owner, reader = (axis.ravel() for axis in np.indices(choice.shape))
    at, parts = reader.copy(), []
    while len(at):
        going = at != owner
        piece, owner, reader, at = (column[going] for column in (piece, owner, reader, at))
        by = choice[piece, owner, at]
        before, hop = ways.origin[at, by], ways.hops[owner, at]
        parts.append((owner, reader, piece, before, at, ways.circuit[at, by], hop, ways.hops[owner, reader] - hop))
        at = before
    owner, reader, piece, source, destination, circuit, hop, left = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    shift = source // period * period
    chunk = ((owner - shift) % ranks * ranks + (reader - shift) % ranks) * pieces + piece
    # By hop, and of one hop first what has farthest to go.
    when = hop * (left.max() + 1.0) - left
    rows = Rows(circuit, source - shift, (destination - shift) % ranks, chunk, np.zeros(len(chunk), np.bool_), when)
    return queued_schedule(collective, fabric, queues, [rows], chunks=ranks * ranks * pieces, note=note)
