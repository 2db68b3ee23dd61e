"""Ring: every rank passes on to its neighbour what it received in the step before.

    one-way    0 → 1 → 2 → 3 → 0          N − 1 steps, a share a step
    two-way    0 ⇄ 1 ⇄ 2 ⇄ 3 ⇄ 0          ceil((N − 1) / 2) steps, a share each way a step

With an even N the two-way ring meets its opposite rank's share from both sides. Striped, it takes half of it from each
side, so that the last step costs half and the receive bound is met exactly; unstriped, the share travels clockwise.

In an all-to-all each rank passes on the blocks that are for others, the shorter way round: ever fewer from step to
step, and as many over every link as the cut into two halves asks for.

In a gather, a scatter and a permute each rank passes on the parts that are for ranks further on in the same way.

From one rank to all, N pieces follow each other down the chain; both ways, half of them down each of two chains.

Where neighbours around the ring have neighbouring numbers every rank does the same as rank 0, whose rows stand for all;
in the neighbour exchange, every other rank does the same, and the rows of two ranks stand for all.

Sources: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009; the
one-way form is the Ring baseline of OpTree, Table I.
"""

from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from lightloom.collectives.algorithm import Algorithm, Sends, links_to_neighbours, rows_by_pair
from lightloom.collectives.collective import CLASSIC, FOLDABLE, FROM_ALL_GATHER, ROOTED, TO_OR_FROM_ROOT, Collective
from lightloom.collectives.schedule import build
from lightloom.collectives.schedule.columns import Folding, Schedule, grouped, run_begins
from lightloom.core.arrays import Column
from lightloom.machines.fabrics.fabric import CLOCKWISE, COUNTERCLOCKWISE, Fabric

_PASSED_ON = (*TO_OR_FROM_ROOT, "permute")


def ring_steps(ranks: int) -> int:
    """Return the number of steps of the all-gather on a one-way ring: N − 1 (OpTree, Table I)."""
    return ranks - 1


