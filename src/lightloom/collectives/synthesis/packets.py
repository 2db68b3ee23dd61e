"""Schedules for packet fabrics of any shape, the fastest of some, for the size at hand.

    plain algorithms in steps
    domains, rails and grids: phases by axis, without barriers, in ever more pieces   ──► the fastest
    trees packed onto links, ever more of them

Links send what they can as soon as it is there (:func:`listed`). Where links join ranks, rounds from neighbour to
neighbour are tried as well (:mod:`lightloom.collectives.synthesis.grid`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from operator import itemgetter

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.algorithms.direct import ONE_STAGE
from lightloom.collectives.algorithms.doubling import HALVING_DOUBLING, HIERARCHICAL, RECURSIVE_DOUBLING
from lightloom.collectives.algorithms.ring import RING_TWO_WAY
from lightloom.collectives.algorithms.trees import BINOMIAL_TREE, DOUBLE_TREE
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import FROM_ALL_GATHER, ROOTED, Collective
from lightloom.collectives.cost.loads import at_size, step_loads
from lightloom.collectives.cost.price import Hops, busiest_link, cells_of, hops_of
from lightloom.collectives.cost.stepped import Timed, Unbuilt, cost, fastest
from lightloom.collectives.schedule.build import Rows, assemble, distinct_transfers, joined, without_barriers
from lightloom.collectives.schedule.columns import Folding, Schedule
from lightloom.collectives.synthesis import packet_kernels as kernels
from lightloom.collectives.synthesis.engine.cache import effort
from lightloom.collectives.synthesis.engine.kernels import OrderedRows, seconds_left
from lightloom.collectives.synthesis.engine.queues import folded_to_hold, holds, turns
from lightloom.collectives.synthesis.grid import flowing
from lightloom.collectives.synthesis.grid_links import Transfers, neighbours_join
from lightloom.core.arrays import Int32s, Ints, Mask, read_only
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric

# The order in which links serve the rows of a queued schedule: list scheduling over paths of links.


def listed(schedule: Schedule, fabric: Fabric) -> Schedule:
    """Return a queued schedule on packet links with its rows in the order of list scheduling, a step each, not yet
    verified; unchanged for a group of ranks whose sibling groups share its links.

    A free link sends, of the rows that wait for it, the one with the longest chain of later rows behind it. In the
    order of ``step`` given, each row must come after those that bring what it sends.

    Where all rows add, they are listed backwards, as the copies that they would be in a schedule that ran the other way
    in time: what waits for many is late there, and sums wait for as little as possible.

    Time: linear in rows, times the rows that wait for a link.
    """
    if len(fabric.siblings()[1]) > 1:
        return schedule
    backward = bool(schedule.reduces.all())
    schedule = schedule.with_rows(np.argsort(-schedule.step if backward else schedule.step, kind="stable"))
    hops, (origin, target, held) = hops_of(schedule, fabric), cells_of(schedule)
    begins = np.searchsorted(hops.row, np.arange(len(schedule) + 1))
    rows = OrderedRows(origin, target, read_only(schedule.reduces), begins, hops.link, hops.busy, hops.delay)
    if backward:
        rows, held = _backward(rows, hops, len(held))
    turn, _ = turns(rows, held, fabric.links, -seconds_left(rows, len(held)))
    schedule = schedule.with_rows(np.argsort(-turn if backward else turn))
    return schedule.with_columns({"step": np.arange(len(schedule))}, steps=len(schedule))


def _backward(rows: OrderedRows, hops: Hops, cells: int) -> tuple[OrderedRows, Mask]:
    """Return rows that add as copies that run the other way, over the same links from the last to the first, and True
    for cells that hold data from the start, which are all but those that the copies write: [cell].

    Rows keep their order and numbers of hops; what they hold a link for, and are delayed by, is set as for the other
    way. ``hops`` are the hops of the rows, and ``cells`` is the number of cells.
    """
    turned = rows.begins[hops.row] + rows.begins[hops.row + 1] - 1 - np.arange(len(rows.link))
    slower = np.where(hops.last, rows.busy, np.maximum(rows.busy - np.append(rows.busy[1:], 0.0), 0.0))
    latency, busy, ends = (rows.delay - slower)[turned], rows.busy[turned], hops.first[turned]
    delay = latency + np.where(ends, busy, np.maximum(busy - np.append(busy[1:], 0.0), 0.0))
    held = np.ones(cells, np.bool_)
    held[rows.origin] = False
    copied = read_only(np.zeros_like(rows.reduces))
    return OrderedRows(rows.target, rows.origin, copied, rows.begins, rows.link[turned], busy, delay), held


# Trees packed onto the links of any packet fabric: one for every chunk, each where links are least busy.
#
# chunks ──► a tree for each, then each anew among the others ──► rows, every one after its parent ──► list schedule
#
# A reduce-scatter runs trees backwards that are packed onto the links of the opposite transfers, a reduce likewise,
# and an all-reduce does the one and then the other.

_SWEEPS = 1
"""Times that every tree is grown anew among the others."""


def packed(collective: Collective, fabric: Fabric, pieces: int, hurry: float) -> Schedule:
    """Return a queued all-gather, reduce-scatter, all-reduce, broadcast or reduce over trees packed onto the links, not
    yet verified. An all-reduce sums towards the roots over one set of trees, and copies away from them over another;
    chunks are numbered root · pieces + piece.

    Args:
        fabric: packet links between ranks.
        pieces: trees for the data of each root, equal parts of which they carry. Roots are all ranks, or rank 0 alone
            of a broadcast or a reduce.
        hurry: seconds of a busier link that a second of later arrival counts for.

    Raises:
        UnsupportedError: transfers that do not join all ranks.
    """
    kind, ranks, rule = collective.kind, collective.ranks, collective.rule
    roots = 1 if kind in ROOTED else ranks
    nbytes = max(collective.nbytes, 1.0) / (roots * pieces)
    # Sums run towards the roots first, and what all ranks shall have then runs away from them.
    ways = [backward for backward, runs in ((True, rule.adds), (False, rule.after == "every")) if runs]
    parts = [_tree_rows(fabric, roots, pieces, nbytes, hurry, backward=backward) for backward in ways]
    if len(parts) == 2:
        parts[1] = parts[1]._replace(step=parts[1].step + int(parts[0].step.max()) + 1)
    rows = joined(parts)
    rows = rows._replace(lightpath=distinct_transfers(fabric, rows.source, rows.destination, rows.route)[3])
    trees, what = len(parts[0].step) // (ranks - 1), "all data" if kind in ROOTED else "every share"
    chunks, steps = roots * pieces, int(rows.step.max()) + 1
    fields = {"queued": True, "notes": (f"{trees} trees packed onto the links, {pieces} for {what}",)}
    return listed(assemble("synthesized", collective, fabric, rows, chunks=chunks, steps=steps, **fields), fabric)


def _tree_rows(fabric: Fabric, roots: int, pieces: int, nbytes: float, hurry: float, *, backward: bool) -> Rows:
    """Return the receptions of packed trees, or with ``backward`` their sends towards the roots, which add: a row for
    each chunk and rank but the chunk's root, in steps by depth from 0, with ``backward`` the deepest first.

    All lightpaths, channels and widths are 0. Rows are ordered by tree, not by step.

    Args:
        roots: ranks 0 to ``roots`` − 1 at which trees begin.
        pieces: trees of each root; chunks are root · pieces + piece.
        nbytes: bytes that one tree carries.
        hurry: seconds of a busier link that a second of later arrival counts for.

    Raises:
        UnsupportedError: transfers that do not join all ranks.
    """
    transfers = Transfers.of(fabric, backward=backward)
    # All roots have a tree before one has its second, so that links fill up alike.
    chunk = np.arange(roots * pieces).reshape(roots, pieces).T.ravel()
    tap, load = np.empty((len(chunk), fabric.ranks), np.int32), np.empty(fabric.links)
    if not kernels.pack(transfers, chunk // pieces, nbytes, hurry, _SWEEPS, tap, load):
        raise UnsupportedError(f"transfers do not join all {fabric.ranks} ranks of this {fabric.kind_name}")
    number, rank = np.nonzero(tap >= 0)
    taken = tap[number, rank].astype(np.int64)
    depth = _depths(tap, transfers.source)[number, rank] - 1
    ends = transfers.source[taken], rank
    source, destination = ends[::-1] if backward else ends
    step = int(depth.max()) - depth if backward else depth
    nothing = np.zeros(len(taken), np.int16)
    route, reduces = transfers.route[taken], np.full(len(taken), backward)
    return Rows(step, nothing, source, destination, route, nothing, nothing, chunk[number], reduces)


def _depths(tap: Int32s, source: Ints) -> Ints:
    """Return the number of transfers of the tree above each rank, 0 at the root: [chunk, rank].

    ``tap`` [chunk, rank] numbers the transfer by which a rank receives, below 0 at the root; ``source`` [transfer] is
    the rank at which each transfer begins.
    """
    depth = np.where(tap < 0, 0, -1)
    parent = source[np.maximum(tap, 0)]
    while (depth < 0).any():
        above = np.take_along_axis(depth, parent, axis=1)
        depth = np.where((depth < 0) & (above >= 0), above + 1, depth)
    return depth


_PLAIN = (ONE_STAGE, HALVING_DOUBLING, RECURSIVE_DOUBLING, BINOMIAL_TREE, RING_TWO_WAY.bundled(), DOUBLE_TREE)
_PIECES = (1, 2, 4, 8, 16, 32)
_TREES = (1, 2, 4, 8)
"""Trees for every share."""
_ROOTED_TREES = tuple(16 << doubling for doubling in range(9))
"""For all data of a root: the last bytes pass as many links as a tree is deep, which takes less the smaller pieces
are."""
_GAIN = 0.97
"""Share of the time with fewer trees, or pieces, below which more are tried."""
_HURRIES = (1.0, 0.1)
_MANY = 128
"""Ranks above which plain algorithms have too many rows to be tried beside compositions."""
_MOST_ROWS, _MOST_CROSSING = 1 << 19, 1 << 16
"""Most rows of a schedule that is listed, and of one whose rows wait for each other's links on their way."""
_MOST_BESIDE = 1 << 18
"""Most rows of the latter with those of sibling groups, among which they take longer than steps with barriers."""
_MOST_STRAIGHT = 1 << 12
"""Rows of an all-to-all straight from rank to rank that is listed."""
_MOST_PACKED, _MOST_PACKED_ROOTED = 1 << 19, 1 << 22
"""Transfers that all trees together choose among; those of one root share their bytes, and are worth more."""
_NEAR, _NEAR_AMONG_MANY = 1.001, 1.01
"""Times the lower bound at which nothing further is tried; the second among many ranks that switches join, whose rows
take seconds to put in order."""
_MANY_ROWS = 1 << 13
"""Rows, those of sibling groups included, from which more pieces are tried only as long as they gain."""


