"""Circuit switches: which circuits stand, and what each of them sends, for the size at hand.

Large shares go over a circulant, where one tree stands for those of all ranks and every circuit carries the same,
smaller ones over circuits that repeat every few ranks and make fewer hops, the smallest over a generalised Kautz graph,
whose ranks are fewest hops apart (:func:`kautz`).

A reduce-scatter takes the same circuits: its trees are those of the reversed circuits, run backwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.algorithms.direct import one_stage
from lightloom.collectives.bounds.link_use import degree_seconds, ranks_by_hops
from lightloom.collectives.collective import FROM_ALL_GATHER, Collective
from lightloom.collectives.cost.stepped import Unbuilt, fastest
from lightloom.collectives.schedule.build import colour_planes
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis import grid_kernels, switch_kernels
from lightloom.collectives.synthesis import switch_kernels as kernels
from lightloom.collectives.synthesis.engine.lightpaths import Lightpaths, arrange
from lightloom.collectives.synthesis.engine.queues import Queues, Rows, queued_schedule, tree_schedule
from lightloom.collectives.synthesis.engine.standing import StandingCircuits, gather_over
from lightloom.collectives.synthesis.engine.trees import Forest, scheduled
from lightloom.core.arrays import Ints
from lightloom.machines.fabrics.fabric import Fabric

# Graphs of degree D for a circuit switch of D planes: circulants, their lifts, and generalised Kautz graphs.
#
# A circulant joins rank i to i + c for D connections c. It looks the same from every rank, so that one tree stands
# for all and no circuit waits; but at most binomial(k + D, D) ranks lie within k hops. A lift joins i to i + c where
# c depends on i modulo a period P that divides the ranks: it repeats every P ranks, and a period of 4 or 8 brings the
# hops of an all-to-all near the fewest that any graph has. A generalised Kautz graph joins i to −D i − 1, ..., −D i −
# D modulo N, of which D^k are different at k hops, as many as any graph can have: at most ⌈log_D N⌉ hops between any
# two of any number of ranks. Nothing in it repeats, and its circuits are not used alike.
#
# Source: Imase and Itoh, "A design for directed graphs with minimum diameter", IEEE Trans. Computers C-32, 1983.

_EFFORT, _LIFT_EFFORT = 30_000_000, 6_000_000
"""Circuits that a search for a circulant and one for a lift may follow, a tenth of a CPU second each; five times as
much made all-to-alls over lifts of 128 to 512 ranks at most 0.1 % faster."""
_MOST_TRIES = 9_000
_STARTS = 3


@lru_cache(maxsize=64)
def circulant(ranks: int, degree: int) -> Ints:
    """Return how many ranks ahead, around all ranks, the circuits of every rank lead, in no order, so that few hops lie
    between the farthest ranks and, among such, few in all: [degree].

    With a circuit to every other rank, distances from 1 to ``ranks`` − 1 take turns; otherwise they are found by random
    changes from N^(0/D), N^(1/D), ... (N ranks, D circuits a rank), seeded, so that the same question has the same
    answer.
    """
    if degree >= ranks - 1:
        return 1 + np.arange(degree, dtype=np.int64) % (ranks - 1)
    tries = min(_MOST_TRIES, _EFFORT // (ranks * degree)) // _STARTS
    powers = np.unique(np.round(ranks ** (np.arange(degree) / degree)).astype(np.int64))
    others = np.setdiff1d(np.arange(1, ranks), powers)[: degree - len(powers)]
    graphs = []
    for seed in range(_STARTS):
        rng, offsets = np.random.default_rng(seed), np.concatenate([powers, others])
        draws = rng.integers(degree, size=tries), rng.integers(1, ranks, size=tries)
        graphs.append((kernels.climb(offsets, ranks, *draws), offsets))
    return min(graphs, key=lambda graph: graph[0])[1]


@lru_cache(maxsize=64)
def lift(ranks: int, degree: int, period: int) -> Ints:
    """Return how many ranks ahead, 0 to ``ranks`` − 1, the circuits of one period of ranks lead, so that an
    all-to-all's fullest circuit carries few blocks: [degree, period]. ``period`` must divide ``ranks``.

    On each plane the ranks of a period lead to different residues modulo the period, so that a plane is a permutation.
    The circuits join all ranks. They are found by random changes of random lifts, seeded; with a circuit to every other
    rank, those of every rank are the ones of :func:`circulant`.
    """
    if degree >= ranks - 1:
        return np.tile(circulant(ranks, degree)[:, None], (1, period))
    tries = min(_MOST_TRIES, _LIFT_EFFORT // (ranks * degree * period)) // _STARTS + 1
    turns, graphs = ranks // period, []
    for seed in range(_STARTS):
        rng = np.random.default_rng(seed)
        residue = rng.permuted(np.tile(np.arange(period), (degree, 1)), axis=1)
        ahead = (residue - np.arange(period) + period * rng.integers(turns, size=residue.shape)) % ranks
        ahead[0] = 1  # All ranks are joined from the start, and stay so.
        draws = rng.integers(degree, size=tries), rng.integers(period, size=(tries, 2)), rng.integers(turns, size=tries)
        graphs.append((kernels.climb_lift(ahead, ranks, *draws), ahead))
    return min(graphs, key=lambda graph: graph[0])[1]


@dataclass(frozen=True, slots=True, eq=False)
class Lift:
    """Circuits of a switch that repeat every few ranks, numbered plane · period + start."""

    ahead: Ints
    """Rank i has a circuit on plane k to rank i + ``ahead[k, i % period]``: [plane, period]."""
    origin: Ints
    """Where the circuits into every rank begin: [rank, plane]."""
    circuit: Ints
    """Their numbers: [rank, plane]."""
    hops: NDArray[np.int16]
    """From the first ranks to all: [period, rank]."""

    @classmethod
    def of(cls, ranks: int, ahead: Ints) -> Lift:
        """Return the lift of circuits that lead ``ahead`` [plane, period] ranks on, 0 to ``ranks`` − 1, from each rank
        of a period, with the circuits into every rank and the hops from the first period to all ranks. A circuit of 0
        leads from a rank to itself, and nothing takes it.

        The circuits must join all ranks, which is not checked; the period is that of ``ahead`` and divides ``ranks``.
        """
        planes, period = ahead.shape
        hops = np.empty((period, ranks), np.int16)
        kernels.lift_hops(ahead, ranks, hops, np.empty(ranks, np.int64))
        origin, circuit = np.empty((ranks, planes), np.int64), np.empty((ranks, planes), np.int64)
        kernels.lift_ways(ahead, ranks, origin, circuit)
        return cls(ahead, origin, circuit, hops)

    def lightpaths(self) -> Lightpaths:
        """Return the circuits of all ranks as lightpaths of one tap each, numbered rank · planes + plane, whose seconds
        of delay and of sending are left empty.

        Queues are numbered plane · period + place of the rank in its period.
        """
        planes, period = self.ahead.shape
        ranks = len(self.origin)
        origin, plane = (axis.ravel() for axis in np.indices((ranks, planes)))
        target = (origin + self.ahead[plane, origin % period]) % ranks
        queue = plane * period + origin % period
        return arrange(ranks, period, origin, target, np.arange(len(origin)), queue)[0]

    def queues(self) -> Queues:
        """Return the circuits as queues of one channel each, that of their plane, with a copy for each period of ranks;
        their number is plane · period + place of the rank in its period, their route 0."""
        planes, period = self.ahead.shape
        plane = np.repeat(np.arange(planes, dtype=np.int32), period)
        return Queues(np.tile(plane, (len(self.origin) // period, 1)), np.ones_like(plane), np.zeros_like(plane))

    def reversed(self) -> Lift:
        """Return these circuits in the other direction."""
        planes, period = self.ahead.shape
        backward = np.empty_like(self.ahead)
        start = np.arange(period)
        backward[np.arange(planes)[:, None], (start + self.ahead) % period] = -self.ahead
        ranks = len(self.origin)
        return Lift.of(ranks, backward % ranks)


@lru_cache(maxsize=8)
def kautz(ranks: int, degree: int) -> StandingCircuits:
    """Return a generalised Kautz graph, every rank with ``degree`` circuits each way, on as many planes, which are
    their channels: width 1, route 0, ordered by source.

    Circuits from a rank to itself, which some numbers of ranks ask for, lead to the next such rank instead; some are
    left where no exchange removes them.
    """
    source = np.repeat(np.arange(ranks), degree)
    destination = -(degree * source + np.tile(np.arange(1, degree + 1), ranks)) % ranks
    destination = _without_loops(source, destination)
    plane, _ = colour_planes(source, destination, ranks)
    none = np.zeros(len(source), np.int64)
    return StandingCircuits(ranks, source, destination, none, plane, none + 1)


def _without_loops(source: Ints, destination: Ints) -> Ints:
    """Return the destinations of circuits, [circuit], after those that led from a rank to itself have exchanged
    destinations with each other or, the last one, with another circuit.

    Some loops are left where no exchange removes them. ``source`` and ``destination`` are not changed: [circuit].
    """
    loops = np.flatnonzero(source == destination)
    destination = destination.copy()
    while len(loops):
        which = loops[np.unique(source[loops], return_index=True)[1]]
        if len(which) == 1:
            # A rank alone with its loop takes the place of a circuit between two others, in its middle.
            ends = (source != source[which]) & (destination != source[which])
            which = np.append(which, np.flatnonzero(ends)[0]) if ends.any() else which
        destination[which] = np.roll(destination[which], 1)
        left = np.flatnonzero(source == destination)
        if len(left) >= len(loops):
            return destination
        loops = left
    return destination


# All-to-all over circuits of a switch: blocks take shortest ways that use all circuits alike.
#
# blocks of a source ──► a shortest tree ──► ways balanced by the blocks that pass ──► queues by hop
#
# A circuit sends what is on its first hop, then what is on its second, and so on, and of those first what has
# farthest to go. A block then only waits for blocks on earlier hops, so that no circuit waits for ever.

_SWEEPS = 8
"""Times that every source chooses its ways again, all others having chosen; not every time is better."""


_Ways = tuple[Ints, Ints, NDArray[np.int16]]
"""Where circuits into every rank begin, and their numbers, [rank, entering] each; and hops from the sources of one
period to all ranks: [source, rank]."""


def _chosen_ways(ways: _Ways, pieces: int, circuits: int) -> tuple[NDArray[np.int16], int]:
    """Return the place, among the circuits into a rank, of the one that brings a block, −1 at its source, [piece,
    source, rank], and the pieces of blocks on the fullest circuit.

    Ways are shortest. Choices are improved in eight rounds, and the round is taken whose fullest circuit carries least.

    Args:
        ways: ranks where circuits into every rank begin, and numbers of these circuits, [rank, entering] each; and hops
            from the sources of one period to all ranks: [source, rank].
        pieces: pieces of a block.
        circuits: number of circuits.
    """
    choice, load = np.empty((pieces, *ways[2].shape), np.int16), np.zeros(circuits, np.int64)
    best, least = choice, np.inf
    for _ in range(_SWEEPS):
        kernels.balance(*ways, choice, load)
        if load.max() < least:
            best, least = choice.copy(), load.max()
    return best, int(least)


def exchange_over_lift(collective: Collective, fabric: Fabric, lift: Lift, pieces: int, note: str) -> Schedule:
    """Return a queued all-to-all over circuits that repeat, not yet verified, folded to the rows of one period where
    that is not all ranks.

    Every block travels in ``pieces`` pieces; ``note`` is the schedule's only note, none where it is empty.
    """
    return _schedule_blocks(collective, fabric, (lift.origin, lift.circuit, lift.hops), lift.queues(), pieces, note)


def exchange_over(
    collective: Collective, fabric: Fabric, circuits: StandingCircuits, pieces: int, note: str
) -> Schedule:
    """Return a queued all-to-all over a switch's circuits, not yet verified.

    The same number of circuits must enter every rank, and they must join all ranks; neither is checked. Every block
    travels in ``pieces`` pieces; ``note`` is the schedule's only note, none where it is empty.
    """
    return _schedule_blocks(collective, fabric, _ways_over(circuits), circuits.queues(), pieces, note)


def _ways_over(circuits: StandingCircuits) -> _Ways:
    """Return the circuits into every rank and the hops between all ranks over a switch's circuits, of which equally
    many enter every rank."""
    ranks = circuits.ranks
    entering = np.argsort(circuits.destination, kind="stable").reshape(ranks, -1)
    leaving = np.argsort(circuits.source, kind="stable")
    first = np.searchsorted(circuits.source[leaving], np.arange(ranks + 1))
    hops, beyond = np.empty((ranks, ranks), np.int16), np.empty((ranks, ranks), np.int16)
    grid_kernels.distances(first, circuits.destination[leaving], hops, beyond)
    return circuits.source[entering], entering, hops


@lru_cache(maxsize=64)
def _fullest_kautz(ranks: int, degree: int) -> int:
    """Return the most blocks of an all-to-all that a circuit of the generalised Kautz graph carries, the blocks uncut
    and on the ways of :func:`exchange_over`."""
    circuits = kautz(ranks, degree)
    return _chosen_ways(_ways_over(circuits), 1, len(circuits))[1]


def _schedule_blocks(
    collective: Collective, fabric: Fabric, ways: _Ways, queues: Queues, pieces: int, note: str
) -> Schedule:
    """Return the queued all-to-all in which the blocks of one period of sources take balanced shortest ways, not yet
    verified.

    Every hop is rotated so that its circuit starts in the first period. A circuit sends what is on its first hop, then
    what is on its second, and so on, and of one hop first what has farthest to go. Chunk (source · ranks + destination)
    · pieces + piece is a piece of the block from source to destination.

    Args:
        ways: ranks where circuits into every rank begin, and numbers of these circuits, [rank, entering] each; and hops
            from the sources of one period to all ranks: [source, rank].
        queues: channels of the circuits, one queue each, by their number.
        pieces: pieces of a block.
        note: description for the notes; none where it is empty.
    """
    origin, entering, hops = ways
    (period, ranks), (choice, _) = hops.shape, _chosen_ways(ways, pieces, len(queues.width))
    piece, owner, reader = (axis.ravel() for axis in np.indices(choice.shape))
    at, parts = reader.copy(), []
    while len(at):
        going = at != owner
        piece, owner, reader, at = (column[going] for column in (piece, owner, reader, at))
        by = choice[piece, owner, at]
        before, hop = origin[at, by], hops[owner, at]
        parts.append((owner, reader, piece, before, at, entering[at, by], hop, hops[owner, reader] - hop))
        at = before
    owner, reader, piece, source, destination, circuit, hop, left = map(np.concatenate, zip(*parts, strict=True))
    shift = source // period * period
    chunk = ((owner - shift) % ranks * ranks + (reader - shift) % ranks) * pieces + piece
    # By hop, and of one hop first what has farthest to go.
    when = hop * (left.max() + 1.0) - left
    rows = Rows(circuit, source - shift, (destination - shift) % ranks, chunk, np.zeros(len(chunk), np.bool_), when)
    return queued_schedule(collective, fabric, queues, [rows], chunks=ranks * ranks * pieces, note=note)


SERVES = (*FROM_ALL_GATHER, "all-to-all")
_PIECES = (1, 2, 4, 8, 16)
_MOST_ROWS = 1 << 23
"""Most rows of a schedule in which nothing repeats."""
_MOST_FOLDED = 1 << 16
"""Most transfers of the shares of one period."""
_LONGEST_PERIOD = 8
"""Longest period of circuits that repeat; longer ones take longer to find and are hardly better."""
_NAMED = 8
"""Connections that a note names."""
_ROUNDING = 1e-9
_NEAR = 1.002
"""Times the bound at which nothing else is tried."""
_WORTH_ROWS = 1.02
"""Times the bound at which no graph is tried in which nothing repeats, which has the most rows by far."""
_SENDING = 0.5
"""Share of an all-gather's bound that is sending, above which that graph, which does not use its circuits alike, is not
tried: among 128 to 1,024 ranks it was fastest up to 0.33."""


def on_switch(collective: Collective, fabric: Fabric) -> Schedule:
    """Return the fastest schedule found on a circuit switch, not yet verified; no further one is tried after one that
    takes at most 0.2 % more than the bound for its number of circuits a rank, the set-up in neither.

    All-gathers, reduce-scatters and all-reduces run over circulants, lifts and a Kautz graph, all-to-alls over lifts, a
    Kautz graph, or circuits that change. Fewer bytes than one a rank are searched as one byte a rank; the schedule
    returned has the bytes of ``collective``.
    """
    # A size of nothing has the circuits of a byte, so that what follows is sent later.
    nbytes, collective = collective.nbytes, replace(collective, nbytes=max(collective.nbytes, float(fabric.ranks)))
    enough = _near(_NEAR, collective, fabric)
    best, _ = fastest(_switch_candidates(collective, fabric), fabric, enough)
    return best.resized(nbytes)


def _switch_candidates(collective: Collective, fabric: Fabric) -> Iterator[Schedule | Unbuilt]:
    """Yield schedules of an all-gather, reduce-scatter or all-reduce over circulants, a lift and a Kautz graph, or
    those of :func:`_exchange_candidates` for an all-to-all, not yet verified.

    Over circulants and the lift shares travel in 1, 2, 4, 8 and 16 pieces, over the Kautz graph in 1 and 2. The latter
    is built only where sending takes at most half of an all-gather's bound, and all else over 2 % more than the bound,
    or, of an all-reduce, than twice the bound of an all-gather. Left out are more than 65,536 transfers in a period of
    the lift and more than 8,388,608 rows over the graph. The lift has the largest period up to 8 that divides the
    ranks. Where each rank has one circuit there are circulants only.
    """
    if collective.kind == "all-to-all":
        yield from _exchange_candidates(collective, fabric)
        return
    ranks, degree = fabric.ranks, fabric.channels
    offered = [circulant(ranks, degree)]
    if degree >= ranks and degree % (ranks - 1):
        # With a circuit to every other rank and some to spare, only relaying uses these as much as the others.
        fewer = max(divisor for divisor in range(1, ranks) if degree % divisor == 0)
        offered.append(np.tile(circulant(ranks, fewer), degree // fewer))
    for offsets in offered:
        several = len(np.unique(offsets)) > _NAMED
        ahead = ", ".join(str(offset) for offset in np.unique(offsets)[:_NAMED]) + (", ..." if several else "")
        once = Lift.of(ranks, offsets[:, None])
        for pieces in _PIECES:
            note = _circuits_note(f"circuits lead from every rank to those {ahead} ahead", "share", pieces)
            yield gather_over_lift(collective, fabric, once, pieces, note)
    if degree == 1:
        return
    period = _period(ranks, _LONGEST_PERIOD)
    several_ranks = Lift.of(ranks, lift(ranks, degree, period))
    for pieces in _PIECES:
        if ranks * period * pieces <= _MOST_FOLDED:
            note = _circuits_note(f"circuits of {degree} planes that repeat every {period} ranks", "share", pieces)
            yield gather_over_lift(collective, fabric, several_ranks, pieces, note)
    gather = collective.of_kind("all-gather")
    sending = (ranks - 1) * collective.nbytes_per_rank / (degree * fabric.channel_bandwidth)
    if sending > _SENDING * (degree_seconds(gather, fabric) - fabric.setup_time):
        return
    graph = kautz(ranks, degree)
    circuits = graph.only(graph.source != graph.destination)
    for pieces in _PIECES[:2]:
        if ranks**2 * pieces <= _MOST_ROWS:
            note = _circuits_note(f"{degree} circuits a rank form a generalised Kautz graph", "share", pieces)
            build = partial(gather_over, collective, fabric, circuits, pieces, note=note)
            # An all-reduce goes over the same trees twice, in and out.
            twice = collective.kind == "all-reduce"
            yield Unbuilt(_near(_WORTH_ROWS * (1 + twice), gather if twice else collective, fabric), build)


def _near(times: float, collective: Collective, fabric: Fabric) -> float:
    """Return seconds from dark circuits that exceed the bound for this number of circuits a rank ``times``, the set-up
    in neither."""
    return fabric.setup_time + times * (degree_seconds(collective, fabric) - fabric.setup_time)


def _period(ranks: int, longest: int) -> int:
    """Return the largest divisor of ``ranks`` that is at most ``longest``."""
    return max(period for period in range(1, longest + 1) if ranks % period == 0)


def _exchange_candidates(collective: Collective, fabric: Fabric) -> Iterator[Schedule | Unbuilt]:
    """Yield all-to-alls, not yet verified, over lifts, over a Kautz graph, and straight over circuits that change.

    Lifts have the periods 1, the largest divisor of the ranks up to 4, and that up to 8, each with blocks in 1 and 4
    pieces. A Kautz graph, its blocks uncut, is tried where each rank has several circuits and rows, at the most hops
    for each block, are at most 8,388,608.
    """
    ranks, degree = fabric.ranks, fabric.channels
    for period in sorted({1, _period(ranks, _LONGEST_PERIOD // 2), _period(ranks, _LONGEST_PERIOD)}):
        circuits = Lift.of(ranks, lift(ranks, degree, period))
        for pieces in _PIECES[:3:2]:
            note = _circuits_note(f"circuits of {degree} planes that repeat every {period} ranks", "block", pieces)
            yield exchange_over_lift(collective, fabric, circuits, pieces, note)
    if degree > 1 and ranks**2 * len(ranks_by_hops(ranks, degree)) <= _MOST_ROWS:
        note = _circuits_note(f"{degree} circuits a rank form a generalised Kautz graph", "block", 1)
        # Nothing repeats in it, so that it has the most rows by far: its fullest circuit says whether they can pay.
        sending = _fullest_kautz(ranks, degree) * collective.nbytes_per_rank / fabric.channel_bandwidth
        yield Unbuilt(
            fabric.setup_time + sending * (1 - _ROUNDING),
            lambda: exchange_over(collective, fabric, kautz(ranks, degree), 1, note),
        )
    # Circuits that change carry every block straight, which many bytes ask for.
    straight = one_stage(collective, fabric, striped=True)
    yield replace(straight, algorithm="synthesized", notes=("every rank sends straight to every other",))


def _circuits_note(circuits: str, part: str, pieces: int) -> str:
    """Return a description of circuits and of the pieces of each ``part`` ("share" or "block") for the note of a
    schedule: "...; every share travels in 4 pieces"."""
    return f"{circuits}; every {part} travels in {pieces} {'piece' if pieces == 1 else 'pieces'}"


def gather_over_lift(collective: Collective, fabric: Fabric, lift: Lift, pieces: int, note: str) -> Schedule:
    """Return a queued all-gather, reduce-scatter or all-reduce over circuits that repeat, not yet verified, folded to
    the rows of one period where that is not all ranks.

    Every share travels in ``pieces`` pieces; ``note`` is the schedule's only note, none where it is empty.
    """
    period = lift.ahead.shape[1]
    return tree_schedule(
        collective,
        fabric,
        lift.queues(),
        lambda backward: _sends(collective, fabric, lift.reversed() if backward else lift, pieces),
        lambda queue, source: queue // period * period + source,
        pieces=pieces,
        note=note,
    )


def _sends(collective: Collective, fabric: Fabric, lift: Lift, pieces: int) -> Forest:
    """Return shortest trees of the shares of one period of ranks, which use all circuits as alike as possible, with the
    seconds at which list scheduling sends each reception.

    Every share travels in ``pieces`` pieces, each on a tree of its own.
    """
    planes, period = lift.ahead.shape
    choice = np.empty((pieces, *lift.hops.shape), np.int64)
    switch_kernels.share(lift.origin, lift.circuit, lift.hops, choice, np.empty(planes * period, np.int64))
    seconds = collective.nbytes_per_rank / pieces / fabric.channel_bandwidth + fabric.piece_overhead
    paths = lift.lightpaths()
    delay = np.full(len(paths.queue), seconds + fabric.step_overhead + fabric.neighbour_latency())
    paths = paths._replace(delay=delay, busy=np.full(planes * period, seconds))
    # The circuit of plane k that leaves a rank is tap k of that rank.
    tap = np.where(choice < 0, -1, lift.origin[np.arange(fabric.ranks), choice] * planes + choice)
    order = np.argsort(lift.hops, axis=1, kind="stable").astype(np.int32)
    return scheduled(paths, tap.astype(np.int32), np.tile(order, (pieces, 1, 1)))