def _around(name: str, directions: int, collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """Return the schedule of a ring on which ranks pass on what they received, not yet verified.

    It serves all-gather, reduce-scatter, all-reduce, broadcast, reduce, gather, scatter and permute, and both ways
    all-to-all. A broadcast goes down a chain, or both ways down two, in as many pieces as there are ranks, and a reduce
    is its reverse. Each way takes one wavelength; striped, all wavelengths are used, and where ranks pass on both ways
    the opposite rank's share, which an even number of ranks has, is split between them.

    Args:
        name: name of the algorithm.
        directions: 1 for one way around, 2 for both.
    """
    n = collective.ranks
    pieces = 2 if striped and directions == 2 and n % 2 == 0 else 1
    if collective.kind in ROOTED:
        chains = partial(_chains, name, fabric=fabric, directions=directions, striped=striped)
        return build.from_broadcast(collective, fabric, chains)
    if collective.kind in _PASSED_ON:
        return _passed_on(name, collective, fabric, directions, pieces, striped)

    def from_all(request: Collective) -> Schedule:
        """Return an all-gather, whose shares pass all ranks, or an all-to-all, whose blocks begin the shorter way round
        and leave the ring at the rank they are for."""
        steps = ring_steps(n) if directions == 1 else n // 2  # ceil((N − 1) / 2)
        blocks = request.kind == "all-to-all"
        axes = np.indices((steps, directions, _senders(fabric), steps if blocks else 1, pieces), dtype=np.int32)
        step, backward, position, more, piece = (axis.ravel() for axis in axes)
        # Links that a block passes, or that a share has passed.
        links = more + 1 if blocks else step + 1
        travels = links > step
        if directions == 2 and n % 2 == 0:
            travels &= (2 * links < n) | (backward == 0 if pieces == 1 else piece == backward)
        step, position, heading, piece, links = (
            axis[travels] for axis in (step, position, 1 - 2 * backward, piece, links)
        )
        hops = _Hops(step, position, heading, piece)
        if not blocks:
            return _neighbours(name, request, fabric, hops, striped=striped, pieces=pieces)
        order = fabric.ring_order().astype(np.int32)
        origin, reader = order[(position - heading * step) % n], order[(position + heading * (links - step)) % n]
        hops = hops._replace(piece=reader * np.int32(pieces) + piece, owner=origin)
        return _neighbours(name, request, fabric, hops, striped=striped, pieces=n * pieces)

    if collective.kind == "all-to-all":
        return from_all(collective)
    return build.from_all_gather(collective, fabric, from_all, mirrored=True)


def _chains(name: str, collective: Collective, fabric: Fabric, directions: int, striped: bool) -> Schedule:
    """Return a broadcast down one chain, or with ``directions`` 2 down two, that pass all ranks, the root first, in as
    many pieces as there are ranks.

    Of two chains the one forward takes the first half of the pieces, rounded up, the one backward the rest. ``name`` is
    that of the algorithm; with ``striped`` transfers bundle all the wavelengths they can get.
    """
    n = collective.ranks
    piece, hop = (axis.ravel() for axis in np.indices((n, n - 1), dtype=np.int32))
    backward, number = np.divmod(piece, np.int32(-(-n // directions)))
    step = number + hop
    by_step = np.lexsort((hop, backward, step))
    piece, hop, backward, step = (axis[by_step] for axis in (piece, hop, backward, step))
    heading = 1 - 2 * backward
    return _neighbours(name, collective, fabric, _Hops(step, hop * heading % n, heading, 0, piece), striped=striped)


def _senders(fabric: Fabric) -> int:
    """Return the places around the ring whose sends are written out: one where all ranks do the same, else all.

    That is 1 where ranks around the ring are numbered in order, else the number of ranks.
    """
    return 1 if np.array_equal(fabric.ring_order(), np.arange(fabric.ranks)) else fabric.ranks


def _passed_on(
    name: str, collective: Collective, fabric: Fabric, directions: int, pieces: int, striped: bool
) -> Schedule:
    """Return a gather, scatter or permute whose parts go from rank to rank around the ring, the shorter way where
    ``directions`` is 2; in a scatter those with the longest way leave first.

    Args:
        name: name of the algorithm.
        pieces: pieces of a part; with 2 those of opposite ranks go one each way.
        striped: every transfer bundles all the wavelengths it can get.
    """
    n, order = collective.ranks, fabric.ring_order()
    place = np.argsort(order)
    part, piece = (axis.ravel() for axis in np.indices((collective.parts, pieces)))
    begin = place[collective.begins_at(part)]
    ahead = (place[collective.ends_at(part)] - begin) % n
    backward = (directions == 2) & ((2 * ahead > n) | ((2 * ahead == n) & (piece == 1)))
    distance = np.where(backward, n - ahead, ahead) * (ahead > 0)
    row, hop = grouped(distance)
    heading = 1 - 2 * backward[row].astype(np.int64)
    position = (begin[row] + heading * hop) % n
    # What one rank sends to all others leaves in the order of its ways, the longest first, so that all arrive at once.
    step = hop + (distance.max() - distance[row] if collective.kind == "scatter" else 0)
    by_step = np.lexsort((position, heading < 0, step))
    columns = (step, position, heading, piece[row], part[row])
    hops = _Hops(*(column[by_step].astype(np.int32) for column in columns))
    return _neighbours(name, collective, fabric, hops, striped=striped, pieces=pieces)


class _Hops(NamedTuple):
    """Transfers from neighbour to neighbour, sorted by step and heading: arrays [row]."""

    step: Column
    position: Column
    """Place of the sender around the ring."""
    heading: Column
    """1 forward, −1 backward."""
    piece: Column | int = 0
    """Piece of the owner's share."""
    owner: Column | None = None
    """Rank that owns the share, or the part; None: the share began ``step`` ranks behind the sender."""


def _neighbours(
    name: str, collective: Collective, fabric: Fabric, hops: _Hops, *, striped: bool, pieces: int = 1
) -> Schedule:
    """Return the schedule of transfers between neighbours of the ring order; where all ranks do the same only rank 0's
    are in ``hops`` and the schedule, and stand for those of every rank, shifted.

    On circuits that leave one channel for two headings the forward sends of a step come one step before the backward.

    Args:
        name: name of the algorithm.
        hops: the transfers, which all store, sorted by step and then by heading; places are those of the ring order.
        striped: transfers bundle all the wavelengths they can get.
        pieces: chunks of each rank's share, or of each part; chunks are owner · pieces + piece.
    """
    n, order = collective.ranks, fabric.ring_order().astype(np.int32)
    step, position, heading, piece, owner = hops
    source, destination = order[position], order[(position + heading) % n]
    owner = order[(position - heading * step) % n] if owner is None else owner
    backward = heading < 0
    on_ring = fabric.routes == 2
    # On a circuit switch the two headings are two circuits, so they take different planes (half of them each).
    directions = 1 if on_ring else len(np.unique(heading))
    width = max(fabric.usable_channels // directions, 1) if striped else 1
    channel = backward * np.int32(width * (directions - 1))
    substep, steps = step, int(step.max()) + 1
    if fabric.exclusive and directions > fabric.usable_channels:
        substep, steps, channel = 2 * step + backward, 2 * steps, np.zeros_like(step)
    path = np.cumsum(run_begins(position, step, backward), dtype=np.int32) - 1
    route = np.where(backward & on_ring, COUNTERCLOCKWISE, CLOCKWISE)
    if not fabric.exclusive:
        width, channel = 0, np.zeros_like(step)
    widths, stores = np.full(len(step), width), np.zeros(len(step), np.bool_)
    chunk = owner * np.int32(pieces) + piece
    rows = build.Rows(substep, path, source, destination, route, channel, widths, chunk, stores)
    schedule = build.assemble(name, collective, fabric, rows, chunks=n * pieces, steps=steps)
    return build.repeating(schedule, _senders(fabric)) if collective.kind in FOLDABLE else schedule


def _ring_rows(kind: str, fabric: Fabric) -> int:
    """Return an estimate of the rows of a schedule on a ring: those of one sender, where it stands for all ranks.

    A sender has N² / 2 in an all-to-all, else 4 N; gathers, scatters and permutes have N² / 2 in all, kinds with a root
    a row for every ordered pair of ranks.
    """
    if kind in ROOTED:
        return rows_by_pair(kind, fabric)
    if kind in _PASSED_ON:
        return fabric.ranks**2 // 2
    return _senders(fabric) * (fabric.ranks**2 // 2 if kind == "all-to-all" else 4 * fabric.ranks)


def _ring_sends(fabric: Fabric) -> list[Sends]:
    """Return the steps of an all-gather on a one-way ring, in which all ranks send a share to the next one."""
    order = fabric.ring_order()
    return [Sends(1 / fabric.ranks, order, np.roll(order, -1), ring_steps(fabric.ranks))]


def _both_ways(fabric: Fabric) -> list[Sends]:
    """Return the steps of an all-gather on a ring both ways: all ranks send a share to both neighbours, and of an even
    number of ranks, in a last step, half a share; unless striped, all of it forward."""
    order, ranks = fabric.ring_order(), fabric.ranks
    after = np.roll(order, -1)
    both = np.concatenate([order, after]), np.concatenate([after, order])
    # Halves between two ranks may take a route each.
    apart = ranks == 2 and fabric.routes > 1
    last = [] if ranks % 2 else [Sends(0.5 / ranks, *((order, after) if apart else both))]
    return [Sends(1 / ranks, *both, (ranks - 1) // 2), *last]


RING = Algorithm(
    name="ring",
    build=partial(_around, "ring", 1),
    by_structure=True,
    sends=_ring_sends,
    longest_lightpath=links_to_neighbours,
    kinds=(*FROM_ALL_GATHER, *ROOTED, *_PASSED_ON),
    rows=_ring_rows,
    summary="pass shares on around the ring, one way",
)


RING_TWO_WAY = replace(
    RING,
    name="ring-two-way",
    build=partial(_around, "ring-two-way", 2),
    kinds=(*CLASSIC, *_PASSED_ON),
    all_to_all_ranks=128,
    halves_shares=True,
    sends=_both_ways,
    summary="pass shares on around the ring, both ways",
)


# Neighbour exchange: pairs swap what they last received, then the pairs shift by one.
#
# 0 ⇄ 1   2 ⇄ 3   4 ⇄ 5        own shares
# 1 ⇄ 2   3 ⇄ 4   5 ⇄ 0        the two shares last obtained
# 0 ⇄ 1   2 ⇄ 3   4 ⇄ 5        the two shares last obtained ...      N / 2 steps, N even
#
# Every step but the first moves two shares. OpTree's text says so, yet its averages charge one share a step. Both are
# real schedules: the two shares on one wavelength (2d a step), or side by side on two (d a step).
#
# Source: Chen, Zhang, Zhang and Yuan, "Performance of a new allgather algorithm on terascale deepcomp 6800", 2005;
# OpTree, Table I.


def neighbour_exchange_steps(ranks: int) -> int:
    """Return the number of steps of the all-gather by neighbour exchange: N / 2, for even N only (OpTree, Table I)."""
    return ranks // 2


def neighbour_exchange_pairs(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:  # noqa: ARG001 - every algorithm takes it
    """Return the neighbour exchange in which two shares a step travel side by side on two wavelengths, not yet
    verified.

    A step therefore takes the time of one share; the first has one share only. It serves an even number of ranks on a
    ring with wavelengths; a reduce-scatter is the all-gather run backwards, an all-reduce that and then the all-gather.
    ``striped`` has no effect.
    """
    n = collective.ranks

    def all_gather(gather: Collective) -> Schedule:
        """Return the all-gather, whose steps but the first colour the two shares of a swap 0 and 1."""
        stages = []
        for step, swaps in enumerate(_exchange_moves(fabric)):
            route = np.where((swaps.destination - swaps.source) % n == 1, CLOCKWISE, COUNTERCLOCKWISE)
            second = np.arange(len(route)) % 2 if step else np.zeros_like(route)
            stages.append(build.Stage(swaps.source, swaps.destination, route, swaps.chunk, second, 2))
        schedule = build.staged("neighbour-exchange-pairs", gather, fabric, stages, chunks=n, striped=False)
        return build.repeating(schedule, _swappers(fabric))

    return build.from_all_gather(collective, fabric, all_gather)


def _exchange_moves(fabric: Fabric) -> list[build.Moves]:
    """Return the moves of each of the N / 2 steps of neighbour exchange, those that the first ranks send
    (:func:`_swappers`): every rank sends its own share in the first, later the two shares last obtained, one after the
    other. An even rank swaps with the next one in the first step, with the one before in the second, and so on in turn;
    rows are sorted by source."""
    return [*_moves_of_swaps(fabric.ranks, _swappers(fabric))]


@lru_cache(maxsize=4)
def _moves_of_swaps(n: int, senders: int) -> tuple[build.Moves, ...]:
    """Return the moves of :func:`_exchange_moves` among ``n`` ranks, those that the first ``senders`` send."""
    rank = np.arange(senders, dtype=np.int64)
    even = rank % 2 == 0
    fresh = rank[:, None]
    logical: list[build.Moves] = []
    for step in range(n // 2):
        partner = np.where(even if step % 2 == 0 else ~even, rank + 1, rank - 1) % n
        logical.append(build.moves(np.repeat(rank, fresh.shape[1]), np.repeat(partner, fresh.shape[1]), fresh.ravel()))
        place = partner % senders
        received = (fresh[place] + (partner - place)[:, None]) % n
        fresh = np.concatenate([rank[:, None], received], axis=1) if step == 0 else received
    return tuple(logical)


def _swappers(fabric: Fabric) -> int:
    """Return the number of ranks whose swaps are written out: two where every other rank around the ring does the same,
    as ranks are numbered in its order; else all. It divides the ranks, which are even."""
    return 2 if _senders(fabric) == 1 else fabric.ranks


def _repeated_swaps(fabric: Fabric) -> Folding | None:
    """Return how the swaps that are written out stand for those of all ranks; None where all are written out."""
    return None if _swappers(fabric) == fabric.ranks else Folding.alike(fabric.ranks, _swappers(fabric))


def _swaps(fabric: Fabric) -> list[Sends]:
    """Return the steps of an all-gather by neighbour exchange: pairs swap a share, and then, shifted by one in every
    other step, two, one after the other or side by side."""
    rank, steps = np.arange(fabric.ranks), neighbour_exchange_steps(fabric.ranks)
    after = (rank + 1) % fabric.ranks
    even, odd = (
        (np.concatenate([rank[first::2], after[first::2]]), np.concatenate([after[first::2], rank[first::2]]))
        for first in (0, 1)
    )
    share = (1 if fabric.exclusive else 2) / fabric.ranks
    swaps = ((1 / fabric.ranks, even, 1), (share, odd, steps // 2), (share, even, (steps - 1) // 2))
    return [Sends(part, *ends, times) for part, ends, times in swaps]


NEIGHBOUR_EXCHANGE = Algorithm(
    name="neighbour-exchange",
    build=partial(build.all_gather_by_moves, "neighbour-exchange", _exchange_moves, repeats=_repeated_swaps),
    by_structure=True,
    longest_lightpath=links_to_neighbours,
    even_ranks=True,
    sends=_swaps,
    rows=lambda kind, fabric: rows_by_pair(kind, fabric) * _swappers(fabric) // fabric.ranks,
    summary="pairs swap what they last received, two shares one after the other",
)


NEIGHBOUR_EXCHANGE_PAIRS = replace(
    NEIGHBOUR_EXCHANGE,
    name="neighbour-exchange-pairs",
    build=neighbour_exchange_pairs,
    needs="wdm-ring",
    least_channels=2,
    summary="pairs swap two shares side by side on two wavelengths",
)
