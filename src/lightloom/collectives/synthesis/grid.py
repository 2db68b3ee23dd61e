"""Rounds on packet fabrics whose links join ranks: meshes, tori, electrical rings.

    round r    every link carries at most so many chunks, each to a rank that lacks it, one hop at a time

A step costs its busiest link and its longest way, and steps follow each other. So every all-gather, however it sends,
pays at least D hops of latency for the D links between the farthest ranks, and (N − 1) d over what the poorest rank
receives: a corner of a mesh by two links. These rounds come near both at once. The poorest rank receives over all its
links, in round r, what lies r links away, which sets the budgets of the links; others lag behind and catch up, as what
leads farthest goes first. Where that leaves some behind, the same budgets stretch over a few more rounds. Where links
repeat, as around a torus, the rows of a few ranks stand for all.

An all-reduce is that backwards and forwards, or runs over trees (:func:`over_trees`), or doubles, whatever is fastest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.algorithms.doubling import recursive_doubling
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.loads import digest, fabric_key
from lightloom.collectives.cost.price import busiest_link, queued_line
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.build import Rows, assemble, from_all_gather, without_barriers
from lightloom.collectives.schedule.columns import Folding, Schedule, run_begins
from lightloom.collectives.synthesis import grid_kernels as kernels
from lightloom.collectives.synthesis.engine.cache import effort
from lightloom.collectives.synthesis.engine.queues import folded_to_hold
from lightloom.collectives.synthesis.grid_links import GridLinks, PeriodLinks, repetition
from lightloom.core.arrays import Ints
from lightloom.core.caches import Latest
from lightloom.machines.fabrics.fabric import Fabric, Grid

# All-reduce on meshes and tori over trees whose links together are used alike.
#
# along the rows first          along the columns first
# ○ ○ ○ ○                       ○─○─○─○
# │ │ │ │                           │
# ○─○─○─○   the spine           ○─○─○─○
# │ │ │ │                           │
# ○ ○ ○ ○                       ○─○─○─○
#
# Sums of a chunk run up its tree, their total back down, and chunks follow each other. A tree has N − 1 links, so
# that E links each way carry C chunks in no fewer than (N − 1) C / E rounds up and down. Trees with a spine along
# every row, and along every column, use all links alike: on a mesh, where a corner would receive a reduce-scatter and
# an all-gather by two links, this halves the time. Chunks begin and end as far from each other as trees are deep.

_MOST_TREE_ROWS = 1 << 23
_LONG_ENOUGH = 200
"""Times the depth of trees in rounds; more of them gain less than a hundredth."""


def grid_trees(shape: Grid, chunks: int) -> tuple[NDArray[np.int32], Ints]:
    """Return trees over a grid, spines in the middle first, and the tree of each of so many chunks.

    Spines along rows and along columns take turns so that links of both directions carry as many chunks; among those of
    one direction all lines, and on a torus all roots, take turns.

    Args:
        shape: rows, columns, and True where both wrap around.
        chunks: number of chunks.

    Returns:
        Parent of every rank, −1 at the root: [tree, rank], trees in the order of their first use; and the number of
        each chunk's tree: [chunk].
    """
    rows, columns, wraps = shape
    # Part of the chunks with a spine along a row, so that links along rows and along columns carry as many.
    by_row = float(columns > 1)
    if rows > 1 and columns > 1:
        by_row = (1 - 1 / columns) / (2 - 1 / columns - 1 / rows)
    spines: dict[tuple[bool, int, int], int] = {}
    tree = np.empty(chunks, np.int64)
    used = [0, 0]
    for chunk in range(chunks):
        along_row = int((chunk + 1) * by_row + 0.5) > int(chunk * by_row + 0.5)
        turn = used[along_row]
        used[along_row] += 1
        size, other = (rows, columns) if along_row else (columns, rows)
        spine = (size // 2 + (turn + 1) // 2 * (1 - turn % 2 * 2)) % size
        # Around a torus also the gaps, which lie opposite to the root, take their turns.
        middle = (other // 2 + turn // size) % other if wraps else other // 2
        root = (spine, middle) if along_row else (middle, spine)
        tree[chunk] = spines.setdefault((along_row, *root), len(spines))
    return np.stack([_parents(shape, *key) for key in spines]), tree


def _parents(shape: Grid, along_row: bool, row: int, column: int) -> NDArray[np.int32]:
    """Return the next rank on the way to the root of a tree over a grid, −1 at the root: [rank].

    Args:
        shape: rows, columns, and True where both wrap around.
        along_row: ranks first move along their column to the root's row, the spine; otherwise along their row to its
            column.
        row, column: of the root.
    """
    rows, columns, wraps = shape
    y, x = (axis.ravel() for axis in np.indices((rows, columns)))
    up, across = _toward(y, row, rows, wraps), _toward(x, column, columns, wraps)
    parent = np.where((y != row) if along_row else (x == column), up * columns + x, y * columns + across)
    parent[row * columns + column] = -1
    return parent.astype(np.int32)


def _toward(at: Ints, to: int, size: int, wraps: bool) -> Ints:
    """Return, for places on one axis of a grid, the next place on the way to place ``to``, or ``to`` itself there:
    [rank].

    Args:
        at: place of each rank on the axis: [rank].
        size: places on the axis.
        wraps: take the shorter way around.
    """
    ahead = to - at
    if wraps:
        ahead = (ahead + (size - 1) // 2) % size - (size - 1) // 2
    return (at + np.sign(ahead)) % size


def over_trees(collective: Collective, grid: Fabric, shape: Grid) -> Schedule:
    """Return an all-reduce over trees on a grid, in rounds in which every link carries at most one chunk, not yet
    verified.

    There are as many chunks as take the least estimated time at the size of the collective.

    Time: linear in chunks · ranks.
    """
    chunks = _chunks(collective, grid, shape)
    parent, tree = grid_trees(shape, chunks)
    count = 2 * (grid.ranks - 1) * chunks
    step, source, destination, chunk = np.empty((4, count), np.int32)
    rows = kernels.ReduceRows(step, source, destination, chunk, np.empty(count, np.bool_))
    # Children in each tree as compressed rows.
    child = np.argsort(parent, axis=1, kind="stable")
    above = np.take_along_axis(parent, child, axis=1)
    first = np.stack([np.searchsorted(of_tree, np.arange(grid.ranks + 1)) for of_tree in above])
    rounds = kernels.pipeline(parent, first, child, tree, rows)
    none, path = np.zeros(count, np.int8), np.arange(count)
    sent = Rows(rows.round, path, rows.source, rows.destination, none, none, none, rows.chunk, rows.adds)
    note = f"{chunks} chunks follow each other up and down {len(parent)} trees, in {rounds} rounds"
    return assemble("synthesized", collective, grid, sent, chunks=chunks, steps=rounds, notes=(note,))


def _chunks(collective: Collective, grid: Fabric, shape: Grid) -> int:
    """Return the number of chunks, a power of two, with the least estimated time.

    More fill links better and pay the latency of more rounds; no more than rows, or trees of this depth, allow.
    """
    rows, columns, wraps = shape
    links = rows * (columns - 1) + columns * (rows - 1)
    if wraps:
        links = rows * columns * ((columns > 1) + (rows > 1))
    deep = 2 * (rows // 2 + columns // 2) + (0 if wraps else max(rows, columns) // 2)
    transmission = collective.nbytes / float(grid.link_bandwidth().min())

    def seconds(chunks: int) -> float:
        """Return the estimated seconds of all rounds with so many chunks."""
        return (chunks * (grid.ranks - 1) / links + deep) * (grid.hop_latency + transmission / chunks)

    most = max(1, min(_MOST_TREE_ROWS // (2 * grid.ranks), _LONG_ENOUGH * deep * links // (grid.ranks - 1)))
    return min((1 << k for k in range(most.bit_length())), key=seconds)


_MOST_ROUND_ROWS = 1 << 23
"""Most rows of an all-gather in several pieces a share; a single piece is never refused."""
_PIECES = (1, 2, 4)
"""Pieces of a share, where its whole does not divide evenly among the links of a rank."""


class _Rounds:
    """An all-gather in rounds; its rows, as many as ranks · pieces for each rank of a period, are made again after they
    were dropped."""

    def __init__(
        self, links: GridLinks, folding: Folding, beyond: NDArray[np.int16], pieces: int, allowed: Ints
    ) -> None:
        """Make the rows once, and count the chunks on the busiest link of each round.

        ``links`` repeat as ``folding`` says; ``beyond`` is that of the kernels, ``allowed`` the most chunks on a link
        in each round.
        """
        self.pieces, self.folding = pieces, folding
        self._flooded = PeriodLinks.of(links, folding, pieces), beyond, pieces, allowed
        rows, number = self.rows, int(links.entering[folding.period])
        cell = rows.round.astype(np.int64) * number + rows.link
        rounds = int(rows.round.max()) + 1
        self.budgets: Ints = np.bincount(cell, minlength=rounds * number).reshape(rounds, -1).max(axis=1)
        """Chunks on the busiest link of each round."""

    @cached_property
    def rows(self) -> kernels.GatherRows:
        """Round, link and chunk of each transfer into the ranks of the first period, in the order of rounds, [period ·
        (ranks − 1) · pieces] each; made when asked for."""
        links, _, pieces, _ = self._flooded
        period, chunks = len(links.entering) - 1, links.back.shape[1]
        rows = kernels.GatherRows(*(np.empty(period * (chunks - pieces), np.int32) for _ in range(3)))
        kernels.flood(*self._flooded, rows)
        return rows

    def seconds(self, hop: float, share: float) -> float:
        """Return the seconds of all rounds one after the other.

        Args:
            hop: seconds of latency of a round.
            share: seconds that a rank's whole share takes on a link.
        """
        return len(self.budgets) * hop + float(self.budgets.sum()) * share / self.pieces


def rounds_and_trees(collective: Collective, fabric: Fabric) -> list[Schedule]:
    """Return schedules of steps of an all-gather, reduce-scatter or all-reduce, not yet verified, whose ranks pass on
    nothing of which they still wait for a part.

    They are the rounds with no budgets, in the fewest steps, the fastest rounds, the fastest with whole shares, and
    those that use links best, one schedule where these coincide; and of an all-reduce on a grid one over trees.

    Raises:
        UnsupportedError: the fabric's links do not join ranks.
    """
    trees = [over_trees(collective, fabric, fabric.grid)] if fabric.grid and collective.kind == "all-reduce" else []
    links, folding = GridLinks.of(fabric), repetition(fabric)
    share, hop = collective.nbytes_per_rank / float(fabric.link_bandwidth().min()), fabric.hop_latency
    rounds = [
        from_all_gather(collective, fabric, partial(_schedule_rounds, fabric=fabric, links=links, rounds=chosen))
        for chosen in _choose_rounds(links, folding, hop, share)
    ]
    return rounds + trees


def doubling(collective: Collective, fabric: Fabric) -> list[Schedule]:
    """Return a list of one all-reduce of whole vectors in steps, not yet verified, whose ranks go on adding to what
    they have sent; an empty list for other kinds."""
    if collective.kind != "all-reduce":
        return []
    steps = recursive_doubling(collective, fabric)
    return [replace(steps, algorithm="synthesized", notes=("partners at 1, 2, 4, ... swap all",))]


_searched: Latest[tuple[object, ...], list[_Rounds]] = Latest(2)
"""Rounds on the grids that were searched last, whatever the size and the kind: rows are kept of those chosen last."""


def _choose_rounds(links: GridLinks, folding: Folding, hop: float, share: float) -> list[_Rounds]:
    """Return the rounds with no budgets, the fastest, the fullest, and the fastest with whole shares, in the order of
    the search.

    One may be several of these. The fullest load the busiest links least, in shares. What was searched on the last two
    grids is not searched again.

    Args:
        folding: how the links repeat.
        hop: seconds of latency of a round.
        share: seconds that a rank's share takes on a link.
    """
    key = folding.period, folding.axes, *(column.tobytes() for column in links)
    known, searched = _searched.pop(key, None), []
    chosen: list[_Rounds] = []
    for rounds in known or _round_counts(links, folding):
        searched.append(rounds)
        rivals = [*chosen, rounds]
        fastest = min(rivals, key=lambda one: one.seconds(hop, share))
        fullest = min(rivals, key=lambda one: (int(one.budgets.sum()) / one.pieces, len(one.budgets)))
        whole = min((one for one in rivals if one.pieces == 1), key=lambda one: one.seconds(hop, share))
        chosen = [one for one in rivals if one in (rivals[0], fastest, fullest, whole)]
        for other in searched:
            if other not in chosen:
                vars(other).pop("rows", None)  # made again when asked for
    _searched[key] = searched
    return chosen


def _round_counts(links: GridLinks, folding: Folding) -> Iterator[_Rounds]:
    """Yield the rounds of an all-gather over ``links``, which repeat as ``folding`` says: first those without budgets,
    then with budgets in 1, 2 and 4 pieces of a share, and for each number of them over ever more rounds, until nothing
    is left to gain."""
    ranks = len(links.entering) - 1
    hops, beyond = np.empty((ranks, ranks), np.int16), np.empty((ranks, ranks), np.int16)
    kernels.distances(links.leaving, links.head, hops, beyond)
    entering = int(np.diff(links.entering).min())
    # Without budgets everything moves on at once: the fewest rounds, links not used alike.
    yield _Rounds(links, folding, beyond, 1, np.full(int(hops.max()), ranks))
    for pieces in _PIECES:
        if pieces > 1 and folding.period * ranks * pieces > _MOST_ROUND_ROWS:
            return
        least, more = -(-(ranks - 1) * pieces // entering), 0
        budgets = _budgets(links, hops, pieces, least)
        while True:
            rounds = _Rounds(links, folding, beyond, pieces, _stretched(budgets, more))
            yield rounds
            if rounds.budgets.sum() <= least or more > least:
                break
            more = max(2 * more, 1)
        if (ranks - 1) * pieces % entering == 0 and rounds.budgets.sum() <= least:
            return


def _budgets(links: GridLinks, hops: NDArray[np.int16], pieces: int, least: int) -> Ints:
    """Return the chunks that each link into the poorest rank may carry in every round of an all-gather: [round].

    In round r, from 0, they are as many as the ranks r + 1 links away ask for, one at least, and ``least`` together
    where that allows it. The poorest rank is the one that the fewest links enter, of these the one with the farthest
    rank farthest away.

    Args:
        links: transfers of one link, ordered by the rank that receives.
        hops: links between ranks: [source, rank].
        pieces: chunks of each rank.
        least: chunks that each link into the poorest rank carries at least, in all rounds together.
    """
    entering = np.diff(links.entering)
    poorest = np.lexsort((-hops.max(axis=0), entering))[0]
    within = -(-np.cumsum(np.bincount(hops[:, poorest])[1:]) * pieces // entering[poorest])
    # The last ranks are few: a round for each of them is kept free.
    within = np.minimum(within, least - len(within) + np.arange(1, len(within) + 1))
    return np.asarray(np.maximum(np.diff(within, prepend=0), 1))


def _stretched(budgets: Ints, more: int) -> Ints:
    """Return budgets of chunks on a link spread over ``more`` further rounds in proportion: [round].

    Each is one at least, so that the total may grow where there are more rounds than chunks.
    """
    total, rounds = np.concatenate([[0], np.cumsum(budgets)]), len(budgets)
    at = np.interp(np.linspace(0, rounds, rounds + more + 1), np.arange(rounds + 1), total)
    return np.asarray(np.maximum(np.diff(np.ceil(at - 1e-9)), 1), np.int64)


def _schedule_rounds(gather: Collective, fabric: Fabric, links: GridLinks, rounds: _Rounds) -> Schedule:
    """Return an all-gather in rounds as a schedule of steps, a step a round, not yet verified; ``links`` are those by
    which ``rounds`` number their rows' links."""
    rows = rounds.rows
    order = np.lexsort((rows.link, rows.round))
    at, link = rows.round[order], rows.link[order]
    none, count = np.zeros(len(at), np.int16), len(rounds.budgets)
    path = np.cumsum(run_begins(at, link), dtype=np.int32) - 1
    ends = links.source[link], links.destination[link], links.route[link]
    sent = Rows(at, path, *ends, none, none, rows.chunk[order], np.zeros(len(at), np.bool_))
    note = f"{count} rounds from neighbour to neighbour; every share travels in {rounds.pieces} pieces"
    chunks, folding = gather.ranks * rounds.pieces, None if rounds.folding.copies == 1 else rounds.folding
    received = assemble("synthesized", gather, fabric, sent, chunks=chunks, steps=count, folding=folding, notes=(note,))
    # Rows into the first period become those that leave it.
    return received if folding is None else received.moved(ends[0] // folding.period, back=True)


# Rounds and trees without barriers: links that join ranks send whatever is next as soon as its data is there.
#
# A step waits for the latency of the step before; without steps only the first chunk of a share does, and the others
# follow behind it. So an all-gather ends one latency after the poorest rank could have received everything, where a
# share takes longer than a latency, which is its bound.
#
# Whatever the size, a link serves the rows of such a schedule in the same order, so that its time is the most of
# linear functions of the size. Each time that one is played, the line of the chain of rows that ends last is kept: at
# another size the schedule takes no less, and is not played where another one is as fast.

_MOST_FLOWING_ROWS = 1 << 22
_NEAR = 1.001
"""Times the lower bound at which nothing further is tried."""
_ROUNDING = 1 - 1e-9

_lines: Latest[bytes, list[tuple[float, float]]] = Latest(256)
"""Lines below the times of the schedules that were played last: seconds with no bytes, and more for each byte."""


def flowing(collective: Collective, fabric: Fabric) -> tuple[Schedule, float]:
    """Return the fastest schedule found of an all-gather, reduce-scatter or all-reduce on links that join ranks, not
    yet verified, and its seconds.

    It is one of rounds from neighbour to neighbour, or of an all-reduce also over trees or by doubling, in steps or,
    but for doubling, without barriers between them. Nothing further is tried once a schedule takes at most 1.001 times
    the lower bound, or effort is spent.

    Raises:
        UnsupportedError: the fabric's links do not join ranks.
    """
    enough = lower_bound(collective, fabric).time * _NEAR
    best, least, played = None, float("inf"), 0
    for steps, pieces in _steps_and_pieces(collective, fabric):
        if busiest_link(steps, fabric) >= least:
            continue
        if pieces:
            schedule, seconds = _played(steps, fabric, pieces, least)
            played += len(steps) * pieces
        else:
            schedule, seconds = steps, cost(steps, fabric).time
        if schedule is not None and seconds < least:
            best, least = schedule, seconds
        if least <= enough or played > effort(fabric.ranks):
            break
    assert best is not None
    return best, least


def _played(steps: Schedule, fabric: Fabric, pieces: int, least: float) -> tuple[Schedule | None, float]:
    """Return steps without barriers, not yet verified, and their seconds; None and a floor of these seconds where the
    floor is not below ``least``.

    The floor comes from earlier plays at other sizes. A schedule that was played is returned even if it is not faster.

    Args:
        steps: in order.
        pieces: into which every chunk is cut.
        least: seconds of the fastest schedule so far.
    """
    nbytes, key = steps.collective.nbytes, b""
    # There is no floor where a row crosses several links.
    single = fabric.hops(*steps.ends(slice(None))).max(initial=1) == 1
    if single:
        columns = (steps.step, steps.source, steps.destination, steps.route, steps.chunk)
        key = digest((fabric_key(fabric), steps.collective.kind, steps.chunks, pieces), columns)
    lines = _lines.get(key, [])
    floor = max((latency + per_byte * nbytes for latency, per_byte in lines), default=0.0) * _ROUNDING
    if floor >= least:
        return None, floor
    if steps.folding is not None:
        # Copies may meet on a link: both ways along an axis of two ranks, or where ranks share a way out of a ring.
        unfolded = folded_to_hold(steps, fabric, _MOST_FLOWING_ROWS)
        if unfolded is None:
            return None, floor
        steps = unfolded
    schedule = without_barriers(steps, fabric, pieces)
    price, per_byte = queued_line(schedule, fabric)
    if single and per_byte > 0:
        _lines[key] = [*lines, (price.time - per_byte * nbytes, per_byte)]
    return schedule, price.time


def _steps_and_pieces(collective: Collective, fabric: Fabric) -> Iterator[tuple[Schedule, int]]:
    """Yield schedules of steps, not yet verified, each with the pieces into which its chunks are cut without barriers;
    0: as it is.

    First come doubling, of an all-reduce, and the fastest of all others as they are; then all of these others without
    barriers, in 1 piece, in 2 and in 4, as long as rows are not too many.
    """
    stepped = rounds_and_trees(collective, fabric)
    for steps in doubling(collective, fabric):
        yield steps, 0
    # With shares that take less than a latency, links wait in any case.
    yield min(stepped, key=lambda steps: cost(steps, fabric).time), 0
    for pieces in _PIECES:
        for steps in stepped:
            if pieces == 1 or len(steps) * pieces <= _MOST_FLOWING_ROWS:
                yield steps, pieces
