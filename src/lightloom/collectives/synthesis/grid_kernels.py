"""Compiled loops over grids: chunks up and down trees, and rounds from neighbour to neighbour."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from lightloom.collectives.synthesis.grid_links import PeriodLinks
from lightloom.core.arrays import Column, Int32s, Ints, Mask
from lightloom.core.kernels import njit_cached, njit_without_arrays


class ReduceRows(NamedTuple):
    """Which rank sends which chunk in which round, and whether it is added: arrays [row]."""

    round: Int32s
    source: Int32s
    destination: Int32s
    chunk: Int32s
    adds: Mask


@njit_cached
def pipeline(parent: Int32s, first: Ints, child: Ints, tree: Ints, rows: ReduceRows) -> int:
    """Write the rows by which sums of every chunk run up its tree and their total runs down; return the number of
    rounds.

    Every link carries at most one chunk a round each way, of those that are ready the one of the lowest number.

    Args:
        parent: next rank on the way to the root, −1 at the root: [tree, rank]. A rank has at most four neighbours in
            all trees together.
        first, child: children of each rank in each tree as compressed rows: those of rank r in tree t are
            ``child[t, first[t, r]:first[t, r + 1]]``.
        tree: tree of each chunk, [chunk].
        rows: out, round from 0, source, destination, chunk, and True for sums on their way up, in the order of rounds:
            [2 · (ranks − 1) · chunks].
    """
    ranks, chunks = parent.shape[1], len(tree)
    awaited = np.zeros((chunks, ranks), np.int8)
    # A link is named by its ends, of which a rank has few: its queue is found by looking through them.
    ends = np.full((ranks, 4), -1, np.int32)
    queues = [[0] for _ in range(4 * ranks)]
    for queue in queues:
        queue.pop()
    for chunk in range(chunks):
        t = tree[chunk]
        for rank in range(ranks):
            awaited[chunk, rank] = first[t, rank + 1] - first[t, rank]
            if not awaited[chunk, rank]:
                heapq.heappush(queues[_queue(ends, rank, np.int64(parent[t, rank]))], chunk)
    count, now = 0, 0
    while count < len(rows.round):
        begin = count
        for rank in range(ranks):
            for k in range(4):
                queue = queues[4 * rank + k]
                if len(queue):
                    chunk = heapq.heappop(queue)
                    rows.round[count], rows.source[count], rows.destination[count] = now, rank, ends[rank, k]
                    rows.chunk[count], rows.adds[count] = chunk, parent[tree[chunk], rank] == ends[rank, k]
                    count += 1
        for row in range(begin, count):
            rank, summed = rows.destination[row], np.int64(rows.chunk[row])
            t = tree[summed]
            if rows.adds[row]:
                awaited[summed, rank] -= 1
                if awaited[summed, rank]:
                    continue
                if parent[t, rank] >= 0:
                    heapq.heappush(queues[_queue(ends, np.int64(rank), np.int64(parent[t, rank]))], summed)
                    continue
            for i in range(first[t, rank], first[t, rank + 1]):
                heapq.heappush(queues[_queue(ends, np.int64(rank), np.int64(child[t, i]))], summed)
        now += 1
    return now


@njit_without_arrays
def _queue(ends: Int32s, rank: int, to: int) -> int:
    """Return the number of the queue of the link from ``rank`` to rank ``to``, 4 · rank + place in ``ends``; −1 for a
    fifth neighbour.

    ``ends`` [rank, 4] lists the neighbours of each rank met so far, −1 filling up; a new one is added.
    """
    for k in range(4):
        if ends[rank, k] < 0:
            ends[rank, k] = to
        if ends[rank, k] == to:
            return 4 * rank + k
    return -1


# Compiled loops of rounds: distances, and which chunk every link carries in every round.


class GatherRows(NamedTuple):
    """Round, link and chunk of every transfer: arrays [row]."""

    round: Int32s
    link: Int32s
    chunk: Int32s


class _Flood(NamedTuple):
    """State of a flood: who has what, and what waits for whom; ranks are those of the first period.

    Chunks on offer wait in lists, one for each rank and distance that they lead through it, first come first.
    """

    has: Mask
    """True where a rank has a chunk: [rank, chunk]."""
    offered: Mask
    """True where a rank has a chunk or a neighbour has offered it: [rank, chunk]."""
    first: Int32s
    """First chunk of each list, the farthest distance first, −1 where it is empty: [rank, list]."""
    last: Int32s
    """Last chunk of each list that is not empty: [rank, list]."""
    following: Int32s
    """Chunk after a chunk in its list, −1 at the end: [rank, chunk]."""
    left: Ints
    """Chunks that a rank still lacks: [rank]."""


class _Turn(NamedTuple):
    """Links over which one rank receives in one round."""

    first: int
    """First link that enters the rank."""
    entering: int
    """How many links do."""
    budget: int
    """Most chunks on each of them."""


class _Match(NamedTuple):
    """Chunks of one rank and round, and the links that bring them."""

    chosen: Ints
    """Chunks that are taken."""
    by: Ints
    """The link that brings each of them."""
    load: Ints
    """Chunks on each link that enters: [link]."""
    parent: Ints
    """The link that would take a chunk from each link, −1 at the first and −2 where none does: [link]."""
    via: Ints
    """The place of that chunk: [link]."""
    closed: Mask
    """True for links that are full and stay so: their chunks may take none but such links, [link]."""


@njit_cached
def distances(first_out: Ints, head: Ints, hops: Column, beyond: Column) -> None:
    """Count the links on the shortest ways between all ranks, and how much farther the shortest ways through a rank
    lead.

    Args:
        first_out: first entry of ``head`` of each rank: [rank + 1].
        head: rank at the other end of each link, ordered by the rank that the link leaves: [link].
        hops: out, links from source to rank: [source, rank]; −1 where no way leads.
        beyond: out, links from a rank to the farthest one that a shortest way from the source reaches through it:
            [source, rank].
    """
    ranks = len(first_out) - 1
    order = np.empty(ranks, np.int64)
    for source in range(ranks):
        hops[source, :] = -1
        beyond[source, :] = 0
        hops[source, source] = 0
        order[0], count, at = source, 1, 0
        while at < count:
            rank = order[at]
            at += 1
            for link in range(first_out[rank], first_out[rank + 1]):
                if hops[source, head[link]] < 0:
                    hops[source, head[link]] = hops[source, rank] + 1
                    order[count] = head[link]
                    count += 1
        for i in range(count - 1, -1, -1):
            rank = order[i]
            for link in range(first_out[rank], first_out[rank + 1]):
                if hops[source, head[link]] == hops[source, rank] + 1:
                    beyond[source, rank] = max(beyond[source, rank], beyond[source, head[link]] + 1)


@njit_cached
def flood(links: PeriodLinks, beyond: Column, pieces: int, budgets: Ints, rows: GatherRows) -> int:
    """Write the rows by which the ranks of the first period receive in an all-gather in which links carry what has
    farthest to go; return the number of rounds, −1 where some chunk gets no farther.

    All other ranks receive what has the same place in their copies, in the same rounds.

    In round r every link carries at most ``budgets[r]`` chunks, in later rounds as many as the neediest rank asks for.
    Each rank gives its incoming links the chunks that lead farthest through it, as many as a maximum matching of chunks
    and links holds.

    Args:
        links: links of the ranks of the first period, by the rank that they enter; at least one enters every rank.
        beyond: links from a rank to the farthest one that a shortest way from the source reaches through it: [source,
            rank].
        pieces: chunks of each rank.
        budgets: most chunks on a link: [round].
        rows: out, round from 0, link and chunk of each row, by round: [ranks of a period · (ranks − 1) · pieces].
    """
    ranks, chunks, lists = len(links.entering) - 1, links.back.shape[1], int(beyond.max()) + 1
    state = _Flood(
        np.zeros((ranks, chunks), np.bool_),
        np.zeros((ranks, chunks), np.bool_),
        np.full((ranks, lists), -1, np.int32),
        np.empty((ranks, lists), np.int32),
        np.empty((ranks, chunks), np.int32),
        np.full(ranks, chunks - pieces),
    )
    own = np.arange(ranks * pieces)
    _arrive(links, state, beyond, pieces, own // pieces, own)
    entering = links.entering[1:] - links.entering[:-1]
    chosen, by = np.empty((2, chunks), np.int64)
    load, parent, via = np.empty((3, int(entering.max())), np.int64)
    match = _Match(chosen, by, load, parent, via, np.empty(len(load), np.bool_))
    # Integers from an array: for literal ones all that is called would be compiled once more.
    count = now = 0 * ranks
    while count < len(rows.round):
        budget = budgets[now] if now < len(budgets) else max(1, int((-(-state.left // entering)).max()))
        begin = count
        for rank in range(ranks):
            for i in range(_take(links, state, match, rank, budget)):
                rows.round[count], rows.link[count], rows.chunk[count] = now, match.by[i], match.chosen[i]
                count += 1
        if count == begin:
            return -1
        now += 1
        receiver = np.searchsorted(links.entering, rows.link[begin:count], side="right") - 1
        _arrive(links, state, beyond, pieces, receiver, rows.chunk[begin:count].astype(np.int64))
        for rank in receiver:
            state.left[rank] -= 1
    return now


@njit_without_arrays
def _arrive(links: PeriodLinks, state: _Flood, beyond: Column, pieces: int, receiver: Ints, arrived: Ints) -> None:
    """Note that ranks ``receiver`` have received chunks ``arrived``, [arrival] each, and put each chunk on the lists of
    the neighbours that it has not been offered to yet; of a neighbour in another copy, the chunk in its place in the
    first one on the list of the rank there.

    Args:
        state: who has which chunk, and the lists of chunks offered to each rank, changed in place; chunks that a rank
            lacks are not counted down.
        beyond: links from a rank to the farthest one that a shortest way from the source reaches through it, by which
            a neighbour's list is chosen: [source, rank].
        pieces: chunks of each rank.
    """
    # Local names, since a call for each chunk with all these arrays would cost more than what it does.
    has, offered, first, last, following = state.has, state.offered, state.first, state.last, state.following
    leaving, head, row, back, lists = links.leaving, links.head, links.receiver, links.back, first.shape[1]
    for i in range(len(arrived)):
        has[receiver[i], arrived[i]] = offered[receiver[i], arrived[i]] = True
    for i in range(len(arrived)):
        for link in range(leaving[receiver[i]], leaving[receiver[i] + 1]):
            to, chunk = head[link], np.int64(back[row[link], arrived[i]])
            if offered[to, chunk]:
                continue
            offered[to, chunk] = True
            place = lists - 1 - beyond[chunk // pieces, to]
            if first[to, place] < 0:
                first[to, place] = chunk
            else:
                following[to, last[to, place]] = chunk
            following[to, chunk] = -1
            last[to, place] = chunk


@njit_cached
def _take(links: PeriodLinks, state: _Flood, match: _Match, rank: int, budget: int) -> int:
    """Match as many chunks as possible, in the order of the rank's lists, to links into the rank, at most ``budget``
    each; return the number of chunks matched.

    Matched chunks and their links go to ``match``, and the chunks leave their lists in ``state``, which also says which
    neighbour has which chunk, as only those that have a chunk can send it. Links that a search for room has reached in
    vain are closed, as no search that enters them leaves them again: so at most as many searches fail as links enter
    the rank.
    """
    turn = _Turn(links.entering[rank], links.entering[rank + 1] - links.entering[rank], budget)
    has, first, last, following = state.has, state.first[rank], state.last[rank], state.following[rank]
    last_link = turn.first + turn.entering
    source, sender = links.source[turn.first : last_link], links.sender[turn.first : last_link]
    load, closed, back = match.load, match.closed, links.back
    load[:] = 0
    closed[:] = False
    taken = 0 * budget
    for place in range(len(first)):
        before, chunk = np.int64(-1), np.int64(first[place])
        while chunk >= 0:
            if taken == budget * turn.entering:
                return taken
            link, full = -1, False
            for k in range(turn.entering):
                if closed[k] or not has[source[k], back[sender[k], chunk]]:
                    continue
                full = True
                if load[k] < budget and (link < 0 or load[k] < load[link]):
                    link = k
            if link >= 0:
                load[link] += 1
            elif full:
                link = _make_room(links, state, match, turn, taken, chunk)
            after = np.int64(following[chunk])
            if link < 0:
                before, chunk = chunk, after
                continue
            match.chosen[taken], match.by[taken] = chunk, turn.first + link
            taken += 1
            if before < 0:
                first[place] = after
            else:
                following[before] = after
            if after < 0:
                last[place] = before
            chunk = after
    return taken


@njit_cached
def _make_room(links: PeriodLinks, state: _Flood, match: _Match, turn: _Turn, taken: int, chunk: int) -> int:
    """Return a link that can carry a chunk, counted from the first into the rank, once matched chunks are moved to
    other links, which is done here; −1 where there is none, and then the links that the search reached are closed.

    Links that could carry it are full: some chunk of theirs may take another link instead. The link returned counts the
    chunk in its load already, but the chunk is not yet among the matched ones.

    Args:
        match: the chunks matched so far, of which the first ``taken`` count, changed in place.
        turn: links into the rank, and the most chunks on each.
    """
    match.parent[:] = -2
    queue, begin, end = np.empty(turn.entering, np.int64), 0, 0
    for k in range(turn.entering):
        if not match.closed[k] and _sends(links, state, turn.first + k, chunk):
            match.parent[k] = -1
            queue[end] = k
            end += 1
    free = -1
    while begin < end and free < 0:
        full = queue[begin]
        begin += 1
        for j in range(taken):
            if match.by[j] - turn.first != full:
                continue
            for k in range(turn.entering):
                if match.parent[k] == -2 and _sends(links, state, turn.first + k, match.chosen[j]):
                    match.parent[k], match.via[k] = full, j
                    queue[end] = k
                    end += 1
                    if match.load[k] < turn.budget and free < 0:
                        free = k
    if free < 0:
        for i in range(end):
            match.closed[queue[i]] = True
        return -1
    match.load[free] += 1
    while match.parent[free] >= 0:
        match.by[match.via[free]] = turn.first + free
        free = match.parent[free]
    return free


@njit_without_arrays
def _sends(links: PeriodLinks, state: _Flood, link: int, chunk: int) -> bool:
    """Return True if the rank at the other end of a link into a rank of the first period has a chunk."""
    return bool(state.has[links.source[link], links.back[links.sender[link], chunk]])