def on_packets(collective: Collective, fabric: Fabric) -> Schedule:
    """Return the fastest schedule found on a packet fabric, named "synthesized", not yet verified.

    Nothing more is tried once a schedule takes at most 0.1 % more than the lower bound (1 % among more than 128 ranks
    that links between ranks alone do not join), or when effort is spent. Where none takes so little, all-gathers,
    reduce-scatters and all-reduces on links that join all ranks are tried in rounds from neighbour to neighbour too
    (:func:`flowing`).

    Raises:
        UnsupportedError: nothing that was tried serves the collective on this fabric.
    """
    switched = fabric.ranks > _MANY and not neighbours_join(fabric)
    enough = lower_bound(collective, fabric).time * (_NEAR_AMONG_MANY if switched else _NEAR)
    of = cache(partial(steps_of, collective=collective, fabric=fabric))
    candidates = chain(_in_steps(of, collective, fabric), _without_steps(of, collective, fabric))
    best, least = fastest(candidates, fabric, enough, effort(fabric.ranks))
    if least > enough and collective.kind in FROM_ALL_GATHER and neighbours_join(fabric):
        best, least = min((best, least), flowing(collective, fabric), key=itemgetter(1))
    return replace(best, algorithm="synthesized")


def _in_steps(of: Callable[[Algorithm], Schedule | None], collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Yield schedules in steps of one-stage, halving-doubling, recursive doubling, binomial tree, striped two-way ring,
    double tree and the hierarchical composition, not yet verified; algorithms that refuse are left out.

    Among more than 128 ranks in domains, on grids or joined by links only the one that :func:`_suited` names is
    yielded, save for a broadcast or a reduce. Pipelines have the number of pieces that is fastest for the size. The
    note is "steps of ..." with the algorithm's name where the algorithm gives none. ``of`` returns what
    :func:`steps_of` does for an algorithm.
    """
    many = fabric.ranks > _MANY and collective.kind not in ROOTED and (len(fabric.axes) > 1 or fabric.joins_ranks)
    for algorithm in (_suited(fabric),) if many else (*_PLAIN, HIERARCHICAL):
        if (steps := of(algorithm)) is None:
            continue
        if steps.pipeline is not None:
            steps = at_size(steps, collective.nbytes, step_loads(steps, fabric), fabric)
        yield replace(steps, notes=steps.notes or (f"steps of {algorithm.name}",))


def steps_of(algorithm: Algorithm, collective: Collective, fabric: Fabric) -> Schedule | None:
    """Return the schedule of an algorithm, not yet verified; None where the algorithm raises UnsupportedError, as it
    refuses the collective or cannot build it on this fabric."""
    try:
        return algorithm.schedule(collective, fabric)
    except UnsupportedError:
        return None


def rows_of(algorithm: Algorithm, collective: Collective, fabric: Fabric, most: int) -> Schedule | None:
    """Return the schedule of an algorithm with the rows of all ranks, not yet verified; None where the algorithm
    refuses, or there are more than ``most`` rows."""
    steps = steps_of(algorithm, collective, fabric)
    return None if steps is None or steps.unfolded_rows > most else steps.unfolded(fabric.fibre_channels)


def _without_steps(
    of: Callable[[Algorithm], Schedule | None], collective: Collective, fabric: Fabric
) -> Iterator[Schedule | Timed | Unbuilt]:
    """Yield schedules without barriers, not yet verified: steps in pieces, straight all-to-alls, and packed trees.

    The steps are those of the algorithm that :func:`_suited` names, in 1, 2, 4, ..., 32 pieces as long as these make
    at most 524,288 rows, or, where links join all ranks, of sibling groups too, and a row crosses several of them,
    65,536, and 262,144 with those of sibling groups. An all-to-all straight from rank to rank has at most 4,096 rows.
    Trees are packed for a broadcast or a reduce, and for other kinds but an all-to-all where ranks lie on one axis and
    no links between ranks join them all. ``of`` returns what :func:`steps_of` does for an algorithm."""
    steps, joined = of(_suited(fabric)), neighbours_join(fabric.siblings()[0])
    steps = None if steps is None else _folded(steps, fabric)
    if steps is not None:
        ends = distinct_transfers(fabric, steps.source, steps.destination, steps.route)[:3]
        crossing = joined and fabric.hops(*ends).max(initial=1) > 1
        most = min(_MOST_CROSSING, _MOST_BESIDE * len(steps) // _played(steps, fabric)) if crossing else _MOST_ROWS
        yield from _in_pieces(steps, fabric, [pieces for pieces in _PIECES if len(steps) * pieces <= most])
    if collective.kind == "all-to-all":
        straight = rows_of(ONE_STAGE, collective, fabric, _MOST_STRAIGHT)
        if straight is not None:
            yield listed(without_barriers(straight, fabric), fabric)
    elif collective.kind in ROOTED or not (joined or len(fabric.axes) > 1):
        yield from _packed(collective, fabric)


def _suited(fabric: Fabric) -> Algorithm:
    """Return the algorithm whose steps are worth sending without barriers.

    That is the hierarchical one where ranks lie on several axes, else the striped two-way ring.
    """
    return HIERARCHICAL if len(fabric.axes) > 1 else RING_TWO_WAY.bundled()


def _in_pieces(steps: Schedule, fabric: Fabric, numbers: Sequence[int]) -> Iterator[Unbuilt]:
    """Yield the steps without barriers, not yet verified, with every chunk in as many pieces as ``numbers`` says in
    turn, each to be built where the busiest link leaves it faster than what was found before: from 8,192 rows on, of
    all sibling groups where there are some, 3 % faster. The last is the first that is not faster than the one before:
    from so many rows on not 3 % faster. Of a broadcast or a reduce with fewer rows all are tried, as more pieces may be
    faster again."""
    least, played = busiest_link(steps, fabric), _played(steps, fabric)
    built: list[Timed] = []

    def build(pieces: int) -> Timed:
        schedule = listed(without_barriers(steps, fabric, pieces, 1), fabric)
        built.append(Timed(schedule, cost(schedule, fabric).time))
        return built[-1]

    for pieces in numbers:
        many = played * pieces >= _MANY_ROWS
        gain = _GAIN if many else 1.0
        yield Unbuilt(least / gain, partial(build, pieces))
        ends = many or steps.collective.kind not in ROOTED
        if ends and len(built) > 1 and built[-1].seconds > gain * built[-2].seconds:
            return


def _played(steps: Schedule, fabric: Fabric) -> int:
    """Return the number of rows whose times make the cost without barriers: beside sibling groups those of all."""
    groups = len(fabric.siblings()[1])
    return len(steps) if groups == 1 else groups * steps.unfolded_rows


def _folded(steps: Schedule, fabric: Fabric) -> Schedule | None:
    """Return a schedule of steps with rows of as few ranks as stand for all once its barriers are left out, as the
    verifier finds; it still has its steps.

    A schedule that is not folded is folded to the rows of rank 0 if that holds, otherwise returned unchanged; a folded
    one is unfolded axis by axis until it holds. None where that makes more than 524,288 rows. Steps of a broadcast or a
    reduce are returned unchanged.
    """
    if steps.collective.kind in ROOTED:
        return steps
    if steps.folding is None:
        first = replace(steps.with_rows(np.flatnonzero(steps.source == 0)), folding=Folding.alike(fabric.ranks, 1))
        return first if holds(without_barriers(first, fabric), fabric) else steps
    return folded_to_hold(steps, fabric, _MOST_ROWS)


def _packed(collective: Collective, fabric: Fabric) -> Iterator[Timed]:
    """Yield schedules over packed trees, not yet verified: 1, 2, 4 and 8 trees a share, or 16, 32, ..., 4,096 trees for
    all data of a broadcast or a reduce, each number with both weights of a later arrival, 1 and 0.1.

    Of a broadcast or a reduce more trees are tried as long as they gain 3 %. Nothing is yielded for a group of ranks
    whose sibling groups share its links, and no more where trees would choose among too many transfers: roots · trees ·
    transfers of one tree (8 a rank where links join ranks, else as many as ranks) above 2^19, or 2^22 of a broadcast or
    a reduce.
    """
    rooted, before = collective.kind in ROOTED, float("inf")
    roots, most = (1, _MOST_PACKED_ROOTED) if rooted else (fabric.ranks, _MOST_PACKED)
    # Transfers that one tree chooses among, eight a rank where links join ranks.
    choices = fabric.ranks * (8 if neighbours_join(fabric) else fabric.ranks)
    for trees in _ROOTED_TREES if rooted else _TREES:
        if roots * trees * choices > most or len(fabric.siblings()[1]) > 1:
            return
        least = float("inf")
        for hurry in _HURRIES:
            schedule = packed(collective, fabric, trees, hurry)
            timed = Timed(schedule, cost(schedule, fabric).time)
            yield timed
            least = min(least, timed.seconds) if rooted else 0.0
        if least > _GAIN * before:
            return
        before = least
