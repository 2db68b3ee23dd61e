"""All-gather, reduce-scatter and all-reduce over any circuits that stand, without symmetry.

    circuits ──► a tree for every piece of every rank ──► circuits shared evenly ──► list schedule ──► queued schedule

A reduce-scatter is an all-gather over the reversed circuits, run backwards, so that every send takes a circuit in the
direction of its light; an all-reduce queues an all-gather behind it. No circuit needs a counterpart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.collectives.collective import Collective
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.engine.lightpaths import arrange, free_line
from lightloom.collectives.synthesis.engine.queues import Queues, tree_schedule
from lightloom.collectives.synthesis.engine.trees import Forest, grow_forest
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric

_SWEEPS = 4
"""Rounds of balancing; later ones hardly move anything."""
_LARGEST_TABLE = 1 << 24
"""Transfers above which nothing is scheduled."""


@dataclass(frozen=True, slots=True, eq=False)
class StandingCircuits:
    """Circuits, each an entry of every array [circuit]; several may join the same ranks."""

    ranks: int
    source: Ints
    destination: Ints
    route: Ints
    """Direction around the ring, as the fabric numbers routes; 0 on switches."""
    channel: Ints
    """First channel: fibre · fibre_channels + wavelength on rings, plane on switches."""
    width: Ints
    """Channels that the circuit bundles."""

    def __len__(self) -> int:
        """Return the number of circuits."""
        return len(self.source)

    @property
    def columns(self) -> tuple[Ints, ...]:
        """Source, destination, route, channel and width: arrays [circuit]."""
        return self.source, self.destination, self.route, self.channel, self.width

    def queues(self) -> Queues:
        """Return the circuits as queues, one for each circuit: first channel, width in channels and direction."""
        return Queues(self.channel[None], self.width, self.route)

    def only(self, which: Ints | Mask) -> StandingCircuits:
        """Return the circuits that an array of indices, or a mask, selects."""
        return StandingCircuits(self.ranks, *(column[which] for column in self.columns))


def gather_over(
    collective: Collective,
    fabric: Fabric,
    circuits: StandingCircuits,
    pieces: int,
    *,
    grown: Forest | None = None,
    note: str = "",
) -> Schedule:
    """Return a queued all-gather, reduce-scatter or all-reduce over standing circuits, not yet verified.

    Args:
        pieces: parts in which every share travels, with a tree each.
        grown: trees for this size, if they have been grown: of a reduce-scatter over the reversed circuits, else over
            the circuits as they are, to which an all-reduce grows those for its sums here. None: all are grown here.
        note: description for the notes; none where it is empty.

    Raises:
        UnsupportedError: circuits that do not join all ranks, or too many transfers.
    """
    # A collective of no bytes takes the trees of a byte.
    timing = busy_and_delay(fabric, circuits, max(collective.nbytes_per_rank, 1.0) / pieces)

    def trees(backward: bool) -> Forest:
        """Return the trees over the circuits, or with ``backward`` over the reversed ones, unless given."""
        if grown is not None and backward == (collective.kind == "reduce-scatter"):
            return grown
        return forest(circuits, *timing, pieces, backward=backward)

    return tree_schedule(collective, fabric, circuits.queues(), trees, lambda queue, _: queue, pieces=pieces, note=note)


def busy_and_delay(fabric: Fabric, circuits: StandingCircuits, nbytes: float) -> tuple[Floats, Floats]:
    """Return the seconds for which ``nbytes`` hold each circuit, sending and the overhead of a piece, and the seconds
    from the start until they arrive, conversion and latency included: [circuit] each."""
    busy = nbytes / (circuits.width * fabric.channel_bandwidth).astype(np.float64) + fabric.piece_overhead
    return busy, busy + fabric.step_overhead + fabric.latency(circuits.source, circuits.destination, circuits.route)


def forest(circuits: StandingCircuits, busy: Floats, delay: Floats, pieces: int, *, backward: bool = False) -> Forest:
    """Return trees of all pieces of all ranks with their times; with ``backward`` over the reversed circuits. Circuits
    keep their numbers as queues.

    Time: pieces · ranks · circuits, times the logarithm of what waits.

    Args:
        busy: seconds for which a piece holds each circuit: [circuit].
        delay: seconds from the start of a piece on each circuit to its arrival: [circuit].
        pieces: parts of every rank's share, with a tree each.

    Raises:
        UnsupportedError: the circuits do not join all ranks, or pieces · ranks² is above 2^24 (16,777,216).
    """
    ranks, number = circuits.ranks, np.arange(len(circuits))
    if pieces * ranks * ranks > _LARGEST_TABLE:
        raise UnsupportedError(f"{pieces} pieces of {ranks} ranks: expected at most {_LARGEST_TABLE} transfers")
    origin, target = circuits.source, circuits.destination
    if backward:
        origin, target = target, origin
    # Seconds in which the rank with the least incoming bandwidth receives all pieces, at best.
    slowest = float(np.bincount(target, weights=1 / np.maximum(busy, 1e-300), minlength=ranks).min())
    deadline = (ranks - 1) * pieces / slowest + float((delay - busy).min()) if slowest else np.inf
    paths, order = arrange(ranks, ranks, origin, target, number, number)
    paths = paths._replace(delay=delay[order], busy=busy)
    trees = grow_forest(paths, free_line(len(circuits)), [0] * pieces, deadline=deadline, sweeps=_SWEEPS)
    if trees is None:
        raise UnsupportedError(f"{len(circuits)} circuits do not join all of {ranks} ranks")
    return trees
